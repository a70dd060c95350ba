"""Recognize what people bring from Python, PyTorch, LaTeX, Mermaid and other languages.

`HINTS` has a row for each habit. To add one, copy a row and run `pytest --update-golden
tests/syntax/test_hints.py`. Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from xg.diagnostics.diagnostic import Span
from xg.diagnostics.terminal import SLIP, similar
from xg.syntax import errors
from xg.syntax.error_token import Repair, Stop
from xg.syntax.formulas import (
    FUNCTIONS,
    SOURCES,
    as_chain,
    as_expression,
    as_guard,
    as_operator,
    count_axes,
    expression_around,
    shapes_written,
    turn_comparison,
)
from xg.syntax.spelling import FOREIGN, native

Groups: TypeAlias = Mapping[str, str]


class Hint(NamedTuple):
    """A habit, and what to write instead.

    `place` has one or more words for where the habit occurs: in a "chain", an "op", the "ports" of
    a head or of a parameter, the "sizes" of a `dim`, or a "file". `example` shows it, and is its
    test.

    In `pattern` a blank means any number of blanks, `<name>` a group that is a word, and
    `‸` the place where the parser stopped. Without a `‸` the pattern has to cover that place.
    `meant` is filled with the groups; what is in front of a ` => ` has to be defined first. A
    function returns None if it does not recognize the text.
    `insert` and `drop` repair the tokens, so that the rest of the line is read.
    """

    place: str
    example: str
    pattern: str
    reason: str
    meant: str | Callable[[Stop, Groups], str | None]
    insert: tuple[str, ...] = ()
    drop: bool = False


# ---- functions of rows that compute what to write ------------------------------------------------


def _shapes(stop: Stop) -> Mapping[str, str]:
    return shapes_written(stop.above)


def _positions(stop: Stop, found: Groups) -> str | None:
    """`x[:, 1:]`, `x[0]` and `E[ids]`, where x is a value or the chain before."""
    name, shapes = found["name"], _shapes(stop)
    entries = [entry.strip() for entry in found["inside"].split(",")]
    cut = [(place, entry) for place, entry in enumerate(entries) if entry != ":"]
    if len(cut) != 1 or (name not in shapes and name and ":" not in found["inside"]):
        return None
    place, entry = cut[0]
    axes = [axis.strip() for axis in shapes.get(name, "").split(",")]
    axis = axes[place] if place < len(axes) and axes[place].isidentifier() else "S"
    start, colon, end = entry.partition(":")
    chain = f"{name} -> pick[{axis}]({entry})"
    if colon:
        last = f"{axis} - {end[1:]}" if end.startswith("-") else end or axis
        chain = f"{name} -> slice[{axis}]({start or 0}, {last})"
    elif entry in shapes:
        table = re.search(rf"\bparam\b[^\n#]*\b{re.escape(name)}\b", stop.above)
        chain = f"{entry} -> Emb({name})" if table else f"{name} -> gather[{axis}]<-{entry}"
    return f"({chain})" if found["attached"] else chain


def _new_axis(_: Stop, found: Groups) -> str:
    """`x[:, None]`."""
    if found["attached"]:
        return f"BC({found['name']})"
    return f"{found['name']} -> BC {found['label'] or ': NAME [B, N, D]'}"


def _called(_: Stop, found: Groups) -> str:
    chain = f"{found['value']} -> {found['node']}"
    return f"({chain})" if found["attached"] else chain


def _range(_: Stop, found: Groups) -> str:
    axis, start, stop = found["axis"], found["start"], found["stop"]
    last = f"{axis} - {stop[1:]}" if stop.startswith("-") else stop or axis
    return f"slice[{axis}]({start or 0}, {last})"


def _source(_: Stop, found: Groups) -> str:
    return SOURCES[found["name"]].format(found["axes"])


def _added_to(stop: Stop, found: Groups) -> str:
    """`out += relu(d)`."""
    formula = f"{found['name']} {found['sign']} ({found['rest']})"
    return f"{as_chain(formula, _shapes(stop)) or 'x -> f'} : {found['name']}_2"


def _is_state(stop: Stop, name: str) -> bool:
    state = rf"^[ \t]*state\b[^\n#]*\b{re.escape(name)}\s*[\[,]"
    return re.search(state, stop.above, re.MULTILINE) is not None


def _previous_state(stop: Stop, found: Groups) -> str | None:
    """`h[t-1]`, where h is a state."""
    return found["name"] if _is_state(stop, found["name"]) else None


def _start(stop: Stop, found: Groups) -> str | None:
    """`h = zeros`, where `next` sets h."""
    name, below = found["name"], stop.source.text[stop.here.start :].partition("}")[0]
    if not re.search(rf"^[ \t]*next\b[^\n#]*\b{re.escape(name)}\b", below, re.MULTILINE):
        return None
    shapes = re.findall(_SHAPE, stop.above.rpartition("\nblock ")[2])
    return f"state {name} {shapes[0] if shapes else '[B, D]'} = {found['start']}"


def _size(stop: Stop, found: Groups) -> str | None:
    """`-> tanh / sqrt(D)` and `-> tanh * (1/D)`: numbers and dims, not tensors."""
    number = found["number"].strip()
    if stop.opening:
        return None
    names = set(re.findall(r"[^\W\d]\w*", number)) - {"sqrt", "exp", "log"}
    dims = re.findall(r"^[ \t]*dim\b([^#\n]*)", stop.source.text, re.MULTILINE)
    dims += re.findall(r"\[[^\[\]\n]{0,200}\]", stop.above)
    if not all(any(re.search(rf"\b{name}\b", line) for line in dims) for name in names):
        return None
    whole = re.fullmatch(r"\(([^()]*(?:\([^()]*\))?)\)", number)  # `(1/sqrt(D))`
    if found["sign"] == "/":
        return f"-> scale(1/{whole[1] if whole and '/' not in whole[1] else number})"
    return f"-> scale({whole[1] if whole else number})"


def _node_with_text(_: Stop, found: Groups) -> str:
    """`A[Input] --> B[Linear]`, as Mermaid writes it."""
    return f"{found['name']} -> {found['operator'] or 'f'} : {found['node']}"


def _label(_: Stop, found: Groups) -> str:
    return f": {found['name'] or 'NAME'} {found['shape']}"


def _decimal(_: Stop, found: Groups) -> str | None:
    """`0x10` and `1_000`."""
    try:
        return str(int(found["number"], 0))
    except ValueError:
        return None


def _negated(_: Stop, found: Groups) -> str:
    """`-> -mean[B]` and `-> -0.5 * LN`: a node with a sign before it."""
    return f"-> {found['node']} -> scale(-{found['number'] or 1}) {found['rest']}"


def _repeat_or_scale(stop: Stop, found: Groups) -> str:
    """`-> Layer * 4` and `-> tanh * 2`."""
    node, number = found["node"], found["number"]
    if node in _shapes(stop):
        return f"-> scale({number})"
    block = re.search(rf"^block {re.escape(node)}\b", stop.source.text, re.MULTILINE)
    return f"-> {number} × {node}" if block else f"-> {node} -> scale({number})"


_TYPES: Final = {
    r"b?float\d*|fp\d+|f\d\d|bf16|double|half|\w*Tensor|tensor|ndarray": "",
    r"u?int\d*|[iu]\d+|long|integer": " in V",
    r"bool(?:ean)?": " in 2",
}


def _typed(_: Stop, found: Groups) -> str | None:
    """`x float [B]`: floats are the default, integers and masks have a range."""
    for types, range in _TYPES.items():
        if re.fullmatch(types, found["type"], re.IGNORECASE):
            return f"{found['name']} {found['shape']}{range}"
    return None


def _axes_by_times(_: Stop, found: Groups) -> str | None:
    axes = re.split(r"\s+x\s+|\s*×\s*", found["axes"])
    return f"[{', '.join(axes)}]" if len(axes) > 1 and all(map(str.strip, axes)) else None


def _expression(stop: Stop, _: Groups) -> str | None:
    """`x if x > 0 else 0`, `not x > 0`, `1 > x > 0` and `x > 0 || z > 0`."""
    return as_expression(expression_around(stop.source.text, stop.here.start, stop.here.start))


def _matmul(stop: Stop, found: Groups) -> str:
    """`x @ w`, where axes have names."""
    left, right = found["left"], found["right"]
    shapes = shapes_written(stop.near[0])
    axis = shapes.get(left, "").rpartition(",")[2].strip()
    if axis.isidentifier() and axis in re.split(r"\W+", shapes.get(right, "")):
        return f"sum[{axis}]({left}*{right})"
    return f"op f({left} [.., D], {right} [D, E]) = sum[D]({left}*{right})"


def _option_guard(stop: Stop, found: Groups) -> str | None:
    """`-> LN if norm`: a guard names the word for which its node is there."""
    name = found["name"]
    if "EQUAL" not in stop.expected:
        return None
    option = re.search(
        rf"^[ \t]*option[ \t]+{name}[ \t]*=([^#\n]*)", stop.source.text, re.MULTILINE
    )
    words = re.findall(r"\w+", option[1]) if option else ["yes", "no"]
    declared = "" if option else f"option {name} = {' | '.join(words)}` and `"
    return f"{declared}if {name} = {words[-1] if found['negated'] else words[0]}"


# ---- the table -----------------------------------------------------------------------------------


_MODULE: Final = "(?:torch|np|numpy|nn|F|functional|math|tf|jnp|jax|keras|layers)"
_NODE: Final = r"[\w.]+(?:\[[^\[\]]*\])?(?:\([^()]*\))?(?:<[-=]\w+)*"
_NUMBER: Final = r"-?\d[\d.]*(?:/\d[\d.]*)?"
_SIZES: Final = r"\(?[\w./^]+(?:\([^()]*\))?\)?"
_SHAPE: Final = r"\[[^\[\]]*\]"
_T: Final = r"\(?(?:[Tt](?!\w)|⊤)\)?"

_NO_WORD: Final = r"(?!(?:reversed|if|as|over|for|and|or)\b|x \d)"

_FUNCTION_FIRST: Final = "a function goes before its operand"
_NODE_LAST: Final = "a node goes after its operand"
_NO_MODULE: Final = "operators and functions have no module"
_TAKEN: Final = "use slice to take positions, or pick to take one"
_PEERS: Final = "separate the values before a chain with commas, without brackets"
_RESULTS: Final = "separate results with commas, without parentheses"
_LOOP: Final = "use `over` to loop over an axis, and `×` to repeat a block"
_START: Final = "a value that goes from iteration to iteration is a state"
_BACKWARDS: Final = "to loop backwards, write `reversed` after the axis"
_SCALE: Final = "use scale to multiply by a number"
_ADD: Final = "to add a number, use it in an op of your own"
_REPEAT: Final = "write a repeat with `×` or `*`, before the block"
_TRANSPOSE: Final = "use T to transpose a matrix"
_CHOICE: Final = "to choose between two numbers, use select in an expression"
_COMPARE: Final = "use a function to join comparisons"
_POINT: Final = "a decimal point needs digits on both sides"
_LABEL: Final = "write a colon before the name of an edge"
_TYPE: Final = "numbers are floats by default, and integers are declared by their range"
_OUTPUT: Final = "a signature names the outputs of the block"
_SETTING: Final = "set a value with `=`"

HINTS: Final = (
    # Python, NumPy and PyTorch: calls
    Hint("chain", "x -> torch.tanh : y", rf"-> {_MODULE}‸\.(?:\w+\.)*<node>", _NO_MODULE,
         "{node}"),
    Hint("chain op", "op f(x) = torch.sin(x)", rf"\b(?:{_MODULE}\.)+<node>‸\(", _NO_MODULE,
         "{node}"),
    Hint("chain", "x -> •<=W.t() : y", r"(?P<sign>[•@]<=|<-)<name>\.(?:t|T|transpose)‸\(",
         _TRANSPOSE, "{sign}T({name})"),
    Hint("chain", "x.view(B, D) : y", r"<value>\.<node>‸(?P<own>\([^()]+\))?", _NODE_LAST,
         "{value} -> {node}{own}"),
    Hint("op", "op f(x) = x.exp()", r"<value>\.<node>‸\( \)", _FUNCTION_FIRST, "{node}({value})"),
    Hint("op", "op f(x) = x.pow(2)", r"<value>\.<node>‸\((?P<own>[^()]+)\)", _FUNCTION_FIRST,
         "{node}({value}, {own})"),
    Hint("chain", "Linear(D, D)(x) : y", rf"(?P<attached><[-=] )?(?P<node>{_NODE})‸\(<value>\)",
         _NODE_LAST, _called),
    Hint("chain", 'einsum("bd,de->be", x, W) : y', r"\b(?:einsum|contract)\(‸",
         "a sum of products is an op of your own, with named axes",
         "op f(x [.., D], W [.., D, E]) = sum[D](x * W)"),
    Hint("chain", "(x, z) -> C : y", r"^\((?P<peers>[\w.,\s]+)‸\) (?P<rest>->.*)", _PEERS,
         "{peers} {rest}"),
    Hint("chain", "[x, z] -> C : y", r"^‸\[(?P<peers>[\w.,\s]+)\] (?P<rest>->.*)", _PEERS,
         "{peers} {rest}"),
    Hint("chain", "x -> Layer(E: 2) : y", r"[\[(,] <name> ‸: (?P<value>[\w*/+]+) (?=[,)\]])",
         "the value of an argument goes after `=`", "{name}={value}", ("EQUAL",), drop=True),
    Hint("chain", "x -> split : (a, b)", r": ‸\((?P<names>\w+(?: , \w+)*) \)", _RESULTS,
         ": {names}"),
    Hint("chain", "x -> T(z -> •<=W) : y", r"<node>\((?P<value>[^()]*) ‸(?P<steps>->[^()]*)\)",
         "parentheses after a node hold operands and numbers, not a chain",
         "({value} {steps} -> {node})"),
    Hint("chain", "z += relu(x)", r"^<name> ‸(?P<sign>[-+*/@⊕⊙•])= (?P<rest>.*)",
         "a name is defined once: the new value needs its own name", _added_to),
    # Python, NumPy and PyTorch: positions and sources
    Hint("chain", "x -> slice[D](0:1) : y",
         r"(?:slice|pick)\[<axis>(?:\] \(|,) (?P<start>[\w*/+-]*) ‸: (?P<stop>[\w*/+-]*)",
         "the first position and the one after the last are two numbers",
         _range),
    Hint("chain", "normal[B, D] -> tanh : y",
         rf"^(?P<name>{'|'.join(SOURCES)})\[(?P<axes>[^\]]*)\] ‸(?!\()",
         "the numbers of a source go in parentheses after its axes", _source),
    Hint("chain", "x[:, None] : y [B, N, D]",
         r"(?:(?P<attached><[-=]) |^)<name>\[[^\[\]]*(?:None|newaxis)[^\[\]]*\] "
         r"(?P<label>: \w+ \[[^\[\]]*\])?", "use BC to repeat values along axes", _new_axis),
    Hint("chain", "state h [B, D]\n    x -> ⊕<-h[t-1] : y", r"<name>\[ [tins] - 1 \]",
         "a state's name is its value from the iteration before", _previous_state),
    Hint("chain", "x[:, 1:] : y",
         r"(?:(?P<attached><[-=]) |^)<name>\[(?P<inside>[\w:,.\s+-]+)\] ", _TAKEN,
         _positions),
    Hint("chain", "x -> [:, 0] : y",
         r"(?P<attached>)(?P<name>)-> ‸\[(?P<inside>-?\d+ |[\w:,\s+-]*:[^\]]*)\]", _TAKEN,
         _positions),
    # Python: loops and choices
    Hint("chain", "next h <- y", r"^next <name> ‸(?:<-|<=|->|:=?) <value> $",
         "`next` sets a state with `=`", "next {name} = {value}"),
    Hint("chain", "h = zeros\n    next h = x", r"^<name> ‸:?= (?P<start>zeros|ones)\b", _START,
         _start),
    Hint("chain", "x -> Cell over B backwards : y",
         r"\bover <axis> ‸,? (?:in )?(?i:backwards?|reversed?)\b", _BACKWARDS,
         "over {axis} reversed"),
    Hint("chain", "for i in range(3): x -> tanh : y", r"^for ‸\w+ in (?:range\( )?<count>", _LOOP,
         "x -> {count} × Layer` or `X -> Cell over S"),
    Hint("chain", "x -> Cell for B : y",
         r"-> (?P<node>\w+(?:\([^()]*\))?) ‸for (?:\w+ in )?(?:range\( )?<axis>", _LOOP,
         "{node} over {axis}"),
    Hint("chain", "x -> Cell over reversed(B) : y",
         r"\bover ‸(?:reversed|-) \(? <axis>|‸reversed over <other>",
         _BACKWARDS, "over {axis}{other} reversed"),
    Hint("chain", "x -> Cell as back over B reversed : y",
         r"\bas (?P<name>\w+) ‸over <axis>(?P<reversed> reversed\b)?",
         "the name of a call comes after its axis", "over {axis}{reversed} as {name}"),
    Hint("chain", "x -> LN if norm = pre else BN : y", r"<node> if\b.* ‸else <other>",
         "an `if` has no `else`: choose between two nodes with an option",
         "option either = {node} | {other}` and `-> either"),
    Hint("chain", "x -> LN if norm : y", r"\bif (?P<negated>not\s+)?(?P<name>(?!not\b)\w+) ",
         "an `if` names an option and a word that keeps the node", _option_guard),
    Hint("op", "op f(x) = where(x > 0, x, 0)", r"‸where(?P<operands>\(.*\))", _CHOICE,
         "select{operands}"),
    Hint("chain", "x -> where(x > 0, x, 0) : y", r"‸where \(", _CHOICE,
         "op f(x, y) = select(x > y, x, y) => -> f<-y"),
    Hint("op", "op f(x) = x if x > 0 else 0", r"‸if\b", _CHOICE, _expression),
    Hint("op", "op f(x, z) = x > 0 || z > 0", r"‸\|", _COMPARE, _expression),
    Hint("op", "op f(x) = select(1 > x > 0, 1, 0)", r">=?[^<>,]*‸>", _COMPARE, _expression),
    Hint("op", "op f(x) = select(not x > 0, x, 0)", r"\bnot ‸",
         "to negate a condition, reverse its comparison", _expression),
    # Python: declarations
    Hint("file", "f(x) = x + 1", r"^‸(?P<signature>\w+ \([^()]*\)) :?= (?P<formula>\S.*)",
         "an operator begins with `op`", "op {signature} = {formula}"),
    Hint("ports", "block F(x float [B, D]) -> y [B, D] {\n}",
         rf"<name> ‸:? <type> (?P<shape>{_SHAPE})", _TYPE, _typed),
    Hint("ports", "param K [D] buffer",
         rf"(?P<name>\w+ {_SHAPE}) ‸(?i:fixed|const|buffer|no_?grad)\b",
         "to not train a parameter or input, write `frozen`", "{name} frozen", ("FROZEN",),
         drop=True),
    Hint("ports", "param K(D, D)", r"<name> ‸\((?P<axes>[^()]*)\)", "a shape goes in brackets",
         "{name} [{axes}]"),
    Hint("chain", "b [D]", rf"^(?P<port>\w+ {_SHAPE}) ‸$", "declare a parameter with `param`",
         "param {port}"),
    Hint("ports", "block F(x [B, D]) -> [B, D] {\n}", rf"-> ‸(?P<shape>{_SHAPE})", _OUTPUT,
         "-> Y {shape}", ("NAME",)),
    Hint("ports", "block F(x [B, D]) {\n}", rf"(?P<head>^block[^\[]*(?P<shape>{_SHAPE})?.*\)) ‸\{{",
         _OUTPUT, "{head} -> Y {shape} {{"),
    Hint("ports", "param K [B x D]", r"\[(?P<axes>[^\[\]]*‸(?:x\b|×)[^\[\]]*)\]",
         "separate axes with commas", _axes_by_times),
    Hint("sizes", "dim D: 64",
         r"\b(?P<word>dim|mesh) (?:.*,)? (?P<name>[^\W\d]\w*) "
         r"‸(?:: |(?=\d))(?P<value>[^,:;\s]+)", _SETTING,
         "{word} {name} = {value}"),
    Hint("sizes", "option norm = [pre, post]", r"\boption\b.*? <name> = [\[({]? <word> , <other>",
         "`|` goes between the words of an option", "option {name} = {word} | {other}"),
    # Mathematics and LaTeX
    Hint("chain", "x -> •<=W^T : y", rf"(?P<sign>[•@]<=|<-)(?:T\()?<name> ‸\^ {_T}", _TRANSPOSE,
         "{sign}T({name})"),
    Hint("chain", "x^T -> tanh : y", rf"(?P<front>^\w+|-> {_NODE}) ‸\^ {_T}", _TRANSPOSE,
         "{front} -> T"),
    Hint("op", "op f(x [.., D]) = sum(D)(x)",
         r"\b(?P<function>sum|mean|max|min)(?:[\[(](?P<axes>[\w,.\s]+)[\])] ‸|_(?P<axis>\w+) ‸|"
         r"_‸\{(?P<braced>[^{}]+)\}) \(?(?P<operand>[^()]+)",
         "axes to reduce go in brackets, and the operand in parentheses",
         "{function}[{axes}{axis}{braced}]({operand})"),
    Hint("chain op", "op f(x) = h_{t-1} + x", r"<name>_‸\{<index>[^}]*\}",
         "a name can only have letters, digits and `_`", "{name}_{index}"),
    Hint("chain", "x -> tanh / sqrt(D) : y",
         rf"->(?:.*[^\s>])? ‸(?P<sign>[/*⊙]) (?P<number>{_SIZES}) (?=->|:|$)",
         _SCALE, _size),
    Hint("chain", "x -> tanh * 2 : y", rf"-> <node> [*⊙×] ‸(?P<number>{_NUMBER})",
         f"{_SCALE}; a repeat goes before its block", _repeat_or_scale),
    Hint("chain", "x -> *0.5 : y", rf"-> [*⊙] ‸(?P<number>{_NUMBER})", _SCALE,
         "-> scale({number})"),
    Hint("chain", "x -> + 1 : y", rf"-> [+⊕] ‸(?P<number>{_NUMBER})", _ADD,
         "op f(x) = x + {number} => -> f"),
    Hint("chain", "x -> 2 : y", rf"-> (?P<number>{_NUMBER}) ‸(?=->|:|$)", _SCALE,
         "-> scale({number})"),
    Hint("chain", "x -> 1 - x : y", rf"-> (?P<number>{_NUMBER}) ‸(?P<sign>[-+/]) (?!\d)", _ADD,
         "op f(x) = {number} {sign} x => -> f"),
    Hint("chain", "0.5*x : y", rf"^‸(?P<number>{_NUMBER}) [*⊙] <name> (?P<rest>.*)", _SCALE,
         "{name} -> scale({number}) {rest}"),
    Hint("chain", "x -> -mean[B] : y",
         r"-> ‸- (?:(?P<number>[\d.]+) \* )?(?P<node>[A-Z]\w+(?:\([^()]*\))?|\w+\[[^\]]*\]) "
         r"(?P<rest>.*)", _SCALE, _negated),
    Hint("chain", "x -> 2 x Layer : y", r"-> <count> ‸x (?P<block>[^\W\d]\w*)", _REPEAT,
         "{count} × {block}", ("STAR",), drop=True),
    Hint("op", "op f(x) = |x|", r"‸\|(?P<inner>[^|]+)\|", "an absolute value is a function",
         "abs({inner})"),
    Hint("op", "op f(x) = exp x",
         r"\b(?P<function>exp|log|sqrt|tanh|sin|cos|abs|sigmoid) ‸(?P<operand>[\w.]+(?:\^[\w.]+)?)",
         "a function needs its operand in parentheses", "{function}({operand})"),
    Hint("op", "op f(x, w) = x @ w", r"<left> ‸[@•] <right>",
         "an expression names its axes, and sums over those in brackets", _matmul),
    Hint("chain op", "op f(x) = .5*x", r"‸\.(?P<digits>\d+)", _POINT, "0.{digits}"),
    Hint("chain op sizes", "dim D = 1_000", r"\b(?P<number>\d+‸(?:[xbo]|_)\w+)",
         "a number has decimal digits only", _decimal),
    Hint("chain op", "op f(x) = x*2.", r"(?P<digits>\d+)‸\.", _POINT, "{digits}.0", drop=True),
    # Mermaid, DOT and D2: labels
    Hint("chain", "A[Input] --> B[Linear]", r"^<name>\[\w+\] ‸-> <node>(?:\[(?P<operator>\w+)\])?",
         "a chain goes from a value to an operator, and its label names the result",
         _node_with_text),
    Hint("chain", "x [B, D] -> tanh : y", rf"^(?P<name>\w+) {_SHAPE} ‸(?P<rest>->.*)",
         "a chain begins with a name only: its shape is set where the name is defined",
         "{name} {rest}"),
    Hint("chain", "x -> tanh h [B, D]",
         rf"-> (?P<node>(?!return\b){_NODE}) ‸{_NO_WORD}<name>(?P<shape> {_SHAPE})? ",
         _LABEL, "-> {node} : {name}{shape}", ("COLON",)),
    Hint("chain", "x -> [B, D] : h", rf"-> ‸(?P<shape>{_SHAPE})(?: : <name>)?",
         "a shape is not a step: it goes after the name of an edge",
         _label),
    Hint("chain", "x -> tanh : h (B, D)", r": <name> ‸\((?P<axes>[^()]*)\)",
         "a shape goes in brackets", ": {name} [{axes}]"),
)  # fmt: skip


def match(stop: Stop) -> tuple[Hint, str] | None:
    """The row that recognizes a stop, and what to write."""
    place = _place(stop)
    front, behind = (_with_own_signs(text) for text in stop.near)
    plain, marked = front + behind, f"{front}‸{behind}"
    for hint in HINTS:
        if place not in hint.place.split() or (
            hint.insert and not stop.reader.fits([*hint.insert])
        ):
            continue
        text = marked if "‸" in hint.pattern else plain
        found = _compile(hint.pattern).search(text)
        if found is None or not found.start() <= len(front) <= found.end():
            continue
        groups = {name: text or "" for name, text in found.groupdict().items()}
        groups = {name: text.replace("‸", "") for name, text in groups.items()}
        meant = hint.meant
        meant = meant.format_map(groups) if isinstance(meant, str) else meant(stop, groups)
        if meant:
            return hint, re.sub(" +", " ", meant).strip()
    return None


def from_table(stop: Stop) -> Repair | None:
    """The error of the first row that recognizes a stop."""
    found = match(stop)
    if found is None:
        return None
    hint, meant = found
    define, _, meant = meant.rpartition(" => ")
    problem = errors.ForeignForm(stop.here, hint.reason, meant, define)
    return Repair(problem, hint.insert, hint.drop)


def _place(stop: Stop) -> str:
    word = stop.word
    if word == "OP":
        return "op"
    if word in ("DIM", "MESH", "OPTION"):
        return "sizes"
    in_block = stop.reader.awaits("statement")
    if word in ("BLOCK", "PARAM", "STATE") or (not in_block and stop.opening):
        return "ports"
    return "chain" if in_block else "plan" if stop.reader.awaits("placement") else "file"


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    named = re.sub(r"(?<!\?P)<(\w+)>", r"(?P<\1>\\w+)", pattern)
    return re.compile(named.replace(" ", r"\s*"))


_ELSEWHERE_SIGNS: Final = re.compile(
    "|".join(re.escape(sign) for sign in sorted(FOREIGN, key=len, reverse=True))
)


def _with_own_signs(text: str) -> str:
    return _ELSEWHERE_SIGNS.sub(lambda found: native(found[0]), text)


# ---- habits that no pattern recognizes -----------------------------------------------------------

_INSIDE: Final = ("param", "state", "next", "dim", "highlight", "note", "expect")
_OUTSIDE: Final = ("edition", "use", "dim", "mesh", "option", "op", "block", "plan", "example")
_ELSEWHERE: Final = {
    **dict.fromkeys(("parameter", "parameters", "weight", "weights", "tensor"), "param"),
    **dict.fromkeys(("size", "sizes", "dimension", "dimensions", "axis", "axes"), "dim"),
    **dict.fromkeys(("let", "const", "var"), "dim"),
    **dict.fromkeys(("def", "fn", "func", "function", "layer"), "block"),
}
_RETURN: Final = (
    "the signature names the outputs; a line computes one if it ends in its name: `-> tanh : Y`"
)


def other_word(stop: Stop) -> Repair | None:
    """`params W [D]`, `dims B, D`, `def F(…)`, `return y`; `D = 3` outside of a block."""
    outside = stop.begins_line and "item" in stop.reader.choices
    first = stop.token if outside else stop.previous
    second = stop.following if outside else stop.token
    if first is None or first.type != "NAME" or second is None:
        return None
    span, (front, behind) = stop.span(first), stop.near
    rest = behind[len(span.text) :].strip() if outside else behind.strip()
    listed = second.type == "COMMA" and "=" in rest and "->" not in rest
    if outside and (second.type == "EQUAL" or listed):
        return Repair(errors.OtherWord(span, (f"write `dim {behind.strip()}`",)))
    if second.type != "NAME" or (not outside and front.strip() != span.text):
        return None
    if span.text == "return":
        return Repair(errors.OtherWord(span, (_RETURN,)))
    known = _OUTSIDE if outside else _INSIDE if stop.reader.awaits("statement") else ()
    word = _ELSEWHERE.get(span.text.lower()) or similar(span.text, known, SLIP)
    if word is None or word not in known or (not outside and span.text in ("let", "const", "var")):
        return None
    if word == "block":
        formula = re.fullmatch(r"(\w+\([^()]*\))\s*(?::\s*return\s|=)\s*(.+)", rest)
        if formula:
            return Repair(errors.OtherWord(span, (f"write `op {formula[1]} = {formula[2]}`",)))
        if not re.match(r'\w+\s*("[^"]*"\s*)?\(', rest):
            return None
    problem = errors.OtherWord(span, (f"did you mean {word}? write `{word} {rest}`",), word)
    return Repair(problem, (word.upper(),), drop=True) if outside else Repair(problem)


_IMPORTED: Final = r"[({]?\s*(?P<names>\w+(?:\s*,\s*\w+){0,20})\s*[)}]?"
_FILE: Final = r"(?P<file>\"[^\"\n]{1,200}\"|[\w./-]{1,200})"
_IMPORTS: Final = (
    rf"from {_FILE}\s+(?:import|use) {_IMPORTED}$",
    rf"(?:import|include|use) {_IMPORTED}\s+(?:from|of|in) {_FILE}$",
    rf"use (?P<file>\"[^\"\n]{{1,200}}\")\s*[:,]?\s*(?:import )?{_IMPORTED}$",
    rf"(?:import|include) {_FILE}$",
)


def other_import(stop: Stop) -> Repair | None:
    """`from "f" import A`, `import f`, `import A from "f.xg"` and `use "f.xg": A`."""
    outside = stop.begins_line and "item" in stop.reader.choices
    if not outside and stop.word != "USE":
        return None
    line = "".join(stop.near).strip()
    form = next((found for each in _IMPORTS if (found := re.match(each, line))), None)
    if form is None:
        return None
    file, names = form["file"], form.groupdict().get("names") or "NAME"
    own = file.strip('"')
    meant = f'use {names} from "{own if own.endswith(".xg") else f"{own}.xg"}"'
    if '"' not in file and own.isidentifier():
        meant = f"{meant}`, or from the shipped library `use {names} from {own}"
    if stop.token.type == "STRING":
        return Repair(errors.FileBeforeNames(stop.here, meant))
    if stop.word == "USE" and '"' not in file:
        return Repair(errors.UnquotedFile(stop.here, meant))
    return Repair(errors.ForeignForm(stop.here, "import names from a file with `use`", meant))


def logic_word(stop: Stop) -> Repair | None:
    """`x > 0 and 1 > x` in an expression."""
    if stop.here.text not in ("and", "or") or stop.word != "OP":
        return None
    if stop.following and stop.following.type == "LPAR" and "STAR" not in stop.expected:
        return None  # it is a function
    meant = as_expression(expression_around(stop.source.text, stop.here.start, stop.here.end))
    return Repair(errors.InfixWord(stop.here, meant)) if meant else None


def arrow_as_comparison(stop: Stop) -> Repair | None:
    """`x <= 0` and `x <-1` in an expression."""
    if stop.token.type not in ("SINGLE", "DOUBLE") or "GREATER" not in stop.expected:
        return None
    said = turn_comparison(stop.here)
    return Repair(errors.ArrowAsComparison(stop.here, said), ("GREATER",), drop=True)


def other_guard(stop: Stop) -> Repair | None:
    """`if norm = pre or norm = post`, `if (norm = pre)` and `if norm in ("pre", "post")`."""
    front, behind = stop.near
    begun = re.search(r"\bif\b(?!.*\bif\b)", front)
    if begun is None or stop.word == "OP" or re.search(r"->|:|\bas\b", front[begun.end() :]):
        return None
    if re.match(r"->|[:{}]|\bas\b|\bwhere\b|$", behind):
        return None
    guard = as_guard(f"{front[begun.end() :]}{behind}")
    return Repair(errors.ForeignForm(stop.here, *guard)) if guard else None


_NEW_AXES: Final = ("BC", "fill", "normal", "uniform", "bernoulli")  # what their brackets list


def formula_as_axis(stop: Stop) -> Repair | None:
    """`mean[H/2, W/2]`."""
    opening, text = stop.opening, stop.source.text
    if stop.token.type not in _SIGNS | {"MINUS"} or opening is None or opening.type != "LSQB":
        return None
    front, behind = text[max(0, opening.end - 200) : stop.token.start], stop.near[1]
    node = re.search(r"(\w+)\[([^\[\]]*?)([^\[\],()>\s]+\s*)$", front)
    rest = re.match(r"(?:(?!->)[^\[\],])*[^\[\],\s>-]", behind)
    if node is None or rest is None or not {"COMMA", "RSQB"} <= stop.expected:
        return None
    formula = Span(stop.source, stop.token.start - len(node[3]), stop.token.start + len(rest[0]))
    name = "n" if not re.search(r"\bn\b", text) else "n_2"
    new = "->" in node[2] or node[1] in _NEW_AXES
    after = behind[len(rest[0]) :].partition("]")[0]
    meant = f"{node[1]}[{node[2]}{name}{f'={formula.text}' if new else ''}{after}]"
    return Repair(errors.AxisFormula(formula, meant, "" if new or "->" in after else name))


# ---- formulas in place of chains -----------------------------------------------------------------


_SIGNS: Final = {"AT", "MATMUL", "PLUS", "ADD", "STAR", "MUL", "SLASH", "CARET"}


def _write_chain(stop: Stop, formula: str, written: str) -> str:
    """The help that writes a formula as a chain, which takes the place of `{}`."""
    if chain := formula if "->" in formula else as_chain(formula, _shapes(stop)):
        return f"write `{written.format(chain)}`"
    dims = re.findall(r"^[ \t]*dim\b([^#\n]*)", stop.source.text, re.MULTILINE)
    of_dims = {*re.findall(r"\w+", formula)} & {*re.findall(r"\w+", " ".join(dims))}
    defined = None if of_dims - {*"0123456789"} else as_operator(formula, _shapes(stop))
    if defined:
        return f"define it: `{defined[0]}`, and write `{written.format(defined[1])}`"
    return f"write its steps, each after an arrow: `{written.format('x -> f -> g')}`"


def assigned_chain(stop: Stop) -> Repair | None:
    """`h = f(x)`, `h <- f(x)`, but also `x -> f = h`."""
    front, rest = stop.line
    assigns = stop.token.type == "EQUAL" and "ARROW" in stop.expected
    arrives = stop.token.type == "SINGLE" and re.fullmatch(rf"\w+( {_SHAPE})?", front)
    if not (assigns or arrives) or not re.search(r"[\w\]]$", front):
        return None
    if "->" in front:
        return Repair(errors.AssignedChain(stop.here, (f"write `{front} : {rest}`",)))
    if start := from_table(stop):  # `h = zeros`
        return start
    name = front.rpartition(".")[2]
    if _is_state(stop, name):
        value = rest if rest.isidentifier() else f"{name}_1"
        steps = () if rest == value else (_write_chain(stop, rest, f"{{}} : {name}_1"),)
        help = (*steps, f"write `next {name} = {value}`")
        return Repair(errors.AssignedChain(stop.here, help, f"`next` sets the state {name}"))
    if re.search(r"\bparam\b|\bParameter\b", rest):
        sizes = re.search(r"\(([^()]+)\)", rest)
        help = f"write `param {name} [{sizes[1] if sizes else 'D, D'}]`"
        return Repair(errors.AssignedChain(stop.here, (help,)))
    help = _write_chain(stop, rest.rstrip("; "), f"{{}} : {name}")
    return Repair(errors.AssignedChain(stop.here, (help,)))


def infix_in_chain(stop: Stop) -> Repair | None:
    """`x @ W + b : y`, `ReLU(x) + z : y`, `x -> f + z` and `x -> ⊕<-(z @ W)`."""
    left, kind = stop.previous, stop.token.type
    if left is None or kind not in _SIGNS | {"MINUS"} or not stop.reader.awaits("statement"):
        return None
    front, behind = stop.line
    if left.type == "ARROW":
        return _sign_as_node(stop, front, behind)
    attached = re.search(r"<[-=]\s*\(([^()]*)$", front)
    if attached and ")" in behind:
        formula = f"{attached[1]} {stop.sign} {behind.partition(')')[0]}"
        return Repair(errors.InfixInChain(stop.here, (_write_chain(stop, formula, "({})"),)))
    call = stop.opening is not None and stop.opening.type == "LPAR" and "->" not in front
    between = stop.opening is None and "ARROW" in stop.expected
    if left.type not in ("NAME", "RPAR", "RSQB") or not (call or between):
        return None
    if "->" not in front:
        whole = f"{front} {stop.sign} {behind}"
        formula = re.match(r"(?:\[[^\[\]]*\]|(?!->)[^:\[\]])*", whole)
        rest = whole[formula.end() :] if formula else ""
        help = _write_chain(stop, formula[0].strip() if formula else "", f"{{}} {rest or ': NAME'}")
        return Repair(errors.InfixInChain(stop.here, (help,)))
    operand = re.match(r"(?:<[-=]\s*)?(\w+(?:\([^()]*\))?)", behind)
    return Repair(errors.InfixInChain(stop.here, (_after_a_chain(stop, front, operand),)))


def _after_a_chain(stop: Stop, front: str, operand: re.Match[str] | None) -> str:
    """`x -> f + y`."""
    named = operand[1] if operand else "…"
    if stop.sign in "•@*⊙/^" and (attached := re.search(r"(<[-=]\s*)(\w+)$", front)):
        written = front[: attached.start(2)] + "({})"  # these bind tighter than the sum before
        return _write_chain(stop, f"{attached[2]} {stop.sign} {named}", written)
    if stop.sign in ("*", "⊙") and named[0].isdigit():
        return f"write `{front} -> scale({named})`"
    if stop.sign in errors.INFIX and not named[0].isdigit():
        return f"write `{front} {errors.INFIX[stop.sign]}{_repeated(stop, named)}`"
    if named[0].isdigit():
        if stop.sign == "^":
            return f"define it: `op power(x) = x^{named}`, and write `-> power`"
        plain = stop.sign.replace("⊕", "+")
        return f"define it: `op f(x) = x {plain} {named}`, and write `{front} -> f`"
    signature = "x [..], y []" if _shapes(stop).get(named) == "" else "x, y"
    return f"define it: `op f({signature}) = x {stop.sign} y`, and write `{front} -> f<-{named}`"


def _repeated(stop: Stop, operand: str) -> str:
    """An operand of a sum or a product, with BC if it has fewer axes than the chain before."""
    shapes, head = _shapes(stop), re.split(r"\W", stop.near[0], maxsplit=1)[0]
    axes, own = count_axes(shapes, head), count_axes(shapes, operand)
    if "[" in stop.near[0].partition("->")[2]:
        return operand  # a node may have fewer axes than its operand
    return f"BC({operand})" if own is not None and own < (axes or 2) else operand


def _sign_as_node(stop: Stop, front: str, behind: str) -> Repair | None:
    """`-> -<-z` and `-> /2`: a sign that is no operator; a number divides by scale."""
    operand = re.match(r"(?:<-)?\s*(\w[\w.]*)(\((\w+)\))?", behind)
    if operand is None or stop.sign not in ("-", "/"):
        return None
    head, given, taken = front.removesuffix("->").strip(), operand[1], "y"
    if operand[2] and given in FUNCTIONS:  # a function of formulas is no node: the op calls it
        given, taken = operand[3], f"{given}(y)"
    elif operand[2]:
        given += operand[2]
    used = f"{head if head.isidentifier() else ''} -> f<-{given}".strip()
    helps = (
        f"define it: `op f(x, y) = x {stop.sign} {taken}`, and write `{used}`",
        f"for a single number y, the op is `op f(x [..], y []) = x {stop.sign} {taken}`",
    )
    if operand[1][0].isdigit():
        scale = f"1/{operand[1]}" if stop.sign == "/" else f"-{operand[1]}"
        helps = (f"write `{front} scale({scale})`",)
    fault = "is not an operator of a chain, unlike `+`, `*` and `@`"
    return Repair(errors.InfixInChain(stop.here, helps, fault))


def operand_without_arrow(stop: Stop) -> Repair | None:
    """`x -> •W : y`."""
    sign = stop.previous
    if sign is None or stop.token.type != "NAME" or "ARROW" not in stop.expected:
        return None
    if stop.begins_line or native(stop.span(sign).text) not in errors.INFIX:
        return None
    name, behind = stop.here.text, stop.line[1]
    called = re.match(r"\([^()]*\)", behind)
    turned = re.match(r"\^ ?T\b|\.T\b", behind)
    operand = f"{name}{called[0]}" if called else f"T({name})" if turned else _repeated(stop, name)
    return Repair(errors.OperandWithoutArrow(stop.here, native(stop.span(sign).text), operand))


def number_in_chain(stop: Stop) -> Repair | None:
    """`-x : y` and `2 -> f`: a number or a sign where a tensor has to come."""
    if stop.token.type not in ("NUMBER", "MINUS") or "NUMBER" in stop.expected:
        return None
    attached = stop.previous is not None and stop.previous.type in ("SINGLE", "DOUBLE", "LPAR")
    begins = stop.begins_line and stop.reader.awaits("statement")
    if not begins and not (attached and "NAME" in stop.expected):
        return None
    value = stop.following
    if stop.token.type != "MINUS" or not value or value.type != "NAME":
        return Repair(errors.NumberInChain(stop.here, ""))
    chain = f"{stop.span(value).text} -> scale(-1)"
    return Repair(errors.NumberInChain(stop.here, f"({chain})" if attached else chain))


FORMULAS: Final[tuple[Callable[[Stop], Repair | None], ...]] = (
    assigned_chain,
    infix_in_chain,
    operand_without_arrow,
    number_in_chain,
    arrow_as_comparison,
)
WORDS: Final[tuple[Callable[[Stop], Repair | None], ...]] = (
    other_guard,
    logic_word,
    other_import,
    from_table,
    formula_as_axis,
    other_word,
)
