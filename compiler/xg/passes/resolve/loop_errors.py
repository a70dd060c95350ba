"""Errors in states, and in calls over an axis (XG026x)."""

from __future__ import annotations

from xg.diagnostics.diagnostic import ProblemAt
from xg.diagnostics.source import Span


class StateOutsideLoop(ProblemAt):
    """A block with a state that is called once."""

    code = "XG0260"
    title = "{block} has the state {state}: it can only be called over an axis"
    also = (("declared", "the state"),)
    block: str
    state: str
    declared: Span
    takes_nothing: bool

    def helps(self) -> tuple[str, ...]:
        if self.takes_nothing:
            return (f"a loop goes through an operand: give {self.block} an input, one per round",)
        return (f"name the axis whose positions it goes through: {self.block} over S",)


class OverOperator(ProblemAt):
    """A loop around an operator."""

    code = "XG0261"
    title = "{node} is an operator: only blocks are called over an axis"
    node: str
    axis: str
    state: str = ""  # of the block around

    def helps(self) -> tuple[str, ...]:
        if self.state:
            own = f"a round is a block of its own, which has the state {self.state}"
            return (f"{own} and is called by another: -> Cell over {self.axis}",)
        return ("an operator works on all positions at once: leave `over` out",)


class OverRow(ProblemAt):
    """A loop around a row of calls."""

    code = "XG0262"
    title = "{node} is both repeated and called over an axis"
    fix = "put the loop into a block of its own, and repeat that"
    node: str


class NextOfState(ProblemAt):
    """A state that no `next` sets, or a `next` that sets none, or sets it again."""

    code = "XG0263"
    title = "{name} {wrong}"
    name: str
    wrong: str
    help: str


class StateStart(ProblemAt):
    """A state that begins as something else than a number, or as something that is no value."""

    code = "XG0264"
    title = "the state {name} cannot start as {span.text}"
    name: str
    given: str = ""  # how a call gives it, where a call does

    def helps(self) -> tuple[str, ...]:
        where = f"a value is given where the block is called: ({self.name}=EDGE)"
        return (self.given or f"it may start as zeros, ones or a number; {where}",)
