"""A server that speaks S3, for sources that lie at URLs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_MAX_ATTEMPTS": "1",  # a server that has ended does not come back
}


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
