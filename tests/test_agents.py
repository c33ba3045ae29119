"""`avow mcp`: what an agent gets, by the client of the protocol's own package."""

import asyncio
import base64
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from encoders import ColourEncoder
from PIL import Image
from search_samples import index_with_a_cat
from test_cli import command

from avow.core.errors import MissingExtra
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever
from benchmarks.quality._equal_indexes import png, write_tar

mcp = pytest.importorskip("mcp")
from avow.api.agents import agent_server  # noqa: E402  (needs the package)

__all__ = ["command"]  # the fixture


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    return index_with_a_cat(tmp_path_factory.mktemp("agents"))


def started(index: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "avow", "mcp", "--index", str(index), *more]


async def searches(client) -> dict:
    return {
        "cat": await client.call_tool("search", {"text": "a cat", "k": 3}),
        "absent": await client.call_tool("search", {"text": "a submarine under the ice"}),
    }


async def conversation(client) -> dict:
    """Everything an agent may ask for, in the order it would."""
    told: dict = {"tools": {tool.name: tool for tool in (await client.list_tools()).tools}}
    told |= await searches(client)
    hit = told["cat"].structured_content["hits"][0]
    told["shown"] = await client.call_tool("show", {"item_id": hit["id"], "size": 128})
    told["similar"] = await client.call_tool("similar", {"item_id": hit["id"], "k": 2})
    told["why"] = await client.call_tool("why", {"item_id": hit["id"], "text": "a cat"})
    told["unlike"] = await client.call_tool(
        "why", {"item_id": hit["id"], "text": "a submarine under the ice"}
    )
    told["lost"] = await client.call_tool("show", {"item_id": 9999})
    told["misspelt"] = await client.call_tool("search", {"text": "a cat", "where": "size>"})
    return told


def test_an_agent_searches_over_stdio_and_is_told_when_nothing_is_found(index):
    """A real process, as an agent starts it."""
    first, *rest = started(index)
    server = mcp.StdioServerParameters(command=first, args=rest, env=dict(os.environ))

    async def talk() -> dict:
        async with mcp.Client(server) as client:
            return await conversation(client)

    told = asyncio.run(talk())
    assert set(told["tools"]) == {"search", "similar", "show", "why"}
    assert all(tool.description for tool in told["tools"].values())

    found = told["cat"].structured_content
    assert found["found"] and found["verdict"] in ("answer", "check")
    assert found["hits"][0]["path"].endswith("cat.jpg") and found["hits"][0]["p_relevant"] > 0.5
    assert len(found["hits"]) <= 3 and found["why"]

    absent = told["absent"].structured_content
    assert (absent["found"], absent["verdict"], absent["hits"]) == (False, "nothing_found", [])
    assert absent["trust"] < 0.5 and absent["near_misses"][0]["p_relevant"] < 0.5

    picture, words = told["shown"].content
    with Image.open(io.BytesIO(base64.b64decode(picture.data))) as shown:
        assert (picture.type, shown.format, max(shown.size)) == ("image", "JPEG", 128)
    assert words.text.endswith("cat.jpg")

    alike = told["similar"].structured_content
    assert alike["query"]["similar_to"] == found["hits"][0]["id"] and "verdict" in alike

    why = told["why"].structured_content
    assert (why["verdict"], why["found"]) == (found["verdict"], True)
    assert why["p_relevant"] == pytest.approx(found["hits"][0]["p_relevant"], abs=0.02)
    assert "cat" in [one["word"] for one in why["explanation"]["words"]]

    unlike = told["unlike"].structured_content
    assert (unlike["found"], unlike["verdict"]) == (False, "nothing_found")
    assert unlike["p_relevant"] < 0.5

    assert told["lost"].is_error and "There is no item 9999" in told["lost"].content[0].text
    assert told["misspelt"].is_error and "expected a value" in told["misspelt"].content[0].text


