"""Draw the forward figure of a block: the statements of its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.diagnostics.terminal import counted
from xg.figures.model.figure import EdgeStyle, Figure, FigureNode, NodeKind
from xg.figures.model.richtext import RichText, StyledRun, characters, plain, tensor
from xg.figures.views.arrange import DrawnOperation, Flow, Terminal, arrange, axis_groups
from xg.figures.views.notation import Notation, explain_symbols, kind, swaps_last_two, with_frozen
from xg.figures.views.sketch import (
    InnerCollectives,
    collective_node,
    communication_node,
    glyph_of,
    inner_collectives,
    sends,
    through,
    with_inner_collectives,
    with_own_parts,
)
from xg.figures.views.steps import (
    Drawn,
    Ids,
    apply_node,
    call_node,
    operand_style,
    own_tensors,
    stages_of_rows,
    start_values,
    subtitle,
)
from xg.ir.graph import Apply, Call, Graph, IRProgram, Step, Value
from xg.ir.labels import saved_names

# Leaves: tensors that are drawn beside the node that takes them, once for every use.
#
# They are parameters, inputs that no node takes first, what a step finds from the one before, and
# views of these that are written in place, BC_{B,S}(b) and E⊤, as the seed writes them (seed 001,
# 4.3.8). The numbers at which the states of a loop start are written in its box.


_VIEWS: Final = ("BC", "T")


@dataclass(frozen=True, slots=True)
class Leaves:
    """The leaves of one graph; `views` are those that a step makes, which then is not drawn.

    Nor are the steps that make `starts`, the states of loops before the first round.
    """

    plain: frozenset[Value]
    views: Mapping[Value, Apply]
    starts: Mapping[Value, Apply]

    def __contains__(self, value: Value) -> bool:
        return value in self.plain or value in self.views

    def is_drawn(self, step: object) -> bool:
        """Return whether a step is a node of its own."""
        unseen = (*self.views.values(), *self.starts.values())
        return not any(step is one for one in unseen)

    def label(self, value: Value, notation: Notation) -> RichText:
        """Return what is written for a leaf."""
        view = self.views.get(value)
        if view is None:
            return notation.label(value)
        operand = view.inputs[0]
        if view.op.glyph == "T":
            return with_frozen(notation.label(value), operand)
        dims = notation.repeated(view)
        text = tensor(notation.symbol(operand), notation.dims(operand))
        inside = (*plain("("), *with_frozen(text, operand), *plain(")"))
        return (StyledRun("BC", sub=",".join(dims)), *inside)


def find_leaves(graph: Graph, flowing: frozenset[Value] = frozenset()) -> Leaves:
    """Find the leaves of a graph's forward pass; inputs in `flowing` are not leaves."""
    first = {step.inputs[0] for step in graph.steps if step.inputs} | flowing
    asides = {value for value in graph.inputs if value not in first}
    past = (state.past for state in graph.states)
    leaves = frozenset({*graph.param_values(), *asides, *past})
    return Leaves(leaves, _views(graph, leaves), _starts(graph))


def _starts(graph: Graph) -> dict[Value, Apply]:
    """Find the numbers at which states start that the call does not give: they have no name."""
    states = {value for call in graph.calls for value in start_values(call)}
    return {
        value: step
        for step in graph.steps
        for value in step.outputs
        if isinstance(step, Apply)
        and step.op.glyph == "fill"
        and value in states
        and value.name is None
    }


def _views(graph: Graph, leaves: frozenset[Value]) -> dict[Value, Apply]:
    """Find views whose only use is as a later operand."""
    uses: dict[Value, list[int]] = {}
    for step in graph.steps:
        for place, value in enumerate(step.inputs):
            own = isinstance(step, Apply) and value in own_tensors(step)
            uses.setdefault(value, []).append(0 if own else place)
    return {
        step.outputs[0]: step
        for step in graph.steps
        if isinstance(step, Apply)
        and step.op.glyph in _VIEWS
        and step.inputs[0] in leaves
        and len(uses.get(step.outputs[0], ())) == 1
        and uses[step.outputs[0]][0] > 0
        and step.outputs[0] not in graph.outputs
        and (step.op.glyph == "BC" or swaps_last_two(step))
    }


def forward_figure(program: IRProgram, graph: Graph, *, legend: bool = False) -> Figure:
    """Return the forward figure of one of a program's graphs."""
    return forward_drawn(program, graph, legend=legend).figure


