"""Windows of axes that may overlap: convolutions, pooling, and repeated positions.

torch has channels before places and the legend behind them: a tensor is laid out once, where it
comes in, and is seen as torch sees it from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from xg.ir.dim import ONE, number
from xg_torch.importing.diagram import Weight
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Ref
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.rules_product import project
from xg_torch.importing.rules_reduce import reduced
from xg_torch.importing.views import Axis, Factor, ModelValue, Size, View, divides, length, split

# Convolutions whose windows do not overlap: patches laid out by R, and a product.


PLACES: Final = "HW"  # names of the axes of a picture


def in_patches(lowering: Lowering, view: View, stored: Weight, kernel: Sequence[int]) -> View:
    """``x -> R : [B, h, w, (c, p, q)] -> •<=W``, where each window begins where the last one ends.

    The kernel [d, c, p, q] becomes a matrix [c p q, d].
    """
    view, outer, inner = _windows(lowering, view, kernel)
    channels = view.axes[1]
    if len(channels) == 1 and len(kernel) > 1:
        lowering.sizes.hint(channels[0].size, "C_in", 3)
    patches = view.with_axes(
        (view.axes[0], *outer, (*channels, *(factor for axis in inner for factor in axis)))
    )
    matrix = lowering.weight(Weight(stored.source, transposed=True, flat=True))
    product = project(lowering, patches, matrix, lowering.argument("bias"))
    first, *places, last = product.axes
    return product.with_axes((first, last, *places))


def _windows(
    lowering: Lowering, view: View, kernel: Sequence[int]
) -> tuple[View, list[Axis], list[Axis]]:
    """A view whose places are taken apart: which window, and where in it."""
    for place, size in enumerate(kernel, 2):
        axis = view.axes[place]
        if size == 1 or not axis:
            continue
        if len(axis) != 1 or axis[0] in view.repeats:
            view = View.of(lowering.materialize(view).value)
            axis = view.axes[place]
        length = lowering.sizes.dim(axis[0].size)
        if not divides(number(size), length):
            raise Unspeakable(f"its windows of {size} do not cover an axis of {length}")
        if length != number(size):
            if not lowering.sizes.is_part(axis[0].size):  # else it follows from what it is part of
                lowering.sizes.hint(axis[0].size, PLACES[place - 2 : place - 1] or "S", 4)
            view = split(view, axis[0], length / size, lowering.sizes)
            lowering.sizes.hint(view.axes[place][-1].size, "P", 3)
    outer: list[Axis] = []
    inner: list[Axis] = []
    for axis, size in zip(view.axes[2:], kernel, strict=True):
        whole = size == 1
        outer.append(axis if whole else axis[:-1])
        inner.append(() if whole else axis[-1:])
    return view, outer, inner


WINDOW_PLACES: Final = {1: "S", 2: "HW"}  # names of the axes that windows are along


def convolution(lowering: Lowering) -> View:
    """A product with patches where they lie side by side, else `conv`."""
    view = lowering.view_of("input")
    weight = lowering.known_of("weight")
    stored = lowering.weights.get(weight.value) if isinstance(weight, View) else None
    if not isinstance(weight, View) or not weight.plain or stored is None:
        raise Unspeakable("its kernel is no parameter")
    if stored.start is not None or stored.transposed:
        raise Unspeakable("its kernel is no parameter as it lies")
    widths = lowering.exported.arrays[stored.source].shape[2:]
    count = len(widths)
    stride = _numbers(lowering, "stride", count, 1)
    dilation = _numbers(lowering, "dilation", count, 1)
    padding = _padding(lowering, widths, stride, dilation)
    groups = lowering.integer_of("groups", 1)
    lengths = view.shape(lowering.sizes)[-count:]
    beside = list(widths) == stride and not any(padding) and groups == 1
    whole = all(d == 1 or k == 1 for d, k in zip(dilation, widths, strict=True))
    if beside and whole and len(view.axes) == count + 2:
        fits = all(divides(number(k), n) for k, n in zip(widths, lengths, strict=True))
        free = any(n.constant is None for n in lengths)
        if fits or free or count > len(WINDOW_PLACES):
            return in_patches(lowering, view, stored, widths)
    if count not in WINDOW_PLACES:
        raise Unspeakable("it is a convolution along three axes, which has no operator")
    words = {
        "stride": _one(lowering, stride, 1),
        "pad": _one(lowering, padding, 0),
        "dilation": _one(lowering, dilation, 1),
    }
    return _convolve(lowering, view, stored, groups, words)


def _convolve(
    lowering: Lowering, view: View, stored: Weight, groups: int, words: dict[str, str]
) -> View:
    """``conv[H, W](K, b, stride=2, pad=1)`` with a kernel [k, .., C/groups, D]."""
    kernel = lowering.weight(Weight(stored.source, kernel=True))
    count = len(kernel.axes) - 2
    front, channels, places = view.axes[: -count - 1], view.axes[-count - 1], view.axes[-count:]
    hint_places(lowering, places)
    value = lowering.lay_out(view, (*front, *places, channels))
    attrs: dict[str, Any] = {}
    each = value.axes[-1]
    if each is not None and groups > 1:
        attrs["groups"] = (each,)
        if kernel.axes[-2] is not None:
            parts = lowering.sizes.split(each, number(groups))
            lowering.sizes.hint(parts[0], "N_G", 3)
            attrs["groups"], each = parts[:1], parts[1]
    lowering.sizes.equal(each, kernel.axes[-2])
    own = [kernel]
    if lowering.argument("bias") is not None:
        bias = lowering.view_of("bias")
        if not bias.plain or bias.value.param is None:
            raise Unspeakable("its bias is no parameter")
        own.append(bias.value)
        lowering.sizes.equal(bias.value.axes[0], kernel.axes[-1])
    last: Axis = () if kernel.axes[-1] is None else (Factor.of(kernel.axes[-1]),)
    return _emit(lowering, "conv", value, front, places, last, words=words, own=own, **attrs)


def _emit(
    lowering: Lowering,
    operator: str,
    value: ModelValue,
    front: Sequence[Axis],
    places: Sequence[Axis],
    channels: Axis,
    *,
    words: dict[str, str],
    own: Sequence[ModelValue] = (),
    **attrs: Any,  # noqa: ANN401 - as in emit
) -> View:
    """A node along places, as torch sees what it gives: channels before places."""
    count = len(places)
    dims = lowering.shape_of_output()[-count:]
    after: list[Axis] = []
    for axis, dim in zip(places, dims, strict=True):
        before = length(axis, lowering.sizes)
        if operator == "upsample" and dim != ONE:
            after.append((*axis, Factor.of(lowering.sizes.make(dim / before))))
        elif before == dim:
            after.append(axis)
        else:
            after.append(() if dim == ONE else (Factor.of(lowering.sizes.make(dim)),))
    hint_places(lowering, after)
    base = (*front, *after, channels)
    axes: list[Size | None] = [lowering.join(axis) for axis in base]
    said = [text if name == "k" else f"{name}={text}" for name, text in words.items() if text]
    attrs["along"] = tuple(range(-count - 1, -1))
    made = lowering.emit(operator, (value,), axes, own=own, words=tuple(said), **attrs)
    return View(made, base, (*front, channels, *after))


def hint_places(lowering: Lowering, places: Sequence[Axis]) -> None:
    """Name the axes that windows are along, but for those that follow from a patch's."""
    for axis, word in zip(places, WINDOW_PLACES[len(places)], strict=True):
        if len(axis) == 1 and not lowering.sizes.is_part(axis[0].size):
            lowering.sizes.hint(axis[0].size, word, 4)


