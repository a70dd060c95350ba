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

REMEMBER: Final = '''def remember(
    ctx: Any, params: Params, inputs: list[Array], saved: Any, *results: Array
) -> None:
    """Hand autograd what the backward pass needs: it frees every tensor after its use.

    Of several results some may have no cotangent: torch is not to make zeros for them.
    """
    tensors = [*params.values(), *inputs]
    ctx.names, ctx.inputs = tuple(params), len(inputs)
    ctx.kept = packed(saved, tensors)
    ctx.save_for_backward(*tensors)
    if results:
        ctx.set_materialize_grads(False)
        ctx.results = [(y.shape, y.dtype, y.device) for y in results]
    device = tensors[0].device.type if tensors else "cpu"
    enabled = torch.is_autocast_enabled(device)
    ctx.autocast = (device, torch.get_autocast_dtype(device), enabled)
'''

ARRIVED: Final = '''def arrived(ctx: Any, *cotangents: Array | None) -> list[Array]:
    """What arrived for each result: one zero, repeated, where nothing depends on it."""
    found: list[Array] = []
    for dy, (shape, dtype, device) in zip(cotangents, ctx.results):
        if dy is None:
            dy = torch.zeros((), dtype=dtype, device=device).expand(shape)
        found.append(dy)
    return found
'''

AS_BEFORE: Final = '''def as_before(ctx: Any) -> AbstractContextManager[Any]:
    """The autocast state of the forward pass, entered again where another one holds now."""
    device, dtype, enabled = ctx.autocast
    if enabled or torch.is_autocast_enabled(device):
        return torch.autocast(device, dtype, enabled)
    return nullcontext()
'''

KEPT: Final = '''class Kept(NamedTuple):
    """What a block saved without its tensors: what it is, names of the tensors, all the rest."""

    kind: Any
    names: list[str]
    rest: dict[str, Any]
'''

_RECALL: Final = '''def recall(ctx: Any) -> tuple[Params, list[Array], Any]:
    """{what}"""
    tensors = iter(ctx.saved_tensors){clear}
    params = dict(zip(ctx.names, tensors))
    inputs = [next(tensors) for _ in range(ctx.inputs)]
    return params, inputs, unpacked(ctx.kept, tensors)
'''

_CLEAR: Final = """
    if not torch.compiler.is_compiling():
        ctx.maybe_clear_saved_tensors()"""

_PACKED: Final = '''def packed(saved: Any, tensors: list[Array]) -> Any:
    """What a block saved, its tensors moved to a list."""
    if saved is None or isinstance(saved, int):
        return saved
    if isinstance(saved, list):
        return [packed(part, tensors) for part in saved]
    names: list[str] = []
    rest: dict[str, Any] = {}
    for name, part in {fields}.items():
        if isinstance(part, torch.Tensor):
            names.append(name)
            tensors.append(part)
        else:
            rest[name] = part
    rest = {name: packed(part, tensors) for name, part in rest.items()}
    return Kept(saved.__class__, names, rest)
'''

UNPACKED: Final = '''def unpacked(kept: Any, tensors: Iterator[Array]) -> Any:
    """What a block saved, its tensors back in their places."""
    if isinstance(kept, Kept):
        fields: dict[str, Any] = dict(zip(kept.names, tensors))
        for name, part in kept.rest.items():
            fields[name] = unpacked(part, tensors)
        return kept.kind(**fields)
    if isinstance(kept, list):
        return [unpacked(part, tensors) for part in kept]
    return kept
'''


def around(releases: bool, several: bool) -> list[str]:
    """The code around a model whose blocks save records that are freed in parts, or else tuples.

    `several` is whether any has more than one result.
    """
    what = "The parameters, the inputs and what was saved"
    if releases:
        what += "; from here on the backward pass alone keeps it."
    else:
        what += ", as the forward pass had them."
    recall = _RECALL.replace("{what}", what).replace("{clear}", _CLEAR if releases else "")
    packed = _PACKED.replace("{fields}", "saved.__dict__" if releases else "saved._asdict()")
    arrived = [ARRIVED] if several else []
    return [KEPT, REMEMBER, *arrived, AS_BEFORE, recall, packed, UNPACKED]
