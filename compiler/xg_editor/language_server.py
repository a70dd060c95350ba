"""The server itself: each request of the protocol, answered by what the session knows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from xg.diagnostics.diagnostic import Span
from xg_editor.complete import called_in, complete, word_before
from xg_editor.declared import ProjectNames
from xg_editor.explain import explain, hints
from xg_editor.navigation import (
    CannotRename,
    Key,
    Occurrence,
    Occurrences,
    find,
    outline,
    places,
    rename,
    renameable,
    trail,
)
from xg_editor.session import (
    Client,
    Session,
    TextPositions,
    actions,
    completion_item,
    hint,
    is_library_file,
    layout_edits,
    signature_of,
    source_of,
    symbol,
)

PARSE_ERROR: Final = -32700  # JSON-RPC's codes
INVALID_REQUEST: Final = -32600


class XgProtocol(LanguageServerProtocol):
    """The protocol of pygls, which also answers messages that are no proper requests."""

    def structure_message(self, data: dict[str, Any]) -> Any:  # noqa: ANN401 - as there
        """Read a message; a request that cannot be read is answered with an error."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if "id" in data and "method" in data:
                self.refuse(data["id"], error.code, error.message)
            raise

    def handle_message(self, message: Any) -> None:  # noqa: ANN401 - as there
        """Handle a message; answer with an error if it is not JSON-RPC."""
        fields = message_fields(message)
        if fields.get("jsonrpc") != self.VERSION:
            self.refuse(fields.get("id"), INVALID_REQUEST, 'a message has "jsonrpc": "2.0"')
        elif self._shutdown and "id" in fields and "method" in fields:
            self.refuse(fields["id"], INVALID_REQUEST, "the server is about to end")
        else:
            super().handle_message(message)

    def refuse(self, identity: object, code: int, message: str) -> None:
        """Answer with an error; to what has no usable id of its own, with null."""
        usable = identity if isinstance(identity, int | str) else None
        error = {"code": code, "message": message}
        self._send_data({"jsonrpc": self.VERSION, "id": usable, "error": error})


def message_fields(message: Any) -> dict[str, object]:  # noqa: ANN401 - anything of JSON
    """List what a message says of itself, whether it could be read or not."""
    if isinstance(message, dict):
        return cast("dict[str, object]", message)
    names = ("jsonrpc", "id", "method")
    return {name: getattr(message, name) for name in names if hasattr(message, name)}


class XgServer(LanguageServer):
    """A language server for one editor; `ended_well` once the editor has said good-bye."""

    def __init__(self, version: str) -> None:
        # whole texts: they are small, and no change can be applied differently
        kind = types.TextDocumentSyncKind.Full
        super().__init__("xg", version, kind, protocol_cls=XgProtocol)  # pyright: ignore[reportUnknownMemberType] # pygls
        self.session = Session(self.text_document_publish_diagnostics, self.report_server_error)
        self.ended_well = False

    def report_server_error(self, error: Exception, source: object = None) -> None:
        """Report an error of the server in the editor's log; the session continues."""
        if source is JsonRpcException and isinstance(error, ValueError | RecursionError):
            cast("XgProtocol", self.protocol).refuse(None, PARSE_ERROR, "the message is no JSON")
        message = f"xg lsp: {type(error).__name__}: {error}"
        self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))


def make_server(version: str) -> XgServer:
    """A server that answers every request of `FEATURES`."""
    quiet = logging.getLogger("pygls")  # reported to the editor instead of printed
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    server = XgServer(version)
    for name, function in FEATURES.items():
        server.feature(name, _OPTIONS.get(name))(function)
    return server


# ---- what the editor does ------------------------------------------------------------------------


def initialized(ls: XgServer, params: types.InitializeParams) -> None:
    """Note how the client counts columns and what it shows."""
    related = "text_document.publish_diagnostics.related_information"
    encoding = ls.workspace.position_encoding or types.PositionEncodingKind.Utf16
    snippets = "text_document.completion.completion_item.snippet_support"
    able = (bool(get_capability(params.capabilities, name, False)) for name in (related, snippets))
    ls.session.client = Client(encoding, *able)


def opened(ls: XgServer, params: types.DidOpenTextDocumentParams) -> None:
    """Check a text that the editor has opened."""
    document = params.text_document
    ls.session.opened(document.uri, document.text, document.version)


def changed(ls: XgServer, params: types.DidChangeTextDocumentParams) -> None:
    """Check a text after a change; the last change has the full text."""
    document = params.text_document
    text = ls.workspace.get_text_document(document.uri).source
    ls.session.changed(document.uri, text, document.version)


