"""One node as written in a chain: its operator, its brackets and its box."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from xg.ir.dim import ZERO, Dim
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.lowering import number_text
from xg_torch.importing.recognize import Turns
from xg_torch.importing.views import Arrangement, Dims, ModelStep, ModelValue, Size

LETTERS = "qgxyzuvwabcdefhijklmnoprst"  # of axes whose own letter is taken


def scale_text(value: float, sizes: Iterable[Size], dims: Dims) -> str:
    """A scale by the size that it follows from: ``1/sqrt(D_h)``."""
    for size in sizes:
        dim, count = dims[size], dims.sizes.dim(size).constant
        if dim.name is None or count is None:
            continue
        for text, number in (
            (f"1/sqrt({dim})", 1 / math.sqrt(count)),
            (f"sqrt({dim})", math.sqrt(count)),
            (f"1/{dim}", 1 / count),
        ):
            if math.isclose(value, number, rel_tol=1e-14) and count > 1:
                return text
    return number_text(value)


def axis_name(value: ModelValue, place: int, dims: Dims) -> str:
    """The axis of a value, by name; raises Unspeakable where it has none of its own."""
    names = [dims[size] for size in value.axes]
    dim = names[place]
    if dim.name is None or names.count(dim) > 1:
        raise Unspeakable(f"its axis of {dim} has no name of its own")
    return dim.name


def _place(value: ModelValue, place: int, dims: Dims) -> str:
    """An axis by its name, or from the end where it has none of its own."""
    try:
        return axis_name(value, place, dims)
    except Unspeakable:
        return str(place)


def arrangement_text(step: ModelStep, dims: Dims) -> str | None:
    """The brackets of R, T or BC; "" where the label that follows says as much, None where none.

    A label says enough where every factor is of another size, so that there is one way only.
    """
    arrangement: Arrangement = step.attrs["arrangement"]
    sizes = [dims[size] for size in arrangement.sizes]
    old = [place for axis in arrangement.source for place in axis]
    used = [sizes[place] for place in old]
    plain = len(set(used)) == len(used) and all(dim.constant is None for dim in used)
    if step.operator == "BC":
        if _in_front(arrangement) or (plain and _only_new(arrangement, old)):
            return ""
    elif plain and _in_order(arrangement) and (step.operator == "R" or _one_of_ones(arrangement)):
        return ""
    return _map(arrangement, sizes, set(old))


def _in_order(arrangement: Arrangement) -> bool:
    """Whether factors of one axis come in the same order on the other side.

    A label is a product, which says nothing of the order in which an axis is laid out.
    """
    source, target = (
        [place for axis in side for place in axis]
        for side in (arrangement.source, arrangement.target)
    )
    return all(
        [place for place in other if place in axis] == list(axis)
        for side, other in ((arrangement.source, target), (arrangement.target, source))
        for axis in side
    )


def _one_of_ones(arrangement: Arrangement) -> bool:
    """Whether at most one axis is of length 1: of several, no shape says which is which."""
    return arrangement.source.count(()) < 2


def spreads_in_front(step: ModelStep) -> bool:
    """Return whether BC only adds leading axes, so that the other operand tells which."""
    return step.operator == "BC" and _in_front(step.attrs["arrangement"])


def _in_front(arrangement: Arrangement) -> bool:
    extra = len(arrangement.target) - len(arrangement.source)
    return arrangement.target[extra:] == arrangement.source


def _only_new(arrangement: Arrangement, old: list[int]) -> bool:
    """Whether whole axes are new, and of other sizes than those there are."""
    old_axes = tuple(axis for axis in arrangement.target if set(axis) & set(old))
    sizes = [arrangement.sizes[place] for axis in arrangement.target for place in axis]
    return (
        old_axes == arrangement.source and len(set(sizes)) == len(sizes) and all(arrangement.target)
    )


def _map(arrangement: Arrangement, sizes: list[Dim], old: set[int]) -> str:
    """``[b, s, (h, d) -> b, h, s, d]``, each factor by a letter of its own."""
    letters: dict[int, str] = {}
    for place, dim in enumerate(sizes):
        name = (dim.name or "x").lower()
        stem = name.removeprefix("n_")[:1]
        free = [c for c in (stem, *LETTERS) if c not in letters.values() and c.isalpha()]
        letters[place] = free[0]

    sized: set[int] = set()

    def axis(places: tuple[int, ...], *, source: bool) -> str:
        parts: list[str] = []
        for order, place in enumerate(places):
            new = place not in old and place not in sized and not source
            split_off = source and len(places) > 1 and order < len(places) - 1
            size = f"={sizes[place]}" if new or split_off else ""
            sized.add(place)
            parts.append(letters[place] + size)
        if not parts:
            return "1"
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    left = ", ".join(axis(places, source=True) for places in arrangement.source)
    right = ", ".join(axis(places, source=False) for places in arrangement.target)
    return f"[{left} -> {right}]"


def node_text(step: ModelStep, own: list[str], op_names: Mapping[str, str], dims: Dims) -> str:
    """The operator with its brackets and its box, without what is attached."""
    attrs = step.attrs
    match step.operator:
        case "R" | "T" | "BC":
            return step.operator + (arrangement_text(step, dims) or "")
        case "LN" | "BN":
            return _call(step.operator, _norm(step, own))
        case "SM":
            scale = _scale(step, step.data[0].axes[-1:], dims)
            mask = ["causal" if scale != "1" else "mask=causal"] if attrs["causal"] else []
            return _call("SM", [scale, *mask] if scale != "1" else mask)
        case "scale":
            return _call("scale", [_scale(step, step.data[0].axes[::-1], dims)])
        case "DO":
            return _call("DO", [number_text(attrs["p"])])
        case "GELU" | "MSE" | "BCE":
            return _call(step.operator, [attrs["word"]])
        case "CE":
            return _call("CE", [attrs["word"], f"ignore={attrs['ignore']}"])
        case "RoPE":
            return _rope_text(step)
        case "mean" | "sum" | "scatter" | "gather" | "cumsum" | "argmax":
            axes = ", ".join(axis_name(step.data[0], place, dims) for place in attrs["over"])
            return f"{step.operator}[{axes}]"
        case "topk":
            return _call("topk", [str(dims[step.outputs[0].axes[-1]])])
        case "pick":
            axis = axis_name(step.data[0], attrs["axis"], dims)
            return f"pick[{axis}]({dims.rename_symbols(attrs['index'])})"
        case "slice":
            return _slice_text(step, dims)
        case "conv" | "maxpool" | "meanpool" | "upsample":
            return _windows_text(step, own, dims)
        case "op" | "defined":
            said = attrs.get("definition") or attrs["formula"]
            return _call(op_names[str(said)], [*own, *attrs.get("box", ())])
        case _:
            return _call(step.operator, own)


def _rope_text(step: ModelStep) -> str:
    """``RoPE(base=500, layout=interleaved)``."""
    turns: Turns = step.attrs["turns"]
    base = number_text(turns.base)
    layout = "layout=interleaved" if step.attrs["layout"] == "interleaved" else ""
    slowed = [f"{name}={number_text(value)}" for name, value in turns.slowed]
    slowed += ["change=pairs"] if turns.pairs else []
    return _call("RoPE", ["" if base == "10000" else f"base={base}", layout, *slowed])


def _windows_text(step: ModelStep, own: list[str], dims: Dims) -> str:
    """``conv[H, W](K, b, stride=2, groups=C)``."""
    axes = ", ".join(_place(step.data[0], place, dims) for place in step.attrs["along"])
    groups = [f"groups={dims[size]}" for size in step.attrs.get("groups", ())]
    return _call(f"{step.operator}[{axes}]", [*own, *step.attrs["words"], *groups])


def _call(name: str, arguments: Iterable[str | None]) -> str:
    """Write an operator with its arguments, leaving out empty ones."""
    words = ", ".join(filter(None, arguments))
    return f"{name}({words})" if words else name


def _scale(step: ModelStep, axes: Sequence[Size | None], dims: Dims) -> str:
    """The scale of scores, by the sizes that it may follow from."""
    sizes = [size for size in axes if size is not None]
    return scale_text(step.attrs["c"], [*step.attrs.get("contracted", ()), *sizes], dims)


def _slice_text(step: ModelStep, dims: Dims) -> str:
    attrs = step.attrs
    axis = axis_name(step.data[0], attrs["axis"], dims)
    start = dims.rename_symbols(attrs["start"])
    if "before" in attrs:
        start = sum((dims[size] for size in attrs["before"]), ZERO)
    stop = start + dims[step.outputs[0].axes[attrs["axis"]]]
    return f"slice[{axis}]({start}, {stop})"


def source_text(step: ModelStep, dims: Dims) -> str:
    """Write a node without operands, which starts a chain."""
    lengths = [str(dims[size]) for size in step.attrs["length"]]
    if step.operator == "range" and step.attrs["start"]:
        start = step.attrs["start"]
        return f"range({start}, {dims[step.attrs['length'][0]] + start})"
    words = ["past"] if step.attrs.get("past") else []
    return f"{step.operator}({', '.join([*lengths, *words])})"


def _norm(step: ModelStep, own: list[str]) -> list[str]:
    """γ, β and running statistics, or these alone by their names; then the numbers."""
    alone = step.operator == "BN" and len(own) == 2
    named = [f"mean={own[0]}", f"variance={own[1]}"] if alone else own
    momentum = step.attrs.get("momentum", 0.1)
    said = [] if momentum == 0.1 else [f"momentum={number_text(momentum)}"]
    return [*named, *_eps(step.attrs["eps"], own), *said]


def _eps(eps: float, own: list[str]) -> list[str]:
    return [] if eps == 1e-5 else [f"eps={number_text(eps)}"]
