"""Collect the facts of each block for the script of the page: steps, code, costs, collectives."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, Generic, TypeVar

from xg.codegen.emit.module import module_writer, names_of
from xg.codegen.emit.names import plain
from xg.codegen.emit.statements import Mark
from xg.cost.communication import WAYS, Sent, inside_of, spell_factor
from xg.cost.cost import BlockCost, CostRow, flops_of_step
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.model.richtext import characters
from xg.figures.views.notation import Notation, swaps_operand_axes
from xg.figures.views.steps import Drawn, own_tensors
from xg.ir.dim import Coefficient, Dim, DimError, Monomial, Scalar, product, symbol
from xg.ir.graph import Apply, Backward, Call, Graph, IRProgram, Step, Value
from xg.ir.placement import Placement, zigzag_axes
from xg.ir.tensor import TensorType
from xg.ir.walk import CallSite, Symbols, entry, level_by_level
from xg.verify.proof_sizes import SizeFacts
from xg_pages.document import CodeLine, Pass

# The blocks of a program as a page shows them: each once, where it is used first.


@dataclass(frozen=True, slots=True)
class BlockUse:
    """A block where it is first called: the place among all blocks, its graph, its sizes there.

    `path` is how the calls lead there: `layers.0.attn`; the entry has the empty path.
    """

    place: int
    graph: Graph
    backward: Backward
    symbols: Symbols
    path: str

    def steps(self) -> Iterator[tuple[str, Step]]:
        """Every step of both passes with its id."""
        for number, step in enumerate(self.graph.steps):
            yield f"{self.place}.f{number}", step
        for number, step in enumerate(self.backward.steps):
            yield f"{self.place}.b{number}", step

    def values(self) -> Iterator[Value]:
        """Every tensor of both passes, in the order in which a reader meets it."""
        yield from self.graph.inputs
        yield from self.graph.param_values()
        yield from (value for step in self.graph.steps for value in step.outputs)
        yield from self.backward.cotangents.values()
        yield from (value for step in self.backward.steps for value in step.outputs)


def block_uses(program: IRProgram) -> list[BlockUse]:
    """The entry first, then what it calls, callers before callees."""

    def below(site: CallSite) -> Iterator[CallSite]:
        for call in site.graph.calls:
            inner = site.enter(call, program.graphs)
            yield inner if call.count is None else replace(inner, path=f"{inner.path}.0")

    sites = level_by_level([entry(program)], below, lambda site: site.graph.key)
    return [
        BlockUse(place, site.graph, program.backwards[site.graph.key], site.symbols, site.path)
        for place, site in enumerate(sites)
    ]


# Steps as equations in the author's names: `P = S(Z)`, `dW_up = H⊤ • dU`.


_INFIX: Final = ("•", "⊕", "⊙")
_LONGEST: Final = 40  # of values without a name


@dataclass(slots=True)
class Equations:
    """Writes the steps of one block. `variables` are what its code calls values."""

    program: IRProgram
    notation: Notation
    variables: Mapping[Value, str]
    made: dict[Value, str] = field(default_factory=dict[Value, str])

    @classmethod
    def of(
        cls, program: IRProgram, backward: Backward, variables: Mapping[Value, str]
    ) -> Equations:
        """The names needed to write the steps of a block."""
        return cls(program, Notation.of(backward.forward, backward), variables)

    def write(self, step: Step) -> str:
        """A step; those before it have been written."""
        match step:
            case Apply():
                right = self._spell_apply(step)
                shown = [value for value in step.outputs if value.role != "cache"]
            case Call():
                right = self._spell_call(step, [self.text(value) for value in step.inputs])
                right = f"d{right}" if step.origin else right
                shown = list(step.outputs)
        self.made.update((value, right) for value in shown)
        left = ", ".join(name for value in shown if (name := self.name(value)))
        return f"{left} = {right}" if left else right

    def name(self, value: Value) -> str:
        """The name of a value in figure or code; empty for one without a name."""
        if value.role == "cache" and value in self.variables:
            return self.variables[value]
        if name := characters(self.notation.symbol(value)).replace("^⊤", "⊤"):
            return name
        primal = self.notation.backward and self.notation.backward.of.get(value)
        if primal is not None and (named := self.name(primal)):
            return f"d{named}"
        return self.variables.get(value, "")

    def text(self, value: Value, *, factor: bool = False) -> str:
        """A value as an operand: its name, or how it is made; a `factor` holds together."""
        if name := self.name(value):
            return name
        equation = self.made.get(value, "…")
        if len(equation) > _LONGEST:
            return "…"
        return f"({equation})" if factor and " " in equation else equation

    def _spell_apply(self, step: Apply) -> str:
        sign = step.op.glyph
        infix = len(step.inputs) > 1 and sign in _INFIX
        operands = [
            self.text(value, factor=infix and sign != "⊕")
            + ("⊤" if swaps_operand_axes(step, place) else "")
            for place, value in enumerate(step.inputs)
        ]
        if infix:
            return f" {sign} ".join(operands)
        own = own_tensors(step)
        data = [o for o, value in zip(operands, step.inputs, strict=True) if value not in own]
        rest = [o for o, value in zip(operands, step.inputs, strict=True) if value in own]
        return f"{sign}({'; '.join(filter(None, (', '.join(data), ', '.join(rest + _own(step)))))})"

    def _spell_call(self, call: Call, operands: Sequence[str]) -> str:
        callee = self.program.graphs[call.callee]
        name = f"{callee.block}({', '.join(dict.fromkeys(operands))})"
        if call.loop is not None:
            return f"{name} over {self.notation.graph.sizes.fold(call.loop.length)}"
        if call.count is None:
            return name
        return f"{self.notation.graph.sizes.fold(call.count)} × {name}"


def _own(step: Apply) -> list[str]:
    """The numbers and words that a node is made of, as far as they say something.

    Of a collective it is the mesh axis.
    """
    if "across" in step.attrs:
        return [str(step.attrs["across"])]
    values = [step.attrs.get(own.name) for own in step.op.own]
    numbers = [str(value) for value in values if isinstance(value, Scalar)]
    words = [value for value in values if isinstance(value, str) and value != "none"]
    return [*numbers, *words]


# Formulas as data: every size and cost once, as a text in the symbols of the entry block.


FREE: Final = (32, 48, 240)  # what symbols without a number begin with: the first that is allowed


Row = TypeVar("Row", bound=Hashable)


class FactTable(Generic[Row]):
    """A table of rows that are there once, to which everything else refers by place."""

    def __init__(self) -> None:
        self.rows: dict[Row, int] = {}

    def place(self, row: Row) -> int:
        """The index of a row in the table."""
        return self.rows.setdefault(row, len(self.rows))


class Formulas(FactTable[Dim]):
    """A table of formulas."""

    def symbols(self) -> list[str]:
        """Every symbol of the table once, in alphabetical order."""
        return sorted({name for dim in self.rows for name in dim.symbols()})

    def data(self) -> list[str]:
        """The table: sums of terms such as ``3*B*S^2/(2*N_T)``."""
        return [str(dim) for dim in self.rows]


def start_numbers(
    program: IRProgram,
    formulas: Formulas,
    facts: SizeFacts,
    mesh: Mapping[str, int],
    proven: Mapping[str, int],
) -> dict[str, int]:
    """A number for every symbol of the table: the file's, or one for all that have none.

    Where the file forbids that one, it is the number of the proof. `mesh` has the ranks.
    """
    numbers = {**mesh, **program.main.sizes.bind(program.numbers)}
    named = {name for dim in facts.dims for name in dim.symbols()}
    for free in FREE:
        sizes = {name: numbers.get(name, free) for name in sorted({*formulas.symbols(), *named})}
        bounded = (low.evaluate(sizes) <= high.evaluate(sizes) for low, high in facts.bounds)
        if all(_is_positive_integer(dim, sizes) for dim in facts.dims) and all(bounded):
            return {name: sizes[name] for name in formulas.symbols()}
    return {name: numbers.get(name, proven.get(name, FREE[0])) for name in formulas.symbols()}


def _is_positive_integer(dim: Dim, numbers: Mapping[str, int]) -> bool:
    try:
        return dim.evaluate(numbers) > 0
    except DimError:
        return False


def axis_rules(program: IRProgram, formulas: Formulas, facts: SizeFacts) -> dict[str, object]:
    """Constraints on numbers: axes that must be whole, and sizes that bound others.

    Of an axis that ranks share: its global length, its name, and the mesh axes.
    """
    fractions = [dim for dim in facts.dims if any(_divides(term) for term in dim.terms)]
    return {
        "whole": [_shared(dim, program, formulas) for dim in fractions],
        "bounds": [[formulas.place(low), formulas.place(high)] for low, high in facts.bounds],
    }


def _shared(dim: Dim, program: IRProgram, formulas: Formulas) -> list[object]:
    """The global length of an axis; if ranks share it, with its text and their mesh axes."""
    below = [{name for name, power in term if power < 0} for term, _ in dim.terms]
    over = [axis for axis in program.mesh if all(axis in names for names in below)]
    whole = dim * product(map(symbol, over))
    return [formulas.place(whole), str(program.main.sizes.fold(whole)), over]


def _divides(term: tuple[Monomial, Coefficient]) -> bool:
    monomial, coefficient = term
    return coefficient.denominator > 1 or any(power < 0 for _, power in monomial)


def in_entry(use: BlockUse, entry: IRProgram, dim: Dim) -> Dim:
    """A size or cost of a block in the sizes of the entry block, nothing defined left in it."""
    return entry.main.sizes.expand(use.graph.sizes.expand(dim).substitute(use.symbols))


# The functions of every block, line by line, each with the steps that it computes.


@dataclass(frozen=True, slots=True)
class BlockCode:
    """The functions of a block, and what they call the values of its forward pass."""

    lines: Mapping[Pass, tuple[CodeLine, ...]]
    variables: Mapping[Value, str]


@dataclass(frozen=True, slots=True)
class Code:
    """The functions of all blocks, and by name the functions of the operators they call."""

    blocks: Mapping[str, BlockCode]
    operators: Mapping[str, str]


def code(program: IRProgram, uses: Sequence[BlockUse]) -> Code:
    """The code of a program, the same text as in its module."""
    writer = module_writer(program)
    plan = writer.plan
    blocks: dict[str, BlockCode] = {}
    for use in uses:
        key = use.graph.key
        forward, backward, *_ = writer.blocks[key]
        ids = {step: name for name, step in use.steps()}
        lines: dict[Pass, tuple[CodeLine, ...]] = {
            "forward": tuple(_lines(forward, plan.marks[key, False], ids)),
            "backward": tuple(_lines(backward, plan.marks[key, True], ids)),
        }
        blocks[key] = BlockCode(lines, names_of(writer, key))
    functions = plan.operators.written.items()
    texts = {
        plain(name): plain("\n".join(operator_function.source(name)))
        for name, operator_function in functions
    }
    return Code(blocks, texts)


def _lines(
    lines: Sequence[str], marks: Sequence[Mark], ids: Mapping[Step, str]
) -> Iterator[CodeLine]:
    computed = {
        number: tuple(ids[step] for step in mark.steps)
        for mark in marks
        for number in range(mark.first, mark.end)
    }
    for number, text in enumerate(lines):
        yield CodeLine(plain(text), computed.get(number, ()))


# The communication of a program's ranks for a page: every collective with its elements.


@dataclass(frozen=True, slots=True)
class SendingData:
    """The data of a `placed` program's blocks.

    `ids` are its steps by their results, and by whether a backward pass runs them again.
    """

    placed: IRProgram
    program: IRProgram
    formulas: Formulas
    ids: Mapping[tuple[Value, bool], str]

    @classmethod
    def of(
        cls, placed: IRProgram, program: IRProgram, formulas: Formulas, uses: Sequence[BlockUse]
    ) -> SendingData:
        """The data needed for a rank's program."""
        steps = (pair for use in uses for pair in use.steps())
        ids = {(value, step.again): name for name, step in steps for value in step.outputs[:1]}
        return cls(placed, program, formulas, ids)

    def data(self, use: BlockUse) -> list[list[object]]:
        """Every collective of one call of a block and of all that it calls.

        Of each: the pass, its sign, the mesh axis, the calls, and of all calls the payload and the
        elements that a rank sends, naive and around a ring; the bytes of an element, the id of
        the step, and how often an element of the payload is sent, naive and around a ring.
        """
        return [self._row(part, use) for part in inside_of(self.placed, use.graph.key, "float32")]

    def _row(self, part: Sent, use: BlockUse) -> list[object]:
        assert part.step
        dims = (part.calls, part.payload, part.elements("naive"), part.elements("ring"))
        return [
            part.direction,
            part.glyph,
            part.over,
            *(self.formulas.place(in_entry(use, self.program, dim)) for dim in dims),
            part.bytes_each,
            self.ids[part.step.outputs[0], part.step.again],
            *(spell_factor(part.kind, part.over, way) for way in WAYS),
        ]


