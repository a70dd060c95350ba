"""Sums, products and functions of numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from xg.ir.dim import ONE, number
from xg_torch.importing.diagram import Weight
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Ref, reads
from xg_torch.importing.fixed import Fixed
from xg_torch.importing.formula import combine, is_narrow
from xg_torch.importing.known import HIDDEN, Formula, Known, Mask, Turning
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.masking import as_mask, show
from xg_torch.importing.recognise import is_sinusoid, single
from xg_torch.importing.rotary import rotary, turning
from xg_torch.importing.rotary_coordinates import coordinate, is_coordinate
from xg_torch.importing.rules_layout import cut, place_of
from xg_torch.importing.views import View

Operand = Known | float
NODES: Final = {"relu": "ReLU", "silu": "SiLU", "tanh": "tanh", "sigmoid": "sigmoid"}


def operands(lowering: Lowering) -> tuple[Operand, Operand]:
    """The two operands of `add`, `mul` …: tensors, numbers, tables of one number."""
    return operand(lowering, "self"), operand(lowering, "other")


def operand(lowering: Lowering, name: str) -> Operand:
    """An operand: a tensor, or the number that it holds everywhere."""
    argument = lowering.argument(name)
    if not isinstance(argument, Ref):
        return lowering.number_of(name)
    formula = lowering.look(argument)
    one = single(lowering, formula)
    return formula if one is None else one


def add(lowering: Lowering) -> Known:
    """Residuals, biases, masks that are added to scores, rotary positions, arithmetic."""
    a, b = (_kept(lowering, name) or operand(lowering, name) for name in ("self", "other"))
    alpha = lowering.number_of("alpha", 1)
    if alpha != 1:
        b = combine("mul", b, alpha)
    if isinstance(a, Mask | Fixed | int | float) and not isinstance(b, Mask | Fixed | int | float):
        a, b = b, a
    if isinstance(b, Mask) and b.form == "scores":
        return show(lowering, lowering.view(tensor(a)), b, causal=False)
    if b == 0:
        return tensor(a)
    turned = coordinate(lowering, a, b, second=True) or rotary(lowering, a, b)
    if turned is not None:
        return turned
    if isinstance(b, Fixed):
        return _add_table(lowering, lowering.view(tensor(a)), b)
    if isinstance(a, int | float) or isinstance(b, int | float) or _joined(a, b):
        return combine("add", a, b)
    return together(lowering, "⊕", lowering.view(a), lowering.view(b))


def _kept(lowering: Lowering, name: str) -> View | None:
    """A vector that a model keeps beside its parameters, as a bias that evens the load of experts.

    It is a frozen parameter, whatever its numbers are now.
    """
    argument = lowering.argument(name)
    known = lowering.look(argument) if isinstance(argument, Ref) else None
    if not isinstance(known, Fixed) or len(known.shape) != 1 or known.shape[0] == ONE:
        return None
    target = lowering.buffers.get(lowering.fixed.cast_from(known.name))
    return None if target is None else View.of(lowering.weight(Weight(target, frozen=True)))


def tensor(found: Operand) -> Known:
    """An operand that is no number."""
    if isinstance(found, int | float):
        raise Unspeakable("it has no tensor among its operands")
    return found


def _add_table(lowering: Lowering, view: View, table: Fixed) -> Known:
    if is_sinusoid(lowering, table):
        length, width = (lowering.sizes.make(dim) for dim in table.shape[-2:])
        value = lowering.emit("sinusoid", (), (length, width), length=(length, width))
        return together(lowering, "⊕", view, View.of(value))
    return show(lowering, view, as_mask(lowering, table, "scores"), causal=False)


def together(lowering: Lowering, operator: str, a: View, b: View) -> View:
    """An operator on two tensors that are broadcast to each other."""
    if a.value.kind != b.value.kind:
        raise Unspeakable("it computes with integers of an input, which only index or hide")
    merged = not a.repeats and any(len(axis) > 1 for axis in a.axes)  # as tokens and experts are
    if (b.repeats and not merged) or len(b.axes) > len(a.axes) or _lacks(a, b):
        a, b = (b, a) if not _lacks(b, a) and len(b.axes) >= len(a.axes) else (a, b)
    main, other = lowering.broadcast_together(a, b)
    return main.on(lowering.emit(operator, (main.value, other), main.value.axes))


def _lacks(a: View, b: View) -> bool:
    """Whether a has axes of length 1 where b has longer ones."""
    return any(
        not mine and its for mine, its in zip(reversed(a.axes), reversed(b.axes), strict=False)
    )


def _joined(a: Operand, b: Operand) -> bool:
    """Whether arithmetic continues: an operand that has no node yet, and shares tensors with it."""
    if not isinstance(a, Formula | View) or not isinstance(b, Formula | View):
        return False
    if isinstance(a, View) and isinstance(b, View):
        return False
    one, two = ({*_views(x)} for x in (a, b))
    reduced = any(isinstance(x, Formula) and x.reduced[-1] for x in (a, b))
    return bool(one & two) or reduced


def _views(known: Formula | View) -> tuple[View, ...]:
    return known.operands if isinstance(known, Formula) else (known,)


def multiply(lowering: Lowering) -> Known:
    """Gates, scales, weights of a norm, arithmetic."""
    a, b = operands(lowering)
    if isinstance(a, int | float) or (isinstance(a, Fixed) and not isinstance(b, int | float)):
        a, b = b, a
    if b == 1:
        return tensor(a)
    if isinstance(a, Mask) and isinstance(b, int | float) and a.form == "number":
        if a.negated and b <= HIDDEN:
            return replace(a, negated=False, form="scores")
        raise Unspeakable("it multiplies a mask")
    if isinstance(b, Fixed):
        return _turning(lowering, tensor(a), b)
    if isinstance(a, Mask) or isinstance(b, Mask | Fixed):
        raise Unspeakable("it multiplies by a mask")
    if isinstance(a, int | float) or isinstance(b, int | float) or _joined(a, b):
        return combine("mul", a, b)
    if _norm_weight(a, b):
        assert isinstance(a, View | Formula)
        return combine("mul", b, a) if _slim(a) else combine("mul", a, b)
    first, second = lowering.view(tensor(a)), lowering.view(tensor(b))
    return _gated(lowering, first, second) or together(lowering, "⊙", first, second)


def _turning(lowering: Lowering, known: Known, table: Fixed) -> Turning:
    """A tensor times a table: one that is not rotated is laid out, also for later calls."""
    view = lowering.view(known)
    turned = turning(lowering, view, table)
    if turned is not None:
        return turned
    seen = lowering.materialize(view)
    if is_coordinate(lowering, view):
        lowering.laid_out[seen.value] = view
    for name in reads(lowering.call.args):
        if lowering.known.get(name) is known:
            lowering.known[name] = seen
    return Turning(seen, table)


def _norm_weight(a: Operand, b: Operand) -> bool:
    """Whether one is a vector of weights, or ``1 + g``, and the other the arithmetic of a norm."""
    pairs = ((a, b), (b, a))
    return any(
        isinstance(x, Formula) and any(x.reduced) and isinstance(y, View | Formula) and _slim(y)
        for x, y in pairs
    )


def _slim(known: Formula | View) -> bool:
    """Whether all that is in it are vectors along the last axis."""
    return all(is_narrow(view) for view in _views(known))


def _gated(lowering: Lowering, a: View, b: View) -> View | None:
    for gate, other in ((a, b), (b, a)):
        for activation, operator in (("SiLU", "SwiGLU"), ("sigmoid", "GLU")):
            step = lowering.made_by(gate, activation)
            if step is None or len(gate.axes) != len(other.axes):
                continue
            if operator == "GLU" and other.value is step.data[0]:
                return gate.on(lowering.emit("SiLU", step.data, step.data[0].axes))
            main, value = lowering.broadcast_together(gate.on(step.data[0]), other)
            return main.on(lowering.emit(operator, (main.value, value), main.value.axes))
    return None


def gated_linear_unit(lowering: Lowering) -> View:
    """`glu`: the first half of the last axis, as far as the second half lets it through."""
    view = lowering.view_of("self")
    place = place_of(lowering, "dim", len(view.axes), -1)
    length = view.shape(lowering.sizes)[place]
    half = lowering.shape_of_output()[place]
    first = cut(lowering, view, place, number(0), half)
    gate = cut(lowering, view, place, half, length)
    return together(lowering, "GLU", gate, first)


def arithmetic(function: str, *, swapped: bool = False) -> Callable[[Lowering], Known]:
    """A rule for a function of two operands that is always gathered."""

    def rule(lowering: Lowering) -> Known:
        a, b = operands(lowering)
        if swapped:
            a, b = b, a
        if isinstance(b, Mask) and a == 1 and function == "sub" and b.form == "number":
            return replace(b, negated=not b.negated)
        if function == "sub" and lowering.number_of("alpha", 1) != 1:
            raise Unspeakable("it scales its second operand")
        turned = coordinate(lowering, a, b, second=False) if function == "sub" else None
        if turned is not None:
            return turned
        return combine(function, plain(a), plain(b))

    return rule


def plain(found: Operand) -> Formula | View | float:
    """An operand of arithmetic."""
    if isinstance(found, Formula | View | int | float):
        return found
    raise Unspeakable("it computes with a table of constants")


def function(name: str) -> Callable[[Lowering], Known]:
    """A rule for a function of one operand."""

    def rule(lowering: Lowering) -> Known:
        formula = lowering.known_of("self")
        node = NODES.get(name)
        if node is not None and not isinstance(formula, Formula):
            return lowering.keep(node, lowering.view(formula))
        if name in ("relu", "silu"):
            return lowering.keep(NODES[name], lowering.view(formula))
        return combine(name, plain(formula))

    return rule


def power(lowering: Lowering) -> Known:
    """A power with a plain number."""
    return combine("pow", plain(lowering.known_of("self")), lowering.number_of("exponent"))


def square(lowering: Lowering) -> Known:
    """A number times itself."""
    return combine("pow", plain(lowering.known_of("self")), 2.0)


def clamp(lowering: Lowering) -> Known:
    """Numbers kept above `min` and below `max`."""
    formula = plain(lowering.known_of("self"))
    for name, rule in (("min", "maximum"), ("max", "minimum")):
        if lowering.argument(name) is not None:
            formula = combine(rule, formula, lowering.number_of(name))
    return formula  # pyright: ignore[reportReturnType] - never a number: the first was a tensor


def gelu(lowering: Lowering) -> View:
    """By the error function, or by GPT-2's tanh."""
    exact = lowering.argument("approximate", "none") == "none"
    return lowering.keep("GELU", lowering.view_of("self"), word="exact" if exact else "")


def dropout(lowering: Lowering) -> View:
    """Dropout, also of a model that was exported for evaluation: `xg` drops only when asked to."""
    view = lowering.view_of("input")
    p = lowering.number_of("p")
    return lowering.keep("DO", view, p=p) if p else view
