"""One served file: drawn again after each save, its numbers by a process that a save may end."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from threading import Thread

from xg.cli.arguments import settings_of
from xg.cli.checking import errors, findings, summary
from xg.cli.opening import Watched, open_project
from xg.cli.outputs import OF_NOTHING
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, render
from xg.diagnostics.lazy_dataclass import replace
from xg.driver import compile_project
from xg.frontend.project import Project
from xg.frontend.typed import concerning, uncalled
from xg_pages.explorer import explore_by_steps
from xg_pages.serve.server import LiveFile, LivePage

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

    def finished(self, block: str, html: bytes | None) -> LiveFile:
        """The file with the whole page of a block; without one, the quick page is all there is."""
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
        """The file, of which xg could make nothing."""
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
        names = (block,) if block else uncalled(project.main) or (None,)
        drawings = [self._pages(project, name) for name in names]
        pages: list[LivePage] = []
        mistakes: list[Diagnostic] = []
        for drawing in drawings:
            try:
                pages.append(next(drawing))
            except DiagnosticError as error:
                mistakes += error.diagnostics
        said = _concerned(mistakes, drawn=bool(pages))
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


def _concerned(mistakes: Iterable[Diagnostic], *, drawn: bool) -> tuple[Diagnostic, ...]:
    """The errors, once each; that a plan is not of a block is none if it is of another."""
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
    def has_ended(self) -> bool:
        """Whether the page is there, or will never be."""
        return not self._reader.is_alive()

    @property
    def html(self) -> bytes | None:
        """The page; None where there is none."""
        return self._html if self._process.returncode == 0 else None

    def stop(self) -> None:
        """End the process, if it has not ended, and leave nothing of it."""
        self._process.kill()
        self._reader.join()
