"""Answers as rows, for pandas, Arrow and files: one row per hit, each with the verdict."""

from typing import TYPE_CHECKING, Any

from avow.core.errors import MissingExtra

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from avow.retrieval.answer import SearchResult

COLUMNS = (
    *("rank", "path", "p_relevant", "similarity", "id", "kind", "start", "end"),
    *("taken", "by", "verdict", "trust"),
)
"""The columns of a table of hits."""


def rows_of(result: "SearchResult") -> list[dict[str, Any]]:
    """One row per hit with everything that is known of it, and the verdict of the answer."""
    about = {"verdict": result.verdict, "trust": result.trust}
    return [{**hit.to_dict(), **about} for hit in (*result.hits, *result.written)]


def as_pandas(result: "SearchResult") -> "pandas.DataFrame":
    """The hits as a table; `attrs` has what is true of the whole answer."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise MissingExtra("`to_pandas`", "pandas", "tables") from None
    table = pandas.DataFrame([_chosen(row) for row in rows_of(result)], columns=list(COLUMNS))
    table.attrs.update(about(result))
    return table


def as_arrow(result: "SearchResult") -> "pyarrow.Table":
    """The hits as a table; the metadata of its schema has what is true of the whole answer."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise MissingExtra("`to_arrow`", "pyarrow", "tables") from None
    kinds = {"rank": pa.int64(), "id": pa.int64()}
    kinds |= dict.fromkeys(("p_relevant", "similarity", "start", "end", "trust"), pa.float64())
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    told = {key: str(value) for key, value in about(result).items()}
    rows = [_chosen(row) for row in rows_of(result)]
    return pa.Table.from_pylist(rows, schema=schema.with_metadata(told))


def about(result: "SearchResult") -> dict[str, Any]:
    """What is true of an answer as a whole, also where it has no hits."""
    told = {"verdict": result.verdict, "trust": result.trust, "why": result.why}
    return {"query": result.query, **told}


def _chosen(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in COLUMNS}
