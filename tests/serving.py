"""A real index of real photographs with a model that was taught them, for tests of serving.

The photographs come with scikit-image and scikit-learn, the captions with Avow. The model
is small and learns in seconds what is on eighteen pictures; nothing is claimed from it.
"""

import copy
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image

from avow import backbones
from avow.api import Limits
from avow.api.connections import server_of
from avow.assembly.model import Model, build_tokeniser, build_views
from avow.assembly.photographs import grid_regions, open_photograph
from avow.assembly.recipe import Recipe
from avow.core import folder
from avow.core.contracts import Lesson, Regions
from avow.data.captions import TokenTable
from avow.data.readers.sample import build as open_sample
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from avow.trust.judgements import Conditions, verdicts
from avow.trust.policy import Judgements, Policy
from avow.trust.risk_control import Promise
from avow.trust.top_k import TopKSummary

LONG = 600.0  # seconds: it only ends a test that would hang
_WAITS = ("seconds", "header_seconds", "body_seconds", "request_seconds", "answer_seconds")
PATIENT = replace(Limits(), **dict.fromkeys(_WAITS, LONG))
"""Limits that no machine is too slow for."""
SIZE, GRID, EDGE, ROUNDS = 128, 3, 320, 4
CAT = "a cat with long whiskers"
ROCKET = "a rocket stands on its launch pad at dusk"
ELEPHANT = "an elephant drinking from a river"
RECIPE = {
    "data": {"name": "sample"},
    "features": {"backbone": "efficientnet_lite0", "size": SIZE, "grid": GRID},
    "method": {"name": "vse_infty", "text": "minilm", "dim": 128},
    "loss": {"name": "tcl", "tau": 0.05, "kl_rate": 0.1, "agreement_steps": 0},
}


@cache
def index_once(base: Path) -> Path:
    """The index below `base`, made when first asked for; its pictures lie beside it."""
    place = base / "serving"
    split = open_sample().splits["train"]
    photographs = [_small(file) for file in split.files or ()]
    (place / "pictures").mkdir(parents=True)
    for file, photograph in zip(split.files or (), photographs, strict=True):
        photograph.save(place / "pictures" / f"{file.stem}.jpg", quality=88)
    (place / "pictures" / "broken.jpg").write_bytes(b"no picture at all")
    (place / "pictures" / "notes.txt").write_text("a coffee cup on a saucer")
    # one of several processes of pytest-xdist teaches, the others take what it learnt
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    if not (shared / "taught").is_dir():
        fresh = shared / f"taught-{os.getpid()}"
        model = _taught(photographs, list(split.captions), split.image_of.tolist())
        model.save_pretrained(fresh)
        with suppress(OSError):  # another was quicker
            fresh.rename(shared / "taught")
    shutil.copytree(shared / "taught", place / "model")
    index_folders(
        [place / "pictures"],
        index=place / "index",
        encoder=encoder_of(place / "index"),
    )
    return place / "index"


@cache
def encoder_of(index: Path) -> Any:
    """The model of the index, opened once; building its networks takes seconds.

    Copies of the index have the same pictures, which it sees once.
    """
    encoder, known = open_encoder(str(index.parent / "model")), {}
    encode = encoder.encode_prepared

    def remembered(pixels: np.ndarray) -> np.ndarray:
        key = hashlib.sha256(pixels.tobytes()).digest()
        if key not in known:
            known[key] = encode(pixels)
        return known[key]

    encoder.encode_prepared = remembered  # type: ignore[method-assign]
    return encoder


def opened(index: Path) -> Retriever:
    """A retriever of its own, with the model that others have too."""
    return Retriever(Library.open(index, encoder_of(index)), encoder_of(index))


def copy_of(index: Path, place: Path) -> Retriever:
    """An index of copies of the same pictures, to change them."""
    shutil.copytree(index.parent / "pictures", place / "pictures")
    encoder = encoder_of(index)
    index_folders([place / "pictures"], index=place / "index", encoder=encoder)
    return Retriever(Library.open(place / "index", encoder), encoder)


def write_pairs(pictures: Path, path: Path) -> Path:
    """Every caption of the sample with the picture it describes, as `avow calibrate` reads.

    Their first words: reading captions to the end is what takes time, and with fewer words
    too many would be the same query.
    """
    lines = []
    for part in ("train", "test"):
        split = open_sample().splits[part]
        for caption, image in zip(split.captions, split.image_of, strict=True):
            file = pictures / f"{(split.files or ())[image].stem}.jpg"
            query = " ".join(caption.split()[:5])
            lines.append(json.dumps({"query": query, "file": str(file)}))
    path.write_text("\n".join(lines), "utf-8")
    return path


def name_of(hit: dict) -> str:
    return Path(hit["path"]).stem


def _small(file: Path) -> Image.Image:
    photograph = open_photograph(file).convert("RGB")
    photograph.thumbnail((EDGE, EDGE))
    return photograph


