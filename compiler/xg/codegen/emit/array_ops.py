"""Words that array libraries have in common: operators, indices, methods, communication.

A backend's table takes them as they are, or gives them the names in which libraries differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NoReturn, Protocol, TypeVar

from xg.codegen.emit.function import PLAIN
from xg.codegen.emit.spelling import Scope, Spell
from xg.codegen.emit.text import WIDTH, Precedence, Text, call, dictionary, infix, power, tuple_of
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.body import topological
from xg.ir.collectives import COLLECTIVES, PRIMITIVES, collective_of
from xg.ir.dim import ONE, Dim, Scalar
from xg.ir.functions import FUNCTIONS
from xg.ir.graph import Apply, Backward, Step, Value
from xg.ir.moves import collective
from xg.ir.placement import RankPrimitive
from xg.ir.prim import Expr, batch_of, is_absolute
from xg.ir.tensor import Shape

Swap = Callable[[Text, int], Text]  # the last two axes exchanged, given the rank


def function(name: str) -> Spell:
    """A function of the arguments, under its full name."""
    return lambda expr, args, scope: call(name, *(arg.text for arg in args))


def method(name: str) -> Spell:
    """A method of the argument, without arguments of its own."""
    return lambda expr, args, scope: Text(f"{args[0].atom}.{name}()")


def bare(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """The argument as it is."""
    return args[0]


def support(name: str) -> Spell:
    """A support function that is copied into the module."""
    return lambda expr, args, scope: call(scope.use(name), *(arg.text for arg in args))


def sign(symbol: str, binding: Precedence) -> Spell:
    """An infix operator."""
    return lambda expr, args, scope: infix(args[0], symbol, args[1], binding)


def negative(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """The minus sign; ``-(x**2)`` in parentheses, as the formatter writes it."""
    is_power = args[0].binding == Precedence.POWER
    return Text(
        f"-{args[0].in_context(Precedence.ATOM if is_power else Precedence.SIGN)}", Precedence.SIGN
    )


def spell_power(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """``x**2``."""
    return power(args[0], scalar(expr, "exponent", scope))


def constant(infinity: str) -> Spell:
    """A number; `infinity` is the library's."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        text = scalar(expr, "value", scope)
        if text.text in ('float("inf")', 'float("-inf")'):
            minus = "-" if "-" in text.text else ""
            return Text(f"{minus}{infinity}", Precedence.SIGN if minus else Precedence.ATOM)
        return text

    return spell


def scalar(expr: Expr, key: str, scope: Scope) -> Text:
    """A real number among the attributes."""
    return scope.number(expr.typed_attr(key, Scalar))


def length(expr: Expr, key: str, scope: Scope) -> Text:
    """A size among the attributes."""
    return scope.size(expr.typed_attr(key, Dim))


def unary(function: str, of_arrays: str) -> Spell:
    """A function of arrays; of plain numbers the one of the standard library."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        name = of_arrays if "." in of_arrays else scope.use(of_arrays)
        return call(f"math.{function}" if is_plain(expr) else name, args[0].text)

    return spell


def elementary(library: str) -> dict[str, Spell]:
    """Return the words for functions of one number."""
    return {name: unary(name, each.word(library)) for name, each in FUNCTIONS.items()}


def absolute(name: str, larger: Spell) -> Spell:
    """The word for |x|, which is 0 at -0 too; `larger` writes every other maximum.

    Libraries give either zero as the larger one of 0 and -0, and 1 / -0 is -inf.
    """

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        if is_absolute(expr) and not is_plain(expr):
            return call(name, args[0].text)
        return larger(expr, args, scope)

    return spell


def is_plain(expr: Expr) -> bool:
    """Whether the text of an expression is a number of Python's."""
    return all(part.prim in PLAIN for part in topological([expr]))


# ---- reductions and products --------------------------------------------------------------------


def reduction(method: str, axes_word: str, keep_word: str) -> Spell:
    """A method that takes axes: ``x.sum(axis=-1, keepdims=True)``."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        axes, keep = expr.axes(), expr.attr("keep")
        rank = expr.args[0].rank
        if len(axes) == rank and not keep:
            return Text(f"{args[0].atom}.{method}()")
        # Kept axes are counted from the end, which holds for every rank; removed ones are named
        # as the reader of one block counts them.
        counted = [str(axis + (0 if keep else rank)) for axis in axes]
        axis = counted[0] if len(axes) == 1 else tuple_of(counted)
        keep_argument = f", {keep_word}=True" if keep else ""
        return Text(f"{args[0].atom}.{method}({axes_word}={axis}{keep_argument})")

    return spell


def running_sum(library: str) -> Spell:
    """Spell a running sum along an axis; a backwards one sums the flipped array."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        axis = expr.typed_attr("axis", int)
        if not expr.attr("backwards"):
            return Text(f"{args[0].atom}.cumsum({axis})")
        flipped = call(f"{library}.flip", args[0].text, f"({axis},)")
        return call(f"{library}.flip", f"{flipped.text}.cumsum({axis})", f"({axis},)")

    return spell


