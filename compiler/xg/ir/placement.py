"""Define how tensors are placed on ranks, the plans that ask for it, and collectives.

Every edge has one state per mesh axis. A state says which data each rank has and how the parts make
the global tensor; `dual` is the state of the cotangent: the pairing of both, summed over ranks, is
the derivative.

    state  on each rank                              global tensor its cotangent
    S(i)   a slice of axis i                         concatenated  S(i)
    I      the same, computed once in meaning        any of them   I
    R      the same, used by each rank for its own   any of them   P
    P      one term of a sum                         their sum     R
    M      one term of a maximum                     the largest   none
    C      the same, and nothing is differentiated   any of them   none
    G      whether a part of a term counts           if one does   none

I and R are the same numbers on every rank. They differ in the meaning of a gradient: of R each rank
computes only its own share. The free cast from I to R is where the all-reduce of the backward pass
comes from. G is only within a derived body: see `xg.sharding.primitive_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final, Literal

from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import Dim, product, symbol
from xg.ir.prim import Attr, Expr
from xg.ir.tensor import Shape

Kind = Literal["S", "I", "R", "P", "M", "C", "G"]


@dataclass(frozen=True, slots=True)
class AxisState:
    """One state; `axis` is the sharded axis of S, counted from the end (-1 is the last)."""

    kind: Kind
    axis: int = 0

    def __str__(self) -> str:
        return f"S({self.axis})" if self.kind == "S" else self.kind

    @property
    def is_uniform(self) -> bool:
        """Return whether every rank holds the same numbers."""
        return self.kind in "IRC"


INVARIANT: Final = AxisState("I")
REPLICATED: Final = AxisState("R")
PARTIAL: Final = AxisState("P")
LARGEST: Final = AxisState("M")
CONSTANT: Final = AxisState("C")
GATE: Final = AxisState("G")


def shard(axis: int) -> AxisState:
    """A slice of an axis counted from the end."""
    assert axis < 0
    return AxisState("S", axis)


def dual(state: AxisState) -> AxisState | None:
    """Return the state of the cotangent, or None if there is no cotangent."""
    match state.kind:
        case "R":
            return PARTIAL
        case "P":
            return REPLICATED
        case "M" | "C" | "G":
            return None
        case _:
            return state


def same(state: AxisState) -> AxisState:
    """Turn a state that is the same on every rank into a constant, which has no gradient."""
    return CONSTANT if state.is_uniform else state


def serves(state: AxisState, wanted: AxisState) -> bool:
    """Whether a value is used as it is where another state is wanted.

    A constant has no gradient, whose terms would be summed.
    """
    return state == wanted or (state == CONSTANT and wanted.kind in "IR")


Placement = Mapping[str, AxisState]  # by mesh axis; what is not mentioned is the same on every rank


def is_term(placement: Placement | None) -> bool:
    """Whether a rank has only one term of a sum."""
    return bool(placement) and any(state == PARTIAL for state in placement.values())


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """The placements that a plan, or a shape over a mesh axis, asks for: stored, and in use."""

    rest: AxisState
    use: AxisState | None = None


# Mesh axes that a move goes over: one, or several as one, ``N_G*N_T``.
#
# Which part of an axis a rank has is its place along the mesh axis, unless the plan says `zigzag`:
# then rank i of N has the chunks i and 2N - 1 - i of 2N. Types know nothing of this; the primitives
# and the cuts of one rank do, by the name of the mesh axis: ``N_S zigzag``.


ZIGZAG: Final = " zigzag"  # as `xg_runtime.ranks.grid` spells it


def ordered_axis(axis: str, zigzag: Container[str]) -> str:
    """A mesh axis with the order of its ranks, given those in zigzag."""
    return axis + ZIGZAG if axis in zigzag else axis


def axis_of(over: str) -> str:
    """The mesh axis, or several, without the order of its ranks."""
    return over.removesuffix(ZIGZAG)


def is_zigzag(over: str) -> bool:
    """Whether each rank has two chunks, one from each end."""
    return over.endswith(ZIGZAG)


def joined_axes(axes: Iterable[str]) -> str:
    """Several mesh axes as one, the outermost first: ``N_G*N_T``."""
    return "*".join(axes)


def axes_over(over: str) -> tuple[str, ...]:
    """The mesh axes over which a move goes; `joint` the other way round."""
    return tuple(axis_of(over).split("*"))


def ranks_over(over: str) -> Dim:
    """How many ranks a move goes over."""
    return product(symbol(axis) for axis in axes_over(over))


def local_shape(shape: Shape, state: AxisState, mesh_axis: str) -> Shape:
    """The shape of one rank's part."""
    if state.kind != "S":
        return shape
    sizes = list(shape)
    sizes[state.axis] = sizes[state.axis] * symbol(mesh_axis) ** -1
    return tuple(sizes)


