"""Translate positions, formatting and results of the compiler to the protocol."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import takewhile

from lsprotocol import types

from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, Source, Span
from xg.syntax.format import format
from xg_editor.meaning.complete import Completion
from xg_editor.meaning.declared import Called, Kind
from xg_editor.meaning.explain import ShapeHint
from xg_editor.meaning.navigation import OutlineSymbol

_LINE_END = re.compile(r"\n|\r")  # `\r\n` is `\n` in a source; a lone `\r` ends a line here only
_UNITS = {
    types.PositionEncodingKind.Utf8: ("utf-8", 1),
    types.PositionEncodingKind.Utf16: ("utf-16-le", 2),
    types.PositionEncodingKind.Utf32: ("utf-32-le", 4),
}


class TextPositions:
    """Offsets of one source as positions, and back."""

    def __init__(self, source: Source, encoding: types.PositionEncodingKind | str) -> None:
        self.text = source.text
        self.starts = [0, *(match.end() for match in _LINE_END.finditer(source.text))]
        kind = types.PositionEncodingKind(encoding)
        self.codec, self.bytes_of_unit = _UNITS[kind]

    def position(self, offset: int) -> types.Position:
        """Where the character at an offset is."""
        line = bisect_right(self.starts, offset) - 1
        units = self._encode(self.text[self.starts[line] : offset])
        return types.Position(line, len(units) // self.bytes_of_unit)

    def offset(self, position: types.Position) -> int:
        """Convert a position to an offset; past the end of a line or the text, it is that end."""
        if position.line >= len(self.starts):
            return len(self.text)
        start = self.starts[position.line]
        last = position.line + 1 == len(self.starts)
        end = len(self.text) if last else self.starts[position.line + 1] - 1
        units = self._encode(self.text[start:end])[: position.character * self.bytes_of_unit]
        return start + len(units.decode(self.codec, "ignore"))

    def range(self, span: Span) -> types.Range:
        """Where a span begins and ends."""
        return types.Range(self.position(span.start), self.position(span.end))

    def _encode(self, text: str) -> bytes:
        return text.encode(self.codec, "surrogatepass")


# Formatting as an edit: the lines that `xg fmt` would write otherwise.


def layout_edits(
    text: str, source: Source, positions: TextPositions
) -> list[types.TextEdit] | None:
    """One edit from the first line that changes to the last; None for a text with errors.

    Args:
        text: the text as the editor has it, with its line ends.
        source: the same with those of the language.
        positions: of `source`.
    """
    try:
        formatted = format(source)
    except DiagnosticError:
        return None
    if formatted == text:
        return []
    old, new = (each.splitlines(keepends=True) for each in (source.text, formatted))
    if "\r" in text:  # every line end changes
        return [_edit(source, positions, 0, len(source.text), formatted)]
    same = sum(1 for _ in takewhile(_equal, zip(old, new, strict=False)))
    tails = zip(reversed(old[same:]), reversed(new[same:]), strict=False)
    tail = sum(1 for _ in takewhile(_equal, tails))
    start = sum(map(len, old[:same]))
    end = len(source.text) - sum(map(len, old[len(old) - tail :]))
    return [_edit(source, positions, start, end, "".join(new[same : len(new) - tail]))]


def _equal(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


def _edit(
    source: Source, positions: TextPositions, start: int, end: int, text: str
) -> types.TextEdit:
    return types.TextEdit(positions.range(Span(source, start, end)), text)


# The compiler's results in the terms of the protocol.


Locate = Callable[[Span], types.Location | None]

_SEVERITY = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
}
NOTHING_YET = "XG0220"  # the code of a file that has no block: in an editor each one begins so
_SYMBOL: dict[Kind, types.SymbolKind] = {
    "block": types.SymbolKind.Class,
    "operator": types.SymbolKind.Function,
    "dim": types.SymbolKind.Constant,
    "mesh axis": types.SymbolKind.Constant,
    "option": types.SymbolKind.Enum,
    "plan": types.SymbolKind.Namespace,
    "parameter": types.SymbolKind.Field,
    "state": types.SymbolKind.Field,
}

_COMPLETION: dict[str, types.CompletionItemKind] = {
    "block": types.CompletionItemKind.Class,
    "operator": types.CompletionItemKind.Function,
    "call": types.CompletionItemKind.Function,
    "dim": types.CompletionItemKind.Constant,
    "mesh axis": types.CompletionItemKind.Constant,
    "option": types.CompletionItemKind.Enum,
    "word": types.CompletionItemKind.EnumMember,
    "plan": types.CompletionItemKind.Module,
    "parameter": types.CompletionItemKind.Field,
    "state": types.CompletionItemKind.Field,
    "argument": types.CompletionItemKind.Property,
    "file": types.CompletionItemKind.File,
    "word of the language": types.CompletionItemKind.Keyword,
}


def protocol_diagnostic(
    found: Diagnostic, positions: TextPositions, locate: Locate, *, related: bool
) -> types.Diagnostic:
    """An error at its place; one without a place is at the beginning of the file.

    The text of the place, the notes and the helps follow in the message. Other places are related
    information, or more lines of the message for a client that shows none.
    """
    span = found.span
    places = list(_places(found, locate)) if related else []
    lines = [found.message, *_remarks(found, every=not places)]
    return types.Diagnostic(
        range=positions.range(span) if span else _beginning(),
        message="\n".join(lines),
        severity=_severity(found),
        code=found.code,
        source="xg",
        related_information=places or None,
    )


def _severity(found: Diagnostic) -> types.DiagnosticSeverity:
    if found.code == NOTHING_YET:
        return types.DiagnosticSeverity.Hint  # which is neither underlined nor counted
    return _SEVERITY[found.severity]


def _remarks(found: Diagnostic, *, every: bool) -> Iterator[str]:
    yield from (label.text for label in found.labels if label.text and (every or label.primary))
    yield from (f"note: {note}" for note in found.notes)
    yield from (f"help: {help}" for help in found.help)


def _places(found: Diagnostic, locate: Locate) -> Iterator[types.DiagnosticRelatedInformation]:
    for label in found.labels:
        place = None if label.primary else locate(label.span)
        if place is not None:
            yield types.DiagnosticRelatedInformation(place, label.text or "here")


def _beginning() -> types.Range:
    return types.Range(types.Position(0, 0), types.Position(0, 0))


def actions(found: Diagnostic, uri: str, positions: TextPositions) -> Iterator[types.CodeAction]:
    """The fixes of an error as edits of its text; the first is the one to prefer."""
    for place, fix in enumerate(found.fixes):
        edits = [types.TextEdit(positions.range(span), text) for span, text in fix.edits]
        yield types.CodeAction(
            title=fix.title,
            kind=types.CodeActionKind.QuickFix,
            is_preferred=place == 0,
            edit=types.WorkspaceEdit(changes={uri: edits}),
        )


def hint(found: ShapeHint, positions: TextPositions) -> types.InlayHint:
    """A shape between the words of a line."""
    kind = types.InlayHintKind.Type
    place = positions.position(found.offset)
    return types.InlayHint(position=place, label=found.text, kind=kind, padding_left=True)


def completion_item(
    found: Completion, place: int, word: Span, positions: TextPositions, *, snippets: bool
) -> types.CompletionItem:
    """A name to write in place of the word that is being typed; in the order of `place`.

    For a client that knows `snippets`, a word that begins a declaration brings the rest of it.
    """
    fills = snippets and bool(found.snippet)
    markdown = types.MarkupContent(types.MarkupKind.Markdown, found.text) if found.text else None
    return types.CompletionItem(
        label=found.name,
        kind=_COMPLETION.get(found.kind, types.CompletionItemKind.Variable),
        detail=found.detail or None,
        documentation=markdown,
        sort_text=f"{place:04}",
        filter_text=found.found_by or (None if found.name.isalnum() else found.also) or None,
        text_edit=types.TextEdit(positions.range(word), found.snippet if fills else found.name),
        insert_text_format=types.InsertTextFormat.Snippet if fills else None,
    )


def signature_of(called: Called) -> types.SignatureHelp:
    """The arguments of a node; the one that is being written is marked."""
    label = f"{called.name}({', '.join(formal.text for formal in called.formals)})"
    parameters = [types.ParameterInformation(formal.text) for formal in called.formals]
    text = types.MarkupContent(types.MarkupKind.Markdown, called.text)
    shown = types.SignatureInformation(label, text, parameters, called.active)
    return types.SignatureHelp([shown], 0, called.active)


def symbol(found: OutlineSymbol, positions: TextPositions) -> types.DocumentSymbol:
    """An entry of the outline."""
    return types.DocumentSymbol(
        name=found.name,
        kind=_SYMBOL.get(found.kind, types.SymbolKind.Variable),
        range=positions.range(found.whole),
        selection_range=positions.range(found.span),
        detail=found.detail,
        children=[symbol(inner, positions) for inner in found.inside] or None,
    )