def contraction(swap: Swap, einsum: str) -> Spell:
    """``@`` where a product is one of matrices; else `einsum`, a template of spec and operands."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        spec = str(expr.attr("spec"))
        inputs, out = spec.split("->")
        a, b = inputs.split(",")
        summed = [letter for letter in a if letter in b and letter not in out]
        if len(summed) == 1 and len(b) >= 2:
            text = _matmul(a, b, out, summed[0], args, swap)
            if text:
                return text
        if a[:-1] == b[:-1] and out == a[-1] + b[-1]:
            left = scope.size(expr.args[0].shape[-1]).text
            right = scope.size(expr.args[1].shape[-1]).text
            first = args[0].atom if len(a) == 2 else f"{args[0].atom}.reshape(-1, {left})"
            second = args[1].atom if len(b) == 2 else f"{args[1].atom}.reshape(-1, {right})"
            turned = f"{second}.T @ {first}"  # as fast, and its rows lie one behind the other
            return Text(f"{first}.T @ {second}", Precedence.PRODUCT, turned)
        return Text(einsum.format(spec=spec, a=args[0].text, b=args[1].text))

    return spell


def _matmul(a: str, b: str, out: str, summed: str, args: Sequence[Text], swap: Swap) -> Text | None:
    """A product of the last two axes, either operand transposed; None if it is not one."""
    rows = a[-2] if a[-1] == summed else a[-1]
    columns = b[-1] if b[-2] == summed else b[-2]
    batch_a, batch_b = a[:-2], b[:-2]
    if out != batch_a + rows + columns or not batch_a.endswith(batch_b):
        return None
    if summed not in a[-2:] or summed not in b[-2:]:
        return None
    left = args[0] if a[-1] == summed else swap(args[0], len(a))
    right = args[1] if b[-2] == summed else swap(args[1], len(b))
    return infix(left, "@", right, Precedence.PRODUCT)


# ---- new arrays ---------------------------------------------------------------------------------


def arange(function: str, more: Callable[[Scope], Sequence[str]] = lambda scope: ()) -> Spell:
    """Spell consecutive integers, from 0 by default; `more` gives further arguments."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        start, count = expr.typed_attr("start", Dim), expr.typed_attr("length", Dim)
        ends = [count] if start.constant == 0 else [start, start + count]
        return call(function, *(scope.size(end).text for end in ends), *more(scope))

    return spell


def broadcast(library: str) -> Spell:
    """Spell the broadcast of a number or an array to a larger shape."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        shape = tuple_of(scope.shape(expr.shape))
        if not is_plain(expr.args[0]):
            return call(f"{library}.broadcast_to", args[0].text, shape)
        kind = "int" if expr.kind == "int" else scope.float_type()
        if args[0].text == "0":
            return call(f"{library}.zeros", shape, kind)
        return call(f"{library}.full", shape, args[0].text, kind)

    return spell


def concatenation(function: str, axis_word: str) -> Spell:
    """Spell the concatenation of arrays along an axis."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        parts = "[" + ", ".join(arg.text for arg in args) + "]"
        return call(function, parts, f"{axis_word}={expr.attr('axis')}")

    return spell


# ---- views --------------------------------------------------------------------------------------


