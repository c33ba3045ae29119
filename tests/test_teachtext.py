"""TeachText: teachers looked up by captions, and their term in the first step alone."""

import re

import numpy as np
import pytest
import torch
from samples import SMALLER, small_recipe, write_precomp
from torch.nn.functional import smooth_l1_loss

from avow import losses
from avow.assembly.evaluate import score_views
from avow.assembly.recipe import Recipe
from avow.core import folder
from avow.core.contracts import Lesson
from avow.core.errors import BadData, BadRecipe
from avow.training.setup import enrol, open_data
from avow.training.teachers import write_teacher

VIDEO_OF = np.array([0, 0, 1, 2, 2, 2])


def written(path, texts: int, dim: int = 4, seed: int = 0, video_of=VIDEO_OF):
    draw = np.random.default_rng(seed)
    arrays = {"videos": draw.normal(size=(3, dim)), "texts": draw.normal(size=(texts, dim))}
    np.savez(path, **arrays, video_of=video_of)
    return arrays


def lesson(pairs: list[int], epoch: int = 0, views: int = 1) -> Lesson:
    count = len(pairs)
    match = torch.eye(count, dtype=torch.bool)
    return Lesson(torch.tensor(pairs), match, torch.ones(views, count), epoch, 0)


@pytest.mark.parametrize("texts", [3, 6], ids=["a text per video", "a text per caption"])
def test_teachers_are_looked_up_by_the_captions_of_the_batch(tmp_path, texts):
    both = [written(tmp_path / f"{n}.npz", texts, dim=4 + n, seed=n) for n in range(2)]
    paths = [str(tmp_path / f"{n}.npz") for n in range(2)]
    loss = folder.build(losses, "teachtext", teachers=paths, weight=0.5)
    pairs = [4, 0, 2]
    expected = np.zeros((3, 3))
    for teacher in both:
        for row, video in enumerate(VIDEO_OF[pairs]):
            for column, caption in enumerate(pairs):
                text = caption if texts == 6 else VIDEO_OF[caption]
                expected[row, column] += teacher["videos"][video] @ teacher["texts"][text] / 2
    torch.testing.assert_close(
        loss.taught(torch.tensor(pairs)).double(),
        torch.from_numpy(expected),
        rtol=1e-5,
        atol=1e-6,
    )
    scores = torch.rand(3, 3)
    alone = next(folder.build(losses, "hinge").steps(lambda: [scores], lesson(pairs)))
    (value,) = loss.steps(lambda: [scores], lesson(pairs))
    term = 0.5 * smooth_l1_loss(scores, torch.from_numpy(expected).float())
    torch.testing.assert_close(value, alone + term)


def test_tcl_keeps_the_teachers_in_its_first_step(tmp_path):
    written(tmp_path / "one.npz", 6)
    settings = {"agreement_steps": 2}
    loss = folder.build(
        losses, "teachtext", base="tcl", settings=settings, teachers=str(tmp_path / "one.npz")
    )
    assert loss.views == 2 and loss.weighs
    scores = [torch.rand(3, 3), torch.rand(3, 3)]
    asked = lesson([1, 2, 5], epoch=3, views=2)
    alone = list(folder.build(losses, "tcl", **settings).steps(lambda: scores, asked))
    taught = list(loss.steps(lambda: scores, asked))
    assert len(taught) == len(alone) == 3
    target = loss.taught(asked.pairs)
    term = smooth_l1_loss(scores[0], target) + smooth_l1_loss(scores[1], target)
    torch.testing.assert_close(taught[0], alone[0] + term)
    torch.testing.assert_close(torch.stack(taught[1:]), torch.stack(alone[1:]))


def test_the_gradient_leads_towards_the_teachers(tmp_path):
    written(tmp_path / "one.npz", 6)
    teachers = [str(tmp_path / "one.npz")]
    loss = folder.build(losses, "teachtext", teachers=teachers, weight=1000.0)
    scores = torch.zeros(3, 3, requires_grad=True)
    asked = lesson([0, 2, 3])
    for _ in range(300):
        (value,) = loss.steps(lambda: [scores], asked)  # noqa: B023
        (gradient,) = torch.autograd.grad(value, scores)
        with torch.no_grad():
            scores -= 0.005 * gradient
    torch.testing.assert_close(scores.detach(), loss.taught(asked.pairs), atol=0.05, rtol=0)


