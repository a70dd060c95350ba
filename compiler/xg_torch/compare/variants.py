"""Errors that people make with one operator, each as what the operator would give then.

They are those that the trackers of Megatron-LM, torchtitan and DeepSpeed report again and again.
An error is only reported where its numbers are theirs, so a long list costs time but no false word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.scalar import Scalar, as_scalar
from xg_runtime.module import Array
from xg_torch.compare.flat_program import FlatEdge, FlatStep

Variant = tuple[str, Array]  # the error in words, and the first result with it
RANKS: Final = (2, 3, 4, 5, 6, 7, 8, 16)
EPSILONS: Final = (1e-5, 1e-6, 1e-12, 1e-8, 1e-3, 1e-7, 0.0)
BASES: Final = (10_000.0, 500_000.0, 1_000_000.0, 100_000.0)


@dataclass(frozen=True, slots=True)
class OtherWeights:
    """By path, the arrays that a parameter may be mistaken for, with words for each."""

    by_path: Mapping[str, Sequence[tuple[str, Array]]]

    def of(self, edge: FlatEdge) -> Iterator[tuple[str, Array]]:
        """An edge that is made from one parameter alone, as others of its shape would make it."""
        for path in edge.of if len(edge.of) == 1 else ():
            for words, array in self.by_path.get(path, ()):
                yield words, _remade(edge, array)


def _remade(edge: FlatEdge, array: Array) -> Array:
    if edge.step is None:
        return array
    return edge.step.run([_remade(each, array) for each in edge.step.inputs])[0]


def variants(step: FlatStep, arrays: Sequence[Array], others: OtherWeights) -> Iterator[Variant]:
    """The errors that can be made at a step with these operands."""
    own = _OWN.get(step.operator)
    if own is not None:
        yield from own(step, arrays)
    yield from _any(step, arrays)
    for place, edge in enumerate(step.inputs):
        for words, array in others.of(edge):
            yield words, step.run([*arrays[:place], array, *arrays[place + 1 :]])[0]


def _any(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    """Errors with arguments and operands that many operators have."""
    eps = step.attrs.get("eps")
    if isinstance(eps, Scalar):
        known = eps.evaluate(step.record.sizes)
        for other in EPSILONS:
            if other != known:
                words = f"eps is {other:g}, not {known:g}"
                yield words, step.run(arrays, {"eps": as_scalar(other)})[0]
    data = [x for x, edge in zip(arrays, step.inputs, strict=True) if not edge.of]
    if len(data) == 1 and data[0].shape == step.outputs[0].array.shape and step.glyph != "•":
        yield f"{step.glyph} is left out", data[0]
    for place, edge in enumerate(step.inputs):
        if edge.param and step.operator not in ("matmul", "embedding"):
            yield from _affine(step, arrays, place, edge)
    if len(arrays) == 2 and arrays[0].shape == arrays[1].shape and step.operator not in ("add",):
        yield "its two operands are exchanged", step.run([arrays[1], arrays[0]])[0]


def _affine(
    step: FlatStep, arrays: Sequence[Array], place: int, edge: FlatEdge
) -> Iterator[Variant]:
    """γ and β of a norm: left out, or γ counted from 1."""
    others = {
        f"{edge.name} is not used": np.ones_like(arrays[place]),
        f"{edge.name} is left out": np.zeros_like(arrays[place]),
        f"{edge.name} is counted from 1: it scales by 1 + {edge.name}": arrays[place] + 1.0,
        f"{edge.name} is used as {edge.name} - 1": arrays[place] - 1.0,
    }
    for words, other in others.items():
        yield words, step.run([*arrays[:place], other, *arrays[place + 1 :]])[0]


# ---- one operator each ---------------------------------------------------------------------------


def _add(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    for place, edge in enumerate(step.inputs):
        mine, rest = arrays[place], arrays[1 - place]
        names = " and ".join(sorted(path.rpartition(".")[2] for path in edge.of))
        words = f"the bias {names}" if edge.of else f"the residual {edge.name or ''}".strip()
        if not edge.of and (edge.name in ("⊕", "•") or place == 0):
            words = f"what {edge.name or 'the line before'} gives"
        yield f"{words} is not added", rest
        for count in RANKS:
            how = f"added {count} times" + (", as on each of so many ranks" if edge.of else "")
            yield f"{words} is {how}", rest + count * mine


def _matmul(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    spec = str(step.attrs["spec"])
    (left, right), out = spec.split("->")[0].split(","), spec.split("->")[1]
    for place, edge in enumerate(step.inputs):
        if edge.of and arrays[place].ndim == 2 and len(set(arrays[place].shape)) == 1:
            turned = [*arrays[:place], arrays[place].T, *arrays[place + 1 :]]
            yield f"{min(edge.of).rpartition('.')[2]} is transposed", step.run(turned)[0]
    for letter in sorted((set(left) & set(right)) - set(out)):
        for count in RANKS:
            axes = left.index(letter), right.index(letter)
            if arrays[0].shape[axes[0]] % count == 0:
                cut = [np.split(x, count, axis) for x, axis in zip(arrays, axes, strict=True)]
                for rank, (a, b) in enumerate(zip(*cut, strict=True)):
                    words = f"it is what rank {rank} of {count} has: an all-reduce is missing"
                    yield words, np.einsum(spec, a, b)


def _scale_mask(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    attrs, sizes = step.attrs, step.record.sizes
    scale: Scalar = attrs["scale"]
    known = scale.evaluate(sizes)
    if known != 1.0:
        none = step.run(arrays, {"scale": as_scalar(1.0)})[0]
        yield f"the scores are not scaled by {scale}", none
        twice = step.run(arrays, {"scale": scale * scale})[0]
        yield f"the scores are scaled by {scale} twice", twice
    for name, size in sizes.items():
        for words, number in ((f"1/sqrt({name})", size**-0.5), (f"1/{name}", 1 / size)):
            if number not in (known, 1.0):
                other = step.run(arrays, {"scale": as_scalar(number)})[0]
                yield f"the scores are scaled by {words}, not by {scale}", other
    scaled = arrays[0] * known
    if attrs["mask"] == "causal":
        yield "the causal mask is missing", step.run(arrays, {"mask": "none"})[0]
        rows, columns = np.ogrid[: scaled.shape[-2], : scaled.shape[-1]]
        late = scaled.shape[-1] - scaled.shape[-2]
        for words, visible in {
            "the causal mask shows one position too many": columns <= rows + late + 1,
            "the causal mask hides a position from itself": columns < rows + late,
            "the causal mask is upside down: later positions are shown": columns >= rows + late,
        }.items():
            yield words, np.where(visible, scaled, -np.inf)
        for filler in (0.0, -1.0, -1e4, -1e9):
            visible = columns <= rows + late
            yield f"hidden scores are {filler:g}, not -inf", np.where(visible, scaled, filler)
    elif scaled.ndim > 1:
        yield "it has a causal mask", step.run(arrays, {"mask": "causal"})[0]
    if len(arrays) == 2:
        mask = arrays[1]
        yield "the mask is not used", step.run([arrays[0], np.ones_like(mask)])[0]
        turned = step.run([arrays[0], 1 - mask])[0]
        yield "the mask is turned round: it hides what it should show", turned
        yield "the mask is added as 0 and 1", scaled + mask


def _softmax(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    for axis in range(-2, -arrays[0].ndim - 1, -1):
        yield "the softmax is taken along another axis", step.run(arrays, {"axis": axis})[0]


def _layer_norm(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    attrs = step.attrs
    x, axis = arrays[0], attrs.get("axis", -1)
    eps = attrs["eps"].evaluate(step.record.sizes)
    centred, mean_square = x - x.mean(axis, keepdims=True), (x**2).mean(axis, keepdims=True)
    by_less = x.var(axis, ddof=1, keepdims=True)
    others = {
        "the mean is not subtracted: it is an RMSNorm": x / np.sqrt(mean_square + eps),
        "the variance is divided by n - 1, not by n": centred / np.sqrt(by_less + eps),
        "eps is added to the deviation": centred / (x.std(axis, keepdims=True) + eps),
    }
    names = [name for name in ("gamma", "beta") if name not in attrs.get("absent", ())]
    affine = dict(zip(names, arrays[1:], strict=True))
    for words, normal in others.items():
        yield words, normal * affine.get("gamma", 1.0) + affine.get("beta", 0.0)


def _gelu(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    form = step.attrs["form"]
    names = {"exact": "the exact GELU, by erf", "tanh": "the GELU that tanh approximates"}
    other = "tanh" if form == "exact" else "exact"
    yield f"it is {names[other]}, not {names[form]}", step.run(arrays, {"form": other})[0]
    x = arrays[0]
    yield "it is the GELU that x · sigmoid(1.702 x) approximates", x / (1 + np.exp(-1.702 * x))
    yield from _activations(step, arrays)


def _activations(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    x = arrays[0]
    yield "the activation is ReLU", np.maximum(x, 0.0)
    yield "the activation is SiLU", x / (1.0 + np.exp(-x))
    yield "the activation is tanh", np.tanh(x)
    if step.operator == "swiglu":
        yield "the SiLU of the gate is missing", x * arrays[1]


def _rope(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    attrs, x = step.attrs, arrays[0]
    names = {"half": "columns i and i + D_h/2", "interleaved": "columns 2i and 2i + 1"}
    layout = attrs["layout"]
    other = "interleaved" if layout == "half" else "half"
    words = f"it turns {names[other]} ({other}), not {names[layout]} ({layout})"
    yield words, step.run(arrays, {"layout": other})[0]
    base = attrs["base"].evaluate(step.record.sizes)
    for number in BASES:
        if number != base:
            turned = step.run(arrays, {"base": as_scalar(number)})[0]
            yield f"its base is {number:,.0f}, not {base:,.0f}", turned

    def exchanged(array: Array) -> Array:
        half = array.shape[-1] // 2
        if layout == "half":
            return np.roll(array, half, -1)
        return array.reshape(*array.shape[:-1], half, 2)[..., ::-1].reshape(array.shape)

    back = step.run([exchanged(x), *arrays[1:]])[0]
    yield "it turns the other way round", exchanged(back)


def _embedding(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    ids, table = arrays
    for late in (1, 2, -1):
        yield f"its rows are {late:+d} off", table[np.clip(ids + late, 0, len(table) - 1)]
    width = float(table.shape[-1]) ** 0.5
    yield "the rows are scaled by the square root of their width", table[ids] * width


def _reshape(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    """Heads taken from the wrong axes: by a view without a transpose, or from neighbours."""
    x, shape = arrays[0], step.outputs[0].array.shape
    yield "the axes are not exchanged: a view without the transpose", x.reshape(shape)
    if x.ndim == 3 and len(shape) == 4:
        heads, width = shape[1], shape[3] if shape[2] == x.shape[1] else shape[2]
        apart = x.reshape(*x.shape[:2], width, heads)
        if shape == (x.shape[0], heads, x.shape[1], width):
            words = "heads are every N_H-th column, not neighbouring ones"
            yield words, apart.transpose(0, 3, 1, 2)


def _broadcast(_: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    step, x = _, arrays[0]
    shape = step.outputs[0].array.shape
    if x.ndim == len(shape):
        for axis, (short, long) in enumerate(zip(x.shape, shape, strict=True)):
            if short < long and long % short == 0:
                words = "groups are laid one behind the other, not each repeated"
                yield words, np.concatenate([x] * (long // short), axis)


def _cross_entropy(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    z, t = arrays[:2]
    other = "sum" if step.attrs["reduction"] == "mean" else "mean"
    yield f"the loss is the {other}", step.run(arrays, {"reduction": other})[0]
    if z.ndim == 3 and len(arrays) == 2 and z.shape[1] > 1:
        logs = z - np.log(np.exp(z - z.max(-1, keepdims=True)).sum(-1, keepdims=True))
        logs = logs - z.max(-1, keepdims=True)
        rows = -np.take_along_axis(logs[:, :-1], t[:, 1:, None], -1)
        yield "targets are shifted by one, and they are shifted already", rows.mean()


_OWN: Final[Mapping[str, Callable[[FlatStep, Sequence[Array]], Iterator[Variant]]]] = {
    "add": _add,
    "broadcast": _broadcast,
    "cross_entropy": _cross_entropy,
    "embedding": _embedding,
    "gelu": _gelu,
    "layer_norm": _layer_norm,
    "matmul": _matmul,
    "relu": _activations,
    "reshape": _reshape,
    "rope": _rope,
    "scale_mask": _scale_mask,
    "silu": _activations,
    "softmax": _softmax,
    "swiglu": _activations,
}
