"""Time of scoring and of training, method by method, beside the machine's matrix rate.

    python -m benchmarks.speed.methods --images 100 --captions 500 --only sgr saf scan_t2i
    python -m benchmarks.speed.methods --device cuda --precision bf16
    python -m benchmarks.speed.methods --device cuda --precision tf32 --train --only sgr

Weights are random and items are shaped like Flickr30K's. Scoring begins with encoded items.
`seconds` has them in host memory, as `avow evaluate` does; `resident` has them on the device.
A fraction is the arithmetic of our way (counted by formula, see `_flops`) per second, over
what one large product of matrices reaches just before and after in the same precision. On
a processor it is also given in the seconds that the processor itself spent, which other
programs do not lengthen, and so is `ratio`. That compares with the loop over captions of
published systems (see `_plain`), in float32, run on some captions and scaled up to all.

`--train` times a step of TCL: two networks, without and with three steps of agreement.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from avow import losses, methods
from avow.assembly.recipe import Training
from avow.assembly.scores import Blocks, Precision, compare, multiplying, similarity
from avow.blocks import fused
from avow.core import folder
from avow.core.contracts import Encoded, Lesson, Method, Regions, Tokens
from avow.training.batches import Batch
from avow.training.compare import Comparison
from avow.training.graphs import Graphed
from avow.training.loop import Learner
from avow.training.optim import build_optimiser
from benchmarks._flops import score_flops
from benchmarks._plain import plain_scores
from benchmarks._report import keep, sizes_parser

METHODS: dict[str, dict[str, Any]] = {
    "vsepp": {},
    "vse_infty": {},
    "vsrn": {},
    "dive": {},
    "scan_t2i": {"direction": "t2i"},
    "scan_i2t": {"direction": "i2t", "smooth": 4.0},
    "acmnet_gt": {"grounded": "text"},
    "acmnet_gi": {"grounded": "image", "smooth": 4.0},
    "saf": {},
    "sgr": {},
    "gsmn": {},
    "imram_text": {"mode": "text"},
    "imram": {"mode": "full"},
    "imram_bf16": {"mode": "full", "memory_bf16": True},
}
NARROW = ("saf", "sgr")
OTHER_CHOICES = [
    ("compare", {"num_stages": 2}),
    ("compare", {"DEEP": 32, "num_stages": 4}),
    ("compare", {"ROWS": 64, "num_warps": 4, "num_stages": 2}),
    ("reason", {"num_stages": 2}),
    ("reason", {"WIDE": 32, "num_stages": 3}),
    ("reason", {"ROWS": 64, "num_warps": 4, "num_stages": 2}),
    ("attend", {"num_warps": 8}),
    ("attend", {"ROWS": 128, "num_warps": 8}),
    ("hear", {"num_warps": 2}),
    ("gate", {"num_warps": 2}),
]
WORDS = 8000
PRECISIONS = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
Clock = Callable[[], float]


def main() -> None:
    parser = sizes_parser(__doc__, images=1000, captions=5000, regions=36, dim=1024)
    parser.add_argument("--sim-dim", type=int, default=256)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=PRECISIONS)
    parser.add_argument("--only", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--most", type=float, default=60, help="seconds of repeats each")
    parser.add_argument("--plain", type=int, default=20, help="captions of the plain loop")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--no-fused", action="store_true", help="operation by operation")
    parser.add_argument("--profile", action="store_true", help="which kernels take how long")
    parser.add_argument("--tune", action="store_true", help="time other sizes of kernels")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--out", default="", help="name of the results; default: by device")
    chosen = parser.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    if chosen.no_fused:
        fused.is_possible = lambda like: False
    name = chosen.out or f"speed_{chosen.device}_{chosen.precision}"
    name += "_train" if chosen.train else ""
    setting = {key: value for key, value in vars(chosen).items() if key not in ("out", "only")}
    figures: dict[str, Any] = {"setting": setting, "methods": {}}
    print(TRAIN_HEAD if chosen.train else SCORE_HEAD, flush=True)
    for method in chosen.only:
        found = (train_figures if chosen.train else score_figures)(method, chosen)
        figures["methods"][method] = found
        print((train_line if chosen.train else score_line)(method, found), flush=True)
        keep(name, figures)  # after every method: a run that is stopped leaves what it has
    print(f"-> {keep(name, figures)}")


def build(name: str, chosen: argparse.Namespace) -> Method:
    torch.manual_seed(0)
    module = name if name in folder.names(methods) else name.rpartition("_")[0]
    more = {"similarity_dim": chosen.sim_dim} if name in NARROW else {}
    sizes = {"visual_dim": chosen.dim, "vocabulary": WORDS, "dim": chosen.dim}
    known = folder.settings(methods, module)
    still = {key: 0.0 for key in known if key.startswith("dropout_")}
    return folder.build(methods, module, **sizes, **more, **still, **METHODS[name])


# --- items ------------------------------------------------------------------------------


def some_lengths(count: int, seed: int = 0) -> torch.Tensor:
    """Captions of about 12 words, some short and some long."""
    draw = torch.Generator().manual_seed(seed)
    return (torch.randn(count, generator=draw) * 3.5 + 12).round().long().clamp(4, 26)


def some_regions(count: int, regions: int, dim: int, seed: int = 0) -> Regions:
    draw = torch.Generator().manual_seed(seed)
    features = torch.randn(count, regions, dim, generator=draw).relu()
    corners = torch.rand(count, regions, 2, 2, generator=draw).sort(2).values
    present = torch.ones(count, regions, dtype=torch.bool)
    return Regions(features, present, corners.flatten(2))


def some_tokens(lengths: torch.Tensor, seed: int = 0) -> Tokens:
    draw = torch.Generator().manual_seed(seed)
    inside = torch.arange(int(lengths.max()))[None] < lengths[:, None]
    ids = torch.randint(1, WORDS, inside.shape, generator=draw)
    return Tokens(ids * inside, inside)


@torch.inference_mode()
def encoded(
    method: Method, chosen: argparse.Namespace, lengths: torch.Tensor
) -> tuple[Encoded, Encoded]:
    """Both sides on the device."""
    visual = some_regions(chosen.images, chosen.regions, chosen.dim).to(chosen.device)
    text = some_tokens(lengths).to(chosen.device)
    return method.encode_visual(visual), method.encode_text(text)


# --- scoring ----------------------------------------------------------------------------

SCORE_HEAD = (
    f"{'method':<11} {'seconds':>8} {'resident':>8} {'TFLOP':>8} {'GFLOP/s':>9} "
    f"{'matrix':>9} {'reached':>8} {'own time':>8} {'plain s':>9} {'ratio':>7} "
    f"{'own time':>8} {'peak MB':>8}"
)


def score_figures(name: str, chosen: argparse.Namespace) -> dict[str, Any]:
    method = build(name, chosen).to(chosen.device).eval()
    lengths = some_lengths(chosen.captions)
    there = encoded(method, chosen, lengths)
    images, texts = (items.to("cpu") for items in there)
    blocks = Blocks(images=chosen.images, texts=chosen.captions, precision=chosen.precision)

    @torch.inference_mode()
    def resident() -> None:
        similarity(method, *there, chosen.precision)

    fused.ran.clear()
    forget_peak(chosen.device)
    resident()  # a warm-up
    if chosen.profile:
        profile(resident, chosen.device)
    if chosen.tune:
        tune(resident, chosen.device)
    peak = peak_bytes(chosen.device)
    bill = score_flops(method, chosen.images, lengths.tolist(), chosen.regions, chosen.dim)
    times, owns, rates, shares = [], [], [], []
    deadline = time.monotonic() + chosen.most
    while len(times) < chosen.repeats and (not times or time.monotonic() < deadline):
        before = matrix_rate(chosen.device, chosen.precision)
        wall, own = timed(resident, chosen.device)
        after = matrix_rate(chosen.device, chosen.precision)
        times.append(wall)
        owns.append(own)
        rates.append((before[0] + after[0]) / 2)
        shares.append((bill / wall / rates[-1], bill / own / ((before[1] + after[1]) / 2)))
    rounds = 1 if chosen.device == "cpu" else 3
    whole = statistics.median(
        timed(lambda: compare(method, images, texts, chosen.device, blocks), chosen.device)[0]
        for _ in range(rounds)
    )
    plain = plain_seconds(method, there, chosen)
    seconds = statistics.median(times)
    return {
        "seconds": round(whole, 4),
        "resident": round(seconds, 4),
        "repeats": len(times),
        "flop": bill,
        "gflops": round(bill / seconds / 1e9, 1),
        "matrix_gflops": round(statistics.median(rates) / 1e9, 1),
        "fraction": round(statistics.median(share for share, _ in shares), 4),
        "fraction_own_time": round(statistics.median(share for _, share in shares), 4)
        if chosen.device == "cpu"
        else None,
        "plain_seconds": round(plain[0], 3),
        "ratio": round(plain[0] / seconds, 2),
        "ratio_own_time": round(plain[1] / statistics.median(owns), 2)
        if chosen.device == "cpu"
        else None,
        "peak_mb": None if peak is None else round(peak / 1e6),
        "fused": sorted(fused.ran),
        "why_not_fused": why_not_fused(name, there[0], chosen),
    }


def score_line(name: str, found: dict[str, Any]) -> str:
    own = found["fraction_own_time"]
    return (
        f"{name:<11} {found['seconds']:>8.3f} {found['resident']:>8.3f} "
        f"{found['flop'] / 1e12:>8.3f} {found['gflops']:>9.1f} {found['matrix_gflops']:>9.1f} "
        f"{found['fraction']:>8.1%} {'-' if own is None else f'{own:.1%}':>8} "
        f"{found['plain_seconds']:>9.2f} {found['ratio']:>7.2f} "
        f"{found['ratio_own_time'] or '-':>8} {found['peak_mb'] or '-':>8}"
    )


def why_not_fused(name: str, items: Encoded, chosen: argparse.Namespace) -> str:
    if name not in NARROW:
        return "the method has no kernels"
    if chosen.no_fused:
        return "asked not to"
    return fused.why_not(items.parts[:1].to(PRECISIONS[chosen.precision]))


def tune(work: Callable[[], None], device: str) -> None:
    """The time of `work` with each other choice of sizes, and with none, first and last."""
    usual: tuple[str, dict[str, int]] = ("compare", {})
    for kernel, change in (usual, *OTHER_CHOICES, usual):
        before = fused.CHOICES[kernel]
        fused.CHOICES[kernel] = before | change
        work()  # compiles
        best = min(timed(work, device)[0] for _ in range(3))
        why = fused.why_not(torch.zeros(1, dtype=torch.bfloat16, device=device))
        print(f"  {best:.4f} s  {kernel} {change or 'as chosen'} {why}", flush=True)
        fused.CHOICES[kernel] = before
        fused.forget_failure()


def profile(work: Callable[[], None], device: str) -> None:
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device != "cpu":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds) as found:
        work()
        wait(device)
    order = "self_cpu_time_total" if device == "cpu" else "self_cuda_time_total"
    print(found.key_averages().table(sort_by=order, row_limit=25, max_name_column_width=60))


@torch.inference_mode()
def plain_seconds(
    method: Method, items: tuple[Encoded, Encoded], chosen: argparse.Namespace
) -> tuple[float, float]:
    """The loop over captions on some of them, for all of them; also in its own seconds."""
    visual, text = items
    few = text.rows(slice(0, chosen.plain))
    share = int(few.present.sum()) / int(text.present.sum())
    with multiplying("fp32"):
        plain_scores(method, visual, text.rows(slice(0, 2)))
        wall, own = timed(lambda: plain_scores(method, visual, few), chosen.device)
        return wall / share, own / share


# --- training ---------------------------------------------------------------------------

TRAIN_HEAD = (
    f"{'method':<11} {'ms, no agreement':>17} {'ms, 3 steps':>12} {'TFLOP/s':>8} "
    f"{'matrix':>8} {'reached':>8} {'recorded':>9} {'peak MB':>8}"
)


def train_figures(name: str, chosen: argparse.Namespace) -> dict[str, Any]:
    none, peak, why_not = step_seconds(name, chosen, agreement_steps=0)
    three, more, _ = step_seconds(name, chosen, agreement_steps=3)
    lengths = torch.cat([some_lengths(chosen.batch, step) for step in range(4)]).tolist()
    method = build(name, chosen)
    # forward and backward: three times; two networks
    bill = 6 * score_flops(method, chosen.batch, lengths, chosen.regions, chosen.dim) / 4
    rate, _ = matrix_rate(chosen.device, chosen.precision)
    return {
        "ms_without_agreement": round(1000 * none, 1),
        "ms_with_three": round(1000 * three, 1),
        "compare_flop": bill,
        "tflops": round(bill / none / 1e12, 2),
        "matrix_tflops": round(rate / 1e12, 2),
        "fraction": round(bill / none / rate, 4),
        "recorded": not why_not,
        "why_not_recorded": why_not,
        "peak_mb": None if peak is None or more is None else round(max(peak, more) / 1e6),
    }


def train_line(name: str, found: dict[str, Any]) -> str:
    return (
        f"{name:<11} {found['ms_without_agreement']:>17.1f} {found['ms_with_three']:>12.1f} "
        f"{found['tflops']:>8.2f} {found['matrix_tflops']:>8.2f} {found['fraction']:>8.1%} "
        f"{found['recorded']!s:>9} {found['peak_mb'] or '-':>8}"
    )


def step_seconds(
    name: str, chosen: argparse.Namespace, agreement_steps: int
) -> tuple[float, int | None, str]:
    """The median batch, the most memory, and why it is not replayed as a graph."""
    device = torch.device(chosen.device)
    settings = Training(batch=chosen.batch, precision=chosen.precision)
    views = [build(name, chosen).to(device) for _ in range(2)]
    accelerator = Accelerator(cpu=device.type == "cpu")
    comparison, optimiser = accelerator.prepare(
        Comparison(views, bf16=chosen.precision == "bf16"), build_optimiser(views, settings)
    )
    if device.type == "cuda":
        comparison = Graphed(comparison)
    loss = folder.build(losses, "tcl", agreement_steps=agreement_steps)
    learner = Learner(accelerator, comparison, views, loss, optimiser, settings)
    batches = [some_batch(step, chosen) for step in range(4)]
    forget_peak(chosen.device)
    with multiplying(chosen.precision):
        for batch in batches:
            learner.learn(batch)
        times, deadline = [], time.monotonic() + chosen.most
        while len(times) < 4 * chosen.repeats and (not times or time.monotonic() < deadline):
            batch = batches[len(times) % len(batches)]
            times.append(timed(lambda batch=batch: learner.learn(batch), chosen.device)[0])
    why_not = comparison.why_not if isinstance(comparison, Graphed) else "no CUDA device"
    return statistics.median(times), peak_bytes(chosen.device), why_not


def some_batch(step: int, chosen: argparse.Namespace) -> Batch:
    lengths = some_lengths(chosen.batch, step)
    visual = some_regions(chosen.batch, chosen.regions, chosen.dim, step)
    lesson = Lesson.paired(chosen.batch, epoch=3, step=step, views=2)
    there = Lesson(
        lesson.pairs.to(chosen.device),
        lesson.match.to(chosen.device),
        lesson.trust.to(chosen.device),
        lesson.epoch,
        step,
    )
    text = some_tokens(lengths, step)
    return Batch(visual.to(chosen.device), text.to(chosen.device), there)


# --- the machine ------------------------------------------------------------------------


def matrix_rate(device: str, precision: Precision) -> tuple[float, float]:
    """Multiplications and additions per second, and per second of the processor's own."""
    size, count = (1536, 3) if device == "cpu" else (8192, 10)
    kind = PRECISIONS[precision]
    one, other = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    out = torch.empty_like(one)

    def multiply() -> None:
        for _ in range(count):
            torch.mm(one, other, out=out)

    with multiplying(precision):
        torch.mm(one, other, out=out)
        wall, own = timed(multiply, device)
    bill = 2.0 * count * size**3
    return bill / wall, bill / own


def timed(work: Callable[[], object], device: str) -> tuple[float, float]:
    """Seconds, and seconds that this program's own threads spent."""
    wait(device)
    started, begun = time.perf_counter(), time.process_time()
    work()
    wait(device)
    return time.perf_counter() - started, time.process_time() - begun


def wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def forget_peak(device: str) -> None:
    """Begin to count anew, without what the method before has left behind."""
    gc.collect()  # a recording and its networks know each other
    if device != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return
    try:
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts anew
    except OSError:
        return


def peak_bytes(device: str) -> int | None:
    """The most memory since `forget_peak`; on a processor that of the whole program."""
    if device != "cpu":
        return torch.cuda.max_memory_allocated()
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(x.split()[1]) for x in lines if x.startswith("VmHWM")), None)


if __name__ == "__main__":
    main()
