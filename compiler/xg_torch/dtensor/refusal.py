"""The refusal of what torch cannot say, with the reason and the place."""

from __future__ import annotations

from xg.codegen.errors import NoParallelStyle
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span


@dataclass(frozen=True)
class Refusal:
    """The refusal of a plan by its name."""

    plan: str

    def __call__(self, span: Span, reason: str, instead: str) -> DiagnosticError:
        """Return the error to raise."""
        return DiagnosticError.of(NoParallelStyle(span, self.plan, reason, instead))
