"""Routes about the index itself: its state, its jobs, its calibration, feedback."""

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import PlainTextResponse

import avow
from avow.api.answers import (
    Calibration,
    Health,
    IndexAnswer,
    JobAnswer,
    JobAsked,
    Jobs,
    Kept,
    Ready,
    SkippedFile,
    TicksUsed,
    Told,
    UploadLimits,
)
from avow.api.calibration import calibration_of, ticks_used
from avow.api.folders import allowed, not_allowed
from avow.api.limits import ANSWERS, LARGEST_ID
from avow.api.metrics import TYPE
from avow.api.refusals import Refusal
from avow.api.searching import REFUSALS
from avow.api.service import Here, Service
from avow.core.tracing import spanned
from avow.retrieval.store.feedback import checked

router = APIRouter(prefix="/api", responses=REFUSALS)
JobId = Annotated[int, Path(ge=0, le=LARGEST_ID)]


@router.get("/health")
async def health() -> Health:
    """Whether the process is alive: it waits for nothing, and needs no token."""
    return Health(status="ok", version=avow.__version__)


@router.get("/ready")
async def ready(here: Here) -> Ready:
    """Whether requests may be sent here: its store answers, and it is not about to end.

    Needs no token. While it is 503, a proxy should ask another server.
    """
    await here.check_ready()
    return Ready(status="ready")


@router.get("/index")
async def index(here: Here) -> IndexAnswer:
    """What the index holds, which model made it, and what was left out."""
    return await here.reading.run(_index, here)


@router.get("/jobs")
async def jobs(here: Here) -> Jobs:
    """Scans of this server, newest first."""
    return Jobs(jobs=here.jobs.newest())


@router.post("/jobs", status_code=202, responses={409: REFUSALS[404]})
async def start_job(here: Here, asked: JobAsked) -> JobAnswer:
    """Scan an indexed folder again, or index one below the roots of `avow serve --root`."""
    if here.by_many:
        raise Refusal(
            409,
            "This server runs as several processes and scans nothing itself. Use `avow index` "
            "or `avow watch` beside it; searches find what is new at once.",
        )
    indexed = await here.reading.run(here.retriever.library.folders)
    chosen = asked.folder
    if chosen is not None and chosen not in indexed:
        if not here.roots:
            raise Refusal(
                404,
                f"The folder {chosen!r} is not part of this index. Expected one of "
                "those that GET /api/index names; add others with `avow index FOLDER`.",
            )
        chosen = await here.reading.run(allowed, chosen, here.roots)
        if chosen is None:
            raise not_allowed(str(asked.folder))
    folders = indexed if chosen is None else [chosen]
    if not folders:
        raise Refusal(404, "This index names no folder. Run `avow index FOLDER` first.")
    return here.jobs.start(folders).answer()


@router.get("/jobs/{job_id}")
async def job(here: Here, job_id: JobId) -> JobAnswer:
    """How far a scan is."""
    return here.jobs.get(job_id).answer()


@router.post("/jobs/{job_id}/cancel")
async def cancel_job(here: Here, job_id: JobId) -> JobAnswer:
    """Stop a scan; what it has finished is kept."""
    return here.jobs.cancel(job_id).answer()


@router.post("/feedback")
async def feedback(here: Here, tick: Told) -> Kept:
    """Keep whether an answer fits, or take that back."""
    return await here.writing.run(_keep, here, tick)


@router.post("/ticks")
async def use_ticks(here: Here) -> TicksUsed:
    """Let everything that was said of answers change the probabilities, from now on."""
    return await here.learning.run(ticks_used, here.retriever)


@router.get("/calibration")
async def calibration(here: Here) -> Calibration:
    """Whether answers can be judged here, and what each bearable risk costs."""
    return await here.searching.run(calibration_of, here.retriever)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(here: Here) -> PlainTextResponse:
    """Counts and latencies for Prometheus, of every process that serves this port."""
    return PlainTextResponse(await here.reading.run(here.metrics_text), media_type=TYPE)


def _index(here: Service) -> IndexAnswer:
    library = here.retriever.library
    library.refresh()
    manifest, skipped = library.manifest, library.skipped()
    videos, moments = library.videos()
    return IndexAnswer(
        folder=library.address,
        folders=library.folders(),
        may_add=bool(here.roots),
        images=library.count(None, "image"),
        videos=videos,
        moments=moments,
        texts=library.count(None, "text"),
        model=str(manifest["model"]),
        model_fingerprint=str(manifest["fingerprint"]),
        fingerprint=library.fingerprint,
        engine=str(manifest.get("engine", "exact")),
        exact=bool(manifest.get("exact", True)),
        feedback=library.feedback_count(),
        skipped_total=len(skipped),
        skipped=[
            SkippedFile(path=file.path, why=file.why, when=file.when)
            for file in skipped[:ANSWERS]
        ],
        limits=UploadLimits.model_validate(here.limits, from_attributes=True),
    )


@spanned("store")
def _keep(here: Service, tick: Told) -> Kept:
    library = here.retriever.library
    checked(tick.query)
    here.read_item(tick.item_id)
    library.set_feedback(tick.query, tick.item_id, tick.good)
    return Kept(kept=library.feedback_count())
