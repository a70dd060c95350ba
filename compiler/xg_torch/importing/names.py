"""Names of parameters and edges: the legend's where a role is plain, else the module's."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ZERO, Dim
from xg_grammar import literals
from xg_runtime import names
from xg_torch.importing.archive import Array, SavedTensor, SavedTensors
from xg_torch.importing.blocks import CallRun, ModuleInstance
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Exported
from xg_torch.importing.lowering import number_text
from xg_torch.importing.proof import part
from xg_torch.importing.recognize import Turns
from xg_torch.importing.views import Arrangement, Dims, Model, ModelStep, ModelValue, Size, Weight

Node: TypeAlias = ModelStep | CallRun
RESERVED: Final = frozenset(word for word in literals() if word.isalpha())
SCORES: Final = frozenset({"SM", "scale", "op", "defined", "⊕"})  # between a product and softmax
THROUGH: Final = frozenset({"R", "T", "BC", "RoPE", "scale", "⊕", "op"})
NOISE: Final = frozenset({"proj", "projection", "linear", "lin", "dense", "layer"})
NORMS: Final = re.compile(
    r"^(?:layer_?norm|rms_?norm|norm|ln)_?(?=\d*$|[a-z])|_?(?:layer_?norm|norm|ln)$"
)
AFTER: Final[Mapping[str, str]] = {
    "LN": "H",
    "S": "P",
    "DO": "AS",
    "GELU": "U",
    "ReLU": "U",
    "SiLU": "U",
    "SwiGLU": "U",
    "GLU": "U",
    "Emb": "X",
    "⊕": "M",
    "•": "A",
    "mean": "h",
    "pick": "h",
    "topk": "g",
    "argmax": "i",
    "scatter": "G",
    "CE": "loss",
    "MSE": "loss",
    "BCE": "loss",
}


def identifier(text: str, fallback: str = "x") -> str:
    """A name of the language that is as close to a text as can be.

    >>> identifier("layers.0-a"), identifier("_in"), identifier("1x")
    ('layers_0_a', 'in_', 'x_1x')
    """
    clean = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")[:60] or fallback
    if not clean[0].isalpha():
        clean = f"{fallback}_{clean}"
    return f"{clean}_" if clean in RESERVED else clean


class TakenNames:
    """Names that are taken in one place."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)

    def new(self, wanted: str) -> str:
        """The name wanted, or it with a number."""
        name, count = wanted, 1
        while name in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken.add(name)
        return name


def of_distances(producer: Mapping[ModelValue, Node], value: ModelValue) -> bool:
    """Whether a value is a table of numbers looked up by the buckets of distances."""
    lookup = producer.get(value)
    if not isinstance(lookup, ModelStep) or lookup.operator != "Emb":
        return False
    source = producer.get(lookup.data[0])
    return isinstance(source, ModelStep) and source.operator == "buckets"


