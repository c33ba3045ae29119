"""Small models and pictures that the tests of searching share."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from samples import image_processor
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from avow import backbones
from avow.assembly.model import Model, build_views
from avow.assembly.recipe import Recipe
from avow.core import folder
from avow.core.searching import Encoder
from avow.data.vocabulary import Vocabulary

COLOURS = {
    "red": (220, 30, 30),
    "green": (30, 200, 40),
    "blue": (30, 40, 220),
    "yellow": (230, 220, 40),
    "white": (240, 240, 240),
    "black": (15, 15, 15),
    "cyan": (40, 210, 220),
    "purple": (130, 20, 150),
    "brown": (120, 70, 20),
    "pink": (250, 150, 190),
}
SENTENCES = ["a red dog runs", "two green cats sit", "the blue sea", "yellow white black"] * 4
SMALL = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
VISION = {**SMALL, "image_size": 32, "patch_size": 8}
PROCESSOR = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4], "resample": 2}
MARKS = ["<|startoftext|>", "<|endoftext|>", "<pad>", "<unk>"]


def toy_model(
    method: str = "vse_infty",
    loss: str = "tcl",
    seed: int = 0,
    sentences: Sequence[str] = SENTENCES,
    **settings: Any,
) -> Model:
    """A random model over photographs: EfficientNet-Lite0 at 64 pixels, 2 x 2 cells."""
    content = {
        "data": {"name": "none"},
        "features": {"backbone": "efficientnet_lite0", "size": 64, "grid": 2},
        "method": {"name": method, "dim": 8, "word_dim": 6, **settings},
        "loss": {"name": loss},
    }
    recipe = Recipe.from_dict("toy", content)
    vocabulary = Vocabulary.from_captions(sentences)
    backbone = folder.build(backbones, "efficientnet_lite0", size=64)
    torch.manual_seed(seed)
    views = [view.eval() for view in build_views(recipe, vocabulary, backbone.dim)]
    visual = {"dim": backbone.dim, "parts": 4, "identity": backbone.identity}
    return Model(recipe, views, vocabulary, visual)


def save_toy(place: Path, bank: list[str] | None = None, **settings: Any) -> Path:
    toy_model(**settings).save_pretrained(place)
    if bank:
        (place / "bank.json").write_text(json.dumps({"texts": bank}))
    return place


def picture(number: int, size: int = 64) -> Image.Image:
    """One colour over a strip of another, and noise; its own for every number."""
    rng = np.random.default_rng(number)
    main, under = (COLOURS[name] for name in colours_of(number))
    pixels = np.tile(main, (size, size, 1))
    pixels[: int(0.3 * size)] = under
    noise = rng.integers(-40, 40, (size, size, 3))
    return Image.fromarray((pixels + noise).clip(0, 255).astype(np.uint8))


def colours_of(number: int) -> tuple[str, str]:
    """What is seen in picture `number`: after a hundred, the same two colours again."""
    names = list(COLOURS)
    return names[number % 10], names[(number // 10) % 10]


def save_pictures(place: Path, count: int) -> list[Path]:
    place.mkdir(parents=True, exist_ok=True)
    names = list(COLOURS)
    paths = [place / f"{names[n % len(names)]}-{n:03d}.png" for n in range(count)]
    for number, path in enumerate(paths):
        picture(number).save(path)
    return paths


def save_two_towers(kind: str, place: Path, seed: int = 0) -> Any:
    """A random CLIP or SigLIP with its processor and tokeniser, as the hub has them."""
    import transformers as t

    torch.manual_seed(seed)
    words = [*MARKS, *sorted({word for text in SENTENCES for word in text.split()})]
    ends = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    text = {**SMALL, **ends, "vocab_size": len(words), "max_position_embeddings": 12}
    side = {"height": 32, "width": 32}
    if kind == "clip":
        config = t.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=8)
        network, processor = t.CLIPModel(config), image_processor("CLIP")
        sizes = {"size": {"shortest_edge": 32}, "crop_size": side}
    else:
        config = t.SiglipConfig(text_config=text, vision_config=VISION)
        network, processor = t.SiglipModel(config), image_processor("Siglip")
        sizes = {"size": side}
    network.save_pretrained(place)
    processor(**PROCESSOR, **sizes).save_pretrained(place)
    _save_tokeniser(words, place)
    return network.eval()


def _save_tokeniser(words: list[str], place: Path) -> None:
    import transformers as t

    numbers = {word: number for number, word in enumerate(words)}
    made = Tokenizer(models.WordLevel(numbers, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single=f"{MARKS[0]} $A {MARKS[1]}", special_tokens=[(MARKS[0], 0), (MARKS[1], 1)]
    )
    t.PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token=MARKS[0],
        eos_token=MARKS[1],
        pad_token="<pad>",
        unk_token="<unk>",
    ).save_pretrained(place)


class ColourEncoder(Encoder):
    """A joint space that needs no learning: the share of each named colour.

    Two views: both see the same, the second one less clearly.
    """

    name = "colours"
    views = 2
    dim = 2 * (len(COLOURS) + 1)
    tau = 0.05
    kind = "exp"

    def __init__(self, fingerprint: str = "c01045c01045c010", slips: float = 0.0):
        self.fingerprint, self.slips = fingerprint, slips
        """slips: how far a text is misread, each in its own way."""

    def prepare(self, photograph: Image.Image) -> np.ndarray:
        return np.asarray(photograph.convert("RGB").resize((8, 8)))

    def encode_prepared(self, pixels: np.ndarray) -> np.ndarray:
        named = np.array(list(COLOURS.values()), float)
        apart = np.linalg.norm(pixels[..., None, :].astype(float) - named, axis=-1)
        near = np.exp(-apart / 60)
        share = (near / near.sum(-1, keepdims=True)).mean((1, 2))
        return self._vectors(np.concatenate([share, np.full((len(share), 1), 0.3)], 1))

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        said = [_named(text.split()) for text in texts]
        other = [[float(not any(row))] for row in said]
        luck = [np.random.default_rng([*text.encode()]).random(11) for text in texts]
        meant = np.concatenate([np.array(said), np.array(other)], 1)
        return self._vectors(meant + 0.02 + self.slips * np.stack(luck))

    def _vectors(self, shares: np.ndarray) -> np.ndarray:
        clear, blurred = shares, shares + 0.2
        both = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (clear, blurred)]
        return (np.concatenate(both, 1) / np.sqrt(2)).astype(np.float32)


def _named(words: list[str]) -> list[float]:
    """The colours that are named; what lies "over" something is larger."""
    later = words[words.index("over") :] if "over" in words else []
    return [0.4 if name in later else float(name in words) for name in COLOURS]


def index_with_a_cat(home: Path, cat: str = "cat.jpg") -> Path:
    """An index by the shipped model: a cat and a cup of coffee among plain colours."""
    from skimage import data

    from avow.retrieval.encoders.opening import open_encoder
    from avow.retrieval.indexing import index_folders

    save_pictures(home / "pictures", 10)
    Image.fromarray(data.chelsea()).save(home / "pictures" / cat)
    Image.fromarray(data.coffee()).save(home / "pictures" / "cup.jpg")
    index_folders([home / "pictures"], index=home / "index", encoder=open_encoder())
    return home / "index"
