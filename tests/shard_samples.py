"""Pictures in the forms that sources read: files, tars, Parquet, an S3 server."""

import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from avow.retrieval.library import Library

ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}


def png(number: int) -> bytes:
    """A picture of sixteen colours."""
    tones = np.random.default_rng(number).integers(0, 255, (4, 4, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(tones).resize((32, 32), Image.Resampling.NEAREST).save(out, "png")
    return out.getvalue()


def write_tar(path: Path, members: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))


def write_folder(folder: Path, count: int, first: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        (folder / f"{number:05}.png").write_bytes(png(number))
    return folder


def contents(index: Path) -> dict[str, tuple]:
    """Everything that two equal indexes have in common, by path and part, with its row."""
    with Library.open(index) as library:
        ids = library.find()
        items = library.items(ids)
        return {
            f"{item.path}|{item.part}": (
                *(item.id, item.kind, item.content, item.width, item.tags),
                vector.tobytes(),
            )
            for item, vector in zip(items, library.vectors(ids), strict=True)
        } | {f"skipped {one.path}": (one.why,) for one in library.skipped()}


@contextmanager
def s3_server(monkeypatch) -> Iterator[str]:
    """A server that speaks S3 over HTTP, for as long as the block lasts."""
    from moto.server import ThreadedMotoServer

    for name, value in ACCOUNT.items():
        monkeypatch.setenv(name, value)
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    try:
        yield address
    finally:
        server.stop()
