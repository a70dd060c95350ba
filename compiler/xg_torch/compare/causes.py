"""List errors that people make with one operator, and find the one that gives other numbers.

They are those that the trackers of Megatron-LM, torchtitan and DeepSpeed report again and again.
An error is only reported where its numbers are theirs, so a long list costs time but no false word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Scalar, as_scalar
from xg_runtime.module import Array
from xg_torch.compare.flat_program import FlatEdge, FlatProgram, FlatStep, off

Variant = tuple[str, Array]  # the error in words, and the first result with it
RANKS: Final = (2, 3, 4, 5, 6, 7, 8, 16)
EPSILONS: Final = (1e-5, 1e-6, 1e-12, 1e-8, 1e-3, 1e-7, 0.0)
MEANS: Final = "a mean of means"
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
    yield from _common_errors(step, arrays)
    for place, edge in enumerate(step.inputs):
        for words, array in others.of(edge):
            yield words, step.run([*arrays[:place], array, *arrays[place + 1 :]])[0]


def _common_errors(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
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
    centered, mean_square = x - x.mean(axis, keepdims=True), (x**2).mean(axis, keepdims=True)
    by_less = x.var(axis, ddof=1, keepdims=True)
    others = {
        "the mean is not subtracted: it is an RMSNorm": x / np.sqrt(mean_square + eps),
        "the variance is divided by n - 1, not by n": centered / np.sqrt(by_less + eps),
        "eps is added to the deviation": centered / (x.std(axis, keepdims=True) + eps),
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

    def swap_coordinates(array: Array) -> Array:
        half = array.shape[-1] // 2
        if layout == "half":
            return np.roll(array, half, -1)
        return array.reshape(*array.shape[:-1], half, 2)[..., ::-1].reshape(array.shape)

    back = step.run([swap_coordinates(x), *arrays[1:]])[0]
    yield "it turns the other way round", swap_coordinates(back)


def _embedding(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    ids, table = arrays
    for late in (1, 2, -1):
        yield f"its rows are {late:+d} off", table[np.clip(ids + late, 0, len(table) - 1)]
    width = float(table.shape[-1]) ** 0.5
    yield "the rows are scaled by the square root of their width", table[ids] * width


def _reshape(step: FlatStep, arrays: Sequence[Array]) -> Iterator[Variant]:
    """Heads taken from the wrong axes: by a view without a transpose, or from neighbors."""
    x, shape = arrays[0], step.outputs[0].array.shape
    yield "the axes are not exchanged: a view without the transpose", x.reshape(shape)
    if x.ndim == 3 and len(shape) == 4:
        heads, width = shape[1], shape[3] if shape[2] == x.shape[1] else shape[2]
        apart = x.reshape(*x.shape[:2], width, heads)
        if shape == (x.shape[0], heads, x.shape[1], width):
            words = "heads are every N_H-th column, not neighboring ones"
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
    logs = z - np.log(np.exp(z - z.max(-1, keepdims=True)).sum(-1, keepdims=True))
    logs = logs - z.max(-1, keepdims=True)
    counts = counted_targets(step, arrays)
    if step.attrs["reduction"] == "mean":
        picked = np.take_along_axis(logs, np.where(counts, t, 0)[..., None], -1)[..., 0]
        losses = np.where(counts, -picked, 0.0)
        if not counts.all():
            yield "targets that are ignored count in the mean", losses.sum() / counts.size
        for words, axis, scales in uneven_means(counts):
            yield words, scaled_parts(losses, axis, scales).sum() / counts.sum()
    if z.ndim == 3 and len(arrays) == 2 and z.shape[1] > 1:
        rows = -np.take_along_axis(logs[:, :-1], t[:, 1:, None], -1)
        yield "targets are shifted by one, and they are shifted already", rows.mean()


def counted_targets(step: FlatStep, arrays: Sequence[Array]) -> Array:
    """Which targets a cross-entropy counts: it neither ignores them nor weights them with 0."""
    _, t, *weights = arrays
    ignore = step.attrs["ignore"]
    counts = np.ones(t.shape, bool)
    if isinstance(ignore, Scalar):
        counts &= t != ignore.evaluate(step.record.sizes)
    for each in weights:
        counts &= each != 0
    return counts


def uneven_means(counts: Array) -> Iterator[tuple[str, int, list[float]]]:
    """Yield how many times too much each rank's targets count in a mean of the ranks' means.

    The ranks share an axis of the targets, and have different numbers of targets that count.
    """
    for axis in range(counts.ndim):
        for ranks in RANKS:
            if counts.shape[axis] % ranks:
                continue
            numbers = [int(part.sum()) for part in np.split(counts, ranks, axis)]
            if min(numbers) and len(set(numbers)) > 1:
                told = f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
                words = (
                    f"it is {MEANS}: {ranks} ranks have {told} targets that count, and "
                    f"each divides by its own number, not all by {sum(numbers)}"
                )
                yield words, axis, [sum(numbers) / (ranks * number) for number in numbers]


def scaled_parts(array: Array, axis: int, scales: Sequence[float]) -> Array:
    """Multiply equal parts of an array, along an axis, by one number each."""
    parts = np.split(array, len(scales), axis)
    scaled = [part * scale for part, scale in zip(parts, scales, strict=True)]
    return np.concatenate(scaled, axis)


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


# Why an edge of theirs has other numbers: the error that, made in the diagram, gives theirs.


@dataclass(frozen=True, slots=True)
class Cause:
    """An error in words, and the step of the diagram at which it gives their numbers."""

    words: str
    edge: FlatEdge


def steps_between(edge: FlatEdge, agreed: AbstractSet[FlatEdge]) -> list[FlatStep]:
    """The steps that make an edge from edges whose numbers agree, the last first."""
    found: list[FlatStep] = []
    waiting = [edge]
    while waiting:
        step = waiting.pop(0).step
        if step is None or step in found or step.apply is None:
            continue
        found.append(step)
        waiting += [each for each in step.inputs if each not in agreed and not each.of]
    return sorted(found, key=lambda step: -step.number)


def forward_cause(
    edge: FlatEdge,
    theirs: Array,
    agreed: AbstractSet[FlatEdge],
    others: OtherWeights,
    tolerance: float,
) -> Cause | None:
    """The first error that explains an edge, looked for from the edge backwards."""
    steps = steps_between(edge, agreed)
    for number, step in enumerate(steps):
        later = steps[:number][::-1]
        own = [each.array for each in step.inputs]
        with np.errstate(all="ignore"):
            for words, array in variants(step, own, others):
                if array.shape != step.outputs[0].array.shape:
                    continue
                found = _again(edge, later, {step.outputs[0]: np.asarray(array, np.float64)})
                if off(theirs, found) <= tolerance:
                    return Cause(words, step.outputs[0])
    several = _everywhere(edge, theirs, steps, others, tolerance)
    if several is not None:
        return several
    words = factor_between(
        theirs, edge.array, edge.step.record.sizes if edge.step else {}, tolerance
    )
    return Cause(words, edge) if words else None


def _everywhere(
    edge: FlatEdge, theirs: Array, steps: Sequence[FlatStep], others: OtherWeights, tolerance: float
) -> Cause | None:
    """An error that is made at every step of one operator, as in the turns of queries and keys."""
    for operator in dict.fromkeys(step.operator for step in steps):
        same = [step for step in steps if step.operator == operator]
        if len(same) < 2:
            continue
        with np.errstate(all="ignore"):
            texts = [
                words
                for step in same
                for words, _ in variants(step, [each.array for each in step.inputs], others)
            ]
            for words in dict.fromkeys(text for text in texts if texts.count(text) > 1):
                found = _run_with_errors(edge, steps, same, words, others)
                if found.shape == theirs.shape and off(theirs, found) <= tolerance:
                    return Cause(f"{words}, every time", same[-1].outputs[0])
    return None


def _run_with_errors(
    edge: FlatEdge,
    steps: Sequence[FlatStep],
    same: Sequence[FlatStep],
    words: str,
    others: OtherWeights,
) -> Array:
    """An edge with an error at all of these steps."""
    changed: dict[FlatEdge, Array] = {}
    for step in reversed(steps):
        arrays = [changed.get(each, each.array) for each in step.inputs]
        tried = variants(step, arrays, others) if step in same else ()
        made = [array for text, array in tried if text == words]
        if made and made[0].shape == step.outputs[0].array.shape:
            changed[step.outputs[0]] = np.asarray(made[0], np.float64)
        elif any(each in changed for each in step.inputs):
            changed.update(zip(step.outputs, step.run(arrays), strict=False))
    return changed.get(edge, edge.array)


def _again(edge: FlatEdge, later: Sequence[FlatStep], changed: dict[FlatEdge, Array]) -> Array:
    """An edge, with the steps between run again where a change reaches them."""
    for step in later:
        if any(each in changed for each in step.inputs) and step.outputs[0] not in changed:
            arrays = [changed.get(each, each.array) for each in step.inputs]
            changed.update(zip(step.outputs, step.run(arrays), strict=False))
    return changed.get(edge, edge.array)


def factor_between(
    theirs: Array, ours: Array, sizes: Mapping[str, int], tolerance: float
) -> str | None:
    """The sentence if theirs is ours times a size, a product of two, or an integer.

    Nothing follows from another number: a single result always is some number times ours.
    """
    norm = float((ours**2).sum())
    if not norm or theirs.shape != ours.shape or not np.isfinite(theirs).all():
        return None
    factor = float((theirs * ours).sum()) / norm
    if off(theirs, factor * ours) > tolerance or abs(factor - 1.0) <= tolerance:
        return None
    if abs(factor) <= tolerance:
        return "theirs is zero"
    small, whole = factor < 1, 1 / factor if 0 < factor < 1 else factor
    known = [name for name, size in sizes.items() if abs(size - whole) < 1e-6 * whole]
    pairs = combinations(sizes.items(), 2)
    known += [f"{a}·{b}" for (a, m), (b, n) in pairs if abs(m * n - whole) < 1e-6 * whole]
    if not known and abs(whole - round(whole)) > 1e-6 * abs(whole):
        return None
    alike = [name for name in known if name in sizes] or known[:1]
    text = f"{whole:.6g}" + (f" = {' or '.join(alike)}" if alike else "")
    if small and factor > 0:
        why = "a mean that is taken twice, or over the ranks where a sum belongs"
        return f"yours is the diagram's divided by {text}: {why}"
    why = "a sum where a mean belongs, or something counted more than once"
    return f"yours is the diagram's times {text}: {why}"


# Why a gradient of theirs has other numbers: the part that is missing, or counted again.


SomeRows = Callable[[tuple[int, int, int]], Array | None]  # parts, which, along which axis
_ALL_ROWS = (1, 0, 0)
NOTHING = "no gradient arrives: it is frozen, detached, or computed without autograd"


def edge_cause(
    flat: FlatProgram, edge: FlatEdge, theirs: Array | None, tolerance: float
) -> str | None:
    """Explain why the gradient of an edge differs although the gradients after it agree."""
    ours = edge.gradient
    assert ours is not None
    if theirs is None:
        return NOTHING
    for words, array in _edge_variants(flat, edge, ours):
        if array.any() and off(theirs, array) <= tolerance:
            return words
    return factor_between(theirs, ours, flat.sizes, tolerance)


def _edge_variants(flat: FlatProgram, edge: FlatEdge, ours: Array) -> Iterator[tuple[str, Array]]:
    for counts, words, axis, scales in _uneven_losses(flat):
        if ours.shape[: axis + 1] == counts.shape[: axis + 1]:
            scaled = scaled_parts(ours, axis, scales)
            yield words, scaled
            yield words, scaled * len(scales)  # before the mean over the ranks
    for reader, part in _shares(flat, edge, ours):
        yield f"the gradient through {reader} is missing", ours - part
        yield f"the gradient through {reader} is counted twice", ours + part
    products = [step for step in flat.steps if step.operator == "matmul" and edge in step.inputs]
    readers = [
        (step, step.inputs.index(edge)) for step in products if step.outputs[0].gradient is not None
    ]
    for count in RANKS:
        cut = [each for each in (_cut(step, place, count) for step, place in readers) if each]
        for rank in range(count if cut else 0):
            array = ours - sum((sum(parts) for parts in cut), np.zeros_like(ours))
            array = array + sum((parts[rank] for parts in cut), np.zeros_like(ours))
            words = (
                f"it is what rank {rank} of {count} has: the sum over ranks, an all-reduce in "
                "the backward pass, is missing"
            )
            yield words, array


def _uneven_losses(flat: FlatProgram) -> Iterator[tuple[Array, str, int, list[float]]]:
    """Yield the targets of every mean loss that count, with what `uneven_means` says of them."""
    for step in flat.steps:
        if step.operator == "cross_entropy" and step.attrs["reduction"] == "mean":
            counts = counted_targets(step, [edge.array for edge in step.inputs])
            yield from ((counts, *each) for each in uneven_means(counts))


def _shares(flat: FlatProgram, edge: FlatEdge, ours: Array) -> list[tuple[str, Array]]:
    """The part of a gradient from each reader; one that passes its own on is the rest."""
    readers = [step for step in flat.steps if edge in step.inputs]
    if len(readers) < 2:
        return []
    shares = list(edge.parts)
    known = {name for name, _ in shares}
    names = [f"{step.glyph} of line {step.outputs[0].line}" for step in readers]
    others = [name for name in names if name not in known]
    if others and len(shares) < len(readers):
        rest = ours - sum((part for _, part in shares), np.zeros_like(ours))
        shares.append((" and ".join(dict.fromkeys(others)), rest))
    return shares


def _cut(step: FlatStep, place: int, count: int) -> list[Array] | None:
    """The gradient of an operand of a product from each slice of the product's own columns."""
    spec, out = str(step.attrs["spec"]).split("->")
    mine, other = spec.split(",")[place], spec.split(",")[1 - place]
    letters = [letter for letter in out if letter in other and letter not in mine]
    d_out, operand = step.outputs[0].gradient, step.inputs[1 - place].array
    if d_out is None or not letters or d_out.shape[out.index(letters[-1])] % count:
        return None
    parts = np.split(d_out, count, out.index(letters[-1]))
    slices = np.split(operand, count, other.index(letters[-1]))
    return [np.einsum(f"{out},{other}->{mine}", d, x) for d, x in zip(parts, slices, strict=True)]


