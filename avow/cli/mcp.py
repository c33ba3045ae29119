"""`avow mcp`: an index as tools for agents, by the Model Context Protocol."""

import importlib.util
from typing import Annotated

import typer

from avow.cli._options import AllowCode, IndexFolder, ModelOfIndex
from avow.cli._terminal import busy
from avow.cli.serve import listen, open_index
from avow.core.errors import MissingExtra
from avow.core.places import index_folder

HOST = "127.0.0.1"

Http = Annotated[
    bool, typer.Option("--http", help="Listen on this machine instead of stdin and stdout.")
]
Port = Annotated[
    int, typer.Option(min=0, max=65535, help="Port of --http; 0: any that is free.")
]


def mcp(
    index: IndexFolder = None,
    model: ModelOfIndex = None,
    http: Http = False,
    port: Port = 8081,
    allow_code: AllowCode = False,
) -> None:
    """Let agents search an index: tools search, similar, show and why.

    An agent starts this command and speaks with it over stdin and stdout. With --http it is
    reached at http://127.0.0.1:PORT/mcp, from this machine only. Needs the extra `avow[mcp]`.
    """
    if importlib.util.find_spec("mcp") is None:
        raise MissingExtra("`avow mcp`", "mcp", "mcp")
    index_folder(index)
    with busy("Loading the model"):
        from avow.api.agents import agent_server

        server = agent_server(open_index(index, model, allow_code))
    if not http:
        server.run("stdio")
        return
    import uvicorn

    with listen(HOST, port) as listening:
        address = f"http://{HOST}:{listening.getsockname()[1]}/mcp"
        typer.echo(f"Avow's tools are at {address}\nCtrl-C ends it.")
        # the package refuses other names and origins by itself where the host is loopback
        app = server.streamable_http_app(host=HOST)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])
