"""Convolution along the axes before the channels: windows, and a product with a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.conventions import Convention
from xg.ir.dim import ONE, Dim, Scalar, product, size
from xg.ir.op import Op
from xg.ir.prim import Expr, contract, reshape, transpose
from xg.ir.tensor import Shape
from xg.ir.use import (
    OWN,
    Attrs,
    Cut,
    Cutting,
    Length,
    Misuse,
    Tensor,
    Use,
    configure_windows,
    cut_windows,
    window_facts,
)

LETTERS: Final = "abcdefgh"


def configure(use: Use) -> Attrs:
    """`axes`, the windows of each, and the number of groups."""
    shape, kernel = use.types[0].shape, use.types[1].shape
    named = use.named_axes()
    axes = tuple(sorted(named))
    if not axes or axes != tuple(range(-1 - len(axes), -1)):
        help = _in_order(use, axes)
        raise Misuse("conv works along the axes before the last, its channels", help=help)
    if named != axes:
        help = f"name them as {use.spell(shape)} has them, and so the widths of the kernel: "
        other = "conv has its axes in another order than its operand"
        raise Misuse(other, help=(f"{help}{_along(use, shape, len(axes))}",))
    widths = ", ".join("k" * len(axes))
    if len(kernel) != len(axes) + 2:
        notes = {1: f"this is {use.spell(kernel)}"}
        along = "1 axis" if len(axes) == 1 else f"{len(axes)} axes"
        help = (f"[{widths}, C/groups, D]: the widths, then the channels that go in and out",)
        raise Misuse(f"conv along {along} has a kernel of {len(axes) + 2} axes", notes, help)
    groups: Dim = use.own["groups"] or ONE
    _refuse_channels(use, len(axes), groups)
    numbers = [Cutting.of(use, width) for width in kernel[: len(axes)]]
    same = numbers[0]
    attrs = {**configure_windows(use, numbers, axes, channels=kernel[-1]), "groups": groups}
    if (
        any(replace(each, width=same.width) != same for each in numbers)
        or same.before != same.behind
    ):
        return attrs
    words = {"stride": same.stride, "padding": same.before, "dilation": same.dilation}
    return {**attrs, **{name: size(dim) for name, dim in words.items()}, "parts": size(groups)}


def _refuse_channels(use: Use, along: int, groups: Dim) -> None:
    """Refuse a kernel for other channels than those that arrive, leave or have a bias."""
    shape, kernel = use.types[0].shape, use.types[1].shape
    if kernel[-2] * groups != shape[-1]:
        notes = {0: f"this is {use.spell(shape)}", 1: f"this is {use.spell(kernel)}"}
        found, taken = use.sizes.fold(shape[-1]), use.sizes.fold(kernel[-2] * groups)
        help = _of_elsewhere(along)
        if kernel[-1] * groups == shape[-1]:
            meant = use.spell((*kernel[:-2], kernel[-1], kernel[-2]))
            help = f"the channels that go in are before those that go out: {meant}"
        raise Misuse(f"conv of {found} channels with a kernel for {taken}", notes, (help,))
    if _as_torch_has_it(use, groups):
        notes = {1: f"this is {use.spell(kernel)}"}
        given, named = (use.sizes.fold(each) for each in (kernel[-1], kernel[0]))
        said = f"conv gives {given} channels, the label says {named}"
        raise Misuse(said, notes, (_of_elsewhere(along),))
    if any(bias.shape != kernel[-1:] for bias in use.types[2:]):
        notes = {2: f"this is {use.spell(use.types[2].shape)}"}
        raise Misuse(f"conv adds a bias of {use.sizes.fold(kernel[-1])}", notes)


def _in_order(use: Use, axes: tuple[int, ...]) -> tuple[str, ...]:
    """Suggest how to move the axes in brackets before the channels, which come last.

    The channels are the axis that the kernel fits, as xg or torch orders it.
    """
    shape, kernel = use.types[0].shape, use.types[1].shape
    along, widths = use.window_axes(len(kernel) - 2), len(kernel) - 2
    named = (f"name those before the channels: conv[{along}](…) of {use.spell(shape)}",)
    if widths < 1:
        return named
    groups: Dim = use.own["groups"] or ONE
    taken, turned = kernel[-2] * groups, kernel[1] * groups
    if shape[-1] == taken and (-1 in axes or len(axes) != widths):
        return named
    rest = [place for place in range(-len(shape), 0) if place not in axes]
    found = next((at for size in (taken, turned) for at in rest if shape[at] == size), None)
    if found is None and not axes:
        return named
    letters = use.letters(shape)
    if axes[-1:] == (-1,) and (not rest or (found is None and taken == ONE)):
        made = f"R[{', '.join(letters)} -> {', '.join((*letters, '1'))}]"
        node = _along(use, (*shape, ONE), len(axes))
        return (f"channels are an axis, also where there is one: write `-> {made} -> {node}`",)
    channels = rest[-1] if found is None else found
    cut = axes or tuple(at for at in rest if at != channels)[-widths:]
    order = (*(at for at in rest if at != channels and at not in cut), *cut, channels)
    moved = f"T[{', '.join(letters)} -> {', '.join(letters[at] for at in order)}]"
    node = _along(use, tuple(shape[at] for at in order), len(cut))
    help = f"channels stand last: write `-> {moved} -> {node}`"
    return (help, *([_of_elsewhere(widths)] if shape[channels] == turned != taken else []))


def _along(use: Use, shape: Shape, count: int) -> str:
    """Spell a convolution along `count` axes before the last."""
    return f"conv[{', '.join(use.axis(shape, at) for at in range(-1 - count, -1))}](…)"


def _as_torch_has_it(use: Use, groups: Dim) -> bool:
    """Whether the label has the channels of a kernel in torch's order, and not in this one."""
    shape, kernel, target = use.types[0].shape, use.types[1].shape, use.target
    if not target or target[-1] == kernel[-1]:
        return False
    return target[-1] == kernel[0] and kernel[1] * groups == shape[-1]


