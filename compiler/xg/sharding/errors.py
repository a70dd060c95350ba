"""Errors of plans and of sizes that ranks share (XG031x, XG0404, XG083x)."""

from __future__ import annotations

from math import prod
from typing import ClassVar, Final

from xg.diagnostics.diagnostic import Diagnostic, Label, Problem, ProblemAt, Span
from xg.ir.size_checks import SUGGESTED_AT_MOST, join_alternatives

RANKS_AT_MOST: Final = 4_096  # that a help names


class PlanMisfit(ProblemAt):
    """A line of a plan with other dims than the value has."""

    code = "XG0310"
    title = "{name} is {shape}, but the plan says {written}"
    label = "here {written}"
    also = (("declared", "here {shape}"),)
    fix = "a plan divides the dims of a value by mesh axes; `_` is any dim"
    name: str
    written: str
    shape: str
    declared: Span


class PlacedTwice(ProblemAt):
    """A value that two lines of plans cut differently over one mesh axis."""

    code = "XG0311"
    title = "{name} is placed twice over {axis}"
    label = "by {plans[1]}"
    also = (("first", "by {plans[0]}, differently"),)
    fix = "plans combine if they use different mesh axes: both use {axis}"
    name: str
    axis: str
    plans: tuple[str, str]
    first: Span


class PlanOfNothing(Problem):
    """A plan that places nothing in the block that is compiled."""

    code = "XG0312"
    title = "the plan {plan} places nothing in {block}"
    plan: str
    block: str
    of: tuple[str, ...]

    def helps(self) -> tuple[str, ...]:
        help = f"it is for {', '.join(self.of)}" if self.of else "it has no lines"
        return (help,)


class NoMeshSize(Problem):
    """A mesh axis without a number of ranks, in a command that runs the program."""

    code = "XG0313"
    title = "the mesh axis {axis} has no number of ranks"
    fix = "give it one: --set {axis}=2, or mesh {axis} = 2 in the file"
    axis: str


class RowMisfit(ProblemAt):
    """A plan line that divides a repeat among stages, but names no repeat."""

    code = "XG0316"
    title = "{block} has no repeat {name} {written}"
    label = "shared among stages"
    fix = (
        "write the repeat as `N_L × Layer as layers`, and share it as `layers [N_L/N_P]`",
        "it must be in the block that is compiled",
    )
    name: str
    block: str
    written: str


class OneRowOnly(ProblemAt):
    """A plan that divides two repeats among stages, or one repeat over two mesh axes."""

    code = "XG0317"
    title = "{name} is shared among stages too"
    label = "and here"
    also = (("first", "a repeat is shared here"),)
    fix = "a pipeline shares one repeat, over one mesh axis"
    name: str
    first: Span


class ScheduleOfNothing(ProblemAt):
    """A schedule in a plan that makes no pipeline."""

    code = "XG0321"
    title = "{block} has no stages under this plan, so there is nothing to schedule"
    fix = "share a repeat among the ranks of a mesh axis: `layers [N_L/N_P]`"
    block: str


class TwoSchedules(ProblemAt):
    """A plan, or a product of plans, with two schedules."""

    code = "XG0322"
    title = "a pipeline has one schedule"
    label = "another here"
    also = (("first", "one here"),)
    fix = "leave out one of them; xg train --pipeline-schedule tries another order"
    first: Span


class PartsInTurns(ProblemAt):
    """A number of microbatches that is not a multiple of the number of ranks."""

    code = "XG0323"
    title = "{parts} microbatches do not divide into groups of {axis} = {ranks} ranks"
    fix = "if ranks have several stages, the number of microbatches is a multiple of {ranks}"
    parts: int
    axis: str
    ranks: int


class UnknownRounds(ProblemAt):
    """A repeat without a known count, which xg can't divide among stages."""

    code = "XG0319"
    title = "{count} has no number"
    label = "this many repetitions are shared among stages"
    fix = "give it one: --set {count}=4, or dim {count} = 4 in the file"
    count: str


class ManyStages(Problem):
    """The code of a pipeline, which is several programs, where one was asked for."""

    code = "XG0320"
    title = "a pipeline has a program for each of its {stages} stages"
    fix = "xg show FILE --plan NAME --stage 0 prints one; xg train and xg verify run them together"
    stages: int


