"""Errors in plans and meshes, before any shape is known (XG023x)."""

from __future__ import annotations

from typing import Literal

from xg.diagnostics.diagnostic import Diagnostic, Fix, Label, Problem, ProblemAt, Span
from xg.ir.placement import SCHEDULES
from xg.passes.resolve.errors_of_names import UnknownName, nearest, spelling_fixes
from xg.syntax.format import declaration


class MisplacedMesh(ProblemAt):
    """An axis of the mesh where a size is needed."""

    code = "XG0230"
    title = "{axis} is an axis of the mesh, not a size"
    fix = (
        "to cut an axis, divide it by the mesh axis: [B, S, D/{axis}]",
        "to cut a sum, divide all of it: (S + 1)/{axis}",
    )
    axis: str


class MeshTwice(ProblemAt):
    """A mesh axis that would cut two axes of one tensor, or one twice."""

    code = "XG0231"
    title = "{axis} cuts this tensor twice"
    label = "again here"
    also = (("first", "first here"),)
    fix = "each mesh axis cuts a tensor once; declare another with `mesh`"
    axis: str
    first: Span


class UnknownMesh(UnknownName):
    """A mesh axis that no `mesh` declares."""

    code = "XG0232"
    title = "no mesh axis is called {name}"
    fix = "declare it: mesh {name} = 2"

    def fixes(self) -> tuple[Fix, ...]:
        added = () if self.span is None else (declaration(self.span, "mesh", f"{self.name} = 2"),)
        return (*super().fixes(), *added)


class MeshSize(Problem):
    """A mesh axis whose size is not a positive integer."""

    code = "XG0233"
    title = "the mesh axis {axis} needs a positive integer, not {found}"
    fix = "write the number of ranks, such as mesh {axis} = 2"
    span: Span | None
    axis: str
    found: str


class MeshOrder(ProblemAt):
    """Shapes that disagree which mesh axis cuts first."""

    code = "XG0234"
    title = "{outer} cuts before {inner} here, and after it elsewhere"
    label = "{outer} before {inner}"
    also = (("other", "{inner} before {outer}"),)
    fix = "write the mesh axes of a divisor in the same order everywhere"
    outer: str
    inner: str
    other: Span


class MeshIsDim(ProblemAt):
    """One name for a size and a mesh axis."""

    code = "XG0235"
    title = "{name} is an axis of the mesh and a dim"
    label = "the mesh axis"
    also = (("dim", "the dim"),)
    fix = "give one of them another name"
    name: str
    dim: Span


class UnknownPlan(UnknownName):
    """A plan, or a factor of one, that no file declares."""

    code = "XG0236"
    title = "no plan is called {name}"

    def helps(self) -> tuple[str, ...]:
        listed = f"known plans: {', '.join(self.known)}" if self.known else "the file has no plans"
        if self.name.isidentifier():
            return nearest(self.name, self.known) or (listed,)
        return (listed, "a product is written `DP × TP` or `DP*TP`")


class PlanOfUnknown(UnknownName):
    """A plan of a block that the file does not have."""

    code = "XG0237"
    title = "no block is called {name}"
    fix = "take the block from its file with `use`"
    is_operator: bool = False

    def helps(self) -> tuple[str, ...]:
        if self.is_operator:
            return (f"{self.name} is an operator: name a block that uses it",)
        return super().helps()


class PlanTwice(ProblemAt):
    """A plan that is declared twice for one block, or also as a product."""

    code = "XG0238"
    title = "the plan {plan} is declared twice"
    label = "again here"
    also = (("first", "first here"),)
    fix = "a plan has one text per block; a product of plans is one line"
    name: str
    block: str
    first: Span

    @property
    def plan(self) -> str:
        return f"{self.name} of {self.block}" if self.block else self.name


class CircularPlan(Problem):
    """Products of plans that contain each other."""

    code = "XG0239"
    ring: tuple[tuple[str, Span], ...]  # every product on the way, with its declaration

    def diagnostic(self) -> Diagnostic:
        (name, first), *rest = self.ring
        others = [Label(span, f"and {other} here", primary=False) for other, span in rest]
        return self.report(f"the plan {name} contains itself", Label(first), *others)


class NoSuchPlace(ProblemAt):
    """A path of a plan that leads to no value."""

    code = "XG0240"
    title = "{block} has no {what} {name}"
    block: str
    name: str
    what: Literal["value", "call", "round"]
    known: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        if self.what != "round":
            return super().diagnostic()
        message = f"{self.block} is a repeat: all its repetitions have the same placement"
        help = (f"write `*` for the repetition, as in {self.block}.*.W",)
        return self.report(message, Label(self.span, f"{self.name} instead of `*`"), help=help)

    def helps(self) -> tuple[str, ...]:
        return nearest(self.name, self.known)


