"""Functions around `Model` that are the same in all modules."""

from __future__ import annotations

from typing import Final

ADOPT: Final = '''def adopt(module: torch.nn.Module, params: Params, at: str) -> Names:
    """Give a module the parameters below a path, in modules as deep as it; their names."""
    below = f"{at}." if at else ""
    for name in [name for name in params if name.startswith(below)]:
        owner = module
        *path, last = name[len(below) :].split(".")
        for part in path:
            if part not in dict(owner.named_children()):
                owner.add_module(part, torch.nn.Module())
            owner = owner.get_submodule(part)
        owner.register_parameter(last, torch.nn.Parameter(params[name]))
    return tuple([f"{below}{name}" for name, _ in module.named_parameters()])
'''

REMEMBER: Final = '''def remember(ctx: Any, params: Params, saved: Any) -> None:
    """Hand autograd what the backward pass needs: it frees every tensor after its use."""
    tensors: list[Array] = []
    ctx.names, ctx.kept = tuple(params), packed(saved, tensors)
    ctx.save_for_backward(*params.values(), *tensors)
    devices = [tensor.device.type for tensor in (*params.values(), *tensors)]
    device = devices[0] if devices else "cpu"
    enabled = torch.is_autocast_enabled(device)
    ctx.autocast = (device, torch.get_autocast_dtype(device), enabled)
'''

RECALL: Final = '''def recall(ctx: Any) -> tuple[Params, Any]:
    """The parameters and what was saved, as the forward pass had them."""
    tensors, count = ctx.saved_tensors, len(ctx.names)
    return dict(zip(ctx.names, tensors[:count])), unpacked(ctx.kept, tensors[count:])
'''

PLACE: Final = '''class Place(NamedTuple):
    """Where a saved tensor stands in a list."""

    number: int
'''

PACKED: Final = '''def packed(saved: Any, tensors: list[Array]) -> Any:
    """What a block saved, its tensors moved to a list."""
    if isinstance(saved, torch.Tensor):
        tensors.append(saved)
        return Place(len(tensors) - 1)
    if saved is None or isinstance(saved, int):
        return saved
    parts = [packed(part, tensors) for part in saved]
    return parts if isinstance(saved, list) else saved._make(parts)
'''

UNPACKED: Final = '''def unpacked(kept: Any, tensors: tuple[Array, ...]) -> Any:
    """What a block saved, its tensors back in their places."""
    if isinstance(kept, Place):
        return tensors[kept.number]
    if kept is None or isinstance(kept, int):
        return kept
    parts = [unpacked(part, tensors) for part in kept]
    return parts if isinstance(kept, list) else kept._make(parts)
'''

AROUND_MODEL: Final = (PLACE, ADOPT, REMEMBER, RECALL, PACKED, UNPACKED)
