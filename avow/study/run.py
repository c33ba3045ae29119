"""Conduct the study of trained runs: encode, score, ask the bank, judge, and write it down.

    study_runs(runs, plan, folder)  ->  study.json, index.html, a policy per direction and the
                                        bank.json that a search with one of them needs

The probability is fitted on the dev split, the bank is the training split, and the test
split is judged. A run whose study is in the folder already is not studied again.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

import avow
from avow import uncertainty
from avow.assembly.identity import search_fingerprint
from avow.assembly.model import Model
from avow.assembly.scored_split import background, encode_split, score
from avow.assembly.scores import Blocks
from avow.core import fingerprint, folder
from avow.core.background import Background
from avow.core.contracts import Encoded, QueryBatch
from avow.core.files import write_text
from avow.core.seals import read_document, write_document
from avow.data.captions import TokenTable
from avow.data.judgements import Judgements, read_judgements
from avow.reports.report import write_report
from avow.study.corruption import Stating, corruption_study
from avow.study.direction import Direction, about, study_direction
from avow.study.examples import extremes
from avow.study.human_agreement import human_study
from avow.study.human_hits import people_study
from avow.study.plan import Material, Plan, open_relevant, prepare
from avow.study.relevance import RELEVANT, relevance_study, score_queries
from avow.study.short_queries import query_sets, read_objects, whole_captions
from avow.study.stochastic import (
    PIXEL_PASSES,
    Repeated,
    drawn_statistics,
    dropped,
    from_pixels,
)
from avow.trust.fitting import fit_policy
from avow.trust.gallery_sampling import Query, ScoredQueries, collect_hits, predict
from avow.trust.policy import Policy
from avow.trust.probability import Probability
from avow.trust.top_k import describe, summarise

QUERIES: tuple[Query, ...] = ("text", "image")
STYLES: dict[Query, str] = {"text": "caption", "image": "photograph"}


def study_runs(
    runs: Sequence[Path],
    plan: Plan,
    out: Path,
    device: str,
    blocks: Blocks | None = None,
    progress: bool = True,
) -> tuple[list[dict[str, Any]], Path]:
    """The studies of some runs of one recipe, and the page that shows them together."""
    # whatever is missing is named now, and not after the long part
    judgements = None if plan.judgements is None else read_judgements(plan.judgements)
    if plan.objects is not None:
        read_objects(plan.objects)
    blocks = blocks or Blocks()
    together: dict[Path, dict[Query, np.ndarray]] = {}
    studies, pictures = [], {}
    with _made(out):
        for run in runs:
            file = out / f"study-{_key(run, runs, plan)}.json"
            study = _stored_study(file)
            if study is None:
                material = prepare(run, plan, device, blocks, progress)
                others = [
                    _averaged(other, material, together, device, blocks, plan.allow_code)
                    for other in runs
                    if other != run
                ]
                study, policies = study_run(
                    run, material, plan, others, judgements, blocks, progress
                )
                write_document(file, study)
                for name, policy in policies.items():
                    policy.save(out / f"trust-{run.name}-{name}.json")
                # a search with one of these policies needs the same reference queries
                bank = {"texts": [text for text in material.training.captions if text]}
                write_document(out / "bank.json", bank)
                study = read_document(file)
            studies.append(study)
            pictures |= study.pop("pictures", {})
    write_text(out / "study.json", json.dumps({"studies": studies}, indent=1))
    page = write_report(studies, out, lambda name: _file(pictures.get(name)))
    return studies, page


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """A folder made first, so that one that cannot be is told before the long part.

    Where that part fails and has put nothing into it, the folder goes again.
    """
    fresh = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # something is in it
            for one in fresh:
                one.rmdir()
        raise


def study_run(
    run: Path,
    material: Material,
    plan: Plan,
    others: Sequence[dict[Query, np.ndarray]] = (),
    judgements: Judgements | None = None,
    blocks: Blocks | None = None,
    progress: bool = True,
) -> tuple[dict[str, Any], dict[str, Policy]]:
    """The whole study of one run, and a policy for each direction and query style.

    others: the averaged similarity of independently trained runs, per direction.
    judgements: what people said of pairs of the split.
    """
    started = time.monotonic()
    model, blocks = material.model, blocks or Blocks()
    directions: dict[str, Any] = {}
    probabilities: dict[Query, Probability] = {}
    repeated = _repeated(material, plan)
    for query in tqdm(QUERIES, desc="judging", disable=not progress, leave=False, delay=2):
        runs = np.stack([other[query] for other in others]) if others else None
        extra = _extra(material.judged[query], query, repeated, runs)
        directions[query], probabilities[query] = study_direction(
            Direction(material.fitted[query], material.judged[query]),
            extra=extra,
            splits=plan.splits,
            draws=plan.draws,
            seed=plan.seed,
        )
        directions[query]["extremes"] = extremes(
            material.judged[query], probabilities[query], material.split, query
        )
        directions[query] |= _scatter(extra, repeated, material.judged[query])
    if plan.corruption:
        worse = _corrupted(material, probabilities, plan, blocks, progress)
        for query in QUERIES:
            directions[query]["corruption"] = worse[query]
    study: dict[str, Any] = {"about": _about(run, material, plan), "directions": directions}
    study["notes"] = [note for one in repeated for note in one.notes()]
    if judgements is not None:
        pairs = judgements.within(material.split.image_ids, material.split.image_of)
        study["human"] = human_study(material.judged, pairs, probabilities, seed=plan.seed)
        study["human"]["hits"] = people_study(
            _events(material), material.judged["text"], pairs, seed=plan.seed
        )
    study["pictures"] = _pictures(material, directions, plan)
    policies: dict[str, Policy] = {
        query: _policy(material.fitted[query], model, query) for query in QUERIES
    }
    if plan.relevant:
        study["relevant"], more = _relevant(material, plan, blocks, progress)
        policies |= {f"relevant-{style.replace(' ', '-')}": one for style, one in more.items()}
    study["about"]["seconds"] = round(time.monotonic() - started, 1)
    return study, policies


def _relevant(
    material: Material, plan: Plan, blocks: Blocks, progress: bool
) -> tuple[dict[str, Any], dict[str, Policy]]:
    """P(relevant) per style of query, over the photographs of a dataset with objects."""
    model = material.model
    dataset, split = open_relevant(model, material.home, plan)
    images = encode_split(model, split, blocks, progress).images
    usual = background(model, images, material.bank.texts, "text", blocks, progress=progress)
    objects = None if plan.objects is None else read_objects(plan.objects)
    scored = {
        group.style: score_queries(model, group, images, usual, blocks)
        for group in query_sets(split, objects)
        if group.queries
    }
    rows, policies = relevance_study(scored, model=search_fingerprint(model), seed=plan.seed)
    where = {"dataset": dataset.name, "split": plan.relevant_split}
    return {"about": where, "styles": rows}, policies


def _events(material: Material) -> dict[str, ScoredQueries]:
    """Captions the probabilities are fitted on, with what is relevant and what is right."""
    fitted = material.fitted["text"]
    relevant = replace(fitted, match=whole_captions(material.held).match)
    return {RELEVANT: relevant, "right": fitted}


def _extra(
    judged: ScoredQueries,
    query: Query,
    repeated: Sequence[Repeated],
    runs: Float[np.ndarray, "runs queries candidates"] | None,
) -> dict[str, Float[np.ndarray, " queries"]]:
    """Measures that need more than one deterministic pass of one run."""
    base = judged.asked()
    extra: dict[str, np.ndarray] = {}
    for one in repeated:
        extra |= one.measure(base, query)
    if runs is not None:
        everyone = np.concatenate([base.together[None], runs])
        asked = QueryBatch(base.similarity, base.own, runs=everyone)
        measures = folder.build(uncertainty, "ensemble").measure(asked)
        extra |= {
            f"ensemble: {key}": value.cpu().double().numpy() for key, value in measures.items()
        }
    return extra


def _repeated(material: Material, plan: Plan) -> list[Repeated]:
    """Every way to ask again that the plan wants."""
    model, split, repeated = material.model, material.split, []
    if plan.passes:
        repeated = [
            dropped(model, split, plan.passes, plan.seed),
            drawn_statistics(model, split, material.training, plan.passes, plan.seed),
        ]
    if plan.pixels:
        repeated.append(
            from_pixels(
                model,
                split,
                material.dataset.splits[plan.split],
                material.home.splits[plan.bank],
                count=plan.passes or PIXEL_PASSES,
                most=plan.pixels_most,
                seed=plan.seed,
            )
        )
    return repeated


def _averaged(
    run: Path,
    material: Material,
    cache: dict[Path, dict[Query, np.ndarray]],
    device: str,
    blocks: Blocks,
    allow_code: bool = False,
) -> dict[Query, np.ndarray]:
    """The averaged similarity of another run on the same split, computed once."""
    if run not in cache:
        model = Model.from_pretrained(run, device, allow_code=allow_code)
        scored = score(model, encode_split(model, material.split, blocks), None, blocks)
        cache[run] = {query: scored[query].similarity.mean(0) for query in QUERIES}
    return cache[run]


def _corrupted(
    material: Material,
    probabilities: dict[Query, Probability],
    plan: Plan,
    blocks: Blocks,
    progress: bool,
) -> dict[Query, dict[str, Any]]:
    model, bank = material.model, material.bank

    def confident(asked: QueryBatch, probability: Probability) -> Float[np.ndarray, " queries"]:
        summary, _ = summarise(asked)
        features = describe(summary)[:, :1]
        return predict(probability, features, summary.gallery)[:, 0]

    def usual(query: Query, candidates: Sequence[Encoded]) -> Background:
        asking = bank.texts if query == "text" else bank.images
        return background(model, candidates, asking, query, blocks)

    return corruption_study(
        model,
        material.split,
        TokenTable.from_captions(model.tokeniser, material.split.captions),
        stating=Stating(
            {query: partial(confident, probability=probabilities[query]) for query in QUERIES},
            usual,
            plan.word_changes,
        ),
        seed=plan.seed,
        blocks=blocks,
        progress=progress,
    )


def _policy(fitted: ScoredQueries, model: Model, query: Query) -> Policy:
    return fit_policy(
        fitted.similarity,
        fitted.match,
        bank=fitted.background,
        model=search_fingerprint(model),
        style=STYLES[query],
        tau=fitted.tau,
    )


def _scatter(
    extra: dict[str, np.ndarray], repeated: Sequence[Repeated], judged: ScoredQueries
) -> dict[str, Any]:
    """Feature against posterior uncertainty, where passes were made (Hama et al., Fig. 4)."""
    for one in repeated:
        names = [f"{one.name}: {kind} uncertainty" for kind in ("feature", "posterior")]
        if all(name in extra for name in names):
            asked = ~np.isnan(extra[names[0]])
            feature, posterior = (extra[name][asked].tolist() for name in names)
            right = collect_hits(judged, keep=1).right[asked, 0].tolist()
            points = {"feature": feature, "posterior": posterior, "right": right}
            return {"scatter": {"by": one.name, **points}}
    return {}


def _about(run: Path, material: Material, plan: Plan) -> dict[str, Any]:
    model = material.model
    return about(
        run=run.name,
        recipe=model.recipe.name,
        seed=model.recipe.train.seed,
        model=model.fingerprint,
        dataset=material.dataset.name,
        split=plan.split,
        fitted_on=plan.fitted_on,
        bank={
            "texts": len(material.bank.image_of),
            "images": len(material.bank.images[0].parts),
        },
        views=len(model.views),
        images=len(material.split.image_ids),
        texts=len(material.split.captions),
        device=str(model.device),
        avow=avow.__version__,
        **model.evidence_settings,
    )


def _pictures(material: Material, directions: dict[str, Any], plan: Plan) -> dict[str, str]:
    """The photographs of the examples, by image id."""
    whole = material.dataset.splits[plan.split]
    if whole.files is None:
        return {}
    place = dict(zip(whole.image_ids, whole.files, strict=True))
    wanted: set[str] = set()
    for query in QUERIES:
        for examples in directions[query]["extremes"].values():
            for one in examples:
                names = [answer["id"] for answer in one["answers"]]
                wanted |= set(names) if query == "text" else {one["query"]}
    return {name: str(place[name]) for name in sorted(wanted) if name in place}


def _stored_study(path: Path) -> dict[str, Any] | None:
    """A study that was written before, unless it is damaged."""
    try:
        return read_document(path)
    except (OSError, ValueError):
        return None


def _file(path: str | None) -> Path | None:
    return Path(path) if path and Path(path).is_file() else None


def _key(run: Path, runs: Sequence[Path], plan: Plan) -> str:
    """Changes with anything the study depends on, so that no old one is taken for it."""
    parts = [str(run.resolve()), *sorted(str(other.resolve()) for other in runs)]
    about_run = run / "best"
    parts.append(about_run.read_text() if about_run.is_file() else "")
    return fingerprint.of_text(
        [*parts, json.dumps(asdict(plan), default=str), avow.__version__]
    )
