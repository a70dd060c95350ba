"""Use an operator in a step: itself where it fits, else its body with new types.

Most operators do in a step what they always do, on other sizes: then the node stays what it was.
Those that count positions, or take one operand in two states, become an operator of the same glyph
with the retyped body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.body import Body, attribute, same, topological
from xg.ir.dim import ONE, Dim, Scalar, product, symbol
from xg.ir.functions import UNARY
from xg.ir.graph import Apply
from xg.ir.op import Op
from xg.ir.prim import ARITHMETIC, COMPARE, RANDOM, Expr, ShapeError, Windows, batch_of, window
from xg.ir.tensor import Shape, TensorType
from xg.ir.use import Attrs, Tensor
from xg_generate.decode_step.errors import CannotStep

# The axis of positions, and in which of two states a tensor has it.
#
# In a step only the *new* positions arrive, S of them after T that were there before. An axis of
# positions is `new` (length S) or *whole* (length T + S, all positions so far). Which of the two is
# said by one flag for each axis of a tensor, False wherever there are no positions.


Whole = tuple[bool, ...]  # for each axis: whether it holds all positions so far


@dataclass(frozen=True, slots=True)
class PositionSymbols:
    """The symbol of the new positions in one graph (None: it has none), and of the past ones."""

    length: str | None
    past: Dim

    def is_axis(self, dim: Dim) -> bool:
        """Whether an axis of this size is the axis of positions; Refused for a mixture."""
        if self.mixes(dim):
            raise CannotStep(f"makes an axis {dim} of the positions {self.length}")
        return self.length is not None and dim.name == self.length

    def mixes(self, dim: Dim) -> bool:
        """Whether positions are a part of a size."""
        return self.length in dim.symbols() and dim.name != self.length

    def count(self, shape: Sequence[Dim]) -> int:
        """How many axes of positions a shape has."""
        return sum(map(self.is_axis, shape))

    def grown(self, dim: Dim) -> Dim:
        """A size with all positions so far in the place of the new ones."""
        if self.length is None:
            return dim
        return dim.substitute({self.length: self.past + symbol(self.length)})

    def shape(self, shape: Shape, whole: Whole) -> Shape:
        """The shape in a step."""
        return tuple(self.grown(d) if flag else d for d, flag in zip(shape, whole, strict=True))

    def type(self, type_: TensorType, whole: Whole) -> TensorType:
        """The type in a step; integers may be positions, so their bound grows."""
        range_ = self.grown(type_.range) if type_.range is not None else None
        return TensorType(self.shape(type_.shape, whole), range_)

    def whole_flags(self, shape: Shape) -> Whole:
        """Return the flags of a tensor that holds all positions so far."""
        return tuple(map(self.is_axis, shape))


# A body of primitives for a step: which operands it needs whole, and its new body then.
#
# Flags go backwards, from the form required of the outputs to that required of the operands: an
# elementwise primitive requires of its operands the form that is required of it; an axis that is
# summed away is required whole. Then the expressions are built again in the sizes of the step. A
# primitive that counts positions begins at T where only the new ones are required. Dropout is off
# in a step, and removed; random numbers are their mean.


_ALIGNED: Final = (
    UNARY
    | ARITHMETIC
    | COMPARE
    | {"pow", "where", "as_float", "broadcast", "dropout_apply"}
    | RANDOM
)
_REDUCTIONS: Final = frozenset({"sum", "mean", "max"})
_PARTS: Final = {
    "concat": "puts something beside",
    "cut": "takes some of",
    "pad": "puts zeros beside",
}

Wanted = tuple[str, Whole]  # an operand by its name, and how


@dataclass(frozen=True, slots=True)
class Retyped:
    """The outputs in the sizes of a step, and the operands that they mention, in order."""

    outputs: tuple[Expr, ...]
    operands: tuple[tuple[Wanted, Expr], ...]


def retype(wanted: Sequence[tuple[Expr, Whole]], positions: PositionSymbols) -> Retyped:
    """The wanted outputs of a body; Refused where no step can give them."""
    demands = _demands(wanted, positions)
    expressions: dict[tuple[int, Whole], Expr] = {}
    operands: dict[Wanted, Expr] = {}
    for expr in topological([expr for expr, _ in wanted]):
        for whole in demands.get(id(expr), ()):
            shapes = _of_arguments(expr, whole, positions)
            args = tuple(expressions[id(a), w] for a, w in zip(expr.args, shapes, strict=True))
            built = _build(expr, whole, args, positions)
            expressions[id(expr), whole] = built
            if expr.prim == "operand":
                operands[str(expr.name), whole] = built
    outputs = tuple(expressions[id(expr), whole] for expr, whole in wanted)
    return Retyped(outputs, tuple(operands.items()))


def _demands(
    wanted: Sequence[tuple[Expr, Whole]], positions: PositionSymbols
) -> Mapping[int, Mapping[Whole, None]]:
    demands: dict[int, dict[Whole, None]] = {}
    for expr, whole in wanted:
        demands.setdefault(id(expr), {})[whole] = None
    for expr in reversed(list(topological([expr for expr, _ in wanted]))):
        for whole in demands.get(id(expr), ()):
            flags = _of_arguments(expr, whole, positions)
            for arg, flag in zip(expr.args, flags, strict=True):
                demands.setdefault(id(arg), {})[flag] = None
    return demands


# ---- the requirements of a primitive on its arguments --------------------------------------------


def _of_arguments(expr: Expr, whole: Whole, positions: PositionSymbols) -> list[Whole]:
    for dim in expr.shape:
        positions.is_axis(dim)
    if expr.prim in _ALIGNED:
        return [_align_flags(arg.shape, whole, positions) for arg in expr.args]
    if expr.prim in _REDUCTIONS:
        return [_reduction_flags(expr, whole, positions)]
    match expr.prim:
        case "contract":
            return _contraction_flags(expr, whole, positions)
        case "reshape":
            return [_reshape_flags(expr.args[0].shape, expr.shape, whole, positions)]
        case "transpose":
            order = expr.axes("order")
            return [tuple(whole[order.index(axis)] for axis in range(expr.rank))]
        case "concat" | "cut" | "pad":
            axis = expr.typed_attr("axis", int)
            for tensor in (expr, *expr.args):
                _refuse_positions([tensor.shape[axis]], positions, _PARTS[expr.prim])
            return [whole for _ in expr.args]
        case "cumsum":
            axis = expr.typed_attr("axis", int)
            _refuse_positions([expr.shape[axis]], positions, "adds up")
            return [whole]
        case "window" | "overlap":
            return [_window_flags(expr, whole, positions)]
        case "gather" | "pick" | "place" | "scatter_add" | "top" | "earlier":
            return _index_flags(expr, whole, positions)
        case _:
            return []


def _index_flags(expr: Expr, whole: Whole, positions: PositionSymbols) -> list[Whole]:
    """Reading, writing, ranking and counting by ids follow positions on every other axis."""
    match expr.prim:
        case "gather":
            (table, ids), batch = expr.args, batch_of(expr)
            _refuse_positions(table.shape[batch:][:1], positions, "looks up in a table of")
            return [(*whole[:batch], False, *whole[ids.rank :]), whole[: ids.rank]]
        case "pick":
            _refuse_positions(expr.args[0].shape[-1:], positions, "chooses among")
            return [(*whole, False), whole]
        case "place":
            _refuse_positions(expr.shape[-1:], positions, "chooses among")
            return [whole[:-1], whole[:-1]]
        case "scatter_add":
            ids, batch = expr.args[1], batch_of(expr)
            summed = [False] * (ids.rank - batch)
            _refuse_positions((*ids.shape[batch:], expr.shape[batch]), positions, "adds up")
            return [(*whole[:batch], *summed, *whole[batch + 1 :]), (*whole[:batch], *summed)]
        case _:
            verb = {"top": "chooses among", "earlier": "counts along"}[expr.prim]
            _refuse_positions(expr.args[0].shape[-1:], positions, verb, ahead=expr.prim == "top")
            return [(*whole[:-1], False)]


def _align_flags(shape: Shape, whole: Whole, positions: PositionSymbols) -> Whole:
    """Return the flags of an operand that is broadcast: the flags of the result's last axes."""
    flags = whole[len(whole) - len(shape) :]
    return tuple(f and positions.is_axis(d) for d, f in zip(shape, flags, strict=True))