Facts = dict[str, object]
OperatorRow = tuple[str, str, str, str]  # its sign, its name, its formula and its meaning
ShapeRow = tuple[tuple[str, ...], tuple[int, ...]]  # axes as the figure writes them, as formulas


@dataclass(slots=True)
class BlockFacts:
    """The data of one block of a program. `blocks` are the places of all blocks."""

    program: IRProgram
    use: BlockUse
    blocks: Mapping[str, int]
    equations: Equations
    formulas: Formulas
    shapes: FactTable[ShapeRow]
    operators: FactTable[OperatorRow]
    drawn: Mapping[Pass, Drawn]
    origins: Mapping[Value, int] = field(init=False)
    places: Mapping[Value, int] = field(init=False)
    types: Mapping[Value, TensorType] = field(init=False)
    placements: Mapping[Value, Placement] = field(init=False)

    def __post_init__(self) -> None:
        """Number steps and values."""
        steps = enumerate(self.use.graph.steps)
        self.origins = {step.outputs[0]: place for place, step in steps}
        self.places = {value: place for place, value in enumerate(self.use.values())}
        self.types = {**self.use.backward.types, **self.use.graph.types}
        self.placements = {**self.use.backward.placements, **self.use.graph.placements}

    def data(self, cost: BlockCost) -> Facts:
        """Everything; steps and values refer to each other by their places.

        A value without a name is called after how it is made, which is known after the steps.
        """
        graph, backward = self.use.graph, self.use.backward
        rows = {row.step: row for row in cost.rows}
        forward = [self._forward(step, rows[step]) for step in graph.steps]
        reverse = [self._backward(step, rows) for step in backward.steps]
        return {
            "name": graph.block,
            "title": graph.title,
            "path": self.use.path,
            "forward": forward,
            "backward": reverse,
            "values": [self._value(value) for value in self.use.values()],
            "other": [[row.name, self._amount(row)] for row in cost.rows if row.step is None],
            "inputs": [self.places[value] for value in graph.inputs],
            "cotangents": [self.places[value] for value in backward.cotangents.values()],
        }

    def _value(self, value: Value) -> list[object]:
        """Its name, its shape, and its placement if ranks hold different parts."""
        dims = tuple(self._place(dim) for dim in self.types[value].shape)
        shape = self.shapes.place((tuple(self.equations.notation.dims(value)), dims))
        lies = self._placement(value)
        return [self.equations.text(value), shape, *([lies] if lies else [])]

    def _placement(self, value: Value) -> Facts:
        """The placement by mesh axis: of a slice its axis and its global size, else a letter.

        Behind the size is the order of ranks, if it is not the usual one. A replicated axis has no
        entry.
        """
        shape, sizes = self.types[value].shape, self.use.graph.sizes
        zigzag = zigzag_axes(self.program.plan)

        def slice_entry(axis: int, over: str) -> list[object]:
            whole = str(sizes.fold(sizes.size_and_parts(shape[axis])[0]))
            return [len(shape) + axis, whole, *(["zigzag"] if over in zigzag else [])]

        return {
            over: slice_entry(state.axis, over) if state.kind == "S" else state.kind
            for over, state in self.placements.get(value, {}).items()
            if not state.is_uniform
        }

    def _place(self, dim: Dim) -> int:
        return self.formulas.place(in_entry(self.use, self.program, dim))

    def _amount(self, row: CostRow) -> list[int]:
        return [self._place(dim) for dim in row.amount.dims()]

    # ---- steps ----------------------------------------------------------------------------------

    def _forward(self, step: Apply | Call, row: CostRow) -> Facts:
        facts = self._step(step, "forward")
        return {**facts, "line": step.span.line, "cost": self._amount(row)}

    def _backward(self, step: Step, rows: Mapping[Step | None, CostRow]) -> Facts:
        facts = self._step(step, "backward")
        if isinstance(step, Apply):
            facts["flops"] = self._place(flops_of_step(step, step.body(self.types)))
        if step.origin is None:
            return facts
        if isinstance(step, Call):
            facts["flops"] = self._place(rows[step.origin].amount.backward)
        facts["line"] = step.origin.span.line
        of = self.origins.get(step.origin.outputs[0])  # a cast is no step of a rank
        return facts if of is None else {**facts, "of": of}

    def _step(self, step: Step, view: Pass) -> Facts:
        told: Facts
        if isinstance(step, Apply):
            op = step.op
            told = {"operator": self.operators.place((op.glyph, op.name, op.formula, op.meaning))}
        else:
            count = {} if step.count is None else {"count": self._place(step.count)}
            told = {"block": self.blocks[step.callee], **count}
        return {
            "node": self.drawn[view].nodes.get(step, ""),
            "equation": self.equations.write(step),
            "reads": [self.places[value] for value in step.inputs],
            "makes": [self.places[value] for value in step.outputs],
            **told,
        }
