"""Functions around `Model` that are the same in all modules."""

from __future__ import annotations

from typing import Final

NAMED: Final = '''class Named(torch.nn.Module):
    """A module with the parameters below a path; their names may be those of its methods."""

    def __init__(self, params: Params, at: str) -> None:
        super().__init__()
        self._at, below = at, f"{at}." if at else ""
        self._names = tuple([name for name in params if name.startswith(below)])
        self._places: list[tuple[list[str], list[str]]] = []  # path, parameters there
        for name in self._names:
            *path, last = name[len(below) :].split(".")
            owner: torch.nn.Module = self
            for part in path:
                children: dict[str, Any] = owner._modules
                if part not in children:
                    children[part] = Named({}, "")
                owner = children[part]
            owner._parameters[last] = torch.nn.Parameter(params[name])
            if not self._places or self._places[-1][0] != path:
                self._places.append((path, []))
            self._places[-1][1].append(last)

    def _weights(self) -> list[Array]:
        """The parameters, one for each name, also where modules share them."""
        found: list[Array] = []
        for path, names in self._places:
            weights: dict[str, Any] = self._child(path)._parameters
            found += [weights[name] for name in names]
        return found

    def _weight(self, place: str) -> Array:
        """One parameter: as an attribute, `type` would be a method."""
        *path, last = place.split(".")
        weights: dict[str, Any] = self._child(path)._parameters
        return weights[last]

    def _child(self, path: list[str]) -> torch.nn.Module:
        """One module below this one."""
        owner: torch.nn.Module = self
        for part in path:
            children: dict[str, Any] = owner._modules
            owner = children[part]
        return owner
'''

SETTING: Final = '''    def __setattr__(self, name: str, value: Any) -> None:
        """Names mean several things here; what is set is what torch means to set."""
        if isinstance(value, torch.nn.Parameter) and name in self._parameters:
            self._parameters[name] = value
        elif name == "training":
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)
'''

REMEMBER: Final = '''def remember(ctx: Any, params: Params, saved: Any) -> None:
    """Hand autograd what the backward pass needs: it frees every tensor after its use."""
    tensors: list[Array] = []
    ctx.names, ctx.kept = tuple(params), packed(saved, tensors)
    tensors = [*params.values(), *tensors]
    ctx.save_for_backward(*tensors)
    device = tensors[0].device.type if tensors else "cpu"
    enabled = torch.is_autocast_enabled(device)
    ctx.autocast = (device, torch.get_autocast_dtype(device), enabled)
'''

RECALL: Final = '''def recall(ctx: Any) -> tuple[Params, Any]:
    """The parameters and what was saved, as the forward pass had them."""
    tensors, count = ctx.saved_tensors, len(ctx.names)
    return dict(zip(ctx.names, tensors[:count])), unpacked(ctx.kept, tensors[count:])
'''

RECALL_ALONE: Final = '''def recall(ctx: Any) -> tuple[Params, Any]:
    """The parameters and what was saved; from here on the backward pass alone keeps it."""
    tensors, count = ctx.saved_tensors, len(ctx.names)
    if not torch.compiler.is_compiling():
        ctx.maybe_clear_saved_tensors()
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

PACKED_RECORD: Final = '''def packed(saved: Any, tensors: list[Array]) -> Any:
    """What a block saved, its tensors moved to a list."""
    if isinstance(saved, torch.Tensor):
        tensors.append(saved)
        return Place(len(tensors) - 1)
    if saved is None or isinstance(saved, int):
        return saved
    if isinstance(saved, list):
        return [packed(part, tensors) for part in saved]
    parts = {name: packed(part, tensors) for name, part in saved.__dict__.items()}
    return saved.__class__(**parts)
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

UNPACKED_RECORD: Final = '''def unpacked(kept: Any, tensors: tuple[Array, ...]) -> Any:
    """What a block saved, its tensors back in their places."""
    if isinstance(kept, Place):
        return tensors[kept.number]
    if kept is None or isinstance(kept, int):
        return kept
    if isinstance(kept, list):
        return [unpacked(part, tensors) for part in kept]
    parts = {name: unpacked(part, tensors) for name, part in kept.__dict__.items()}
    return kept.__class__(**parts)
'''

# Around a model whose blocks save tuples, and one whose blocks save records that go in parts.
AROUND_TUPLES: Final = (PLACE, REMEMBER, RECALL, PACKED, UNPACKED)
AROUND_RECORDS: Final = (PLACE, REMEMBER, RECALL_ALONE, PACKED_RECORD, UNPACKED_RECORD)
