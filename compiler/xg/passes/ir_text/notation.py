"""Define the notation of the printed IR: its grammar, and how names and operators are written.

The order of the lines of a graph is the printer's; the grammar leaves it open.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from xg import ops
from xg.diagnostics.diagnostic import DiagnosticError, Source
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.content import with_parts
from xg.ir.graph import Apply, IRProgram, Value
from xg.ir.op import Op
from xg.ir.plan import BlockId
from xg.ir.prim import ShapeError
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs, Misuse
from xg.packages import offers, service
from xg.passes.differentiate import ZEROS
from xg.passes.ir_text.errors import Meaningless
from xg.passes.resolve.define import define
from xg.passes.ring import ring_attention
from xg.syntax.parse import parse

# Words that begin a line: a value of such a name is printed with a number behind it.
LINE_WORDS: Final = frozenset({
    "graph", "backward", "param", "foreign", "state", "carry", "saved", "return", "d", "totals",
    "rows", "zeros", "alias", "layout", "memory", "again", "reusable", "block", "title", "sizes",
    "op", "operands", "part",
})  # fmt: skip
CONSTANTS: Final = frozenset({"true", "false", "none"})  # no size is printed so by itself
PLAIN_NAME: Final = r"[A-Za-z_]\w*(\.\w+)*"
PLAIN_KEY: Final = r'[^\s"()]+(\([^()"\n]*\))?'

GRAMMAR: Final = rf"""
start: _NL* program graph*

program: "program" key _NL program_line*
?program_line: sizes
    | "numbers" counts _NL -> numbers
    | "mesh" counts _NL -> mesh
    | "padded" counts _NL -> lengths
    | "communicators" over ("," over)* _NL -> communicators
    | "define" STRING _NL -> define
    | "plan" STRING STRING ["over" plan_axes] _NL (entry | schedule)* -> plan
plan_axes: plan_axis ("," plan_axis)*
plan_axis: NAME ["=" INT]
entry: "entry" NAME STRING [cut] ["use" cut] "over" [names] "in" STRING ["memory" NAME] _NL
schedule: "schedule" NAME STRING "parts" INT "turns" INT _NL
cut: "[" [cut_part ("," cut_part)*] "]"
cut_part: "_" ["|" over] -> any_part
    | expr ["|" over] -> sized_part
    | ".." -> open_part
over: NAME ("*" NAME)*

graph: (GRAPH | BACKWARD) key "(" [values] ")" "->" [results] _NL line*
results: result ("," result)*
result: NAME type
?line: step
    | sizes
    | "param" value "=" begin _NL -> param
    | "foreign" value _NL -> foreign
    | "state" NAME "=" value "next" NAME _NL -> state
    | "carry" NAME "=" NAME "next" NAME "start" expr _NL -> carry
    | "saved" [names] _NL -> saved
    | "operands" names _NL -> operands
    | "return" [names] _NL -> returned
    | "reusable" names _NL -> reusable
    | "d" NAME "=" NAME _NL -> gradient
    | (TOTALS | ALIAS) pairs _NL -> pairs_of
    | "rows" bindings _NL -> rows
    | "zeros" names _NL -> zeros
    | "layout" NAME bindings _NL -> layout
    | "memory" STRING NAME ("," STRING NAME)* _NL -> memory
    | "block" NAME _NL -> block
    | "title" STRING _NL -> title
begin: NAME | "normal" "(" expr ")" -> law | "uniform" "(" expr "," expr ")" -> law
sizes: "sizes" "{{" [bindings] "}}" ["defaults" counts] ["mesh" names] ["local" names] _NL

step: [AGAIN] outputs "=" (apply | call) _NL [definition] part*
part: "part" outputs "=" apply _NL
outputs: "(" ")" | values
apply: GLYPH "(" [names] ")" "{{" [attrs] "}}" ["at" path] ["from" NAME] ["for" names]
call: (CALL | BACKWARD) key ["×" expr] ["behind" INT] "as" path [loop] [carried] \
    "(" [names] ")" ["{{" bindings "}}"] ["from" NAME]
loop: "over" expr [REVERSED] axes "->" axes "states" INT
carried: "carried" carried_pair ("," carried_pair)*
carried_pair: INT "=" INT
axes: "[" [axis ("," axis)*] "]"
axis: "-" INT | "none"
definition: "op" STRING words "(" [names] [";" names] ")" "->" [names] _NL primitive* \
    "return" [names] [";" names] _NL
words: NAME+
primitive: value "=" GLYPH "(" [names] ")" "{{" [attrs] "}}" _NL

values: value ("," value)*
value: NAME [":" NAME] [type] ["as" shape] ["@" states] ["?" placement_requests] \
    ["of" NAME] [FROZEN]
type: shape ["in" expr]
states: "(" state_of ("," state_of)* ")"
state_of: NAME "=" placed
placement_requests: "(" request_of ("," request_of)* ")"
request_of: NAME "=" placed [">" placed]
placed: NAME ["(" "-" INT ")"]

attrs: attr ("," attr)*
attr: NAME "=" attribute
?attribute: expr -> number
    | "|" expr "|" -> size
    | shape -> shape_of
    | STRING -> text
    | "true" -> true
    | "false" -> false
    | "none" -> none
    | "@" placed -> state_is
    | "(" ")" -> several
    | "(" attribute ("," attribute)* "," ")" -> several
    | "(" attribute ("," attribute)+ ")" -> several

shape: "[" [expr ("," expr)*] "]"
?expr: sum
?sum: product
    | sum (PLUS | MINUS) product -> infix
?product: power
    | product (TIMES | OVER) power -> infix