# Pipelines as data: which stage of a program a graph is, and the meaning of its edges.
#
# Over the axis of a pipeline ranks run different programs. A value that one of them holds is O(p):
#
#     O(p)           the value is on stage p, and nowhere else; its cotangent too
#     I -> O(p)      free: stage p uses what all could compute; the transpose is a sum over stages
#     O(p) -> O(q)   a send; the transpose sends the cotangent back
#
# The stream, which goes through all rounds of a row, is sent from stage to stage. A parameter that
# several stages use is I over these: its gradient is summed over them, once for a step.


@dataclass(frozen=True, slots=True)
class Stage:
    """The place of a program in a pipeline of `count` stages, on the `ranks` of a mesh axis.

    Rank r has the stages r, r + ranks, r + 2*ranks …; there are more than ranks where a schedule
    is interleaved. `receives` and `sends` are the input that comes from the stage before, and the
    output that goes to the next one. `holders` are the stages that use a parameter where several
    ranks do, of each rank the first.
    """

    axis: str
    place: int
    count: int
    ranks: int
    receives: str | None
    sends: str | None
    holders: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


# Parallel plans as data: the placement of a program's tensors on the ranks of a mesh.
#
# A plan gives values, by name, a placement: replicated, or sharded along axes over mesh axes. An
# entry belongs to a block and applies to every call of it.


# How a file asks for a tensor to be placed: which mesh axes shard which of its axes.


Cuts = Mapping[
    str, int
]  # mesh axis -> the axis that it cuts, counted from the end (-1 is the last)


@dataclass(frozen=True, slots=True)
class Layout:
    """The placement of a tensor as a file writes it: ``[_/N_D, D_ff/N_T, ..]``.

    For each axis its global size (None for ``_``) and the mesh axes that shard it, outermost first;
    the axes behind an `open` layout are not sharded.
    """

    dims: tuple[Dim | None, ...]
    cuts: tuple[tuple[str, ...], ...]
    open: bool = False

    def axes(self, rank: int) -> dict[str, int]:
        """The axis that each mesh axis cuts of a tensor with `rank` axes."""
        places = enumerate(self.cuts, -rank)
        return {mesh_axis: place for place, cuts in places for mesh_axis in cuts}

    def __str__(self) -> str:
        parts = [_spell(dim, cuts) for dim, cuts in zip(self.dims, self.cuts, strict=True)]
        return "[" + ", ".join([*parts, *([".."] if self.open else [])]) + "]"


def _spell(dim: Dim | None, cuts: Sequence[str]) -> str:
    whole = "_" if dim is None else str(dim)
    if not cuts:
        return whole
    if dim is not None and len(dim.terms) > 1:
        whole = f"({whole})"
    return f"{whole}/{cuts[0]}" if len(cuts) == 1 else f"{whole}/({'*'.join(cuts)})"


BlockId = tuple[int, str]  # the number of a file in the program, and the name of a block in it

EVERY: Final = "*"  # a segment of a path: every parameter at its end, any call or round before it
WHOLE: Final = "."  # the end of a path that led into a call: all that the call computes
INSIDE: Final = ".."  # of one that led further in: what is gathered there is kept, for a while
ROUNDS: Final = "/"  # the end of a path to a row of calls, whose rounds ranks share as stages

# The orders that a plan may name; `xg_runtime.cells` has them.
SCHEDULES: Final = ("1F1B", "GPipe", "ZBH1")

