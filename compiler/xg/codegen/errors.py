"""Errors of generated code: sizes that it lacks, and libraries (XG05xx)."""

from __future__ import annotations

from typing import ClassVar

from xg.diagnostics.diagnostic import Diagnostic, Label, Problem, problem_kind
from xg.diagnostics.source import Span


@problem_kind
class UnboundSize(Problem):
    """A symbol that code needs as a number and nothing provides."""

    code: ClassVar[str] = "XG0501"
    span: Span
    name: str

    def diagnostic(self) -> Diagnostic:
        """Say how to give it a number."""
        return self.report(
            f"nothing says how large {self.name} is",
            Label(self.span, "in this block"),
            help=(f"give it a default, dim {self.name} = …, or --set {self.name}=…",),
        )


@problem_kind
class NoLibrary(Problem):
    """Code of a backend that is to be run where its library is not installed."""

    code: ClassVar[str] = "XG0502"
    library: str
    extra: str
    instead: str

    def diagnostic(self) -> Diagnostic:
        """Say how to get it."""
        fix = f"pip install 'xg[{self.extra}]', or use --backend {self.instead}"
        return self.report(f"{self.library} is not installed", help=(fix,))
