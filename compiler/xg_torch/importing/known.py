"""Facts about a tensor of a model while its calls are read, besides views and fixed values."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim
from xg_torch.importing.fixed import Fixed
from xg_torch.importing.views import Factor, View

Layout: TypeAlias = Literal["half", "interleaved"]  # where the two of a pair are
HIDDEN: Final = -1e4  # a score so low has the weight 0


@dataclass(frozen=True, slots=True)
class Condition:
    """A mask of an input: it holds where the integers are 1 (`positive`), or where they are 0."""

    view: View
    positive: bool = True


@dataclass(frozen=True, slots=True)
class Mask:
    """All of some conditions, or (`negated`) not all of them.

    As a "number" it is 1 where that holds and 0 elsewhere; as "scores" it is what is added to
    scores: 0 where it holds and -inf elsewhere.
    """

    parts: tuple[Condition | Fixed, ...]
    negated: bool = False
    form: Literal["bool", "number", "scores"] = "bool"


@dataclass(frozen=True, slots=True)
class Operand:
    """The operand of a formula, by its place."""

    place: int


@dataclass(frozen=True, slots=True)
class FormulaPart:
    """A part of a formula, by its place."""

    place: int


Term: TypeAlias = Operand | FormulaPart | float


@dataclass(frozen=True, slots=True)
class Formula:
    """Elementwise arithmetic that the legend has no node for yet: parts in order, the last is it.

    `reduced` says of each part whether its last axis was reduced to 1.
    """

    operands: tuple[View, ...]
    parts: tuple[tuple[str, tuple[Term, ...]], ...]
    reduced: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Turning:
    """A tensor, or one with its pairs `rotated`, times a table: half of rotary positions."""

    view: View
    table: Fixed
    rotated: Layout | None = None


@dataclass(frozen=True, slots=True)
class TurnedCoordinate:
    """``x1 cos - x2 sin`` of pairs (x1, x2), or of the `second` coordinate ``x2 cos + x1 sin``."""

    along: View  # x1, or x2 of a second coordinate: what the cosines multiply
    across: View
    cosine: Fixed
    sine: Fixed
    second: bool


@dataclass(frozen=True, slots=True)
class Routed:
    """A row for each of the k experts of a token, as a model computes it; here for all experts.

    Where torch counts the k that are `chosen`, `view` has the factor `expert` of all of them.
    """

    view: View
    expert: Factor
    chosen: View
    shares: View | None = None  # the weights that it was multiplied by


@dataclass(frozen=True, slots=True)
class Chosen:
    """1 at what was chosen, 0 elsewhere; or (`negated`) the other way round.

    `view` is of the places that were chosen; it has the factor `of` that they are places in.
    """

    view: View
    of: Factor
    negated: bool = False


@dataclass(frozen=True, slots=True)
class BlankPart:
    """A stretch along one axis of a tensor that is not written yet, by its name."""

    name: str
    axis: int
    start: Dim
    length: Dim


@dataclass(frozen=True, slots=True)
class Blank:
    """A tensor without numbers, and what was written into stretches of it."""

    shape: tuple[Dim, ...]
    written: tuple[tuple[BlankPart, View], ...] = ()


@dataclass(frozen=True, slots=True)
class Lost:
    """The result of a call that could not be said; what reads it is not reported again."""


Known: TypeAlias = (
    View
    | Fixed
    | Mask
    | Formula
    | Turning
    | TurnedCoordinate
    | Routed
    | Chosen
    | Blank
    | BlankPart
    | Lost
)
