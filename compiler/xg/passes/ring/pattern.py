"""Fusions: a pattern of steps, and the operator that computes them at once.

A fused operator is an `Op` like any other, with a body and a gradient, so the interpreter runs it
and every backend can spell it. It is no word of the language: no figure shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.graph import Apply, Call, Graph, Value
from xg.ir.op import Op
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs


@dataclass(frozen=True, slots=True)
class Inside:
    """The questions of a pattern about a block: who makes a value, and how many steps read it."""

    types: Mapping[Value, TensorType]
    makers: Mapping[Value, Apply]
    reads: Mapping[Value, int]

    @classmethod
    def of(cls, graph: Graph) -> Inside:
        """Of a graph."""
        reads = Counter(value for step in graph.steps for value in step.inputs)
        reads.update(graph.outputs)
        reads.update(state.next for state in graph.states)
        steps = [step for step in graph.steps if not isinstance(step, Call)]
        return cls(
            graph.types,
            {step.outputs[0]: step for step in steps if step.outputs[0] not in graph.outputs},
            reads,
        )

    def maker(self, value: Value, *glyphs: str, readers: int = 1) -> Apply | None:
        """The step that makes a value which nothing else reads, if it has one of the glyphs."""
        step = self.makers.get(value)
        alone = self.reads.get(value) == readers
        return step if step is not None and alone and step.op.glyph in glyphs else None


@dataclass(frozen=True, slots=True)
class Match:
    """Steps that one fused step replaces, in order: its operands, attributes, and place.

    A `turned` operand is the transpose of the value given for it.
    """

    steps: tuple[Apply, ...]
    inputs: tuple[Value, ...]
    attrs: Attrs
    place: str = ""
    turned: frozenset[Value] = field(default_factory=frozenset[Value])


@dataclass(frozen=True, slots=True)
class Fusion:
    """An operator, the glyph that its pattern ends with, and what recognizes the rest.

    A pattern that may end with any operator names no glyph.
    """

    op: Op
    ends: str
    match: Callable[[Apply, Inside], Match | None]
