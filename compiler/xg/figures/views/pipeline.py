"""Rewrite a program whose plan is a pipeline, so that its overview shows stages and their sends.

A repeat becomes one call for each stage that is drawn, with a send between neighbors. If there are
many stages, three are drawn: the first, one for all those between, and the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.model.richtext import RichText, dimension, plain
from xg.figures.views.sketch import sent_tags
from xg.ir.collectives import send
from xg.ir.dim import Dim, number, symbol
from xg.ir.graph import Apply, Call, Graph, IRProgram, Step, Value
from xg.ir.moves import operator
from xg.sharding.apply_plan import CutRow, cut_row

SEND: Final = operator(send.COLLECTIVE)
_MOST: Final = 3  # stages that are drawn


@dataclass(frozen=True, slots=True)
class DrawnStage:
    """A stage of a figure, or several that do the same: its label, and the results of its steps."""

    label: RichText
    results: frozenset[Value]


@dataclass(frozen=True, slots=True)
class Staged:
    """A program as its overview shows it, and its stages, which only a pipeline has.

    `tags` are the gradients that stages send each other for parameters that several of them hold.
    """

    program: IRProgram
    stages: tuple[DrawnStage, ...] = ()
    tags: Mapping[Value, RichText] = field(default_factory=dict[Value, RichText])


@dataclass(slots=True)
class _Row:
    """The calls and the sends that replace a repeat, with the types of new values."""

    graph: Graph
    row: CutRow
    steps: list[Step] = field(default_factory=list[Step])
    fresh: dict[Value, Value] = field(default_factory=dict[Value, Value])  # and what each is like

    def value_like(self, other: Value) -> Value:
        """Return a value without a name that has the type and the placement of another."""
        new = Value(None, "edge", other.span)
        self.fresh[new] = other
        return new

    def fill(self, count: int, rounds: Dim) -> None:
        """Write the calls of `count` stages, and the sends between them."""
        call = self.row.call
        stream, *rest = call.inputs
        for place in range(count):
            is_last = place == count - 1
            result = call.outputs[0] if is_last else self.value_like(call.outputs[0])
            outputs = call.outputs if is_last else (result, *map(self.value_like, call.outputs[1:]))
            self.steps.append(
                replace(call, count=rounds, first=place, inputs=(stream, *rest), outputs=outputs)
            )
            if not is_last:
                stream = self.value_like(call.inputs[0])
                attrs = {"over": self.row.axis}
                self.steps.append(Apply(SEND, (result,), (stream,), attrs, call.span))


def with_stages(program: IRProgram) -> Staged:
    """Replace the repeat that stages share by the calls of each stage."""
    row = cut_row(program) if program.plan and program.stage is None else None
    if row is None or row.call.count is None or row.ranks == 1:
        return Staged(program)
    graph = program.main
    known = row.ranks * row.turns if row.ranks else None
    count = min(known or _MOST, _MOST)
    written = _Row(graph, row)
    written.fill(count, row.call.count / (symbol(row.axis) * number(row.turns)))
    steps = [
        new
        for step in graph.steps
        for new in (written.steps if step.outputs == row.call.outputs else (step,))
    ]
    types = {new: graph.types[old] for new, old in written.fresh.items()}
    lies = {
        new: graph.placements[old] for new, old in written.fresh.items() if old in graph.placements
    }
    main = replace(
        graph,
        steps=tuple(steps),
        types={**graph.types, **types},
        placements={**graph.placements, **lies},
    )
    labels = _labels(row, known)
    results = _results(main, row.call, [one for one in written.steps if isinstance(one, Call)])
    sent = sent_tags([(SEND.glyph, row.axis, False)])
    return Staged(
        replace(program, graphs={**program.graphs, main.key: main}),
        tuple(map(DrawnStage, labels, results)),
        dict.fromkeys(_shared(main, results), sent),
    )


def _shared(main: Graph, results: Sequence[frozenset[Value]]) -> Iterator[Value]:
    """Yield the parameters of which several stages hold a copy, and their transposes."""
    readers = [
        {v for step in main.steps if not own.isdisjoint(step.outputs) for v in step.inputs}
        for own in results
    ]
    params = (value for value in main.param_values() if not value.frozen)
    shared = {value for value in params if sum(value in read for read in readers) > 1}
    yield from shared
    for step in main.steps:
        if isinstance(step, Apply) and step.op.glyph == "T" and step.inputs[0] in shared:
            yield from step.outputs


def _labels(row: CutRow, known: int | None) -> Sequence[RichText]:
    """Return the labels of the stages that are drawn."""
    several = f"{row.turns}*{row.axis}" if row.turns > 1 else row.axis
    if known and known <= _MOST:
        return [plain(f"stage {place}") for place in range(known)]
    return [
        plain("stage 0"),
        (*plain("each of the stages 1 to "), *dimension(f"{several} - 2")),
        (*plain("stage "), *dimension(f"{several} - 1")),
    ]


def _results(main: Graph, row: Call, calls: Sequence[Call]) -> Sequence[frozenset[Value]]:
    """Return what only one stage computes: the first, the repeat's inputs; the last, the rest.

    If several need a value, each computes it by itself.
    """
    makers = {value: step for step in main.steps for value in step.outputs}
    first = _needed(row.inputs[:1], makers)
    every = _needed(row.inputs[1:], makers)
    last = _needed(main.outputs, {v: s for v, s in makers.items() if v not in calls[-1].outputs})
    own = [set(call.outputs) for call in calls]
    own[0] |= first - every - last
    own[-1] |= last - every - first
    return [frozenset(some) for some in own]


def _needed(values: Iterable[Value], makers: Mapping[Value, Step]) -> set[Value]:
    """Return the results of steps on which values depend, themselves included."""
    found: set[Value] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value in makers and value not in found:
            found.update(makers[value].outputs)
            waiting += makers[value].inputs
    return found
