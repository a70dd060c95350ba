"""Draw the backward figure of a block: the result of `differentiate` (seed 001).

Gradients flow; parameters and saved values are beside the node that takes them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.diagnostics.terminal import counted
from xg.figures.model.figure import EdgeRole, EdgeStyle, Figure, FigureEdge, FigureNode, NodeKind
from xg.figures.model.richtext import RichText, StyledRun, add_tag, characters, muted, plain, symbol
from xg.figures.views.arrange import Arranged, DrawnOperation, Flow, Terminal, arrange, axis_groups
from xg.figures.views.notation import Notation, explain_symbols, kind
from xg.figures.views.sketch import (
    InnerCollectives,
    backward_inner_collectives,
    collective_node,
    communication_node,
    glyph_of,
    sends,
    through,
    with_inner_collectives,
)
from xg.figures.views.steps import (
    Drawn,
    Ids,
    apply_node,
    call_node,
    differential,
    operand_style,
    stages_of_rows,
    subtitle,
)
from xg.ir.graph import Apply, Backward, Call, Graph, IRProgram, Step, Value
from xg.ir.labels import read_of, saved_names
from xg.ir.walk import callees_first

# Write the gradients of parameters beside the nodes that they come from: a compact backward.
#
# In a full figure, every product with a parameter has two more columns: one for the gradient of its
# matrix and one for the gradient of its bias. They lead nowhere, so each layer makes the figure
# wider. Here an arrow leads from the product to their names: `→ dW, db`. Collectives that they go
# through stay, as tags behind the names. Terms of a sum over several uses of a parameter are named
# where each is made: `dE, 1 of 2`.


_TEXTS: Final = (NodeKind.TENSOR, NodeKind.SAVED)
_SHORT: Final = 14  # letters in a line of several tensors
_NAMES: Final = 11  # letters in a line of names


DrawnSteps = Mapping[Step, Sequence[DrawnOperation]]


@dataclass(frozen=True, slots=True)
class Unfolded:
    """Hold what a backward figure is arranged from; `drawn` has the operations of each step.

    `params` are the gradients of parameters, `results` all others.
    """

    sources: Sequence[Terminal]
    drawn: DrawnSteps
    results: Sequence[Terminal]
    params: Sequence[Terminal]

    @property
    def operations(self) -> list[DrawnOperation]:
        """Return all operations, in the order of the program."""
        return [operation for some in self.drawn.values() for operation in some]


@dataclass(frozen=True, slots=True)
class Compact:
    """The operations and results that stay, and the names beside nodes, by their ids."""

    operations: tuple[DrawnOperation, ...]
    results: tuple[Terminal, ...]
    beside: Mapping[str, FigureNode]


def fold(drawing: Unfolded, notation: Notation, ids: Ids) -> Compact:
    """Fold the operations that only lead to gradients of parameters."""
    folding = _Folding.of(drawing)
    kept = (one for one in drawing.operations if one.node.id not in folding.folded)
    stay = [one for one in drawing.params if one.value in folding.ending]
    names: dict[str, list[RichText]] = defaultdict(list)
    for param in drawing.params:
        for term in folding.terms(param.value) or [param.value]:
            if term not in folding.ending:
                node, sent = folding.place(term)
                words = _which(term, notation) if term is not param.value else ()
                names[node].append(_name(param.node.label, words, sent))
    for result in drawing.results:
        if folding.hangs_aside(result.value):
            names[folding.maker[result.value]].append(_name(result.node.label, (), ()))
        else:
            stay.append(result)
    beside = {node: _tag(some, ids) for node, some in names.items()}
    return Compact(tuple(kept), tuple(stay), beside)


def _which(term: Value, notation: Notation) -> RichText:
    """Return which term of a gradient a value is: `, 1 of 2`."""
    part = notation.parts.get(term)
    return part.words(notation.symbol) if part else ()


def _name(label: RichText, words: RichText, sent: Sequence[FigureNode]) -> RichText:
    """Return the symbol of a gradient, which term of it is made, and what it goes through."""
    tags = (run for one in sent for run in (*plain(" "), *add_tag(one.label, "backward")))
    return (*_name_alone(label), *words, *tags)


def _tag(names: Sequence[RichText], ids: Ids) -> FigureNode:
    """Return the names of gradients as a tensor, some in each line."""
    label = tuple(run for name in names for run in (*plain(", "), *name))[1:]
    first, *lines = in_lines(label)
    title = characters(label)
    return FigureNode(ids.take(title), NodeKind.TENSOR, first, title=title, lines=tuple(lines))


def with_tags(arranged: Arranged, beside: Mapping[str, FigureNode]) -> Arranged:
    """Return a figure with names beside its nodes."""
    nodes = (
        one
        for node in arranged.nodes
        for one in (node, *((beside[node.id],) if node.id in beside else ()))
    )
    outputs = {edge.tail: edge.output for edge in sorted(arranged.edges, key=lambda e: e.output)}
    edges = (
        FigureEdge(node, tag.id, role=EdgeRole.ASIDE, output=outputs.get(node, -1) + 1)
        for node, tag in beside.items()
    )
    return Arranged(tuple(nodes), (*arranged.edges, *edges))


def in_lines(label: RichText, most: int = _SHORT) -> tuple[RichText, ...]:
    """Break a list of tensors into lines of at most `most` letters, with commas at the ends."""
    parts: list[RichText] = [()]
    is_inside = False
    for run in label:
        is_inside = (is_inside or run.text == "[") and run.text != "]"
        if run.text == ", " and not is_inside:
            parts.append(())
        else:
            parts[-1] = (*parts[-1], run)
    lines: list[RichText] = []
    for part in parts:
        longer = (*lines[-1], *plain(", "), *part) if lines else part
        if lines and len(characters(longer)) <= most:
            lines[-1] = longer
        else:
            lines = [*lines[:-1], *((*line, *plain(",")) for line in lines[-1:]), part]
    return tuple(lines)


@dataclass(frozen=True, slots=True)
class _Folding:
    """Which operations are folded into names of gradients.

    `shown` are results other than gradients of parameters. `maker` is the node that computes each
    value, `takers` are the nodes that read it, and `origin` is each node's forward step. A column
    may not end in a node without a result: it continues through the operations `columns` to the
    gradients `ending`.
    """

    params: Collection[Value]
    shown: frozenset[Value]
    operations: Mapping[str, DrawnOperation]
    maker: Mapping[Value, str]
    takers: Mapping[Value, Sequence[str]]
    origin: Mapping[str, Step | None]
    places: Mapping[str, int]
    folded: set[str] = field(default_factory=set[str])
    columns: set[str] = field(default_factory=set[str])
    ending: set[Value] = field(default_factory=set[Value])

    @classmethod
    def of(cls, drawing: Unfolded) -> _Folding:
        """Find the operations to fold: those that only lead to gradients of parameters."""
        operations = {one.node.id: one for one in drawing.operations}
        maker = {one.value: one.node.id for one in drawing.sources}
        maker |= {value: one.node.id for one in drawing.operations for value in one.outputs}
        takers: dict[Value, list[str]] = defaultdict(list)
        for one in drawing.operations:
            for flow in one.flows:
                takers[flow.value].append(one.node.id)
        folding = cls(
            frozenset(one.value for one in drawing.params),
            frozenset(one.value for one in drawing.results),
            operations,
            maker,
            takers,
            {one.node.id: step.origin for step, some in drawing.drawn.items() for one in some},
            {node: place for place, node in enumerate(operations)},
        )
        for node, one in reversed(operations.items()):
            is_block = one.node.kind is NodeKind.BLOCK
            if one.flows and one.outputs and not is_block and all(map(folding._ends, one.outputs)):
                folding.folded.add(node)
        for source in drawing.sources:
            folding._go_on_below([source.value])
        for node, one in operations.items():
            if node not in folding.folded:
                folding._go_on_below(one.outputs)
        return folding

    def _ends(self, value: Value) -> bool:
        """Return whether a value only leads to gradients of parameters."""
        takers = self.takers.get(value, ())
        is_used = value in self.params or bool(takers)
        return is_used and value not in self.shown and self.folded.issuperset(takers)

    def _go_on_below(self, outputs: Sequence[Value]) -> None:
        """If a column ends here, continue it to a gradient, through a product if there is one."""
        if not outputs or not all(map(self._ends, outputs)):
            return
        value = outputs[0]
        takers = [node for node in self.takers.get(value, ()) if self._leads_from(value, node)]
        products = [node for node in takers if self._kind(node) is NodeKind.MATMUL]
        if takers:
            self.folded.discard((products or takers)[0])
            self.columns.add((products or takers)[0])
        elif value in self.params:
            self.ending.add(value)

    def _leads_from(self, value: Value, node: str) -> bool:
        return self._kind(node) is not NodeKind.ADD and self._last_flow(node) is value

    def _kind(self, node: str) -> NodeKind:
        return self.operations[node].node.kind

    def _last_flow(self, node: str) -> Value:
        """Return the operand that is computed last."""
        flows = [flow.value for flow in self.operations[node].flows]
        return max(flows, key=lambda value: self.places.get(self.maker[value], -1))

    def terms(self, gradient: Value) -> list[Value]:
        """Return the terms of a gradient that a folded sum adds up; other gradients have none."""
        maker = self.maker[gradient]
        if maker not in self.folded or self._kind(maker) is not NodeKind.ADD:
            return []
        flows = [flow.value for flow in self.operations[maker].flows]
        return [term for value in flows for term in self.terms(value) or [value]]

    def place(self, gradient: Value) -> tuple[str, list[FigureNode]]:
        """Return the node beside which a gradient's name is, and the collectives on the way."""
        value, sent, maker = gradient, list[FigureNode](), ""
        while self.maker[value] in self.folded:
            maker = self.maker[value]
            if self._kind(maker) is NodeKind.COMMUNICATION:
                sent.append(self.operations[maker].node)
            value = self._last_flow(maker)
        return (self._host(value, maker) if maker else self.maker[value]), sent[::-1]

    def hangs_aside(self, result: Value) -> bool:
        """Return whether a result is beside the column of the node that makes it.

        The column then continues, or ends in another result.
        """
        maker = self.maker[result]
        if result.role != "cotangent" or maker not in self.operations or self._stay(result):
            return False
        outputs = self.operations[maker].outputs
        if any(map(self._stay, outputs)):
            return True
        return next(one for one in outputs if one in self.shown or one in self.ending) is not result

    def _stay(self, value: Value) -> bool:
        return any(node not in self.folded for node in self.takers.get(value, ()))

    def _host(self, value: Value, folded: str) -> str:
        """Return the product that a folded one belongs to, else one of a layer, else the maker.

        All take the value; a bias has no product of its own.
        """
        takers = self.takers.get(value, ())
        products = [node for node in takers if self._kind(node) is NodeKind.MATMUL]
        layers = {self.origin[node] for node in products if node in self.folded}
        hosts = [
            node
            for node in products
            if node not in self.folded and (node in self.columns or self.origin[node] in layers)
        ]
        own = [node for node in hosts if self.origin[node] is self.origin[folded]]
        return next(iter((*own, *hosts)), self.maker[value])