def _of_elsewhere(along: int) -> str:
    """Explain the order of a kernel's axes next to the order in torch."""
    widths = ", ".join("k" * along)
    return f"a kernel [D, C/groups, {widths}] of elsewhere is [{widths}, C/groups, D] here"


def forward(
    x: Expr,
    K: Expr,
    b: Expr | None,
    *,
    axes: Sequence[int],
    cuts: Sequence[Cut],
    behind: Sequence[Dim],
    groups: Dim,
    **numbers: Scalar,
) -> Expr:
    """``Y[.., j, :] = Σ_i X[.., j stride + i dilation - pad, :] K[i] + b``."""
    del behind, numbers  # for the facts, and for kernels
    windows = cut_windows(x, axes, cuts)  # [.., H', k, W', k, C]
    if groups != ONE:
        y = _grouped_conv(windows, K, len(axes), groups)
        return y if b is None else y + b
    rank = x.rank - 1 - len(axes)
    counts = range(rank, windows.rank - 1, 2)
    order = (*range(rank), *counts, *(place + 1 for place in counts), windows.rank - 1)
    width = product(K.shape[:-1])
    shape = tuple(windows.shape[place] for place in (*range(rank), *counts))
    rows = reshape(transpose(windows, order), (*shape, width)).named("rows")
    letters = LETTERS[: len(shape)]
    y = contract(rows, reshape(K, (width, K.shape[-1])), f"{letters}k,kj->{letters}j")
    return y if b is None else y + b


def _grouped_conv(windows: Expr, K: Expr, along: int, groups: Dim) -> Expr:
    """Convolve each group of channels with its own part of the kernel."""
    rank, width = windows.rank - 1 - 2 * along, product(K.shape[:-1])
    split = reshape(windows, (*windows.shape[:-1], groups, K.shape[-2]))
    counts = range(rank, rank + 2 * along, 2)
    elements = (place + 1 for place in counts)
    order = (*range(rank), split.rank - 2, *counts, *elements, split.rank - 1)
    front = windows.shape[:rank]
    lengths = tuple(windows.shape[place] for place in counts)
    rows = reshape(transpose(split, order), (*front, groups, product(lengths), width))
    each = K.shape[-1] / groups
    parts = reshape(K, (*K.shape[:-1], groups, each))
    first = transpose(parts, (along + 1, *range(along + 1), along + 2))
    letters = LETTERS[:rank]
    spec = f"{letters}gsk,gkj->{letters}gsj"
    y = contract(rows.named("rows"), reshape(first, (groups, width, each)), spec)
    apart = reshape(y, (*front, groups, *lengths, each))
    back = (*range(rank), *range(rank + 1, rank + 1 + along), rank, rank + 1 + along)
    return reshape(transpose(apart, back), (*front, *lengths, K.shape[-1]))


CONVENTIONS: Final = (
    Convention("empty axis", "an empty batch leaves the kernel without a gradient",
        "x -> conv[S](K)", {"x [B, S, 1]": ()}, (), {"x": (), "K": (((0.0,),),)},
        "F.conv1d(x.mT, K.permute(2, 1, 0)).mT", params={"K [1, 1, 1]": (((1.0,),),)}),
    Convention("half type", "products are added in float32, and rounded once", "x -> conv[S](K)",
        {"x [S, C]": ((1.0,) * 4096,)}, ((4096.0,),), {"x": ((1.0,) * 4096,)},
        "F.conv1d(x.T, K.permute(2, 1, 0)).T", "y [S, 1]",
        params={"K [1, C, 1]": (((1.0,),) * 4096,)}, dtype="bfloat16"),
)  # fmt: skip

OP: Final = Op(
    glyph="conv",
    name="convolution",
    family="nonlinear",
    own=(
        Tensor("K", shape=("windows", "last", "target")),
        Tensor("b", optional=True, start="zeros", shape=("target",)),
        *OWN,
        Length("groups", optional=True),
    ),
    forward=forward,
    configure=configure,
    brackets="axes",
    facts=window_facts,
    conventions=CONVENTIONS,
    meaning="convolves along the axes in brackets, which come before the channels, with a kernel "
    "K [k, .., C/groups, D], one width per axis; pad adds zeros at both ends, causal only at the "
    "start",
    formula="Y[.., j, :] = Σ_i X[.., j·stride + i·dilation - pad, :] K[i] + b",
    gradient="dX = overlap(dY K⊤), dK = Σ window(X)⊤ dY, db = Σ dY",
    source="LeCun et al. 1989",
)
