"""The compiler's results in the terms of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lsprotocol import types

from xg.diagnostics.diagnostic import Diagnostic
from xg.diagnostics.source import Span
from xg.editor.meaning.declared import Kind
from xg.editor.meaning.outline import OutlineSymbol
from xg.editor.server.positions import TextPositions

Locate = Callable[[Span], types.Location | None]

_SEVERITY = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
}
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


def diagnostic(
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
        severity=_SEVERITY[found.severity],
        code=found.code,
        source="xg",
        related_information=places or None,
    )


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