def forward_drawn(
    program: IRProgram,
    graph: Graph,
    *,
    legend: bool = False,
    kept: Mapping[Value, str] | None = None,
) -> Drawn:
    """Return the forward figure of one of a program's graphs, and where its steps are in it.

    `kept` are the names of what the backward pass reads and no label names.
    """
    kept = saved_names(program, graph.key) if kept is None else kept
    stages = stages_of_rows(program)
    drawing = forward_drawing(graph, program.graphs, kept=kept, stages=stages)
    drawn = {step: drawing.drawn(step) for step in drawing.steps()}
    operations = [operation for some in drawn.values() for operation in some]
    arranged = arrange(drawing.sources(), operations, drawing.results(), drawing.notation)
    notation = drawing.notation
    figure = Figure(
        graph.title or graph.block,
        "step" if graph.states else subtitle("forward pass", program),
        f"Computes {notation.words(graph.outputs)} from {notation.words(graph.inputs)}"
        f" in {counted(len(drawn), 'step')}.",
        arranged.nodes,
        arranged.edges,
        axis_groups(arranged, drawn, notation),
        legend,
        explained=explain_symbols((v for v in kept if v.role != "cache"), notation),
    )
    own = {step.outputs: step for step in graph.steps}  # as they are without parts of their own
    nodes = {own.get(step.outputs, step): some[0].node.id for step, some in drawn.items()}
    return Drawn(figure, {**nodes, **drawing.views})


@dataclass(frozen=True, slots=True)
class ForwardDrawing:
    """The tensors and nodes of one graph's forward pass, under ids that are taken as they come.

    `views` are the steps without a node of their own, with the id of the one that shows them;
    `tensors` are the values of tensors, by their ids. `tags` are what is sent for parameters,
    printed beside them.
    """

    graph: Graph
    graphs: Mapping[str, Graph]
    notation: Notation
    leaves: Leaves
    ids: Ids
    inner_collectives: InnerCollectives
    views: dict[Step, str] = field(default_factory=dict[Step, str])
    tensors: dict[str, Value] = field(default_factory=dict[str, Value])
    tags: Mapping[Value, RichText] = field(default_factory=dict[Value, RichText])

    def sources(self) -> list[Terminal]:
        """Return the tensors that begin columns: inputs, and parameters that a node takes first.

        A leaf that the block gives as it is begins one too.
        """
        first = {step.inputs[0] for step in self.steps() if step.inputs} | set(self.graph.outputs)
        params = [value for value in self.graph.param_values() if value in first]
        inputs = [v for v in self.graph.inputs if v not in self.leaves or v in first]
        return [Terminal(value, self.tensor(value)) for value in (*inputs, *params)]

    def results(self) -> list[Terminal]:
        """Return the tensors that the block gives, or keeps for the next step without a use.

        A scalar is a loss: the gradients begin there, so its edge is the one that goes on.
        """
        read = {value for step in self.graph.steps for value in step.inputs}
        values = (state.next for state in self.graph.states if state.next not in read)
        results = sorted(
            dict.fromkeys((*self.graph.outputs, *values)),
            key=lambda value: len(self.graph.types[value].shape) > 0,
        )
        return [Terminal(value, self.tensor(value)) for value in results]

    def operations(self) -> list[DrawnOperation]:
        """Return the operations of all steps that are nodes of their own."""
        return [operation for step in self.steps() for operation in self.drawn(step)]

    def drawn(self, step: Apply | Call) -> list[DrawnOperation]:
        """Return a step's operation and, if it sends something inside, what that goes through."""
        if isinstance(step, Call):
            return [self.call(step)]
        operation, here = self.apply(step), self.inner_collectives.get(step, ())
        nodes = [collective_node(one, self.ids.take(one.id), self.notation) for one in here]
        return through(operation, here, nodes)

    def apply(self, step: Apply) -> DrawnOperation:
        """Return an operator's node; its own tensors are printed in its box.

        One that a step makes, as an all-gather, comes by an arrow behind the other operands.
        """
        own = [value for value in own_tensors(step) if value in self.leaves]
        node_id = self.ids.take(step.place or characters(glyph_of(step)))
        if sends(step):
            node = communication_node(step, node_id, self.notation)
        else:
            detail = self.notation.list_values(own) if own else ()
            node = apply_node(step, node_id, self.notation, detail)
            node = tagged_node(node, [self.tags[value] for value in own if value in self.tags])
        made = set(own_tensors(step)) - set(own)
        arrows = [
            (value, operand_style(step, place))
            for place, value in enumerate(
                step.inputs[:1] if step.op.differentiates else step.inputs
            )
            if value not in own
        ]
        arrows.sort(key=lambda arrow: arrow[0] in made)
        return self._operation(node, arrows, step)

    def call(self, step: Call) -> DrawnOperation:
        """Return a called block's node; what it takes twice comes by one arrow."""
        node_id = self.ids.take(step.path)
        starts = self.leaves.starts
        node = call_node(step, self.graphs, node_id, self.notation, starts=starts)
        self.views.update((starts[v], node_id) for v in step.inputs if v in starts)
        taken = dict.fromkeys(value for value in step.inputs if value not in starts)
        arrows = [(value, EdgeStyle.SINGLE) for value in taken]
        return self._operation(node, arrows, step)

    def _operation(
        self, node: FigureNode, arrows: Sequence[tuple[Value, EdgeStyle]], step: Step
    ) -> DrawnOperation:
        """Separate flows from tensors beside the node: every leaf that is not the first operand.

        The state from the step before is beside too, though it comes first.
        """
        aside = [
            value in self.leaves and (place > 0 or value.role == "state")
            for place, (value, _) in enumerate(arrows)
        ]
        pairs = list(zip(arrows, aside, strict=True))
        flows = tuple(Flow(value, style) for (value, style), leaf in pairs if not leaf)
        asides = [arrow for arrow, leaf in pairs if leaf]
        beside = [(self.tensor(v, place), style) for place, (v, style) in enumerate(asides)]
        remarks = self.notation.remarks
        note = remarks.side_note(node, step)
        if note:
            words = FigureNode(self.ids.take(f"note {node.id}"), NodeKind.NOTE, note)
            beside.append((words, EdgeStyle.NOTE))
        return DrawnOperation(
            remarks.node(node, step),
            flows,
            tuple(step.outputs),
            tuple(beside),
            commutes=isinstance(step, Apply) and kind(step.op) is NodeKind.ADD,
            ordered=True,
        )

    def steps(self) -> list[Apply | Call]:
        """Return the steps that are nodes of their own."""
        return [step for step in self.graph.steps if self.leaves.is_drawn(step)]

    def tensor(self, value: Value, place: int = 0) -> FigureNode:
        """Return the node of a tensor, another one each time: a leaf is drawn at every use.

        Its tags are at the end away from its arrows, which run to the right: the gradient's would
        seem to belong to both. Only a second leaf of a node may be at the right of it.
        """
        label = self.leaves.label(value, self.notation)
        name = self.ids.take(characters(self.notation.symbol(value)) or characters(label))
        self.tensors[name] = value
        tags = self.tags.get(value, ())
        ends = (label, tags) if place else (tags, label)
        label = (*ends[0], *(plain(" ") if tags else ()), *ends[1])
        if value in self.leaves.views:
            self.views[self.leaves.views[value]] = name
        node = FigureNode(name, NodeKind.TENSOR, label, title=characters(label))
        return self.notation.remarks.tensor(node, value)


