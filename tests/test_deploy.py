"""Avow beside and behind other programs: a proxy, a container, services, photo servers."""

import configparser
import http.client
import json
import re
import shlex
import shutil
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest
import yaml
from fastapi.testclient import TestClient
from search_samples import ColourEncoder, save_pictures
from serving import Server, wait_until
from test_docs import parsed

import avow
from avow.api import Limits, create_app
from avow.api.clients import Proxies
from avow.retrieval.indexing import index_folders
from avow.retrieval.library import Library
from avow.retrieval.search import Retriever

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"


# --- behind a proxy ---------------------------------------------------------------------------


class Proxy:
    """What nginx does with `location /search/ { proxy_pass http://…/; }`, and no more."""

    def __init__(self, behind: str, prefix: str = "/search/"):
        target = urlsplit(behind).netloc

        class Forward(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if not self.path.startswith(prefix):
                    self.send_error(404)
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                link = http.client.HTTPConnection(target)
                place = "/" + self.path.removeprefix(prefix)
                link.request(self.command, place, body, dict(self.headers))
                answer = link.getresponse()
                content = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in (
                        "transfer-encoding",
                        "content-length",
                        "connection",
                    ):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                link.close()

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                """Silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}{prefix}"
        self.thread = Thread(target=self.server.serve_forever)

    def __enter__(self) -> str:
        self.thread.start()
        return self.address

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture(scope="module")
def retriever(tmp_path_factory) -> Retriever:
    home = tmp_path_factory.mktemp("deployed")
    save_pictures(home / "pictures", 12)
    encoder = ColourEncoder()
    index_folders([home / "pictures"], index=home / "index", encoder=encoder)
    return Retriever(Library.open(home / "index", encoder), encoder)


@pytest.mark.browser
def test_the_page_works_below_a_path_of_a_proxy(retriever, visit):
    """With a token: the address that carries it leads back below the same path."""
    app = create_app(retriever, token="secret")
    with Server(app) as behind, Proxy(behind) as address:
        seen = visit(f"{address}?token=secret")
        page = seen.page
        assert page.url == address  # the token has gone into a cookie
        page.wait_for_selector(".wall .look")  # its scripts listen
        page.get_by_role("searchbox").first.fill("red")
        page.keyboard.press("Enter")
        wait_until(lambda: page.url.startswith(f"{address}?q=red"))
        shown = "[...document.querySelectorAll('#answers img')].some(one => one.naturalWidth)"
        wait_until(lambda: page.evaluate(shown))
        assert any("/thumbnail" in one for one in seen.asked)
        assert all(urlsplit(one).path.startswith("/search/") for one in seen.asked)
        assert seen.complaints == []


def test_the_page_names_nothing_from_the_root_of_its_host():
    """Such an address would miss the path that a proxy serves the page below."""
    found = {}
    for file in sorted((ROOT / "avow" / "web").iterdir()):
        if file.suffix in (".js", ".html", ".css"):
            text = file.read_text("utf-8")
            found[file.name] = re.findall(
                r"""(?:["'`]/api/|(?:href|src|action)="/)[^"'`]*""", text
            )
    assert {name: places for name, places in found.items() if places} == {}


# --- a container ------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    text = (DEPLOY / "Containerfile").read_text("utf-8")
    lines = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines if line.strip()]


def test_the_container_is_set_up_by_the_script_of_make_demo():
    runs = [rest for name, rest in instructions() if name == "RUN"]
    assert any(one.startswith("scripts/setup --copied /opt/avow ") for one in runs)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "scripts/setup $(VENV) dev" in makefile and "demo: setup" in makefile
    extras = next(one for one in runs if "scripts/setup" in one).split()[-1].split(",")
    known = (ROOT / "pyproject.toml").read_text("utf-8")
    assert all(re.search(rf"^{extra} = \[", known, re.MULTILINE) for extra in extras)


def test_the_container_is_not_root_has_a_health_check_and_writes_to_its_volume_only():
    known = instructions()
    last = len(known) - 1 - [name for name, _ in known][::-1].index("FROM")
    stage = dict(known[last + 1 :])
    user = stage["USER"].partition(":")[0]
    assert user.isdecimal() and int(user) > 0
    names = [name for name, _ in known]
    assert names.index("USER") > len(names) - 1 - names[::-1].index("RUN")
    assert stage["VOLUME"] == "/data" and "AVOW_HOME=/data" in stage["ENV"]
    assert "/api/health" in stage["HEALTHCHECK"]
    check = json.loads(stage["HEALTHCHECK"].partition("CMD ")[2])
    compile(check[2], "health", "exec")
    assert json.loads(stage["ENTRYPOINT"]) == ["avow"]
    parsed(tuple(json.loads(stage["CMD"])))
    assert not {"ADD", "MAINTAINER"} & set(names)
    for name, rest in known:
        assert not (name == "FROM" and (":latest" in rest or ":" not in rest))
        if name == "COPY" and "--from" not in rest:
            assert all((ROOT / place).exists() for place in rest.split()[:-1])


def test_the_health_check_tells_a_server_from_none(retriever):
    stage = dict(instructions())
    check = json.loads(stage["HEALTHCHECK"].partition("CMD ")[2])[2]
    with Server(create_app(retriever, token="secret")) as address:
        exec(check.replace("http://127.0.0.1:8080", address))
    with pytest.raises(OSError):
        exec(check.replace("http://127.0.0.1:8080", address))


def test_the_set_up_script_is_sound():
    assert subprocess.run(["bash", "-n", ROOT / "scripts" / "setup"]).returncode == 0
    done = subprocess.run([ROOT / "scripts" / "setup"], capture_output=True, text=True)
    assert done.returncode != 0 and "usage: scripts/setup" in done.stderr


# --- services ---------------------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted(DEPLOY.glob("*.service")), ids=lambda file: file.name)
def test_services_start_commands_that_exist(file):
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(file)
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "avow"
    parsed(tuple(argument.replace("%h", "/home/me") for argument in arguments))
    assert unit["Service"]["NoNewPrivileges"] == "yes"
    if verify := shutil.which("systemd-analyze"):
        done = subprocess.run(
            [verify, "verify", "--user", file], capture_output=True, text=True
        )
        assert "Unknown" not in done.stderr


# --- two servers, a store and a proxy ---------------------------------------------------------


def composed() -> dict:
    return yaml.safe_load((DEPLOY / "compose.yml").read_text("utf-8"))


def test_two_servers_share_a_store_and_differ_in_nothing():
    services = composed()["services"]
    assert services["one"] == services["two"]
    server = services["one"]
    line = server["command"]
    parsed(tuple(line))
    assert line[line.index("--index") + 1] == "postgres:pictures"
    assert "@db/" in server["environment"]["AVOW_PG_DSN"] and "db" in server["depends_on"]
    assert (DEPLOY / server["build"]["context"] / server["build"]["dockerfile"]).is_file()
    setup = next(rest for name, rest in instructions() if name == "RUN" and "setup" in rest)
    assert "pg" in setup.split()[-1].split(",")
    # a server is killed later than it needs for its end: draining, a search, saying goodbye
    drain = float(line[line.index("--drain-seconds") + 1])
    assert int(server["stop_grace_period"].rstrip("s")) > drain + Limits().seconds + 3


def test_only_the_proxy_is_reached_and_only_the_proxy_is_believed():
    whole = composed()
    services = whole["services"]
    assert [name for name, one in services.items() if "ports" in one] == ["proxy"]
    assert all(one.startswith("127.0.0.1:") for one in services["proxy"]["ports"])
    line = services["one"]["command"]
    subnet = whole["networks"]["inside"]["ipam"]["config"][0]["subnet"]
    assert line[line.index("--trust-proxy") + 1] == subnet
    assert subnet.split("/")[0][:-1] + "7" in Proxies([subnet])
    images = [one["image"] for one in services.values() if one["image"] != "localhost/avow"]
    assert all(":" in one and not one.endswith(":latest") for one in images)
    secrets = json.dumps(whole).split("${")[1:]
    assert secrets and all(":?" in one.partition("}")[0] for one in secrets)  # no defaults


def test_the_proxy_asks_the_path_that_says_who_is_ready(retriever):
    text = (DEPLOY / "haproxy.cfg").read_text("utf-8")
    servers = re.findall(r"^    server (\S+) (\S+):8080$", text, re.MULTILINE)
    assert servers == [("one", "one"), ("two", "two")]
    assert {name for name, _ in servers} <= composed()["services"].keys()
    asked = re.search(r"http-check send meth GET uri (\S+) ver HTTP/1.1 hdr Host (\S+)", text)
    assert asked is not None
    with TestClient(create_app(retriever, token="secret")) as client:
        answer = client.get(f"http://172.30.77.3:8080{asked[1]}", headers={"Host": asked[2]})
        assert answer.status_code == 200
    if haproxy := shutil.which("haproxy"):
        assert subprocess.run([haproxy, "-c", "-f", DEPLOY / "haproxy.cfg"]).returncode == 0


# --- photo servers ----------------------------------------------------------------------------


def test_originals_of_immich_and_photoprism_are_indexed_where_they_lie(tmp_path):
    """Folders laid out as their documentation says; previews stay out."""
    encoder = ColourEncoder()
    immich, prism = tmp_path / "immich", tmp_path / "photoprism"
    save_pictures(immich / "library" / "admin" / "2026" / "2026-11-17", 3)
    save_pictures(immich / "upload" / "6f1c" / "ab" / "cd", 2)
    save_pictures(immich / "thumbs" / "6f1c" / "ab", 4)
    save_pictures(prism / "originals" / "2026" / "11", 3)
    save_pictures(prism / "storage" / "cache" / "thumbnails", 4)
    (prism / "originals" / "2026" / "11" / "red-000.yml").write_text("Title: red\n")
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    folders = [immich / "library", immich / "upload", prism / "originals"]
    report = index_folders(folders, index=tmp_path.parent / "beside", encoder=encoder)
    assert report.new == 8 and not any("thumb" in path for path, _ in report.skipped)
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before
    found = avow.open(tmp_path.parent / "beside")  # by the paths of the originals
    paths = [item.path for item in found.library.items(found.library.find())]
    assert all(Path(path).is_relative_to(tmp_path) for path in paths)
