"""Sums, products and functions of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import ONE, number
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import BOOL, Ref, reads
from xg_torch.importing.fixed import HIDDEN, Chosen, Condition, Fixed, Formula, Known, Mask, Turning
from xg_torch.importing.lowering import INTEGERS, Lowering, choose, combine, is_narrow
from xg_torch.importing.recognize import (
    Visible,
    coordinate,
    is_coordinate,
    is_sinusoid,
    rotary,
    single,
    turning,
    visible,
)
from xg_torch.importing.rules_layout import cut, place_of
from xg_torch.importing.views import ModelStep, View, Weight, WrittenOperator

# Masks of attention: what of the scores is hidden, by order or by an input.


_HIDE: Final = "select({}, a, -inf)\n    where i = range[S](T - S), j = range[T]"


def as_mask(lowering: Lowering, known: Known, form: str) -> Mask:
    """A mask in one of its forms, also from constants."""
    if isinstance(known, Fixed):
        return Mask((known,), form="scores" if form == "scores" else "bool")
    if isinstance(known, Mask) and known.form == form:
        return known
    raise Unspeakable("its mask is none that the language knows")


def mask_scores(
    lowering: Lowering, scores: View, known: Known | None, *, causal: bool, scale: float
) -> View:
    """``SM(scale, causal)<-M``: scores times a number, hidden where a mask says so."""
    scored = isinstance(known, Mask) and known.form == "scores"
    mask = None if known is None else as_mask(lowering, known, "scores" if scored else "bool")
    return show(lowering, scores, mask, causal=causal, scale=scale)


def bias_scores(
    lowering: Lowering, scores: View, bias: View, *, causal: bool, scale: float
) -> View:
    """Scale scores and add a bias that a mask may partly hide: SM comes last."""
    if scale != 1.0:
        scores = show(lowering, scores, None, causal=False, scale=scale)
    hiding = list[ModelStep]()
    while (step := lowering.made_by(bias, "SM")) is not None and step.attrs["c"] == 1.0:
        hiding.append(step)
        bias = bias.on(step.data[0])
    main, other = lowering.broadcast_together(scores, bias)
    scores = main.on(lowering.emit("⊕", (main.value, other), main.value.axes))
    for step in reversed(hiding):
        masks = [bias.on(mask) for mask in step.data[1:]]
        attrs: dict[str, Any] = {**step.attrs, "contracted": ()}
        if not masks:
            scores = lowering.keep("SM", scores, **attrs)
        for mask in masks:
            main, spread = lowering.broadcast_together(scores, mask)
            value = lowering.emit("SM", (main.value, spread), main.value.axes, **attrs)
            scores = main.on(value)
    return show(lowering, scores, None, causal=True) if causal else scores


def _is_bool(lowering: Lowering, fixed: Fixed) -> bool:
    trial = lowering.fixed.trials(fixed.name)[0]
    return lowering.fixed.run(fixed.name, trial).dtype == bool


def show(
    lowering: Lowering, scores: View, mask: Mask | None, *, causal: bool, scale: float = 1.0
) -> View:
    """Scores with a mask, as few SM as possible; a scale before them is part of the SM."""
    if mask is not None and mask.negated and len(mask.parts) > 1:
        raise Unspeakable("its mask hides where several conditions meet")
    conditions: list[Condition] = []
    bands = [Visible(after=0)] if causal else []
    for part in mask.parts if mask is not None else ():
        assert mask is not None
        if isinstance(part, Fixed):
            scored = not _is_bool(lowering, part)
            bands.append(visible(lowering, part, scores=scored, negated=mask.negated))
        else:
            conditions.append(replace(part, positive=part.positive != mask.negated))
    band = Visible(_least(b.before for b in bands), _least(b.after for b in bands))
    if band != Visible():
        _refuse_uneven(lowering, scores)
    causal = band == Visible(after=0)
    scores, scale = _split_scale(lowering, scores, scale)
    product = lowering.made_by(scores, "•")
    contracted = product.attrs.get("contracted", ()) if product is not None else ()
    attrs: dict[str, Any] = {"c": scale, "causal": causal, "contracted": contracted}
    if not conditions and (scale != 1.0 or causal):
        scores = lowering.keep("SM", scores, **attrs)
    for condition in conditions:
        view = condition.view
        if not condition.positive:
            view = view.on(lowering.emit("not", (view.value,), view.value.axes, kind="int"))
        main, spread = lowering.broadcast_together(scores, view)
        value = lowering.emit("SM", (main.value, spread), main.value.axes, **attrs)
        scores = main.on(value)
        attrs = {"c": 1.0, "causal": False, "contracted": ()}
    return scores if causal or band == Visible() else _near(lowering, scores, band)


def _least(bounds: Iterable[int | None]) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def _near(lowering: Lowering, scores: View, band: Visible) -> View:
    """Scores of keys that are within a band of distances, by an operator of positions."""
    before, after = band.before, band.after
    if after == 0 and before is not None:
        name, shown, box = "Window", "and(i >= j, w > i - j)", (before + 1,)
    elif before == after:
        name, shown, box = "Near", "w >= abs(i - j)", (before,)
    elif before is None:
        name, shown, box = "Ahead", "w >= j - i", (after,)
    elif after is None:
        name, shown, box = "Behind", "w >= i - j", (before,)
    else:
        name, shown, box = "Band", "and(before >= i - j, after >= j - i)", (before, after)
    signature = f"(a [.., S, T]; {'w' if len(box) == 1 else 'before, after'})"
    made = WrittenOperator(name, signature, _HIDE.format(shown))
    scores = lowering.isolate_last_axis(scores)
    words = tuple(map(str, box))
    return lowering.keep("defined", scores, definition=made, box=words, reach=before)


def _split_scale(lowering: Lowering, scores: View, scale: float) -> tuple[View, float]:
    """Scores before they were scaled, and by what in all."""
    step = lowering.made_by(scores, "scale")
    if step is None or scale != 1.0:
        return scores, scale
    return scores.on(step.data[0]), float(step.attrs["c"])


def _refuse_uneven(lowering: Lowering, scores: View) -> None:
    queries, keys = scores.shape(lowering.sizes)[-2:]
    if queries != keys:
        raise Unspeakable(
            "its causal mask has queries and keys of different lengths",
            "torch aligns the first positions there, the language the last ones",
        )


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
        if is_table(lowering, b) and not is_sinusoid(lowering, b) and not _hides(lowering, b):
            return together(lowering, "⊕", lowering.view(tensor(a)), lowering.view(b))
        return _add_table(lowering, lowering.view(tensor(a)), b)
    if isinstance(a, int | float) or isinstance(b, int | float) or _is_arithmetic(a, b):
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


def _hides(lowering: Lowering, table: Fixed) -> bool:
    """Whether a table is a mask of scores: zeros, and numbers that hide."""
    numbers = lowering.fixed.run(table.name, lowering.fixed.trials(table.name)[0])
    return bool(((numbers == 0) | (numbers <= HIDDEN)).all())


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
        raise Unspeakable(INTEGERS)
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


def _is_arithmetic(a: Operand, b: Operand) -> bool:
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
        if is_table(lowering, b) and (isinstance(a, Formula) or len(b.shape) < 2):
            return combine("mul", plain(a), lowering.view(b))
        return _turning(lowering, tensor(a), b)
    if isinstance(a, Mask) or isinstance(b, Mask | Fixed):
        raise Unspeakable("it multiplies by a mask")
    if isinstance(a, int | float) or isinstance(b, int | float) or _is_arithmetic(a, b):
        return combine("mul", a, b)
    if _norm_weight(a, b):
        assert isinstance(a, View | Formula)
        return combine("mul", b, a) if _slim(a) else combine("mul", a, b)
    first, second = lowering.view(tensor(a)), lowering.view(tensor(b))
    return _emit_gate(lowering, first, second) or together(lowering, "⊙", first, second)


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


def _emit_gate(lowering: Lowering, a: View, b: View) -> View | None:
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
        if lowering.argument("rounding_mode") is not None:
            raise Unspeakable(
                f"it rounds its quotient (rounding_mode={lowering.argument('rounding_mode')})",
                "torch.floor(a / b) is read, which differs only where a / b itself is rounded",
            )
        if function == "sub" and lowering.number_of("alpha", 1) != 1:
            raise Unspeakable("it scales its second operand")
        turned = coordinate(lowering, a, b, second=False) if function == "sub" else None
        if turned is not None:
            return turned
        return combine(function, *(_with_tables(lowering, each) for each in (a, b)))

    return rule


def _with_tables(lowering: Lowering, found: Operand) -> Formula | View | float:
    if isinstance(found, Fixed) and is_table(lowering, found):
        return lowering.view(found)
    return plain(found)


def is_table(lowering: Lowering, found: Operand) -> bool:
    """Whether an operand is a table of numbers that a model keeps, which can be a parameter."""
    return isinstance(found, Fixed) and lowering.fixed.cast_from(found.name) in lowering.tables


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


def detach(lowering: Lowering) -> Known:
    """Numbers without their gradient: `stop` for those that have one."""
    known = lowering.known_of("self")
    if isinstance(known, Formula):
        function, terms = known.parts[-1]  # without a gradient, all largest ones are the same
        plainer = {"largest": "max", "least": "min"}.get(function, function)
        return combine("stop", replace(known, parts=(*known.parts[:-1], (plainer, terms))))
    if isinstance(known, Fixed | Mask | Chosen):
        return known
    view = lowering.view(known)
    return lowering.keep("stop", view) if view.value.kind == "float" else view


def clamp(lowering: Lowering) -> Known:
    """Numbers kept above `min` and below `max`, with slope 1 at both."""
    x = plain(lowering.known_of("self"))
    low, high = (
        None if lowering.argument(name) is None else lowering.number_of(name)
        for name in ("min", "max")
    )
    if low is not None and high is not None and low > high:
        raise Unspeakable("its min is above its max")
    found = x if high is None else combine("select", x, high, high, x)
    return tensor(found if low is None else combine("select", low, x, low, found))


def gelu(lowering: Lowering) -> View:
    """By the error function, or by GPT-2's tanh."""
    exact = lowering.argument("approximate", "none") == "none"
    return lowering.keep("GELU", lowering.view_of("self"), word="exact" if exact else "")


