"""Trust for an index of a model that brings none: the default model's word stands for labels.

    reference queries x pictures of the index --default model, its policy--> P(fits)
    the same queries and pictures, by the index's own model ---- trust.transfer ----> Policy

INDEX/models/<fingerprint>/transferred-text.json, a file of its own: what `avow calibrate`
writes stands before it, and ticks adjust it as they adjust the policy of any model.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64

from avow.core.background import Background
from avow.core.errors import AvowError, BadData, MissingExtra, WrongIndex, WrongTrust
from avow.core.folder import AllowCode
from avow.core.places import DEFAULT
from avow.core.searching import Encoder
from avow.data.nouns import noun_like, stem, with_article
from avow.data.words import word_tokenize
from avow.retrieval.commonness import commonness
from avow.retrieval.encoders import bank
from avow.retrieval.encoders.lazy import Deferred
from avow.retrieval.encoders.opening import open_encoder
from avow.retrieval.forms import count_words
from avow.retrieval.gallery import slices
from avow.retrieval.item_pictures import open_item
from avow.retrieval.open_index import OpenIndex
from avow.retrieval.opening import open_library
from avow.retrieval.store.items import Item
from avow.retrieval.store.report import Progress
from avow.trust.fitting import CalibrationQueries
from avow.trust.gallery_sampling import ScoredQueries
from avow.trust.policy import Policy
from avow.trust.transfer import transferred, whole_probabilities

FILE, OWN = "transferred-text.json", "trust-text.json"
FEWEST, MOST = 50, 1000
"""Pictures that a transfer needs, and as many as it looks at."""
_AT_ONCE = 32
_OFTEN = 2
"""A word that the reference queries have less often is not asked for by name."""


def transfer_trust(
    library: OpenIndex,
    encoder: Encoder,
    *,
    most: int = MOST,
    progress: Callable[[Progress], None] | None = None,
    teacher: Encoder | None = None,
) -> str:
    """Fit and keep a policy for text searches of an index whose model has none.

    most: pictures to look at. teacher: an encoder with a policy for texts beside it; the
    default model, which is opened only where it is needed. Gives a sentence on what was done,
    an empty one where there was nothing to do: the model or the user has a policy, or an
    earlier transfer still serves.
    """
    if not wants_trust(library, getattr(encoder, "home", None), most):
        return ""
    ids = library.find(None, "image")
    if len(ids) < FEWEST:
        return _too_few(library)
    try:
        policy, used = _fit(library, encoder, teacher or open_encoder(), ids, most, progress)
    except AvowError as error:
        return f"Searches with this model stay unjudged. {error}"
    policy.save(place_of(library) / FILE)
    library.keep(place_of(library) / FILE)
    return (
        f"Trust was transferred from the default model, on {used} of {len(ids)} pictures; "
        "`avow calibrate` makes it this index's own."
    )


def trust_after_indexing(
    index: Path | None,
    model: Deferred,
    *,
    most: int = MOST,
    progress: Callable[[Progress], None] | None = None,
    allow_code: AllowCode = False,
) -> str:
    """`transfer_trust` for the model that an index was just brought up to date with.

    The model is opened only where a policy is wanted. most: 0 asks for none.
    """
    if model.name == DEFAULT or not most:
        return ""
    try:
        library = open_library(index, allow_code=allow_code)
    except WrongIndex:  # nothing was indexed
        return ""
    with library:
        folder = Path(model.name).expanduser()
        if not wants_trust(library, folder if folder.is_dir() else None, most):
            return ""
        if library.count(None, "image") < FEWEST:
            return _too_few(library)
        return transfer_trust(library, model.open(), most=most, progress=progress)


def wants_trust(library: OpenIndex, home: Path | None, most: int = MOST) -> bool:
    """Whether text searches have no policy, or one transferred with far fewer pictures."""
    place = place_of(library)
    if (place / OWN).is_file() or (home is not None and (home / OWN).is_file()):
        return False
    try:
        library.check_attached(OWN)
    except WrongTrust:  # a calibration that was lost is not replaced in silence
        return False
    if not (place / FILE).is_file():
        return True
    try:
        fitted = Policy.load(place / FILE).conditions.largest
    except WrongTrust:  # damaged, and can be made again
        return True
    return 2 * fitted < min(library.count(None, "image"), most)


def _too_few(library: OpenIndex) -> str:
    count = library.count(None, "image")
    return (
        f"Searches with this model stay unjudged: the index has {count} "
        f"picture{'s' * (count != 1)}, and trust is transferred from the default model with "
        f"{FEWEST} or more."
    )


def place_of(library: OpenIndex) -> Path:
    """Where the index keeps what belongs to its model."""
    return library.folder / "models" / library.manifest["fingerprint"]


def _fit(
    library: OpenIndex,
    encoder: Encoder,
    teacher: Encoder,
    ids: Int64[np.ndarray, " items"],
    most: int,
    progress: Callable[[Progress], None] | None,
) -> tuple[Policy, int]:
    home = getattr(teacher, "home", None)
    if home is None or not (home / OWN).is_file() or not teacher.bank:
        raise BadData(
            f"The model {teacher.name!r} cannot teach: it has no {OWN!r} and reference queries "
            "beside it. Expected the default model as Avow brings it; install Avow again."
        )
    drawn = np.sort(np.random.default_rng(0).permutation(ids)[:most])
    read, vectors = _encoded(teacher, library, drawn, progress or (lambda _: None))
    if len(read) < FEWEST:
        raise BadData(
            f"Only {len(read)} of its pictures can still be read. Expected {FEWEST} or more, "
            "to compare this model with the default one; mount their disk and index again."
        )
    reference = bank.encoded(teacher)
    usual = _usual(teacher, reference, vectors)
    texts = asked_texts(teacher.bank)
    names = np.asarray(teacher.encode_texts(texts[len(teacher.bank) :]), np.float32)
    asked = np.concatenate([reference, names])
    teacher_queries = queries_over(teacher, texts, asked, vectors, usual)
    fits, rho = whole_probabilities(Policy.load(home / OWN), teacher_queries)
    own = np.asarray(encoder.encode_texts(texts), np.float32)
    stranger = queries_over(encoder, texts, own, library.vectors(read), library.usual(read))
    policy = transferred(stranger, fits, rho, source=teacher.name, model=encoder.fingerprint)
    return policy, len(read)


def asked_texts(reference: Sequence[str]) -> list[str]:
    """The reference queries, and names of what they speak of: "a dog".

    They are captions, phrases and names of rare things; people ask for common things by name.
    """
    words = [word_tokenize(text.lower()) for text in reference]
    nouns = {stem(word) for word in noun_like(words, _OFTEN)}
    names = [with_article(noun) for noun in sorted(nouns)]
    return [*reference, *(name for name in names if name not in reference)]


def _encoded(
    teacher: Encoder,
    library: OpenIndex,
    ids: Int64[np.ndarray, " items"],
    progress: Callable[[Progress], None],
) -> tuple[Int64[np.ndarray, " read"], Float32[np.ndarray, "read dim"]]:
    """The teacher's vectors of the pictures that can be read."""
    items = library.items(ids)
    read, parts = [], []
    with ThreadPoolExecutor(thread_name_prefix="avow-read") as pool:
        for start in range(0, len(ids), _AT_ONCE):
            batch = slice(start, start + _AT_ONCE)
            pixels = list(pool.map(lambda item: _prepared(teacher, item), items[batch]))
            readable = [place for place, picture in enumerate(pixels) if picture is not None]
            if readable:
                stacked = np.stack([np.asarray(pixels[place]) for place in readable])
                parts.append(np.asarray(teacher.encode_prepared(stacked), np.float32))
                read.append(ids[batch][readable])
            progress(Progress(min(start + _AT_ONCE, len(ids)), len(ids), 0))
    if not parts:
        return ids[:0], np.empty((0, teacher.dim), np.float32)
    return np.concatenate(read), np.concatenate(parts)


