"""Levels of risk and confidence are shares, and a share is between 0 and 1."""

from avow.core.errors import BadRecipe


def check_shares(**shares: float) -> None:
    """Refuse a level that is no share: a user who means 5 % may well write 5."""
    for name, share in shares.items():
        if not 0 < share < 1:
            raise BadRecipe(
                f"{name} is '{share}'. Expected a share between 0 and 1: 0.05 for 5 %."
            )