def closed(ls: XgServer, params: types.DidCloseTextDocumentParams) -> None:
    """Forget a text that the editor has closed."""
    ls.session.closed(params.text_document.uri)


def saved(ls: XgServer, params: types.DidSaveTextDocumentParams) -> None:
    """Check the texts that use a file that has been saved."""
    ls.session.changed_on_disk([params.text_document.uri])


def changed_on_disk(ls: XgServer, params: types.DidChangeWatchedFilesParams) -> None:
    """Files were changed by somebody else."""
    ls.session.changed_on_disk([change.uri for change in params.changes])


def ended(ls: XgServer, params: None) -> None:
    """Stop all work, because the editor is about to leave."""
    ls.ended_well = True
    ls.session.stop()


# ---- what the editor asks ------------------------------------------------------------------------


async def hover(ls: XgServer, params: types.HoverParams) -> types.Hover | None:
    """The explanation of the character under the cursor."""
    uri = params.text_document.uri
    text = await ls.session.read(uri)
    if text is None or text.reading.project is None:
        return None
    positions = ls.session.positions(text)
    offset = positions.offset(params.position)
    found = explain(text.reading.project, await ls.session.type_blocks(uri, text), offset)
    if found is None:
        return None
    content = types.MarkupContent(types.MarkupKind.Markdown, found.text)
    return types.Hover(content, positions.range(found.span))


async def definition(ls: XgServer, params: types.DefinitionParams) -> types.Location | None:
    """Where the name under the cursor is declared."""
    uri = params.text_document.uri
    text = await ls.session.read(uri)
    if text is None or text.reading.project is None:
        return None
    project = text.reading.project
    offset = ls.session.positions(text).offset(params.position)
    found = find(ProjectNames(project), trail(project.main, offset))
    return ls.session.location(uri, text, found.span) if found and found.span else None


async def symbols(
    ls: XgServer, params: types.DocumentSymbolParams
) -> list[types.DocumentSymbol] | None:
    """The declarations of the file."""
    text = await ls.session.read(params.text_document.uri)
    if text is None or text.reading.project is None:
        return None
    positions = ls.session.positions(text)
    return [symbol(found, positions) for found in outline(text.reading.project.main)]


async def shapes(ls: XgServer, params: types.InlayHintParams) -> list[types.InlayHint] | None:
    """The shapes of edges between the words of the file."""
    uri = params.text_document.uri
    text = await ls.session.read(uri)
    if text is None or text.reading.project is None:
        return None
    positions = ls.session.positions(text)
    start, end = positions.offset(params.range.start), positions.offset(params.range.end)
    blocks = await ls.session.type_blocks(uri, text)
    return [hint(each, positions) for each in hints(text.reading.project.main, blocks, start, end)]


async def completion(ls: XgServer, params: types.CompletionParams) -> list[types.CompletionItem]:
    """The names that could stand where the cursor is."""
    text = await ls.session.read(params.text_document.uri)
    if text is None:
        return []
    positions = ls.session.positions(text)
    word = word_before(text.source, positions.offset(params.position))
    found = complete(text.reading.project, word)
    fills = ls.session.client.snippets
    return [
        completion_item(each, place, word, positions, snippets=fills)
        for place, each in enumerate(found)
    ]


async def signature_help(
    ls: XgServer, params: types.SignatureHelpParams
) -> types.SignatureHelp | None:
    """The arguments of the node whose parentheses the cursor is in."""
    text = await ls.session.read(params.text_document.uri)
    if text is None or text.reading.project is None:
        return None
    offset = ls.session.positions(text).offset(params.position)
    called = called_in(text.reading.project, Span(text.source, offset, offset))
    return signature_of(called) if called else None


async def references(ls: XgServer, params: types.ReferenceParams) -> list[types.Location] | None:
    """Every place of the name under the cursor, also in files that use this one."""
    found, programs = await _find_name(ls, params.text_document.uri, params.position)
    if found is None or found.key is None:
        return None
    declared = found.declaration.span if found.declaration else None
    return list(_locations(ls, programs, found.key, declared, params.context.include_declaration))


async def highlights(
    ls: XgServer, params: types.DocumentHighlightParams
) -> list[types.DocumentHighlight] | None:
    """The other places of the name under the cursor in this text."""
    text = await ls.session.read(params.text_document.uri)
    if text is None or text.names is None:
        return None
    positions = ls.session.positions(text)
    main = text.names.names.project.main
    found = text.names.at(main, positions.offset(params.position))
    if found is None or found.key is None:
        return None
    same = (each.span for each in text.names.of_file(main) if each.key == found.key)
    return [types.DocumentHighlight(positions.range(span)) for span in same]


