"""Write the values and operators of a graph as in its figures (seed 001, section 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import groupby
from textwrap import wrap
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.model import richtext
from xg.figures.model.figure import Emphasis, ExplainedSymbol, FigureGroup, FigureNode, NodeKind
from xg.figures.model.richtext import NOTE_SPACE, RichText, StyledRun, muted, plain
from xg.ir.dim import ONE, Dim, product
from xg.ir.graph import Apply, Backward, Call, Graph, Remark, Step, Value
from xg.ir.moves import collective
from xg.ir.op import Op
from xg.ir.placement import FAMILY, PARTIAL, dual, is_term
from xg.ir.tensor import Shape, Sizes, TensorType

# Find what labels add to values: the file's remarks, names from steps, gradient terms.
#
# A value without a name has that of the tensor whose elements it has, and each term of a gradient
# says which it is, because readers stop at arrows that only have a shape. Names inside of calls get
# the call's name as an index if another thing in the figure has the same name.


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
        """Return which terms it is, in the quiet color of shapes."""
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
    primal: Value, added: tuple[list[Value], list[Value]], has_name: Callable[[Value, Value], bool]
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


# The order of factors in the costs that figures print: one for all of a figure.


class _Kind(IntEnum):
    """Counted things, in the order in which people write a product: B·N_H·S·D_h."""

    BATCH = 0
    COUNT = 1
    LENGTH = 2
    WIDTH = 3


def in_order(factors: Iterable[str]) -> list[str]:
    """Return factors as people write them: batch, counts, lengths, widths.

    Widths of a matrix are in alphabetical order, so that it and its transpose cost the same to the
    eye; those of what has a batch or a length are in the order of its axes.

    >>> in_order(["D_ff", "D"]), in_order(["B", "S", "N_H", "D_h"])
    (['D', 'D_ff'], ['B', 'N_H', 'S', 'D_h'])
    """
    known = list(factors)
    kinds = {one: _kind(one) for one in known}
    is_matrix = not {_Kind.BATCH, _Kind.LENGTH} & set(kinds.values())
    return sorted(known, key=lambda one: (kinds[one], one if is_matrix else ""))


def factors_of(product: str) -> list[str]:
    """Return the factors of a product; what is more than a product is one factor.

    >>> factors_of("N_KV*D_h"), factors_of("N_P + 1"), factors_of("D/N_H")
    (['N_KV', 'D_h'], ['N_P + 1'], ['D/N_H'])
    """
    factors = product.split("*")
    return factors if all(one.isidentifier() for one in factors) else [product]


def _kind(factor: str) -> _Kind:
    name = factor.split("^")[0]
    if name == "B":
        return _Kind.BATCH
    if name.startswith("N_") and name.isidentifier():
        return _Kind.COUNT
    return _Kind.LENGTH if name == "S" or name.startswith("S_") else _Kind.WIDTH


_KINDS: Final = {
    "matmul": NodeKind.MATMUL,
    "add": NodeKind.ADD,
    "multiply": NodeKind.MUL,
    "reduce": NodeKind.REDUCE,
    "layout": NodeKind.LAYOUT,
    "source": NodeKind.LAYOUT,
    "nonlinear": NodeKind.NONLINEAR,
    "loss": NodeKind.NONLINEAR,
    "collective": NodeKind.COMMUNICATION,
}
_LINEAR: Final = ("scale", "mean", "meanpool", "overlap", "combine")  # sums, of weighed terms
_PARTIAL: Final = richtext.muted(richtext.plain(" partial"))
_INDEX: Final = "_i"  # how an author writes that a value is a rank's own term
# Kinds whose sign means one operator; others of the family are boxes with a name.
_SIGNS: Final = {NodeKind.MUL: "⊙", NodeKind.REDUCE: "sum", NodeKind.ADD: "⊕", NodeKind.MATMUL: "•"}


def with_frozen(text: RichText, value: Value) -> RichText:
    """Return the text of a value, followed by "frozen" if it is."""
    return (*text, *richtext.muted(richtext.plain(" frozen"))) if value.frozen else text


def with_partial(text: RichText, *, is_term: bool) -> RichText:
    """Return the text of a value, followed by "partial" if it is a term of a sum over ranks."""
    return (*text, *_PARTIAL) if is_term else text


def without_partial(text: RichText) -> RichText:
    """Return the text of a value without the word that it is a term of a sum over ranks."""
    return tuple(run for run in text if run not in _PARTIAL)


def kind(op: Op) -> NodeKind:
    """Return the glyph of an operator."""
    record = collective(op)
    if record and record.stays_on_rank:
        return NodeKind.LAYOUT
    if op.glyph.removeprefix("d") in _LINEAR:
        return NodeKind.REDUCE
    node_kind = _KINDS[op.family]
    return NodeKind.NONLINEAR if _SIGNS.get(node_kind, op.glyph) != op.glyph else node_kind


@dataclass(frozen=True, slots=True)
class Notation:
    """The symbols and shapes of one graph's values, and of their gradients.

    `names` are outputs that the block names and its statements do not; `same` are names of values
    that have the elements of a named one, `transposes` of those that the author named after their
    operand: KT, written K⊤. `terms` are names of sums over ranks, for their terms: Z_i. Of ranks
    side by side this is `rank`: values that differ between them have its number: Z^(0). `kept` are
    the names of values that the backward pass reads and that have no label, or share one, in both
    figures the same; in an opened call those, maybe empty, that its inputs have there. `outer` are
    the sizes of an opened call, in the symbols of its caller; `indices` tell equal names apart.
    `parts` are terms of gradients; `stages` how many stages share a row of calls, by its path.
    """

    graph: Graph
    names: Mapping[Value, str]
    same: Mapping[Value, str]
    transposes: Mapping[Value, str]
    terms: Mapping[Value, str]
    backward: Backward | None = None
    rank: Mapping[str, int] = field(default_factory=dict[str, int])
    kept: Mapping[Value, str] = field(default_factory=dict[Value, str])
    remarks: Remarks = field(default_factory=Remarks)
    outer: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    indices: Mapping[str, str] = field(default_factory=dict[str, str])
    parts: Mapping[Value, GradientPart] = field(default_factory=dict[Value, GradientPart])
    stages: Mapping[str, RichText] = field(default_factory=dict[str, RichText])

    @classmethod
    def of(
        cls,
        graph: Graph,
        backward: Backward | None = None,
        rank: Mapping[str, int] | None = None,
        kept: Mapping[Value, str] | None = None,
    ) -> Notation:
        """Return the notation of a graph, and of its backward pass if it is given."""
        names = dict(zip(graph.outputs, graph.output_names, strict=True))
        same = names_of_same_elements(graph, is_brief=bool(rank))  # ranks stand close together
        kept = kept or {}
        return cls(
            graph,
            names,
            same,
            transpose_names(graph, same),
            terms_of_sums(graph),
            backward,
            rank or {},
            kept,
            Remarks.of(graph),
            parts=gradient_parts(backward, {**names, **same, **kept}) if backward else {},
        )

    def mark(self, value: Value) -> Emphasis:
        """Return how the edges of a value, or of its gradient, are drawn."""
        primal = self._primal(value) if value.role == "cotangent" else value
        return self.remarks.mark(primal) if primal else Emphasis.NONE

    def note(self, value: Value) -> RichText:
        """Return what the file says of a value; of gradients it says nothing."""
        return self.remarks.note(value)

    def symbol(self, value: Value, *, transposed: bool = False) -> RichText:
        """Return a value's symbol; empty where it has no name."""
        if value.role == "cotangent":
            primal = self._primal(value)
            if primal is None or not self._bears_name(value, primal):
                return ()
            return self._symbol(primal, gradient=True, index=self._index(value))
        index, rank = self._index(value), self._rank(value)
        return self._symbol(value, transposed=transposed, index=index, rank=rank)

    def volume(self, value: Value) -> str:
        """Return the number of elements, sizes in the order of the axes; empty for a scalar."""
        return volume(self._shape(value), self.graph.sizes)

    def dims(self, value: Value, *, transposed: bool = False) -> list[str]:
        """Return a value's shape as the file would write it."""
        dims = [str(dim) for dim in self._shape(value)]
        return [*dims[:-2], dims[-1], dims[-2]] if transposed else dims

    @staticmethod
    def joins_axes(step: Apply, place: int) -> bool:
        """Return whether a product sums over several axes of an operand, which then are one."""
        return kind(step.op) is NodeKind.MATMUL and len(_contracted_axes(step, place)) > 1

    def operand(self, step: Apply, place: int) -> RichText:
        """Return symbol and shape of a product's operand: a matrix of the axes that it sums over.

        Where it sums over more than one, they are one axis: ``[D, B·S]``.
        """
        value, transposed = step.inputs[place], swaps_operand_axes(step, place)
        if not self.joins_axes(step, place):
            return self.label(value, transposed=transposed)
        summed, shape = _contracted_axes(step, place), self._shape(value)
        rest = [str(dim) for axis, dim in enumerate(shape) if axis not in summed]
        joined = str(product(shape[axis] for axis in summed))
        dims = [*rest, joined] if place == 0 else [*rest[:-1], joined, *rest[-1:]]
        text = richtext.tensor(self._symbol_or_part(value, transposed=transposed), dims)
        return (*with_frozen(text, value), *self._which(value))

    def label(self, value: Value, *, transposed: bool = False) -> RichText:
        """Return symbol and shape, whether it is frozen or partial; a scalar has no brackets."""
        dims = self.dims(value, transposed=transposed)
        text = richtext.tensor(self._symbol_or_part(value, transposed=transposed), dims or None)
        text = with_partial(with_frozen(text, value), is_term=self.is_partial(value))
        return (*text, *self._which(value))

    def _symbol_or_part(self, value: Value, *, transposed: bool) -> RichText:
        """Return a value's symbol; a gradient without one takes the symbol of its whole."""
        own, part = self.symbol(value, transposed=transposed), self.parts.get(value)
        if own or part is None:
            return own
        return self._symbol(part.primal, gradient=True, index=self._index(value))

    def _which(self, value: Value) -> RichText:
        """Return which term of a gradient a value is, if it has no symbol of its own."""
        part = None if self.symbol(value) else self.parts.get(value)
        return part.words(self.symbol) if part else ()

    def gradient(self, primal: Value) -> RichText:
        """Return symbol and shape of a forward value's gradient."""
        symbol = self._symbol(primal, gradient=True, rank=self._rank(primal, gradient=True))
        text = richtext.tensor(symbol, self.dims(primal) or None)
        return with_partial(text, is_term=self.has_partial_gradient(primal))

    def gradient_shape(self, primal: Value) -> RichText:
        """Return the shape of a forward value's gradient, and whether it is partial."""
        text = richtext.tensor((), self.dims(primal) or None)
        return with_partial(text, is_term=self.has_partial_gradient(primal))

    def list_values(self, values: Sequence[Value]) -> RichText:
        """Return several values by their symbols; neighbors of one shape share it."""
        runs: list[StyledRun] = []
        for (dims, _), neighbors in groupby(values, lambda v: (self.dims(v), v.frozen)):
            runs += richtext.plain(", ") if runs else ()
            group = list(neighbors)
            runs += with_frozen(richtext.tensor(self._symbols(group), dims or None), group[0])
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

    def name(self, value: Value) -> str:
        """Return what a value is called, empty where it has no name."""
        if value in self.same:
            return self.same[value]
        if value in self.kept:
            return self.kept[value]
        return value.name or self.names.get(value) or self.terms.get(value) or ""

    def _symbol(
        self,
        value: Value,
        *,
        transposed: bool = False,
        gradient: bool = False,
        index: str = "",
        rank: str = "",
    ) -> RichText:
        is_indexed = bool(index) or self._is_term_here(value)
        name = self.name(value).rpartition(".")[2].removesuffix(_INDEX if is_indexed else "")
        if value.role == "cache":
            name, result = _without_result(name, value.name or "")
            index = ",".join(filter(None, (richtext.subscript(result), index)))
        if value in self.transposes:
            name, transposed = self.transposes[value], not transposed
        index = ",".join(filter(None, (self.indices.get(name), index)))
        sup = rank + ("⊤" if transposed else "")
        is_word = value in self.kept and value.role != "cache"
        symbol = richtext.symbol(name, gradient=gradient, sup=sup, index=index, is_word=is_word)
        return symbol if name else ()

    def _bears_name(self, gradient: Value, primal: Value) -> bool:
        """Whether a cotangent bears the name of its value: its whole gradient, no part of a sum."""
        if gradient.name:
            return True
        is_total = self.backward and self.backward.totals.get(primal, gradient) is gradient
        named = (self.names, self.same, self.kept)
        return bool(is_total) and any(primal in some for some in named)

    def _is_term_here(self, value: Value) -> bool:
        """Whether a value is a term of a sum in a figure where ranks have numbers."""
        return bool(self.rank) and self.is_partial(value)

    def _rank(self, value: Value, *, gradient: bool = False) -> str:
        """The number of the rank on what differs between ranks: parts, and terms of sums.

        Along axes of the mesh on which all ranks have the same, there is a star: W^(0,*).
        """
        states = self.graph.placements.get(value, {})
        lies = {axis: dual(state) if gradient else state for axis, state in states.items()}
        different = {axis for axis, state in lies.items() if state and not state.is_uniform}
        if different.isdisjoint(self.rank):
            return ""
        numbers = (str(n) if axis in different else "*" for axis, n in self.rank.items())
        return f"({','.join(numbers)})"

    def _index(self, value: Value) -> str:
        """The index of a value that is only a term of a sum over ranks."""
        return "i" if not self.rank and self.is_partial(value) else ""

    def is_partial(self, value: Value) -> bool:
        """Return whether a rank has only a term of the sum over ranks that a value is."""
        placements = self.graph.placements
        if self.backward is not None and value in self.backward.placements:
            placements = self.backward.placements
        return is_term(placements.get(value))

    def has_partial_gradient(self, primal: Value) -> bool:
        """Return whether each rank has a term of a gradient, where ranks are side by side."""
        states = self.graph.placements.get(primal, {})
        return any(axis in self.rank and dual(one) == PARTIAL for axis, one in states.items())

    def _primal(self, value: Value) -> Value | None:
        return self.backward.of.get(value) if self.backward else None

    def type(self, value: Value) -> TensorType:
        """Return a value's type, with its sizes as they were inferred."""
        if self.backward is not None and value in self.backward.types:
            return self.backward.types[value]
        return self.graph.types[value]

    def written(self, dim: Dim) -> str:
        """Return a dim of the graph as the file would write it, in the symbols of the figure."""
        return str(self.graph.sizes.fold(dim).substitute(self.outer))

    def repeated(self, view: Apply) -> list[str]:
        """Return the axes along which a BC repeats: of a rank those that its result has."""
        new: tuple[int, ...] = view.attrs["new"]
        atoms: tuple[Dim, ...] = view.attrs.get("atoms", self.type(view.outputs[0]).shape)
        if len(atoms) != len(new) + len(self.type(view.inputs[0]).shape):
            return []
        return [self.written(atoms[place]) for place in new]

    def _shape(self, value: Value) -> Shape:
        return tuple(dim.substitute(self.outer) for dim in self._own_shape(value))

    def _own_shape(self, value: Value) -> Shape:
        if value in self.graph.types:
            return self.graph.shape(value)
        primal = self._primal(value)
        if primal is not None and primal in self.graph.types:
            return self.graph.shape(primal)
        assert self.backward, "a value is of the forward or of the backward graph"
        return self.graph.sizes.fold_shape(self.backward.types[value].shape)


