"""Describe a collective: how ranks exchange, sum or cut a tensor, and all that xg says about it.

`xg.ir.collectives` has the records, one file each. The rest of the compiler reads their fields:
typing, prices, code and figures ask what a collective does, never which one it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim
from xg.ir.placement import AxisState, Kind
from xg.ir.prim import Attr, Expr
from xg.ir.tensor import Shape

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