def test_arguments_that_cannot_be_used_are_told_in_one_sentence(tmp_path):
    """What was wrong and what was expected, and nothing of the checker's own words."""
    encoder = ColourEncoder()
    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "pictures" / "one.png")
    index_folders([tmp_path / "pictures"], index=tmp_path / "index", encoder=encoder)
    server = agent_server(Retriever(Library.open(tmp_path / "index", encoder), encoder))
    letters = "a text of at most 1000 letters"
    told = {
        ("search", ()): f"'search' needs 'text'; expected {letters}.",
        ("search", (("text", 7),)): f"'text' of 'search' is 7; expected {letters}.",
        ("search", (("text", "red"), ("k", 0))): (
            "'k' of 'search' is 0; expected a whole number from 1 to 200."
        ),
        ("search", (("text", "red"), ("k", "many"))): (
            "'k' of 'search' is 'many'; expected a whole number from 1 to 200."
        ),
        ("search", (("text", "red"), ("risk", 2))): (
            "'risk' of 'search' is 2; expected a number between 0 and 1."
        ),
        ("search", (("text", "x" * 1001),)): (
            f"'text' of 'search' is '{'x' * 59} …; expected {letters}."
        ),
        ("search", (("text", "red"), ("limit", 5))): (
            "'search' has no 'limit'. It has: text, k, where, without, risk."
        ),
        ("show", (("item_id", 1), ("size", 7))): (
            "'size' of 'show' is 7; expected a whole number from 64 to 1536."
        ),
        ("show", (("item_id", 999),)): (
            f"There is no item 999 in the index {str(tmp_path / 'index')!r}. Expected a number "
            "that a search returned; search again."
        ),
        ("find", ()): "There is no tool 'find'. There are: search, similar, why, show.",
    }

    async def talk() -> dict:
        async with mcp.Client(server) as client:
            return {asked: await client.call_tool(asked[0], dict(asked[1])) for asked in told}

    answers = asyncio.run(talk())
    assert all(answer.is_error for answer in answers.values())
    assert {asked: one.content[0].text for asked, one in answers.items()} == told


def test_the_same_over_http_and_from_this_machine_only(index):
    done = subprocess.Popen(
        started(index, "--http", "--port", "0"), stdout=subprocess.PIPE, text=True
    )
    assert done.stdout is not None
    try:
        address = done.stdout.readline().split()[-1]
        assert address.startswith("http://127.0.0.1:")

        async def talk() -> dict:
            async with mcp.Client(address) as client:
                return await searches(client)

        told = asyncio.run(talk())
        assert told["cat"].structured_content["found"]
        assert not told["absent"].structured_content["found"]
        from httpx2 import Client

        with Client() as stranger:  # a page of another site that is led to this address
            answer = stranger.post(address, headers={"Host": "evil.example"}, json={})
        assert answer.status_code == 421
    finally:
        done.terminate()
        done.wait()
        done.stdout.close()


def test_without_its_package_it_says_what_to_install(command, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, out, err = command("mcp")
    assert (code, out) == (
        1,
        "",
    ) and err == f"avow: {MissingExtra('`avow mcp`', 'mcp', 'mcp')}\n"


def asked_to_show(retriever, number: int) -> list:
    async def talk():
        async with mcp.Client(agent_server(retriever)) as client:
            return await client.call_tool("show", {"item_id": number})

    return asyncio.run(talk()).content


def test_an_agent_sees_pictures_that_lie_in_a_tar(tmp_path):
    write_tar(tmp_path / "0.tar", {"0.png": png(1)})
    encoder = ColourEncoder()
    index_folders([str(tmp_path / "0.tar")], index=tmp_path / "index", encoder=encoder)
    library = Library.open(tmp_path / "index", encoder)
    [number] = library.find()
    shown, words = asked_to_show(Retriever(library, encoder), int(number))
    assert shown.type == "image" and words.text.endswith("0.tar!/0.png")


def test_an_agent_is_shown_the_words_of_a_text(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "note.txt").write_text("a red boat")
    encoder = ColourEncoder()
    index_folders([tmp_path / "texts"], index=tmp_path / "index", encoder=encoder)
    library = Library.open(tmp_path / "index", encoder)
    [number] = library.find(None, "text")
    [words] = asked_to_show(Retriever(library, encoder), int(number))
    assert words.text == f"{tmp_path / 'texts' / 'note.txt'}: a red boat"