class UseOfNoParam(ProblemAt):
    """A second placement for the use of a value that is not a parameter."""

    code = "XG0241"
    title = "{name} is not a parameter: it is not stored"
    label = "in use"
    fix = "`->` is for parameters, which can be stored in pieces and used whole"
    name: str


class PadOfNoParam(ProblemAt):
    """A line with `pad` that doesn't shard a stored parameter."""

    code = "XG0269"
    title = "nothing of {name} is padded here"
    label = "only a parameter that is stored in pieces can be"
    fix = ("`pad` goes after the shape of a parameter: E [V/N_T, D] pad",)
    name: str


class MemoryOfParam(ProblemAt):
    """Recomputation of a parameter, which nothing computes."""

    code = "XG0244"
    title = "{name} is a parameter, so nothing computes it"
    label = "`{word}` needs a computed value"
    name: str
    word: str

    def helps(self) -> tuple[str, ...]:
        gathered = (
            "write this after `->`, where a parameter is gathered for use: "
            f"[_/N_D, ..] -> [..] {self.word}"
        )
        if self.word == "hold":
            return (gathered,)
        return gathered, f"name an edge by its label, or a call: layers {self.word}"


class HoldOfNoParam(ProblemAt):
    """`hold` on a value that is not a parameter."""

    code = "XG0248"
    title = "{name} is not a parameter: only a parameter is held for all passes of a step"
    label = "held"
    fix = "end the line with `keep`: the value is kept for its own backward pass"
    name: str


class ZigzagOfNothing(ProblemAt):
    """`zigzag` on a line that does not cut an axis over one mesh axis."""

    code = "XG0249"
    title = "`zigzag` is an order of the ranks along one mesh axis, and {why}"
    label = "{name} in zigzag"
    fix = "write it where the sequence is cut: ids, t [B, S/N_S] zigzag"
    name: str
    why: str


class ShapeOfCall(ProblemAt):
    """A shape for a call; a plan only shares the rounds of a call among ranks."""

    code = "XG0245"
    title = "{name} is a call, and has no shape"
    label = "a call"
    name: str
    mesh: tuple[str, ...]

    def helps(self) -> tuple[str, ...]:
        axis = self.mesh[0] if self.mesh else "N_P"
        behind, _, row = self.name.rpartition(".")
        if behind:
            return (f"a pipeline shares a repeat in the plan's own block: call {row} there",)
        return (
            f"to share the N_L repetitions of a repeat among pipeline stages, write "
            f"`{self.name} [N_L/{axis}]`",
        )


class TwoLayouts(ProblemAt):
    """A value that the file cuts in two ways."""

    code = "XG0242"
    title = "this value is cut as {written} and as {other}"
    label = "here {written}"
    also = (("first", "here {other}"),)
    fix = "a label moves no data: use AR, AG or RS"
    written: str
    other: str
    first: Span


class MeshUnused(ProblemAt):
    """A mesh axis that cuts nothing: a warning."""

    code = "XG0243"
    title = "no shape and no plan divides by {axis}"
    label = "this axis of the mesh"
    severity = "warning"
    fix = (
        "cut a tensor by it, in a plan or a shape: [B/{axis}, S, D]",
        "remove it: the ranks along it would all compute the same",
    )
    axis: str


class UnknownSchedule(ProblemAt):
    """A pipeline schedule that does not exist."""

    code = "XG0246"
    title = "no schedule is called {name}"
    name: str

    def helps(self) -> tuple[str, ...]:
        known = "known: 1F1B, GPipe and ZBH1, with the number of microbatches: schedule 1F1B(8)"
        if "nterleave" in self.name:
            known = "1F1B(8, 2) is interleaved: 2 stages per rank"
        return (*nearest(self.name, SCHEDULES), known)

    def fixes(self) -> tuple[Fix, ...]:
        return spelling_fixes(self.span, self.name, SCHEDULES)


class ScheduleCounts(ProblemAt):
    """A schedule with missing, wrong or too many counts."""

    code = "XG0247"
    title = "a schedule takes the number of microbatches, and of stages per rank if interleaved"
    fix = "schedule 1F1B(8) or, interleaved, schedule 1F1B(8, 2); both are at least 1"
