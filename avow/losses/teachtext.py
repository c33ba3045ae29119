"""TeachText: another loss, and similarities that several teachers agree on.

A teacher is a trained model, of which a file holds the vectors of the training split. What
the student finds of a batch is pulled towards the mean of what the teachers find; of a loss
with several steps, such as TCL, in the first one.

    teacher.npz   videos [videos, dim]; texts [captions, dim], or [videos, dim] where every
                  caption of a video is taught the same; video_of [captions], the video of
                  every caption of the training split

Paper: Croitoru et al., "TeachText: CrossModal Generalized Distillation for Text-Video
Retrieval", ICCV 2021. There a teacher has one text per video, and adds up the dot products of
its experts without weights: their vectors one after the other are a vector of such a file.
`training/teachers.py` writes such files from runs. Without teachers it is the other loss alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from avow import losses
from avow.core import folder
from avow.core.contracts import Lesson, Loss, Scores, Similarities
from avow.core.errors import BadData
from avow.losses._shapes import Value


@dataclass(frozen=True)
class Teacher:
    """Vectors of the training split, by the positions of its captions."""

    videos: Float[Tensor, "videos dim"]
    texts: Float[Tensor, "texts dim"]
    video_of: Int[Tensor, " captions"]
    name: str = "teacher"

    def __post_init__(self) -> None:
        wrong = ""
        if len(self.texts) not in (len(self.videos), len(self.video_of)):
            wrong = f"{len(self.texts)} texts for {len(self.video_of)} captions"
        elif self.videos.shape[1] != self.texts.shape[1]:
            wrong = (
                f"videos of {self.videos.shape[1]} and texts of {self.texts.shape[1]} numbers"
            )
        elif len(self.video_of) and not 0 <= int(self.video_of.max()) < len(self.videos):
            wrong = (
                f"{len(self.videos)} videos and a caption of video {int(self.video_of.max())}"
            )
        if wrong:
            raise BadData(
                f"The teacher {self.name!r} has {wrong}. Expected vectors of one width, a text "
                "for every caption or for every video, and video_of below the number of "
                "videos. Write it again from the model that teaches."
            )

    @classmethod
    def open(cls, path: Path) -> "Teacher":
        try:
            with np.load(path, allow_pickle=False) as arrays:
                videos, texts, video_of = (arrays[k] for k in ("videos", "texts", "video_of"))
        except (OSError, ValueError, KeyError) as error:
            raise BadData(
                f"The teacher '{path}' cannot be read ({error}). Expected an .npz with videos, "
                "texts and video_of. Write it again from the model that teaches."
            ) from None
        return cls(
            torch.from_numpy(np.asarray(videos, np.float32)),
            torch.from_numpy(np.asarray(texts, np.float32)),
            torch.from_numpy(np.asarray(video_of, np.int64)),
            str(path),
        )

    def similarity(self, pairs: Int[Tensor, " pairs"]) -> Scores:
        """Of the videos of these captions with the captions."""
        pairs = pairs.to(self.videos.device)
        if len(pairs) and int(pairs.max()) >= len(self.video_of):
            raise BadData(
                f"The teacher {self.name!r} knows {len(self.video_of)} captions, and training "
                f"asks for number {int(pairs.max())}. Expected a teacher of the same training "
                "split; write it again from that."
            )
        videos = self.video_of[pairs]
        per_video = len(self.texts) != len(self.video_of)
        return self.videos[videos] @ self.texts[videos if per_video else pairs].T


@dataclass(frozen=True)
class TeachText(Loss):
    """The files of teachers are opened by the first lesson.

    A saved model is opened without them: they may be elsewhere, and a file that a stranger's
    model names is not read.
    """

    base: Loss
    teachers: tuple[Teacher | Path, ...]
    weight: float

    @cached_property
    def opened(self) -> tuple[Teacher, ...]:
        return tuple(
            one if isinstance(one, Teacher) else Teacher.open(one) for one in self.teachers
        )

    @property
    def views(self) -> int:  # type: ignore[override]
        return self.base.views

    @property
    def weighs(self) -> bool:  # type: ignore[override]
        return self.base.weighs

    def steps(self, similarities: Similarities, lesson: Lesson) -> Iterator[Value]:
        first: list[Sequence[Scores]] = []

        def compared() -> Sequence[Scores]:
            scores = similarities()
            if not first:
                first.append(scores)
            return scores

        for step, value in enumerate(self.base.steps(compared, lesson)):
            yield value + self.distance(first[0], lesson) if step == 0 else value

    def distance(self, views: Sequence[Scores], lesson: Lesson) -> Value:
        """How far each view is from the teachers, added up."""
        if not self.teachers:
            return views[0].new_zeros(())
        taught = self.taught(lesson.pairs).to(views[0])
        return self.weight * torch.stack([smooth_l1_loss(one, taught) for one in views]).sum()

    def taught(self, pairs: Int[Tensor, " pairs"]) -> Scores:
        """The mean of what the teachers find."""
        return torch.stack([teacher.similarity(pairs) for teacher in self.opened]).mean(0)


def build(
    base: Literal["hinge", "tcl"] = "hinge",
    settings: dict[str, Any] | None = None,
    teachers: Sequence[str] = (),
    weight: float = 1.0,
) -> TeachText:
    """base, settings: the other loss. teachers: files of vectors; weight: of their term."""
    listed = [teachers] if isinstance(teachers, str) else teachers
    files = tuple(Path(one) for one in listed)
    return TeachText(folder.make(losses, base, settings or {}), files, weight)
