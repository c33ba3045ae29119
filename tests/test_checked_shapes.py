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