class Roles:
    """The roles of values of one block in attention: Q, K, KT, V, O."""

    def __init__(self, instance: ModuleInstance, model: Model) -> None:
        self.model = model
        self.steps = [item for item in instance.items if isinstance(item, ModelStep)]
        self.producer = {value: step for step in self.steps for value in step.outputs}
        self.of: dict[ModelValue, str] = {}
        for step in self.steps:
            if step.operator == "S":
                self._attention(step)
            if step.operator == "T" and of_distances(self.producer, step.data[0]):
                self.of[step.outputs[0]] = "bias"
                self.of |= dict.fromkeys(self.producer[step.data[0]].own, "R_bias")
            if step.operator == "SM" and len(step.data) > 1:
                self.of.setdefault(step.data[1], "M")

    def _attention(self, softmax: ModelStep) -> None:
        """Name the tensors around a softmax: Q, K and KT before it, and V after it."""
        scores = softmax.data[0]
        while scores in self.producer and self.producer[scores].operator in SCORES:
            scores = self.producer[scores].data[0]
        product = self.producer.get(scores)
        if product is None or product.operator != "•" or product.data[1] in self.model.weights:
            return
        query, key = product.data
        turned = self.producer.get(key)
        self._mark(query, "Q")
        if turned is not None and turned.operator == "T":
            self.of.setdefault(key, "KT")
            key = turned.data[0]
        self._mark(key, "K")
        weights = {softmax.outputs[0]}
        for step in self.steps:
            if step.operator == "DO" and step.data[0] in weights:
                weights.add(step.outputs[0])
            if step.operator == "•" and step.data[0] in weights:
                self._mark(step.data[1], "V")
                self._output(step.outputs[0])

    def _output(self, value: ModelValue) -> None:
        """Name the result of attention, and the projection after it."""
        self.of.setdefault(value, "O")
        for step in self.steps:
            if value in step.data and step.operator in ("R", "T"):
                value = step.outputs[0]
                self.of.setdefault(value, "O")
        for step in self.steps:
            if step.data[:1] == (value,) and step.operator == "•":
                self._weights(step, "O")

    def _mark(self, value: ModelValue, role: str) -> None:
        """A role for a value and for the weights that make it."""
        self.of.setdefault(value, role)
        while value in self.producer:
            step = self.producer[value]
            if step.operator == "•" and step.data[1] in self.model.weights:
                self._weights(step, role)
            if step.operator not in THROUGH:
                return
            value = step.data[0]

    def _weights(self, product: ModelStep, role: str) -> None:
        self.of.setdefault(product.data[1], f"W_{role}")
        for step in self.steps:
            if step.operator == "⊕" and step.data[0] is product.outputs[0]:
                spread = self.producer.get(step.data[1])
                if spread is not None and spread.data[0] in self.model.weights:
                    self.of.setdefault(spread.data[0], f"b_{role}")


def parameter_name(
    instance: ModuleInstance, value: ModelValue, use: tuple[ModelStep, int], model: Model
) -> str:
    """``W_fc``, ``b_1``, ``γ_f``, ``E``: a letter for what it does, and the module's own name."""
    step, place = use
    letter = _letter(step, place, value)
    source = model.weights[value].source
    module = instance.relative(source).rpartition(".")[0].lower()
    if not source.startswith(f"{instance.path}.".lstrip(".")) and step.stack:
        module = instance.relative(step.stack[-1].path).lower()  # shared: named where it is read
    if letter in ("gamma", "beta", "mu", "v", "g"):
        suffix = NORMS.sub("", module.rpartition(".")[2]) if module else ""
        suffix = "_".join([*module.split(".")[:-1], suffix]) if module else ""
    else:
        words = [w for w in re.split(r"[._]", module) if w not in NOISE]
        words = words or [module.rpartition(".")[2]]
        suffix = re.sub(r"^(?:linear|fc|lin|dense)(?=\d+$)", "", "_".join(words))
    leaf = model.weights[value].source.rpartition(".")[2].removesuffix("_proj")
    if not module:
        suffix = leaf if letter in ("W", "E", "P", "p") and leaf not in NOISE else ""
    suffix = re.sub(r"[^a-z0-9_]+", "_", suffix.lower()).strip("_")[:40]
    return f"{letter}_{suffix}" if suffix else letter


def _letter(step: ModelStep, place: int, value: ModelValue) -> str:
    match step.operator:
        case "conv":
            return "K" if len(value.axes) > 1 else "b"
        case "LN":
            return "gamma" if place == len(step.data) else "beta"
        case "BN":
            own = [*step.own].index(value)
            return ("gamma", "beta", "mu", "v")[own if len(step.own) > 2 else own + 2]
        case "Emb" | "pick":
            return "E"
        case "•":
            return "W"
        case "op":
            return "g"
        case "BC" if len(value.axes) == 1:
            return "b"
        case _:
            return "W" if len(value.axes) == 2 else "p"


def edge_name(item: ModelStep | CallRun) -> str:
    """The legend's name for what leaves a node."""
    if isinstance(item, ModelStep) and item.operator == "op" and any(item.attrs["formula"][1]):
        return "H"
    return "X" if isinstance(item, CallRun) else AFTER.get(item.operator, "Z")


