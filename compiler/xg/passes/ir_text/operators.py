"""Operators that a glyph alone names in the printed IR, and those that need more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from xg import ops
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Source
from xg.ir.content import with_parts
from xg.ir.graph import Apply, Program, Value
from xg.ir.op import Op
from xg.ir.prim import ShapeError
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs, Misuse
from xg.packages import offers, service
from xg.passes.differentiate import ZEROS
from xg.passes.ir_text.errors import Meaningless
from xg.passes.resolve.define import define
from xg.passes.ring import ring_attention
from xg.syntax.parse import parse

Types = Mapping[Value, TensorType]


@cache
def _lasting() -> Mapping[str, Op]:
    """The operators of the language and those of passes."""
    fused: tuple[Op, ...] = service("fused_operators")() if offers("fused_operators") else ()
    rest = (ring_attention.OP, ZEROS)
    return {**ops.table(), **{op.glyph: op for op in (*fused, *rest)}}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The meaning of every glyph of a text; definitions are as in the file: ``op RMS(x) = …``."""

    operators: Mapping[str, Op]
    definitions: tuple[str, ...] = ()

    @classmethod
    def of(cls, program: Program) -> Vocabulary:
        """The glyphs of a program, those of operators of its files if they mean nothing else."""
        used: dict[str, dict[int, tuple[Op, bool]]] = {}
        for step, types in _applies(program):
            said = used.setdefault(step.op.glyph, {})
            if id(step.op) not in said:
                said[id(step.op)] = step.op, _is_as_defined(step, types)
        alone = [
            op for (op, defined), *others in map(_values, used.values()) if defined and not others
        ]
        table = {**_lasting(), **{op.glyph: op for op in alone}}
        return cls(table, tuple(op.formula for op in alone))

    @classmethod
    def defining(cls, definitions: Iterable[tuple[str, int | None]]) -> Vocabulary:
        """The glyphs of a text, by what its lines define; raises Meaningless."""
        table = dict(_lasting())
        texts: list[str] = []
        for text, line in definitions:
            op = _defined(text)
            if op is None:
                raise Meaningless(f"expected the definition of an operator, not {text}", line)
            table[op.glyph] = op
            texts.append(text)
        return cls(table, tuple(texts))

    def names(self, op: Op) -> bool:
        """Whether the glyph of an operator means this operator."""
        return self.operators.get(op.glyph) is op


def _values(said: Mapping[int, tuple[Op, bool]]) -> Sequence[tuple[Op, bool]]:
    return tuple(said.values())


def _applies(program: Program) -> Iterator[tuple[Apply, Types]]:
    for graph in (*program.graphs.values(), *program.backwards.values()):
        for step in graph.steps:
            if isinstance(step, Apply):
                yield step, graph.types
                inside = _inside(graph.types, step.parts) if step.parts else graph.types
                yield from ((part, inside) for part in step.parts)


def _inside(types: Types, parts: Iterable[Apply]) -> Types:
    """Types of values, with those inside a fused step where its parts fit its operands.

    In the program of a rank they do not: the parts are those of one device.
    """
    try:
        return with_parts(types, parts)
    except (ShapeError, Misuse):
        return types


def _defined(text: str) -> Op | None:
    """The operator that a file's definition makes, None for anything else."""
    try:
        module = parse(Source("program.ir", text + "\n"))
        return define(module.ops[0]) if len(module.ops) == 1 else None
    except DiagnosticError:
        return None


def _is_as_defined(step: Apply, known: Types) -> bool:
    """Whether a step applies what its operator's own formula defines."""
    op = step.op
    if op.local or not op.formula.startswith(f"op {op.glyph}("):
        return False
    again = _defined(op.formula)
    if again is None or any(value not in known for value in step.inputs):
        return False
    types = [known[value] for value in step.inputs]
    return does_the_same(op, again, types, step.attrs)


def does_the_same(op: Op, other: Op, types: Sequence[TensorType], attrs: Attrs) -> bool:
    """Whether two operators are the same to all passes, on operands of these types."""

    def said(one: Op) -> object:
        slots = (one.data, one.own, one.outputs)
        return one.glyph, one.name, one.family, slots, one.local, one.keeps_shape

    try:
        return said(op) == said(other) and op.body(types, attrs).is_same(other.body(types, attrs))
    except (ShapeError, Misuse):
        return False


def gradients(origin: Apply, types: Sequence[TensorType]) -> tuple[str, ...]:
    """The operands of a step whose gradients an adjoint of its operator can give."""
    if origin.op.local:
        return ()  # of what one rank computes no gradient is derived
    return origin.op.adjoint_body(types, origin.attrs).of