def dropout(lowering: Lowering) -> View:
    """Dropout, also of a model that was exported for evaluation: `xg` drops only when asked to."""
    view = lowering.view_of("input" if "input" in lowering.call.args else "self")
    p = lowering.number_of("p")
    return lowering.keep("DO", view, p=p) if p else view


# Masks of inputs: comparisons, logic, and where they hide scores.


def compare(positive_for: Callable[[float], bool | None]) -> Callable[[Lowering], Known]:
    """A rule for a comparison of a mask of 0 and 1 with a number."""

    def rule(lowering: Lowering) -> Known:
        a, b = operands(lowering)
        if _is_number(a) and (_is_number(b) or isinstance(b, int | float)):
            return _compare_numbers(lowering, plain(a), plain(b))
        if not isinstance(b, int | float):
            raise Unspeakable("it compares tensors")
        positive = positive_for(b)
        if isinstance(a, Mask) and a.form != "scores" and positive is not None:
            return replace(a, form="bool", negated=a.negated == positive)
        if positive is None or not isinstance(a, View) or a.value.kind != "int":
            raise Unspeakable("it compares numbers, and the language has masks of 0 and 1 only")
        return condition(lowering, a, positive=positive)

    return rule


def _is_number(known: Operand) -> bool:
    return isinstance(known, Formula) or (isinstance(known, View) and known.value.kind == "float")