# The file of names beside an imported diagram, so that weights travel both ways.


NUMBERS = (re.compile(r"(?<=\.)\d+(?=\.)"), re.compile(r"(?<=[._])\d+(?=\.)"))
LIFTED = re.compile(
    r"(?:^|\.)lifted_tensor_\d+$"
)  # constants of code, which no file of weights has
Json = Mapping[str, Any]


@dataclass(frozen=True)
class WeightLine:
    """A tensor of the model, the way to its parameters, and their names."""

    tensor: str
    way: str
    params: tuple[str, ...]

    @property
    def text(self) -> str:
        """The line as written in the file."""
        names = ", ".join(self.params)
        return f"{_quote(self.tensor)} = {_quote(f'{self.way} : {names}' if self.way else names)}"

    @property
    def general(self) -> WeightLine | None:
        """The line with `*` for its numbers; None if they are not the same on both sides.

        A single number of the tensor may be larger than those of the parameters: `{*+3}`.
        """
        for number in NUMBERS:
            own, *stars = (number.findall(name) for name in (self.tensor, *self.params))
            if not own or any(each != stars[0] for each in stars):
                continue
            params = tuple(number.sub("*", name) for name in self.params)
            if own == stars[0]:
                return WeightLine(number.sub("*", self.tensor), self.way, params)
            if len(own) == len(stars[0]) == 1 and int(own[0]) > int(stars[0][0]):
                later = f"{{*+{int(own[0]) - int(stars[0][0])}}}"
                return WeightLine(number.sub(later, self.tensor), self.way, params)
        return None


def names_file(
    sources: Mapping[str, Weight],
    exported: Exported,
    config: Json | None = None,
    saved: SavedTensors | None = None,
) -> str:
    """The text of the file; raises Unspeakable.

    `config` is the model's own config.json, `saved` the tensors of its folder that are others than
    those of its modules.
    """
    saved = saved or {}
    lines = list(_lines(sources, exported, saved))
    used = {weight.source for weight in sources.values()}
    tied = {
        _saved_name(name, saved): _saved_name(of, saved)
        for name, of in exported.tied.items()
        if of in used
    }
    kept = (name for name in exported.arrays if not LIFTED.search(name))
    unread = [name for name in kept if name not in {*used, *exported.tied}]
    ignored = [each for name in unread for each in _names_of(name, saved)]
    parts = ["# The tensors of the model that was imported, and the parameters that they are."]
    own = sorted({line.tensor for line in lines} & saved.keys())
    if own:
        parts.append("# Its folder has these in a form that no line can say: " + ", ".join(own))
    if ignored:
        parts.append("ignored = [" + ", ".join(map(_quote, _patterns(ignored))) + "]")
    parts += ["", "[tensors]", *_general(lines)]
    if tied:
        parts += ["", "[tied]", *(f"{_quote(k)} = {_quote(v)}" for k, v in tied.items())]
    if config:
        kind = config.get("model_type")
        if isinstance(kind, str):
            parts += ["", "[config.drawn]", f"model_type = {_quote(kind)}"]
        flat = {key: text for key, text in _flat(config) if key != "model_type"}
        parts += ["", "[config.written]", *(f"{_quote(k)} = {v}" for k, v in flat.items())]
    return "\n".join(parts) + "\n"


def _lines(
    sources: Mapping[str, Weight], exported: Exported, saved: SavedTensors
) -> Iterator[WeightLine]:
    """One line for each tensor that is read."""
    parts: dict[str, list[tuple[str, Weight]]] = {}
    for path, weight in sources.items():
        parts.setdefault(weight.source, []).append((path, weight))
    for source, held in parts.items():
        held.sort(key=lambda item: item[1].start or 0)
        shape = exported.arrays[source].shape
        if source in saved and _saved_name(source, saved) == source:
            places = np.arange(exported.arrays[source].size).reshape(shape)
            rows = [_row(item, places, saved[source]) for item in held]
            if all(rows):
                yield from filter(None, rows)
                continue
        yield WeightLine(
            _saved_name(source, saved),
            _layout([weight for _, weight in held], shape, source),
            tuple(path for path, _ in held),
        )


