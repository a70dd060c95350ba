"""The data of a block for the page's script: its values, its steps, their costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xg.cost.cost import BlockCost, CostRow
from xg.cost.flops import flops
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.figures.views.steps import Drawn
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Call, Program, Step, Value
from xg.ir.op import Op
from xg.ir.placement import Placement
from xg.ir.prim import Expr
from xg.ir.tensor import TensorType
from xg.pages.explorer.equation import Equations
from xg.pages.explorer.formulas import Formulas, in_entry
from xg.pages.explorer.uses import BlockUse
from xg.pages.html.page import Pass

Facts = dict[str, object]


@dataclass(slots=True)
class Operators:
    """A table of operators, to which steps refer by place."""

    table: dict[tuple[str, str, str, str], int] = field(
        default_factory=dict[tuple[str, str, str, str], int]
    )

    def place(self, op: Op) -> int:
        """The index of an operator in the table."""
        said = (op.glyph, op.name, op.formula, op.meaning)
        return self.table.setdefault(said, len(self.table))

    def data(self) -> list[list[str]]:
        """The table: of each its sign, its name, its formula and its meaning."""
        return [list(row) for row in self.table]


@dataclass(slots=True)
class Shapes:
    """A table of shapes, to which values refer by place."""

    table: dict[tuple[tuple[str, ...], tuple[int, ...]], int] = field(
        default_factory=dict[tuple[tuple[str, ...], tuple[int, ...]], int]
    )

    def place(self, texts: Sequence[str], formulas: Sequence[int]) -> int:
        """The index of a shape in the table."""
        return self.table.setdefault((tuple(texts), tuple(formulas)), len(self.table))

    def data(self) -> list[list[list[str] | list[int]]]:
        """The table: of each its axes as the figure writes them, and as formulas."""
        return [[list(texts), list(formulas)] for texts, formulas in self.table]


@dataclass(slots=True)
class BlockFacts:
    """The data of one block of a program. `blocks` are the places of all blocks."""

    program: Program
    use: BlockUse
    blocks: Mapping[str, int]
    equations: Equations
    formulas: Formulas
    shapes: Shapes
    operators: Operators
    drawn: Mapping[Pass, Drawn]
    origins: Mapping[Value, int] = field(init=False)
    places: Mapping[Value, int] = field(init=False)
    types: Mapping[Value, TensorType] = field(init=False)
    placements: Mapping[Value, Placement] = field(init=False)

    def __post_init__(self) -> None:
        """Number steps and values."""
        steps = enumerate(self.use.graph.steps)
        self.origins = {step.outputs[0]: place for place, step in steps}
        self.places = {value: place for place, value in enumerate(self.use.values())}
        self.types = {**self.use.backward.types, **self.use.graph.types}
        self.placements = {**self.use.backward.placements, **self.use.graph.placements}

    def data(self, cost: BlockCost) -> Facts:
        """Everything; steps and values refer to each other by their places.

        A value without a name is called after how it is made, which is known after the steps.
        """
        graph, backward = self.use.graph, self.use.backward
        rows = {row.step: row for row in cost.rows}
        forward = [self._forward(step, rows[step]) for step in graph.steps]
        reverse = [self._backward(step, rows) for step in backward.steps]
        return {
            "name": graph.block,
            "title": graph.title,
            "path": self.use.path,
            "forward": forward,
            "backward": reverse,
            "values": [self._value(value) for value in self.use.values()],
            "other": [[row.name, self._amount(row)] for row in cost.rows if row.step is None],
            "inputs": [self.places[value] for value in graph.inputs],
            "cotangents": [self.places[value] for value in backward.cotangents.values()],
        }

    def _value(self, value: Value) -> list[object]:
        """Its name, its shape, and its placement if ranks hold different parts."""
        dims = [self._place(dim) for dim in self.types[value].shape]
        shape = self.shapes.place(self.equations.notation.dims(value), dims)
        lies = self._placement(value)
        return [self.equations.text(value), shape, *([lies] if lies else [])]

    def _placement(self, value: Value) -> Facts:
        """The placement by mesh axis: of a slice its axis and its global size, else a letter.

        A replicated axis has no entry.
        """
        shape, sizes = self.types[value].shape, self.use.graph.sizes
        return {
            over: [len(shape) + state.axis, str(sizes.fold(sizes.undivided(shape[state.axis])[0]))]
            if state.kind == "S"
            else state.kind
            for over, state in self.placements.get(value, {}).items()
            if not state.is_same
        }

    def _place(self, dim: Dim) -> int:
        return self.formulas.place(in_entry(self.use, self.program, dim))

    def _amount(self, row: CostRow) -> list[int]:
        return [self._place(dim) for dim in row.amount.dims()]

    # ---- steps ----------------------------------------------------------------------------------

    def _forward(self, step: Apply | Call, row: CostRow) -> Facts:
        facts = self._step(step, step.inputs, "forward")
        return {**facts, "line": step.span.line, "cost": self._amount(row)}

    def _backward(self, step: Step, rows: Mapping[Step | None, CostRow]) -> Facts:
        facts = self._step(step, step.inputs, "backward")
        if isinstance(step, Apply):
            facts["flops"] = self._place(flops(self._body(step)))
        if step.origin is None:
            return facts
        if isinstance(step, Call):
            facts["flops"] = self._place(rows[step.origin].amount.backward)
        facts["line"] = step.origin.span.line
        of = self.origins.get(step.origin.outputs[0])  # a cast is no step of a rank
        return facts if of is None else {**facts, "of": of}

    def _step(self, step: Step, read: Sequence[Value], view: Pass) -> Facts:
        if isinstance(step, Apply):
            told: Facts = {"operator": self.operators.place(step.op)}
        else:
            told = self._call(step)
        return {
            "node": self.drawn[view].nodes.get(step, ""),
            "equation": self.equations.write(step),
            "reads": [self.places[value] for value in read],
            "makes": [self.places[value] for value in step.outputs],
            **told,
        }

    def _call(self, call: Call) -> Facts:
        facts: Facts = {
            "block": self.blocks[call.callee],
        }
        return facts if call.count is None else {**facts, "count": self._place(call.count)}

    def _body(self, step: Apply) -> Sequence[Expr]:
        """The computation of an operator."""
        return step.body(self.types).outputs