def without_shapes(figure: Figure) -> Figure:
    """Return a figure whose values only have names; its inputs and outputs keep their shapes.

    A gradient has the shape of its value. The forward figure shows that, and the lanes of axes,
    which are left out here.
    """
    aside = {edge.tail for edge in figure.edges if edge.role is EdgeRole.SIDE}
    nodes = (
        _names_alone(node) if node.kind in _TEXTS and node.id in aside else node
        for node in figure.nodes
    )
    edges = (replace(edge, label=_name_alone(edge.label)) for edge in figure.edges)
    groups = tuple(group for group in figure.groups if not group.is_axis)
    return replace(figure, nodes=tuple(nodes), edges=tuple(edges), groups=groups)


def _names_alone(node: FigureNode) -> FigureNode:
    spaces = (run for line in node.lines for run in (*plain(" "), *line))
    label = _name_alone((*node.label, *spaces))
    joined = tuple(replace(run, text=", ") if run.text == "," else run for run in label)
    first, *lines = in_lines(tuple(run for run in joined if run.text != " "), _NAMES)
    return replace(node, label=first, lines=tuple(lines))


def _name_alone(label: RichText) -> RichText:
    """Return a label without shapes; a label that is only a shape stays."""
    runs: list[StyledRun] = []
    is_inside = False
    for run in label:
        if run.text == "[" and runs:
            is_inside = True
            runs = runs[:-1] if runs[-1].text == " " else runs
        if not is_inside:
            runs.append(run)
        is_inside = is_inside and run.text != "]"
    return tuple(runs)


