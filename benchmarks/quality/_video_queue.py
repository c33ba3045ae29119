"""The runs behind the tables of video retrieval, in the order they are made.

A pilot has one setting changed and few epochs, seed 0, and is judged on the dev split. The runs
then take what was better alone. Settings of the method and of training are the same for both
losses, and the one that is best for both together counts; margin and tau belong to one loss.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Row = dict[str, Any]
Kind = Literal["pilot", "run", "together", "teacher"]
PILOT_EPOCHS = "train.epochs=3"
CLEARLY = 3.0
"""rSum on dev by which a pilot must be better than the recipe as it is."""
WORDS = ("method.text=glove", "method.word_dim=50")
SHARED = (WORDS,)
OWN = {"hinge": ("loss.margin=0.1",), "tcl": ("loss.tau=0.05",)}
DUAL = {"msvd": "msvd/dual_encoding", "msrvtt-frames": "msrvtt/frames_dual_encoding"}
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Entry:
    """One thing to do. needs: entries that must be done before."""

    kind: Kind
    recipe: str
    seed: int
    changes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    """Runs that are averaged or that teach, by their names."""

    @property
    def name(self) -> str:
        words = [self.kind, self.recipe.replace("/", "-"), *self.changes]
        return f"{'_'.join(words)}-seed{self.seed}".replace('"', "")


def pilots(recipe: str, loss: str) -> list[Entry]:
    tried = [(), *SHARED, OWN[loss]]
    return [Entry("pilot", f"{recipe}_{loss}", 0, changes) for changes in tried]


def dual_encoding(recipe: str) -> list[Entry]:
    """Three seeds of TCL, six of the hinge, which make three pairs."""
    before = [*pilots(recipe, "tcl"), *pilots(recipe, "hinge")]
    asked = tuple(one.name for one in before)
    tcl = [Entry("run", f"{recipe}_tcl", seed, needs=asked) for seed in SEEDS]
    hinge = [Entry("run", f"{recipe}_hinge", seed, needs=asked) for seed in range(6)]
    pairs = []
    for seed in SEEDS:
        both = (hinge[seed].name, hinge[seed + 3].name)
        pairs.append(Entry("together", f"{recipe}_hinge", seed, needs=both, parts=both))
    return [*before, *tcl, *hinge, *pairs]


def collaborative_experts() -> list[Entry]:
    """CE with both losses; its hinge runs then teach TT-CE."""
    hinge = [Entry("run", "msvd/ce_hinge", seed) for seed in SEEDS]
    tcl = [Entry("run", "msvd/ce_tcl", seed) for seed in SEEDS]
    teachers = [
        Entry("teacher", one.recipe, one.seed, needs=(one.name,), parts=(one.name,))
        for one in hinge
    ]
    names = tuple(one.name for one in teachers)
    students = [
        Entry("run", f"msvd/ttce_{loss}", seed, needs=names, parts=names)
        for loss in ("tcl", "hinge")
        for seed in SEEDS
    ]
    return [*hinge, *tcl, *teachers, *students]


def queue(only: Sequence[str] = ()) -> list[Entry]:
    """Everything, the most wanted first; only: parts of names, of which one must occur.

    Pilots of all recipes come first, so that no run waits for them alone.
    """
    entries = [entry for recipe in DUAL.values() for entry in dual_encoding(recipe)]
    entries.sort(key=lambda entry: entry.kind != "pilot")
    entries += collaborative_experts()
    return [entry for entry in entries if not only or any(part in entry.name for part in only)]


def chosen_changes(entry: Entry, done: Mapping[str, Row]) -> tuple[str, ...]:
    """The settings that the pilots found clearly better than the recipes as they are."""
    tried = [done[name] for name in entry.needs if done.get(name, {}).get("kind") == "pilot"]
    dev = {(row["recipe"], tuple(row["changes"])): row["dev_rsum"] for row in tried}
    recipes = sorted({recipe for recipe, _ in dev})
    if not recipes:
        return ()
    own = OWN[entry.recipe.rpartition("_")[2]]

    def gain(changes: tuple[str, ...], of: Sequence[str]) -> float:
        """On the mean of these recipes; what a failed pilot would say is not known."""
        if any((recipe, one) not in dev for recipe in of for one in (changes, ())):
            return 0.0
        return sum(dev[recipe, changes] - dev[recipe, ()] for recipe in of) / len(of)

    gains = [(gain(changes, recipes), changes) for changes in SHARED]
    gains += [(gain(own, [entry.recipe]), own)]
    settings: dict[str, str] = {}
    for better, changes in sorted(gains, reverse=True):
        if better > CLEARLY:
            for change in changes:
                settings.setdefault(change.partition("=")[0], change)
    return tuple(settings.values())
