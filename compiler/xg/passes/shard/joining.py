"""Moves over several mesh axes at once: one collective where one axis would follow the other.

A sum over the ranks of A and then over those of B is the sum over the ranks of both, sent in one
collective: ``AR_B ∘ AR_A = AR_{A×B}``. Casts, which are transposes of such sums, are joined in the
same way, and so are gathers and scatters along one axis, the outer mesh axis around the inner one.
And ``AR_{A×B}(x) + AR_A(y) = AR_{A×B}(x + y)`` where of ``y``, the same along B, only the first
rank there has its term: the gradient of keys that are cut less than the heads that share them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import TypeVar

from xg import ops
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Backward, Graph, Program, Step, Value
from xg.ir.placement import INVARIANT, PARTIAL, Placement, axes_over, joined_axes
from xg.ir.plan import zigzag_axes
from xg.ir.tensor import TensorType

G = TypeVar("G", bound=Graph)

JOINED = frozenset({"AR", "cast", "AG", "RS", "part"})


def join(program: Program) -> Program:
    """A placed program with neighbouring moves of a kind over different mesh axes as one."""
    order = tuple(program.mesh)
    graphs: dict[str, Graph] = {}
    backwards: dict[str, Backward] = {}
    for key, graph in program.graphs.items():
        backward = program.backwards.get(key)
        graphs[key] = _joined(graph, _read_outside(graph, backward), program)
        if backward is not None:
            between = _made(graph) - _made(graphs[key])
            totals = {v: total for v, total in backward.totals.items() if v not in between}
            rest = replace(backward, forward=graphs[key], totals=totals)
            joined = _joined(rest, _read_outside(rest, None), program)
            backwards[key] = _Sums(joined, order).graph()
    return replace(program, graphs=graphs, backwards=backwards)


def _made(graph: Graph) -> set[Value]:
    return {value for step in graph.steps for value in step.outputs}


def _read_outside(graph: Graph, backward: Backward | None) -> Iterator[Value]:
    """Yield what is read besides by the graph's own steps."""
    yield from graph.outputs
    yield from (value for _, value in graph.aliases)
    if backward is not None:
        yield from backward.saved
    if isinstance(graph, Backward):
        yield from (*graph.gradients.values(), *graph.totals.values())


def _joined(graph: G, outside: Iterable[Value], program: Program) -> G:
    reads = Counter(outside)
    reads.update(value for step in graph.steps for value in step.inputs)
    makers: dict[Value, Apply] = {}
    steps: dict[Step, None] = {}
    for step in graph.steps:
        if not isinstance(step, Apply) or step.op.family != FAMILY or step.op.glyph not in JOINED:
            steps[step] = None
            continue
        (operand,) = step.inputs
        first = makers.get(operand)
        both = _both(first, step, program) if first and reads[operand] == 1 else None
        if first and both:
            del steps[first]
        apply = both or step
        steps[apply] = None
        makers[step.outputs[0]] = apply
    return _without(replace(graph, steps=tuple(steps)), _made(graph))


def _without(graph: G, before: Set[Value]) -> G:
    """The graph without what is known of values that it made `before` and makes no more."""
    gone = before - _made(graph)
    return replace(
        graph,
        types={value: type_ for value, type_ in graph.types.items() if value not in gone},
        placements={value: at for value, at in graph.placements.items() if value not in gone},
    )


def _both(first: Apply, second: Apply, program: Program) -> Apply | None:
    """One move for two, if they are of a kind over different mesh axes."""
    alike = [(m.op, m.attrs["source"], m.attrs["target"]) for m in (first, second)]
    if alike[0] != alike[1]:
        return None
    before, after = axes_over(first.attrs["over"]), axes_over(second.attrs["over"])
    axes = tuple(axis for axis in program.mesh if axis in before or axis in after)
    cut = {"AG": (*after, *before), "RS": (*before, *after), "part": (*before, *after)}
    in_order = cut.get(second.op.glyph, axes)
    if in_order != axes or (second.op.glyph in cut and zigzag_axes(program.plan) & {*axes}):
        return None  # the parts of parts would not be contiguous
    over = joined_axes(axes)
    return replace(second, inputs=first.inputs, attrs={**second.attrs, "over": over})