# The cotangents that a backward pass reads: gradients do not flow through others.
#
# A call takes those of all outputs of its block, of which the block may use no more than some: that
# of a number of dropped tokens leads nowhere.


Read = Mapping[str, Collection[Value]]  # the cotangents that a backward pass reads, by its key


def read_cotangents(program: IRProgram) -> Read:
    """Return the cotangents that each backward pass reads, or gives as a gradient."""
    found: dict[str, frozenset[Value]] = {}
    for key, backward in program.backwards.items():  # callees first
        read = set(backward.gradients.values())
        for step in reversed(backward.steps):
            if leads_on(step, read):
                read.update(taken_by(step, program, found))
        found[key] = frozenset(read)
    return found


def leads_on(step: Step, read: Collection[Value]) -> bool:
    """Return whether something reads what a step makes: not zeros for an output without a gradient.

    A call may make gradients of parameters alone, which are no outputs of it.
    """
    return isinstance(step, Call) or any(value in read for value in step.outputs)


def taken_by(step: Step, program: IRProgram, read: Read) -> Sequence[Value]:
    """Return the inputs of a step of a backward pass that lead on: of a call those that are read.

    A block that is computed again is called with values of the forward pass, and a loop has states:
    they take all.
    """
    if not isinstance(step, Call) or step.loop is not None or step.origin is None:
        return step.inputs
    pairs = zip(step.inputs, program.backwards[step.callee].inputs, strict=True)
    return [value for value, cotangent in pairs if cotangent in read[step.callee]]


