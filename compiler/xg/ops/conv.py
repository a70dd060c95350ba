"""Convolution along the axes before the channels: windows, and a product with a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from xg.ir.dim import ONE, Dim, product
from xg.ir.op import Op
from xg.ir.prim import Expr, contract, reshape, transpose
from xg.ir.scalar import Scalar, size
from xg.ir.use import Attrs, Length, Misuse, Tensor, Use
from xg.ir.windows import OWN, Cut, Cutting, configured, cut, facts

LETTERS: Final = "abcdefgh"


def configure(use: Use) -> Attrs:
    """`axes`, the windows of each, and the number of groups."""
    shape, kernel = use.types[0].shape, use.types[1].shape
    axes = tuple(sorted(use.named_axes()))
    if not axes or axes != tuple(range(-1 - len(axes), -1)):
        along = use.windowed(len(kernel) - 2)
        help = (f"name those before the channels: conv[{along}](…) of {use.spell(shape)}",)
        raise Misuse("conv works along the axes in front of the last, its channels", help=help)
    widths = ", ".join("k" * len(axes))
    if len(kernel) != len(axes) + 2:
        notes = {1: f"this is {use.spell(kernel)}"}
        along = "1 axis" if len(axes) == 1 else f"{len(axes)} axes"
        help = (f"[{widths}, C/groups, D]: the widths, then the channels that go in and out",)
        raise Misuse(f"conv along {along} has a kernel of {len(axes) + 2} axes", notes, help)
    groups: Dim = use.own["groups"] or ONE
    if kernel[-2] * groups != shape[-1]:
        notes = {0: f"this is {use.spell(shape)}", 1: f"this is {use.spell(kernel)}"}
        found, taken = use.sizes.fold(shape[-1]), use.sizes.fold(kernel[-2] * groups)
        help = (f"a kernel [D, C/groups, {widths}] of elsewhere is [{widths}, C/groups, D] here",)
        raise Misuse(f"conv of {found} channels with a kernel for {taken}", notes, help)
    if any(bias.shape != kernel[-1:] for bias in use.types[2:]):
        notes = {2: f"this is {use.spell(use.types[2].shape)}"}
        raise Misuse(f"conv adds a bias of {use.sizes.fold(kernel[-1])}", notes)
    numbers = [Cutting.of(use, width) for width in kernel[: len(axes)]]
    same = numbers[0]
    attrs = {**configured(use, numbers, axes), "groups": groups}
    if (
        any(replace(each, width=same.width) != same for each in numbers)
        or same.before != same.behind
    ):
        return attrs
    words = {"stride": same.stride, "padding": same.before, "dilation": same.dilation}
    return {**attrs, **{name: size(dim) for name, dim in words.items()}, "parts": size(groups)}


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
    windows = cut(x, axes, cuts)  # [.., H', k, W', k, C]
    if groups != ONE:
        y = _grouped(windows, K, len(axes), groups)
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


def _grouped(windows: Expr, K: Expr, along: int, groups: Dim) -> Expr:
    """Each group of channels by its own part of the kernel."""
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
    facts=facts,
    meaning="convolves along the axes in brackets, which stand before the channels, with a kernel "
    "K [k, .., C/groups, D]; pad zeros are at both ends, or if causal all in front",
    formula="Y[.., j, :] = Σ_i X[.., j·stride + i·dilation - pad, :] K[i] + b",
    gradient="dX = overlap(dY K⊤), dK = Σ window(X)⊤ dY, db = Σ dY",
    source="LeCun et al. 1989",
)
