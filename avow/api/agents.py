"""An index as tools for agents, by the Model Context Protocol: search, similar, show, why.

Every answer says as data whether anything was found, how sure that is, and why, so that an
agent need not guess: `found` is false where nothing here fits, and `verdict`, `trust` and each
hit's `p_relevant` are those of the search page. Only indexed pictures are shown.
"""

from collections.abc import Callable
from threading import Lock
from typing import Annotated, Any, TypeVar

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field, ValidationError

import avow
from avow.api.answers import Explained, Found
from avow.api.limits import LARGEST_ID, Limits
from avow.api.pictures import SIZES, Thumbnails, origin
from avow.api.refusals import Refusal
from avow.api.searching import Chosen, Many, Text, Without
from avow.core.errors import AvowError
from avow.core.verdicts import EMPTY
from avow.retrieval.answer import SearchResult
from avow.retrieval.search import Retriever

Given = TypeVar("Given")
INSTRUCTIONS = (
    "Searches pictures and videos on this machine. Every answer has a verdict: 'answer' (one "
    "of the hits fits, at the promised risk), 'check' (look before you rely on it), "
    "'nothing_found' (nothing here fits; near misses are not answers), 'not_understood' (the "
    "words were not understood; `why` says what may help) and 'unjudged' (ranked only). "
    "p_relevant is the probability that a person would say a hit fits. `written` lists "
    "pictures in which the words are written, whatever they show. Where `found` is false, say "
    "that nothing was found. Use show to look at a hit before you describe it."
)
_RANKED = 50  # answers among which `why` looks for the item
_SHOWN = 60  # letters of an argument that a sentence repeats

Risk = Annotated[
    float | None,
    Field(gt=0, lt=1, description="Share of wrong answers that 'answer' may have."),
]
ItemId = Annotated[int, Field(ge=0, le=LARGEST_ID, description="The id of a hit.")]
Edge = Annotated[int, Field(ge=64, le=SIZES[-1], description="Pixels of the longer edge.")]


class AgentFound(Found):
    """The answer of a search, and in one word whether there is one."""

    found: bool = Field(description="False: nothing here fits. Say so; do not guess.")


class Why(BaseModel):
    """What of the words and of the picture makes them match, and how well they do."""

    id: int
    path: str
    verdict: str = Field(description="Of the search for these words.")
    found: bool = Field(description="False: nothing here fits the words. Say so.")
    p_relevant: float | None = Field(
        description="That this item fits; null where it is not among the best."
    )
    explanation: Explained


def agent_server(retriever: Retriever, limits: Limits | None = None) -> MCPServer:
    """A server of the Model Context Protocol over an open index."""
    server = _Server(
        "avow",
        title="Avow",
        instructions=INSTRUCTIONS,
        version=avow.__version__,
        log_level="WARNING",
    )
    tools = _Tools(retriever, limits or Limits())
    for tool in (tools.search, tools.similar, tools.why):
        server.add_tool(tool)
    server.add_tool(tools.show, structured_output=False)  # a picture is content, no data
    return server