def _saved_name(source: str, saved: SavedTensors) -> str:
    """The name of a tensor in the folder; its own where it is saved in another form."""
    whole = [each.name for each in saved.get(source, ()) if each.whole]
    return whole[0] if whole else source


def _names_of(source: str, saved: SavedTensors) -> list[str]:
    return [each.name for each in saved.get(source, ())] or [source]


def _row(
    held: tuple[str, Weight], places: Array, saved: Sequence[SavedTensor]
) -> WeightLine | None:
    """Return the line of a parameter whose rows are separate tensors, such as experts."""
    path, weight = held
    starts = {int(each.places.min()): each for each in saved}
    lines: set[WeightLine] = set()
    for number, row in enumerate(part(places, weight)):
        tensor = starts.get(int(row.min()))
        for way, seen in (("stack", row), ("T -> stack", row.T)):
            if tensor is not None and np.array_equal(seen, tensor.places):
                before, found, behind = tensor.name.rpartition(f".{number}.")
                lines.add(WeightLine(f"{before}.*.{behind}" if found else "", way, (path,)))
                break
        else:
            return None
    (line, *others) = lines
    return None if others or not line.tensor else line


def _layout(weights: list[Weight], shape: Sequence[int], source: str) -> str:
    """The signs that a tensor goes through: ``T -> split``."""
    first, rank = weights[0], len(shape)
    if first.kernel and len(weights) == 1:
        places = ", ".join("pqr"[: rank - 2])
        return f"R[d, c, {places} -> {places}, c, d]"
    if first.flat and len(weights) == 1:
        inner = [f"{letter}={size}" for letter, size in zip("cpqr", shape[1:], strict=False)]
        outer = ", ".join(each.partition("=")[0] for each in inner)
        return f"R[d, {outer} -> ({', '.join(inner)}), d]"
    turn = "T" if first.transposed else ""
    if len(weights) == 1 and first.start is None:
        return turn
    axes = {(each.transposed, each.axis) for each in weights}
    last = first.axis == rank - (2 if first.transposed else 1)
    odd = rank > 2 and not last
    if len(axes) > 1 or odd or any(each.start is None for each in weights):
        raise Unspeakable(f"the parts of {source} have no place in a file of names")
    return " -> ".join(part for part in (turn, "split" if last else "rows") if part)


def _general(lines: list[WeightLine]) -> Iterator[str]:
    """Lines with `*` for all numbers that match it; each in the place of its first."""
    params = [line.params[0] for line in lines]
    groups: dict[WeightLine, list[str]] = {}
    for line in lines:
        if line.general is not None:
            groups.setdefault(line.general, []).append(line.params[0])
    whole = {
        general
        for general, members in groups.items()
        if [each for each in params if names.numbers(general.params[0], each) is not None]
        == members
    }
    firsts = {general.tensor: general for general in reversed(groups) if general in whole}
    for line in lines:
        general = line.general
        if general is None or firsts.get(general.tensor) != general:
            yield line.text
        elif groups[general][0] == line.params[0]:
            yield general.text


def _patterns(tensors: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(NUMBERS[0].sub("*", name) for name in tensors))


def _flat(config: Json, prefix: str = "") -> Iterator[tuple[str, str]]:
    """A config.json as dotted keys and TOML values; null is left out, as it counts as absent."""
    waiting: list[tuple[str, Any]] = [(prefix, config)]
    while waiting:
        key, value = waiting.pop(0)
        if isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            waiting[:0] = [(f"{key}.{name}" if key else str(name), table[name]) for name in table]
        elif _is_plain(value):
            yield key, json.dumps(value)


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(_is_plain(item) for item in cast("list[object]", value))
    return isinstance(value, str | int | float)


def _quote(text: str) -> str:
    return json.dumps(text)


# One node as written in a chain: its operator, its brackets and its box.


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
