"""Describe the computation of an operator; walk, rewrite and resize its expressions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, cast

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.collectives import SENDING
from xg.ir.dim import Dim, Scalar
from xg.ir.dim import size as as_size
from xg.ir.functions import FUNCTIONS
from xg.ir.prim import RANDOM, Attr, Expr

VIEWS: Final = frozenset({"reshape", "transpose", "broadcast", "cut"})
LEAVES: Final = frozenset({"operand", "const"})
DRAWN: Final = RANDOM | {"dropout_apply"}


def topological(roots: Sequence[Expr]) -> list[Expr]:
    """Every expression that the roots need, each once, arguments first; no recursion."""
    order: list[Expr] = []
    done: set[int] = set()
    stack = list(roots[::-1])
    while stack:
        expr = stack.pop()
        if id(expr) in done:
            continue
        missing = [arg for arg in expr.args if id(arg) not in done]
        if missing:
            stack.append(expr)
            stack += missing[::-1]
        else:
            done.add(id(expr))
            order.append(expr)
    return order


def substitute(
    roots: Sequence[Expr | None], replacements: Mapping[int, Expr]
) -> tuple[Expr | None, ...]:
    """The roots with some expressions (by `id`) replaced by others, sharing kept."""
    expressions: dict[int, Expr] = dict(replacements)
    for expr in topological([root for root in roots if root is not None]):
        if id(expr) not in expressions:
            args = tuple([expressions[id(arg)] for arg in expr.args])
            expressions[id(expr)] = expr if args == expr.args else replace(expr, args=args)
    return tuple(None if root is None else expressions[id(root)] for root in roots)


def remove_stops(body: Body) -> Body:
    """Remove the stops of gradients from a body through which no gradient flows."""
    order = body.order()
    if all(expr.prim != "stop" for expr in order):
        return body
    whole: dict[int, Expr] = {}
    uses = Counter(id(arg) for expr in order for arg in expr.args)
    for expr in order:
        args = tuple(whole[id(arg)] for arg in expr.args)
        if expr.prim == "stop":
            alone = uses[id(expr.args[0])] == 1 and not args[0].name
            whole[id(expr)] = replace(args[0], name=expr.name) if alone else args[0]
        else:
            kept = all(new is old for new, old in zip(args, expr.args, strict=True))
            whole[id(expr)] = expr if kept else replace(expr, args=args)
    return replace(body, outputs=tuple(whole[id(output)] for output in body.outputs))


def same(left: Sequence[Expr], right: Sequence[Expr]) -> bool:
    """Return whether two lists of expressions apply the same primitives in the same order."""
    orders = topological(left), topological(right)
    if len(orders[0]) != len(orders[1]) or len(left) != len(right):
        return False
    places, others = ({id(expr): n for n, expr in enumerate(order)} for order in orders)
    return all(
        (a.prim, a.shape, a.kind, a.attrs) == (b.prim, b.shape, b.kind, b.attrs)
        and [places[id(x)] for x in a.args] == [others[id(x)] for x in b.args]
        for a, b in zip(*orders, strict=True)
    ) and [places[id(x)] for x in left] == [others[id(x)] for x in right]


@dataclass(frozen=True, slots=True)
class Body:
    """The computation of an operator: named operands in, expressions out.

    `operands` are all that the outputs can mention; `caches` names the outputs, after the first
    ones, that exist only for the backward pass; `of` names the operands whose gradients the outputs
    of an adjoint are. `found` is what others found out about it, by their questions.
    """

    operands: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    caches: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    found: dict[Hashable, object] = field(
        default_factory=dict[Hashable, object], init=False, repr=False, compare=False
    )
    _order: tuple[Expr, ...] | None = field(default=None, init=False, repr=False, compare=False)

    def order(self) -> tuple[Expr, ...]:
        """All that the outputs need, arguments first; walked once, for every pass asks for it."""
        if self._order is None:
            object.__setattr__(self, "_order", found := tuple(topological(self.outputs)))
            return found
        return self._order

    def matches(self, other: Body) -> bool:
        """Return whether another body computes the same from its operands, in the same order."""
        both = (*self.operands, *self.outputs), (*other.operands, *other.outputs)
        return len(self.outputs) == len(other.outputs) and same(*both)

    def free(self) -> tuple[Expr, ...]:
        """The operands that the outputs really mention, in order."""
        used = {id(expr) for expr in self.order()}
        return tuple(expr for expr in self.operands if id(expr) in used)

    def on(self, operands: Sequence[Expr]) -> list[Expr] | tuple[Expr, Mapping[str, Expr]]:
        """The body on other operands, as an operator's `forward` gives it."""
        expressions = {id(old): new for old, new in zip(self.operands, operands, strict=True)}
        outputs = [out for out in substitute(self.outputs, expressions) if out is not None]
        if self.caches:
            return outputs[0], dict(zip(self.caches, outputs[1:], strict=True))
        return outputs


