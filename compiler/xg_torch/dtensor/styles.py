"""The parallel style of each module, along the one axis of a mesh that divides a model itself.

A layer whose weight is cut in columns or rows has a style of its own, which also takes the input as
it comes and leaves the output as it is wanted. All other moves have their place at the border of a
module (`borders`).
"""

from __future__ import annotations

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.graph import Apply, Value
from xg.ir.placement import INVARIANT
from xg_torch.dtensor.along import Along, Style
from xg_torch.dtensor.borders import Borders
from xg_torch.dtensor.layers import Layer, LayerSite


@dataclass(frozen=True)
class Styles:
    """The styles that are found, those behind them, and how the loss is computed.

    `cut` are sizes of which a rank has a part, `of_loss` the modules whose output a loss reads cut.
    """

    axis: str
    first: list[Style] = field(default_factory=list[Style])
    behind: list[Style] = field(default_factory=list[Style])
    tied: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])
    cut: dict[str, None] = field(default_factory=dict[str, None])
    of_loss: list[str] = field(default_factory=list[str])


def styles_along(along: Along) -> Styles:
    """Return the styles; raises DiagnosticError for what torch has no call for."""
    borders, sums = Borders(along), set[Apply]()
    sites = along.layers.sites
    for site in sites:
        for layer in site.layers:
            sums.update(layer.sums)
            _check(along, site, layer)
    for site in sites:
        for step in site.graph.steps:
            if isinstance(step, Apply) and along.is_over(step) and step not in sums:
                borders.place(site, step)
    found = Styles(along.axis, borders.inputs, borders.outputs)
    finder = _LayerStyles(along, borders, found)
    for site in sites:
        for layer in site.layers:
            finder.add(site, layer)
        _note_sizes(along, site, found)
    return found


def _check(along: Along, site: LayerSite, layer: Layer) -> None:
    """Raise DiagnosticError for parameters that no style divides as the plan does."""
    (path, *others) = layer.weights
    for other in others:
        if along.names.module(other) not in (along.names.module(path), other):
            raise along.refusal(
                layer.step.span,
                f"{other} is not in the module of {path}",
                "one nn.Linear has a matrix and its bias",
            )
    states = [along.state(site, value) for value in layer.step.inputs + layer.step.outputs]
    weight = along.state(site, layer.operand)
    if layer.kind in ("norm", "loose") and weight.kind == "S":
        raise along.refusal(
            layer.step.span,
            f"{path} is cut along {along.axis}, and belongs to no linear layer and no table",
            "torch cuts the columns or rows of nn.Linear and nn.Embedding",
        )
    if layer.kind == "loose" and any(not state.is_same for state in states):
        raise along.refusal(
            layer.step.span,
            f"{path} meets a tensor that is cut along {along.axis} outside of a layer",
            "torch divides what modules compute",
        )
    if weight.kind == "S" and along.name(layer) is None:
        raise along.refusal(
            layer.step.span,
            f"{path} is used twice, and the second use belongs to no module",
            'name it in the file of names: [tied] "head.weight" = …, with --map',
        )


@dataclass(frozen=True)
class _LayerStyles:
    """The styles of layers, added to what is found."""

    along: Along
    borders: Borders
    found: Styles

    def add(self, site: LayerSite, layer: Layer) -> None:
        """Add the style of a layer, if it needs one."""
        weight, data = self.along.state(site, layer.operand), layer.data
        if layer.kind == "loose" or data is None:
            return
        coming = self.borders.taken.get(layer, self.along.state(site, data))
        if weight.kind != "S":
            self._whole_weight(site, layer, data)
            return
        name = self.along.name(layer)
        assert name is not None
        if layer.weights[0] in self.along.names.fused:
            raise self.along.refusal(
                layer.step.span,
                f"{name} holds more than {layer.weights[0]}, and would be cut across all of it",
                "a layer for each of them",
            )
        is_column, is_table = weight.axis == -1, layer.kind == "table"
        arguments: dict[str, str] = {}
        if is_table or coming.is_same != is_column or (coming.kind == "S" and coming.axis != -1):
            arguments["input_layouts"] = self.along.layout(site, data, coming)
        made = self.borders.given.get(layer, self.along.state(site, layer.out))
        out = self.along.layout(site, layer.out, made)
        if made.is_same if is_column else made.kind == "S":
            arguments["output_layouts"] = out
        if self._is_into_loss(site, layer):
            arguments["use_local_output"] = "False"
            self.found.of_loss.append(name)
        kind = "ColwiseParallel" if is_column else "RowwiseParallel"
        self.found.first.append(Style(name, kind, arguments))
        if self.along.is_second(layer):
            self.found.tied[name] = self.along.names.module(layer.weights[0])

    def _whole_weight(self, site: LayerSite, layer: Layer, data: Value) -> None:
        """The style of a layer whose weight is whole: none, unless its input is cut."""
        state = self.along.state(site, data)
        if state.is_same:
            return
        name, shape = self.along.name(layer), site.graph.types[data].shape
        if layer.kind == "norm" and state.axis != -1 and name is not None:
            place = {} if len(shape) + state.axis == 1 else {
                "sequence_dim": str(len(shape) + state.axis)
            }  # fmt: skip
            style = Style(name, "SequenceParallel", {**place, "use_local_output": "True"})
            self.found.first.append(style)
        elif layer.kind == "linear" and self._is_into_loss(site, layer) and state.axis != -1:
            self.borders.prepare_output(site, data, state, INVARIANT, layer.step)
            self.found.notes.append(
                f"{data.name or 'a value'} is whole, where the plan leaves it cut: torch has no "
                "loss of logits that are cut by positions"
            )
        else:
            raise self.along.refusal(
                layer.step.span,
                f"{layer.weights[0]} is whole, and its input cut along {self.along.axis}",
                "a linear layer of torch has its columns or rows cut",
            )

    def _is_into_loss(self, site: LayerSite, layer: Layer) -> bool:
        """Whether a loss reads what a layer makes, cut."""
        readers = [step for step in site.readers(layer.out) if isinstance(step, Apply)]
        is_cut = self.along.state(site, layer.out).kind == "S"
        return is_cut and any(step.op.family == "loss" for step in readers)


def _note_sizes(along: Along, site: LayerSite, found: Styles) -> None:
    """Note which sizes a rank has a part of, of what is computed between layers."""
    for step in site.graph.steps:
        if isinstance(step, Apply) and step.op.name == "reshape":
            (value, *_) = step.outputs
            state = along.state(site, value)
            if state.kind == "S":
                found.cut[f"{site.graph.shape(value)[state.axis]}/{along.axis}"] = None
