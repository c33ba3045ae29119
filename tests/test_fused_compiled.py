"""The fused kernels as a compiler sees them, for a device that need not be here.

Every launch that scoring and pooling make is compiled for compute capability 9.0 instead of
being run: that it compiles, keeps to registers and shared memory, and multiplies by warp
groups where it multiplies.
"""

import importlib
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from samples import regions, tokens

from avow.blocks import fused, joint_gru, rank_pooling
from avow.blocks.pooling import LearntPool
from avow.methods import _memory, saf, sgr

# what is around the kernels runs here, and some processors have no products of bfloat16
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")]
SHARED_MEMORY = 227 * 1024


class Elsewhere:
    """What Triton asks of a device before it compiles."""

    def get_current_target(self):
        compiler = importlib.import_module("triton.backends.compiler")
        return compiler.GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_active_torch_device(self):
        return torch.device("cpu")


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """Kernels that are compiled when they are launched, by name."""
    triton = pytest.importorskip("triton", reason="Triton is not installed")
    if os.environ.get("TRITON_INTERPRET") == "1" or torch.cuda.is_available():
        pytest.skip("kernels run here")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    importlib.import_module("triton.runtime").driver.set_active(Elsewhere())
    kernels, done = importlib.import_module("avow.blocks._kernels"), {}
    standing_in = ModuleType("standing_in")
    for name in fused.CHOICES:
        setattr(standing_in, name, Compiling(name, getattr(kernels, name), done))
    monkeypatch.setattr(fused, "_kernels", lambda: standing_in)
    monkeypatch.setattr(fused, "_failure", "")
    monkeypatch.setattr(fused, "is_possible", lambda like: True)
    # where there are several, the one named after a later device reads what is written now
    assemblers = sorted((Path(triton.__file__).parent / "backends/nvidia/bin").glob("ptxas*"))
    return done, assemblers[-1], tmp_path


class Compiling:
    def __init__(self, name, kernel, done):
        self.name, self.kernel, self.done = name, kernel, done

    def __getitem__(self, grid):
        def launch(*given, **named):
            found = self.kernel.warmup(*given, grid=grid, **named)
            self.done[self.name, found.hash] = found

        return launch


@pytest.mark.parametrize("build", [saf.build, sgr.build])
@torch.inference_mode()
def test_what_is_launched_compiles_and_spills_nothing(compiled, build):
    done, ptxas, folder = compiled
    method = build(visual_dim=16, vocabulary=30, dim=1024, word_dim=6).eval()
    visual = method.encode_visual(regions([36, 20], parts=36, dim=16))
    for words in ([12, 12], [20], [40]):
        text = method.encode_text(tokens(words, parts=max(words)))
        method.score(*(replace(side, parts=side.parts.bfloat16()) for side in (visual, text)))
    assert not fused._failure
    heads = {"reason", "hear"} if build is sgr.build else {"gate"}
    assert {name for name, _ in done} == {"attend", "compare"} | heads
    for name, text in told_by_the_assembler(done, ptxas, folder):
        multiplies = name in ("attend", "compare", "reason")
        assert multiplies == ("wgmma.mma_async" in text), name


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_pooling_compiles_and_spills_nothing(compiled, monkeypatch, kind):
    done, ptxas, folder = compiled
    monkeypatch.setattr(rank_pooling, "_is_possible", lambda parts: True)
    pool = LearntPool()
    for count in (1, 12, 36, 128):
        parts = torch.randn(2, count, 1024, dtype=kind, requires_grad=True)
        pool(parts, torch.ones(2, count, dtype=torch.bool)).sum().backward()
    assert not fused._failure
    assert {name for name, _ in done} == {"rank", "rank_back"}
    assert len(told_by_the_assembler(done, ptxas, folder)) >= 6


def test_grus_read_together_compile_and_spill_nothing(compiled, monkeypatch):
    done, ptxas, folder = compiled
    monkeypatch.setattr(joint_gru, "is_possible", lambda like: True)
    for hidden, length, items in ((1024, 2, 3), (32, 3, 36)):
        grus = [torch.nn.GRU(8, hidden) for _ in range(4)]
        steps = torch.randn(4, length, items, 8, requires_grad=True)
        joint_gru.read_together(grus, steps).sum().backward()
    assert not fused._failure
    names = {"gru_forth", "gru_back", "small_gru_forth", "small_gru_back"}
    assert {name for name, _ in done} == names
    told_by_the_assembler(done, ptxas, folder)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_memory_compiles_and_spills_nothing(compiled, monkeypatch, kind):
    done, ptxas, folder = compiled
    monkeypatch.setattr(fused, "can_learn", lambda like: True)
    sizes = (1, 6, 1024), (2, 6, 5), (2, 5, 2048), (2048, 1024), (2048,)
    given = [torch.randn(size, dtype=kind, requires_grad=True) for size in sizes]
    _memory.remembered(*given).sum().backward()
    assert not fused._failure
    assert {name for name, _ in done} == {"remember", "remember_back"}
    told_by_the_assembler(done, ptxas, folder)


def test_learnt_nodes_compile_and_spill_nothing(compiled, monkeypatch):
    done, ptxas, folder = compiled
    monkeypatch.setattr(fused, "can_learn", lambda like: True)
    monkeypatch.setattr(fused, "is_possible", lambda like: not torch.is_grad_enabled())
    method = sgr.build(visual_dim=16, vocabulary=30, dim=1024, word_dim=6)
    visual = method.encode_visual(regions([36, 20], parts=36, dim=16))
    text = method.encode_text(tokens([12, 7], parts=12))
    sides = [replace(side, parts=side.parts.bfloat16()) for side in (visual, text)]
    method.score(*sides).sum().backward()
    assert not fused._failure
    assert {name for name, _ in done} == {"compare", "unit_back", "gap_back"}
    told_by_the_assembler(done, ptxas, folder)


def told_by_the_assembler(done, ptxas, folder):
    """Each kernel's name and text; that it keeps to registers and shared memory is checked."""
    found = []
    for (name, _), kernel in done.items():
        source = folder / f"{name}.ptx"
        source.write_text(kernel.asm["ptx"])
        about = [ptxas, "-v", "-arch=sm_90a", source, "-o", folder / "out"]
        said = subprocess.run(about, capture_output=True, text=True, check=True).stderr
        assert re.findall(r"(\d+) bytes spill", said) == ["0", "0"], (name, said)
        assert "serialized" not in said, (name, said)
        assert kernel.metadata.shared <= SHARED_MEMORY
        found.append((name, kernel.asm["ptx"]))
    return found