def _without_result(name: str, kept: str) -> tuple[str, str]:
    """Split the name of a kept value: people write Y_keep as keep with the subscript Y."""
    result, found, number = name.rpartition(f"_{kept}")
    return (kept, f"{result}{number}") if found else (name, "")


def swaps_operand_axes(step: Apply, place: int) -> bool:
    """Return whether a product uses an operand's last two axes in the other order.

    The contracted axis comes last in the first operand and last but one in the second.
    """
    if kind(step.op) is not NodeKind.MATMUL:
        return False
    inputs, result = str(step.attrs["spec"]).split("->")
    last = inputs.split(",")[place][-1]
    return (last in result) == (place == 0)


def _contracted_axes(step: Apply, place: int) -> tuple[int, ...]:
    """Return the axes of an operand that a product sums over."""
    inputs, result = str(step.attrs["spec"]).split("->")
    letters = inputs.split(",")[place]
    return tuple(axis for axis, letter in enumerate(letters) if letter not in result)


def volume(shape: Shape, sizes: Sizes) -> str:
    """Return the number of a shape's elements as people write it: ``B*S*D/N_D``."""
    pairs = [sizes.size_and_parts(dim) for dim in shape]
    wholes = [str(sizes.fold(whole)) for whole, _ in pairs if whole != ONE]
    wholes = [factor for one in wholes for factor in factors_of(one)]
    counts = {one: wholes.count(one) for one in in_order(wholes)}  # D*D is a square
    text = "*".join(
        f"{one}^{count}"
        if count > 1 and one.isidentifier()
        else "*".join([f"({one})" if "+" in one or "-" in one else one] * count)
        for one, count in counts.items()
    )
    parts = product(part for _, part in pairs)
    if parts == ONE:
        return text
    below = f"({parts})" if len(parts.symbols()) > 1 else str(parts)
    return f"{text or 1}/{below}"


