"""Batch normalization by running statistics: of a model in evaluation."""

from __future__ import annotations

from typing import Final

from xg_torch.importing.diagram import Weight
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Ref
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.rules_windows import hint_places
from xg_torch.importing.views import ModelValue, View

OWN: Final = ("weight", "bias", "running_mean", "running_var")


def batch_norm(lowering: Lowering) -> View:
    """``BN(γ, β, μ, v)`` over all axes but the channels, which torch has second."""
    if lowering.argument("training", False):
        raise Unspeakable(
            "it is in training, where its running statistics change as it runs",
            "export the model in evaluation, model.eval(): the diagram's BN has both",
        )
    view = lowering.view_of("input")
    front, channels, places = view.axes[:1], view.axes[1], view.axes[2:]
    if len(places) in (1, 2):
        hint_places(lowering, places)
    value = lowering.lay_out(view, (*front, *places, channels))
    given = {name: _parameter(lowering, name) for name in OWN}
    own = {name: each for name, each in given.items() if each is not None}
    if len(own) < len(OWN) and "weight" in own:
        raise Unspeakable("it has no bias, or no running statistics")
    for each in own.values():
        lowering.sizes.equal(value.axes[-1], each.axes[0])
    eps = lowering.number_of("eps", 1e-5)
    momentum = lowering.number_of("momentum", 0.1)
    made = lowering.emit(
        "BN", (value,), value.axes, own=list(own.values()), eps=eps, momentum=momentum
    )
    base = (*front, *places, channels)
    return View(made, base, view.axes)


def _parameter(lowering: Lowering, name: str) -> ModelValue | None:
    """An own tensor: a parameter, or a buffer, which becomes a frozen one."""
    argument = lowering.argument(name)
    if argument is None:
        return None
    held = {each.name: each for each in lowering.exported.entries if each.kind != "user"}
    entry = held.get(argument.name) if isinstance(argument, Ref) else None
    if entry is None:
        raise Unspeakable(f"its {name} is no tensor of the model")
    return lowering.weight(Weight(entry.target, frozen=name.startswith("running")))
