"""The server itself: each request of the protocol, answered by what the session knows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.lsp.server import LanguageServer

from xg.editor.meaning.declared import ProjectNames
from xg.editor.meaning.explain import explain
from xg.editor.meaning.find import find
from xg.editor.meaning.outline import outline
from xg.editor.meaning.trail import trail
from xg.editor.server.analysis import source_of
from xg.editor.server.formatting import layout_edits
from xg.editor.server.positions import TextPositions
from xg.editor.server.report import symbol
from xg.editor.server.session import Client, Session


class XgServer(LanguageServer):
    """A language server for one editor; `ended_well` once the editor has said good-bye."""

    def __init__(self, version: str) -> None:
        # whole texts: they are small, and no change can be applied differently
        kind = types.TextDocumentSyncKind.Full
        super().__init__("xg", version, kind)  # pyright: ignore[reportUnknownMemberType] # pygls
        self.session = Session(self.text_document_publish_diagnostics, self.report_server_error)
        self.ended_well = False

    def report_server_error(self, error: Exception, source: object = None) -> None:
        """Report an error of the server in the editor's log; the session continues."""
        message = f"xg lsp: {type(error).__name__}: {error}"
        self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))


def make_server(version: str) -> XgServer:
    """A server that answers every request of `FEATURES`."""
    quiet = logging.getLogger("pygls")  # reported to the editor instead of printed
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    server = XgServer(version)
    for name, function in FEATURES.items():
        server.feature(name)(function)
    return server


# ---- what the editor does ------------------------------------------------------------------------


def initialized(ls: XgServer, params: types.InitializeParams) -> None:
    """Note how the client counts columns and whether it shows related places."""
    related = "text_document.publish_diagnostics.related_information"
    encoding = ls.workspace.position_encoding or types.PositionEncodingKind.Utf16
    ls.session.client = Client(encoding, bool(get_capability(params.capabilities, related, False)))


def opened(ls: XgServer, params: types.DidOpenTextDocumentParams) -> None:
    """A text is open."""
    document = params.text_document
    ls.session.opened(document.uri, document.text, document.version)


def changed(ls: XgServer, params: types.DidChangeTextDocumentParams) -> None:
    """A text has changed; the last change is the whole of it."""
    document = params.text_document
    text = ls.workspace.get_text_document(document.uri).source
    ls.session.changed(document.uri, text, document.version)


def closed(ls: XgServer, params: types.DidCloseTextDocumentParams) -> None:
    """A text is closed."""
    ls.session.closed(params.text_document.uri)


def saved(ls: XgServer, params: types.DidSaveTextDocumentParams) -> None:
    """A text is on disk now."""
    ls.session.changed_on_disk([params.text_document.uri])


def changed_on_disk(ls: XgServer, params: types.DidChangeWatchedFilesParams) -> None:
    """Files were changed by somebody else."""
    ls.session.changed_on_disk([change.uri for change in params.changes])


def ended(ls: XgServer, params: None) -> None:
    """The editor is about to leave."""
    ls.ended_well = True
    ls.session.stop()


# ---- what the editor asks ------------------------------------------------------------------------


async def hover(ls: XgServer, params: types.HoverParams) -> types.Hover | None:
    """The explanation of the character under the cursor."""
    analysis = await ls.session.analysis(params.text_document.uri)
    if analysis is None or analysis.reading.project is None:
        return None
    positions = ls.session.positions(analysis)
    offset = positions.offset(params.position)
    graphs = await ls.session.graphs(analysis)
    found = explain(analysis.reading.project, graphs, offset)
    if found is None:
        return None
    content = types.MarkupContent(types.MarkupKind.Markdown, found.text)
    return types.Hover(content, positions.range(found.span))


async def definition(ls: XgServer, params: types.DefinitionParams) -> types.Location | None:
    """Where the name under the cursor is declared."""
    uri = params.text_document.uri
    analysis = await ls.session.analysis(uri)
    if analysis is None or analysis.reading.project is None:
        return None
    project = analysis.reading.project
    offset = ls.session.positions(analysis).offset(params.position)
    found = find(ProjectNames(project), trail(project.main, offset))
    return ls.session.location(uri, analysis, found.span) if found and found.span else None


async def symbols(
    ls: XgServer, params: types.DocumentSymbolParams
) -> list[types.DocumentSymbol] | None:
    """The declarations of the file."""
    analysis = await ls.session.analysis(params.text_document.uri)
    if analysis is None or analysis.reading.project is None:
        return None
    positions = ls.session.positions(analysis)
    return [symbol(found, positions) for found in outline(analysis.reading.project.main)]


def formatting(ls: XgServer, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
    """The text as `xg fmt` lays it out."""
    document = ls.session.documents.get(params.text_document.uri)
    if document is None:
        return None
    source = source_of(document.path, document.text)
    return layout_edits(document.text, source, TextPositions(source, ls.session.client.encoding))


FEATURES: Final[Mapping[str, Callable[..., Any]]] = {
    types.INITIALIZE: initialized,
    types.TEXT_DOCUMENT_DID_OPEN: opened,
    types.TEXT_DOCUMENT_DID_CHANGE: changed,
    types.TEXT_DOCUMENT_DID_CLOSE: closed,
    types.TEXT_DOCUMENT_DID_SAVE: saved,
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: changed_on_disk,
    types.SHUTDOWN: ended,
    types.TEXT_DOCUMENT_HOVER: hover,
    types.TEXT_DOCUMENT_DEFINITION: definition,
    types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: symbols,
    types.TEXT_DOCUMENT_FORMATTING: formatting,
}
