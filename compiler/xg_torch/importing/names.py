"""Names of parameters and edges: the legend's where a role is plain, else the module's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from xg_grammar import literals
from xg_torch.importing.blocks import CallRun, ModuleInstance
from xg_torch.importing.diagram import Model, ModelStep
from xg_torch.importing.views import ModelValue

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
        """Name what a softmax weighs: scores before it, values behind it."""
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
        """The result of attention, and the projection behind it."""
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