def test_a_teacher_of_another_split_is_refused(tmp_path):
    written(tmp_path / "one.npz", 6)
    loss = folder.build(losses, "teachtext", teachers=[str(tmp_path / "one.npz")])
    with pytest.raises(BadData) as caught:
        list(loss.steps(lambda: [torch.zeros(2, 2)], lesson([0, 6])))
    assert str(caught.value) == (
        f"The teacher {str(tmp_path / 'one.npz')!r} knows 6 captions, and training asks for "
        "number 6. Expected a teacher of the same training split; write it again from that."
    )


@pytest.mark.parametrize(
    "texts, video_of, wrong",
    [
        (5, VIDEO_OF, "5 texts for 6 captions"),
        (6, VIDEO_OF + 1, "3 videos and a caption of video 3"),
    ],
)
def test_a_teacher_that_does_not_fit_together_is_refused(tmp_path, texts, video_of, wrong):
    written(tmp_path / "one.npz", texts, video_of=video_of)
    loss = folder.build(losses, "teachtext", teachers=[str(tmp_path / "one.npz")])
    with pytest.raises(BadData, match=re.escape(f"has {wrong}. Expected vectors of one width")):
        loss.taught(torch.arange(2))


def test_a_teacher_that_is_no_file_of_vectors_is_refused(tmp_path):
    (tmp_path / "one.npz").write_bytes(b"nothing")
    for name in ("one.npz", "none.npz"):
        # opened by the first lesson: a saved model is opened without its teachers
        loss = folder.build(losses, "teachtext", teachers=[str(tmp_path / name)])
        with pytest.raises(BadData, match=r"Expected an \.npz with videos, texts and video_of"):
            loss.taught(torch.arange(2))


def test_settings_of_the_other_loss_are_checked():
    with pytest.raises(BadRecipe, match="'hinge' in losses has no setting 'tau'"):
        folder.build(losses, "teachtext", settings={"tau": 0.1})


def test_hinge_may_be_the_mean_over_all_negatives():
    torch.manual_seed(0)
    scores = torch.rand(4, 4)
    loss = folder.build(losses, "hinge", margin=0.1, hardest=False, reduce="pairs")
    costs = [
        max(0.0, 0.1 + float(table[a, b] - table[a, a]))
        for table in (scores, scores.T)
        for a in range(4)
        for b in range(4)
        if a != b
    ]
    (value,) = loss.steps(lambda: [scores], lesson([0, 1, 2, 3]))
    assert float(value) == pytest.approx(sum(costs) / len(costs), rel=1e-5)
    hardest = folder.build(losses, "hinge", margin=0.1, reduce="pairs", warm_up=0)
    whole = folder.build(losses, "hinge", margin=0.1, warm_up=0)
    (one,), (other,) = (
        loss.steps(lambda: [scores], lesson([0, 1, 2, 3])) for loss in (hardest, whole)
    )
    torch.testing.assert_close(one, other / 8)


# --- teachers from runs -------------------------------------------------------------------


@pytest.mark.parametrize("method", ["vse_infty", "ce"])
def test_a_model_teaches_what_it_finds(tmp_path, method):
    """The mean of its views' similarities, whatever captions are asked for."""
    content = small_recipe(write_precomp(tmp_path / "data"))
    content["method"] |= {"name": method, **SMALLER.get(method, {})}
    recipe = Recipe.from_dict("small", content)
    model, course = enrol(recipe, open_data(recipe), None)
    write_teacher(model, course.train, tmp_path / "teachers" / "one.npz")
    loss = folder.build(losses, "teachtext", teachers=str(tmp_path / "teachers" / "one.npz"))
    whole = np.mean(score_views(model.views, course.train, course.train_table, "cpu"), 0)
    pairs = torch.tensor([200, 3, 17])
    expected = whole[course.train.image_of[pairs.numpy()]][:, pairs.numpy()]
    np.testing.assert_allclose(loss.taught(pairs).numpy(), expected, atol=2e-3)


def test_a_model_that_compares_parts_cannot_teach(tmp_path):
    content = small_recipe(write_precomp(tmp_path / "data"))
    content["method"] |= {"name": "scan"}
    recipe = Recipe.from_dict("small", content)
    model, course = enrol(recipe, open_data(recipe), None)
    with pytest.raises(BadRecipe) as caught:
        write_teacher(model, course.train, tmp_path / "one.npz")
    assert str(caught.value) == (
        "The method 'scan' compares parts, and a teacher needs one vector per item. Expected a "
        "run of a method that compares vectors, or of 'ce'."
    )