# The gradient of an output beside a loss, which is zero where training takes the loss alone.


_WORDS: Final = muted(plain("0 if unused"))  # nothing outside of the block takes the output


def unused_note(value: Value, graph: Graph) -> RichText:
    """Return `0 if unused` for an output with axes beside one without, else nothing."""
    return _WORDS if _is_beside_a_loss(value, graph) else ()


def with_words(label: RichText, words: RichText) -> RichText:
    """Return a label followed by words."""
    return (*label, *muted(plain(", ")), *words) if label and words else (*label, *words)


def _is_beside_a_loss(value: Value, graph: Graph) -> bool:
    types = [graph.types[output] for output in graph.outputs]
    has_loss = any(one.is_float and not one.shape for one in types)
    return has_loss and value in graph.outputs and bool(graph.types[value].shape)


_IN_A_LINE: Final = 6  # gradients of parameters that a line of a box names
_MOST_LISTED: Final = 2 * _IN_A_LINE


def backward_figure(
    program: IRProgram, backward: Backward, *, legend: bool = False, compact: bool = False
) -> Figure:
    """Return the backward figure of one of a program's graphs."""
    return backward_drawn(program, backward, legend=legend, compact=compact).figure


def backward_drawn(
    program: IRProgram,
    backward: Backward,
    *,
    legend: bool = False,
    kept: Mapping[Value, str] | None = None,
    compact: bool = False,
) -> Drawn:
    """Return the backward figure of one of a program's graphs, and where its steps are in it.

    A `compact` figure names the gradients of parameters beside the nodes that they come from. It
    leaves out the steps that make them.
    """
    inner_collectives = backward_inner_collectives(backward)
    graph = with_inner_collectives(backward.forward, inner_collectives)
    kept = saved_names(program, graph.key) if kept is None else kept
    drawing = BackwardDrawing(
        backward,
        program,
        replace(Notation.of(graph, backward, kept=kept), stages=stages_of_rows(program)),
        inner_collectives,
        _made_again(backward),
        _ambiguous(program, backward),
        read_cotangents(program),
        in_lines if compact else _in_a_line,
    )
    read = drawing.read[backward.forward.key]
    drawn = {step: drawing.drawn(step) for step in backward.steps if leads_on(step, read)}
    notation, count = drawing.notation, len(drawn)
    if compact:
        drawn, arranged = drawing.fold(drawn)
    else:
        operations = [operation for some in drawn.values() for operation in some]
        arranged = arrange(drawing.sources(), operations, drawing.results(), notation)
    cotangents = ", ".join(characters(notation.gradient(value)) for value in backward.cotangents)
    figure = Figure(
        graph.title or graph.block,
        subtitle("backward pass", program),
        f"Computes {counted(len(backward.gradients), 'gradient')} from {cotangents}"
        f" in {counted(count, 'step')}.",
        arranged.nodes,
        arranged.edges,
        axis_groups(arranged, drawn, notation),
        legend,
        explained=explain_symbols(drawing.saved(), notation),
    )
    return Drawn(figure, {step: some[0].node.id for step, some in drawn.items()})


