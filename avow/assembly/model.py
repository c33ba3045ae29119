"""A trained model: photographs and texts in, similarities and opinions out.

    model = Model.from_pretrained("runs/flickr8k-vse_infty_tcl")
    model.similarity(["dog.jpg"], ["a dog on a beach"])
    model.opinion(["dog.jpg"], ["a dog on a beach", "a plate of food"]).uncertainty

It holds one network per view. Their similarities are averaged to rank; each view's own
stay reachable. Opinions carry the K, tau and evidence function they were formed with in
`evidence_settings`, because an uncertainty means nothing without them.
"""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

import avow
from avow import backbones
from avow.assembly.checkpoint import load_weights, save_weights
from avow.assembly.evaluate import encode_captions
from avow.assembly.model_files import check_parts, learnt_from, pointed
from avow.assembly.opening import FORMAT, building, read_about, source_at_hand
from avow.assembly.pairs import some, whole
from avow.assembly.photographs import grid_regions, open_photograph
from avow.assembly.recipe import Recipe
from avow.assembly.scores import batches, encode
from avow.blocks.pretrained import text_files
from avow.core import folder
from avow.core.contracts import Backbone, Method, PairedDataset, Regions, Tokeniser
from avow.core.errors import BadData, BadFeatures, WrongCheckpoint
from avow.core.files import new_folder, recover
from avow.core.fingerprint import of_text
from avow.core.folder import AllowCode
from avow.core.opinion import Opinion
from avow.core.places import DEFAULT as DEFAULT
from avow.core.places import packaged_folder
from avow.core.seals import write_list
from avow.data.captions import TokenTable
from avow.data.vocabulary import Vocabulary
from avow.data.wordpiece import WordPieces

Images = Sequence[str | Path | Image.Image] | Regions | Float[Tensor, "images parts dim"]
_AT_ONCE = 256
_BACKBONE = "backbone."


