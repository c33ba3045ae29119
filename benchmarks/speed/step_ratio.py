"""Time a TCL training batch before and after networks worked together, side by side.

    python -m benchmarks.speed.step_ratio vse_infty --check --profile
    python -m benchmarks.speed.step_ratio sgr --precision bf16
    python -m benchmarks.speed.step_ratio imram gsmn

Two networks, batch 128, one step on the risk and three of agreement, in one process and on the
same batches. `before` has every network read captions by cuDNN's GRU, one direction after the
other, and compare as it did then; `after` has `train.kernels`, and `whole` has
`train.whole_batches` as well. `host` is how long the
processor takes to ask for a batch: if that is the time of a batch, the device waits for it.
`--check` first compares the gradients of both ways in float32 without rounding to tf32: the
largest difference of each parameter's, over the largest of its own. `--profile` says which
kernels take how long, `--host` what the processor does meanwhile.
"""

import argparse
import cProfile
import gc
import pstats
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from accelerate import Accelerator

from avow import losses
from avow.assembly.recipe import Training
from avow.assembly.scores import multiplying
from avow.blocks import fused
from avow.core import folder
from avow.core.contracts import Method
from avow.methods import _similarity_vectors, gsmn
from avow.methods._gaps import _ProjectedGaps
from avow.methods._learnt_nodes import Compared
from avow.training.batches import Batch
from avow.training.compare import Comparison
from avow.training.graphs import Graphed
from avow.training.loop import Learner
from avow.training.optim import build_optimiser
from avow.training.whole_batch import WholeBatches
from benchmarks._report import RESULTS, keep, machine, read
from benchmarks.speed.methods import METHODS, build, some_batch
from benchmarks.speed.training_step import WIDTH, make_batch, moved
from benchmarks.speed.training_step import build as build_recipe

BATCHES = 4
Learn = Callable[[Batch], torch.Tensor]


