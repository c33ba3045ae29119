"""The page of the Python API: every name of `avow.__all__`; the site adds the docstrings."""

import inspect
from collections.abc import Iterator
from typing import Any

INTRODUCTION = """The public names are those of `avow.__all__`. Importing `avow` imports nothing
heavy; a name loads what it needs when it is first used. Everything else may change between
versions. `make site` writes the signatures and docstrings below each name.

```python
import avow

retriever = avow.open("my-index")
result = retriever.search("two dogs on a beach", k=5)
```"""


def text() -> Iterator[str]:
    import avow

    yield INTRODUCTION
    for name in avow.__all__:
        yield f"## avow.{name}"
        if name == "__version__":
            yield "The version of the package, as text."
        else:
            yield from entry(getattr(avow, name))


def entry(found: Any) -> Iterator[str]:
    """The first sentence for a reader of the plain file, and the directive for the site."""
    yield (inspect.getdoc(found) or "").partition("\n\n")[0].replace("\n", " ")
    yield f"::: {path(found)}"


def path(found: Any) -> str:
    """Where an object is defined, as mkdocstrings wants it."""
    if inspect.ismodule(found):
        return found.__name__
    found = getattr(found, "__func__", found)
    return f"{found.__module__}.{found.__qualname__}"
