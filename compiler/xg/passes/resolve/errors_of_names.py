"""Names that nothing has, and the known ones that are likely meant."""

from __future__ import annotations

from collections.abc import Iterable

from xg.diagnostics.diagnostic import Fix, Problem, Span
from xg.diagnostics.terminal import CUTOFF, similar
from xg.syntax.spelling import ascii_name, greek_name


def nearest(name: str, known: Iterable[str], cutoff: float = CUTOFF) -> tuple[str, ...]:
    """A help line with the most similar known name, or none."""
    other = similar(name, known, cutoff)
    return () if other is None else (f"did you mean {other}?",)


def spelling_fixes(
    span: Span | None, name: str, known: Iterable[str], cutoff: float = CUTOFF
) -> tuple[Fix, ...]:
    """The most similar known name in place of the one at a span, or nothing."""
    if span is None or ascii_name(span.text) != name:
        return ()
    other = similar(name, known, cutoff)
    return () if other is None else (Fix.replace(span, greek_name(other)),)


class UnknownName(Problem):
    """A name that nothing has: the most similar known one may be meant, else its `fix` helps."""

    span: Span | None
    name: str
    known: tuple[str, ...]

    def helps(self) -> tuple[str, ...]:
        """The similar name, or the fix of the kind."""
        return nearest(self.name, self.known) or super().helps()

    def fixes(self) -> tuple[Fix, ...]:
        """The similar name in the place of this one."""
        return spelling_fixes(self.span, self.name, self.known)
