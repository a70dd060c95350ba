"""Why a block cannot be run position by position (XG055x)."""

from __future__ import annotations

from xg.diagnostics.diagnostic import Diagnostic, Label, ProblemAt


class CannotStep(Exception):
    """A computation that a step cannot follow, in a few words; the node is not known yet.

    `ahead` says that it would need later positions.
    """

    def __init__(self, what: str, *, ahead: bool = False) -> None:
        super().__init__(what)
        self.ahead = ahead


class LooksAhead(ProblemAt):
    """A node whose result at one position depends on later ones, which a decode step lacks."""

    code = "XG0551"
    title = "{node} {what}: a step does not know later positions"
    node: str
    what: str
    help: str = "a step may only read earlier positions"


class NoPositions(ProblemAt):
    """A block without a result for each position of a text."""

    code = "XG0552"
    block: str
    found: tuple[str, ...]
    wanted: str | None = None

    def diagnostic(self) -> Diagnostic:
        what = self.wanted or "no output"
        verb = "has no axis" if self.wanted else "has an axis"
        return self.report(
            f"{self.block} cannot be run step by step: {what} {verb} of positions before its last",
            Label(self.span, ", ".join(self.found)),
            help=("ids [B, S] in V -> Z [B, S, V]: S, in both, is the axis of positions",),
        )


class NoStep(ProblemAt):
    """A node that changes the axis of positions in a way that a decode step cannot follow."""

    code = "XG0553"
    title = "{node} {what}: a decode step cannot do this"
    node: str
    what: str
    help: str = "keep positions as an axis of their own, one for each token"
