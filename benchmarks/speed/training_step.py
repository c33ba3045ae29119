"""Time one TCL training batch (two networks, T_max = 3) against a plain way to do it.

    python -m benchmarks.speed.training_step --device cuda

The plain way is what published systems do: full float32, features sent from the host with
every batch, pooling weights computed once per item, an unfused optimiser, and a wait for
the device after every step. Both sides run in the same process, on the same batches. So
does ours with parts sorted, as on a device without Triton, instead of ranked by a kernel.
"""

import argparse
import time
from typing import Any
from unittest import mock

import numpy as np
import torch
from accelerate import Accelerator
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from avow.assembly.recipe import Recipe, Training
from avow.blocks import rank_pooling
from avow.blocks.pooling import LearntPool, Pool
from avow.blocks.recurrent import TwoWayGru
from avow.core.contracts import Lesson, Method, Regions, Tokens
from avow.core.seeds import seed_everything
from avow.training.batches import Batch
from avow.training.compare import Comparison
from avow.training.graphs import Graphed
from avow.training.loop import Learner
from avow.training.optim import build_optimiser
from benchmarks._report import keep

WORDS, REGIONS, WIDTH = 3000, 36, 1280


def packed_two_way(gru: TwoWayGru, steps: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Both directions by packing, as `nn.GRU(bidirectional=True)` is used elsewhere."""
    hidden = gru.ahead.hidden_size
    weights: list[torch.Tensor] = [*gru.ahead.parameters(), *gru.back.parameters()]
    packed = pack_padded_sequence(steps, counts, batch_first=True, enforce_sorted=False)
    zeros = steps.new_zeros(2, len(steps), hidden)
    data, _ = torch._VF.gru(  # type: ignore[attr-defined]
        packed.data, packed.batch_sizes, zeros, weights, True, 1, 0.0, True, True
    )
    packed = packed._replace(data=data)
    states, _ = pad_packed_sequence(packed, batch_first=True, total_length=steps.shape[1])
    return (states[..., :hidden] + states[..., hidden:]) / 2


class PackedGru(torch.nn.Module):
    """The two-way GRU by packing; asks the device for the lengths."""

    def __init__(self, gru: TwoWayGru):
        super().__init__()
        self.gru = gru

    def forward(self, steps: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        return packed_two_way(self.gru, steps, present.sum(1).cpu())


class PerItemPool(Pool):
    """The learnt pool with its weights computed for every item of the batch."""

    def __init__(self, pool: LearntPool):
        super().__init__()
        self.pool = pool

    def forward(self, parts: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        pool, counts = self.pool, present.sum(1).cpu()
        places = torch.arange(parts.shape[1], dtype=torch.float32)[:, None]
        rate = torch.exp(torch.arange(0, 32, 2) * -(np.log(10000.0) / 32))
        sines = torch.zeros(parts.shape[1], 32)
        sines[:, 0::2], sines[:, 1::2] = torch.sin(places * rate), torch.cos(places * rate)
        repeated = sines.to(parts.device).repeat(len(parts), 1, 1)
        states = packed_two_way(pool.gru, repeated, counts)
        score = pool.weigh(states)
        score = score.masked_fill(~present[..., None], -10000)
        weight = torch.softmax(score / 0.1, dim=1)
        ordered = parts.masked_fill(~present[..., None], -10000).sort(1, True).values
        return (ordered.masked_fill(~present[..., None], 0) * weight).sum(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--precision", default="tf32", choices=["fp32", "tf32", "bf16"])
    chosen = parser.parse_args()
    device = torch.device(chosen.device)
    host = [make_batch(chosen.batch, step) for step in range(8)]
    resident = [moved(batch, device) for batch in host]
    ours = time_ours(resident, device, chosen.batches, chosen.precision)
    with mock.patch.object(rank_pooling, "_is_possible", return_value=False):
        by_sorting = time_ours(resident, device, chosen.batches, chosen.precision)
    plain = time_plain(host, device, max(chosen.batches // 4, 2))
    bill = flops(chosen.batch, float(np.mean([b.text.lengths.float().mean() for b in host])))
    figures: dict[str, Any] = {
        "setting": "vse_infty, tcl, two networks, T_max 3, 36 x 1280 features",
        "batch": chosen.batch,
        "precision": chosen.precision,
        "ours_ms": round(ours, 2),
        "sorted_ms": round(by_sorting, 2),
        "plain_ms": round(plain, 2),
        "ratio": round(plain / ours, 2),
        "gflop_per_batch": round(bill / 1e9, 1),
        "tflops_reached": round(bill / ours / 1e9, 2),
    }
    path = keep("training_step", figures)
    print(f"ours {ours:.1f} ms, with parts sorted {by_sorting:.1f} ms, plain {plain:.1f} ms")
    print(f"ratio {plain / ours:.2f}")
    print(f"{figures['tflops_reached']} TFLOP/s -> {path}")


def make_batch(size: int, step: int) -> Batch:
    """A batch shaped like Flickr8k's: 36 cells, captions of about 12 words."""
    draw = torch.Generator().manual_seed(step)
    features = torch.rand(size, REGIONS, WIDTH, generator=draw)
    present = torch.rand(size, REGIONS, generator=draw) >= 0.2
    lengths = (torch.randn(size, generator=draw) * 3.5 + 12).round().long().clamp(4, 26)
    inside = torch.arange(int(lengths.max()))[None] < lengths[:, None]
    ids = torch.randint(1, WORDS, inside.shape, generator=draw) * inside
    lesson = Lesson.paired(size, epoch=3, step=step, views=2)
    return Batch(Regions(features, present), Tokens(ids, inside), lesson)


def moved(batch: Batch, device: torch.device) -> Batch:
    lesson = batch.lesson
    there = Lesson(
        lesson.pairs.to(device),
        lesson.match.to(device),
        lesson.trust.to(device),
        3,
        lesson.step,
    )
    return Batch(batch.visual.to(device), batch.text.to(device), there)


def build(
    device: torch.device, precision: str, graphs: bool = True
) -> tuple[Learner, list[Method]]:
    recipe = Recipe.open("flickr8k/vse_infty_tcl", [f"train.precision={precision}"])
    seed_everything(0)
    views = [
        recipe.build_method(visual_dim=WIDTH, vocabulary=WORDS).to(device) for _ in range(2)
    ]
    settings: Training = recipe.train
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    accelerator = Accelerator(cpu=device.type == "cpu")
    comparison, optimiser = accelerator.prepare(
        Comparison(views, bf16=precision == "bf16"), build_optimiser(views, settings)
    )
    if graphs and device.type == "cuda":
        comparison = Graphed(comparison)
    learner = Learner(accelerator, comparison, views, recipe.build_loss(), optimiser, settings)
    return learner, views


def time_ours(batches: list[Batch], device: torch.device, count: int, precision: str) -> float:
    learner, _ = build(device, precision)
    for place in range(len(batches) + 2):
        learner.learn(batches[place % len(batches)])
    wait(device)
    started = time.perf_counter()
    for place in range(count):
        learner.learn(batches[place % len(batches)])
    wait(device)
    return 1000 * (time.perf_counter() - started) / count


def time_plain(batches: list[Batch], device: torch.device, count: int) -> float:
    learner, views = build(device, "fp32", graphs=False)
    for view in views:
        view.visual_pool = PerItemPool(view.visual_pool)  # type: ignore[arg-type]
        view.text_pool = PerItemPool(view.text_pool)  # type: ignore[arg-type]
        view.text.gru = PackedGru(view.text.gru)  # type: ignore[union-attr]
    parameters = [p for view in views for p in view.parameters()]
    learner.optimiser = torch.optim.AdamW(parameters, lr=5e-4, foreach=False)
    step = learner._step

    def step_and_wait(value: torch.Tensor, epoch: int) -> None:
        step(value, epoch)
        value.item()

    learner._step = step_and_wait  # type: ignore[method-assign]
    for place in range(2):
        learner.learn(moved(batches[place], device))
    wait(device)
    started = time.perf_counter()
    for place in range(count):
        learner.learn(moved(batches[place % len(batches)], device))
    wait(device)
    return 1000 * (time.perf_counter() - started) / count


def flops(size: int, words: float, dim: int = 1024, word_dim: int = 300) -> float:
    """Matrix work of one batch: 2 networks x (1 + T_max) steps x (forward + 2 backward)."""
    visual = size * REGIONS * (WIDTH * dim + WIDTH * dim // 2 + dim // 2 * dim)
    text = size * words * 2 * 3 * dim * (word_dim + dim)
    return 2 * 4 * 3 * 2 * (visual + text)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