def is_inline(body: Body) -> bool:
    """Whether a use of the operator reads best in place: a view or one or two primitives."""
    if len(body.outputs) != 1:
        return False
    order = body.order()
    inner = [expr for expr in order if expr.prim not in LEAVES]
    if len([expr for expr in inner if expr.prim not in VIEWS]) > 2:
        return False
    if any(expr.prim in DRAWN for expr in order):
        return False
    if any(expr.prim == "iota" for expr in order) and body.outputs[0].kind == "float":
        return False
    uses = Counter(id(arg) for expr in order for arg in expr.args)
    if any(uses[id(operand)] > 1 for operand in body.operands):
        return False
    return not any(uses[id(expr)] > 1 for expr in inner)


def has_unsafe_choice(body: Body) -> bool:
    """Whether a branch of a choice has no finite value for some numbers: both are computed."""
    order = body.order()
    if all(expr.prim != "where" for expr in order):
        return False
    always: set[int] = set()  # what is read whatever is chosen
    waiting = [*body.outputs]
    while waiting:
        expr = waiting.pop()
        if id(expr) not in always:
            always.add(id(expr))
            waiting += expr.args[:1] if expr.prim == "where" else expr.args
    if any(expr.prim in SENDING for expr in order):
        return False  # a sum over ranks that is missing there may show by its warning alone
    return any(_is_partial(expr) for expr in order if id(expr) not in always)


def _is_partial(expr: Expr) -> bool:
    """Whether a primitive has no finite value for some finite arguments."""
    if expr.prim == "div":
        return expr.args[1].prim != "const"
    if expr.prim == "pow":
        exponent = expr.typed_attr("exponent", Scalar)
        return exponent.constant is None or exponent.constant < 0 or exponent.constant % 1 != 0
    function = FUNCTIONS.get(expr.prim)
    return bool(function and not function.is_finite) and expr.args[0].prim != "const"


# Attributes and expressions in other sizes: those of a caller, or of a step.


Change = Callable[[Dim], Dim]


def map_sizes(roots: Sequence[Expr], change: Change) -> tuple[Expr, ...]:
    """Apply a change to every size in expressions, and keep shared parts shared."""
    made: dict[int, Expr] = {}
    for expr in topological(roots):
        attrs = tuple((key, cast("Attr", attribute(value, change))) for key, value in expr.attrs)
        args = tuple(made[id(arg)] for arg in expr.args)
        shape = tuple(map(change, expr.shape))
        made[id(expr)] = replace(expr, args=args, shape=shape, attrs=attrs)
    return tuple(made[id(root)] for root in roots)


def attribute(value: object, change: Change) -> object:
    """An attribute of an operator with every size in it changed."""
    if isinstance(value, Dim):
        return change(value)
    if isinstance(value, Scalar):
        return _scalar(value, change)
    if isinstance(value, tuple):
        return tuple(attribute(item, change) for item in cast("tuple[object, ...]", value))
    return value


def _scalar(scalar: Scalar, change: Change) -> Scalar:
    """The same object where nothing changes: generated code knows numbers by their identity."""
    if all(change(dim) == dim for dim in scalar.dims()):
        return scalar
    if isinstance(scalar.value, Dim):
        return as_size(change(scalar.value))
    return replace(scalar, args=tuple(_scalar(arg, change) for arg in scalar.args))
