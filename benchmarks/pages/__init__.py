"""Pages of results: every figure in them is read from `benchmarks/results/*.json`.

One module is one page under docs/results, and its `render` returns the Markdown; `papers`
has those under docs/papers, `EXPLANATIONS` those under docs/explanation.
`scripts/docs` writes the pages and compares them in continuous integration.
"""

from collections.abc import Callable

from benchmarks.pages import (
    audit,
    consistency,
    explain,
    many_machines,
    noise,
    papers,
    people,
    product,
    promises,
    recall,
    refusal,
    scale,
    scale_costs,
    serving,
    speed,
    ticks,
    transfer,
    trust,
    understanding,
    video,
)

RESULTS: dict[str, Callable[[], str]] = {
    "recall": recall.render,
    "noise": noise.render,
    "trust": trust.render,
    "people": people.render,
    "understanding": understanding.render,
    "explain": explain.render,
    "ticks": ticks.render,
    "transfer": transfer.render,
    "refusal": refusal.render,
    "audit": audit.render,
    "consistency": consistency.render,
    "video": video.render,
    "speed": speed.render,
    "serving": serving.render,
    "product": product.render,
    "many-machines": many_machines.render,
    "scale": scale.render,
}

PAPERS: dict[str, Callable[[], str]] = papers.PAPERS

EXPLANATIONS: dict[str, Callable[[], str]] = {
    "promises": promises.render,
    "scale": scale_costs.render,
}
"""Pages under docs/explanation that hold figures."""
