"""A block as a step before its values are made: what is asked of it, and its parts in order."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.source import Span
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Call, Graph, Value
from xg.ir.tensor import TensorType
from xg_generate.decode_step.operator import StepUse
from xg_generate.decode_step.positions import PositionSymbols, Whole

Token = tuple[Value, Whole]  # a value in one of its states
Port = tuple[int, Whole]  # an input or output by its place


@dataclass(frozen=True, slots=True)
class StepRequest:
    """A request for a block: which outputs in which form.

    `same` are its symbols that are the axis of positions, the first of which stays. `suffix`
    distinguishes the states of several calls under one name. If a block is called `alone`, not in a
    row, values that depend on no position are computed before the first step, and passed in.
    """

    callee: str
    same: tuple[str, ...]
    outputs: tuple[Port, ...]
    suffix: str = ""
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Used:
    """An operator of the step; `outputs` has a token where the output is read, else None."""

    step: Apply
    use: StepUse
    inputs: tuple[Token, ...]
    outputs: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A value of which all positions are kept along one axis, or the last `past` of them."""

    value: Value
    axis: int
    rank: int
    span: Span
    past: Dim | None = None

    @property
    def whole(self) -> Whole:
        """The form in which the value is kept."""
        return tuple(axis == self.axis for axis in range(self.rank))


@dataclass(frozen=True, slots=True)
class StepCall:
    """A call in the step, what it asks of its callee, and what it hands on to it as given."""

    step: Call
    request: StepRequest
    inputs: tuple[Token, ...]
    outputs: tuple[Token, ...]
    given: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class StepLoop:
    """A call over the new positions. Its rounds go on from the states that the step before left.

    `inputs` are those of the call but its `states`, which begin as zeros where the text does.
    """

    step: Call
    request: StepRequest
    inputs: tuple[Token, ...]
    outputs: tuple[Token, ...]
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A block as a step, before its values are made: `parts` in order.

    `given` are values that were edges, here or in a block that is called, and are inputs now;
    `handed` are those of called blocks, with their types here.
    """

    request: StepRequest
    graph: Graph
    positions: PositionSymbols
    inputs: tuple[Port, ...]
    parts: tuple[StepPart, ...]
    alias: Mapping[Token, Token]
    given: tuple[Value, ...] = ()
    handed: Mapping[Value, TensorType] = field(default_factory=dict[Value, TensorType])

    def type_of(self, value: Value) -> TensorType:
        """The type of a value of the block, or of one that it hands on."""
        return self.handed.get(value) or self.graph.types[value]

    def type_in(self, token: Token) -> TensorType:
        """The type of a value in one of its states."""
        value, whole = token
        positions = self.positions
        for part in self.parts if any(whole) else ():
            if isinstance(part, Kept) and part.past and (part.value, part.whole) == token:
                positions = PositionSymbols(positions.length, part.past)
        return positions.type(self.type_of(value), whole)

    def resolved(self, token: Token) -> Token:
        """The value that a token is at last: dropout leaves its operand as it is."""
        while token in self.alias:
            token = self.alias[token]
        return token

    def states_of(self, value: Value) -> frozenset[Whole]:
        """In which states a value occurs."""
        forms = {whole for place, whole in self.inputs if self.graph.inputs[place] is value}
        for part in self.parts:
            if isinstance(part, Kept):
                if part.value is value:
                    forms |= {(False,) * part.rank, part.whole}
            else:
                forms |= {whole for output, whole in part.outputs if output is value}
        return frozenset(forms)


StepPart = Used | Kept | StepCall | StepLoop
Asking = Generator[StepRequest, StepPlan, StepPlan]