def spell_reshape(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """An index where only axes of size 1 come or go, else ``reshape``."""
    source = expr.args[0].shape
    if source == (*expr.shape, ONE):
        return Text(f"{args[0].atom}[..., 0]")
    index = _new_axes(source, expr.shape)
    if index is not None:
        return Text(f"{args[0].atom}[{index}]")
    return Text(f"{args[0].atom}.reshape({', '.join(scope.shape(expr.shape)) or '()'})")


def _new_axes(source: Shape, target: Shape) -> str | None:
    """The index that only inserts axes of size 1, or None if the reshape does more."""
    items: list[str] = []
    position = 0
    for dim in target:
        if position < len(source) and source[position] == dim:
            items.append(":")
            position += 1
        elif dim == ONE:
            items.append("None")
        else:
            return None
    if position != len(source) or not source:
        return None
    while items and items[-1] == ":":
        items.pop()
    leading = 0
    while leading < len(items) and items[leading] == ":":
        leading += 1
    if "None" in items[leading:] and ":" not in items[leading:] and leading == len(source):
        return ", ".join(["...", *items[leading:]])
    return ", ".join(items)


def moved_axes(order: Sequence[int]) -> tuple[int, int] | None:
    """The two axes that a permutation exchanges, counted from the end where they are the last."""
    moved = [i for i, axis in enumerate(order) if axis != i]
    if len(moved) != 2:
        return None
    rank = len(order)
    return (-1, -2) if moved == [rank - 2, rank - 1] else (moved[0], moved[1])


def swap_last_axes(method: str) -> Swap:
    """The last two axes exchanged: ``.T``, with more axes by a method or property."""

    def swap(text: Text, rank: int) -> Text:
        if text.turned is not None:
            return Text(text.turned, text.binding)
        return Text(f"{text.atom}.{'T' if rank == 2 else method}")

    return swap


def transposition(swap: Swap, pair: str, every: str) -> Spell:
    """Axes in another order: methods for two that are exchanged, and for all of them."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        order = expr.axes("order")
        axes = moved_axes(order)
        if axes == (-1, -2):
            return swap(args[0], len(order))
        method, moved = (pair, axes) if axes else (every, order)
        return Text(f"{args[0].atom}.{method}({', '.join(map(str, moved))})")

    return spell


def cut(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """A stretch of one axis: ``x[..., D : 2 * D]``."""
    return Text(f"{args[0].atom}[{_stretch(expr, scope)}]")


def _stretch(expr: Expr, scope: Scope) -> str:
    axis, start, stop = (
        expr.typed_attr("axis", int),
        expr.typed_attr("start", Dim),
        expr.typed_attr("stop", Dim),
    )
    whole = expr.args[0].shape[axis]
    first = Text("") if start.constant == 0 else scope.size(start)
    last = Text("") if stop == whole else scope.size(stop)
    simple = first.binding == last.binding == Precedence.ATOM
    stretch = f"{first.text}:{last.text}" if simple else f"{first.text} : {last.text}".strip()
    behind = [":"] * (-axis - 1)
    front = [] if -axis == expr.rank else ["..."]
    return ", ".join([*front, stretch, *behind])


def gather(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """``table[ids]``, or rows of many tables, each by its own ids."""
    if batch_of(expr):
        return call(scope.use("take_rows"), args[0].text, args[1].text, str(batch_of(expr)))
    return Text(f"{args[0].atom}[{args[1].text}]")


# ---- with support functions ---------------------------------------------------------------------


def pad(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """Zeros around a stretch of one axis."""
    start, whole = length(expr, "start", scope).text, length(expr, "length", scope).text
    return call(scope.use("pad"), args[0].text, f"{expr.attr('axis')}, {start}, {whole}")


def windows(*sizes: str) -> Spell:
    """Windows of an axis, or the sum of such, by the support function of the primitive's name."""
    usual = {"stride": "1", "dilation": "1", "before": "0"}

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        texts = {name: length(expr, name, scope).text for name in sizes}
        given = [f"{name}={text}" for name, text in texts.items() if text != usual.get(name)]
        return call(scope.use(expr.prim), args[0].text, str(expr.attr("axis")), *given)

    return spell


def scatter_add(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """Rows summed by their ids."""
    name, more = ("add_rows", [str(batch_of(expr))]) if batch_of(expr) else ("scatter_add", [])
    rows = length(expr, "rows", scope).text
    return call(scope.use(name), args[0].text, args[1].text, rows, *more)


def place(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """One value per row, at its id."""
    return call(scope.use("place"), args[0].text, args[1].text, length(expr, "length", scope).text)


def top(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """Where the largest are."""
    return call(scope.use("top"), args[0].text, length(expr, "count", scope).text)


def draw(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """Draw numbers around their mean."""
    scale = scalar(expr, "scale", scope).text
    return call(scope.use(f"draw_{expr.attr('law')}"), args[0].text, scale, "seed", "place")


def drop(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """Apply a dropout mask."""
    p = scalar(expr, "p", scope).text
    scale = f"1 - {p}" if expr.attr("scaled") else "1.0"
    return call(scope.use("drop"), args[0].text, args[1].text, scale)


ARITHMETIC: Final = {
    "neg": negative,
    "add": sign("+", Precedence.SUM),
    "sub": sign("-", Precedence.SUM),
    "mul": sign("*", Precedence.PRODUCT),
    "div": sign("/", Precedence.PRODUCT),
    "pow": spell_power,
    "gt": sign(">", Precedence.COMPARE),
    "ge": sign(">=", Precedence.COMPARE),
    "eq": sign("==", Precedence.COMPARE),
    "and": sign("&", Precedence.AND),
    "or": sign("|", Precedence.OR),
}

ON_ARRAYS: Final = {
    **ARITHMETIC,
    "reshape": spell_reshape,
    "cut": cut,
    "pad": pad,
    "window": windows("count", "width", "stride", "dilation", "before"),
    "overlap": windows("length", "stride", "dilation", "before"),
    "gather": gather,
    "scatter_add": scatter_add,
    "top": top,
    "earlier": support("earlier"),
    "pick": support("pick"),
    "place": place,
    "dropout_apply": drop,
    "draw": draw,
}


def as_numpy(library: str) -> dict[str, Spell]:
    """The words of a library that calls its functions as NumPy does."""
    reduced = {name: reduction(name, "axis", "keepdims") for name in ("sum", "mean", "max")}
    plain = ("minimum", "where")
    return {
        **elementary(library),
        "maximum": absolute(f"{library}.abs", function(f"{library}.maximum")),
        **{name: function(f"{library}.{name}") for name in plain},
        **reduced,
        "cumsum": running_sum(library),
        "const": constant(f"{library}.inf"),
        "iota": arange(f"{library}.arange"),
        "broadcast": broadcast(library),
        "concat": concatenation(f"{library}.concatenate", "axis"),
    }


# Write the communication of generated code: calls of the runtime, overlap, deferred sums.
#
# They are the same in every backend: the mesh on which a rank runs knows how to send its tensors.


# The type of a collective that was begun, for kernels that send.
#
# Kernels are text of generated modules, which import what they call from `xg_runtime.ranks`; the
# compiler does not.


T = TypeVar("T", covariant=True)


class Handle(Protocol[T]):
    """Describe the handle of a running collective, like the class in `xg_runtime.ranks`."""

    def wait(self) -> T:
        """Return the result; once."""
        ...


def only_in_modules(*_: object) -> NoReturn:
    """Stand for a function of the runtime where a kernel is a file of the compiler."""
    raise RuntimeError("a generated module imports this from xg_runtime.ranks")


MODULE: Final = "xg_runtime.ranks"


def _spell_call(primitive: RankPrimitive) -> Spell:
    """Spell a primitive across ranks as a call: tensor, mesh axis, axes of the tensor, sizes."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        axes = (str(expr.attr(axis)) for axis in primitive.axes)
        sizes = (length(expr, size, scope).text for size in primitive.sizes)
        return call(primitive.name, args[0].text, _over(expr), *axes, *sizes)

    return spell


def _over(expr: Expr) -> str:
    return f'"{expr.attr("over")}"'


def places_of(cuts: object) -> str:
    """Which part of a mask a rank draws; empty for the whole."""
    assert isinstance(cuts, tuple)
    texts = [f'({axis}, "{over}")' for axis, over in cuts]  # pyright: ignore
    return f"mesh_places({', '.join(texts)})" if texts else ""


def keep(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """Draw a dropout mask of the shape of an operand, or a rank's part of it."""
    drawn = [args[0].text, scalar(expr, "p", scope).text, "seed", "place"]
    cuts = places_of(expr.attr("cuts"))
    return call(scope.use("keep_part" if cuts else "keep_mask"), *drawn, *([cuts] if cuts else []))


def mesh_lines(mesh: Mapping[str, int]) -> list[str]:
    """The lines that refuse another mesh than the module's; none for one device."""
    items = [f'"{axis}": {ranks}' for axis, ranks in mesh.items()]
    return dictionary("check_mesh(", items, ")", 4) if items else []


# Functions of the runtime have the names of primitives. Parts that go around are text of kernels.
WORDS: Final[dict[str, Spell]] = {
    name: _spell_call(one) for name, one in PRIMITIVES.items() if not one.goes_around
}
# Of sums, of gathered parameters, and of what is under way.
METHODS: Final = frozenset({"add", "scatter", "finish", "wait", "whole", "wholes"})
RUNTIME_FUNCTIONS: Final = (
    frozenset(WORDS)
    | {f"start_{each.name}" for each in COLLECTIVES.values() if each.price}
    | {"check_mesh", "mesh_places", "local_shard", "local_shards", "gather_shards", "global_shape"}
)


_CLASSES: Final = ("Cuts", "Gathered", "Handle", "Held", "Mesh", "Sums")


def imports(code: str) -> str:
    """The import of the runtime functions that the code calls; empty if it calls none."""
    possible = [name for name in (*RUNTIME_FUNCTIONS, *_CLASSES) if name in code]
    if not possible:
        return ""
    code = re.sub(r'(?m)^\s*(#.*|""".*)$', "", code)
    named = [name for name in possible if _is_used(name, code)]
    if not named:
        return ""
    line = f"from {MODULE} import {', '.join(sorted(named))}"
    if len(line) <= WIDTH:
        return f"{line}\n"
    items = "".join(f"    {name},\n" for name in sorted(named))
    return f"from {MODULE} import (\n{items})\n"


def _is_used(name: str, code: str) -> bool:
    """Whether code mentions a class, or calls a function that is no method.

    A pattern would look at every letter; this looks at every place that has the name.
    """
    is_class = name in _CLASSES
    wanted = name if is_class else f"{name}("
    at = code.find(wanted)
    while at >= 0:
        before, behind = code[max(at - 1, 0) : at], code[at + len(name) : at + len(name) + 1]
        if not _goes_on(before) and (not _goes_on(behind) if is_class else before != "."):
            return True
        at = code.find(wanted, at + 1)
    return False


def _goes_on(char: str) -> bool:
    """Return whether a character can continue a name."""
    return char == "_" or char.isalnum()


# Sums over ranks that are begun as soon as they can be, and awaited where they are read.


@dataclass(frozen=True, slots=True)
class Overlap:
    """Steps in the order in which they are written; `begun` are those that are only begun there."""

    steps: tuple[Step, ...]
    begun: frozenset[Apply]


def overlap(steps: Sequence[Step], sent: Collection[Apply]) -> Overlap:
    """Put every step of `sent` right after the last step that computes one of its inputs.

    Where nothing is computed between that and its first reader, there is nothing to gain.
    """
    order: list[Step] = [step for step in steps if step not in sent]
    for step in steps:
        if isinstance(step, Apply) and step in sent:
            order.insert(_position_after(order, step.inputs), step)
    begun = {
        step
        for place, step in enumerate(order)
        if isinstance(step, Apply) and step in sent and _gains(order, place, step)
    }
    return Overlap(tuple(order), frozenset(begun))


def _position_after(order: Sequence[Step], values: Collection[Value]) -> int:
    """Return the position after the last step that computes one of the values, or 0."""
    makers = [p for p, step in enumerate(order) if any(v in values for v in step.outputs)]
    return max(makers, default=-1) + 1


def _gains(order: Sequence[Step], place: int, step: Apply) -> bool:
    """Whether something is computed before the result is read."""
    readers = (p for p in range(place + 1, len(order)) if step.outputs[0] in order[p].inputs)
    return next(readers, len(order)) > place + 1


# Gradients whose sum over ranks can be deferred to the end of the backward pass.


@dataclass(frozen=True, slots=True)
class DeferredSum:
    """One rank's term, and the mesh axis over which it is to be summed.

    Of the sum the rank gets its slice along an `axis` of the tensor; all of it where that is None.
    """

    term: Value
    over: str
    axis: int | None = None


def deferred_sums(
    backward: Backward, shared: Collection[tuple[str, str]]
) -> dict[Value, DeferredSum]:
    """The gradients of parameters that are sums over ranks which no step reads.

    For a parameter used in several places (`shared`, by graph and name) the parts are summed first.
    """
    graph = backward.forward
    reads = Counter(v for step in backward.steps for v in step.inputs)
    reads.update(backward.gradients.values())
    makers = {step.outputs[0]: step for step in backward.steps if isinstance(step, Apply)}
    sums: dict[Value, DeferredSum] = {}
    for value in graph.param_values():
        gradient = backward.gradients.get(value)
        if gradient is None or reads[gradient] > 1:
            continue
        if {(graph.key, str(value.name)), (graph.key, "*")} & set(shared):
            continue
        step = makers.get(gradient)
        expr = step and sum_of(step, backward)
        if step and expr:
            axis = next((expr.typed_attr(name, int) for name in PRIMITIVES[expr.prim].axes), None)
            sums[gradient] = DeferredSum(step.inputs[0], str(expr.attr("over")), axis)
    return sums


def sum_of(step: Apply, backward: Backward) -> Expr | None:
    """Return the sum over ranks that a step computes, or None if the step is not such a sum."""
    if collective(step.op) is None:
        return None
    (total,) = step.body(backward.types).outputs
    record = collective_of(total)
    return total if record and record.sums else None