COMPARISONS: Final = {
    **dict.fromkeys(("gt", "lt"), "select"),
    **dict.fromkeys(("ge", "le"), "select_at_least"),
}


def _compare_numbers(
    lowering: Lowering, a: Formula | View | float, b: Formula | View | float
) -> Formula:
    """1 where a comparison of numbers holds, 0 elsewhere: a truth value as `where` reads it."""
    name = lowering.call.target.split(".")[1].rstrip("_")
    a, b = (b, a) if name in ("lt", "le") else (a, b)
    yes, no = (0.0, 1.0) if name == "ne" else (1.0, 0.0)
    return combine(COMPARISONS.get(name, "select_equal"), a, b, yes, no)


def condition(lowering: Lowering, view: View, *, positive: bool = True) -> Mask:
    """Integers of an input as a mask."""
    lowering.set_range(view.value, lowering.sizes.make(number(2)))
    return Mask((Condition(view, positive),))


def both(lowering: Lowering) -> Known:
    """Two masks that must both hold."""
    a, b = (_mask(lowering, name) for name in ("self", "other"))
    if a.negated or b.negated:
        a, b = _push_negation(a), _push_negation(b)
    return Mask((*a.parts, *b.parts))


def either(lowering: Lowering) -> Known:
    """One of two masks: what hides if any of two hides."""
    a, b = (_push_negation(_negate(_mask(lowering, name))) for name in ("self", "other"))
    return Mask((*a.parts, *b.parts), negated=True)