@dataclass(slots=True)
class _Sums:
    """Writes a backward pass again with one sum over ranks for a sum of several."""

    backward: Backward
    order: Sequence[str]
    reads: Counter[Value] = field(init=False)
    makers: dict[Value, Apply] = field(default_factory=dict[Value, Apply])
    kept: dict[Step, None] = field(default_factory=dict[Step, None])
    types: dict[Value, TensorType] = field(init=False)
    placements: dict[Value, Placement] = field(init=False)

    def __post_init__(self) -> None:
        """Count who reads what."""
        self.reads = Counter(_read_outside(self.backward, None))
        self.reads.update(value for step in self.backward.steps for value in step.inputs)
        self.types = dict(self.backward.types)
        self.placements = dict(self.backward.placements)

    def graph(self) -> Backward:
        """The backward pass with fewer sums."""
        for step in self.backward.steps:
            sums = self._sums(step)
            if isinstance(step, Apply) and sums:
                for each in sums:
                    del self.kept[each]
                self._sum_once(step, sums)
            else:
                self._keep(step)
        steps, types, placements = tuple(self.kept), self.types, self.placements
        backward = replace(self.backward, steps=steps, types=types, placements=placements)
        return _without(backward, _made(self.backward))

    def _keep(self, step: Step) -> None:
        self.kept[step] = None
        if isinstance(step, Apply) and step.op.family == FAMILY and step.op.glyph == "AR":
            self.makers[step.outputs[0]] = step

    def _sums(self, step: Step) -> tuple[Apply, ...]:
        """The sums over ranks that a ⊕ adds up, if it does nothing else."""
        if not isinstance(step, Apply) or step.op.glyph != "⊕":
            return ()
        steps = [self.makers.get(v) for v in step.inputs if self.reads[v] == 1]
        sums = tuple(each for each in steps if each is not None)
        fits = len(sums) == len(step.inputs) > 1 and all(map(self._is_term, sums))
        over = joined_axes(self._axes(sums))
        return sums if fits and all(self._can_be(each, over) for each in sums) else ()

    def _axes(self, sums: Iterable[Apply]) -> tuple[str, ...]:
        axes = {axis for each in sums for axis in axes_over(each.attrs["over"])}
        return tuple(axis for axis in self.order if axis in axes)

    @staticmethod
    def _is_term(each: Apply) -> bool:
        return each.attrs["source"] == PARTIAL and each.attrs["target"] == INVARIANT

    def _can_be(self, each: Apply, over: str) -> bool:
        """Whether what is summed is the same along all other mesh axes of the common sum."""
        rest = {*axes_over(over)} - {*axes_over(each.attrs["over"])}
        return all(self.placements[each.inputs[0]][axis].is_same for axis in rest)

    def _sum_once(self, step: Apply, sums: Sequence[Apply]) -> None:
        """Add the terms first, and then sum once."""
        axes = self._axes(sums)
        terms = tuple(self._term(each, axes) for each in sums)
        total = self._made(terms[0], self.placements[terms[0]], step)
        self._keep(replace(step, inputs=terms, outputs=(total,)))
        attrs = {**sums[0].attrs, "over": joined_axes(axes)}
        self._keep(replace(sums[0], inputs=(total,), outputs=step.outputs, attrs=attrs))

    def _term(self, each: Apply, axes: Sequence[str]) -> Value:
        """The summed value, as a term along all of some mesh axes."""
        (value,) = each.inputs
        rest = [axis for axis in axes if axis not in axes_over(each.attrs["over"])]
        if not rest:
            return value
        term = self._made(value, {**self.placements[value], **dict.fromkeys(rest, PARTIAL)}, each)
        attrs = {"over": joined_axes(rest), "source": INVARIANT, "target": PARTIAL}
        self.kept[replace(each, op=ops.table()["once"], outputs=(term,), attrs=attrs)] = None
        return term

    def _made(self, like: Value, placement: Placement, step: Apply) -> Value:
        value = Value(None, "cotangent", step.span)
        self.types[value], self.placements[value] = self.types[like], placement
        return value