# Whether a backward pass computes a value again, or finds it kept; what a parameter is gathered to
# may also be held for all passes of a step, and keys and values may go round a ring instead. Of
# memory `zigzag` says nothing: it is the order in which ranks share the axis that the line cuts.
Memory = Literal["again", "keep", "hold", "ring", "zigzag"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a plan, for one of the values it names.

    `block` is its block, by its file too: two files may have blocks of one name. `path` is the way
    from there, ``("layers", "*", "attn", "W_Q")``; sizes are those of the block at its end. `use`
    is the placement of a parameter while it is used, if it differs from `rest`. The entry covers
    the mesh axes `over`, those that its plan mentions anywhere (an axis that it does not shard over
    is replicated); about others it says nothing. `memory` is about what is used in the backward
    pass: the value, in use, or all that a call computes; an entry without `rest` says only that.
    With `pads` zeros fill a size that ranks cannot share equally.
    """

    block: BlockId
    path: tuple[str, ...]
    rest: Layout | None
    use: Layout | None
    over: frozenset[str]
    plan: str
    span: Span
    memory: Memory | None = None
    pads: bool = False

    def __hash__(self) -> int:
        return hash((self.span, self.path, self.plan))  # of what tells most entries apart


@dataclass(frozen=True, slots=True)
class Schedule:
    """The line of a plan about the order in which ranks of a pipeline compute: ``1F1B(8, 2)``.

    `parts` are the microbatches of a step, None where the plan leaves them open, and `turns` the
    stages of a rank. `block` is the block whose row of calls stages share.
    """

    block: BlockId
    name: str
    parts: int | None
    turns: int
    span: Span

    def fits(self, ranks: int) -> bool:
        """Whether microbatches go round in groups of one for each rank, where they go round."""
        return self.turns == 1 or self.parts is None or self.parts % ranks == 0


@dataclass(frozen=True, slots=True)
class Plan:
    """All that the files say under one name, or of a product of such.

    `mesh` holds the axes that it mentions in the order of the program's mesh, with their sizes
    where they have any.
    """

    name: str
    title: str
    entries: tuple[Entry, ...]
    mesh: Mapping[str, int | None] = field(default_factory=dict[str, "int | None"])
    schedules: tuple[Schedule, ...] = ()

    @property
    def pads(self) -> bool:
        """Whether a line fills sizes with zeros."""
        return any(entry.pads for entry in self.entries)


def zigzag_axes(plan: Plan | None) -> frozenset[str]:
    """The mesh axes along which each rank has two chunks of what is cut, one from each end."""
    said = (each.rest for each in (plan.entries if plan else ()) if each.memory == "zigzag")
    return frozenset(axis for rest in said if rest for cuts in rest.cuts for axis in cuts)


# Describe a collective: how ranks exchange, sum or cut a tensor, and all that xg says about it.
#
# `xg.ir.collectives` has the records, one file each. The rest of the compiler reads their fields:
# typing, prices, code and figures ask what a collective does, never which one it is.


FAMILY: Final = "collective"

# The rule for the states of a primitive on the mesh axes that it does not go over:
#
#     linear     it is linear and leaves every axis where it is, so terms of a sum stay terms
#     largest    it is monotone, so terms of a maximum stay terms, and those of a sum are refused
#     separate   it cuts or joins `axes`, which must not be cut by another mesh axis too
#     nonlinear  it needs whole numbers, so all terms are refused
#
# The last two are for operators that send parts around a ring, such as ring attention. They also
# give the states on the mesh axis of the ring, where one rank's body has a move in their place.
#
#     gathers    of a tensor cut along `axis`, each rank uses the whole
#     scatters   of terms of a sum, each rank keeps the slice along `axis`
Rule = Literal["linear", "largest", "separate", "nonlinear", "gathers", "scatters"]

# The order of mesh axes in which two moves, one after the other, are the same as one over both.
Nesting = Literal["never", "any order", "outer first", "inner first"]


@dataclass(frozen=True, slots=True)
class RankPrimitive:
    """Describe a primitive of one rank's body: an operand, a mesh axis, and attributes.

    `axes` are the attributes that name tensor axes and `sizes` those that are sizes, in the order
    of the arguments of the runtime's function, which has the same name.
    """

    name: str
    axes: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    rule: Rule = "linear"

    @property
    def goes_around(self) -> bool:
        """Tell whether parts go around a ring inside an operator; on whole tensors it is x."""
        return self.rule in ("gathers", "scatters")

    def __call__(self, x: Expr, over: str, *axes: int, shape: Shape | None = None) -> Expr:
        """Apply the primitive over a mesh axis; `shape` is by default the shape of x."""
        attrs: tuple[tuple[str, Attr], ...] = (*zip(self.axes, axes, strict=True), ("over", over))
        return Expr(self.name, (x,), x.shape if shape is None else shape, x.kind, attrs)


@dataclass(frozen=True, slots=True)
class Price:
    """Say how much a rank sends over a mesh axis of N ranks, as multiples of the payload V.

    Each element of V goes `times` to each other rank. Around a ring, a rank sends an Nth part of
    that. The naive way does the same, unless one rank collects everything (`through_one_rank`).

    `route` says how: with all ranks of a `group`; from `neighbor` to neighbor, one call for each
    of N - 1 parts; or once to a `peer`, which costs V. V is the whole tensor, or the `part` of it
    that a rank has.
    """

    times: int = 1
    through_one_rank: bool = False
    route: Literal["group", "neighbor", "peer"] = "group"
    payload: Literal["whole", "part"] = "whole"


Local = Callable[[Expr, str, AxisState, AxisState], Expr]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One collective, or one change of state in which a rank only uses what it has.

    `name` is that of the operator and of its calls in the runtime, `glyph` what files, figures and
    tables of costs call it. `moves` are the states that it leads from and to; `local` is a rank's
    computation, given the operand, the mesh axis and both states. The backward pass of a move is
    the move between the dual states (`xg.ir.placement.dual`), so no field repeats it.

    `reduces` is the state whose terms it reduces over the ranks: P for a sum, M for a maximum.
    Without a `price` nothing is sent.

    The words: `meaning`, `formula`, `gradient` and `source` describe the operator in `xg ops` and
    docs/notation.md, and a collective without `meaning` is no operator. `legend` is its line in a
    figure's legend. `needs` is what a file that writes it (`is_written`) has to apply it to.
    """

    name: str
    glyph: str
    primitives: tuple[RankPrimitive, ...] = ()
    moves: tuple[tuple[Kind, Kind], ...] = ()
    local: Local = lambda x, over, source, target: x
    reduces: Kind | None = None
    price: Price | None = None
    nesting: Nesting = "never"
    meaning: str = ""
    formula: str = ""
    gradient: str = ""
    source: str = ""
    legend: str = ""
    is_written: bool = False
    needs: str = ""

    @property
    def sums(self) -> bool:
        """Tell whether it sums the terms of all ranks."""
        return self.reduces == "P"

    @property
    def gathers(self) -> bool:
        """Tell whether it makes a whole of slices: the tensor is larger afterwards."""
        return any(source == "S" and target in "IR" for source, target in self.moves)

    @property
    def cuts(self) -> bool:
        """Tell whether it makes a slice of a whole: the tensor is smaller afterwards."""
        return any(source != "S" and target == "S" for source, target in self.moves)

    @property
    def keeps_elements(self) -> bool:
        """Tell whether it moves or copies elements, and changes none."""
        kinds = {kind for move in self.moves for kind in move}
        return bool(self.primitives and kinds) and "P" not in kinds

    @property
    def is_free(self) -> bool:
        """Tell whether a rank has nothing to do: only the meaning of its part changes."""
        return bool(self.moves) and not self.primitives

    @property
    def stays_on_rank(self) -> bool:
        """Tell whether it changes a rank's part without any communication."""
        return bool(self.primitives and self.meaning) and self.price is None


def scaled(shape: Shape, axis: int, factor: Dim) -> Shape:
    """Return a shape with one axis multiplied by a factor."""
    sizes = list(shape)
    sizes[axis] = sizes[axis] * factor
    return tuple(sizes)
