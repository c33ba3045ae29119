"""Run by test_parallel.py: two processes, and the training gradients that they share.

Then, in the same two processes, the training runs `RUNS`. The processes are forked,
so that what both need is imported once; torchrun would start them anew.
"""

import os
import sys
from pathlib import Path
from typing import NoReturn

import torch
import torch._dynamo  # the first optimiser of every process would
import torch.distributed as dist
from accelerate import Accelerator
from samples import SIZES, regions, tokens

import avow.training.from_recipe  # noqa: F401  (so would the command)
from avow import losses, methods
from avow.cli import app
from avow.core import folder
from avow.core.contracts import Lesson, Regions, Tokens
from avow.training.compare import Comparison

# batch statistics belong to each process alone, so the branch that has them stays out
METHODS = {"vse_infty": {"bend": False}, "gsmn": {"graph": "sparse"}}
CASES = {**{method: (True, method) for method in METHODS}, "alone": (False, "vse_infty")}
RUNS = ("gathered", "apart", "shared") if os.environ.get("AVOW_LONG_TESTS") else ("gathered",)
COUNTS = ([5, 3, 1, 4, 2, 5], [7, 4, 2, 6, 3, 5])


def main() -> None:
    ranks = [os.fork() or learn(rank) for rank in ("0", "1")]
    ended = [os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in ranks]
    sys.exit(max(map(abs, ended)))


def learn(rank: str) -> NoReturn:
    """All that one of the two processes does."""
    os.environ |= {"RANK": rank, "LOCAL_RANK": rank}
    where, accelerator = Path(sys.argv[1]), Accelerator(cpu=True)
    for name, (gather, method) in CASES.items():
        found = gradient(accelerator, gather, method)
        torch.save(found, where / f"{name}-{accelerator.process_index}.pt")
    for name in RUNS:
        words = ["train", str(where / f"{name}.toml"), "--out", str(where / name), "--json"]
        app([*words, "--device", "cpu"], standalone_mode=False)
    if dist.is_initialized():  # threads of gloo that outlive the process abort it
        dist.barrier()
        dist.destroy_process_group()
    sys.exit()


def gradient(
    accelerator: Accelerator, gather: bool, method: str = "vse_infty"
) -> dict[str, torch.Tensor]:
    """Of the first TCL value plus one agreement value, on this process's share."""
    rank, world = accelerator.process_index, accelerator.num_processes
    torch.manual_seed(0)
    views = [folder.build(methods, method, **SIZES, **METHODS[method]) for _ in range(2)]
    comparison = accelerator.prepare(Comparison(views, gather))
    visual, text = regions(COUNTS[0]), tokens(COUNTS[1])
    edges = torch.rand(*text.ids.shape, 7, generator=torch.Generator().manual_seed(2)) < 0.3
    mine = slice(rank * 6 // world, (rank + 1) * 6 // world)
    longest = max(COUNTS[1][mine])  # processes may well have captions of different width
    part = Regions(visual.features[mine], visual.present[mine], visual.boxes[mine])
    words = Tokens(text.ids[mine], text.present[mine], edges[mine]).resized(longest)
    size = 6 if gather else 6 // world
    loss = folder.build(losses, "tcl", agreement_steps=1, agree_from=0)
    lesson = Lesson.paired(size, epoch=1, views=2)
    for value in loss.steps(lambda: comparison(part, words)[0], lesson):
        accelerator.backward(value)
    return {
        f"{number}.{name}": parameter.grad
        for number, view in enumerate(views)
        for name, parameter in view.named_parameters()
    }


if __name__ == "__main__":
    main()