def negation(lowering: Lowering) -> Known:
    """The negation of a mask."""
    return _negate(_mask(lowering, "self"))


def _mask(lowering: Lowering, name: str) -> Mask:
    mask = lowering.known_of(name)
    if isinstance(mask, View) and mask.value.kind == "int":
        mask = condition(lowering, mask)
    return as_mask(lowering, mask, "bool")


def _negate(mask: Mask) -> Mask:
    return replace(mask, negated=not mask.negated)


def _push_negation(mask: Mask) -> Mask:
    """A mask that is not negated as a whole."""
    if not mask.negated:
        return mask
    (part, *others) = mask.parts
    if others or not isinstance(part, Condition):
        raise Unspeakable("it combines masks in a way that the language cannot say")
    return Mask((replace(part, positive=not part.positive),))


def masked_fill(lowering: Lowering) -> Known:
    """Scores, or zeros that will be added to scores, hidden where a mask holds."""
    value, formula = operand(lowering, "value"), lowering.known_of("self")
    truth = lowering.known_of("mask")
    if isinstance(truth, Formula):
        return choose(truth, plain(value), plain(formula))
    mask = _negate(_mask(lowering, "mask"))
    if not isinstance(value, int | float) or value > HIDDEN:
        raise Unspeakable("it fills with a number that does not hide scores")
    if single(lowering, formula) == 0.0:
        return replace(mask, form="scores")
    return show(lowering, lowering.view(formula), mask, causal=False)


def where(lowering: Lowering) -> Known:
    """`where(mask, scores, -inf)`, `where(mask, 0, -inf)` and the other way round."""
    a, b = operands(lowering)
    truth = lowering.known_of("condition")
    if isinstance(truth, Formula):
        return choose(truth, plain(a), plain(b))
    mask = _mask(lowering, "condition")
    if isinstance(a, int | float) and a <= HIDDEN:
        mask, a, b = _negate(mask), b, a
    if not isinstance(b, int | float) or b > HIDDEN:
        raise Unspeakable("it chooses between tensors")
    if a == 0:
        return replace(mask, form="scores")
    return show(lowering, lowering.view(tensor(a)), mask, causal=False)


def cast(lowering: Lowering) -> Known:
    """Another element type: masks become numbers, integers of an input masks."""
    formula = lowering.known_of("self")
    dtype = lowering.exported.metas[lowering.call.outputs[0]].dtype
    if isinstance(formula, Mask) and formula.form != "scores":
        return replace(formula, form="bool" if dtype == BOOL else "number")
    if isinstance(formula, View) and formula.value.kind == "int" and dtype not in range(1, 6):
        mask = condition(lowering, formula)
        return replace(mask, form="bool" if dtype == BOOL else "number")
    return formula
