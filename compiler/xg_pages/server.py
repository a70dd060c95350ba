"""Serve pages that live in memory to one person on this machine.

It listens on the loopback address alone and answers only requests that know its secret, which other
users of the machine do not. A page from elsewhere that a browser shows may not ask: its requests
name it as their origin, and one that has made a name of its own lead here (DNS rebinding) sends
that name as the host. All refusals are the same, whatever their reason.
"""

from __future__ import annotations

import hmac
import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from itertools import count
from secrets import token_urlsafe
from socket import SHUT_RDWR
from socketserver import TCPServer
from threading import BoundedSemaphore, Condition, Lock, Thread
from typing import Any, Final

from xg.cli.arguments import settings_of
from xg.cli.opening import Watched, errors, findings, open_project, summary
from xg.cli.outputs import OF_NOTHING
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, render
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.driver import compile_project
from xg.frontend.project import Project
from xg.frontend.typed import concerning, root_blocks
from xg_pages.explorer import explore_by_steps

# The files and pages that browsers see now: one thread writes them, those of a server read.


@dataclass(frozen=True, slots=True)
class LivePage:
    """The page of a block as of some save; a quick one waits for its numbers.

    A begun one has only the figure that is seen first: who looks at another one waits for that.
    """

    block: str
    html: bytes
    version: int
    is_quick: bool
    is_begun: bool = False


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file: what `xg check` says of it, and the pages of the last text that could be drawn."""

    name: str
    said: str = ""
    failed: bool = False
    pages: tuple[LivePage, ...] = ()


class Board:
    """The files, and a number that grows with every change."""

    def __init__(self, names: Sequence[str]) -> None:
        self._changed = Condition()
        self._files = [LiveFile(name) for name in names]
        self._version = 0
        self._asked: set[tuple[int, int]] = set()

    def put(self, place: int, file: LiveFile) -> None:
        """Show a file in its new state."""
        with self._changed:
            self._files[place] = file
            self._version += 1
            self._changed.notify_all()

    def page(self, place: int, number: int) -> LivePage | None:
        """Return a page of a file, or None, and note that somebody looks at the page."""
        with self._changed:
            pages = self._files[place].pages if 0 <= place < len(self._files) else ()
            if not 0 <= number < len(pages):
                return None
            self._asked.add((place, number))
            return pages[number]

    def waiting(self) -> list[tuple[int, LivePage]]:
        """The quick pages that somebody looks at, with the places of their files."""
        with self._changed:
            pages = [
                (place, self._files[place].pages[number])
                for place, number in sorted(self._asked)
                if number < len(self._files[place].pages)
            ]
        return [(place, page) for place, page in pages if page.is_quick]

    def news(self, seen: int, seconds: float) -> tuple[int, str]:
        """Wait until the version is not `seen`, or the time is up; return version and JSON."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != seen, seconds)
            return self._version, json.dumps([_data(file) for file in self._files])


def _data(file: LiveFile) -> dict[str, object]:
    pages = [
        {"block": page.block, "version": page.version, "begun": page.is_begun}
        for page in file.pages
    ]
    return {"name": file.name, "said": file.said, "failed": file.failed, "pages": pages}