@dataclass(frozen=True, slots=True)
class BackwardDrawing:
    """The tensors and nodes of one graph's backward pass.

    `again` are values of the forward pass that this one makes again, and whether of parameters;
    `ambiguous` are names of parameters of calls that another call or the block has, too; `read` are
    the cotangents that each backward pass of the program reads; `listed` puts several tensors into
    lines.
    """

    backward: Backward
    program: IRProgram
    notation: Notation
    inner_collectives: InnerCollectives
    again: Mapping[Value, bool]
    ambiguous: Collection[str]
    read: Read
    listed: Callable[[RichText], Sequence[RichText]]
    ids: Ids = field(default_factory=Ids)

    def sources(self) -> list[Terminal]:
        """Return the gradients of the block's outputs, except those that reach nothing.

        Where the block takes an output itself, only the sum of both is the output's gradient. The
        pass begins at a scalar, a loss: its column is the one that goes on.
        """
        totals, sources = self.backward.totals, list[Terminal]()
        read = self.read[self.backward.forward.key]
        for primal, seed in self.backward.cotangents.items():
            if seed not in read:
                continue
            node = self._gradient(primal)
            if totals.get(primal, seed) is not seed:
                node = replace(node, label=(*node.label, *muted(plain(" from outside"))))
            words = unused_note(primal, self.backward.forward)
            node = replace(node, label=with_words(node.label, words))
            sources.append(Terminal(seed, node))
        return sorted(sources, key=lambda one: len(self.notation.type(one.value).shape) > 0)

    def results(self) -> list[Terminal]:
        """Return the gradients of inputs and parameters."""
        pairs = self.backward.gradients.items()
        results = [Terminal(gradient, self._gradient(primal)) for primal, gradient in pairs]
        again = dict.fromkeys(
            value
            for step in self.backward.steps
            for value in step.inputs
            if value in self.again and not self._flows(value, step)
        )
        label = self.notation.label
        return results + [Terminal(v, self._tensor(label(v), NodeKind.TENSOR)) for v in again]

    def fold(self, drawn: DrawnSteps) -> tuple[DrawnSteps, Arranged]:
        """Arrange the pass without the steps that only lead to gradients of parameters."""
        params = set(self.backward.param_values())
        own = [primal in params for primal in self.backward.gradients]
        results, sources = self.results(), self.sources()
        ends = [one for one, is_own in zip_longest(results, own) if not is_own]
        named = [one for one, is_own in zip_longest(results, own) if is_own]
        kept = fold(Unfolded(sources, drawn, ends, named), self.notation, self.ids)
        stay = {one.node.id for one in kept.operations}
        left = {
            step: operations
            for step, some in drawn.items()
            if (operations := [one for one in some if one.node.id in stay])
        }
        arranged = arrange(sources, kept.operations, kept.results, self.notation)
        return left, with_tags(arranged, kept.beside)

    def drawn(self, step: Step) -> list[DrawnOperation]:
        """Return a step's operation and, if it sends something inside, what that goes through."""
        if isinstance(step, Call):
            return [self._call(step)]
        operation, here = self._apply(step), self.inner_collectives.get(step, ())
        nodes = [collective_node(one, self.ids.take(f"d{one.id}"), self.notation) for one in here]
        return through(operation, here, nodes)

    def _apply(self, step: Apply) -> DrawnOperation:
        name = characters(self.notation.symbol(step.outputs[0]))
        node_id = self.ids.take(f"{characters(glyph_of(step))} {name}".rstrip())
        if sends(step):
            node = communication_node(step, node_id, self.notation)
        else:
            node = apply_node(step, node_id, self.notation)
        places = [(place, value) for place, value in enumerate(step.inputs)]
        flowing = [(p, value) for p, value in places if self._flows(value, step)]
        flowing.sort(key=lambda pair: pair[1].role != "cotangent")
        saved = [(p, value) for p, value in places if not self._flows(value, step)]
        flows = tuple(self._flow(step, place, value) for place, value in flowing)
        return DrawnOperation(
            self._mark_node(node, step),
            flows,
            step.outputs,
            self._kept(step, saved),
            commutes=kind(step.op) is NodeKind.ADD,
        )

    def _flow(self, step: Apply, place: int, value: Value) -> Flow:
        """Return an operand that comes by an arrow; a product's matrix may have axes as one."""
        text = self.notation.operand(step, place) if self.notation.joins_axes(step, place) else ()
        return Flow(value, operand_style(step, place), text)

    def _flows(self, value: Value, step: Step) -> bool:
        """Return whether a value comes to a step by an arrow: a gradient, or what is made again.

        A value of the forward pass that is computed again ends in its name: steps that take
        gradients have that beside them, as if it were saved. A parameter has one way to go.
        """
        if value.role == "cotangent" or value not in self.again:
            return value.role == "cotangent"
        takes_gradients = any(other.role == "cotangent" for other in step.inputs)
        return self.again[value] or not takes_gradients or not self.notation.symbol(value)

    def _call(self, call: Call) -> DrawnOperation:
        node_id = self.ids.take(f"d {call.path}")
        node = call_node(call, self.program.graphs, node_id, self.notation, differential)
        node = replace(node, lines=(*node.lines, *self._call_gradients(call)))
        given = taken_by(call, self.program, self.read)
        flows = tuple(map(Flow, self._loss_first(given)))
        return DrawnOperation(self._mark_node(node, call), flows, call.outputs, self._read(call))

    def _loss_first(self, gradients: Sequence[Value]) -> Sequence[Value]:
        """Return gradients in the order in which they enter a call.

        Where all come from outside and enter nothing else, a scalar is first. It is a loss, where
        the pass begins: its column is the one that goes on.
        """
        reads = Counter(value for step in self.backward.steps for value in step.inputs)
        seeds = {value for value in self.backward.cotangents.values() if reads[value] == 1}
        if not seeds.issuperset(gradients):
            return gradients
        return sorted(gradients, key=lambda one: len(self.notation.type(one).shape) > 0)

    def saved(self) -> Iterator[Value]:
        """Yield what steps read of the forward pass, and calls of what they took."""
        for step in self.backward.steps:
            if isinstance(step, Apply):
                yield from step.inputs
            elif step.origin:
                yield from read_of(step.origin, self.program)

    def _call_gradients(self, call: Call) -> tuple[RichText, ...]:
        """Return lines with the gradients of parameters that a call's backward pass makes.

        Of parameters of calls inside of it only their number is there.
        """
        inner = self.program.backwards[call.callee]
        names = [value.name or "" for value, _ in inner.param_gradients()]
        count = _count_gradients(self.program, call.callee)
        if not 0 < len(names) <= _MOST_LISTED:
            return (plain(f"gradients of {counted(count, 'parameter')}"),) if count else ()
        lines, more = -(-len(names) // _IN_A_LINE), count - len(names)
        ends = [number * len(names) // lines for number in range(lines + 1)]
        *first, last = (
            self._gradient_list(call, names[start:end]) for start, end in pairwise(ends)
        )
        return (*first, (*last, *plain(f", {more} more" if more else "")))

    def _gradient_list(self, call: Call, names: Sequence[str]) -> RichText:
        """Return gradients of parameters with commas between them."""
        runs: list[StyledRun] = []
        for name in names:
            index, own = call.path if name in self.ambiguous else "", name.rpartition(".")[2]
            runs += (*plain(", " if runs else ""), *symbol(own, gradient=True, index=index))
        return tuple(runs)

    def _read(self, call: Call) -> tuple[tuple[FigureNode, EdgeStyle], ...]:
        """Return the tensor beside a call: what its backward pass reads of what the call took."""
        taken = read_of(call.origin, self.program) if call.origin else []
        read = [value for value in taken if self.notation.symbol(value)]
        if not read:
            return ()
        return ((self._list(read), EdgeStyle.SINGLE),)

    def _mark_node(self, node: FigureNode, step: Step) -> FigureNode:
        """Return a node in the mark of what it differentiates; notes are in the forward figure."""
        return replace(node, mark=self.notation.remarks.node(node, step).mark)

    def _kept(
        self, step: Apply, kept: list[tuple[int, Value]]
    ) -> tuple[tuple[FigureNode, EdgeStyle], ...]:
        """Return the tensor beside a node: one operand, or one list of all that it needs."""
        if not kept:
            return ()
        if len(kept) > 1:
            return ((self._list([value for _, value in kept]), EdgeStyle.SINGLE),)
        ((place, value),) = kept
        label = self.notation.operand(step, place) or plain("[]")
        of_kind = NodeKind.TENSOR if self._is_parameter(value) else NodeKind.SAVED
        node = replace(self._tensor(label, of_kind), mark=self.notation.mark(value))
        return ((node, operand_style(step, place)),)

    def _list(self, values: Sequence[Value]) -> FigureNode:
        """Return several saved tensors as one node."""
        node = self._tensor(self.notation.list_values(values), NodeKind.SAVED)
        first, *lines = self.listed(node.label)
        return replace(node, label=first, lines=tuple(lines))

    def _is_parameter(self, value: Value) -> bool:
        """Return whether a value is a parameter or its transpose."""
        name = self.notation.transposes.get(value)
        params = self.backward.param_values()
        return value.role == "param" or any(name == param.name for param in params)

    def _gradient(self, primal: Value) -> FigureNode:
        node = self._tensor(self.notation.gradient(primal), NodeKind.TENSOR)
        return replace(node, mark=self.notation.mark(primal))

    def _tensor(self, label: RichText, of_kind: NodeKind) -> FigureNode:
        title = characters(label)
        name = title.partition(" [")[0] or title
        if of_kind is NodeKind.SAVED:
            title = f"{title}, saved in the forward pass"
        return FigureNode(self.ids.take(name), of_kind, label, title=title)


def _in_a_line(label: RichText) -> Sequence[RichText]:
    return (label,)


def _count_gradients(program: IRProgram, callee: str) -> int:
    """Count the parameters with a gradient of a block, and of the calls in it."""

    def inside(key: str) -> list[str]:
        calls = {call.path: call.callee for call in program.backwards[key].forward.calls}
        return [one for one in calls.values() if one in program.backwards]

    counts: dict[str, int] = {}
    for key in callees_first([callee], inside):
        own = sum(1 for _ in program.backwards[key].param_gradients())
        counts[key] = own + sum(counts[one] for one in inside(key))
    return counts[callee]


def _ambiguous(program: IRProgram, backward: Backward) -> set[str]:
    """Find the parameter names of calls that other values have too."""
    graph = backward.forward
    names = Counter(value.name or "" for value in graph.types)
    for callee in {call.path: call.callee for call in graph.calls}.values():
        params = program.graphs[callee].param_values()
        names.update({value.name or "" for value in params})
    return {name for name, count in names.items() if count > 1}


def _made_again(backward: Backward) -> dict[Value, bool]:
    """Find values of the forward pass that are made again, and whether from parameters alone."""
    again: dict[Value, bool] = {}
    for step in backward.steps:
        if isinstance(step, Apply):
            alone = all(value.role == "param" or again.get(value, False) for value in step.inputs)
            again |= {value: alone for value in step.outputs if value.role != "cotangent"}
    return again
