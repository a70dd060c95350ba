"""Features of the contract that this edition does not have: refused by name."""

from __future__ import annotations

from xg.diagnostics.diagnostic import DiagnosticError
from xg.passes.resolve.errors import NotYet


def not_yet(what: str) -> DiagnosticError:
    """The refusal, to be raised."""
    return DiagnosticError.of(NotYet(None, what))
