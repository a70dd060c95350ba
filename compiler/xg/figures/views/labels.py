"""Find what labels add to values: the file's remarks, names from steps, gradient terms.

A value without a name has that of the tensor whose elements it has, and each term of a gradient
says which it is, because readers stop at arrows that only have a shape. Names inside of calls get
the call's name as an index if another thing in the figure has the same name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.model.figure import Emphasis, FigureGroup, FigureNode, NodeKind
from xg.figures.model.richtext import NOTE_SPACE, RichText, StyledRun, muted, plain
from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Backward, Call, Graph, Remark, Step, Value
from xg.ir.moves import collective
from xg.ir.placement import is_term

_IN_A_BOX: Final = 32  # letters in a line of a note in a box
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
        """Return the remarks of a graph; most graphs have none."""
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
        """Return the note that follows the label of a value."""
        return _note_run(self._at(value))

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
        words = _words(here) if node.kind not in _WITHOUT_TEXT else ""
        lines = (*node.lines, *map(plain, wrap(words, _IN_A_BOX)))
        return replace(node, mark=_mark(here), lines=lines)

    def side_note(self, node: FigureNode, step: Step) -> RichText:
        """Return the note that is written beside a node without text."""
        return plain(_words(self._of(step))) if node.kind in _WITHOUT_TEXT else ()

    def group(self, group: FigureGroup, call: Call) -> FigureGroup:
        """Return the frame of an opened call as it is marked."""
        here = self._of(call)
        if not here:
            return group
        return replace(group, label=(*group.label, *_note_run(here)), mark=_mark(here))

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
        here += (remark for value in step.outputs for remark in self._maker_remarks(value))
        here += (remark for value in own if value.role == "param" for remark in self._at(value))
        return tuple(here)

    def _maker_remarks(self, value: Value) -> Iterator[Remark]:
        for name in dict.fromkeys((*self.names.get(value, ()), value.name or "")):
            yield from self.makers.get(name, ())


def _mark(remarks: tuple[Remark, ...]) -> Emphasis:
    return Emphasis.HIGHLIGHTED if any(remark.highlights for remark in remarks) else Emphasis.NONE


def _note_run(remarks: tuple[Remark, ...]) -> RichText:
    """Return the notes that follow a label: quiet, unless they are about what is highlighted."""
    return behind(_words(remarks), _mark(remarks))


def behind(text: str, mark: Emphasis) -> RichText:
    """Return a note as it follows a label."""
    quiet = mark is Emphasis.NONE
    return (StyledRun(f"{NOTE_SPACE}{text}", italic=True, muted=quiet),) if text else ()


def _words(remarks: tuple[Remark, ...]) -> str:
    return ", ".join(dict.fromkeys(remark.text for remark in remarks if remark.text))


# Names that steps give to values without one: of a sum to its terms, of a tensor to its parts.


def terms_of_sums(graph: Graph) -> dict[Value, str]:
    """Name the terms that the file does not name after their sum; what a bias follows has none."""
    named: dict[Value, str] = {}
    for step in reversed(graph.steps):
        if isinstance(step, Apply) and step.op.family == FAMILY:
            (result, *_), first = step.outputs, step.inputs[0]
            name = result.name or named.get(result)
            if name and first.name is None:
                named[first] = name
    return {value: name for value, name in named.items() if is_term(graph.placements.get(value))}


def names_of_same_elements(graph: Graph, *, is_brief: bool = False) -> dict[Value, str]:
    """Name each value that has the elements of a named value, or of its part, in another shape.

    A reshape or a move is between both: Q [B, S, D] -> R : Q [B, N_H, S, D_h]. A value that goes
    elsewhere, too, is not named after what becomes of it, nor one of which a transpose, KT, is
    made. If it is brief, only what is put together of a parameter's parts has a name.
    """
    moves = [step for step in graph.steps if isinstance(step, Apply) and _keeps_elements(step)]
    if is_brief:
        moves = [one for one in moves if _gathers(one) and one.inputs[0].role == "param"]
    named: dict[Value, str] = {}
    for step in moves:
        before, (after, *_) = step.inputs[0], step.outputs
        name = before.name or named.get(before)
        if name and after.name is None:
            named[after] = name
    uses = Counter(value for step in graph.steps for value in step.inputs)
    uses.update(graph.outputs)
    for step in reversed(moves):
        before, (after, *_) = step.inputs[0], step.outputs
        name = after.name or named.get(after)
        if not name or _names_transpose(name) or before.name is not None:
            continue
        if before not in named and uses[before] == 1:
            named[before] = name
    return named


def _names_transpose(name: str) -> bool:
    """Return whether a name such as KT says that its value is a transpose."""
    return len(name) > 1 and name.endswith("T") and name[:-1].isupper()


def _keeps_elements(step: Apply) -> bool:
    record = collective(step.op)
    return record.keeps_elements if record else step.op.glyph == "R"


def _gathers(step: Apply) -> bool:
    record = collective(step.op)
    return record is not None and record.gathers


def transpose_names(graph: Graph, same: Mapping[Value, str]) -> dict[Value, str]:
    """Find values such as KT = T(K), and unnamed ones such as T(E)."""
    turned = [
        (step, step.inputs[0].name or same.get(step.inputs[0]))
        for step in graph.steps
        if isinstance(step, Apply) and step.op.glyph == "T" and swaps_last_two(step)
    ]
    return {
        step.outputs[0]: name
        for step, name in turned
        if name and step.outputs[0].name in (None, f"{name}T")
    }


def swaps_last_two(step: Apply) -> bool:
    """Return whether a T only exchanges the last two axes, which is written ⊤."""
    order: tuple[int, ...] = step.attrs["order"]
    count = len(order)
    return order == (*range(count - 2), count - 1, count - 2)


# Terms of gradients: where several nodes give a gradient of one tensor, each gives a term.
#
# Only their sum is the tensor's gradient: dH [B, S, D], and each term is dH [B, S, D], 1 of 3. One
# that is the gradient of another tensor has that name, and is not counted: the others are less
# that one.


_SUM: Final = "⊕"
_MANY: Final = 3  # numbers that are written as a range
_NAMED: Final = 3  # names that are all written


@dataclass(frozen=True, slots=True)
class GradientPart:
    """A part of a gradient: the tensor it belongs to, and which of its terms it is.

    `terms` are numbers of those without another name. Gradients of other tensors are `among` them;
    a part that has all but these is `less` them.
    """

    primal: Value
    terms: str = ""
    among: tuple[Value, ...] = ()
    less: tuple[Value, ...] = ()

    def words(self, symbol: Callable[[Value], RichText]) -> RichText:
        """Return which terms it is, in the quiet colour of shapes."""
        others = self.less or self.among
        runs = plain(", less " if self.less else f", {self.terms}" if not others else ", ")
        few = others if len(others) <= _NAMED else (others[0], others[-1])
        for one in few:
            between = " + " if few is others else " + … + "
            runs += (*(plain(between) if one is not few[0] else ()), *symbol(one))
        return muted((*runs, *plain(f" + {self.terms}" if self.among and self.terms else "")))


def gradient_parts(backward: Backward, names: Container[Value]) -> dict[Value, GradientPart]:
    """Find the terms of gradients of tensors that have a name, a label or another.

    Only sums that differentiation makes have terms, none that a block or a rank adds up itself.
    """
    sums = {
        step.outputs[0]: step.inputs
        for step in backward.steps
        if isinstance(step, Apply) and step.op.glyph == _SUM and step.origin is None
    }

    def has_name(gradient: Value, term_of: Value) -> bool:
        """As in figures: the whole gradient of another tensor with a name."""
        primal = backward.of.get(gradient)
        if primal is None or primal is term_of:
            return False
        is_whole = backward.totals.get(primal, gradient) is gradient
        return bool(gradient.name) or (is_whole and primal in names)

    return {
        value: part
        for total, primal in backward.of.items()
        if primal.name or primal in names
        for value, part in _parts(primal, _terms_and_sums(total, sums, backward.of), has_name)
    }


def _terms_and_sums(
    total: Value, sums: Mapping[Value, Sequence[Value]], whole: Container[Value]
) -> tuple[list[Value], list[Value]]:
    """Return what is added up to a gradient, the first first, and the sums of two and more.

    A term that is the gradient of another tensor, too, may be a sum itself, but of other terms.
    """
    chain = [total]
    while chain[-1] in sums and (chain[-1] is total or chain[-1] not in whole):
        chain.append(sums[chain[-1]][0])
    first, *added = reversed(chain)
    return [first, *(sums[one][1] for one in added)], added


def _parts(
    primal: Value,
    added: tuple[list[Value], list[Value]],
    has_name: Callable[[Value, Value], bool],
) -> Iterator[tuple[Value, GradientPart]]:
    """Yield the terms of a gradient, and the sums of some."""
    terms, sums = added
    others = [one for one in terms if has_name(one, primal)]
    own = [one for one in terms if one not in others]
    groups = [(one, [one]) for one in own if len(terms) > 1]
    groups += [(one, terms[: count + 2]) for count, one in enumerate(sums[:-1])]
    for value, group in groups:
        numbers = [own.index(one) + 1 for one in group if one in own]
        if len(numbers) == len(own):
            missing = tuple(one for one in others if one not in group)
            yield value, GradientPart(primal, less=missing)
        else:
            among = tuple(one for one in group if one in others)
            count = f"{_number_range(numbers)} of {len(own)}" if numbers else ""
            yield value, GradientPart(primal, count, among)


def _number_range(numbers: Sequence[int]) -> str:
    """Return numbers that follow each other."""
    return " + ".join(map(str, numbers)) if len(numbers) < _MANY else f"{numbers[0]}–{numbers[-1]}"
