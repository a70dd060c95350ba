"""Errors in plans and meshes, before any shape is known (XG023x)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from xg.diagnostics.diagnostic import Diagnostic, Label, Problem, problem_kind
from xg.diagnostics.source import Span
from xg.passes.resolve.errors import nearest


@problem_kind
class MisplacedMesh(Problem):
    """An axis of the mesh where a size is needed."""

    code: ClassVar[str] = "XG0230"
    span: Span
    axis: str

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"{self.axis} is an axis of the mesh, not a size",
            Label(self.span),
            help=(
                f"behind all else it cuts an axis of a shape: [B, S, D/{self.axis}]",
                f"to cut a sum, divide all of it: (S + 1)/{self.axis}",
            ),
        )


@problem_kind
class MeshTwice(Problem):
    """A mesh axis that would cut two axes of one tensor, or one twice."""

    code: ClassVar[str] = "XG0231"
    span: Span
    axis: str
    first: Span

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"{self.axis} cuts this tensor twice",
            Label(self.span, "again here"),
            Label(self.first, "first here", primary=False),
            help=("each mesh axis cuts a tensor once; declare another with `mesh`",),
        )


@problem_kind
class UnknownMesh(Problem):
    """A mesh axis that no `mesh` declares."""

    code: ClassVar[str] = "XG0232"
    span: Span | None
    name: str
    known: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        labels = (Label(self.span),) if self.span else ()
        help = nearest(self.name, self.known) or (f"declare it: mesh {self.name} = 2",)
        return self.report(f"no mesh axis is called {self.name}", *labels, help=help)


@problem_kind
class MeshSize(Problem):
    """A mesh axis whose size is no number of ranks."""

    code: ClassVar[str] = "XG0233"
    span: Span | None
    axis: str
    found: str

    def diagnostic(self) -> Diagnostic:
        labels = (Label(self.span),) if self.span else ()
        return self.report(
            f"{self.axis} cannot be {self.found}",
            *labels,
            help=("a mesh axis has a whole number of ranks, 1 or more",),
        )


@problem_kind
class MeshOrder(Problem):
    """Shapes that disagree which mesh axis cuts first."""

    code: ClassVar[str] = "XG0234"
    span: Span
    outer: str
    inner: str
    other: Span

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"{self.outer} cuts before {self.inner} here, and after it elsewhere",
            Label(self.span, f"{self.outer} before {self.inner}"),
            Label(self.other, f"{self.inner} before {self.outer}", primary=False),
            help=("ranks stand in one order: write the axes of a divisor in the same one",),
        )


@problem_kind
class MeshIsDim(Problem):
    """One name for a size and a mesh axis."""

    code: ClassVar[str] = "XG0235"
    span: Span
    name: str
    dim: Span

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"{self.name} is an axis of the mesh and a dim",
            Label(self.span, "the mesh axis"),
            Label(self.dim, "the dim", primary=False),
            help=("give one of them another name",),
        )


@problem_kind
class UnknownPlan(Problem):
    """A plan, or a factor of one, that no file declares."""

    code: ClassVar[str] = "XG0236"
    span: Span | None
    name: str
    known: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        labels = (Label(self.span),) if self.span else ()
        listed = f"there is {', '.join(self.known)}" if self.known else "the file has no plans"
        help = nearest(self.name, self.known) or (listed,)
        return self.report(f"no plan is called {self.name}", *labels, help=help)


@problem_kind
class PlanOfUnknown(Problem):
    """A plan of a block that the file does not have."""

    code: ClassVar[str] = "XG0237"
    span: Span
    block: str
    known: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        help = nearest(self.block, self.known) or ("take the block from its file with `use`",)
        return self.report(f"no block is called {self.block}", Label(self.span), help=help)


@problem_kind
class PlanTwice(Problem):
    """Two texts for one plan of one block, or a plan that is a product too."""

    code: ClassVar[str] = "XG0238"
    span: Span
    name: str
    block: str
    first: Span

    def diagnostic(self) -> Diagnostic:
        what = f"{self.name} of {self.block}" if self.block else self.name
        return self.report(
            f"the plan {what} is declared twice",
            Label(self.span, "again here"),
            Label(self.first, "first here", primary=False),
            help=("a plan may be of several blocks, once of each; a product is one line",),
        )


@problem_kind
class CircularPlan(Problem):
    """Products of plans that contain each other."""

    code: ClassVar[str] = "XG0239"
    ring: tuple[tuple[str, Span], ...]  # every product on the way, with its declaration

    def diagnostic(self) -> Diagnostic:
        (name, first), *rest = self.ring
        others = [Label(span, f"and {other} here", primary=False) for other, span in rest]
        return self.report(f"the plan {name} contains itself", Label(first), *others)


@problem_kind
class NoSuchPlace(Problem):
    """A path of a plan that leads to no value."""

    code: ClassVar[str] = "XG0240"
    span: Span
    block: str
    name: str
    what: Literal["value", "call", "round"]
    known: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        help = nearest(self.name, self.known)
        if self.what == "round":
            message = f"{self.block} is a row of calls: all its rounds lie alike"
            help = (f"write `*` for the round, as in {self.block}.*.W",)
            return self.report(message, Label(self.span, f"{self.name} is no `*`"), help=help)
        return self.report(
            f"{self.block} has no {self.what} {self.name}", Label(self.span), help=help
        )


@problem_kind
class UseOfNoParam(Problem):
    """Another place in use of something that is no parameter."""

    code: ClassVar[str] = "XG0241"
    span: Span
    name: str

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"{self.name} is no parameter: it does not rest",
            Label(self.span, "in use"),
            help=("`->` is for parameters, which may be stored in pieces and used whole",),
        )


@problem_kind
class TwoLayouts(Problem):
    """A value that the file cuts in two ways."""

    code: ClassVar[str] = "XG0242"
    span: Span
    written: str
    other: str
    first: Span

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"this value is cut as {self.written} and as {self.other}",
            Label(self.span, f"here {self.written}"),
            Label(self.first, f"here {self.other}", primary=False),
            help=("a label names a layout and changes nothing: AR, AG and RS do",),
        )


@problem_kind
class MeshUnused(Problem):
    """A mesh axis that cuts nothing: a warning."""

    code: ClassVar[str] = "XG0243"
    span: Span
    axis: str

    def diagnostic(self) -> Diagnostic:
        said = self.report(
            f"no shape and no plan divides by {self.axis}",
            Label(self.span, "this axis of the mesh"),
            help=(
                f"cut a tensor by it, in a plan or a shape: [B/{self.axis}, S, D]",
                "leave it out: more ranks along it would all compute the same",
            ),
        )
        return replace(said, severity="warning")