class _Server(MCPServer):
    """Says in one plain sentence why a tool was not used, and what it would have needed."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        tools = {tool.name: tool.input_schema for tool in await self.list_tools()}
        if name not in tools:
            raise ToolError(f"There is no tool {name!r}. There are: {', '.join(tools)}.")
        wanted = tools[name]["properties"]
        for given in arguments:
            if given not in wanted:  # the package would pass over it
                raise ToolError(f"{name!r} has no {given!r}. It has: {', '.join(wanted)}.")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if type(error) is not ToolError:
                raise  # a mistake of our own, whose words stay in the log
            if isinstance(cause, ValidationError):
                raise ToolError(_misused(name, cause, wanted)) from error
            if isinstance(cause, ToolError):
                raise cause from error  # without the words that the package puts before it
            raise


def _misused(tool: str, error: ValidationError, wanted: dict[str, Any]) -> str:
    """The first argument that cannot be used. wanted: the schema of every argument."""
    first = error.errors()[0]
    name = str(first["loc"][0])
    if first["type"] == "missing":
        return f"{tool!r} needs {name!r}; expected {_expected(wanted[name])}."
    given = repr(first["input"])
    shown = given if len(given) <= _SHOWN else f"{given[:_SHOWN]} …"
    return f"{name!r} of {tool!r} is {shown}; expected {_expected(wanted[name])}."


def _expected(schema: dict[str, Any]) -> str:
    """What an argument must be, in words."""
    limits = schema.get("anyOf", [schema])[0]  # what it is where it is not null
    if limits["type"] == "string":
        return f"a text of at most {limits['maxLength']} letters"
    if limits["type"] == "integer":
        return f"a whole number from {limits['minimum']} to {limits['maximum']}"
    least, most = limits["exclusiveMinimum"], limits["exclusiveMaximum"]
    return f"a number between {least:g} and {most:g}"


class _Tools:
    """The tools. Calls come in threads of their own, and one at a time is let in.

    Tokenisers of the hub cannot be shared between threads.
    """

    def __init__(self, retriever: Retriever, limits: Limits):
        self.retriever = retriever
        self.lock = Lock()
        self.thumbnails = Thumbnails(limits.thumbnail_bytes, limits.pixels)

    def search(
        self,
        text: Text,
        k: Many = 10,
        where: Chosen = "",
        without: Without = "",
        risk: Risk = None,
    ) -> AgentFound:
        """Find pictures and moments of videos by words; says when nothing fits."""
        asked = {"where": where.strip() or None, "without": without.strip() or None}
        return _found(self._told(self.retriever.search, text, k=k, risk=risk, **asked))

    def similar(self, item_id: ItemId, k: Many = 10, where: Chosen = "") -> AgentFound:
        """Find what looks like an item that a search gave."""
        where_or_none = where.strip() or None
        return _found(self._told(self.retriever.similar, item_id, k=k, where=where_or_none))

    def show(self, item_id: ItemId, size: Edge = 768) -> list[Any]:
        """Look at an item: the picture, or the key frame of a moment of a video."""
        return self._told(self._shown, item_id, size)

    def why(self, item_id: ItemId, text: Text) -> Why:
        """Which words and which parts of a picture make them match, and with which P."""
        return self._told(self._explained, item_id, text)

    def _told(self, work: Callable[..., Given], *asked: Any, **named: Any) -> Given:
        """Work, and where it cannot be done, the sentence that says why."""
        try:
            with self.lock:
                return work(*asked, **named)
        except AvowError as error:
            raise ToolError(str(error)) from error
        except Refusal as error:
            raise ToolError(error.detail) from error

    def _shown(self, item_id: int, size: int) -> list[Any]:
        library = self.retriever.library
        item = library.items([item_id])[0]
        if item.kind == "text":
            return [f"{item.path}: {item.text}"]
        place = origin(item, library.folders())
        moment = item.moment
        key = None if moment is None else moment.key
        jpeg = self.thumbnails.make(place, item.content, size, key)
        times = "" if moment is None else f" {moment}"
        return [Image(data=jpeg, format="jpeg"), f"{item.path}{times}"]

    def _explained(self, item_id: int, text: str) -> Why:
        item = self.retriever.library.items([item_id])[0]
        result = self.retriever.search(text, k=_RANKED)
        ranked = {hit.id: hit.p_relevant for hit in (*result.hits, *result.near_misses)}
        explanation = self.retriever.explain(text, item_id)
        return Why(
            id=item_id,
            path=item.path,
            verdict=result.verdict,
            found=_found(result).found,
            p_relevant=ranked.get(item_id),
            explanation=Explained.model_validate(explanation.to_dict()),
        )


def _found(result: SearchResult) -> AgentFound:
    found = (result.verdict not in EMPTY and bool(result.hits)) or bool(result.written)
    return AgentFound.model_validate({**result.to_dict(), "found": found})
