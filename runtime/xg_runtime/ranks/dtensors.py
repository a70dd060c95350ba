"""The module of a rank with DTensors as parameters, which torch's own tools take.

    model = with_dtensors(module.Model(seed=0), module.cuts())     on ranks that are processes

Optimizers, `torch.nn.utils.clip_grad_norm_` and `torch.distributed.checkpoint` then see every
parameter whole, and each rank holds its shard. The pass itself is that of the shards.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.func import functional_call

from xg_runtime.errors import InputError
from xg_runtime.ranks.mesh import current
from xg_runtime.ranks.parts import Cuts, lengths
from xg_runtime.ranks.process_mesh import ProcessMesh

__all__ = ["with_dtensors"]


class _OfDTensors(nn.Module):
    """A module that gives its forward pass the shards of its parameters."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the module has it
        """Call the module on this rank's shards."""
        held = dict(self.named_parameters(remove_duplicate=False))
        shards: dict[str, Tensor] = {
            name: cast(Any, param).to_local()
            for name, param in held.items()
            if isinstance(param, DTensor)
        }
        if not shards:  # they are in place
            return cast(Any, super()).forward(*args, **kwargs)
        return functional_call(self, shards, args, kwargs)


def with_dtensors(model: nn.Module, cuts: Mapping[str, Cuts]) -> nn.Module:
    """Return the module, its parameters turned into DTensors; `cuts` are the `cuts()` of its code.

    Raises InputError on simulated ranks.
    """
    mesh = current()
    if not isinstance(mesh, ProcessMesh):
        raise InputError(
            "DTensors need ranks that are processes: join them, or start this with torchrun"
        )
    for name, param in list(model.named_parameters(remove_duplicate=False)):
        whole = DTensor.from_local(
            param.detach(), mesh.devices, _placements(name, cuts.get(name, ()), mesh, param.ndim),
            run_check=False,
        )  # fmt: skip
        folder, _, own = name.rpartition(".")
        learned = nn.Parameter(whole, requires_grad=param.requires_grad)
        model.get_submodule(folder).register_parameter(own, learned)
    kind = type(model)
    model.__class__ = type(kind.__name__, (_OfDTensors, kind), {})
    return model


def _placements(name: str, cuts: Cuts, mesh: ProcessMesh, axes: int) -> list[Placement]:
    """The placement of a parameter on every axis of the mesh; the outer cut of one comes first."""
    names = list(mesh.devices.mesh_dim_names or ())
    if lengths(cuts):
        raise InputError(
            f"{name} is padded, and its DTensor would include the padding: leave `pad` out of "
            "the plan"
        )
    places = [names.index(over) for _, over, *_ in cuts]
    if places != sorted(places):
        order = ", ".join(names[place] for place in places)
        raise InputError(
            f"{name} is divided over {order}; a DTensor needs the order of the mesh, "
            f"{', '.join(names)}"
        )
    found: dict[str, Placement] = {over: Shard(axes + axis) for axis, over, *_ in cuts}
    return [found.get(over, Replicate()) for over in names]
