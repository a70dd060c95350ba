"""The grammar of the printed IR, and the names and operators that a text mentions.

The order of the lines of a graph is the printer's; the grammar leaves it open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ir_reader.errors import Meaningless
from xg.ir.op import Op
from xg.ir.placement import BlockId
from xg.passes.ir_text import PLAIN_KEY, PLAIN_NAME, lasting_operators, parse_operator

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


def bare(name: str) -> str | None:
    """The name that a thing was given, None where it has but a number."""
    return None if name.startswith("%") else name.partition("~")[0]


def parse_label(text: str) -> BlockId:
    """The block of a label."""
    name, _, file = text.partition("~")
    return int(file or 0), name


def define_operators(definitions: Iterable[tuple[str, int | None]]) -> Mapping[str, Op]:
    """The glyphs of a text, by what its lines define; raises Meaningless."""
    table = dict(lasting_operators())
    for text, line in definitions:
        op = parse_operator(text)
        if op is None:
            raise Meaningless(f"expected the definition of an operator, not {text}", line)
        table[op.glyph] = op
    return table