async def prepare_rename(
    ls: XgServer, params: types.PrepareRenameParams
) -> types.PrepareRenamePlaceholder | None:
    """The name that would be renamed, or why it cannot be."""
    text = await ls.session.read(params.text_document.uri)
    if text is None or text.names is None:
        return None
    positions = ls.session.positions(text)
    offset = positions.offset(params.position)
    try:
        found = renameable(text.names.at(text.names.names.project.main, offset))
    except CannotRename as refusal:
        raise JsonRpcInvalidParams(str(refusal)) from None
    return types.PrepareRenamePlaceholder(positions.range(found.span), found.span.text)


async def rename_symbol(ls: XgServer, params: types.RenameParams) -> types.WorkspaceEdit:
    """Return the edits that rename the name under the cursor, in all files that have it."""
    uri = params.text_document.uri
    found, programs = await _find_name(ls, uri, params.position)
    known = ls.session.workspace.parsed
    try:
        renaming = await ls.session.answer_in_thread(
            rename, renameable(found), programs, params.new_name, known
        )
        shipped = [path.name for path in renaming.edits if path and is_library_file(path)]
        if shipped:
            raise CannotRename(f"{shipped[0]} has the name too, and is a file of the library")
    except CannotRename as refusal:
        raise JsonRpcInvalidParams(str(refusal)) from None
    changes = {
        ls.session.uri(path) if path else uri: [
            types.TextEdit(TextPositions(span.source, ls.session.client.encoding).range(span), new)
            for span in spans
            for new in (params.new_name,)
        ]
        for path, spans in renaming.edits.items()
    }
    return types.WorkspaceEdit(changes=changes)


async def fixes(ls: XgServer, params: types.CodeActionParams) -> list[types.CodeAction] | None:
    """The suggestions of the errors at a place, as edits."""
    uri = params.text_document.uri
    analysis = await ls.session.analysis(uri)
    if analysis is None:
        return None
    positions = ls.session.positions(analysis.text)
    start, end = positions.offset(params.range.start), positions.offset(params.range.end)
    here = (
        each
        for each in analysis.diagnostics
        if each.span and each.span.start <= end and start <= each.span.end
    )
    return [action for each in here for action in actions(each, uri, positions)]


async def _find_name(
    ls: XgServer, uri: str, position: types.Position
) -> tuple[Occurrence | None, list[Occurrences]]:
    """Find the name at a place, and every program that may contain it."""
    text = await ls.session.read(uri)
    if text is None or text.names is None:
        return None, []
    offset = ls.session.positions(text).offset(position)
    found = text.names.at(text.names.names.project.main, offset)
    return found, await ls.session.programs(text)


def _locations(
    ls: XgServer,
    programs: list[Occurrences],
    key: Key,
    declared: Span | None,
    include_declaration: bool,
) -> Iterator[types.Location]:
    for path, spans in places(programs, key).items():
        for span in spans:
            is_declared = declared is not None and (span.start, span.source.name) == (
                declared.start,
                declared.source.name,
            )
            if path is not None and (include_declaration or not is_declared):
                positions = TextPositions(span.source, ls.session.client.encoding)
                yield types.Location(ls.session.uri(path), positions.range(span))


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
    types.TEXT_DOCUMENT_COMPLETION: completion,
    types.TEXT_DOCUMENT_SIGNATURE_HELP: signature_help,
    types.TEXT_DOCUMENT_INLAY_HINT: shapes,
    types.TEXT_DOCUMENT_REFERENCES: references,
    types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: highlights,
    types.TEXT_DOCUMENT_PREPARE_RENAME: prepare_rename,
    types.TEXT_DOCUMENT_RENAME: rename_symbol,
    types.TEXT_DOCUMENT_CODE_ACTION: fixes,
}
_OPTIONS: Final[Mapping[str, Any]] = {
    types.TEXT_DOCUMENT_COMPLETION: types.CompletionOptions(
        trigger_characters=[">", "<", "=", "[", "(", ".", ","]
    ),
    types.TEXT_DOCUMENT_SIGNATURE_HELP: types.SignatureHelpOptions(trigger_characters=["(", ","]),
    types.TEXT_DOCUMENT_CODE_ACTION: types.CodeActionOptions([types.CodeActionKind.QuickFix]),
    types.TEXT_DOCUMENT_RENAME: types.RenameOptions(prepare_provider=True),
}
