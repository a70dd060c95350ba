"""`xg serve`: what it shows after a save, and what it refuses to whom."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import TINY, WRONG, Xg
from pages.explorer.pages import later

from xg.cli.dispatch import command_of, parser_of
from xg.driver import compile_project
from xg.frontend.project import read_project
from xg_pages.explorer import NOT_YET, explore
from xg_pages.server import (
    CONNECTIONS,
    PATIENCE,
    Board,
    LiveDrawing,
    LiveFile,
    LivePage,
    LiveServer,
)

PAGE = b"<!doctype html><title>a page</title>"
SOON = 60  # seconds, on a machine that does much else


@dataclass
class Client:
    """Somebody who knows the address."""

    port: int
    secret: str
    board: Board = field(default_factory=lambda: Board([]))

    def get(
        self, path: str = "", method: str = "GET", host: str | None = None, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        """The answer to a request; the path is one behind the secret, or begins with a slash."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON)
        connection.putrequest(
            method,
            path if path.startswith("/") else f"/{self.secret}/{path}",
            skip_host=host is not None,
        )
        if host:
            connection.putheader("Host", host)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        said = answer.status, answer.read(), dict(answer.getheaders())
        connection.close()
        return said

    def states(self) -> Iterator[list[dict[str, Any]]]:
        """The state now, and each new one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON)
        connection.request("GET", f"/{self.secret}/state")
        answer = connection.getresponse()
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        while line := answer.readline():
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


@pytest.fixture
def client() -> Iterator[Client]:
    """A client of a server of one page."""
    board = Board(["a.xg"])
    board.put(0, LiveFile("a.xg", pages=(LivePage("A", PAGE, 7, is_quick=True),)))
    server = LiveServer(board)
    server.start()
    yield Client(server.server_port, server.secret, board)
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nX: "], ids=["idle", "unfinished"])
def test_connections_that_ask_nothing_keep_nobody_out(client: Client, said: bytes) -> None:
    idle = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(2 * CONNECTIONS)]
    for each in idle:
        with suppress(OSError):
            each.sendall(said)
    begun = time.perf_counter()
    assert client.get()[0] == 200
    states = client.states()
    assert next(states)
    assert time.perf_counter() - begun < PATIENCE / 4
    for each in idle:
        each.close()


def test_who_reads_the_news_is_not_sent_away(client: Client) -> None:
    states = client.states()
    assert next(states)
    idle = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(2 * CONNECTIONS)]
    assert client.get()[0] == 200
    for each in idle:
        each.close()
    client.board.put(0, LiveFile("b.xg"))
    assert next(states)[0]["name"] == "b.xg"


# ---- who gets what ------------------------------------------------------------------------------


def test_who_knows_the_address_gets_the_pages(client: Client) -> None:
    status, shell, headers = client.get()
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Server" not in headers
    for name in re.findall(r'(?:src|href)="(live\.\w+)"', shell.decode()):
        assert client.get(name)[0] == 200
    status, page, headers = client.get("page/0/0?7")
    assert (status, page) == (200, PAGE)
    assert headers["Content-Security-Policy"] == "frame-ancestors 'self'"
    assert client.get("page/0/0", host=f"localhost:{client.port}")[0] == 200
    assert next(client.states()) == [
        {
            "name": "a.xg",
            "said": "",
            "failed": False,
            "pages": [{"block": "A", "version": 7, "begun": False}],
        }
    ]


HOSTILE: dict[str, Callable[[Client], tuple[int, bytes, dict[str, str]]]] = {
    "no secret": lambda client: client.get("/"),
    "another secret": lambda client: client.get("/" + "a" * 32 + "/"),
    "a part of the secret": lambda client: client.get(f"/{client.secret[:-1]}/"),
    "no slash": lambda client: client.get(f"/{client.secret}"),
    "a name of its own": lambda client: client.get(host=f"evil.example:{client.port}"),
    "another port": lambda client: client.get(host="127.0.0.1:1"),
    "no host": lambda client: client.get(host=""),
    "two hosts": lambda client: client.get(Host=f"127.0.0.1:{client.port}"),
    "a page from elsewhere": lambda client: client.get(Origin="https://evil.example"),
    "a page without origin": lambda client: client.get(Origin="null"),
    "another server here": lambda client: client.get(Origin="http://127.0.0.1:1"),
    "a link from elsewhere": lambda client: client.get(Sec_Fetch_Site="cross-site"),
    "a neighbor": lambda client: client.get("page/0/0", Sec_Fetch_Site="same-site"),
    "a body": lambda client: client.get(Content_Length="0"),
    "a file of the disk": lambda client: client.get("../../../../etc/passwd"),
    "a file of the package": lambda client: client.get("live.html"),
    "a page that is not there": lambda client: client.get("page/0/1"),
    "a file that is not there": lambda client: client.get("page/1/0"),
    "a negative page": lambda client: client.get("page/0/-1"),
    "a long number": lambda client: client.get("page/0/" + "9" * 5000),
}


@pytest.mark.parametrize("who", HOSTILE)
def test_others_get_nothing(client: Client, who: str) -> None:
    status, content, headers = HOSTILE[who](client)
    assert (status, content) == (404, b"")
    assert not {"Location", "Server", "Access-Control-Allow-Origin"} & headers.keys()


@pytest.mark.parametrize("method", ["POST", "PUT", "OPTIONS", "HEAD", "TRACE"])
def test_nothing_but_get_is_answered(client: Client, method: str) -> None:
    status, content, headers = client.get(method=method)
    assert (status, content) == (501, b"")
    assert not {"Allow", "Access-Control-Allow-Origin"} & headers.keys()


def test_noise_ends_no_server(client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    secret = client.secret.encode()
    host = b" HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % client.port
    letters = (b"GET /\xfc\xff/" + host, b"GET /" + secret + b"/page/0/\xb2" + host)
    lines = (b"GET\r\n\r\n", b"GET / HTTP/9\r\n\r\n")
    for noise in (b"\0" * 100, *lines, *letters, b"G" * 70_000, b""):
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            connection.sendall(noise)
            connection.shutdown(socket.SHUT_WR)
            try:
                answer = connection.recv(1 << 16)
            except ConnectionResetError:  # it did not read all of it
                continue
            assert PAGE not in answer
            assert secret not in answer
    assert client.get()[0] == 200
    assert capfd.readouterr() == ("", "")


def test_it_listens_on_the_loopback_address_alone(client: Client) -> None:
    with pytest.raises(OSError, match=r"."):
        socket.create_connection(("127.0.0.2", client.port), timeout=5)


def test_a_ticket_leads_to_the_pages_once() -> None:
    server = LiveServer(Board([]))
    server.start()
    client = Client(server.server_port, server.secret)
    ticket = "/" + server.new_ticket().rpartition("/")[2]
    assert client.get(ticket, Origin="https://evil.example")[0] == 404
    status, content, headers = client.get(ticket)
    assert (status, content, headers["Location"]) == (303, b"", f"/{server.secret}/")
    assert client.get(ticket)[0] == 404
    server.shutdown()
    server.server_close()


# ---- the command ---------------------------------------------------------------------------------


@dataclass
class Serving:
    """A running command, and its news so far."""

    process: subprocess.Popen[str]
    client: Client
    states: Iterator[list[dict[str, Any]]] = field(init=False)

    def __post_init__(self) -> None:
        self.states = self.client.states()

    def until(self, is_so: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """The first state of which something is so."""
        return next(state for state in self.states if is_so(state))

    def page(self, place: int = 0, number: int = 0) -> str:
        """A page as it is now."""
        return self.client.get(f"page/{place}/{number}")[1].decode()


@contextmanager
def serving(folder: Path, *words: str) -> Generator[Serving]:
    command = [sys.executable, "-P", "-m", "xg", "serve", *words]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        command, cwd=folder, env=variables, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout
        address = re.fullmatch(
            r"http://127\.0\.0\.1:(\d+)/([\w-]{32})/\n", process.stdout.readline()
        )
        assert address
        yield Serving(process, Client(int(address[1]), address[2]))
    finally:
        process.kill()
        process.communicate()


def saved(folder: Path, text: str, name: str = "tiny.xg") -> None:
    """Save a file as editors do: in place of the old one, and never seen half written."""
    fresh = folder.parent / "fresh.xg"
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(folder / name)


def test_pages_follow_the_file(folder: Path) -> None:
    before = sorted(folder.iterdir())
    with serving(folder, "tiny.xg", "--set", "act=tanh", "--set", "D=6") as served:
        (state,) = served.until(bool)
        assert (state["name"], state["said"], state["pages"][0]["block"]) == ("tiny.xg", "", "Net")
        first = served.page()
        assert "A tiny net" in first
        assert '"quick": true' in first or '"quick":true' in first

        # Who looks at a page gets its numbers, by and by.
        (state,) = served.until(lambda files: files[0]["pages"][0] != state["pages"][0])
        whole = served.page()
        assert not re.search(r'"quick": ?true', whole)
        assert len(whole) > len(first)

        saved(folder, TINY.replace("A tiny net", "Another net"))
        (state,) = served.until(lambda files: files[0]["pages"][0] != state["pages"][0])
        assert "Another net" in served.page()

        saved(folder, TINY.replace("V [D_ff, D]", "V [D, D_ff]"))
        (state,) = served.until(lambda files: files[0]["failed"])
        assert "Another net" in served.page()  # the last good one
        shown = state["said"]

        saved(folder, TINY)
        served.until(lambda files: not files[0]["failed"] and not files[0]["said"])

        served.process.send_signal(signal.SIGINT)
        out, err = served.process.communicate(timeout=SOON)
        assert (served.process.returncode, out) == (0, "")
        assert "tiny.xg: 1 error\ntiny.xg:8:19: matmul contracts D_ff with D\n" in err
        assert "Traceback" not in err
    assert sorted(folder.iterdir()) == before
    saved(folder, TINY.replace("V [D_ff, D]", "V [D, D_ff]"))
    check = [sys.executable, "-P", "-m", "xg", "check", "tiny.xg", "--set", "act=tanh"]
    checked = subprocess.run(
        [*check, "--set", "D=6"], cwd=folder, check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert checked.stderr == shown + "\n"


def test_errors_are_those_of_the_text_that_is_drawn(folder: Path) -> None:
    """A save while a file is drawn is another drawing; pictures and errors are of one text."""
    drawing = drawing_of(folder)
    states = drawing.redrawn()
    first = next(states)
    assert [page.is_begun for page in first.pages] == [True]
    saved(folder, WRONG)
    (second,) = states
    assert [page.is_begun for page in second.pages] == [False]
    assert drawing.verdict == "ok"
    assert [state.failed for state in drawing.redrawn()] == [True]


def drawing_of(folder: Path) -> LiveDrawing:
    name = str(folder / "tiny.xg")
    return LiveDrawing(name, parser_of("serve", command_of("serve")).parse_args([name]))


FIGURE = re.compile(r'<div class=figure data-shows="([\w. ]+)"(?: hidden)?>(.*?</svg>)', re.DOTALL)


def test_the_figure_that_is_seen_first_comes_before_the_others(folder: Path) -> None:
    """A begun page is the quick page, but for the figures that it does not have yet."""
    begun, quick = (state.pages[0].html.decode() for state in drawing_of(folder).redrawn())
    program = compile_project(read_project(folder / "tiny.xg"))
    assert quick == explore(program, {}, quick=True).page.decode()
    (forward,) = FIGURE.findall(quick)
    assert FIGURE.findall(begun) == [forward]
    (backward,) = FIGURE.findall(later(quick).replace('"figure"', "figure"))
    assert FIGURE.findall(later(begun).replace('"figure"', "figure")) == [("0.backward", NOT_YET)]
    assert len(backward[1]) > 1000

    # Of a block that has one figure there is nothing to wait for.
    saved(folder, "dim B\nblock A(X [B] frozen) -> Y [B] {\n    X -> tanh : Y\n}\n")
    states = list(drawing_of(folder).redrawn())
    assert [page.is_begun for state in states for page in state.pages] == [False]


USED = "dim B, D\nblock Part(X [B, D]) -> Y [B, D] {{\n    X -> {} : Y\n}}\n"
USER = """\
use Part from "parts/part.xg"
dim B, D = 4
block Whole(X [B, D]) -> Y [B, D] {
    X -> Part : Y
}
block Other(X [B, D]) -> Y [B, D] {
    X -> GELU : Y
}
"""


def test_several_files_and_what_they_use(folder: Path) -> None:
    (folder / "parts").mkdir()
    saved(folder, USED.format("tanh"), "parts/part.xg")
    saved(folder, USER, "user.xg")
    with serving(folder, "user.xg", "wrong.xg", "mlp") as served:
        state = served.until(lambda files: all(file["pages"] or file["said"] for file in files))
        blocks = [[page["block"] for page in file["pages"]] for file in state]
        assert blocks == [["Whole", "Other"], [], ["MLP"]]
        assert [file["failed"] for file in state] == [False, True, False]
        versions = [page["version"] for file in state for page in file["pages"]]
        saved(folder, USED.format("sigmoid"), "parts/part.xg")
        state = served.until(lambda files: files[0]["pages"][0]["version"] != versions[0])
        assert "sigmoid" in served.page()
        assert state[2]["pages"][0]["version"] == versions[2]
        saved(folder, WRONG.replace("W [E, D]", "W [D, E]"), "wrong.xg")
        state = served.until(lambda files: bool(files[1]["pages"]))
        assert not state[1]["failed"]


def test_a_save_is_drawn_at_once(folder: Path) -> None:
    """Seven saves; the median is what a reader waits for, but for the browser."""
    with serving(folder, "tiny.xg") as served:
        served.until(lambda files: bool(files[0]["pages"]))
        waited: list[float] = []
        for turn in range(7):
            begun = time.perf_counter()
            saved(folder, TINY.replace("A tiny net", f"Net {turn}"))
            served.until(lambda _: f"Net {turn}" in served.page())  # noqa: B023 - asked at once
            waited.append(time.perf_counter() - begun)
        assert sorted(waited)[3] < 2  # 0.1 on a machine that does nothing else


def test_killed_at_any_moment_it_leaves_nothing(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for pause in (0.0, 0.1):
        with serving(folder, "tiny.xg") as served:
            served.until(lambda files: bool(files[0]["pages"]))
            served.page()  # its numbers are begun
            time.sleep(pause)
            served.process.kill()
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_what_cannot_be_served(xg: Xg) -> None:
    said = xg("serve", "-")
    assert (said.code, said.err) == (
        2,
        "xg serve: standard input cannot be followed: give it a file\n",
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = xg("serve", "tiny.xg", "--port", port)
    assert said.code == 2
    assert said.err.startswith(f"xg serve: port {port} cannot be used: ")
    assert xg("serve", "tiny.xg", "--port", "70000").code == 2
