"""The data of a block for the page's script: its values, its steps, their costs."""

from __future__ import annotations

from collections.abc import Mapping

from xg.cost.cost import BlockCost, CostRow, flops_of_step
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.figures.views.steps import Drawn
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Call, Program, Step, Value
from xg.ir.placement import Placement
from xg.ir.plan import zigzag_axes
from xg.ir.tensor import TensorType
from xg_pages.explorer.equation import Equations
from xg_pages.explorer.formulas import FactTable, Formulas, in_entry
from xg_pages.explorer.uses import BlockUse
from xg_pages.html.page import Pass

Facts = dict[str, object]
OperatorRow = tuple[str, str, str, str]  # its sign, its name, its formula and its meaning
ShapeRow = tuple[tuple[str, ...], tuple[int, ...]]  # axes as the figure writes them, as formulas


@dataclass(slots=True)
class BlockFacts:
    """The data of one block of a program. `blocks` are the places of all blocks."""

    program: Program
    use: BlockUse
    blocks: Mapping[str, int]
    equations: Equations
    formulas: Formulas
    shapes: FactTable[ShapeRow]
    operators: FactTable[OperatorRow]
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
        dims = tuple(self._place(dim) for dim in self.types[value].shape)
        shape = self.shapes.place((tuple(self.equations.notation.dims(value)), dims))
        lies = self._placement(value)
        return [self.equations.text(value), shape, *([lies] if lies else [])]

    def _placement(self, value: Value) -> Facts:
        """The placement by mesh axis: of a slice its axis and its global size, else a letter.

        Behind the size is the order of ranks, if it is not the usual one. A replicated axis has no
        entry.
        """
        shape, sizes = self.types[value].shape, self.use.graph.sizes
        zigzag = zigzag_axes(self.program.plan)

        def sliced(axis: int, over: str) -> list[object]:
            whole = str(sizes.fold(sizes.undivided(shape[axis])[0]))
            return [len(shape) + axis, whole, *(["zigzag"] if over in zigzag else [])]

        return {
            over: sliced(state.axis, over) if state.kind == "S" else state.kind
            for over, state in self.placements.get(value, {}).items()
            if not state.is_same
        }

    def _place(self, dim: Dim) -> int:
        return self.formulas.place(in_entry(self.use, self.program, dim))

    def _amount(self, row: CostRow) -> list[int]:
        return [self._place(dim) for dim in row.amount.dims()]

    # ---- steps ----------------------------------------------------------------------------------

    def _forward(self, step: Apply | Call, row: CostRow) -> Facts:
        facts = self._step(step, "forward")
        return {**facts, "line": step.span.line, "cost": self._amount(row)}

    def _backward(self, step: Step, rows: Mapping[Step | None, CostRow]) -> Facts:
        facts = self._step(step, "backward")
        if isinstance(step, Apply):
            facts["flops"] = self._place(flops_of_step(step, step.body(self.types)))
        if step.origin is None:
            return facts
        if isinstance(step, Call):
            facts["flops"] = self._place(rows[step.origin].amount.backward)
        facts["line"] = step.origin.span.line
        of = self.origins.get(step.origin.outputs[0])  # a cast is no step of a rank
        return facts if of is None else {**facts, "of": of}

    def _step(self, step: Step, view: Pass) -> Facts:
        told: Facts
        if isinstance(step, Apply):
            op = step.op
            told = {"operator": self.operators.place((op.glyph, op.name, op.formula, op.meaning))}
        else:
            count = {} if step.count is None else {"count": self._place(step.count)}
            told = {"block": self.blocks[step.callee], **count}
        return {
            "node": self.drawn[view].nodes.get(step, ""),
            "equation": self.equations.write(step),
            "reads": [self.places[value] for value in step.inputs],
            "makes": [self.places[value] for value in step.outputs],
            **told,
        }