def _reduction_flags(expr: Expr, whole: Whole, positions: PositionSymbols) -> Whole:
    (arg,) = expr.args
    gone = {axis % arg.rank for axis in expr.axes()}
    if expr.prim == "mean":
        over = [arg.shape[axis] for axis in sorted(gone)]
        _refuse_positions(over, positions, "averages over", ahead=True)
    left = iter(whole)
    flags: list[bool] = []
    for axis, dim in enumerate(arg.shape):
        stays = axis not in gone
        flag = next(left) if stays or expr.attr("keep") else False
        flags.append(flag if stays else positions.is_axis(dim))
    return tuple(flags)


def _contraction_flags(expr: Expr, whole: Whole, positions: PositionSymbols) -> list[Whole]:
    inputs, output = str(expr.attr("spec")).split("->")
    of = dict(zip(output, whole, strict=True))
    return [
        tuple(
            of[letter] if letter in of else positions.is_axis(dim)
            for letter, dim in zip(letters, arg.shape, strict=True)
        )
        for letters, arg in zip(inputs.split(","), expr.args, strict=True)
    ]


def _reshape_flags(before: Shape, after: Shape, whole: Whole, positions: PositionSymbols) -> Whole:
    """Keep positions an axis of their own: as many elements precede it before and after."""
    sources = [i for i, dim in enumerate(before) if positions.is_axis(dim)]
    targets = [i for i, dim in enumerate(after) if positions.is_axis(dim)]
    flags = [False] * len(before)
    if len(sources) != len(targets):
        raise CannotStep(f"merges the positions {positions.length} with another axis")
    for source, target in zip(sources, targets, strict=True):
        if product(before[:source]) != product(after[:target]):
            raise CannotStep(f"moves the positions {positions.length} among other axes")
        flags[source] = whole[target]
    return tuple(flags)


