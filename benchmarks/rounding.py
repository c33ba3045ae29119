"""What rounding changes: rSum in tf32 and bf16 beside float32, of networks that learnt.

    python benchmarks/rounding.py --device cuda --only sgr saf

Weights that learnt nothing rank at random, so each method first learns a made-up world for
some steps: an image is some of many things, each seen in a few of its regions, and a caption
names some of those. Then new images and captions, as many as Flickr30K has in a test, are
ranked in each precision; bf16 with kernels and operation by operation.
"""

import argparse
from typing import Any

import torch
from _report import keep
from torch.nn.functional import cross_entropy

from avow import methods
from avow.assembly.judge import difference
from avow.assembly.scores import Blocks, compare
from avow.blocks import fused
from avow.core import folder
from avow.core.contracts import Encoded, Method, Regions, Tokens
from avow.metrics.recall import ranks, summarise

FEW = 64  # items encoded at a time


class World:
    """Things, how they look, and what is there in an image."""

    def __init__(self, chosen: argparse.Namespace):
        self.things, self.dim, self.regions = chosen.things, chosen.dim, chosen.regions
        self.draw = torch.Generator().manual_seed(chosen.seed)
        self.looks = torch.randn(self.things, self.dim, generator=self.draw)

    def some(self, images: int, captions: int) -> tuple[Regions, Tokens]:
        """Images, and `captions` captions of each, one image after the other."""
        there = torch.rand(images, self.things, generator=self.draw).argsort(1)[:, :12]
        seen = torch.randint(12, (images, self.regions), generator=self.draw)
        noise = torch.randn(images, self.regions, self.dim, generator=self.draw)
        features = self.looks[there.gather(1, seen)] + noise
        present = torch.ones(images, self.regions, dtype=torch.bool)
        count = images * captions
        named = torch.rand(count, 12, generator=self.draw).argsort(1)
        words = there.repeat_interleave(captions, 0).gather(1, named) + 1
        # some words name what is not there
        wrong = torch.rand(count, 12, generator=self.draw) < 0.3
        other = torch.randint(1, self.things + 1, (count, 12), generator=self.draw)
        lengths = torch.randint(6, 13, (count, 1), generator=self.draw)
        inside = torch.arange(12)[None] < lengths
        return Regions(features, present, None), Tokens(
            torch.where(wrong, other, words) * inside, inside
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="+", default=["sgr", "saf"])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--sim-dim", type=int, default=256)
    parser.add_argument("--regions", type=int, default=36)
    parser.add_argument("--things", type=int, default=400)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="rounding")
    chosen = parser.parse_args()
    figures: dict[str, Any] = {"setting": vars(chosen), "methods": {}}
    for name in chosen.only:
        figures["methods"][name] = method_figures(name, chosen)
        print(f"-> {keep(chosen.out, figures)}")


def method_figures(name: str, chosen: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(chosen.seed)
    world = World(chosen)
    sizes = {"visual_dim": chosen.dim, "dim": chosen.dim, "similarity_dim": chosen.sim_dim}
    still = {"dropout_word": 0.0, "dropout_head": 0.0}
    method = folder.build(methods, name, vocabulary=chosen.things + 1, **sizes, **still)
    learn(method.to(chosen.device), world, chosen)
    visual, text = encoded(method, *world.some(chosen.images, 5), chosen.device)
    image_of = torch.arange(chosen.images).repeat_interleave(5).numpy()

    def scored(precision: Any) -> Any:
        blocks = Blocks(images=chosen.images, texts=5 * chosen.images, precision=precision)
        return compare(method, visual, text, chosen.device, blocks)

    exact = scored("fp32")
    found: dict[str, Any] = {"rsum": summarise(ranks([exact], image_of)).rsum}
    print(f"{name}: rSum {found['rsum']:.2f} in float32", flush=True)
    usual = fused.is_possible
    for kind in ("tf32", "bf16", "tf32, no kernels", "bf16, no kernels"):
        fused.ran.clear()
        fused.is_possible = usual if "no" not in kind else lambda like: False
        change = difference([scored(kind[:4])], [exact], image_of)
        found[kind] = {**change, "fused": sorted(fused.ran)}
        print(f"  {kind:<17}", {key: round(value, 5) for key, value in change.items()})
    fused.is_possible = usual
    return found


def learn(method: Method, world: World, chosen: argparse.Namespace) -> None:
    """To tell the match of each item from the others of its batch."""
    optimiser = torch.optim.Adam(method.parameters(), lr=chosen.lr)
    match = torch.arange(chosen.batch, device=chosen.device)
    method.train()
    for step in range(chosen.steps):
        visual, text = world.some(chosen.batch, 1)
        visual, text = visual.to(chosen.device), text.to(chosen.device)
        scores = method.similarity(method.encode_visual(visual), method.encode_text(text))
        loss = cross_entropy(10 * scores, match) + cross_entropy(10 * scores.T, match)
        if step % 100 == 0:
            print(f"  step {step}: loss {float(loss.detach()):.3f}", flush=True)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(method.parameters(), 2.0)
        optimiser.step()
    method.eval()


@torch.inference_mode()
def encoded(
    method: Method, visual: Regions, text: Tokens, device: str
) -> tuple[Encoded, Encoded]:
    """Both sides in host memory."""
    images = [
        method.encode_visual(
            Regions(
                visual.features[start : start + FEW], visual.present[start : start + FEW]
            ).to(device)
        ).to("cpu")
        for start in range(0, len(visual.features), FEW)
    ]
    captions = [
        method.encode_text(
            Tokens(text.ids[start : start + FEW], text.present[start : start + FEW]).to(device)
        ).to("cpu")
        for start in range(0, len(text.ids), FEW)
    ]
    return _joined(images), _joined(captions)


def _joined(some: list[Encoded]) -> Encoded:
    return Encoded(
        torch.cat([one.parts.float() for one in some]), torch.cat([one.present for one in some])
    )


if __name__ == "__main__":
    main()
