"""The page of the HTTP API, from the OpenAPI description that the server gives out."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")
Schema = dict[str, Any]


def description() -> Schema:
    """OpenAPI of every router in `avow.api`, without an index to serve."""
    from fastapi import FastAPI

    import avow
    from avow import api

    app = FastAPI(title="Avow", version=avow.__version__)
    for module in sorted(pkgutil.iter_modules(api.__path__), key=lambda found: found.name):
        part = importlib.import_module(f"avow.api.{module.name}")
        if hasattr(part, "router"):
            app.include_router(part.router)
    return app.openapi()


def text() -> Iterator[str]:
    """Every operation, the errors that all of them share, then every schema."""
    found = description()
    entries = {
        f"{method.upper()} {path}": operations[method]
        for path, operations in sorted(found["paths"].items())
        for method in METHODS
        if method in operations
    }
    shared = shared_errors(list(entries.values()))
    for title, entry in entries.items():
        yield f"## {title}"
        yield from operation(entry, shared)
    yield "## Errors"
    yield "Every operation may also answer with one of these."
    yield statuses(shared)
    yield "## Schemas"
    for name, schema in sorted(found.get("components", {}).get("schemas", {}).items()):
        yield f"### {name}"
        yield from model(schema)


def shared_errors(entries: list[Schema]) -> Schema:
    """Responses from 400 on that every operation has in the same words."""
    first, *others = [entry["responses"] for entry in entries]
    return {
        status: response
        for status, response in first.items()
        if int(status) >= 400 and all(other.get(status) == response for other in others)
    }


def operation(entry: Schema, shared: Schema) -> Iterator[str]:
    yield plain(entry.get("description") or entry.get("summary", ""))
    if parameters := entry.get("parameters"):
        rows = [
            [
                f"`{one['name']}`",
                one["in"],
                kind(one["schema"]),
                plain(one.get("description", "")),
            ]
            for one in parameters
        ]
        yield table(["parameter", "in", "type", ""], rows)
    if body := entry.get("requestBody"):
        kinds = [f"{name}: {kind(part['schema'])}" for name, part in body["content"].items()]
        yield f"Body: {'; '.join(kinds)}."
    own = {key: value for key, value in entry["responses"].items() if key not in shared}
    yield statuses(own)


def statuses(responses: Schema) -> str:
    rows = []
    for status, response in responses.items():
        contents = [
            kind(part.get("schema", {})) for part in response.get("content", {}).values()
        ]
        rows.append([status, plain(response["description"]), ", ".join(filter(None, contents))])
    return table(["status", "meaning", "content"], rows)


def model(schema: Schema) -> Iterator[str]:
    if text := schema.get("description"):
        yield plain(text)
    needed = schema.get("required", [])
    rows = [
        [
            f"`{name}`",
            kind(entry),
            "yes" if name in needed else "no",
            plain(entry.get("description", "")),
        ]
        for name, entry in schema.get("properties", {}).items()
    ]
    if rows:
        yield table(["field", "type", "always there", ""], rows)


def kind(schema: Schema) -> str:
    """A type in a few words, with a link where it is a schema of this page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(kind(choice) for choice in choices)
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {})) or 'anything'}"
    if schema.get("contentMediaType") or schema.get("format") == "binary":
        return "file"
    return str(schema.get("type", ""))


def plain(text: str) -> str:
    return " ".join(text.split())


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines
    )
