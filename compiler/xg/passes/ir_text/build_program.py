"""From the tree of a printed program to the program."""

from __future__ import annotations

from typing import cast

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.source import Source
from xg.ir.graph import Backward, Graph, Program
from xg.ir.plan import Entry, Layout, Memory, Plan, Schedule
from xg.ir.tensor import Sizes
from xg.passes.ir_text.block_labels import labelled, usual_label
from xg.passes.ir_text.build_graph import backward_graph, forward_graph
from xg.passes.ir_text.build_steps import StepBuilder
from xg.passes.ir_text.build_values import GraphScope, Values, span_of
from xg.passes.ir_text.errors import Meaningless, UnreadableIR
from xg.passes.ir_text.expression import as_dim
from xg.passes.ir_text.operators import Vocabulary
from xg.passes.ir_text.records import (
    CutText,
    EntryText,
    GraphText,
    PlanText,
    ProgramText,
    ScheduleText,
    SizesText,
    WordText,
)


def build(tree: ProgramText, source: Source) -> Program:
    """The program of a tree; raises UnreadableIR."""
    try:
        sizes = _sizes(tree.sizes) if tree.sizes else Sizes()
        vocabulary = Vocabulary.defining((each.text, each.line) for each in tree.definitions)
    except Meaningless as error:
        raise UnreadableIR(error.line or 1, str(error)) from None
    return _Builder(source, sizes, vocabulary).program(tree)


@dataclass(slots=True)
class _Builder:
    """The program while its graphs are built."""

    source: Source
    sizes: Sizes
    vocabulary: Vocabulary
    graphs: dict[str, Graph] = field(default_factory=dict[str, Graph])
    backwards: dict[str, Backward] = field(default_factory=dict[str, Backward])
    scopes: dict[str, GraphScope] = field(default_factory=dict[str, GraphScope])

    def program(self, tree: ProgramText) -> Program:
        """Every graph in turn: callees stand before their callers."""
        for text in tree.graphs:
            try:
                self._graph(text)
            except Meaningless as error:
                raise UnreadableIR(error.line or text.key.line or 0, str(error)) from None
        plan = None if tree.plan is None else self._plan(tree.plan)
        if tree.entry not in self.graphs:
            raise UnreadableIR(1, f"the entry {tree.entry} is no graph of the text")
        return Program(
            self.graphs,
            tree.entry,
            self.backwards,
            tree.numbers,
            tree.mesh,
            plan,
            lengths=tree.lengths,
        )

    def _graph(self, text: GraphText) -> None:
        key = str(text.key)
        if text.kind == "backward":
            if key not in self.graphs:
                raise Meaningless(f"there is no graph {key} before its backward pass")
            forward = self.graphs[key]
            values = Values(self.source, self.scopes[key], forward.sizes)
            self.backwards[key] = backward_graph(
                text, StepBuilder(values, self.vocabulary, forward)
            )
            return
        block = labelled(_word(text, "block") or usual_label(key))
        own = [line for line in text.lines if isinstance(line, SizesText)]
        sizes = _sizes(own[0]) if own else self.sizes
        values = Values(self.source, GraphScope(), sizes)
        self.scopes[key] = values.scope
        title = _word(text, "title") or key
        steps = StepBuilder(values, self.vocabulary)
        self.graphs[key] = forward_graph(text, steps, block, title)

    # ---- plans ----------------------------------------------------------------------------------

    def _plan(self, text: PlanText) -> Plan:
        entries = tuple(self._entry(line) for line in text.lines if isinstance(line, EntryText))
        schedules = tuple(
            Schedule(
                labelled(str(each.block)),
                each.name,
                each.parts or None,
                each.turns,
                span_of(each.block, self.source),
            )
            for each in text.lines
            if isinstance(each, ScheduleText)
        )
        return Plan(text.name, text.title, entries, text.mesh, schedules)

    def _entry(self, text: EntryText) -> Entry:
        return Entry(
            block=labelled(str(text.block)),
            path=tuple(text.path.split(".")),
            rest=None if text.rest is None else _layout(text.rest),
            use=None if text.use is None else _layout(text.use),
            over=text.over,
            plan=text.plan,
            span=span_of(text.block, self.source),
            memory=None if text.memory == "pad" else cast("Memory | None", text.memory),
            pads=text.memory == "pad",
        )


def _layout(text: CutText) -> Layout:
    dims = tuple(None if size is None else as_dim(size) for size, _ in text.parts)
    return Layout(dims, tuple(cuts for _, cuts in text.parts), text.open)


def _sizes(text: SizesText) -> Sizes:
    definitions = {name: as_dim(size) for name, size in text.definitions.items()}
    return Sizes(definitions, text.defaults, text.mesh, text.local)


def _word(text: GraphText, kind: str) -> str | None:
    words = (line.text for line in text.lines if isinstance(line, WordText) and line.kind == kind)
    return next(words, None)
