"""A placed program along one axis of its mesh, in the words of torch."""

from __future__ import annotations

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.graph import Apply, Call, Value
from xg.ir.placement import INVARIANT, AxisState
from xg_torch.dtensor.layers import Layer, Layers, LayerSite, called, is_move
from xg_torch.dtensor.module_names import ModuleNames
from xg_torch.dtensor.refusal import Refusal


@dataclass(frozen=True)
class Style:
    """The call of one style for the modules of a name: its class, and its arguments by name."""

    module: str
    kind: str
    arguments: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Along:
    """The layers of a program, the modules that hold them, and the axis."""

    layers: Layers
    names: ModuleNames
    refusal: Refusal
    axis: str

    def state(self, site: LayerSite, value: Value) -> AxisState:
        """The state of a value on the axis."""
        return site.graph.placements.get(value, {}).get(self.axis, INVARIANT)

    def is_over(self, step: Apply) -> bool:
        """Whether a step moves something along the axis that is no free cast."""
        over: str = step.attrs["over"] if is_move(step) else ""
        return self.axis in over.split("*") and step.op.name != "cast"

    def layout(self, site: LayerSite, value: Value, state: AxisState | None = None) -> str:
        """The placement of a value, in torch's words."""
        state = state or self.state(site, value)
        if state.kind == "S":
            return f"Shard({len(site.graph.types[value].shape) + state.axis})"
        if not state.is_same:
            raise self.refusal(
                value.span,
                f"{value.name or 'a sum'} of {site.graph.block} stays a term of a sum",
                "torch sums where a layer ends",
            )
        return "Replicate()"

    def name(self, layer: Layer) -> str | None:
        """The module of a layer; None for a second use of a parameter that has no module."""
        (path, *_) = layer.weights
        if not self.is_second(layer):
            return self.names.module(path)
        return self.names.again(path)

    def is_second(self, layer: Layer) -> bool:
        """Whether another layer before it has the same weight."""
        uses = [
            each for site in self.layers.sites for each in site.layers
            if each.weights[0] == layer.weights[0]
        ]  # fmt: skip
        return uses[0].step is not layer.step

    def module_of(self, site: LayerSite, call: Call) -> str | None:
        """The module of a call; None where its layers belong to the module around it."""
        inner = called(site, call, self.layers.program).path
        params = [path for path, *_ in self.layers.params if path.startswith(f"{inner}.")]
        path = self.names.of_call(inner, params) if params else None
        beside = [path for path, *_ in self.layers.params if path.startswith(f"{site.path}.")]
        around = self.names.of_call(site.path, beside) if site.path and beside else ""
        if path is None or path == around:
            return None
        return path.removesuffix(".*") if call.count is not None else path

    def inner(self, site: LayerSite, call: Call) -> LayerSite:
        """The site of what a call runs."""
        path = called(site, call, self.layers.program).path
        return next(each for each in self.layers.sites if each.path == path)
