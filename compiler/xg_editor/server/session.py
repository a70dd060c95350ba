"""The texts that an editor has open, and what is known of each: checked once for each change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from lsprotocol import types
from pygls.uris import to_fs_path

from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span
from xg.frontend.choices import CheckMemory
from xg.frontend.typed import TypedBlocks
from xg_editor.meaning.occurrences import Occurrences
from xg_editor.server.analysis import Analysis, ReadText, analyse, read_text, readable, typed
from xg_editor.server.collecting import IdleCollector
from xg_editor.server.positions import TextPositions
from xg_editor.server.report import diagnostic
from xg_editor.server.workspace import Workspace

PAUSE = 0.15  # seconds after a key until the text is checked; the next key starts them again


@dataclass(frozen=True, slots=True, eq=False)
class OpenDocument:
    """A text as the editor has it; `path` is None for one that was never saved."""

    uri: str
    path: Path | None
    text: str
    version: int | None


@dataclass(frozen=True, slots=True)
class Client:
    """The abilities of the client, and how it counts columns."""

    encoding: types.PositionEncodingKind | str = types.PositionEncodingKind.Utf16
    related: bool = False
    snippets: bool = False


Answer = TypeVar("Answer")
Publish = Callable[[types.PublishDiagnosticsParams], None]
Report = Callable[[Exception], None]


class Session:
    """The open texts. One thread checks them; another answers questions, which do not wait for it.

    Each thread has memories of its own, so that neither sees the other's work half done.
    """

    def __init__(self, publish: Publish, report: Report) -> None:
        self.publish = publish
        self.report = report
        self.client = Client()
        self.documents: dict[str, OpenDocument] = {}
        self.workspace = Workspace()
        self._texts: dict[str, asyncio.Task[ReadText]] = {}
        self._typed: dict[str, asyncio.Task[TypedBlocks]] = {}
        self._analyses: dict[str, asyncio.Task[Analysis]] = {}
        self._memories: dict[str, CheckMemory] = {}  # of checks
        self._types: dict[str, CheckMemory] = {}  # of questions
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._worker = ThreadPoolExecutor(1, "xg-checks")
        self._answers = ThreadPoolExecutor(1, "xg-answers")
        self._collector = IdleCollector(self._worker.submit)

    # ---- what the editor does --------------------------------------------------------------------

    def opened(self, uri: str, text: str, version: int | None) -> None:
        """Check a new text at once."""
        self._put(uri, text, version)
        self._check(uri, 0.0)

    def changed(self, uri: str, text: str, version: int | None) -> None:
        """Check a text when its author pauses."""
        if uri in self.documents:
            self._put(uri, text, version)
            self._check(uri, PAUSE)

    def closed(self, uri: str) -> None:
        """Forget a text and its errors."""
        document = self.documents.pop(uri, None)
        self._memories.pop(uri, None)
        self._types.pop(uri, None)
        self._forget(uri)
        if document is not None:
            self.publish(types.PublishDiagnosticsParams(uri, []))
            self._touched(uri, document.path)

    def changed_on_disk(self, uris: list[str]) -> None:
        """Check the texts that use these files."""
        for uri in uris:
            self._touched(uri, path_of(uri))

    def stop(self) -> None:
        """Let no work begin any more."""
        self._collector.stop()
        self._worker.shutdown(wait=False, cancel_futures=True)
        self._answers.shutdown(wait=False, cancel_futures=True)

    # ---- what is known ---------------------------------------------------------------------------

    async def read(self, uri: str) -> ReadText | None:
        """An open text in its present state, read but not checked; None if it is not open."""
        document = self.documents.get(uri)
        if document is None:
            return None
        if uri not in self._texts:
            others, known = self._others(document), self.workspace.parsed
            self._texts[uri] = asyncio.ensure_future(
                self.answered(read_text, document.path, document.text, others, known)
            )
        # shielded, because others wait for it too when one request is cancelled
        return await asyncio.shield(self._texts[uri])

    async def analysis(self, uri: str) -> Analysis | None:
        """The analysis of an open text in its present state; None for one that is not open."""
        if uri not in self.documents:
            return None
        if uri not in self._analyses:
            self._analyses[uri] = asyncio.ensure_future(self._analysed(uri))
        return await asyncio.shield(self._analyses[uri])

    async def typed(self, uri: str, text: ReadText) -> TypedBlocks:
        """The typed blocks of a text as it was read."""
        task = self._texts.get(uri)
        if task is None or not task.done() or task.result() is not text:
            return TypedBlocks()  # it has changed meanwhile, and the editor asks again
        if uri not in self._typed:
            memory = self._types.setdefault(uri, CheckMemory())
            self._typed[uri] = asyncio.ensure_future(self.answered(typed, text, memory))
        return await asyncio.shield(self._typed[uri])

    async def programs(self, text: ReadText) -> list[Occurrences]:
        """The program of a text, and those around it that have a file of it."""
        if text.names is None:
            return []
        return await self.answered(self.workspace.programs, text.names, self.texts())

    async def answered(self, work: Callable[..., Answer], *arguments: object) -> Answer:
        """The result of some work in the thread of questions."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._answers, work, *arguments)

    def texts(self) -> dict[Path, str]:
        """The texts that are open, by their paths."""
        return {each.path: readable(each.text) for each in self.documents.values() if each.path}

    def positions(self, text: ReadText) -> TextPositions:
        """Places in a text as the client counts them."""
        return TextPositions(text.source, self.client.encoding)

    def location(self, uri: str, text: ReadText, span: Span) -> types.Location | None:
        """A place in a text, or in a file that was read for its analysis."""
        if span.source is not text.source:
            path = text.path_of(span.source)
            if path is None:
                return None
            uri = self.uri(path)
        return types.Location(uri, TextPositions(span.source, self.client.encoding).range(span))

    def uri(self, path: Path) -> str:
        """The name by which the editor knows a file, if it has it open."""
        uris = (document.uri for document in self.documents.values() if document.path == path)
        return next(uris, None) or path.as_uri()

    def _others(self, document: OpenDocument) -> dict[Path, str]:
        return {
            other.path: other.text
            for other in self.documents.values()
            if other.path is not None and other is not document
        }

    async def _analysed(self, uri: str) -> Analysis:
        text = await self.read(uri)
        assert text is not None
        memory = self._memories.setdefault(uri, CheckMemory())
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, analyse, text, memory)

    # ---- changes ---------------------------------------------------------------------------------

    def _put(self, uri: str, text: str, version: int | None) -> None:
        self._forget(uri)
        self.documents[uri] = OpenDocument(uri, path_of(uri), text, version)
        self._touched(uri, self.documents[uri].path)

    def _touched(self, uri: str, path: Path | None) -> None:
        """Check the other texts for which this file was read, or might have been."""
        for other in list(self.documents):
            if other != uri and path is not None and self._concerns(other, path):
                self._check(other, PAUSE)

    def _concerns(self, uri: str, path: Path) -> bool:
        """Whether what is known of a text may be of a file; a question may have read it."""
        task = self._texts.get(uri)
        if task is None:
            return False  # it will be read with the file as it is
        if not task.done() or task.exception():
            return True
        text = task.result()
        return text.read(path) or bool(text.reading.diagnostics)

    def _forget(self, uri: str) -> None:
        for known in (self._texts, self._typed, self._analyses):
            known.pop(uri, None)
        check = self._checks.pop(uri, None)
        if check is not None:
            check.cancel()

    def _check(self, uri: str, pause: float) -> None:
        self._forget(uri)
        self._checks[uri] = asyncio.ensure_future(self._published(uri, pause))

    async def _published(self, uri: str, pause: float) -> None:
        """Publish the errors of a text, unless it changes meanwhile: that cancels this."""
        self._collector.stop()
        await asyncio.sleep(pause)
        document = self.documents[uri]
        try:
            analysis = await self.analysis(uri)
        except Exception as bug:  # ours, and no reason to stop
            self.report(bug)
            return
        if analysis is None:
            return
        positions = self.positions(analysis.text)

        def locate(span: Span) -> types.Location | None:
            return self.location(uri, analysis.text, span)

        related = self.client.related
        told = [
            diagnostic(each, positions, locate, related=related) for each in analysis.diagnostics
        ]
        self.publish(types.PublishDiagnosticsParams(uri, told, document.version))
        self._collector.checked()


def path_of(uri: str) -> Path | None:
    """The path of a document, if it is a file."""
    file_path = to_fs_path(uri)
    return Path(file_path).resolve() if file_path else None
