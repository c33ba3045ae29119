"""SGRAF: SAF or SGR, ranked and trained by the sigmoid of their score."""

from collections.abc import Iterator
from functools import partial

from parity_systems._claims import Claim, When
from parity_systems._oracle import Oracle
from parity_systems._ranking import hinges, of_ranks
from parity_systems._steps import enrol, every_step, see, vectors

from avow.assembly.published import Imported

PREFIXES = ("sgraf_",)


def recompute(oracle: Oracle) -> Iterator[Claim]:
    imported = oracle.imported("sgraf", squash="sigmoid")
    yield from after(oracle, imported, "init", "start")
    batch = oracle.problem.batch()
    seen = see(imported.views[0], batch.visual, batch.text)
    yield Claim("batch_sims_eval", seen.similarity)
    for name, value in hinges(seen.similarity, float(oracle.options["margin"])).items():
        yield Claim(name, value)
    course = enrol(imported, oracle.options, "adam")
    yield from every_step(oracle, oracle.problem, course, partial(after, oracle, imported))


def after(oracle: Oracle, imported: Imported, prefix: str, when: When) -> Iterator[Claim]:
    if f"{prefix}_sims" not in oracle.arrays:
        return
    seen = see(imported.views[0], oracle.problem.visual, oracle.problem.text)
    if prefix == "init":
        for name, encoded in (("img_emb", seen.images), ("cap_emb", seen.texts)):
            if name in oracle.arrays:
                yield Claim(name, vectors(encoded, oracle.arrays[name]))
    yield Claim(f"{prefix}_sims", seen.similarity, when)
    if f"{prefix}_i2t" in oracle.arrays:
        yield from of_ranks(oracle, seen.similarity, f"{prefix}_sims", f"{prefix}_{{}}", when)
