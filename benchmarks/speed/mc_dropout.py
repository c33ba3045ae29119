"""What MC-dropout costs beside one evaluation: 50 passes over 1,000 images x 5,000 texts.

    python -m benchmarks.speed.mc_dropout
    python -m benchmarks.speed.mc_dropout --dropout dropout_word --passes 5

Both directions are asked. With head dropout only, the encoders run once and a pass is
dropout, unit vectors, products and taking the pass into the measures; otherwise the side
that dropout touches is encoded in every pass. All parts are timed in the same run. The
weights are random and the sizes are real: 36 x 1,280 features, captions of about 12 words.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from avow import methods, uncertainty
from avow.assembly.evaluate import encode_captions, evaluate
from avow.assembly.pairs import some, whole
from avow.assembly.scores import Blocks, batches, compare, encode
from avow.assembly.stochastic.chance import KeptDropout
from avow.assembly.stochastic.passes import Passes
from avow.core import folder
from avow.core.contracts import Draw, Method, QueryBatch, Regions
from avow.core.device import best_device
from avow.core.seeds import seed_everything
from avow.data.captions import TokenTable
from benchmarks._report import keep

WORDS, REGIONS, WIDTH = 3000, 36, 1280
QUERIES = ("image", "text")
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
Clock = Callable[[], float]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--texts", type=int, default=5, help="per image")
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--passes", type=int, default=50)
    parser.add_argument("--dropout", default="dropout_head", help="setting of the method")
    parser.add_argument("--device", default=best_device())
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall", help="processor: on a busy machine"
    )
    chosen = parser.parse_args()
    clock = CLOCKS[chosen.clock]
    seed_everything(0)
    settings = {"visual_dim": WIDTH, "vocabulary": WORDS, "dim": chosen.dim}
    view = folder.build(methods, "vse_infty", **settings, **{chosen.dropout: 0.1})
    view = view.to(chosen.device).eval()
    images, table = make_images(chosen.images), make_texts(chosen.images * chosen.texts)
    owners = np.repeat(np.arange(chosen.images), chosen.texts)

    def evaluated() -> None:
        evaluate([score(view, images, table, chosen.device)], owners, draws=0)

    def passes() -> Passes:
        return Passes([view], images, table, KeptDropout([view]), chosen.device)

    evaluated()  # the first run of anything is slower
    evaluation = timed(evaluated, chosen.device, clock)
    ready = passes()
    queries = [query for query in QUERIES if moves(ready, query)]
    deterministic = timed(lambda: prepare(ready, queries), chosen.device, clock)
    every = {"image": (chosen.images, len(owners)), "text": (len(owners), chosen.images)}
    shapes = {query: every[query] for query in queries}
    stochastic = sum(one_pass(ready, query, shapes[query], clock) for query in queries)
    total = timed(lambda: measure_all(passes(), shapes, chosen.passes), chosen.device, clock)
    promised = deterministic + 1.1 * chosen.passes * stochastic
    figures = {
        "setting": f"vse_infty, gru, dim {chosen.dim}, {REGIONS} x {WIDTH}, {chosen.dropout}",
        "images": chosen.images,
        "texts": len(owners),
        "passes": chosen.passes,
        "directions": list(queries),
        "device": chosen.device,
        "threads": torch.get_num_threads(),
        "clock": chosen.clock,
        "evaluation_s": round(evaluation, 2),
        "deterministic_s": round(deterministic, 2),
        "one_pass_s": round(stochastic, 3),
        "whole_s": round(total, 2),
        "promised_s": round(promised, 2),
        "times_one_evaluation": round(total / evaluation, 2),
    }
    path = keep("mc_dropout", figures)
    print(f"evaluation {evaluation:.2f} s, deterministic part {deterministic:.2f} s")
    print(f"one pass {stochastic:.3f} s, {chosen.passes} passes in all {total:.2f} s")
    print(f"promised {promised:.2f} s; {total / evaluation:.2f} evaluations -> {path}")


def make_images(count: int) -> Regions:
    draw = torch.Generator().manual_seed(0)
    return whole(torch.rand(count, REGIONS, WIDTH, generator=draw), None)


def make_texts(count: int) -> TokenTable:
    """Captions with the lengths of Flickr8k's: about 12 words with start and end."""
    draw = torch.Generator().manual_seed(1)
    lengths = (torch.randn(count, generator=draw) * 3.5 + 12).round().long().clamp(4, 26)
    inside = torch.arange(int(lengths.max()))[None] < lengths[:, None]
    ids = (torch.randint(1, WORDS, inside.shape, generator=draw) * inside).int()
    word = torch.where(inside, torch.arange(inside.shape[1])[None], -1).short()
    return TokenTable(ids, word, lengths, False, 3, WORDS)


def score(view: Method, images: Regions, table: TokenTable, device: str) -> np.ndarray:
    """What `score_views` does, for features in memory."""
    blocks = Blocks()
    parts = (some(images, part) for part in batches(len(images.features), blocks.encode))
    visual = encode(view.encode_visual, parts, device)
    text = encode_captions(view, table, device, blocks.encode)
    return compare(view, visual, text, device, blocks)


def moves(ready: Passes, query: str) -> bool:
    """Whether the dropout touches this side's queries."""
    return any(items.is_random for items in ready._items[query])  # type: ignore[index]


def prepare(ready: Passes, queries: list[str]) -> None:
    """Everything that is encoded once."""
    for query in queries:
        ready.candidates(query)  # type: ignore[arg-type]
        for items in ready._items[query]:  # type: ignore[index]
            _ = items.drawer


def one_pass(
    ready: Passes, query: str, shape: tuple[int, int], clock: Clock, count: int = 9
) -> float:
    """Median seconds from one pass being asked for to the next, the measures included."""
    stamps: list[float] = []

    def clocked() -> Iterator[Draw]:
        for draw in ready.draws(query)():  # type: ignore[arg-type]
            wait(str(ready.device))
            yield draw
            wait(str(ready.device))
            stamps.append(clock())

    measure(clocked, shape, count, ready.device)
    return float(np.median(np.diff(stamps)))


def measure_all(ready: Passes, shapes: dict[str, tuple[int, int]], passes: int) -> None:
    for query, shape in shapes.items():
        measure(ready.draws(query), shape, passes, ready.device)  # type: ignore[arg-type]


def measure(
    draws: Callable[[], Iterator[Draw]],
    shape: tuple[int, int],
    passes: int,
    device: torch.device | str,
) -> None:
    probe = folder.build(uncertainty, "mc_dropout", passes=passes)
    scores = np.zeros((1, *shape), np.float32)
    probe.measure(QueryBatch(scores, own=0, draws=draws))


def timed(work: Callable[[], object], device: str, clock: Clock) -> float:
    wait(device)
    started = clock()
    work()
    wait(device)
    return clock() - started


def wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
