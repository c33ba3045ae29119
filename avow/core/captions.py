"""What counts as a caption or a query in words: well-formed Unicode of limited length."""

from avow.core.errors import BadData
from avow.core.searching import LONGEST_TEXT


def check_caption(caption: str, place: str) -> None:
    """Refuse what is no caption. place: where it stands, to begin a sentence."""
    try:
        caption.encode()
    except UnicodeEncodeError as error:
        raise BadData(
            f"{place} holds half of a character (a lone surrogate) at character "
            f"{error.start + 1}. Expected a text that can be written as UTF-8; correct it."
        ) from error
    if len(caption) > LONGEST_TEXT:
        raise BadData(
            f"{place} has {len(caption)} characters and begins {caption[:40]!r}. Expected at "
            f"most {LONGEST_TEXT} in a caption; shorten it or remove it."
        )