class Model:
    """A trained model: the networks that were trained together, vocabulary and recipe.

    >>> model = avow.Model.from_pretrained("runs/animals")
    >>> features = torch.ones(2, 4, 12)  # of two images; paths work if the run has a backbone
    >>> model.similarity(features, ["a red dog", "a blue fish"]).shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        recipe: Recipe,
        views: Sequence[Method],
        tokeniser: Tokeniser,
        visual: dict[str, Any],
        history: dict[str, Any] | None = None,
        tuned: dict[str, Tensor] | None = None,
    ):
        self.recipe = recipe
        self.views = list(views)
        self.tokeniser = tokeniser
        self.visual = visual
        """Width, number and origin of the image features the views take."""
        self.history = history or {}
        """Where the weights come from: data and feature fingerprints, dev result."""
        self.tuned = tuned or {}
        """Weights of the backbone, where it was trained further; empty where it was not."""

    @classmethod
    def from_pretrained(
        cls, run: str | Path, device: str = "cpu", *, allow_code: AllowCode = False
    ) -> "Model":
        """Open a run of `avow train`, or a folder that `save_pretrained` wrote.

        "default" is the model that comes with Avow. allow_code: import the modules outside
        Avow that the model names, and read weights from elsewhere that it names. Both only
        for models of people you trust: importing a module runs its code.
        """
        home = _model_folder(Path(run))
        check_parts(home)
        about = read_about(home)
        recipe = Recipe.from_dict(about["recipe_name"], about["recipe"], allow_code=allow_code)
        tokeniser = _open_tokeniser(home)
        weights = load_weights(home)
        with building(home, recipe.method, weights):
            views = build_views(recipe, tokeniser, about["visual"]["dim"], home)
        _fill(views, weights, home)
        tuned = {
            name.removeprefix(_BACKBONE): tensor
            for name, tensor in weights.items()
            if name.startswith(_BACKBONE)
        }
        model = cls(recipe, views, tokeniser, about["visual"], about["history"], tuned)
        return model.to(device)

    def save_pretrained(self, where: str | Path, half: bool = False) -> None:
        """Write the model into the folder `where`, replacing what was there.

        half: weights in half precision, for a smaller folder; they are opened in full.
        """
        with new_folder(Path(where)) as home:
            self.tokeniser.save(home)
            self.views[0].save_parts(home)
            state = {
                f"{number}.{name}": tensor.half()
                if half and tensor.is_floating_point()
                else tensor
                for number, view in enumerate(self.views)
                for name, tensor in view.state_dict().items()
            }
            state |= {_BACKBONE + name: tensor for name, tensor in self.tuned.items()}
            save_weights(state, home)
            about = {
                "format": FORMAT,
                "avow": avow.__version__,
                "recipe_name": self.recipe.name,
                "recipe": self.recipe.to_dict(),
                "visual": self.visual,
                "history": self.history,
            }
            (home / "avow.json").write_text(json.dumps(about, indent=1))
            write_list(home)

    def to(self, device: str) -> "Model":
        for view in self.views:
            view.to(device).eval()
        return self

    @cached_property
    def fingerprint(self) -> str:
        """Changes with any weight and with the recipe; what was fitted for a model names it."""
        parts = [json.dumps(self.recipe.to_dict(), sort_keys=True)]
        for view in self.views:
            for name, tensor in view.state_dict().items():
                content = tensor.detach().cpu().contiguous().numpy().tobytes()
                parts += [name, hashlib.sha256(content).hexdigest()]
        return of_text(parts)  # the backbone's weights are part of the features' identity

    @property
    def own_backbone(self) -> str:
        """The fingerprint of the backbone's weights where the model brings them; else empty."""
        return str((self.visual["identity"] or {}).get("weights", "")) if self.tuned else ""

    def learnt_from(self, dataset: PairedDataset) -> bool:
        """Whether the training split of `dataset` was learnt from, as far as its name tells.

        The same pairs under another name are not recognised.
        """
        return learnt_from(self.history, dataset)

    @property
    def device(self) -> torch.device:
        return next(self.views[0].parameters()).device

    @property
    def evidence_settings(self) -> dict[str, Any]:
        """tau and evidence function of the loss; those of TCL where it has none."""
        settings = self.recipe.loss_settings()
        # what a recipe leaves out is the loss's own default: 0.1 in DECL, 0.05 in TCL
        loss = {key: setting.default for key, setting in settings.items()} | self.recipe.loss
        return {"tau": loss.get("tau", 0.05), "kind": loss.get("evidence", "exp")}

    @property
    def gives_evidence(self) -> bool:
        """Whether evidence was learnt; where not, the settings above only read it so."""
        return "tau" in self.recipe.loss_settings()

    def similarity(self, images: Images, texts: Sequence[str]) -> Float[Tensor, "i t"]:
        """Similarity in [-1, 1] of every image with every text, averaged over views."""
        return torch.stack(self.similarities(images, texts)).mean(0)

    @torch.inference_mode()
    def similarities(self, images: Images, texts: Sequence[str]) -> list[Float[Tensor, "i t"]]:
        """The same per view: view 0 answers image queries, view 1 text queries."""
        regions = self.regions(images)
        if not len(texts):
            raise BadData("There is no text to compare with. Expected at least one.")
        table = TokenTable.from_captions(self.tokeniser, texts)
        out = []
        for view in self.views:
            visual = encode(
                view.encode_visual,
                (some(regions, p) for p in _parts(regions)),
                self.device,
            )
            text = encode_captions(view, table, self.device, _AT_ONCE)
            visual, text = visual.to(self.device), text.to(self.device)
            out.append(view.similarity(visual, text).cpu())
        return out

    def opinion(
        self,
        images: Images,
        texts: Sequence[str],
        query: Literal["image", "text"] = "image",
        view: Literal["all", "own"] = "all",
    ) -> Opinion:
        """One opinion per query over the other side's items.

        view: "all" reads the averaged similarity, "own" the view that learnt the query's
        direction.
        """
        scores = self.similarities(images, texts)
        own = 0 if query == "image" or len(scores) == 1 else 1
        chosen = torch.stack(scores).mean(0) if view == "all" else scores[own]
        if query == "text":
            chosen = chosen.T
        return Opinion.from_similarity(chosen, **self.evidence_settings)

    def regions(self, images: Images) -> Regions:
        """Images as the views take them: files and pictures pass the backbone first."""
        if isinstance(images, Regions):
            return self._checked(images)
        if isinstance(images, Tensor):
            return self._checked(whole(images.float(), None))
        if not len(images):
            raise BadData("There is no image to compare with. Expected at least one.")
        pictures = [
            image if isinstance(image, Image.Image) else open_photograph(Path(image))
            for image in images
        ]
        grid = self.recipe.features.grid if self.recipe.features else 6
        return grid_regions(self.backbone, pictures, grid, self.device)

    @cached_property
    def backbone(self) -> Backbone:
        """The pixel network the features came from."""
        backbone = build_backbone(self.recipe)
        if self.tuned:
            _take(backbone, self.tuned, self.recipe.name)
        if backbone.identity != self.visual["identity"]:
            raise BadFeatures(
                f"The installed backbone is {backbone.identity} and the run was trained with "
                f"{self.visual['identity']}. Expected the same; install the version of its "
                "weights that the run names."
            )
        return backbone.to(self.device).eval()

    def _checked(self, regions: Regions) -> Regions:
        if regions.features.shape[-1] != self.visual["dim"]:
            raise BadFeatures(
                f"The features have {regions.features.shape[-1]} numbers per part. "
                f"Expected {self.visual['dim']}, as the run was trained with."
            )
        if not torch.isfinite(regions.features).all():
            raise BadFeatures(
                "The features hold NaN or infinite numbers. Expected finite ones; extract "
                "them again."
            )
        return regions


