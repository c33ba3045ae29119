"""A small language to choose items, turned into parameterised SQL."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Where:
    """A filter over the items of an index."""

    condition: str
    values: tuple[str | int | float, ...]

    def sql(self) -> tuple[str, tuple[str | int | float, ...]]:
        return self.condition, self.values