ADDRESS: Final = "127.0.0.1"
CONNECTIONS: Final = 64  # at a time; others wait for the operating system
HASTE: Final = 0.01  # seconds until an idle connection makes room for a new one
PATIENCE: Final = 20.0  # seconds, for a client that neither sends nor reads
BEAT: Final = 5.0  # seconds until a client without news hears that it is still served
ASSETS: Final[Mapping[str, tuple[str, str]]] = {
    "": ("live.html", "text/html"),
    "live.js": ("live.js", "text/javascript"),
    "kept.js": ("kept.js", "text/javascript"),
    "live.css": ("live.css", "text/css"),
}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "frame-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# An explorer page brings its own policy, which allows nothing but its own script and style.
PAGE_POLICY: Final = "frame-ancestors 'self'"
HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class LiveServer(ThreadingHTTPServer):
    """The server of a board; raises OSError where it cannot have the port."""

    daemon_threads = True
    allow_reuse_address = sys.platform != "win32"  # there, others could take the port over

    def __init__(self, board: Board, port: int = 0) -> None:
        self.board = board
        self.secret = token_urlsafe(24)
        self.ticket: str | None = None
        self._free = BoundedSemaphore(CONNECTIONS)
        self._idle: dict[Any, None] = {}  # connections without a request, the oldest first
        self._lock = Lock()
        super().__init__((ADDRESS, port), _Handler)

    @property
    def site(self) -> str:
        """The address without the secret."""
        return f"http://{ADDRESS}:{self.server_port}"

    @property
    def address(self) -> str:
        """The address that shows everything."""
        return f"{self.site}/{self.secret}/"

    def new_ticket(self) -> str:
        """An address that leads to the other one, once.

        A browser is started with it: other users may read the words that start a process.
        """
        self.ticket = token_urlsafe(24)
        return f"{self.site}/{self.ticket}"

    def start(self) -> None:
        """Serve, in threads of their own."""
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def server_bind(self) -> None:
        """Take the port, without asking a name server for the name of this machine."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as there
        """Answer in a thread; if there are too many, end the one that has been idle longest.

        Otherwise connections that say nothing, of anybody on this machine, keep the owner out.
        """
        self.set_idle(request, is_idle=True)
        while not self._free.acquire(timeout=HASTE):
            with self._lock:
                oldest = next((each for each in self._idle if each is not request), None)
            if oldest is not None:
                self.set_idle(oldest, is_idle=False)
                with suppress(OSError):
                    oldest.shutdown(SHUT_RDWR)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Answer, then let another be answered."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.set_idle(request, is_idle=False)
            self._free.release()

    def set_idle(self, request: Any, *, is_idle: bool) -> None:  # noqa: ANN401 - a socket
        """Note whether a connection waits for a request of somebody who knows the secret."""
        with self._lock:
            self._idle.pop(request, None)
            if is_idle:
                self._idle[request] = None

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as there
        """Ignore the error: a client that is gone needs no answer, and a message helps no one."""


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def handle_one_request(self) -> None:
        """Wait for a request and answer it."""
        self.server.set_idle(self.connection, is_idle=True)
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer a request, if it is of somebody who may ask."""
        ticket = self.server.ticket
        rest = self._path_after_secret() if self._is_asked_here() else None
        if rest is not None:
            self.server.set_idle(self.connection, is_idle=False)
        if self._is_asked_here() and ticket and _equal(self.path, f"/{ticket}"):
            self.server.ticket = None
            self._answer(HTTPStatus.SEE_OTHER, b"", {"Location": f"/{self.server.secret}/"})
        elif rest in ASSETS:
            name, kind = ASSETS[rest]
            content = files("xg_pages").joinpath("assets", name).read_bytes()
            self._answer(HTTPStatus.OK, content, _kind(kind, POLICY))
        elif rest == "state":
            with suppress(OSError):  # the client is gone
                self._tell()
        elif rest is not None and rest.startswith("page/"):
            self._page(rest.removeprefix("page/"))
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _is_asked_here(self) -> bool:
        """Whether the request is of a page of this server, or of a person at an address bar."""
        known = {f"{ADDRESS}:{self.server.server_port}", f"localhost:{self.server.server_port}"}
        host, origin = self.headers.get_all("Host"), self.headers.get_all("Origin")
        site = self.headers.get("Sec-Fetch-Site", "none")
        return (
            host is not None
            and len(host) == 1
            and host[0] in known
            and (origin is None or origin == [f"http://{host[0]}"])
            and site in ("none", "same-origin")
            and "Content-Length" not in self.headers
            and "Transfer-Encoding" not in self.headers
        )

    def _path_after_secret(self) -> str | None:
        """Return the path after the secret, without its query; None if the secret is wrong."""
        path = self.path.partition("?")[0]
        _, secret, *rest = [*path.split("/", 2), ""]
        if path.count("/") >= 2 and _equal(secret, self.server.secret):
            return rest[0]
        return None

    def _page(self, rest: str) -> None:
        file, _, number = rest.partition("/")
        page = None
        if all(part.isascii() and part.isdigit() and len(part) < 6 for part in (file, number)):
            page = self.server.board.page(int(file), int(number))
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._answer(HTTPStatus.OK, page.html, _kind("text/html", PAGE_POLICY))

    def _tell(self) -> None:
        """Tell the state, and each new one, until the client is gone."""
        self.close_connection = True
        self._start(HTTPStatus.OK, {**_kind("text/event-stream", POLICY), "Connection": "close"})
        seen = -1
        while True:
            version, state = self.server.board.news(seen, BEAT)
            line = ":\n\n" if version == seen else f"data: {state}\n\n"
            seen = version
            self.wfile.write(line.encode())

    def _answer(self, status: HTTPStatus, content: bytes, headers: Mapping[str, str]) -> None:
        self._start(status, {**headers, "Content-Length": str(len(content))})
        with suppress(OSError):
            self.wfile.write(content)

    def _start(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response_only(status)
        for name, value in {**HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A status, and no word more."""
        del message, explain
        self.close_connection = True
        self._start(code, {"Content-Length": "0", "Connection": "close"})

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, because addresses contain the secret."""


def _kind(kind: str, policy: str) -> dict[str, str]:
    return {"Content-Type": f"{kind}; charset=utf-8", "Content-Security-Policy": policy}


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


# One served file: drawn again after each save, its numbers by a process that a save may end.


_VERSIONS = count(1)


class LiveDrawing:
    """A file, and what is shown of it."""

    def __init__(self, name: str, options: Namespace) -> None:
        self.watched = Watched(name)
        self.shown = LiveFile(name)
        self.verdict = ""  # in words
        self.first_error = ""  # its place and its message
        self._options = options

    def redrawn(self) -> Iterator[LiveFile]:
        """The file as it is now: its first pictures, all of them, what `xg check` says of it.

        It is read once: a save in between would put the errors of one text beside the
        pictures of another.
        """
        try:
            project = open_project(self.shown.name)
        except DiagnosticError as error:
            checked = error.diagnostics
        else:
            mistakes: tuple[Diagnostic, ...] = ()
            for pages, mistakes in self._drawn(project):
                if pages and not mistakes:
                    yield self._show(replace(self.shown, said="", failed=False, pages=pages))
            checked = findings(project, self._options) or mistakes
        self.verdict, self.first_error = summary(checked), _first_error(checked)
        if checked:
            said, failed = render(checked, color=False), bool(errors(checked))
            yield self._show(replace(self.shown, said=said, failed=failed))

    def finish_page(self, block: str, html: bytes | None) -> LiveFile:
        """Replace a block's quick page by its whole page; if None, the quick page is final."""
        pages = tuple(
            page
            if page.block != block
            else replace(page, is_quick=False)
            if html is None
            else LivePage(block, html, next(_VERSIONS), is_quick=False)
            for page in self.shown.pages
        )
        return self._show(replace(self.shown, pages=pages))

    def broken(self, said: str) -> LiveFile:
        """Return the file as failed after an internal error of xg."""
        self.verdict, self.first_error = "internal error", ""
        return self._show(replace(self.shown, said=said, failed=True))

    def _show(self, file: LiveFile) -> LiveFile:
        self.shown = file
        return file

    def _drawn(
        self, project: Project
    ) -> Iterator[tuple[tuple[LivePage, ...], tuple[Diagnostic, ...]]]:
        """Yield the quick pages of all blocks that no other calls, and the errors of the others.

        The first time, pages have only the figure that is seen first.
        """
        block: str | None = self._options.block
        names = (block,) if block else root_blocks(project.main) or (None,)
        drawings = [self._pages(project, name) for name in names]
        pages: list[LivePage] = []
        mistakes: list[Diagnostic] = []
        for drawing in drawings:
            try:
                pages.append(next(drawing))
            except DiagnosticError as error:
                mistakes += error.diagnostics
        said = _relevant_errors(mistakes, drawn=bool(pages))
        yield tuple(pages), said
        if any(page.is_begun for page in pages) and not said:
            whole = {page.block: page for drawing in drawings for page in drawing}
            yield tuple(whole.get(page.block, page) for page in pages), said

    def _pages(self, project: Project, name: str | None) -> Iterator[LivePage]:
        """Yield the page of a block, and where it has several figures, a begun one before."""
        settings = settings_of(self._options)
        settings = concerning(project, name, settings, asked=self._options.block)
        program = compile_project(project, name, settings, self._options.plan)
        block = program.graphs.main.block
        for html, is_begun in explore_by_steps(program, settings):
            yield LivePage(block, html, next(_VERSIONS), is_quick=True, is_begun=is_begun)


def _first_error(found: Sequence[Diagnostic]) -> str:
    """``net.xg:3:24: no operator, block or option is called Foo``."""
    for each in found:
        if each.severity == "error":
            place = f"{each.file}:{each.line}:{each.column}: " if each.span else ""
            return f"{place}{each.message}"
    return ""


def _relevant_errors(mistakes: Iterable[Diagnostic], *, drawn: bool) -> tuple[Diagnostic, ...]:
    """Return each error once; drop those about plans of other blocks if anything is drawn."""
    every = {(each.code, str(each)): each for each in mistakes}
    return tuple(each for each in every.values() if not (drawn and each.code == OF_NOTHING))


class WholePage:
    """A process that makes the page of a block, with numbers and plans, and prints it."""

    def __init__(self, place: int, file: str, block: str, options: Namespace) -> None:
        self.place, self.block = place, block
        words = ["build", file, "-o", "-", "--only", "html", "--block", block]
        words += [] if options.plan is None else ["--plan", options.plan]
        for name, value in options.settings:
            words += ["--set", f"{name}={value}"]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "xg", *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches the server alone, which ends it
        )
        self._html = b""
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        self._html, _ = self._process.communicate()

    @property
    def is_over(self) -> bool:
        """Return whether the page is there, or never will be."""
        return not self._reader.is_alive()

    @property
    def html(self) -> bytes | None:
        """Return the page; None until the process has succeeded."""
        return self._html if self._process.returncode == 0 else None

    def stop(self) -> None:
        """End the process, if it has not ended, and leave nothing of it."""
        self._process.kill()
        self._reader.join()
