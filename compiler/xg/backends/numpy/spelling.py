"""How NumPy says each primitive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xg.dim import ONE, Dim
from xg.emit.body import PLAIN
from xg.emit.spelling import Scope, Spell
from xg.emit.text import Binding, Text, call, infix, power, tuple_of
from xg.prim import Expr, topological
from xg.scalar import Scalar
from xg.tensor import Shape


class NumpySpelling:
    """The backend's words (see `xg.emit.spelling.Spelling`)."""

    name = "numpy"

    def primitive(self, expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        """The text of one primitive."""
        return WORDS[expr.prim](expr, args, scope)

    def cast(self, text: Text, scope: Scope) -> Text:
        """Integers or float64 as floats of the function's type."""
        return Text(f"{text.atom}.astype({scope.float_type()})")

    def support(self, function: str) -> str:
        """The source of a support function."""
        from xg.backends.numpy.support import source

        return source(function)


def _infix(sign: str, binding: Binding) -> Spell:
    return lambda expr, args, scope: infix(args[0], sign, args[1], binding)


def _function(name: str) -> Spell:
    return lambda expr, args, scope: call(name, *(arg.text for arg in args))


def _unary(function: str) -> Spell:
    """A function of arrays; of plain numbers the one of the standard library."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        if all(part.prim in PLAIN for part in topological([expr])):
            return call(f"math.{function}", args[0].text)
        return call(scope.use("erf") if function == "erf" else f"np.{function}", args[0].text)

    return spell


def _support(name: str) -> Spell:
    return lambda expr, args, scope: call(scope.use(name), *(arg.text for arg in args))


def _negative(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    power = args[0].binding == Binding.POWER  # -(x**2), as the formatter writes it
    return Text(f"-{args[0].within(Binding.ATOM if power else Binding.SIGN)}", Binding.SIGN)


def _const(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    value = expr.attr("value")
    assert isinstance(value, Scalar)
    text = scope.number(value)
    if text.text in ('float("inf")', 'float("-inf")'):
        sign = "-" if "-" in text.text else ""
        return Text(f"{sign}np.inf", Binding.SIGN if sign else Binding.ATOM)
    return text


def _iota(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    start, length = expr.attr("start"), expr.attr("length")
    assert isinstance(start, Dim)
    assert isinstance(length, Dim)
    if start.constant == 0:
        return call("np.arange", scope.size(length).text)
    return call("np.arange", scope.size(start).text, scope.size(start + length).text)


def _power(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    exponent = expr.attr("exponent")
    assert isinstance(exponent, Scalar)
    return power(args[0], scope.number(exponent))


def _reduce(method: str) -> Spell:
    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        axes, keep = expr.attr("axes"), expr.attr("keep")
        assert isinstance(axes, tuple)
        rank = expr.args[0].rank
        if len(axes) == rank and not keep:
            return Text(f"{args[0].atom}.{method}()")
        # Kept axes are counted from the end, which holds for every rank; removed ones are named
        # as the reader of one block counts them.
        counted = [str(int(str(axis)) + (0 if keep else rank)) for axis in axes]
        axis = counted[0] if len(axes) == 1 else tuple_of(counted)
        keepdims = ", keepdims=True" if keep else ""
        return Text(f"{args[0].atom}.{method}(axis={axis}{keepdims})")

    return spell


def _contract(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    spec = str(expr.attr("spec"))
    inputs, out = spec.split("->")
    a, b = inputs.split(",")
    summed = [letter for letter in a if letter in b and letter not in out]
    if len(summed) == 1 and len(b) >= 2:
        text = _matmul(a, b, out, summed[0], args)
        if text:
            return text
    if a[:-1] == b[:-1] and out == a[-1] + b[-1]:
        left = scope.size(expr.args[0].shape[-1]).text
        right = scope.size(expr.args[1].shape[-1]).text
        first = args[0].atom if len(a) == 2 else f"{args[0].atom}.reshape(-1, {left})"
        second = args[1].atom if len(b) == 2 else f"{args[1].atom}.reshape(-1, {right})"
        return Text(f"{first}.T @ {second}", Binding.PRODUCT)
    return Text(f'np.einsum("{spec}", {args[0].text}, {args[1].text}, optimize=True)')


def _matmul(a: str, b: str, out: str, summed: str, args: Sequence[Text]) -> Text | None:
    """A product of the last two axes, either operand transposed; None if it is not one."""
    rows = a[-2] if a[-1] == summed else a[-1]
    columns = b[-1] if b[-2] == summed else b[-2]
    batch_a, batch_b = a[:-2], b[:-2]
    if out != batch_a + rows + columns or not batch_a.endswith(batch_b):
        return None
    if summed not in a[-2:] or summed not in b[-2:]:
        return None
    left = args[0] if a[-1] == summed else _swapped(args[0], len(a))
    right = args[1] if b[-2] == summed else _swapped(args[1], len(b))
    return infix(left, "@", right, Binding.PRODUCT)


def _swapped(text: Text, rank: int) -> Text:
    return Text(f"{text.atom}.T" if rank == 2 else f"{text.atom}.swapaxes(-1, -2)")


def _reshape(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
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


def _transpose(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    order = expr.attr("order")
    assert isinstance(order, tuple)
    moved = [i for i, axis in enumerate(order) if axis != i]
    if len(order) == 2:
        return Text(f"{args[0].atom}.T")
    if len(moved) == 2:
        first, second = (i - len(order) if moved[0] == len(order) - 2 else i for i in moved)
        pair = (-1, -2) if first == -2 and second == -1 else (first, second)
        return Text(f"{args[0].atom}.swapaxes({pair[0]}, {pair[1]})")
    return Text(f"{args[0].atom}.transpose({', '.join(str(axis) for axis in order)})")


def _broadcast(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    shape = tuple_of(scope.shape(expr.shape)) if expr.shape else "()"
    if expr.args[0].prim == "const":
        if args[0].text == "0":
            return call("np.zeros", shape, scope.float_type())
        return call("np.full", shape, args[0].text, scope.float_type())
    return call("np.broadcast_to", args[0].text, shape)


def _concat(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    parts = "[" + ", ".join(arg.text for arg in args) + "]"
    return call("np.concatenate", parts, f"axis={expr.attr('axis')}")


def _stretch(expr: Expr, scope: Scope) -> str:
    """The index of a stretch of one axis: ``..., D:2 * D``."""
    axis, start, stop = expr.attr("axis"), expr.attr("start"), expr.attr("stop")
    assert isinstance(axis, int)
    assert isinstance(start, Dim)
    assert isinstance(stop, Dim)
    whole = expr.args[0].shape[axis]
    first = Text("") if start.constant == 0 else scope.size(start)
    last = Text("") if stop == whole else scope.size(stop)
    simple = first.binding == last.binding == Binding.ATOM
    stretch = f"{first.text}:{last.text}" if simple else f"{first.text} : {last.text}".strip()
    behind = [":"] * (-axis - 1)
    front = [] if -axis == expr.rank else ["..."]
    return ", ".join([*front, stretch, *behind])


def _cut(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    return Text(f"{args[0].atom}[{_stretch(expr, scope)}]")


def _pad(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    start, length = expr.attr("start"), expr.attr("length")
    assert isinstance(start, Dim)
    assert isinstance(length, Dim)
    sizes = f"{scope.size(start).text}, {scope.size(length).text}"
    return call(scope.use("pad"), args[0].text, f"{expr.attr('axis')}, {sizes}")


def _gather(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    return Text(f"{args[0].atom}[{args[1].text}]")


def _scatter_add(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    rows = expr.attr("rows")
    assert isinstance(rows, Dim)
    return call(scope.use("scatter_add"), args[0].text, args[1].text, scope.size(rows).text)


def _place(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    length = expr.attr("length")
    assert isinstance(length, Dim)
    return call(scope.use("place"), args[0].text, args[1].text, scope.size(length).text)


def _keep(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    p = expr.attr("p")
    assert isinstance(p, Scalar)
    return call(
        scope.use("keep_mask"), f"{args[0].atom}.shape", scope.number(p).text, "seed", "place"
    )


def _drop(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    p = expr.attr("p")
    assert isinstance(p, Scalar)
    if not expr.attr("scaled"):
        return call(scope.use("drop"), args[0].text, args[1].text, "1.0")
    return call(scope.use("drop"), args[0].text, args[1].text, f"1 - {scope.number(p).text}")


def _bare(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    return args[0]


WORDS: Final[Mapping[str, Spell]] = {
    "const": _const,
    "iota": _iota,
    "neg": _negative,
    "exp": _unary("exp"),
    "log": _unary("log"),
    "sqrt": _unary("sqrt"),
    "tanh": _unary("tanh"),
    "erf": _unary("erf"),
    "sin": _unary("sin"),
    "cos": _unary("cos"),
    "add": _infix("+", Binding.SUM),
    "sub": _infix("-", Binding.SUM),
    "mul": _infix("*", Binding.PRODUCT),
    "div": _infix("/", Binding.PRODUCT),
    "pow": _power,
    "maximum": _function("np.maximum"),
    "minimum": _function("np.minimum"),
    "gt": _infix(">", Binding.COMPARE),
    "ge": _infix(">=", Binding.COMPARE),
    "eq": _infix("==", Binding.COMPARE),
    "where": _function("np.where"),
    "as_float": _bare,  # the writer casts where the type matters
    "sum": _reduce("sum"),
    "mean": _reduce("mean"),
    "max": _reduce("max"),
    "contract": _contract,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "concat": _concat,
    "cut": _cut,
    "pad": _pad,
    "gather": _gather,
    "scatter_add": _scatter_add,
    "pick": _support("pick"),
    "place": _place,
    "dropout_keep": _keep,
    "dropout_apply": _drop,
}
