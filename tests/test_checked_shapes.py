"""The checks that every test runs under: a wrong type or axis is an error, whoever calls."""

from dataclasses import dataclass

import pytest
import torch
from beartype import beartype
from checked_shapes import checked
from jaxtyping import Float
from torch import Tensor


def under_check(subject):
    return checked(subject, typechecker=beartype)


@under_check
def product(
    left: Float[Tensor, "rows shared"],
    right: Float[Tensor, "shared columns"],
    turned: bool = False,
) -> Float[Tensor, "rows columns"]:
    found = left @ right
    return found.T if turned else found


@under_check
@dataclass(frozen=True)
class Pair:
    one: Float[Tensor, "rows 2"]
    other: Float[Tensor, "rows 3"]


@under_check
@dataclass(frozen=True)
class Rows:
    rows: Float[Tensor, "rows width"]

    def halves(self, at: int = 1) -> tuple["Rows", Float[Tensor, "rest width"]]:
        return Rows(self.rows[:at]), self.rows[int(self.rows[0, 0]) :]


@under_check
def plain(count: int) -> str:
    return "x" * count if count else None  # type: ignore[return-value]


def test_axes_of_one_name_have_one_size_in_arguments_and_result():
    assert product(torch.ones(2, 3), torch.ones(3, 4)).shape == (2, 4)
    assert product(left=torch.ones(5, 1), right=torch.ones(1, 4)).shape == (5, 4)  # anew
    with pytest.raises(TypeError):
        product(torch.ones(2, 3), torch.ones(2, 4))
    with pytest.raises(TypeError):
        product(torch.ones(2, 3).long(), torch.ones(3, 4))
    with pytest.raises(TypeError):
        product(torch.ones(2, 3), torch.ones(3, 4), turned=True)


def test_what_passed_once_is_checked_where_it_differs():
    """The same types and shapes pass unseen; another argument or result does not."""

    @under_check
    def first(
        rows: Float[Tensor, "rows width"], count: int, *, names: list[str] = ()
    ) -> Float[Tensor, "few width"]:
        """As many rows as the first number says, or its type: no shape tells which."""
        found = rows[: int(rows[0, 0])]
        return found.long() if rows[0, 1] else found.T if count > 2 else found

    rows = torch.tensor([[2.0, 0.0, 0.0]] * 5)
    for _ in range(3):
        assert first(rows, 1, names=["a"]).shape == (2, 3)
    assert first(3 * rows / 2, 1, names=["a"]).shape == (3, 3)  # another result, right as well
    with pytest.raises(TypeError):
        first(rows + torch.tensor([0.0, 1.0, 0.0]), 1, names=["a"])  # the type of the result
    with pytest.raises(TypeError):
        first(rows, 3, names=["a"])  # the shape of the result
    for wrong in ((rows.long(), 1), (rows, "1"), (rows[0], 1), (rows.numpy(), 1)):
        with pytest.raises(TypeError):
            first(*wrong, names=["a"])
    with pytest.raises(TypeError):
        first(rows, 1, names=[1])
    with pytest.raises(TypeError):
        first(rows, 1, names={"a"})


def test_names_in_annotations_are_looked_up_where_the_function_is():
    class Halved(Rows):
        halves = under_check(Rows.halves)

    assert len(Halved(torch.ones(4, 2)).halves()[1]) == 3
    assert len(Halved(2 * torch.ones(4, 2)).halves()[1]) == 2  # a result that is new


def test_fields_of_a_dataclass_are_checked_together():
    assert len(Pair(torch.ones(4, 2), torch.ones(4, 3)).one) == 4
    with pytest.raises(TypeError):
        Pair(torch.ones(4, 2), torch.ones(5, 3))


def test_without_shapes_types_are_checked_still():
    assert plain(2) == "xx"
    for wrong in ("2", 0):
        with pytest.raises(TypeError):
            plain(wrong)


def test_the_package_is_under_check():
    from avow.core.contracts import Regions

    with pytest.raises(TypeError):
        Regions(torch.ones(2, 3, 4), torch.ones(2, 5, dtype=torch.bool))
