"""Replace a pattern of steps by the operator that computes them at once.

A fused operator is an `Op` like any other, with a body and a gradient, so the interpreter runs it
and every backend can spell it. It is no word of the language: no figure shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from xg import ops
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.content import prune
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
        """Collect the types, makers and read counts of a graph."""
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
        """Return the maker of a value that is read `readers` times, if its glyph is given."""
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


# One pattern of a graph, replaced wherever it is by the operator that computes it at once.


Types = dict[Value, TensorType]


def apply_fusion(graph: Graph, fusion: Fusion) -> Graph:
    """A graph with every match of a fusion replaced."""
    inside = Inside.of(graph)
    replacing = _Replacing(graph, fusion.op)
    for step in reversed(graph.steps):
        if isinstance(step, Apply) and fusion.ends in ("", step.op.glyph):
            match = fusion.match(step, inside)
            if match and not replacing.gone.intersection(match.steps):
                replacing.add(match)
    return replacing.graph()


@dataclass(slots=True)
class _Replacing:
    """One graph while its matches of one fusion are replaced."""

    source: Graph
    op: Op
    gone: set[Apply] = field(default_factory=set[Apply])
    new: dict[Apply, tuple[Apply, ...]] = field(default_factory=dict[Apply, tuple[Apply, ...]])
    types: Types = field(default_factory=dict[Value, TensorType])

    def add(self, found: Match) -> None:
        """Note a match: its last step gives way to the fused one, the others to nothing."""
        last = found.steps[-1]
        turns = {
            value: self._transpose_step(value, last)
            for value in found.inputs
            if value in found.turned
        }
        inputs = tuple(
            turns[value].outputs[0] if value in turns else value for value in found.inputs
        )
        step = Apply(self.op, inputs, (), found.attrs, last.span, found.place, parts=found.steps)
        self.gone.update(found.steps)
        self.new[last] = (*turns.values(), replace(step, outputs=self._outputs(step, last)))

    def _outputs(self, step: Apply, last: Apply) -> tuple[Value, ...]:
        """The output of the pattern's last step, and caches of the fused one's own."""
        types: Mapping[Value, TensorType] = {**self.source.types, **self.types}
        body = step.body(types)
        first = len(body.outputs) - len(body.caches)
        caches = tuple(Value(name, "cache", last.span) for name in body.caches)
        self.types.update(
            (value, TensorType(out.shape))
            for value, out in zip(caches, body.outputs[first:], strict=True)
        )
        return (last.outputs[0], *caches)

    def _transpose_step(self, value: Value, last: Apply) -> Apply:
        """A step that transposes the last two axes of a value."""
        shape = self.source.types[value].shape
        front = tuple(range(len(shape) - 2))
        order = (*front, len(shape) - 1, len(shape) - 2)
        turned = Value(None, "edge", last.span)
        self.types[turned] = TensorType((*shape[:-2], shape[-1], shape[-2]))
        return Apply(ops.table()["T"], (value,), (turned,), {"order": order}, last.span)

    def graph(self) -> Graph:
        """The graph with the replacements made."""
        if not self.new:
            return self.source
        steps: list[Apply | Call] = []
        for step in self.source.steps:
            if isinstance(step, Apply) and step in self.gone:
                steps += self.new.get(step, ())
            else:
                steps.append(step)
        types = {**self.source.types, **self.types}
        return prune(replace(self.source, steps=tuple(steps), types=types))
