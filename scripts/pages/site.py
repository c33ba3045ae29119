"""Hooks of mkdocs: pages from the top of the repository, links to files that are no pages."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = {
    name: f"repository/{name.lower()}"
    for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
}
# Code first or link first, whichever begins first; links inside code stay as they are.
CODE_OR_LINK = re.compile(
    r"(?P<code>^```.*?^```|`[^`\n]*`)"
    r"|\[(?P<words>[^\]]*)\]\((?!https?:|mailto:|#)(?P<target>[^)\s#]+)(?P<anchor>#[^)]*)?\)",
    re.DOTALL | re.MULTILINE,
)
BEFORE_DIRECTIVE = re.compile(r"\n\n[^#\n][^\n]*\n\n(?=::: )")  # the docstring repeats it


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that live at the top of the repository."""
    for name, place in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Point links at pages of the site; a link to a source file becomes its path."""
    place = page.file.src_uri
    home = {to: name for name, to in PAGES.items()}.get(place, f"docs/{place}")
    text = BEFORE_DIRECTIVE.sub("\n\n", markdown)
    return CODE_OR_LINK.sub(lambda found: linked(found, home, place), text)


def linked(found: re.Match[str], home: str, place: str) -> str:
    """A link as it should be on the page `place`, whose file is `home` in the repository."""
    if found["code"]:
        return found[0]
    words, target, anchor = found["words"], found["target"], found["anchor"] or ""
    full = posixpath.normpath(posixpath.join(posixpath.dirname(home), target))
    if not (ROOT / full).exists():
        return found[0]  # mkdocs reports it
    if full in PAGES:
        goal = PAGES[full]
    elif full.startswith("docs/"):
        goal = full.removeprefix("docs/")
    else:
        return f"{words} (`{full}`)" if words.strip("`/") != full else f"`{full}`"
    return f"[{words}]({posixpath.relpath(goal, posixpath.dirname(place))}{anchor})"
