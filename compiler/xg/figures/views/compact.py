"""Write the gradients of parameters beside the nodes that they come from: a compact backward.

In a full figure, every product with a parameter has two more columns: one for the gradient of its
matrix and one for the gradient of its bias. They lead nowhere, so each layer makes the figure
wider. Here an arrow leads from the product to their names: `→ dW, db`. Collectives that they go
through stay, as tags behind the names. Terms of a sum over several uses of a parameter are named
where each is made: `dE, 1 of 2`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.model.figure import EdgeRole, Figure, FigureEdge, FigureNode, NodeKind
from xg.figures.model.richtext import (
    RichText,
    StyledRun,
    add_tag,
    characters,
    plain,
)
from xg.figures.views.arrange import Arranged, DrawnOperation, Terminal
from xg.figures.views.notation import Notation
from xg.figures.views.steps import Ids
from xg.ir.graph import Step, Value

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