class StageOfCall(ProblemAt):
    """A stage that reads a parameter of a call on another stage."""

    code = "XG0318"
    title = "{name} belongs to a call that stage {stage} of the pipeline does not run"
    label = "the stages of this repeat"
    fix = "declare the parameter in the block itself, and pass it to the call"
    name: str
    stage: int


class StatisticOfStages(ProblemAt):
    """A running statistic on several stages of a pipeline, which would move it differently."""

    code = "XG0325"
    title = "{name} is on stages {places} of the pipeline, and each would update its own"
    label = "the stages of this repeat"
    also = (("declared", "a running statistic"),)
    fix = "give each stage its own statistics: calls with different names, `Layer as first`"
    name: str
    places: str
    declared: Span


class CannotPad(ProblemAt):
    """A size whose pads would change a result."""

    code = "XG0324"
    title = "{size} cannot be padded: {reason}"
    fix = (
        "{way}",
        "padding is safe in a table, in the columns of a product, and in the classes of CE",
    )
    size: str
    reason: str
    way: str = "choose a size that the ranks can share, or ranks that can share it"


class NotDivisible(ProblemAt):
    """A size that the ranks of a mesh axis cannot share equally."""

    code = "XG0404"
    size: str
    number: int
    axes: tuple[tuple[str, int], ...]
    near: tuple[str, tuple[int, ...]] | None = None  # a dim, and the next numbers that would do
    others: tuple[tuple[int, int], ...] = ()  # that the last axis cuts, and into how many beside it

    @property
    def ranks(self) -> int:
        """The ranks that share the size."""
        return prod(size for _, size in self.axes)

    def diagnostic(self) -> Diagnostic:
        """Say both numbers, and which numbers of ranks, or of a size, would do."""
        names = "*".join(name for name, _ in self.axes)
        ranks = self.ranks
        last, size = self.axes[-1]
        rest = ranks // size
        shared = ((self.number, rest), *self.others)
        fitting = [
            n
            for n in range(1, RANKS_AT_MOST + 1)
            if all(number % (beside * n) == 0 for number, beside in shared)
        ]
        help = f"the ranks of {names} together have to divide {self.number}"
        if fitting:
            help = f"{last} may be {join_alternatives(fitting[:SUGGESTED_AT_MOST])}"
        what = self.size if self.size == str(self.number) else f"{self.size} = {self.number}"
        if self.near:
            help += f", or {self.near[0]} {join_alternatives(self.near[1])}"
        return self.report(
            f"{what} is not divisible by {names} = {ranks}", Label(self.span), help=(help,)
        )


class RingOfNothing(ProblemAt):
    """`ring` on a value that is not the keys or the values of attention."""

    code = "XG0831"
    title = "{name} cannot go round a ring: it is not the keys or the values of attention"
    label = "read by something else"
    fix = (
        "`ring` is for the keys and values of `• SM S DO •`, which all queries need",
        "to gather the value instead, end the line without a word",
    )
    name: str


class RingAxes(ProblemAt):
    """Keys and values that do not go around exactly one mesh axis."""

    code = "XG0832"
    title = "{both} must go round one mesh axis, but their lines say {many}"
    label = "here"
    fix = "write both as if they were gathered: `{both_names} [B, N_H, S_k, D_h] ring`"
    remedy: ClassVar = (
        "a line without a mesh axis applies to all axes: give its part of the plan the name of the "
        "plan that cuts the sequence, as `Ring` of LM and of Attention in transformer.xg"
    )
    names: tuple[str, ...]
    axes: tuple[str, ...]

    @property
    def both(self) -> str:
        """The values in a row."""
        return " and ".join(self.names)

    @property
    def both_names(self) -> str:
        """The values as a line of a plan lists them."""
        return ", ".join(self.names)

    def helps(self) -> tuple[str, ...]:
        return (self.remedy,) if len(self.axes) > 1 else super().helps()

    @property
    def many(self) -> str:
        """The axes in a row."""
        return " and ".join(self.axes) or "none"
