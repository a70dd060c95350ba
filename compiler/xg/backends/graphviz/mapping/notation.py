"""How the values and operators of a graph are written in its figures (seed 001, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from xg.backends.graphviz import richtext
from xg.backends.graphviz.figure import NodeKind
from xg.backends.graphviz.richtext import RichText, Run
from xg.graph import Apply, Backward, Graph, Value
from xg.op import Op
from xg.tensor import Shape

_KINDS: Final = {
    "matmul": NodeKind.MATMUL,
    "add": NodeKind.ADD,
    "multiply": NodeKind.MUL,
    "reduce": NodeKind.REDUCE,
    "layout": NodeKind.LAYOUT,
    "source": NodeKind.LAYOUT,
    "nonlinear": NodeKind.NONLINEAR,
    "loss": NodeKind.NONLINEAR,
}
# Kinds whose sign stands for one operator; others of the family are boxes with a name.
_SIGNS: Final = {NodeKind.MUL: "⊙", NodeKind.REDUCE: "sum", NodeKind.ADD: "⊕", NodeKind.MATMUL: "•"}


def kind(op: Op) -> NodeKind:
    """Return the glyph of an operator."""
    found = _KINDS[op.family]
    return NodeKind.NONLINEAR if _SIGNS.get(found, op.glyph) != op.glyph else found


@dataclass(frozen=True, slots=True)
class Notation:
    """The symbols and shapes of one graph's values, and of their gradients.

    `names` holds outputs that the block names and its statements do not; `transposes` are values
    that the author named after what they transpose: KT, written K⊤.
    """

    graph: Graph
    names: Mapping[Value, str]
    transposes: Mapping[Value, str]
    backward: Backward | None = None

    @classmethod
    def of(cls, graph: Graph, backward: Backward | None = None) -> Notation:
        """Return the notation of a graph, and of its backward pass if it is given."""
        names = dict(zip(graph.outputs, graph.output_names, strict=True))
        return cls(graph, names, _transposes(graph), backward)

    def symbol(self, value: Value, *, transposed: bool = False) -> RichText:
        """Return a value's symbol; empty where it has no name."""
        if value.role == "cotangent":
            primal = self._primal(value)
            named = primal is not None and (value.name or primal in self.names)
            return self._symbol(primal, gradient=True) if primal is not None and named else ()
        return self._symbol(value, transposed=transposed)

    def dims(self, value: Value, *, transposed: bool = False) -> list[str]:
        """Return a value's shape as the file would write it."""
        dims = [str(dim) for dim in self._shape(value)]
        return [*dims[:-2], dims[-1], dims[-2]] if transposed else dims

    def label(self, value: Value, *, transposed: bool = False) -> RichText:
        """Return symbol and shape; a scalar has no brackets."""
        dims = self.dims(value, transposed=transposed)
        return richtext.tensor(self.symbol(value, transposed=transposed), dims or None)

    def gradient(self, primal: Value) -> RichText:
        """Return symbol and shape of a forward value's gradient."""
        return richtext.tensor(self._symbol(primal, gradient=True), self.dims(primal) or None)

    def shape(self, value: Value) -> RichText:
        """Return the shape alone."""
        return richtext.tensor((), self.dims(value) or None)

    def listed(self, values: Sequence[Value]) -> RichText:
        """Return several values by their symbols; neighbours of one shape share it."""
        runs: list[Run] = []
        for dims, group in groupby(values, self.dims):
            runs += richtext.plain(", ") if runs else ()
            runs += richtext.tensor(self._symbols(list(group)), dims or None)
        return tuple(runs)

    def _symbols(self, values: Sequence[Value]) -> RichText:
        """Return symbols with commas between them; several values without names by their number."""
        symbols = [self.symbol(value) for value in values]
        if not all(symbols):
            return richtext.plain(f"{len(values)} ×") if len(values) > 1 else ()
        return tuple(run for one in symbols for run in (*richtext.plain(", "), *one))[1:]

    def words(self, values: Iterable[Value]) -> str:
        """Return values with their shapes as plain text, for titles and descriptions."""
        return ", ".join(richtext.characters(self.label(value)) for value in values)

    def _symbol(
        self, value: Value, *, transposed: bool = False, gradient: bool = False
    ) -> RichText:
        name = (value.name or self.names.get(value, "")).rpartition(".")[2]
        if value in self.transposes:
            name, transposed = self.transposes[value], not transposed
        sup = "⊤" if transposed else ""
        return richtext.symbol(name, gradient=gradient, sup=sup) if name else ()

    def _primal(self, value: Value) -> Value | None:
        return self.backward.of.get(value) if self.backward else None

    def _shape(self, value: Value) -> Shape:
        if value in self.graph.types:
            return self.graph.shape(value)
        primal = self._primal(value)
        if primal is not None and primal in self.graph.types:
            return self.graph.shape(primal)
        assert self.backward, "a value is of the forward or of the backward graph"
        return self.graph.sizes.fold_shape(self.backward.types[value].shape)


def _transposes(graph: Graph) -> dict[Value, str]:
    """Find values like KT = T(K), and those of T(E) that have no name."""
    return {
        step.outputs[0]: step.inputs[0].name
        for step in graph.steps
        if isinstance(step, Apply)
        and step.op.glyph == "T"
        and step.inputs[0].name
        and step.outputs[0].name in (None, f"{step.inputs[0].name}T")
        and swaps_last_two(step)
    }


def swaps_last_two(step: Apply) -> bool:
    """Tell whether a T exchanges the last two axes and nothing else, which is written ⊤."""
    order: tuple[int, ...] = step.attrs["order"]
    count = len(order)
    return order == (*range(count - 2), count - 1, count - 2)