def pooling(operator: str) -> Callable[[Lowering], View]:
    """`maxpool` and `meanpool`; windows that differ between axes are pooled one after the other."""

    def rule(lowering: Lowering) -> View:
        count = int(lowering.call.target.partition("pool")[2][0])
        view = lowering.view_of("self")
        k = _numbers(lowering, "kernel_size", count, 1)
        stride = _numbers(lowering, "stride", count, 0)
        stride = k if not any(stride) else stride
        pad = _numbers(lowering, "padding", count, 0)
        dilation = _numbers(lowering, "dilation", count, 1)
        if lowering.argument("ceil_mode", False):
            raise Unspeakable(
                "its last window may end beyond the axis (ceil_mode), and those of the language "
                "end within it",
                "pad the axis, and leave out ceil_mode",
            )
        if any(pad) and not lowering.argument("count_include_pad", True):
            raise Unspeakable(
                "it leaves padding out of its means (count_include_pad=False), and zeros count in "
                "a meanpool"
            )
        if lowering.argument("divisor_override") is not None:
            raise Unspeakable("it divides by another number than that of its window")
        front, channels, places = view.axes[: -count - 1], view.axes[-count - 1], view.axes[-count:]
        hint_places(lowering, places)
        value = lowering.lay_out(view, (*front, *places, channels))
        words = {
            "k": _one(lowering, k, 0),
            "stride": "" if stride == k else _one(lowering, stride, 0),
            "pad": _one(lowering, pad, 0),
            "dilation": _one(lowering, dilation, 1),
        }
        return _emit(lowering, operator, value, front, places, channels, words=words)

    return rule