def build_backbone(recipe: Recipe) -> Backbone:
    """The pixel network of a recipe, as it is published."""
    wanted = recipe.features
    if wanted is None:
        raise BadFeatures(
            f"The run {recipe.name!r} was trained on features that came with its "
            "dataset. Expected such features, not photographs: pass a tensor [images, "
            "parts, dim]."
        )
    allowed = recipe.allow_code
    settings = {
        key: source_at_hand(value, allowed) if isinstance(value, str) else value
        for key, value in wanted.settings.items()
    }
    chosen = {**settings, "size": wanted.size}
    return folder.make(backbones, wanted.backbone, chosen, allow_code=allowed)


def build_views(
    recipe: Recipe, tokeniser: Tokeniser, visual_dim: int, trained: Path | None = None
) -> list[Method]:
    """Fresh networks for every view of a recipe; `trained`: weights will be loaded."""
    sizes: dict[str, Any] = {"visual_dim": visual_dim, "vocabulary": tokeniser.size}
    if trained is not None:
        sizes["pretrained"] = False
        if (trained / "config.json").is_file():
            sizes["text_source"] = str(trained)
        elif source := text_source(recipe):
            sizes["text_source"] = source_at_hand(source, recipe.allow_code)
    accepted = recipe.method_settings()
    sizes = {key: value for key, value in sizes.items() if key in accepted}
    return [recipe.build_method(**sizes) for _ in range(recipe.build_loss().views)]


def build_tokeniser(recipe: Recipe, captions: Sequence[str]) -> Tokeniser:
    """The tokeniser a recipe's text encoder needs; word lists come from `captions`."""
    source = text_source(recipe)
    if source:
        return WordPieces.open(text_files(source) / "tokenizer.json")
    return Vocabulary.from_captions(captions)


def text_source(recipe: Recipe) -> str:
    """Where the text network of a recipe comes from; empty where it has none."""
    kind = recipe.method.get("text", "gru")
    if kind not in ("bert", "minilm", "adapted", "kept"):
        return ""
    usual = "bert-base-uncased" if kind == "bert" else "minilm"
    return recipe.method.get("text_source", "") or usual


def _open_tokeniser(home: Path) -> Tokeniser:
    if (home / "vocabulary.json").is_file():
        return Vocabulary.open(home / "vocabulary.json")
    return WordPieces.open(home / "tokenizer.json")


def _model_folder(run: Path) -> Path:
    """The folder with the weights: `run` itself, or its best checkpoint."""
    recover(run)
    if (run / "avow.json").is_file():
        return run
    best = pointed(run, "best")
    if best is not None:
        return best
    if run == Path(DEFAULT):  # also where a folder of that name holds something else
        return packaged_folder()
    raise WrongCheckpoint(
        f"There is no model in {str(run)!r}. Expected a folder made by `avow train` or "
        "`save_pretrained`, or 'default' for the model that comes with Avow."
    )


def _fill(views: Sequence[Method], state: dict[str, Tensor], home: Path) -> None:
    for number, view in enumerate(views):
        prefix = f"{number}."
        own = {
            name.removeprefix(prefix): tensor
            for name, tensor in state.items()
            if name.startswith(prefix)
        }
        try:
            view.load_state_dict(own)
        except RuntimeError as error:
            what = " ".join(str(error).split())[:200]
            raise WrongCheckpoint(
                f"The weights in {str(home)!r} do not fit their recipe ({what} …). "
                "Expected the weights of the same method; copy the run again or train it "
                "anew."
            ) from error


def _take(backbone: Backbone, state: dict[str, Tensor], run: str) -> None:
    try:
        backbone.take(state)
    except (RuntimeError, ValueError) as error:
        what = " ".join(str(error).split())[:200]
        raise WrongCheckpoint(
            f"The weights of the backbone in {run!r} do not fit it ({what} …). Expected those "
            "that were saved with the run; copy it again or train it anew."
        ) from error


def _parts(regions: Regions) -> list[np.ndarray]:
    return list(batches(len(regions.features), _AT_ONCE))