?power: atom
    | power POWER atom -> infix
?atom: INT -> integer
    | FLOAT -> real
    | NAME -> symbol
    | "-" atom -> negative
    | "(" sum ")"
    | NAME "(" sum ")" -> function

bindings: binding ("," binding)*
binding: NAME "=" expr
counts: count ("," count)*
count: NAME "=" INT
pairs: pair ("," pair)*
pair: NAME "=" NAME
names: NAME ("," NAME)*
key: KEY | STRING
path: NAME | STRING

GRAPH: "graph"
REVERSED: "reversed"
FROZEN: "frozen"
AGAIN: "again"
TOTALS: "totals"
ALIAS: "alias"
BACKWARD.2: /backward(?= )/
CALL.2: /call(?= )/
KEY: /{PLAIN_KEY}/
GLYPH: /[^\s(){{}}\[\],="]+(?=\()/
NAME: /({PLAIN_NAME}|%\d+)(~\w+)?/
STRING: /"([^"\\\n]|\\.)*"/
FLOAT: /\d+(\.\d*(e[+-]?\d+)?|e[+-]?\d+)/
INT: /\d+(?![.e]?\d)/
PLUS: "+"
MINUS: "-"
TIMES: "*"
OVER: "/"
POWER: "^"
_NL: /(\r?\n[ \t]*)+/
%ignore / +/
"""


# Names of values in the printed IR.


@dataclass(slots=True)
class ValueNames:
    """A name for everything that is asked for: the author's, made unique, or a number."""

    _names: dict[Hashable, str] = field(default_factory=dict[Hashable, str])
    _taken: Counter[str] = field(default_factory=Counter[str])

    def of(self, thing: Hashable, name: str | None) -> str:
        """The name of a thing, which would like to be called `name`."""
        if thing not in self._names:
            wish = name or "%"
            self._taken[wish] += 1
            number = self._taken[wish]
            plain = name is not None and number == 1 and name not in LINE_WORDS
            mark = "" if wish == "%" else "~"
            self._names[thing] = wish if plain else f"{wish}{mark}{number}"
        return self._names[thing]

    def call(self, thing: Hashable, name: str) -> None:
        """Give a thing a name that no author can choose."""
        self._names[thing] = name


def bare(name: str) -> str | None:
    """The name that a thing was given, None where it has but a number."""
    return None if name.startswith("%") else name.partition("~")[0]


# Blocks in the printed IR: the number of the file tells blocks of one name apart.


def label(block: BlockId) -> str:
    """The label of a block: its name in the main file, ``Layer~1`` in the first other file."""
    file, name = block
    return f"{name}~{file}" if file else name


def parse_label(text: str) -> BlockId:
    """The block of a label."""
    name, _, file = text.partition("~")
    return int(file or 0), name


def usual_label(key: str) -> str:
    """The label of the block that a graph of this key usually belongs to."""
    name = re.match(r"\w*", key)
    return name.group() if name else ""


# Operators that a glyph alone names in the printed IR, and those that need more.


Types = Mapping[Value, TensorType]


@cache
def _lasting() -> Mapping[str, Op]:
    """Return the operators of the language and of the passes, by glyph."""
    fused: tuple[Op, ...] = service("fused_operators")() if offers("fused_operators") else ()
    rest = (ring_attention.OP, ZEROS)
    return {**ops.table(), **{op.glyph: op for op in (*fused, *rest)}}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The meaning of every glyph of a text; definitions are as in the file: ``op RMS(x) = …``."""

    operators: Mapping[str, Op]
    definitions: tuple[str, ...] = ()

    @classmethod
    def of(cls, program: IRProgram) -> Vocabulary:
        """Build the vocabulary of a program, with file operators whose glyph is unambiguous."""
        used: dict[str, dict[int, tuple[Op, bool]]] = {}
        for step, types in _applies(program):
            said = used.setdefault(step.op.glyph, {})
            if id(step.op) not in said:
                said[id(step.op)] = step.op, _matches_formula(step, types)
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
            op = _parse_operator(text)
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


def _applies(program: IRProgram) -> Iterator[tuple[Apply, Types]]:
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


def _parse_operator(text: str) -> Op | None:
    """The operator that a file's definition makes, None for anything else."""
    try:
        module = parse(Source("program.ir", text + "\n"))
        return define(module.ops[0]) if len(module.ops) == 1 else None
    except DiagnosticError:
        return None


def _matches_formula(step: Apply, known: Types) -> bool:
    """Whether a step applies what its operator's own formula defines."""
    op = step.op
    if op.local or not op.formula.startswith(f"op {op.glyph}("):
        return False
    again = _parse_operator(op.formula)
    if again is None or any(value not in known for value in step.inputs):
        return False
    types = [known[value] for value in step.inputs]
    return are_equivalent(op, again, types, step.attrs)


def are_equivalent(op: Op, other: Op, types: Sequence[TensorType], attrs: Attrs) -> bool:
    """Whether two operators are the same to all passes, on operands of these types."""

    def said(one: Op) -> object:
        slots = (one.data, one.own, one.outputs)
        return one.glyph, one.name, one.family, slots, one.local, one.keeps_shape

    try:
        return said(op) == said(other) and op.body(types, attrs).matches(other.body(types, attrs))
    except (ShapeError, Misuse):
        return False


def gradients(origin: Apply, types: Sequence[TensorType]) -> tuple[str, ...]:
    """The operands of a step whose gradients an adjoint of its operator can give."""
    if origin.op.local:
        return ()  # of what one rank computes no gradient is derived
    return origin.op.adjoint_body(types, origin.attrs).of