def _window_flags(expr: Expr, whole: Whole, positions: PositionSymbols) -> Whole:
    """Windows that end at their position need the positions before it, which are kept."""
    axis, cut = expr.typed_attr("axis", int), Windows.of(expr)
    verb = {"window": "cuts windows from", "overlap": "lays windows over"}[expr.prim]
    along = expr.prim == "window" and positions.is_axis(cut.length) and cut.count == cut.length
    if not along:
        _refuse_positions([cut.length, cut.count, cut.width], positions, verb)
    elif cut.stride != ONE or _reach(cut) > 0:
        raise CannotStep(f"{verb} the positions {positions.length}, beyond their own", ahead=True)
    if expr.prim == "overlap":
        return (*whole[:axis], False, False, *whole[axis:][1:])
    return (*whole[: axis - 1], along, *whole[axis:][1:])


def _reach(cut: Windows) -> int:
    """By how many positions a window can reach beyond its own."""
    last = (cut.dilation * (cut.width - 1) - cut.before).constant
    return 1 if last is None else last


def _refuse_positions(
    dims: Sequence[Dim], positions: PositionSymbols, verb: str, *, ahead: bool = False
) -> None:
    length = positions.length
    if length is not None and any(length in dim.symbols() for dim in dims):
        raise CannotStep(f"{verb} the positions {length}", ahead=ahead)


# ---- the primitive in a step --------------------------------------------------------------------


def _build(expr: Expr, whole: Whole, args: tuple[Expr, ...], positions: PositionSymbols) -> Expr:
    shape = positions.shape(expr.shape, whole)
    if expr.prim in ("dropout_apply", "draw"):
        return args[0]
    if expr.prim == "iota":
        return _build_iota(expr, shape, whole, positions)
    for _, value in expr.attrs:
        if isinstance(value, Scalar) and positions.length in value.symbols():
            raise CannotStep(f"computes with the number of positions {positions.length}")
    if expr.prim == "window" and positions.is_axis(Windows.of(expr).length):
        return _window(expr, whole, args[0], positions)
    same = all(new is old for new, old in zip(args, expr.args, strict=True))
    return expr if same and shape == expr.shape else replace(expr, args=args, shape=shape)