def whole_mean(lowering: Lowering) -> View:
    """`adaptive_avg_pool2d` to one position: the mean of all."""
    size = lowering.argument("output_size")
    sizes = size if isinstance(size, tuple) else (size,)
    if any(each != 1 for each in sizes):
        raise Unspeakable("it pools to more than one position, by windows of several widths")
    view = lowering.view_of("self")
    count = int(lowering.call.target.partition("pool")[2][0])
    rank = len(view.axes)
    hint_places(lowering, view.axes[-count:])
    return reduced(lowering, "mean", view, list(range(rank - count, rank)), keep=True)


def upsample(lowering: Lowering) -> View:
    """Each position repeated as often along each axis."""
    view = lowering.view_of("input" if "input" in lowering.call.args else "self")
    count = len(view.axes) - 2
    front, channels, places = view.axes[:1], view.axes[1], view.axes[2:]
    before, after = view.shape(lowering.sizes)[2:], lowering.shape_of_output()[2:]
    times = {
        (new / old).constant if divides(old, new) else None
        for old, new in zip(before, after, strict=True)
    }
    k = next(iter(times))
    if len(times) > 1 or k is None or count not in WINDOW_PLACES:
        raise Unspeakable("it does not repeat each position as often along each axis")
    hint_places(lowering, places)
    value = lowering.lay_out(view, (*front, *places, channels))
    return _emit(lowering, "upsample", value, front, places, channels, words={"k": str(k)})


def _padding(
    lowering: Lowering, widths: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    """The zeros at both ends of each axis."""
    word = lowering.argument("padding", 0)
    if word == "valid":
        return [0] * len(widths)
    if word != "same":
        return _numbers(lowering, "padding", len(widths), 0)
    reach = [d * (k - 1) for d, k in zip(dilation, widths, strict=True)]
    if any(each % 2 for each in reach) or any(each != 1 for each in stride):
        raise Unspeakable("its padding is not the same at both ends of an axis")
    return [each // 2 for each in reach]


def _numbers(lowering: Lowering, name: str, count: int, default: int) -> list[int]:
    """An argument for each axis; one number is for all."""
    argument = lowering.argument(name, default)
    listed = list(argument) if isinstance(argument, tuple) else [argument]
    numbers = [each for each in listed or [default] if isinstance(each, int)]
    if len(numbers) not in (1, count) or len(listed) > len(numbers):
        raise Unspeakable(f"its {name} is no list of numbers")
    return numbers * count if len(numbers) == 1 else numbers


def _one(lowering: Lowering, numbers: Sequence[int], default: int) -> str:
    """The number that is the same for all axes, or nothing where it is the default."""
    if len(set(numbers)) > 1:
        name = lowering.call.target.split(".")[1]
        raise Unspeakable(
            f"its numbers differ between axes ({numbers}), and {name} has one of each"
        )
    return "" if numbers[0] == default else str(numbers[0])


# Batch normalization by running statistics: of a model in evaluation.


OWN: Final = ("weight", "bias", "running_mean", "running_var")


def batch_norm(lowering: Lowering) -> View:
    """``BN(γ, β, μ, v)`` over all axes but the channels, which torch has second."""
    if lowering.argument("training", False):
        raise Unspeakable(
            "it is in training, where its running statistics change as it runs",
            "export the model in evaluation, model.eval(): the diagram's BN has both",
        )
    view = lowering.view_of("input")
    front, channels, places = view.axes[:1], view.axes[1], view.axes[2:]
    if len(places) in (1, 2):
        hint_places(lowering, places)
    value = lowering.lay_out(view, (*front, *places, channels))
    given = {name: _parameter(lowering, name) for name in OWN}
    own = {name: each for name, each in given.items() if each is not None}
    if len(own) < len(OWN) and "weight" in own:
        raise Unspeakable("it has no bias, or no running statistics")
    for each in own.values():
        lowering.sizes.equal(value.axes[-1], each.axes[0])
    eps = lowering.number_of("eps", 1e-5)
    momentum = lowering.number_of("momentum", 0.1)
    made = lowering.emit(
        "BN", (value,), value.axes, own=list(own.values()), eps=eps, momentum=momentum
    )
    base = (*front, *places, channels)
    return View(made, base, view.axes)


def _parameter(lowering: Lowering, name: str) -> ModelValue | None:
    """An own tensor: a parameter, or a buffer, which becomes a frozen one."""
    argument = lowering.argument(name)
    if argument is None:
        return None
    held = {each.name: each for each in lowering.exported.entries if each.kind != "user"}
    entry = held.get(argument.name) if isinstance(argument, Ref) else None
    if entry is None:
        raise Unspeakable(f"its {name} is no tensor of the model")
    return lowering.weight(Weight(entry.target, frozen=name.startswith("running")))