def _prepared(teacher: Encoder, item: Item) -> np.ndarray | None:
    try:
        return teacher.prepare(open_item(item))
    except (BadData, MissingExtra, OSError):  # gone or changed: others are there to learn from
        return None


def _usual(
    encoder: Encoder,
    asked: Float32[np.ndarray, "queries dim"],
    items: Float32[np.ndarray, "items dim"],
) -> Background:
    return Background.from_scores([_similarity(encoder, asked, items)], encoder.tau)


def queries_over(
    encoder: Encoder,
    texts: Sequence[str],
    asked: Float32[np.ndarray, "queries dim"],
    items: Float32[np.ndarray, "items dim"],
    usual: Background | None,
) -> CalibrationQueries:
    """Queries over pictures as a search with this model sees them; no labels are known."""
    similarity = _similarity(encoder, asked, items)
    unknown = np.zeros(similarity.shape[1:], bool)
    own = min(1, encoder.views - 1)
    scored = ScoredQueries(similarity, unknown, own, encoder.tau, encoder.kind, usual)
    about = count_words(texts), commonness(texts)
    return CalibrationQueries("text", scored, *about, texts=tuple(texts), vectors=asked)


def _similarity(
    encoder: Encoder,
    asked: Float32[np.ndarray, "queries dim"],
    items: Float32[np.ndarray, "items dim"],
) -> Float32[np.ndarray, "views queries items"]:
    views = encoder.views
    queries_by_view, items_by_view = slices(asked, views), slices(items, views).swapaxes(1, 2)
    return (np.float32(views) * queries_by_view @ items_by_view).astype(np.float32)