def param_cause(flat: FlatProgram, path: str, theirs: Array | None, tolerance: float) -> str | None:
    """Explain why the gradient of a parameter differs although the edges' gradients agree."""
    ours = flat.params[path].gradient
    assert ours is not None
    if theirs is None:
        return NOTHING
    words = factor_between(theirs, ours, flat.sizes, tolerance)
    if words is not None:
        return words
    if ours.ndim == 2 and ours.shape == ours.T.shape and off(theirs, ours.T) <= tolerance:
        return "it is transposed"
    uses = [(step, rows) for step in flat.steps if (rows := _rows(step, path)) is not None]
    if len(uses) > 1:
        for step, rows in uses:
            whole = rows(_ALL_ROWS)
            if whole is not None and off(theirs, whole) <= tolerance:
                line = step.outputs[0].line
                return (
                    f"it is the part from {step.glyph} of line {line} only: its uses are not "
                    "tied, or one is detached"
                )
    for _, words, axis, scales in _uneven_losses(flat):
        parts = [
            scale * part
            for _, rows in uses
            for rank, scale in enumerate(scales)
            if (part := rows((len(scales), rank, axis))) is not None
        ]
        fits = parts and len(parts) == len(uses) * len(scales)
        if fits and off(theirs, np.sum(parts, axis=0)) <= tolerance:
            return words
    if uses:
        return _of_some_rows(flat, theirs, [rows for _, rows in uses], tolerance)
    return None


