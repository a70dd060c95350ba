"""`xg serve`: figures, code and costs in the browser, new at each save."""

from __future__ import annotations

import signal
import time
import webbrowser
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import suppress
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Final

from xg.cli.arguments import add_files, port
from xg.cli.console import Console
from xg.cli.dispatch import bug_lines
from xg.cli.exits import FINE, UNREADABLE, USAGE
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import resting_collector

if TYPE_CHECKING:
    from xg_pages.server import Board, LiveDrawing

EXAMPLE = "xg serve mha --open"


def add_arguments(parser: ArgumentParser) -> None:
    """Files, and where they are shown."""
    add_files(parser)
    parser.add_argument(
        "--port",
        type=port,
        default=0,
        metavar="N",
        help="the port to listen on; default: a free one",
    )
    parser.add_argument("--open", action="store_true", help="open the page in your browser")


PAUSE: Final = 0.03  # seconds between two looks at the files


def run(options: Namespace, console: Console) -> int:
    """Serve until Ctrl-C."""
    from xg_pages.server import Board, LiveDrawing, LiveServer

    names = list(dict.fromkeys(options.files))
    if "-" in names:
        console.note("xg serve: standard input cannot be followed: give it a file")
        return USAGE
    for name in names:
        _refuse_unreadable(name)
    board = Board(names)
    try:
        server = LiveServer(board, options.port)
    except OSError as error:
        console.note(f"xg serve: port {options.port} cannot be used: {error.strerror}")
        return USAGE
    drawings = [LiveDrawing(name, options) for name in names]
    for place, drawing in enumerate(drawings):
        drawing.watched.has_changes()
        _redraw(board, place, drawing, console)
    server.start()
    console.stream(f"{server.address}\n")
    console.note("open it in a browser; Ctrl-C ends")
    if options.open and not webbrowser.open(server.new_ticket()):
        console.note("xg serve: no browser was found")
    interrupted = _interrupt_event()
    with suppress(KeyboardInterrupt):
        _follow(board, drawings, options, console, interrupted)
    return FINE


def _interrupt_event() -> Event:
    """Return an event that Ctrl-C sets, because a library's callback may lose the exception."""
    event = Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        event.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    return event


def _refuse_unreadable(name: str) -> None:
    """Raise DiagnosticError for a file that is not there; other errors are shown on its page."""
    from xg.cli.opening import open_project

    try:
        open_project(name)
    except DiagnosticError as error:
        if any(diagnostic.code == UNREADABLE for diagnostic in error.diagnostics):
            raise


def _follow(
    board: Board,
    drawings: Sequence[LiveDrawing],
    options: Namespace,
    console: Console,
    interrupted: Event,
) -> None:
    """Draw what is saved, and the numbers of what is looked at, one page at a time."""
    from xg_pages.server import WholePage

    whole: WholePage | None = None
    try:
        while not interrupted.is_set():
            for place, drawing in enumerate(drawings):
                if drawing.watched.has_changes():
                    if whole and whole.place == place:
                        whole = whole.stop()
                    _redraw(board, place, drawing, console)
            if whole and whole.is_over:
                board.put(whole.place, drawings[whole.place].finish_page(whole.block, whole.html))
                whole = whole.stop()
            waiting = board.waiting()
            if waiting and not whole:
                place, page = waiting[0]
                whole = WholePage(place, drawings[place].shown.name, page.block, options)
            time.sleep(PAUSE)
    finally:
        if whole:
            whole.stop()


def _redraw(board: Board, place: int, drawing: LiveDrawing, console: Console) -> None:
    """Show a file as it is now, and say how it went."""
    begun = time.perf_counter()
    drawn = ""
    try:
        with resting_collector():
            for file in drawing.redrawn():
                if not (drawn or file.failed):
                    drawn = f", drawn in {time.perf_counter() - begun:.2f} s"
                board.put(place, file)
    except Exception as error:  # the next save may be drawn
        board.put(place, drawing.broken("\n".join(bug_lines(error))))
    console.note(f"{drawing.shown.name}: {drawing.verdict}{drawn}")
    if drawing.first_error:
        console.note(drawing.first_error)
