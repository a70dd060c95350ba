"""The texts that an editor has open, and what is known of each: checked once for each change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lsprotocol import types
from pygls.uris import to_fs_path

from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span
from xg.editor.server.analysis import Analysis, analyse
from xg.editor.server.positions import TextPositions
from xg.editor.server.report import diagnostic
from xg.frontend.check_memory import CheckMemory
from xg.ir.graph import Graph

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


Publish = Callable[[types.PublishDiagnosticsParams], None]
Report = Callable[[Exception], None]


class Session:
    """The open texts. The compiler works in one thread beside the one that talks to the editor."""

    def __init__(self, publish: Publish, report: Report) -> None:
        self.publish = publish
        self.report = report
        self.client = Client()
        self.documents: dict[str, OpenDocument] = {}
        self._analyses: dict[str, asyncio.Task[Analysis]] = {}
        self._memories: dict[str, CheckMemory] = {}
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._worker = ThreadPoolExecutor(1, "xg")

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
        self._worker.shutdown(wait=False, cancel_futures=True)

    # ---- what is known ---------------------------------------------------------------------------

    async def analysis(self, uri: str) -> Analysis | None:
        """The analysis of an open text in its present state; None for one that is not open."""
        document = self.documents.get(uri)
        if document is None:
            return None
        if uri not in self._analyses:
            self._analyses[uri] = asyncio.ensure_future(self._analysed(document))
        # shielded, because others wait for it too when one request is cancelled
        return await asyncio.shield(self._analyses[uri])

    async def graphs(self, analysis: Analysis) -> tuple[Graph, ...]:
        """The typed graphs of a text."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, lambda: analysis.graphs)

    def positions(self, analysis: Analysis) -> TextPositions:
        """Places in the text of an analysis as the client counts them."""
        return TextPositions(analysis.source, self.client.encoding)

    def location(self, uri: str, analysis: Analysis, span: Span) -> types.Location | None:
        """A place in a text, or in a file that was read for its analysis."""
        if span.source is not analysis.source:
            path = analysis.path_of(span.source)
            if path is None:
                return None
            uri = self._uri(path)
        return types.Location(uri, TextPositions(span.source, self.client.encoding).range(span))

    def _uri(self, path: Path) -> str:
        """The name by which the editor knows a file, if it has it open."""
        uris = (document.uri for document in self.documents.values() if document.path == path)
        return next(uris, None) or path.as_uri()

    async def _analysed(self, document: OpenDocument) -> Analysis:
        others = {
            other.path: other.text
            for other in self.documents.values()
            if other.path is not None and other is not document
        }
        memory = self._memories.setdefault(document.uri, CheckMemory())
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._worker, analyse, document.path, document.text, others, memory
        )

    # ---- changes ---------------------------------------------------------------------------------

    def _put(self, uri: str, text: str, version: int | None) -> None:
        self._forget(uri)
        self.documents[uri] = OpenDocument(uri, path_of(uri), text, version)
        self._touched(uri, self.documents[uri].path)

    def _touched(self, uri: str, path: Path | None) -> None:
        """Check the other texts for which this file was read, or might have been."""
        for other in list(self.documents):
            task = self._analyses.get(other)
            if other == uri or path is None or task is None:
                continue
            if not task.done() or task.exception() or self._concerns(task.result(), path):
                self._check(other, PAUSE)

    def _concerns(self, analysis: Analysis, path: Path) -> bool:
        return analysis.read(path) or bool(analysis.reading.diagnostics)

    def _forget(self, uri: str) -> None:
        self._analyses.pop(uri, None)
        check = self._checks.pop(uri, None)
        if check is not None:
            check.cancel()

    def _check(self, uri: str, pause: float) -> None:
        self._forget(uri)
        self._checks[uri] = asyncio.ensure_future(self._published(uri, pause))

    async def _published(self, uri: str, pause: float) -> None:
        """Publish the errors of a text, unless it changes meanwhile: that cancels this."""
        await asyncio.sleep(pause)
        document = self.documents[uri]
        try:
            analysis = await self.analysis(uri)
        except Exception as bug:  # ours, and no reason to stop
            self.report(bug)
            return
        if analysis is None:
            return
        positions = self.positions(analysis)

        def locate(span: Span) -> types.Location | None:
            return self.location(uri, analysis, span)

        related = self.client.related
        told = [
            diagnostic(each, positions, locate, related=related) for each in analysis.diagnostics
        ]
        self.publish(types.PublishDiagnosticsParams(uri, told, document.version))


def path_of(uri: str) -> Path | None:
    """The path of a document, if it is a file."""
    file_path = to_fs_path(uri)
    return Path(file_path).resolve() if file_path else None