def _taught(photographs: list[Image.Image], captions: list[str], of: list[int]) -> Model:
    torch.manual_seed(0)
    recipe = Recipe.from_dict("sample", json.loads(json.dumps(RECIPE)))
    backbone = folder.build(backbones, "efficientnet_lite0", size=SIZE).eval()
    tokeniser = build_tokeniser(recipe, captions)
    views = build_views(recipe, tokeniser, backbone.dim)
    seen = grid_regions(backbone, photographs, GRID, "cpu")
    regions = Regions(seen.features.clone(), seen.present.clone())
    first = {image: row for row, image in reversed(list(enumerate(of)))}
    table = TokenTable.from_captions(tokeniser, captions)
    loss = recipe.build_loss()
    for view in views:
        for parameter in view.pretrained_parameters():
            parameter.requires_grad_(False)
    readers = _read_once(views)
    fresh = [p for view in views for p in view.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(fresh, lr=2e-3)
    for step in range(4 * ROUNDS):
        rows = [first[image] + step % 4 for image in range(len(photographs))]
        tokens = table.tokens(torch.tensor(rows))

        def compare(tokens=tokens):
            return [
                view.similarity(view.encode_visual(regions), view.encode_text(tokens))
                for view in views
            ]

        lesson = Lesson.paired(len(photographs), step // 4, step, views=len(views))
        for value in loss.steps(compare, lesson):
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
    for reader in readers:
        del reader.forward  # the method of its class again
    visual = {"dim": backbone.dim, "parts": GRID**2, "identity": backbone.identity}
    return Model(recipe, [view.eval() for view in views], tokeniser, visual)


def _read_once(views: list[Any]) -> list[Any]:
    """Frozen text networks that read the same captions in every round read them once.

    The networks of all views are the same, so they share what they have read.
    """
    readers = [view.text.transformer for view in views]
    read, states = readers[0].forward, {}

    def forward(input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        key = tuple(input_ids.flatten().tolist())
        if key not in states:
            with torch.no_grad():
                states[key] = read(input_ids=input_ids, attention_mask=attention_mask)
        return states[key]

    for reader in readers:
        reader.forward = forward
    return readers


class Server:
    """A server in a thread, at a port of its own, as `avow serve` runs it."""

    def __init__(self, app: Any):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.place = self.listening.getsockname()
        self.address = f"http://127.0.0.1:{self.place[1]}"
        self.server = server_of(app)
        self.server.config.timeout_graceful_shutdown = 1
        self.thread = threading.Thread(target=self.server.run, args=[[self.listening]])

    def __enter__(self) -> str:
        self.thread.start()
        wait_until(lambda: self.server.started)
        return self.address

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.listening.close()


@contextmanager
def started(index: Path, *options: str, **variables: str) -> Iterator[tuple[str, Any]]:
    """`avow serve` as a process of its own: what it says first, and the process."""
    line = [sys.executable, "-m", "avow", "serve", "--index", str(index), "--port", "0"]
    with subprocess.Popen(
        [*line, *options],
        cwd=Path(__file__).parent.parent,
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline(), process
        finally:
            process.kill()


def wait_until(state: Callable[[], object], seconds: float = 300.0) -> None:
    """Poll until a state is reached; the bound only ends a test that would hang."""
    end = time.monotonic() + seconds
    while not state():
        assert time.monotonic() < end, "the state was not reached"
        time.sleep(0.01)


class Judging(Policy):
    """A policy with easy numbers: a similarity of 0.2 fits with one half.

    What a policy learns is tested where it is learnt; here, what becomes of its word.
    """

    conditions = Conditions(style="caption", smallest=10, largest=1000)
    usual_risks: ClassVar = {"questions": 0.1}
    held = None

    def __init__(self) -> None:
        pass

    def promised(
        self,
        risk: float,
        shown: int = 10,
        delta: float | None = 0.1,
        size: int | None = None,
        asked: str = "questions",
    ) -> Promise:
        answered = 0 if risk < 0.02 else round(100 * min(0.9, 0.3 + risk))
        why = "" if answered else "too few queries"
        threshold = 1 - risk if answered else None
        return Promise(threshold, risk, delta, "wrong", 100, 100, answered, 0, why)

    def number(self, *_: Any) -> None:
        """It cannot say how many fit."""

    def read(self, summary: TopKSummary, *_: Any) -> Any:
        """Nothing is read of a query but its hits."""
        return summary

    def judge(
        self,
        summary: TopKSummary,
        words: Any = None,
        *,
        shown: int,
        risk: float | None = None,
        **_: Any,
    ) -> Judgements:
        together = np.asarray(summary.scores.mean(0), np.float64)[:, :shown]
        fits = 1 / (1 + np.exp(-(together - 0.2) / 0.03))
        promise = self.promised(risk or 0.1, shown)
        return Judgements(
            order=np.tile(np.arange(fits.shape[1]), (len(fits), 1)),
            probability=fits,
            confidence=fits[:, 0],
            present=fits.max(1),
            verdicts=verdicts(promise.answers(fits[:, 0]), fits[:, 0] < 0.2),
            promises=[promise] * len(fits),
        )


def with_risks(policy: Policy, usual: dict[str, float]) -> Policy:
    """The same with usual risks of its own for kinds of questions."""
    other = copy.copy(policy)
    object.__setattr__(other, "usual_risks", usual)  # as a policy keeps them when asked first
    return other


def english(index: Path) -> Retriever:
    """A retriever that judges; its model, taught with English captions alone, says so."""
    encoder = copy.copy(encoder_of(index))
    encoder.english, encoder.vocabulary = True, None
    return judged(Retriever(Library.open(index, encoder), encoder))


def judged(retriever: Retriever) -> Retriever:
    """The same retriever with a policy for questions in words."""
    retriever.policy = lambda style, own=True: Judging() if own and style == "text" else None  # type: ignore[method-assign]
    return retriever
