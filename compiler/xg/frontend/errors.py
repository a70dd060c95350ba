"""Warnings of `xg check` about a file as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from xg.diagnostics.diagnostic import Diagnostic, Fix, Label, ProblemAt
from xg.diagnostics.limits import spell_count
from xg.diagnostics.source import Span
from xg.syntax.leave_out import left_out


class Unused(ProblemAt):
    """Something with a name that nothing uses: a warning."""

    code: ClassVar[str] = "XG0225"
    kind: str
    name: str
    advice: str
    whole: Span | None = None  # what to leave out

    def fixes(self) -> tuple[Fix, ...]:
        if self.whole is None:
            return ()
        if self.kind == "edge":
            return (Fix(f"leave {self.name} out", ((self.whole, ""),)),)
        return left_out(self.whole, self.name)

    def diagnostic(self) -> Diagnostic:
        """Name it, and say what to do."""
        said = self.report(
            f"nothing uses the {self.kind} {self.name}", Label(self.span), help=(self.advice,)
        )
        return replace(said, severity="warning")


class UntriedChoices(ProblemAt):
    """More combinations of options than are checked, so that each word is met once: a warning."""

    code: ClassVar[str] = "XG0226"
    block: str
    count: int
    option: str

    def diagnostic(self) -> Diagnostic:
        """Say how many there are, and how to check one of the others."""
        said = self.report(
            f"the options of {self.block} have {spell_count(self.count)} combinations: every word "
            "was checked, not every combination",
            Label(self.span),
            help=(f"check one with --set {self.option}=…, or let fewer options meet in a block",),
        )
        return replace(said, severity="warning")
