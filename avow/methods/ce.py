"""Collaborative Experts: a vector per expert and video, gated by what the other experts saw.

    expert --mean or NetVLAD--> reduce --gate, asked by all pairs of experts--> unit vector
    words  --NetVLAD----------> one gated unit per expert --------------------> unit vector
                             '-> how much each expert counts

The similarity is the mean of the experts' cosines, weighted by the text and taken over the
experts that the video has.

Paper: Liu et al., "Use What You Have: Video Retrieval Using Representations From Collaborative
Experts", BMVC 2019; in the form CE+ of Croitoru et al., "TeachText: CrossModal Generalized
Distillation for Text-Video Retrieval", ICCV 2021. As in the published system, experts are
gated one after the other, so that a later one sees the earlier ones gated, and the norms
between the layers of `Reasoning` are shared by all pairs.

In the published system NetVLAD pools padding too, and a missing expert as a row of zeros:
`faithful = true`. By default it pools what is there.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import glu, normalize, pad

from avow.blocks.encoders import EncoderSettings
from avow.blocks.netvlad import NetVlad
from avow.blocks.text import TextEncoder, build_text
from avow.core.contracts import Encoded, Experts, Method, Regions, TextFeatures, Tokens
from avow.core.errors import BadFeatures, BadRecipe
from avow.core.keywords import with_keywords

ALONE = "frames"  # what the one expert of plain features is called
_FEWEST = 1e-11  # added to the number of experts that are there


@dataclass(frozen=True)
class Expert:
    """Numbers per part, and clusters where the parts are pooled by NetVLAD, else 0."""

    width: int
    clusters: int = 0


@dataclass(frozen=True, kw_only=True)
class CeSettings(EncoderSettings):
    """experts: "scene:2208, audio:128/16": their order, widths, and clusters of NetVLAD.

    Empty: the features are one expert. text_dim: numbers per word; clusters, ghosts: of the
    text's NetVLAD. text_features: whether texts come as features, so that no encoder is
    trained. layers: of the network that compares two experts.
    """

    dim: int = 768
    experts: str = ""
    text_dim: int = 768
    text_features: bool = False
    clusters: int = 28
    ghosts: int = 1
    layers: int = 3
    faithful: bool = False

    def named_experts(self) -> dict[str, Expert]:
        if not self.experts:
            return {ALONE: Expert(self.visual_dim)}
        return read_experts(self.experts)

    def word_encoder(self) -> TextEncoder | None:
        if self.text_features:
            return None
        return build_text(
            self.text,
            dim=self.text_dim,
            vocabulary=self.vocabulary,
            word_dim=self.word_dim,
            source=self.text_source,
            pretrained=self.pretrained,
            dropout=self.dropout_word,
        )


def read_experts(listed: str) -> dict[str, Expert]:
    """Experts from "name:width" or "name:width/clusters", with commas between them."""
    out = {}
    for one in listed.split(","):
        name, _, sizes = one.strip().partition(":")
        width, slash, clusters = sizes.partition("/")
        numbers = [width, clusters] if slash else [width]
        if not name or name in out or not all(n.isdecimal() and int(n) for n in numbers):
            raise BadRecipe(
                f"The experts of 'ce' are {listed!r}, which cannot be read at {one.strip()!r}. "
                "Expected each name once with its width, such as 'scene:2208, audio:128/16'; "
                "the number after a slash is that of NetVLAD's clusters."
            )
        out[name] = Expert(int(width), int(clusters or 0))
    return out


class Reasoning(nn.Module):
    """What one expert makes of another: the layers are the same for all pairs."""

    def __init__(self, dim: int, layers: int):
        super().__init__()
        self.first = nn.Linear(2 * dim, dim)
        rest = [
            (nn.BatchNorm1d(dim), nn.Mish(), nn.Linear(dim, dim)) for _ in range(layers - 1)
        ]
        self.rest = nn.Sequential(*(layer for three in rest for layer in three))

    def forward(
        self, own: Float[Tensor, "items dim"], other: Float[Tensor, "items dim"]
    ) -> Float[Tensor, "items dim"]:
        return self.rest(self.first(torch.cat([own, other], 1)))


class Gate(nn.Module):
    """Lets through what the vector itself, and where there is one a request, ask for."""

    def __init__(self, dim: int, asked: bool):
        super().__init__()
        self.own = nn.Linear(dim, dim)
        self.norm = nn.BatchNorm1d(dim)
        self.request_norm = nn.BatchNorm1d(dim) if asked else None

    def forward(
        self, vectors: Float[Tensor, "items dim"], request: Float[Tensor, "items dim"] | None
    ) -> Float[Tensor, "items dim"]:
        gate = self.norm(self.own(vectors))
        if self.request_norm is not None and request is not None:
            gate = self.request_norm(request) + gate
        return normalize(glu(torch.cat([vectors, gate], 1), 1))


class VideoExperts(nn.Module):
    """Features of experts to one gated vector each."""

    def __init__(self, how: CeSettings):
        super().__init__()
        self.experts = how.named_experts()
        self.widths = {name: expert.width for name, expert in self.experts.items()}
        self.faithful = how.faithful
        self.drop_in, self.drop_out = (
            nn.Dropout(how.dropout_image),
            nn.Dropout(how.dropout_head),
        )
        pools = {
            name: NetVlad(expert.width, expert.clusters)
            for name, expert in self.experts.items()
            if expert.clusters
        }
        # a name with a dot would be no name of a module
        self.pools = nn.ModuleDict({name.replace(".", "_"): pools[name] for name in pools})
        self.reduce = nn.ModuleList(
            [
                nn.Linear(one.width * (one.clusters or 1), how.dim)
                for one in self.experts.values()
            ]
        )
        self.reasoning = Reasoning(how.dim, how.layers)
        self.gates = nn.ModuleList([Gate(how.dim, asked=True) for _ in self.experts])

    def forward(self, experts: Experts) -> Float[Tensor, "items experts dim"]:
        """Vectors of the experts in their order, those of missing ones without a meaning."""
        vectors = [
            self.drop_out(normalize(reduce(self._pooled(name, experts))))
            for name, reduce in zip(self.experts, self.reduce, strict=True)
        ]
        available = experts.available.to(vectors[0].dtype)
        for place, gate in enumerate(self.gates):
            both = available * available[:, place : place + 1]
            asked = [
                self.reasoning(vectors[place], other) * both[:, partner : partner + 1]
                for partner, other in enumerate(vectors)
            ]
            request = torch.stack(asked).sum(0) / (both.sum(1, keepdim=True) + _FEWEST)
            vectors[place] = gate(vectors[place], request)
        return torch.stack(vectors, 1)

    def _pooled(self, name: str, experts: Experts) -> Float[Tensor, "items width"]:
        present = experts.present[name]
        parts = experts.features[name].masked_fill(~present[..., None], 0)
        parts = self.drop_in(parts)
        if not self.experts[name].clusters:
            return parts.sum(1) / present.sum(1, keepdim=True).clamp(min=1)
        pooled = torch.ones_like(present) if self.faithful else present
        return self.pools[name.replace(".", "_")](parts, pooled)

    def sorted_out(self, visual: Regions | Experts) -> Experts:
        """Experts by name, in the order of the recipe, whatever they came in."""
        if isinstance(visual, Regions):
            if list(self.widths) == [ALONE]:
                return Experts({ALONE: visual.features}, {ALONE: visual.present})
            return Experts.unpacked(visual.features, visual.present, self.widths)
        if visual.widths != self.widths or visual.names != tuple(self.widths):
            raise BadFeatures(
                f"There are features of the experts {visual.widths}. Expected {self.widths}, "
                "in this order; give a missing expert an empty mask."
            )
        return visual


class TextExperts(nn.Module):
    """A pooled text to one vector per expert, as long as that expert counts."""

    def __init__(self, inside: int, experts: int, dim: int):
        super().__init__()
        self.weigh = nn.Linear(inside, experts) if experts > 1 else None
        self.project = nn.ModuleList([nn.Linear(inside, dim) for _ in range(experts)])
        self.gates = nn.ModuleList([Gate(dim, asked=False) for _ in range(experts)])

    def forward(
        self, pooled: Float[Tensor, "items inside"]
    ) -> tuple[Float[Tensor, "items experts dim"], Float[Tensor, "items experts"]]:
        """Unit vectors, and weights that add up to one."""
        vectors = [
            gate(project(pooled), None)
            for project, gate in zip(self.project, self.gates, strict=True)
        ]
        if self.weigh is None:
            return torch.stack(vectors, 1), pooled.new_ones(len(pooled), 1)
        return torch.stack(vectors, 1), self.weigh(pooled).softmax(1)


class CollaborativeExperts(Method):
    """A part of a video is a unit vector of an expert, absent where the expert is missing.

    A part of a text is a vector for that expert, as long as the text lets it count.
    """

    def __init__(self, how: CeSettings):
        super().__init__()
        self.visual = VideoExperts(how)
        self.text = how.word_encoder()
        self.pool = NetVlad(how.text_dim, how.clusters, how.ghosts)
        self.text_experts = TextExperts(self.pool.width, len(self.visual.experts), how.dim)
        self.drop_in, self.drop_out = nn.Dropout(how.dropout_word), nn.Dropout(how.dropout_head)
        self.faithful = how.faithful

    def encode_visual(self, visual: Regions | Experts) -> Encoded:
        experts = self.visual.sorted_out(visual)
        available = experts.available
        return Encoded(self.visual(experts).float() * available[..., None], available)

    def encode_text(self, text: Tokens | TextFeatures) -> Encoded:
        vectors, weights = self.text_experts(self.drop_out(self.pooled_text(text)))
        parts = (vectors * weights[..., None]).float()
        every = torch.ones(parts.shape[:2], dtype=torch.bool, device=parts.device)
        return Encoded(parts, every)

    def pooled_text(self, text: Tokens | TextFeatures) -> Float[Tensor, "items width"]:
        pooled: Bool[Tensor, "items parts"] = text.present
        if self.faithful:
            pooled = torch.ones_like(pooled)
        if isinstance(text, TextFeatures):
            return self.pool(self.drop_in(text.features), pooled)
        if self.text is None:
            raise BadFeatures(
                "The texts are words, and 'ce' was built with text_features = true. Expected "
                "features per word, or text_features = false."
            )
        return self.pool(self.text(text), pooled)

    def score(self, visual: Encoded, text: Encoded) -> Float[Tensor, "images texts"]:
        """The lengths of a text's parts are its weights."""
        # where the last experts of all videos are missing, they may have been cut off
        counted = text.parts[:, : visual.parts.shape[1]]
        weights = visual.present.to(counted.dtype) @ counted.norm(dim=-1).T
        agreed = visual.parts.flatten(1) @ counted.flatten(1).T
        return agreed / weights.clamp(min=_FEWEST)

    def pooled(self, encoded: Encoded) -> Float[Tensor, "items dim"]:
        """All experts one after the other.

        Their dot product ranks videos for a text as the similarity does, where all videos
        have all experts.
        """
        missing = len(self.visual.experts) - encoded.parts.shape[1]
        every = pad(encoded.parts, (0, 0, 0, missing))
        return normalize(every.flatten(1).float())


build = with_keywords(CeSettings, CollaborativeExperts)
