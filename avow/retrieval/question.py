"""What is asked: a text, a picture, both, or one without the other; as one vector.

"two dogs"                      the text's vector
a picture                       the picture's vector
a clip                          the unit mean of its segments' vectors
a picture, "at night"           the unit sum of both
"dogs" without "a ball"         the unit difference
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image

from avow.core.errors import BadQuery
from avow.core.formats import is_video
from avow.core.photographs import open_photograph
from avow.core.searching import Encoder
from avow.core.shapes import Float32
from avow.retrieval.forms import one_form
from avow.retrieval.understanding import Understanding, understand

Kind = Literal["image", "text"]
Style = Literal["text", "image", "picture", "similar", "mixed"]
"""Texts for pictures, pictures for texts, pictures for pictures, texts for texts, and both."""
LONGEST = 2000
"""Characters of a text; models read far fewer."""
MOST = 100_000
"""Answers that may be asked for at once; a page needs all that lie before what it shows."""
_NOTHING = 1e-4  # a sum or difference shorter than this has no direction
_NOTHING_LEFT = (
    "Nothing is left of this query: what it asks for and what it leaves out are the same. "
    "Expected two different things; change one of them."
)


LONGEST_CLIP = 600.0
"""Seconds of a clip to search with."""


@dataclass(frozen=True)
class ClipFile:
    """A video to search with."""

    path: Path
    name: str
    """As messages and results call it; a copy that a server made is not named by its path."""
    longest: float = LONGEST_CLIP


@dataclass(frozen=True)
class Question:
    """One query, checked; `kind` is what it looks for."""

    text: str | None = None
    image: Image.Image | ClipFile | None = None
    image_name: str | None = None
    without: str | None = None
    kind: Kind = "image"
    asked: str = ""
    """The text as the model reads it; the same unless it is a name in another form."""

    @property
    def style(self) -> Style:
        """Which trust it needs: probabilities of one style mean nothing for another."""
        if self.without is not None or (self.text is not None and self.image is not None):
            return "mixed"
        if self.text is not None:
            return "text" if self.kind == "image" else "similar"
        return "image" if self.kind == "text" else "picture"

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "image": self.image_name,
            "without": self.without,
            "kind": self.kind,
        }

    @property
    def texts(self) -> list[str]:
        """What a model has to read of it."""
        return [text for text in (self.asked or self.text, self.without) if text is not None]

    def vector(
        self, encoder: Encoder, known: Mapping[str, np.ndarray] | None = None
    ) -> Float32[np.ndarray, " dim"]:
        """Every view's slice has the length of an item's, so that scores stay in [-1, 1].

        known: the vectors of `texts`, where they were read before.
        """
        if known is None:
            known = dict(zip(self.texts, encoder.encode_texts(self.texts), strict=True))
        total = np.zeros(encoder.dim, np.float32)
        if self.text is not None:
            total = total + known[self.asked or self.text]
        if self.without is not None:
            total = total - known[self.without]
        if self.image is not None:
            total = total + self._picture(self.image, encoder)
        return _unit(total, encoder.views)

    def _picture(self, image: Image.Image | ClipFile, encoder: Encoder) -> np.ndarray:
        if isinstance(image, ClipFile):
            from avow.retrieval.clips import clip_vector  # searches for words do without

            return clip_vector(image, encoder)
        try:
            return encoder.encode_images([image])[0]
        except (OSError, ValueError) as error:  # what decoders and converters raise
            raise BadQuery(
                f"The picture {self.image_name!r} cannot be searched with ({error}). "
                "Expected an ordinary photograph; save it as JPEG or PNG and try again."
            ) from error


def ask(
    text: object = None, image: object = None, without: object = None, kind: str = "image"
) -> Question:
    """The question, or a sentence on what is wrong with it.

    text, without: strings. image: a file name of a picture or a clip, a `ClipFile`, or a PIL
    image.
    """
    if kind not in get_args(Kind):
        raise BadQuery(
            f"There is nothing of kind {kind!r} to look for. Expected 'image' or 'text'."
        )
    if text is None and image is None:
        raise BadQuery(
            "There is nothing to search for. Expected a text, a picture, or both; try "
            '`avow search "two dogs"`.'
        )
    picture, name = (None, None) if image is None else _opened(image)
    return Question(
        None if text is None else _words(text, "query"),
        picture,
        name,
        None if without is None else _words(without, "text to leave out"),
        "image" if kind == "image" else "text",
    )


def understood(
    question: Question, encoder: Encoder, rewrite: bool = True
) -> tuple[Question, Understanding | None]:
    """The question as it is searched, and what was understood of its text.

    Negations become what to leave out, and names are asked for in one form. Only where the
    model reads nothing but English: another one may know what we do not.
    rewrite: False leaves negations in the text.
    """
    if question.text is None or not encoder.english:
        return replace(question, asked=question.text or ""), None
    understanding = understand(question.text, encoder.vocabulary)
    if not rewrite or question.without is not None:  # the text is searched as it is
        understanding = replace(understanding, text=question.text, without=None)
    searched = question
    if understanding.without is not None:
        searched = replace(question, text=understanding.text, without=understanding.without)
    text = searched.text or ""
    if searched.kind != "image" or searched.image is not None:
        return replace(searched, asked=text), understanding
    asked = one_form(text)
    if searched.without is not None and one_form(searched.without) == asked:
        raise BadQuery(_NOTHING_LEFT)
    return replace(searched, asked=asked), understanding


def only_text(text: str, asked: str | None = None) -> Question:
    """A question for pictures of one thing, such as what another question leaves out.

    asked: as the model is to read it; default: a name in one form.
    """
    return Question(text, asked=one_form(text) if asked is None else asked)


def check_numbers(k: object, risk: float | None) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST:
        raise BadQuery(
            f"The number of answers is {k!r}. Expected a whole number from 1 to {MOST}."
        )
    if risk is not None and not 0 < risk < 1:
        raise BadQuery(
            f"The risk is {risk!r}. Expected a share between 0 and 1, such as 0.1 for one "
            "wrong answer in ten."
        )


def _words(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise BadQuery(
            f"The {what} is of type {type(text).__name__!r}. Expected a text; pass it as a "
            "string."
        )
    if len(text) > LONGEST:
        raise BadQuery(
            f"The {what} has {len(text)} characters. Expected at most {LONGEST}; one "
            "sentence finds more than a page."
        )
    clean = " ".join(text.encode("utf-8", "replace").decode("utf-8").split())
    if not any(letter.isalnum() for letter in clean):
        raise BadQuery(
            f"The {what} {clean!r} has no words. Expected a text such as 'two dogs on a beach'."
        )
    return clean


def _opened(image: object) -> tuple[Image.Image | ClipFile, str]:
    if isinstance(image, Image.Image):
        name = getattr(image, "filename", "")
        return _finite(image), str(name) if name else "a picture"
    if isinstance(image, str | Path) and is_video(Path(image).suffix.lower()):
        return ClipFile(Path(image), str(image)), str(image)
    if isinstance(image, ClipFile):
        return image, image.name
    if isinstance(image, str | Path):
        return _finite(open_photograph(Path(image))), str(image)
    raise BadQuery(
        f"The picture is of type {type(image).__name__!r}. Expected a file name or a PIL "
        "image; open it with `PIL.Image.open` or `PIL.Image.fromarray`."
    )


def _finite(image: Image.Image) -> Image.Image:
    """Reject NaN and infinite pixels (possible only in mode F)."""
    if image.mode == "F" and not np.isfinite(np.asarray(image)).all():
        raise BadQuery(
            "The picture holds NaN or infinite numbers. Expected colours; convert it to RGB."
        )
    return image


def _unit(total: np.ndarray, views: int) -> Float32[np.ndarray, " dim"]:
    parts = total.reshape(views, -1)
    lengths = np.linalg.norm(parts, axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise BadQuery(
            "The model gives NaN or infinite numbers for this query. Expected finite ones; "
            "try another picture or another wording."
        )
    if lengths.min() * views**0.5 < _NOTHING:
        raise BadQuery(_NOTHING_LEFT)
    return (parts / (lengths * views**0.5)).ravel().astype(np.float32)