def nodes_as_before(
    given: Compared, local: fused.Layer, whole: fused.Layer, most: int
) -> torch.Tensor:
    """The nodes of SAF and SGR by single operations, which autograd goes back through."""
    gists = given.image_gists[:, None], given.text_gists
    found = []
    for weights, context, queries, layer in (
        (None, *gists, whole),
        (given.weights, given.regions, given.words, local),
    ):
        step = max(1, most // (queries.numel() * queries.element_size()))
        found.append(_ProjectedGaps.apply(weights, context, queries, *layer, step))
    shape = (len(given.regions), len(given.text_gists), -1, len(local[0]))
    nodes = torch.cat([found[0][:, :, None], found[1].view(shape)], 2)
    length = torch.linalg.vector_norm(nodes, dim=-1, keepdim=True, dtype=torch.float32)
    return nodes / (length + 1e-8).to(nodes.dtype)


WAYS = ("before", "after", "whole")
BEFORE: dict[str, list[tuple[Any, str, Any]]] = {
    "gsmn": [(gsmn.Gsmn, "learns_from_products", lambda *given: False)],
    "saf": [(_similarity_vectors, "learnt_nodes", nodes_as_before)],
    "sgr": [(_similarity_vectors, "learnt_nodes", nodes_as_before)],
}
"""Per method, what to put where so that it compares as it did."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("methods", nargs="+", choices=list(METHODS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="tf32", choices=["fp32", "tf32", "bf16"])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--agreement", type=int, default=3)
    parser.add_argument("--most", type=float, default=6, help="seconds of repeats each")
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--host", action="store_true", help="what the processor does")
    parser.add_argument("--dim", type=int, default=1024)
    chosen = parser.parse_args()
    chosen.regions, chosen.sim_dim = 36, 256
    figures: dict[str, Any] = {"setting": vars(chosen) | {"methods": None}, "methods": {}}
    for name in chosen.methods:
        batches = some_batches(name, chosen)
        found: dict[str, Any] = {}
        if chosen.check:
            found["gradients_apart"], where = check(name, batches[0], chosen)
            print(
                f"{name}: gradients differ by at most {found['gradients_apart']:.1e} ({where})"
            )
        for way in chosen.ways:
            with as_it_was(name, way):
                found[way] = figures_of(name, way, batches, chosen)
            print(f"{name:<10} {way:<7} {told(found[way])}", flush=True)
        for way in set(chosen.ways) - {"before"} if "before" in found else ():
            found[f"ratio_{way}"] = round(found["before"]["ms"] / found[way]["ms"], 2)
            print(f"{name:<10} before / {way}  {found[f'ratio_{way}']:.2f}", flush=True)
        figures["methods"][name] = found
    if fused._failure:
        print(f"kernels: {fused._failure}")
    print(f"-> {kept(figures, chosen.precision)}")


def kept(figures: dict[str, Any], precision: str) -> Path:
    """Write the figures beside those of other methods on the same machine and day."""
    name = f"step_ratio_{precision}"
    if (RESULTS / f"{name}.json").is_file():
        earlier = read(name)
        if earlier["machine"] == machine():
            figures["methods"] = earlier["methods"] | figures["methods"]
    return keep(name, figures)


def told(found: dict[str, Any]) -> str:
    why_not = found["why_not_recorded"]
    recorded = f"not recorded: {why_not}" if why_not else "recorded"
    return (
        f"{found['ms']:8.2f} ms   host {found['host_ms']:7.2f} ms   "
        f"{found['peak_gib']:6.2f} GiB   {recorded}"
    )


@contextmanager
def as_it_was(name: str, way: str) -> Iterator[None]:
    """Kernels for learning, or the method as it was before, if that is the way."""
    fused.use_for_learning(way != "before")
    with ExitStack() as stack:
        for where, what, value in BEFORE.get(name, []) if way == "before" else []:
            stack.enter_context(mock.patch.object(where, what, value))
        yield


def some_batches(name: str, chosen: argparse.Namespace) -> list[Batch]:
    if name == "vse_infty":
        device = torch.device(chosen.device)
        return [moved(make_batch(chosen.batch, step), device) for step in range(BATCHES)]
    return [some_batch(step, chosen) for step in range(BATCHES)]


def views_of(name: str, chosen: argparse.Namespace) -> list[Method]:
    if name == "vse_infty":
        assert WIDTH == 1280
        return build_recipe(torch.device(chosen.device), chosen.precision, graphs=False)[1]
    return [build(name, chosen).to(chosen.device) for _ in range(2)]


def learner_of(name: str, way: str, chosen: argparse.Namespace) -> Learner:
    views = views_of(name, chosen)
    settings = Training(batch=chosen.batch, precision=chosen.precision)
    accelerator = Accelerator(cpu=chosen.device == "cpu")
    bf16, together = chosen.precision == "bf16", way != "before"
    comparison, optimiser = accelerator.prepare(
        Comparison(views, bf16=bf16, together=together), build_optimiser(views, settings)
    )
    if chosen.device != "cpu" and way != "whole":
        comparison = Graphed(comparison)
    loss = folder.build(losses, "tcl", agreement_steps=chosen.agreement)
    return Learner(accelerator, comparison, views, loss, optimiser, settings)


def figures_of(
    name: str, way: str, batches: list[Batch], chosen: argparse.Namespace
) -> dict[str, Any]:
    forget(chosen.device)
    learner, times, hosts = learner_of(name, way, chosen), [], []
    whole = WholeBatches(learner) if way == "whole" else None
    learn = learner.learn if whole is None else whole.learn
    with multiplying(chosen.precision):
        for batch in batches:  # which compiles and records
            learn(batch)
        deadline = time.monotonic() + chosen.most
        while len(times) < 3 or (len(times) < 12 and time.monotonic() < deadline):
            wait(chosen.device)
            started = time.perf_counter()
            for batch in batches:
                learn(batch)
            wait(chosen.device)
            times.append((time.perf_counter() - started) / len(batches))
            # one batch alone: the device holds about a thousand launches, then the host waits
            started = time.perf_counter()
            learn(batches[0])
            hosts.append(time.perf_counter() - started)
        if chosen.profile:
            profile(learn, batches, chosen.device)
        if chosen.host:
            host_profile(learn, batches[0], chosen.device)
    peak = 0 if chosen.device == "cpu" else torch.cuda.max_memory_reserved()
    return {
        "ms": round(1000 * statistics.median(times), 2),
        "host_ms": round(1000 * statistics.median(hosts), 2),
        "peak_gib": round(peak / 2**30, 2),
        "why_not_recorded": why_not(learner, whole),
    }


def why_not(learner: Learner, whole: WholeBatches | None) -> str:
    if whole is not None:
        return whole.why_not
    comparison = learner.comparison
    return comparison.why_not if isinstance(comparison, Graphed) else "no device"


def check(name: str, batch: Batch, chosen: argparse.Namespace) -> tuple[float, str]:
    """The largest difference of a gradient between both ways, over the gradient's largest.

    And of which parameter. That of a bias before batch normalisation is 0, and what is left of
    it is rounding: nothing below 1e-5 of the largest of all counts as a gradient.
    """
    views, slopes = views_of(name, chosen), []
    allowed = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    with multiplying("fp32"):
        for way in ("before", "after"):
            comparison = Comparison(views, together=way != "before")
            comparison.train()
            with as_it_was(name, way):
                torch.manual_seed(0)
                scores, extra = comparison(batch.visual, batch.text)
                uneven = torch.linspace(-1, 2, len(batch.text.ids), device=extra.device)
                torch.stack([(score * uneven).sum() for score in scores]).sum().add(
                    extra
                ).backward()
            found = comparison.named_parameters()
            slopes.append({key: p.grad for key, p in found if p.grad is not None})
            comparison.zero_grad(set_to_none=True)
    torch.backends.cudnn.allow_tf32 = allowed
    before, after = slopes
    most = max(float(slope.abs().max()) for slope in before.values())
    return max(
        (float((slope - after[key]).abs().max() / slope.abs().max()), key)
        for key, slope in before.items()
        if float(slope.abs().max()) > 1e-5 * most
    )


def profile(learn: Learn, batches: list[Batch], device: str) -> None:
    """The kernels of a batch that take longest, and what all of them take."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device != "cpu":
        kinds = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as found:
        for batch in batches:
            learn(batch)
        wait(device)
    rows, share = [], 1000 * len(batches)
    for row in found.key_averages():
        spent = row.self_cpu_time_total if device == "cpu" else row.self_device_time_total
        rows.append((spent / share, row.count / len(batches), row.key))
    rows.sort(reverse=True)
    total, launches = sum(row[0] for row in rows), sum(row[1] for row in rows)
    print(f"  {total:.2f} ms in {launches:.0f} kernels a batch")
    for spent, count, kernel in rows[:30]:
        print(f"  {spent:8.3f} ms {count:7.1f} x  {kernel[:100]}")


def host_profile(learn: Learn, batch: Batch, device: str) -> None:
    """What the processor does to ask for a batch: the functions that take longest."""
    wait(device)
    watched = cProfile.Profile()
    watched.runcall(learn, batch)
    wait(device)
    pstats.Stats(watched).strip_dirs().sort_stats("cumulative").print_stats(45)


def forget(device: str) -> None:
    gc.collect()  # a recording and its networks know each other
    if device != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
