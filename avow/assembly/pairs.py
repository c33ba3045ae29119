"""A split with its features: which stored row belongs to which caption."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int

from avow.core.contracts import PairedDataset, Regions
from avow.core.errors import BadData, BadFeatures
from avow.data.features import FeatureStore, NpyRows, Rows
from avow.data.videos import VideoRows


@dataclass(frozen=True)
class FeaturedSplit:
    """Images that have features, and their captions; others are left out."""

    source: Rows
    image_ids: tuple[str, ...]
    rows: Int[np.ndarray, " images"]
    """For each image, its row in `source`."""
    captions: tuple[str, ...]
    image_of: Int[np.ndarray, " captions"]
    boxes: Float[np.ndarray, "parts 4"] | None
    """Where the parts lie, where it is the same in every image."""
    kept: Int[np.ndarray, " captions"] | None = None
    """For each caption, its place in the split before some were left out."""

    @classmethod
    def join(
        cls, dataset: PairedDataset, name: str, store: FeatureStore | None
    ) -> "FeaturedSplit":
        """Split `name` of `dataset` with the features of `store`, or with its own."""
        if name not in dataset.splits:
            raise BadData(
                f"The dataset {dataset.name!r} has no split {name!r}. "
                f"It has: {', '.join(dataset.splits)}."
            )
        split = dataset.splits[name]
        if store is not None:
            source, boxes = store.split(name), store.boxes
        elif split.features is not None:
            source, boxes = NpyRows(split), None
        elif split.videos is not None:
            source, boxes = VideoRows(split.image_ids, split.videos), None
        elif split.files is None:
            raise BadFeatures(
                f"The split {name!r} of {dataset.name!r} has no features. Expected some where "
                "the reader looks for them, or named in the recipe: data.features."
            )
        else:
            raise BadFeatures(
                f"The split {name!r} of {dataset.name!r} has photographs and no features. "
                "Expected a folder made by `avow features`; make one and name it with "
                "--features."
            )
        rows = source.rows_of(split.image_ids)
        with_features = np.flatnonzero(rows >= 0)
        if not len(with_features):
            raise BadFeatures(
                f"None of the {len(rows)} images of split {name!r} has features. "
                "Expected features of the same dataset; run `avow features` on it."
            )
        place = np.full(len(rows), -1, np.int64)
        place[with_features] = np.arange(len(with_features))
        chosen = np.flatnonzero(place[split.image_of] >= 0)
        return cls(
            source,
            tuple(split.image_ids[index] for index in with_features),
            rows[with_features],
            tuple(split.captions[index] for index in chosen),
            place[split.image_of[chosen]],
            boxes,
            chosen,
        )

    def only(self, images: Int[np.ndarray, " chosen"]) -> "FeaturedSplit":
        """Some of the images in their order, with all their captions."""
        place = np.full(len(self.rows), -1, np.int64)
        place[images] = np.arange(len(images))
        chosen = np.flatnonzero(place[self.image_of] >= 0)
        return replace(
            self,
            image_ids=tuple(self.image_ids[index] for index in images),
            rows=self.rows[images],
            captions=tuple(self.captions[index] for index in chosen),
            image_of=place[self.image_of[chosen]],
            kept=None if self.kept is None else self.kept[chosen],
        )

    @property
    def parts(self) -> int:
        return int(self.source.shape[1])

    @property
    def dim(self) -> int:
        return int(self.source.shape[2])

    @property
    def padded(self) -> bool:
        """Whether parts of nothing but zeros are padding."""
        return isinstance(self.source, VideoRows)

    def features(self, images: Int[np.ndarray, " items"]) -> torch.Tensor:
        """The stored features of some images, in the stored precision."""
        return torch.from_numpy(self.source.rows(self.rows[images]))

    def regions(self, images: Int[np.ndarray, " items"]) -> Regions:
        """Some images as a method takes them, on the host."""
        features = self.features(images)
        self.refuse_broken(features, images)
        return whole(features.float(), self.boxes_of(images), self.padded)

    def boxes_of(
        self, images: Int[np.ndarray, " items"]
    ) -> Float[np.ndarray, "#items parts 4"] | None:
        """Where the parts of some images lie: the same for all, or for each its own."""
        if self.boxes is not None:
            return self.boxes[None]
        if isinstance(self.source, NpyRows):
            return self.source.boxes(self.rows[images])
        return None

    def refuse_broken(self, features: torch.Tensor, images: Int[np.ndarray, " items"]) -> None:
        """Stop at NaN and infinity, wherever `features` lie, before they are learnt."""
        good = torch.isfinite(features).flatten(1).all(1)
        if not bool(good.all()):
            first = self.image_ids[images[int((~good).nonzero()[0])]]
            raise BadFeatures(
                f"The features of image {first!r} hold NaN or infinite numbers. Expected "
                "finite ones; extract them again."
            )


def whole(
    features: Float[torch.Tensor, "items parts dim"],
    boxes: Float[np.ndarray, "#items parts 4"] | None,
    padded: bool = False,
) -> Regions:
    """Features of which every part is present, or all but those of zeros where `padded`."""
    items, parts, _ = features.shape
    present = torch.ones(items, parts, dtype=torch.bool, device=features.device)
    if padded:
        present = (features != 0).any(2)
        present[:, 0] |= ~present.any(1)  # an item has at least one part
    places = None
    if boxes is not None:
        places = torch.from_numpy(boxes).to(features.device).expand(items, -1, -1)
    return Regions(features, present, places)


def some(regions: Regions, items: Int[np.ndarray, " items"]) -> Regions:
    """A choice of images, in the order given."""
    index = torch.from_numpy(items).to(regions.features.device)
    boxes = None if regions.boxes is None else regions.boxes[index]
    return Regions(regions.features[index], regions.present[index], boxes)
