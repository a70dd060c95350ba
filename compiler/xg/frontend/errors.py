"""Warnings of `xg check` about a file as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from xg.diagnostics.diagnostic import Diagnostic, Label, ProblemAt


class Unused(ProblemAt):
    """Something with a name that nothing uses: a warning."""

    code: ClassVar[str] = "XG0225"
    kind: str
    name: str
    advice: str

    def diagnostic(self) -> Diagnostic:
        """Name it, and say what to do."""
        said = self.report(
            f"nothing uses the {self.kind} {self.name}", Label(self.span), help=(self.advice,)
        )
        return replace(said, severity="warning")
