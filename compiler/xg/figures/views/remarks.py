"""The remarks of a file for its figures: which places are highlighted, and the notes at them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.figure import Emphasis, FigureGroup, FigureNode, NodeKind
from xg.figures.model.richtext import RichText, StyledRun, plain
from xg.ir.graph import Apply, Call, Graph, Remark, Step, Value

_WITHOUT_TEXT: Final = (NodeKind.MATMUL, NodeKind.ADD, NodeKind.MUL)


@dataclass(frozen=True, slots=True)
class Remarks:
    """The remarks of a block by where they are drawn: edges, the nodes that make them, calls."""

    edges: Mapping[str, tuple[Remark, ...]] = field(default_factory=dict[str, "tuple[Remark, ...]"])
    makers: Mapping[str, tuple[Remark, ...]] = field(
        default_factory=dict[str, "tuple[Remark, ...]"]
    )
    names: Mapping[Value, tuple[str, ...]] = field(default_factory=dict[Value, "tuple[str, ...]"])

    @classmethod
    def of(cls, graph: Graph) -> Remarks:
        """Return the remarks of a graph; nearly always there is none."""
        if not graph.remarks:
            return cls()
        names: dict[Value, tuple[str, ...]] = {}
        for name, value in (*graph.names(), *zip(graph.output_names, graph.outputs, strict=True)):
            names[value] = (*names.get(value, ()), name)
        places: dict[bool, dict[str, tuple[Remark, ...]]] = {False: {}, True: {}}
        for remark in graph.remarks:
            there = places[remark.is_node]
            there[remark.name] = (*there.get(remark.name, ()), remark)
        return cls(places[False], places[True], names)

    def mark(self, value: Value) -> Emphasis:
        """Return how the edges of a value are drawn."""
        return _mark(self._at(value))

    def note(self, value: Value) -> RichText:
        """Return what is written behind the label of a value."""
        return _behind(self._at(value))

    def tensor(self, node: FigureNode, value: Value) -> FigureNode:
        """Return the text of a tensor with its note, if it has one."""
        if not self.edges:
            return node
        return replace(node, label=(*node.label, *self.note(value)), mark=self.mark(value))

    def node(self, node: FigureNode, step: Step) -> FigureNode:
        """Return the node of a step as it is marked; a box has its notes as lines of its own."""
        here = self._of(step)
        if not here:
            return node
        text = plain(_words(here)) if node.kind not in _WITHOUT_TEXT else ()
        lines = (*node.lines, *((text,) if text else ()))
        return replace(node, mark=_mark(here), lines=lines)

    def beside(self, node: FigureNode, step: Step) -> RichText:
        """Return the note that is written beside a node without text."""
        return plain(_words(self._of(step))) if node.kind in _WITHOUT_TEXT else ()

    def group(self, group: FigureGroup, call: Call) -> FigureGroup:
        """Return the frame of an opened call as it is marked."""
        here = self._of(call)
        if not here:
            return group
        return replace(group, label=(*group.label, *_behind(here)), mark=_mark(here))

    def _at(self, value: Value) -> tuple[Remark, ...]:
        if not self.edges:
            return ()
        names = dict.fromkeys((*self.names.get(value, ()), value.name or ""))
        return tuple(remark for name in names for remark in self.edges.get(name, ()))

    def _of(self, step: Step) -> tuple[Remark, ...]:
        """Return the remarks at a step, a call by its name or any by what it makes."""
        step = step.origin or step
        here = list(self.edges.get(step.path, ()) if isinstance(step, Call) else ())
        own = step.inputs if isinstance(step, Apply) and step.op.own else ()
        here += (remark for value in step.outputs for remark in self._made(value))
        here += (remark for value in own if value.role == "param" for remark in self._at(value))
        return tuple(here)

    def _made(self, value: Value) -> Iterator[Remark]:
        for name in dict.fromkeys((*self.names.get(value, ()), value.name or "")):
            yield from self.makers.get(name, ())


def _mark(remarks: tuple[Remark, ...]) -> Emphasis:
    return Emphasis.HIGHLIGHTED if any(remark.highlights for remark in remarks) else Emphasis.NONE


def _behind(remarks: tuple[Remark, ...]) -> RichText:
    """Return the notes that follow a label: quiet, unless they are about what is highlighted."""
    return behind(_words(remarks), _mark(remarks))


def behind(text: str, mark: Emphasis) -> RichText:
    """Return a note as it follows a label."""
    quiet = mark is Emphasis.NONE
    return (StyledRun(f"  {text}", italic=True, muted=quiet),) if text else ()


def _words(remarks: tuple[Remark, ...]) -> str:
    return ", ".join(dict.fromkeys(remark.text for remark in remarks if remark.text))
