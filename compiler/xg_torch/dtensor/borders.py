"""Moves between layers: each has its place at the border of a module, or is refused.

A layer whose weight is cut in columns takes its input as it comes. Else a style prepares the input
of the module that alone reads what is moved, or the output of the one that makes it.
"""

from __future__ import annotations

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.graph import Apply, Call, Value
from xg.ir.placement import AxisState
from xg_torch.dtensor.along import Along, Style
from xg_torch.dtensor.layers import Layer, LayerSite, is_move


@dataclass(frozen=True)
class Borders:
    """The styles of inputs that are found, and of outputs, which come behind those of the layers.

    `taken` is how the input of a layer comes, where that is not how it is used; `given` how its
    output is wanted, where that is not what its graph makes of it.
    """

    along: Along
    inputs: list[Style] = field(default_factory=list[Style])
    outputs: list[Style] = field(default_factory=list[Style])
    taken: dict[Layer, AxisState] = field(default_factory=dict[Layer, AxisState])
    given: dict[Layer, AxisState] = field(default_factory=dict[Layer, AxisState])

    def place(self, site: LayerSite, move: Apply) -> None:
        """Find the module at whose border something is moved."""
        (value,), (result,) = move.inputs, move.outputs
        source, target = move.attrs["source"], move.attrs["target"]
        if source.kind == "P" and not site.graph.types[value].shape:
            return  # of the loss, which is summed as its terms are made
        readers = site.readers(result)
        if site.param(value) is not None:
            raise self.along.refusal(
                value.span,
                f"{site.path_of(value)} rests in other pieces than it is used in",
                "only over an axis of rows, by fully_shard",
            )
        style = self._prepared_input(site, readers, result, source, target)
        column = None if style else self._column(site, readers, result)
        if self._is_sum_of_call(site, value, target):
            pass
        elif style is not None:
            self.inputs.append(style)
        elif column is not None:
            self.taken[column] = source
        else:
            self.prepare_output(site, value, source, target)

    def _is_sum_of_call(self, site: LayerSite, value: Value, target: AxisState) -> bool:
        """Whether a move sums what the last layer of a call gives, which then gives the sum."""
        call = site.makers.get(value)
        if not isinstance(call, Call) or call.loop or len(site.readers(value)) != 1:
            return False
        there = self.along.inner(site, call)
        own = there.graph.outputs[call.outputs.index(value)]
        layer = next((layer for layer in there.layers if layer.out is own), None)
        if layer is None or self.along.state(there, own).kind != "P" or there.readers(own):
            return False
        self.given[layer] = target
        return True

    def _prepared_input(
        self,
        site: LayerSite,
        readers: list[Apply | Call],
        value: Value,
        source: AxisState,
        target: AxisState,
    ) -> Style | None:
        """The style of the call that alone reads a value that was moved, if it is a module."""
        if len(readers) != 1 or not isinstance(readers[0], Call) or readers[0].loop:
            return None
        call = readers[0]
        path = self.along.module_of(site, call)
        given = list(dict.fromkeys(call.inputs))
        if path is None or given != [value]:
            return None
        is_row = call.count is not None
        keyword = self.along.names.keywords.get(f"{path}.*" if is_row else path)
        comes, wanted = (self.along.layout(site, value, state) for state in (source, target))
        layouts = {"input_layouts": comes, "desired_input_layouts": wanted}
        if keyword is not None:
            layouts = {
                "input_kwarg_layouts": f'{{"{keyword}": {comes}}}',
                "desired_input_kwarg_layouts": f'{{"{keyword}": {wanted}}}',
            }
        layouts["use_local_output"] = "True"
        return Style(f"{path}.0" if is_row else path, "PrepareModuleInput", layouts)

    def _column(self, site: LayerSite, readers: list[Apply | Call], value: Value) -> Layer | None:
        """The layer that alone reads a value, here or in a call, if it is cut in columns."""
        if len(readers) != 1:
            return None
        (reader,) = readers
        if isinstance(reader, Call):
            if reader.count is not None or reader.loop or reader.inputs.count(value) != 1:
                return None
            there = self.along.inner(site, reader)
            own = there.graph.inputs[reader.inputs.index(value)]
            return self._column(there, there.readers(own), own)
        for layer in site.layers:
            is_column = layer.kind == "linear" and self.along.state(site, layer.operand).axis == -1
            if layer.step is reader and is_column and self.along.name(layer) is not None:
                return layer
        return None

    def prepare_output(
        self,
        site: LayerSite,
        value: Value,
        source: AxisState,
        target: AxisState,
        reader: Apply | None = None,
    ) -> None:
        """Let the layer that makes a value give it as all want it; raises DiagnosticError.

        Readers want it moved, but for the one that is named, which wants it so in torch.
        """
        made = value
        maker = site.makers.get(made)
        if isinstance(maker, Apply) and maker.op.name == "broadcast":
            made = maker.inputs[0]
        layer = next((layer for layer in site.layers if layer.out is made), None)
        alone = all(
            step is reader
            or (isinstance(step, Apply) and is_move(step) and step.attrs["target"] == target)
            for step in site.readers(value)
        )
        module = None if layer is None else self.along.name(layer)
        if layer is None or module is None or not alone or layer.kind == "loose":
            name = value.name or "a value"
            raise self.along.refusal(
                value.span,
                f"{name} of {site.graph.block} is moved inside of a module, from {source} to "
                f"{target} of {self.along.axis}",
                "a style prepares what a module takes and gives",
            )
        layouts = {
            "output_layouts": self.along.layout(site, made, source),
            "desired_output_layouts": self.along.layout(site, made, target),
        }
        self.outputs.append(Style(module, "PrepareModuleOutput", layouts))
