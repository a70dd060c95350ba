"""Calls that the legend has no node for, as arithmetic and layouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xg.ir.dim import number, product
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Argument, Ref, reads
from xg_torch.importing.fixed import Formula, Known, Lost
from xg_torch.importing.lowering import Lowering, combine
from xg_torch.importing.rules_elementwise import operand, plain, tensor, together
from xg_torch.importing.rules_layout import places_of
from xg_torch.importing.rules_product import place_of_largest, reduce_axes
from xg_torch.importing.rules_product import squared_error as mean_squared_error
from xg_torch.importing.views import Axis, View, expand, regroup

Number = Formula | View
Rule = Callable[[Lowering], "Known | tuple[Known, ...]"]


# Functions of one number, also of gathered arithmetic.


def _above(x: Number, bound: float, yes: Number | float, no: Number | float) -> Formula:
    """``select(x > bound, yes, no)``."""
    return combine("select", x, bound, yes, no)


def _negative(x: Number) -> Formula:
    """The smaller of x and 0, with slope 1 at 0, where that of ``min(x, 0)`` is 1/2."""
    return _above(x, 0.0, 0.0, x)


def softplus(lowering: Lowering, x: Number) -> Known:
    """`softplus`: torch is linear from a threshold on, where that changes nothing."""
    beta, threshold = lowering.number_of("beta", 1.0), lowering.number_of("threshold", 20.0)
    if threshold < 18:
        raise Unspeakable("its threshold is below 18, where it is not linear yet")
    return (
        x if beta == 0 else combine("mul", combine("softplus", combine("mul", x, beta)), 1 / beta)
    )


def elu(lowering: Lowering, x: Number) -> Known:
    """`elu`, with the scales that `selu` and `celu` give it."""
    alpha, scale, inner = (
        lowering.number_of(name, 1.0) for name in ("alpha", "scale", "input_scale")
    )
    return _exponential(x, alpha, scale, inner)


def _exponential(x: Number, alpha: float, scale: float, inner: float) -> Formula:
    below = _negative(x)
    power = combine("exp", combine("mul", below, inner) if inner != 1 else below)
    low = combine("mul", combine("sub", power, 1.0), alpha * scale)
    return _above(x, 0.0, x if scale == 1 else combine("mul", x, scale), low)


def _within(x: Number, low: float, high: float) -> Formula:
    """Numbers kept between two bounds, with slope 0 at both."""
    below = combine("select_at_least", x, high, high, x)
    return combine("select_at_least", low, x, low, below)


def celu(lowering: Lowering, x: Number) -> Known:
    """`celu`: `elu` whose slope is 1 at 0."""
    alpha = lowering.number_of("alpha", 1.0)
    return _exponential(x, alpha, 1.0, 1 / alpha)


def _shifted_relu6(x: Number) -> Formula:
    """``relu6(x + 3)``."""
    return _within(combine("add", x, 3.0), 0.0, 6.0)


def hardsigmoid(lowering: Lowering, x: Number) -> Known:
    """`hardsigmoid`, in whose gradient torch has 1/6 in float32."""
    lowering.rounded = True
    return combine("div", _shifted_relu6(x), 6.0)


def nearest(lowering: Lowering, x: Number) -> Known:
    """`round`: halves go to the even number."""
    if lowering.argument("decimals", 0):
        raise Unspeakable("it rounds to decimals", "round a multiple, and divide it again")
    return combine("round", x)


UNARY: Final[Mapping[str, Callable[[Lowering, Number], Known]]] = {
    "softplus": softplus,
    "leaky_relu": lambda lowering, x: _above(
        x, 0.0, x, combine("mul", x, lowering.number_of("negative_slope", 0.01))
    ),
    "elu": elu,
    "selu": lambda _, x: _exponential(x, 1.6732632423543772, 1.0507009873554805, 1.0),
    "celu": celu,
    "relu6": lambda _, x: _within(x, 0.0, 6.0),
    "hardtanh": lambda lowering, x: _within(
        x, lowering.number_of("min_val", -1.0), lowering.number_of("max_val", 1.0)
    ),
    "hardsigmoid": hardsigmoid,
    "hardswish": lambda _, x: combine("div", combine("mul", x, _shifted_relu6(x)), 6.0),
    "mish": lambda _, x: combine("mul", x, combine("tanh", combine("softplus", x))),
    "log_sigmoid": lambda _, x: combine("neg", combine("softplus", combine("neg", x))),
    "expm1": lambda _, x: combine("sub", combine("exp", x), 1.0),
    "log1p": lambda _, x: combine("log1p", x),
    "reciprocal": lambda _, x: combine("div", 1.0, x),
    "ceil": lambda _, x: combine("neg", combine("floor", combine("neg", x))),
    "round": nearest,
}


def _unary(compute: Callable[[Lowering, Number], Known]) -> Rule:
    def rule(lowering: Lowering) -> Known:
        return compute(lowering, _number(lowering, "self"))

    return rule


def _number(lowering: Lowering, name: str) -> Number:
    x = plain(operand(lowering, name))
    if isinstance(x, int | float):
        raise Unspeakable("it has no tensor among its operands")
    return x


# Functions of several tensors.


def extremum(function: str) -> Rule:
    """`maximum` and `minimum` of two tensors."""

    def rule(lowering: Lowering) -> Known:
        return combine(function, *(plain(operand(lowering, each)) for each in ("self", "other")))

    return rule


def addcmul(lowering: Lowering) -> Known:
    """`addcmul`."""
    one, other = (_number(lowering, name) for name in ("tensor1", "tensor2"))
    scaled = combine("mul", combine("mul", one, other), lowering.number_of("value", 1.0))
    return combine("add", _number(lowering, "self"), scaled)


def lerp(lowering: Lowering) -> Known:
    """`lerp`, by a number."""
    start, end = (_number(lowering, name) for name in ("self", "end"))
    far = combine("mul", combine("sub", end, start), lowering.number_of("weight"))
    return combine("add", start, far)


def prelu(lowering: Lowering) -> Known:
    """`prelu`: one slope below 0, or one for each channel, which is a parameter."""
    x, slope = lowering.view_of("self"), lowering.view_of("weight")
    behind: tuple[Axis, ...] = ((),) * max(len(x.axes) - 2, 0)
    slope = slope.with_axes((*slope.axes, *(behind if slope.axes[0] else ())))
    low = together(lowering, "⊙", lowering.view(_negative(x)), slope)
    return together(lowering, "⊕", lowering.keep("ReLU", x), low)


# Reductions along any axes: the axes are moved to the end, as one.


def _move_last(view: View, axes: Sequence[int]) -> View:
    rest = [axis for place, axis in enumerate(view.axes) if place not in axes]
    return view.with_axes((*rest, tuple(factor for place in axes for factor in view.axes[place])))


def _reduced(lowering: Lowering, compute: Callable[[View], Formula]) -> Known:
    """Arithmetic that ends with a reduction over the axes of the call."""
    view = lowering.view_of("self")
    places, keep = places_of(lowering, len(view.axes)), bool(lowering.argument("keepdim", False))
    if keep and places == [len(view.axes) - 1]:
        return compute(view)
    found = lowering.view(compute(_move_last(view, places)))
    axes = list(found.axes[:-1])
    for place in places if keep else ():
        axes.insert(place, ())
    return found.with_axes(axes)


def _kept(lowering: Lowering, compute: Callable[[View], Formula]) -> Known:
    """Arithmetic along the axes of the call that keeps them."""
    view = lowering.view_of("self")
    places = places_of(lowering, len(view.axes))
    if places == [len(view.axes) - 1]:
        return compute(view)
    return lowering.view(compute(_move_last(view, places))).with_axes(view.axes)


def _count(lowering: Lowering, view: View) -> float:
    count = view.shape(lowering.sizes)[-1].constant
    if count is None:
        raise Unspeakable(
            "it counts the positions of an axis that is free",
            "correction=0 is a mean, which needs no count",
        )
    return float(count)


def _variance(lowering: Lowering) -> Callable[[View], Formula]:
    unbiased = 1.0 if lowering.argument("unbiased", True) else 0.0
    argument = lowering.argument("correction")
    correction = unbiased if argument is None else lowering.number_of("correction")

    def compute(view: View) -> Formula:
        centered = combine("sub", view, combine("mean", view))
        variance = combine("mean", combine("pow", centered, 2.0))
        if correction == 0:
            return variance
        count = _count(lowering, view)
        if count <= correction:
            raise Unspeakable(f"it divides by {count - correction:g}")
        return combine("mul", variance, count / (count - correction))

    return compute


def variance(lowering: Lowering) -> Known:
    """`var`."""
    return _reduced(lowering, _variance(lowering))


def deviation(lowering: Lowering) -> Known:
    """`std`."""
    compute = _variance(lowering)
    return _reduced(lowering, lambda view: combine("root", compute(view)))


def vector_norm(lowering: Lowering) -> Known:
    """The norms of order 1 and 2."""
    order = lowering.number_of("p" if "p" in lowering.call.args else "ord", 2.0)
    if order not in (1, 2):
        raise Unspeakable(f"its norm is of order {order}, and those of order 1 and 2 are read")
    if order == 1:
        return _reduced(lowering, lambda view: combine("sum", combine("abs", view)))
    return _reduced(lowering, _length)


def _length(view: View) -> Formula:
    return combine("root", combine("sum", combine("pow", view, 2.0)))


# With places, torch gives the gradient to the first of equal numbers, and shares it otherwise.
FIRST: Final = {"max": "largest", "min": "least"}


def extreme(function: str) -> Rule:
    """`amax`, `amin`, and `max` and `min` with the places of what they find."""

    def rule(lowering: Lowering) -> Known | tuple[Known, ...]:
        if "other" in lowering.call.args:
            return extremum(f"{function}imum")(lowering)
        places = lowering.call.outputs[1:]
        known, keep = lowering.known_of("self"), lowering.argument("keepdim", False)
        chosen = FIRST[function] if places else function
        if keep and isinstance(known, Formula) and _is_last(lowering):
            found: Known = combine(chosen, known)
        else:
            found = _reduced(lowering, lambda view: combine(chosen, view))
        if not places:
            return found
        read = set(places) & _read_anywhere(lowering)
        return found, _places_found(lowering, function) if read else Lost()

    return rule


def _places_found(lowering: Lowering, function: str) -> View:
    """Where `max` and `min` find their number: the smallest is the largest of the negated ones."""
    view = lowering.view_of("self")
    if function == "min":
        view = lowering.view(combine("neg", view))
    (place,) = places_of(lowering, len(view.axes))
    return place_of_largest(lowering, view, place, keep=bool(lowering.argument("keepdim", False)))


def _is_last(lowering: Lowering) -> bool:
    argument = lowering.argument("self")
    rank = len(lowering.shape(argument.name)) if isinstance(argument, Ref) else 0
    return places_of(lowering, rank) == [rank - 1]


def _read_anywhere(lowering: Lowering) -> set[str]:
    """Every tensor that a call reads, or that goes out."""
    exported = lowering.exported
    read = {name for call in exported.calls for name in reads(call.args)}
    return read | {each.name for each in exported.outputs if isinstance(each, Ref)}


def _shifted(view: View) -> tuple[Formula, Formula]:
    """Numbers less their largest, which changes no gradient, and this largest."""
    largest = combine("stop", combine("max", view))
    return combine("sub", view, largest), largest


def log_softmax(lowering: Lowering) -> Known:
    """`log_softmax`."""

    def compute(view: View) -> Formula:
        shifted, _ = _shifted(view)
        return combine("sub", shifted, combine("log", combine("sum", combine("exp", shifted))))

    return _kept(lowering, compute)


def log_sum_exp(lowering: Lowering) -> Known:
    """`logsumexp`."""

    def compute(view: View) -> Formula:
        shifted, largest = _shifted(view)
        return combine("add", combine("log", combine("sum", combine("exp", shifted))), largest)

    return _reduced(lowering, compute)


def group_norm(lowering: Lowering) -> Known:
    """`group_norm`: channels in groups, each normalized over its channels and all places."""
    return _normalize_groups(lowering, lowering.integer_of("num_groups"))


def instance_norm(lowering: Lowering) -> Known:
    """`instance_norm`: each channel normalized over all places."""
    if not lowering.argument("use_input_stats", True):
        raise Unspeakable("it normalizes by running statistics")
    if lowering.argument("running_mean") is not None:
        raise Unspeakable("its running statistics change as it runs")
    channels = lowering.shape_of_output()[1].constant
    if channels is None:
        raise Unspeakable("its channels are a free size")
    return _normalize_groups(lowering, int(channels))


def _normalize_groups(lowering: Lowering, groups: int) -> Known:
    view, shape = lowering.view_of("input"), lowering.shape_of_output()
    rest = product(shape[1:]) / groups
    grouped = regroup(view, (shape[0], number(groups), rest), lowering.sizes)
    centered = combine("sub", grouped, combine("mean", grouped))
    spread = combine(
        "add", combine("mean", combine("pow", centered, 2.0)), lowering.number_of("eps", 1e-5)
    )
    normed = lowering.view(combine("mul", centered, combine("rsqrt", spread)))
    found = regroup(normed, shape, lowering.sizes)
    behind: tuple[Axis, ...] = ((),) * (len(shape) - 2)
    for name, operator in (("weight", "⊙"), ("bias", "⊕")):
        if lowering.argument(name) is not None:
            own = lowering.view_of(name)
            found = together(lowering, operator, found, own.with_axes((*own.axes, *behind)))
    return found


def cosine_similarity(lowering: Lowering) -> Known:
    """`cosine_similarity` along the last axis."""
    one, other = lowering.view_of("x1"), lowering.view_of("x2")
    if lowering.integer_of("dim", 1) % len(one.axes) != len(one.axes) - 1:
        raise Unspeakable("its axis is not the last")
    eps = lowering.number_of("eps", 1e-8)
    lengths = [combine("maximum", _length(each), eps) for each in (one, other)]
    found = combine("div", combine("sum", combine("mul", one, other)), combine("mul", *lengths))
    view = lowering.view(found)
    return view.with_axes(view.axes[:-1])


# Losses of numbers.


def _loss(compute: Callable[[Lowering, Number, Number], Formula]) -> Rule:
    def rule(lowering: Lowering) -> Known:
        if lowering.argument("weight") is not None:
            raise Unspeakable("it weighs its targets")
        found = compute(lowering, _number(lowering, "self"), _number(lowering, "target"))
        mode = lowering.integer_of("reduction", 1)
        if mode == 0:
            return found
        view = lowering.view(found)
        axes = list(range(len(view.axes)))
        return reduce_axes(lowering, "mean" if mode == 1 else "sum", view, axes, keep=False)

    return rule


def _absolute(lowering: Lowering, x: Number, y: Number) -> Formula:
    return combine("abs", combine("sub", x, y))


def squared_error(lowering: Lowering) -> Known:
    """`mse_loss`: MSE if it gives one number."""
    if lowering.integer_of("reduction", 1) == 0:
        return combine(
            "pow", combine("sub", _number(lowering, "self"), _number(lowering, "target")), 2.0
        )
    return mean_squared_error(lowering)


def _smooth(lowering: Lowering, x: Number, y: Number) -> Formula:
    """`smooth_l1_loss` by beta, and `huber_loss`, which is delta times as large."""
    name = "delta" if "huber" in lowering.call.target else "beta"
    bound, off = lowering.number_of(name, 1.0), _absolute(lowering, x, y)
    if bound == 0:
        return off
    squared = combine("mul", combine("pow", off, 2.0), 0.5 / bound)
    found = _above(off, bound, combine("sub", off, 0.5 * bound), squared)
    return combine("mul", found, bound) if name == "delta" and bound != 1 else found


def _cross_entropy(lowering: Lowering, x: Number, y: Number) -> Formula:
    """`binary_cross_entropy`, whose logarithms are at least -100."""

    def part(p: Number, share: Number) -> Formula:
        return combine("mul", share, combine("maximum", combine("log", p), -100.0))

    rest = part(combine("sub", 1.0, x), combine("sub", 1.0, y))
    return combine("neg", combine("add", part(x, y), rest))


# Layouts.


def _transpose_last(lowering: Lowering) -> Known:
    view = lowering.view_of("self")
    return view.with_axes((*view.axes[:-2], view.axes[-1], view.axes[-2]))


def broadcast_tensors(lowering: Lowering) -> tuple[Known, ...]:
    """`broadcast_tensors`: each tensor with the axes of all."""
    items = lowering.argument("tensors")
    assert isinstance(items, tuple)
    return tuple(
        _spread(lowering, item, name)
        for item, name in zip(items, lowering.call.outputs, strict=True)
    )


def _spread(lowering: Lowering, item: Argument, name: str) -> Known:
    known, shape = lowering.look(item), lowering.shape(name)
    if isinstance(item, Ref) and lowering.shape(item.name) == shape:
        return known
    return expand(lowering.view(tensor(known)), shape, lowering.sizes)


def pixel_shuffle(lowering: Lowering) -> Known:
    """`pixel_shuffle`: channels become places."""
    view, times = lowering.view_of("self"), number(lowering.integer_of("upscale_factor"))
    shape = view.shape(lowering.sizes)
    front, (channels, height, width) = shape[:-3], shape[-3:]
    apart = (*front, channels / times**2, times, times, height, width)
    seen = regroup(view, apart, lowering.sizes)
    axes = seen.axes
    rows, columns = (*axes[-2], *axes[-4]), (*axes[-1], *axes[-3])
    return seen.with_axes((*axes[:-5], axes[-5], rows, columns))


RULES: Final[Mapping[str, Rule]] = {
    **{name: _unary(compute) for name, compute in UNARY.items()},
    **{f"{name}_": _unary(compute) for name, compute in UNARY.items()},
    "maximum": extremum("maximum"),
    "minimum": extremum("minimum"),
    "addcmul": addcmul,
    "lerp": lerp,
    "prelu": prelu,
    "var": variance,
    "std": deviation,
    "linalg_vector_norm": vector_norm,
    "norm": vector_norm,
    "amax": extreme("max"),
    "amin": extreme("min"),
    "min": extreme("min"),
    "max": extreme("max"),
    "log_softmax": log_softmax,
    "_log_softmax": log_softmax,
    "logsumexp": log_sum_exp,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "cosine_similarity": cosine_similarity,
    "mse_loss": squared_error,
    "l1_loss": _loss(_absolute),
    "smooth_l1_loss": _loss(_smooth),
    "huber_loss": _loss(_smooth),
    "binary_cross_entropy": _loss(_cross_entropy),
    "mT": _transpose_last,
    "mH": _transpose_last,
    "adjoint": _transpose_last,
    "broadcast_tensors": broadcast_tensors,
    "pixel_shuffle": pixel_shuffle,
}