def _window(expr: Expr, whole: Whole, arg: Expr, positions: PositionSymbols) -> Expr:
    """Cut windows from positions; windows of new positions begin after T others."""
    axis, cut = expr.typed_attr("axis", int), Windows.of(expr)
    if whole[axis - 1]:
        cut = replace(cut, count=positions.grown(cut.count))
    else:
        cut = replace(cut, before=cut.before - positions.past)
    return window(arg, axis, replace(cut, length=arg.shape[axis]))


def _build_iota(expr: Expr, shape: Shape, whole: Whole, positions: PositionSymbols) -> Expr:
    """Count integers in order; new positions come after T others."""
    start = expr.typed_attr("start", Dim)
    if positions.length in start.symbols():
        raise CannotStep(f"counts from {start}, which depends on the number of positions")
    if not positions.is_axis(expr.shape[0]):
        return expr
    first = start if whole[0] else start + positions.past
    return replace(expr, shape=shape, attrs=(("length", shape[0]), ("start", first)))


@dataclass(frozen=True, slots=True)
class StepUse:
    """An operator, its attributes, the operands that it takes and which of its outputs it gives.

    `same` is the operand that the only output is, where nothing is left to do (dropout).
    """

    op: Op
    attrs: Attrs
    operands: tuple[Wanted, ...]
    visible: tuple[int, ...]
    same: Wanted | None = None


def step_use(
    step: Apply,
    types: Sequence[TensorType],
    wanted: Sequence[tuple[int, Whole]],
    positions: PositionSymbols,
) -> StepUse:
    """The use of `step` that gives the `wanted` outputs, its operands having had these types."""
    body = step.op.body(types, step.attrs)
    outputs = [(body.outputs[index], whole) for index, whole in wanted]
    retyped = retype(outputs, positions)
    visible = tuple(index for index, _ in wanted)
    (first, *rest) = retyped.outputs
    if not rest and first.prim == "operand":
        ((same, _),) = retyped.operands
        return StepUse(step.op, step.attrs, (same,), visible, same)
    return _itself(step, types, body, retyped, visible, positions) or _retyped_operator(
        step, retyped, visible
    )


def _itself(
    step: Apply,
    types: Sequence[TensorType],
    body: Body,
    retyped: Retyped,
    visible: tuple[int, ...],
    positions: PositionSymbols,
) -> StepUse | None:
    """The operator itself, if it computes the same under some attributes."""
    names = [str(expr.name) for expr in body.operands]
    flags = dict(name for name, _ in retyped.operands)
    if len(flags) != len(retyped.operands):
        return None  # an operand in two states
    wholes = [
        flags.get(name, (False,) * len(t.shape)) for name, t in zip(names, types, strict=True)
    ]
    retyped_types = [positions.type(t, whole) for t, whole in zip(types, wholes, strict=True)]
    grown = {key: attribute(value, positions.grown) for key, value in step.attrs.items()}
    for attrs in (step.attrs, grown):
        with suppress(ShapeError):
            outputs = step.op.body(retyped_types, attrs).outputs
            if same([outputs[index] for index in visible], retyped.outputs):
                return StepUse(step.op, attrs, tuple(zip(names, wholes, strict=True)), visible)
    return None


def _retyped_operator(step: Apply, retyped: Retyped, visible: tuple[int, ...]) -> StepUse:
    """Make an operator of the same glyph with the retyped body."""
    own = {own.name for own in step.op.own if isinstance(own, Tensor)}
    ordered = sorted(retyped.operands, key=lambda item: item[0][0] in own)  # data first
    names = _names([name for (name, _), _ in ordered])
    whole = tuple(name for (name, _), _ in ordered)
    body = Body(tuple(expr for _, expr in ordered), tuple(retyped.outputs))
    pairs = list(zip(names, whole, strict=True))
    data, owned = ([n for n, old in pairs if (old in own) is is_own] for is_own in (False, True))
    op = replace(
        step.op.computing(body, data, owned),
        name=f"offset {step.op.name}",
        outputs=step.op.output_names(len(visible)) if len(visible) == len(step.op.outputs) else (),
    )
    attrs = {key: value for key, value in step.attrs.items() if key != "absent"}
    return StepUse(op, attrs, tuple(request for request, _ in ordered), tuple(range(len(visible))))


def _names(names: Sequence[str]) -> list[str]:
    """Distinct names: a name used in two states gets a number."""
    seen: dict[str, int] = {}
    unique: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return unique