def rename_values(
    operation: DrawnOperation,
    outside: Mapping[Value, Value],
    home: Callable[[Value], ForwardDrawing | None],
) -> DrawnOperation:
    """Replace the values of an operation in an expanded block with those of the call.

    Tensors beside the call have a drawing as their home: they move beside the operation.
    """
    flows = [replace(flow, value=outside.get(flow.value, flow.value)) for flow in operation.flows]
    homes = [home(flow.value) for flow in flows]
    pairs = list(zip(flows, homes, strict=True))
    asides = [(flow, home) for flow, home in pairs if home]
    beside = (
        (home.tensor(flow.value, place), flow.style)
        for place, (flow, home) in enumerate(asides, len(operation.beside))
    )
    return replace(
        operation,
        flows=tuple(flow for flow, home in pairs if not home),
        outputs=tuple(outside.get(value, value) for value in operation.outputs),
        beside=(*operation.beside, *beside),
    )


def without_reads(graph: Graph) -> Graph:
    """Return the graph without the values that only the body of a gradient reads.

    They are between the loss and the variables that the gradient's box names.
    """
    if not any(isinstance(step, Apply) and step.op.differentiates for step in graph.steps):
        return graph
    return replace(graph, steps=tuple(map(_without_reads, graph.steps)))


def _without_reads(step: Step) -> Step:
    if not isinstance(step, Apply) or not step.op.differentiates:
        return step
    count = 1 + step.op.differentiates
    op = replace(step.op, data=step.op.data[:count], forward=_no_body)
    return replace(step, op=op, inputs=step.inputs[:count])


def _no_body(*_: object, **__: object) -> object:
    """Replace the body of an operator that is drawn without some of its operands."""
    raise AssertionError("a gradient is drawn as one box")


def tagged_node(node: FigureNode, tags: Sequence[RichText]) -> FigureNode:
    """Return a node with what is sent for its parameters in a line of its own."""
    different = tuple(dict.fromkeys(tags))
    return replace(node, lines=(*node.lines, *different)) if different else node


def forward_drawing(
    graph: Graph,
    graphs: Mapping[str, Graph],
    ids: Ids | None = None,
    rank: Mapping[str, int] | None = None,
    *,
    called: bool = False,
    known: InnerCollectives | None = None,
    tags: Mapping[Value, RichText] | None = None,
    tensors: dict[str, Value] | None = None,
    kept: Mapping[Value, str] | None = None,
    stages: Mapping[str, RichText] | None = None,
) -> ForwardDrawing:
    """Return what is needed to draw a graph; of a `called` one all inputs flow in from outside.

    Its inner_collectives are found here where they are not `known`.
    """
    graph = without_reads(with_own_parts(graph))
    collectives = inner_collectives(graph) if known is None else known
    graph = with_inner_collectives(graph, collectives)
    leaves = find_leaves(graph, frozenset(graph.inputs if called else ()))
    notation = replace(Notation.of(graph, rank=rank, kept=kept), stages=stages or {})
    return ForwardDrawing(
        graph,
        graphs,
        notation,
        leaves,
        ids or Ids(),
        collectives,
        tensors={} if tensors is None else tensors,
        tags={} if tags is None else tags,
    )