def _of_some_rows(
    flat: FlatProgram, theirs: Array, uses: Sequence[SomeRows], tolerance: float
) -> str | None:
    """Whether a gradient is from a part of the batch, or of the sequence, only."""
    for axis in (0, 1):
        for count in RANKS:
            for rank in range(count):
                arrays = [a for rows in uses if (a := rows((count, rank, axis))) is not None]
                if len(arrays) < len(uses):
                    break
                part = np.sum(arrays, axis=0)
                words = (
                    f"it is from rank {rank} of {count} only, cut along axis {axis}: "
                    "the sum over ranks is missing"
                )
                if off(theirs, part) <= tolerance:
                    return words
                scaled = factor_between(theirs, part, flat.sizes, tolerance)
                if scaled is not None and scaled != "theirs is zero":
                    times = scaled.replace("yours is the diagram's", "it is that")
                    return f"{words}, and {times}"
    return None


def _rows(step: FlatStep, path: str) -> SomeRows | None:
    """The gradient that one use of a parameter gives, from some of the rows; None if unknown."""
    places = [place for place, edge in enumerate(step.inputs) if path in edge.of]
    d_out = step.outputs[0].gradient if step.outputs else None
    if not places or d_out is None or all(edge.of for edge in step.inputs) or step.apply is None:
        return None
    place = places[0]
    edge, data = step.inputs[place], next(e for e in step.inputs if not e.of).array

    def part(cut: tuple[int, int, int]) -> Array | None:
        count, rank, axis = cut
        d, x = d_out, data
        if count > 1:
            if (
                d.ndim <= axis
                or d.shape[axis] % count
                or x.shape[: axis + 1] != d.shape[: axis + 1]
            ):
                return None
            d, x = (np.split(each, count, axis)[rank] for each in (d, x))
        return _gradient(step, place, edge, d, x)

    return part if part(_ALL_ROWS) is not None else None


def _gradient(step: FlatStep, place: int, edge: FlatEdge, d: Array, x: Array) -> Array | None:
    """The gradient of a parameter at one step, from cotangent and operand."""
    shape = edge.array.shape
    if step.operator == "matmul":
        spec, out = str(step.attrs["spec"]).split("->")
        terms = spec.split(",")
        found = np.einsum(f"{out},{terms[1 - place]}->{terms[place]}", d, x)
        (path,) = edge.of if len(edge.of) == 1 else ("",)
        return found if edge.param == path else found.T if found.ndim == 2 else None
    if step.operator == "embedding":
        found = np.zeros(shape)
        np.add.at(found, x, d)
        return found
    if step.operator == "add":
        return d.sum(tuple(range(d.ndim - 1)))
    if step.operator == "layer_norm" and place == 1:
        eps = step.attrs["eps"].evaluate(step.record.sizes)
        normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
        return (d * normal).sum(tuple(range(d.ndim - 1)))
    if step.operator == "layer_norm":
        return d.sum(tuple(range(d.ndim - 1)))
    return None