# Symbols that no file has: what operators keep, and values after which a label comes later.


_KEPT: Final = {
    "lse": "log of the sum of exponentials",
    "mean": "mean that is taken off",
    "center": "mean that is taken off",
    "rstd": "1 / standard deviation",
    "trained": "1 where statistics are the batch's, 0 where running ones",
    "keep": "mask: 1 where dropout keeps",
}
_NUMBERED: Final = "has no label in the file: named after what gives it"


def explain_symbols(values: Iterable[Value], notation: Notation) -> tuple[ExplainedSymbol, ...]:
    """Explain each symbol of a cached value, and one example of the numbered ones."""
    found: dict[str, ExplainedSymbol] = {}
    for value in values:
        symbol = notation.symbol(value)
        if value.role == "cache" and value.name in _KEPT:
            found.setdefault(value.name, ExplainedSymbol(NodeKind.SAVED, symbol, _KEPT[value.name]))
        elif symbol and value.role != "cache" and value in notation.kept:
            key, words = _origin(value, notation)
            if words:
                found.setdefault(key, ExplainedSymbol(NodeKind.TENSOR, symbol, words))
    return tuple(found.values())


def _origin(value: Value, notation: Notation) -> tuple[str, str]:
    """Return where the name of a value without a label is from, and the words for it."""
    if value in notation.transposes:
        name = notation.transposes[value]
        words = f"transpose of {richtext.characters(richtext.symbol(name))}"
        return "transpose", words
    return "", "" if value in notation.same else _NUMBERED  # a label of another shape says it
