"""The page of environment variables: every AVOW_* name that the code reads, and no other."""

import re
from pathlib import Path

NAME = re.compile(r"\bAVOW_[A-Z]+(?:_[A-Z]+)*\b")
PLACES = ("avow", "scripts", "tests", "Makefile")
HEAD = ["variable", "read by", "what it does", "when it is not set"]

USERS = {
    "AVOW_HOME": (
        "Folder for what Avow keeps: the default index, stored features, runs by name and "
        "converted networks.",
        "the user's folder for program data, such as `~/.local/share/avow`",
    ),
    "AVOW_DATA": (
        "Folder of datasets that are opened by name: `AVOW_DATA/flickr8k` is `flickr8k`.",
        "`shared/data` beside the checkout",
    ),
    "AVOW_TOKEN": (
        "Token that `avow serve` expects from clients; the same as `--token`.",
        "no token on loopback; a new one for any other address",
    ),
    "AVOW_PG_DSN": (
        "PostgreSQL server of the `postgres` stores and the `pgvector` engine, such as "
        "`postgresql://user@host/database`.",
        "neither can be used",
    ),
    "AVOW_MILVUS_URI": (
        "Milvus of the `milvus` stores: a server such as `http://host:19530`, or a file of "
        "Milvus Lite whose name ends in `.db`.",
        "the file `milvus.db` in AVOW_HOME",
    ),
    "AVOW_MILVUS_TOKEN": (
        "What a Milvus server asks for, such as `user:password` or a key.",
        "nothing is sent",
    ),
    "AVOW_PRIVATE_ADDRESSES": (
        "`1`: fetch pictures whose URLs stand in a Parquet table also from addresses inside "
        "this machine and its network.",
        "only from public addresses, or through the proxy that is set",
    ),
    "AVOW_FETCH_PICTURES": (
        "`1`: `avow serve` fetches pictures indexed at URLs or in shards of a bucket.",
        "only pictures of this machine are shown",
    ),
    "AVOW_UNTRUSTED": (
        "`1`: decode pictures in processes of their own, with limits of time and memory, and "
        "index no videos. `pictures`: the same, but videos are indexed. `0`: neither.",
        "`avow serve` takes `pictures` where other machines can ask; otherwise `0`",
    ),
    "AVOW_DECODE_SECONDS": (
        "Seconds that such a process may take for one picture.",
        "60",
    ),
    "AVOW_DECODE_MB": (
        "Megabytes of memory that such a process may have.",
        "2048",
    ),
    "AVOW_DEBUG": (
        "Any value: show the traceback of an error that is otherwise one sentence.",
        "one sentence and an exit code",
    ),
}
DEVELOPERS = {
    "AVOW_CHROMIUM": (
        "Chromium that the browser tests start; `make test` sets it.",
        "a Chromium on the PATH; without one, the browser tests are skipped",
    ),
    "AVOW_TEST_PG": (
        "PostgreSQL server, with pgvector, that the tests of stores and engines use.",
        "one that a package brings is started",
    ),
    "AVOW_TEST_MILVUS": (
        "Milvus server on which the tests of stores run as well, beside Milvus Lite.",
        "that of the package `milvus` where it is installed (x86-64 only)",
    ),
    "AVOW_LONG_TESTS": (
        "Any value: the long form of the tests; `make test-long` sets it.",
        "fewer examples of every property",
    ),
}


def named(root: Path) -> dict[str, set[str]]:
    """Every variable in the code, with the places (of `PLACES`) that name it."""
    names: dict[str, set[str]] = {}
    for place in PLACES:
        start = root / place
        for path in [start] if start.is_file() else start.rglob("*"):
            if path.is_file() and path.suffix in ("", ".py", ".html", ".js"):
                if path.resolve() == Path(__file__).resolve():
                    continue
                for name in NAME.findall(path.read_text("utf-8", "replace")):
                    names.setdefault(name, set()).add(place)
    return names


def undocumented(root: Path) -> set[str]:
    """Names that only the code has, or only this page."""
    return set(named(root)) ^ (set(USERS) | set(DEVELOPERS))


def rows() -> list[list[str]]:
    groups = (("the package", USERS), ("the tests", DEVELOPERS))
    return [
        [f"`{name}`", reader, meaning, unset]
        for reader, group in groups
        for name, (meaning, unset) in group.items()
    ]
