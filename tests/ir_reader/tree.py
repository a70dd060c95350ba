"""Parse the printed IR into records: an attribute for each rule of the grammar."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import EllipsisType
from typing import Any, Final, TypeVar, cast

from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken, visitors

from ir_reader import records as r
from ir_reader.errors import UnreadableIR
from ir_reader.notation import GRAMMAR
from ir_reader.records import Applied, Expression, ProgramText, SizeName, Whole
from xg.diagnostics.lazy_dataclass import replace
from xg.ir.placement import AxisState, Kind, PlacementRequest
from xg.passes.ir_text import SIZE

ProgramLine = r.SizesText | r.PlanText | r.CountsText | r.CommunicatorsText | r.DefineText
PlanLine = r.EntryText | r.ScheduleText
Axes = Mapping[str, "int | None"]
Pair = tuple[Token, Token]
CutPart = tuple["Expression | None", tuple[str, ...]]
T = TypeVar("T")
_Rules = TypeVar("_Rules", bound=type[Transformer[Token, r.ProgramText]])


def _inline(rules: _Rules) -> _Rules:
    return cast("_Rules", cast("Any", visitors).v_args(inline=True)(rules))


def unquote(token: Token) -> str:
    """A name, or the text between quotes."""
    return cast("str", json.loads(token)) if token.startswith('"') else str(token)


def _collect_items(_: object, *items: T) -> tuple[T, ...]:
    """The rule of a list: what is in it."""
    return items


def _table(_: object, *pairs: tuple[str, T]) -> Mapping[str, T]:
    """The rule of a list of pairs."""
    return dict(pairs)


@_inline
class TreeOfProgram(Transformer[Token, r.ProgramText]):
    """The rules of whole lines. An optional part that is missing arrives as None."""

    # Rules whose parts are the fields of a record, in their order.
    param = r.ParamText
    foreign = r.ForeignText
    rows = r.RowsText
    layout = r.LayoutText
    part = r.StepText

    def start(self, program: r.ProgramText, *graphs: r.GraphText) -> r.ProgramText:
        """Add the graphs to the program's own lines."""
        return replace(program, graphs=graphs)

    def program(self, key: Token, *lines: ProgramLine) -> r.ProgramText:
        said: dict[str, Any] = {}
        for line in lines:
            match line:
                case r.SizesText():
                    said["sizes"] = line
                case r.PlanText():
                    said["plan"] = line
                case r.CountsText():
                    said[line.kind] = line.counts
                case r.CommunicatorsText():
                    said["communicators"] = line.names
                case r.DefineText():
                    said["definitions"] = (*said.get("definitions", ()), line)
        return r.ProgramText(str(key), **said)

    def define(self, text: Token) -> r.DefineText:
        return r.DefineText(unquote(text), text.line)

    def numbers(self, counts: Mapping[str, int]) -> r.CountsText:
        return r.CountsText("numbers", counts)

    def mesh(self, counts: Mapping[str, int]) -> r.CountsText:
        return r.CountsText("mesh", counts)

    def lengths(self, counts: Mapping[str, int]) -> r.CountsText:
        return r.CountsText("lengths", counts)

    def communicators(self, *names: Sequence[str]) -> r.CommunicatorsText:
        return r.CommunicatorsText(tuple(map("*".join, names)))

    def plan(self, name: Token, title: Token, axes: Axes | None, *lines: PlanLine) -> r.PlanText:
        return r.PlanText(unquote(name), unquote(title), axes or {}, lines)

    def plan_axis(self, name: Token, count: Token | None) -> tuple[str, int | None]:
        return str(name), None if count is None else int(count)

    def entry(
        self,
        block: Token,
        path: Token,
        rest: r.CutText | None,
        use: r.CutText | None,
        over: r.Names | None,
        plan: Token,
        memory: Token | None,
    ) -> r.EntryText:
        axes, word = frozenset(map(str, over or ())), memory and str(memory)
        return r.EntryText(block, unquote(path), rest, use, axes, unquote(plan), word)

    def schedule(self, block: Token, name: Token, *counts: Token) -> r.ScheduleText:
        return r.ScheduleText(block, unquote(name), *map(int, counts))

    def cut(self, *parts: CutPart | EllipsisType | None) -> r.CutText:
        sized = tuple(part for part in parts if isinstance(part, tuple))
        return r.CutText(sized, open=... in parts)

    def any_part(self, over: tuple[str, ...] | None) -> CutPart:
        return None, over or ()

    def sized_part(self, size: Expression, over: tuple[str, ...] | None) -> CutPart:
        return size, over or ()

    def open_part(self) -> EllipsisType:
        return ...

    def over(self, *axes: Token) -> tuple[str, ...]:
        return tuple(map(str, axes))

    # ---- graphs ---------------------------------------------------------------------------------

    def graph(
        self,
        kind: Token,
        key: Token,
        inputs: tuple[r.ValueText, ...] | None,
        results: tuple[tuple[str, r.TypeText], ...] | None,
        *lines: r.LineText,
    ) -> r.GraphText:
        return r.GraphText(kind, key, inputs or (), results or (), lines)

    def result(self, name: Token, type_: r.TypeText) -> tuple[str, r.TypeText]:
        return str(name), type_

    def begin(self, word: Token) -> str:
        return str(word)

    def law(self, low: Expression, high: Expression | None = None) -> Expression | r.UniformText:
        return low if high is None else r.UniformText(low, high)

    def carry(self, name: Token, past: Token, next_: Token, start: Expression) -> r.CarryText:
        return r.CarryText(str(name), past, next_, start)

    def state(self, name: Token, past: r.ValueText, next_: Token) -> r.StateText:
        return r.StateText(str(name), past, next_)

    def saved(self, names: r.Names | None) -> r.NamesText:
        return r.NamesText("saved", names or ())

    def operands(self, names: r.Names) -> r.NamesText:
        return r.NamesText("operands", names)

    def returned(self, names: r.Names | None) -> r.NamesText:
        return r.NamesText("return", names or ())

    def zeros(self, names: r.Names) -> r.NamesText:
        return r.NamesText("zeros", names)

    def reusable(self, names: r.Names) -> r.NamesText:
        return r.NamesText("reusable", names)

    def gradient(self, value: Token, gradient: Token) -> r.PairsText:
        return r.PairsText("d", ((value, gradient),))

    def pairs_of(self, kind: Token, pairs: tuple[Pair, ...]) -> r.PairsText:
        return r.PairsText(str(kind), pairs)

    def memory(self, *said: Token) -> r.MemoryText:
        return r.MemoryText(dict(zip(map(unquote, said[::2]), map(str, said[1::2]), strict=True)))

    def block(self, name: Token) -> r.WordText:
        return r.WordText("block", str(name))

    def title(self, text: Token) -> r.WordText:
        return r.WordText("title", unquote(text))

    def sizes(
        self,
        definitions: Mapping[str, Expression] | None,
        defaults: Mapping[str, int] | None,
        mesh: r.Names | None,
        local: r.Names | None,
    ) -> r.SizesText:
        mesh_axes, own = (tuple(map(str, names or ())) for names in (mesh, local))
        return r.SizesText(definitions or {}, defaults or {}, mesh_axes, frozenset(own))

    # ---- steps ----------------------------------------------------------------------------------

    def step(
        self,
        again: Token | None,
        outputs: tuple[r.ValueText, ...],
        use: r.ApplyText | r.CallText,
        definition: r.Definition | None,
        *parts: r.StepText,
    ) -> r.StepText:
        return r.StepText(outputs, use, definition, parts, again is not None)

    def outputs(self, values: tuple[r.ValueText, ...] = ()) -> tuple[r.ValueText, ...]:
        return values

    def apply(
        self,
        glyph: Token,
        inputs: r.Names | None,
        attrs: r.Attributes | None,
        place: str | None,
        origin: Token | None,
        chosen: r.Names | None,
    ) -> r.ApplyText:
        return r.ApplyText(glyph, inputs or (), attrs or {}, place, origin, chosen)

    def call(
        self,
        verb: Token,
        callee: Token,
        count: Expression | None,
        first: Token | None,
        path: str,
        loop: r.LoopText | None,
        carried: tuple[tuple[int, int], ...] | None,
        inputs: r.Names | None,
        sizes: Mapping[str, Expression] | None,
        origin: Token | None,
    ) -> r.CallText:
        at = str(callee), count, int(first or 0), path, loop, carried or ()
        return r.CallText(verb, *at, inputs or (), sizes or {}, origin)

    def loop(
        self,
        length: Expression,
        backwards: Token | None,
        inputs: tuple[int | None, ...],
        outputs: tuple[int | None, ...],
        states: Token,
    ) -> r.LoopText:
        return r.LoopText(length, backwards is not None, inputs, outputs, int(states))

    def carried(self, *pairs: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        return pairs

    def carried_pair(self, cotangent: Token, gradient: Token) -> tuple[int, int]:
        return int(cotangent), int(gradient)

    def axes(self, *axes: tuple[int | None]) -> tuple[int | None, ...]:
        return tuple(axis for (axis,) in filter(None, axes))

    def axis(self, number: Token | None = None) -> tuple[int | None]:
        return (None if number is None else -int(number),)

    def definition(
        self,
        name: Token,
        words: tuple[str, ...],
        data: r.Names | None,
        own: r.Names | None,
        outputs: r.Names | None,
        *rest: r.PrimitiveText | r.Names | None,
    ) -> r.Definition:
        *lines, results, caches = rest
        family, *flags = words
        return r.Definition(
            unquote(name),
            family,
            frozenset(flags),
            data or (),
            own or (),
            outputs or (),
            tuple(line for line in lines if isinstance(line, r.PrimitiveText)),
            cast("r.Names", results or ()),
            cast("r.Names", caches or ()),
        )

    def words(self, *words: Token) -> tuple[str, ...]:
        return tuple(map(str, words))

    def primitive(
        self, value: r.ValueText, prim: Token, args: r.Names | None, attrs: r.Attributes | None
    ) -> r.PrimitiveText:
        return r.PrimitiveText(value, prim, args or (), attrs or {})


@_inline
class Tree(TreeOfProgram):
    """The rules inside a line as well: values, attributes, sizes and numbers."""

    type = r.TypeText
    number = r.NumberAttr
    size = r.SizeAttr
    shape_of = r.ShapeText
    state_is = r.Constant
    values = results = pairs = names = _collect_items
    plan_axes = states = placement_requests = attrs = bindings = counts = _table

    def value(
        self,
        name: Token,
        role: Token | None,
        type_: r.TypeText | None,
        shown: tuple[Expression, ...] | None,
        placement: Mapping[str, AxisState] | None,
        placement_requests: Mapping[str, PlacementRequest] | None,
        of: Token | None,
        frozen: Token | None,
    ) -> r.ValueText:
        kind = None if role is None else str(role)
        return r.ValueText(name, kind, type_, shown, placement, placement_requests, of, frozen)

    def state_of(self, axis: Token, state: AxisState) -> tuple[str, AxisState]:
        return str(axis), state

    def request_of(
        self, axis: Token, rest: AxisState, use: AxisState | None
    ) -> tuple[str, PlacementRequest]:
        return str(axis), PlacementRequest(rest, use)

    def placed(self, kind: Token, axis: Token | None) -> AxisState:
        return AxisState(cast("Kind", str(kind)), -int(axis or 0))

    # ---- attributes -----------------------------------------------------------------------------

    def attr(self, name: Token, value: r.Attribute) -> tuple[str, r.Attribute]:
        return str(name), value

    def text(self, text: Token) -> r.Constant:
        return r.Constant(unquote(text))

    def true(self) -> r.Constant:
        return r.Constant(value=True)

    def false(self) -> r.Constant:
        return r.Constant(value=False)

    def none(self) -> r.Constant:
        return r.Constant(None)

    def several(self, *items: r.Attribute) -> r.Several:
        return r.Several(items)

    # ---- sizes and numbers ----------------------------------------------------------------------

    def shape(self, *dims: Expression | None) -> tuple[Expression, ...]:
        return tuple(dim for dim in dims if dim is not None)

    def infix(self, left: Expression, sign: Token, right: Expression) -> Expression:
        return (*left, *right, Applied(str(sign)))

    def integer(self, number: Token) -> Expression:
        return (int(number),)

    def real(self, number: Token) -> Expression:
        return (float(number),)

    def symbol(self, name: Token) -> Expression:
        return (SizeName(str(name)),)

    def negative(self, value: Expression) -> Expression:
        return (*value, Applied("neg"))

    def function(self, name: Token, argument: Expression) -> Expression:
        return (Whole(argument),) if name == SIZE else (*argument, Applied(str(name)))

    # ---- lists ----------------------------------------------------------------------------------

    def binding(self, name: Token, size: Expression) -> tuple[str, Expression]:
        return str(name), size

    def count(self, name: Token, count: Token) -> tuple[str, int]:
        return str(name), int(count)

    def pair(self, first: Token, second: Token) -> Pair:
        return first, second

    def key(self, key: Token) -> Token:
        return key.update(value=unquote(key))

    def path(self, path: Token) -> str:
        return unquote(path)


# Lark's LALR parser of the printed IR, and its errors in words.


_WORDS: Final = {
    "NAME": "a name",
    "KEY": "the key of a graph",
    "STRING": "a text in quotes",
    "GLYPH": "an operator",
    "INT": "a number",
    "FLOAT": "a number",
    "CALL": "'call'",
    "BACKWARD": "'backward'",
    "_NL": "the end of the line",
    "$END": "the end of the text",
}


def parse(text: str) -> ProgramText:
    """The tree of a text; raises UnreadableIR."""
    lark: Any = _parser()  # whose trees Lark's types do not know
    try:
        return cast("ProgramText", lark.parse(text))
    except UnexpectedInput as error:
        line = error.line if error.line > 0 else text.count("\n") + 1
        raise UnreadableIR(line, _says(error, text)) from None


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", transformer=Tree(), maybe_placeholders=True)


def _says(error: UnexpectedInput, text: str) -> str:
    """Expected first, found second."""
    stop: Any = error  # a token that does not fit, or a character that begins none
    if isinstance(error, UnexpectedToken):
        expected, kind = stop.accepts, stop.token.type
        what = _WORDS[kind] if kind in ("$END", "_NL") else repr(str(stop.token))
    else:
        expected, what = stop.allowed, repr(text[stop.pos_in_stream])
    words = sorted(set(map(_word, cast("Iterable[str]", expected))))
    return f"expected {' or '.join(words)}, not {what}"


def _word(terminal: str) -> str:
    """A terminal of the grammar as people see it."""
    patterns = {each.name: each.pattern.value for each in _parser().terminals}
    return _WORDS.get(terminal) or repr(patterns.get(terminal, terminal))
