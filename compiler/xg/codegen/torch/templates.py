"""Functions around `Model` that are the same in all modules."""

from __future__ import annotations

from typing import Final

SETTING: Final = '''    def __setattr__(self, name: str, value: Any) -> None:
        """Set what torch means: some names are those of a parameter and of something else."""
        if isinstance(value, torch.nn.Parameter) and name in self._parameters:
            self._parameters[name] = value
        elif name == "training":
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)
'''

SHAPES: Final = '''def _shapes(block: torch.nn.Module) -> str:
    """Names and shapes of the parameters that are the block's own, for its `repr`."""
    own = block.named_parameters(recurse=False, remove_duplicate=False)
    return ", ".join([f"{name} {list(weight.shape)}" for name, weight in own])
'''

WEIGHTS: Final = '''def _weights(block: Any, at: str) -> Params:
    """The parameters of a block by their names in the model, parametrized or not."""
    named = block.named_parameters(recurse=False, remove_duplicate=False)
    weights: Params = {f"{at}.{name}": weight for name, weight in named}
    for name, part in block._modules.items():
        if isinstance(part, torch.nn.ModuleDict):  # of parametrizations
            weights |= {f"{at}.{own}": each() for own, each in part.items()}
        elif isinstance(part, torch.nn.ModuleList):
            weights |= _weights(part, f"{at}.{name}")
        elif part is not None:
            weights |= _inside(part, f"{at}.{name}")
    return weights


def _inside(part: torch.nn.Module, at: str) -> Params:
    """The parameters of a block, or of one in a module of others such as PEFT's.

    That may set them for the length of a call: they are read in one, which computes
    nothing.
    """
    if "_at" in part.__dict__:
        return _weights(part, at)
    blocks = [each for each in part.modules() if "_at" in each.__dict__]
    if not blocks:
        raise ValueError(f"{at} is to be a block of this file, or a module around it")
    weights: Params = {}

    def read(*_: Any) -> None:
        weights.update(_weights(blocks[0], at))

    own = blocks[0].__dict__.pop("forward", None)
    blocks[0].forward = read
    try:
        part(None)
    finally:
        blocks[0].__dict__.pop("forward")
        if own is not None:
            blocks[0].forward = own
    return weights
'''

PATHS: Final = '''def _paths(params: Params, at: str) -> list[str]:
    """The paths of the blocks in a row: `layers.0`, `layers.1` and so on."""
    below = [name[len(at) + 1 :] for name in params if name.startswith(f"{at}.")]
    return [f"{at}.{i}" for i in dict.fromkeys([name.split(".")[0] for name in below])]
'''

_REMEMBER: Final = """{head}
    tensors = [*params.values(), *inputs]
    ctx.names, ctx.inputs = tuple(params), len(inputs)
    ctx.kept = {kept}
    ctx.save_for_backward(*tensors{rest}){results}
    device = tensors[0].device.type if tensors else "cpu"
    enabled = torch.is_autocast_enabled(device)
    ctx.autocast = (device, torch.get_autocast_dtype(device), enabled)
"""

_HEAD: Final = '''def _remember(ctx: Any, params: Params, inputs: list[Array], saved: Any) -> None:
    """Hand autograd what the backward pass needs; it frees tensors after their use."""'''

_HEAD_OF_SEVERAL: Final = '''def _remember(
    ctx: Any, params: Params, inputs: list[Array], saved: Any, *results: Array
) -> None:
    """Hand autograd what the backward pass needs: it frees every tensor after its use.

    Of several results some may have no cotangent: torch is not to make zeros for them.
    """'''

_RESULTS: Final = """
    if results:
        ctx.set_materialize_grads(False)
        ctx.results = [(y.shape, y.dtype, y.device) for y in results]"""

SETTLE: Final = '''def _settle(params: Params, moved: Params) -> None:
    """Running statistics in the place of earlier ones, which no backward pass reads."""
    for name, weight in params.items():
        if moved[name] is not weight:
            weight.data.copy_(moved[name])
'''

ARRIVED: Final = '''def _arrived(ctx: Any, *cotangents: Array | None) -> list[Array]:
    """The cotangent of each result: one zero, repeated, where nothing depends on it."""
    arrived: list[Array] = []
    for dy, (shape, dtype, device) in zip(cotangents, ctx.results, strict=True):
        if dy is None:
            dy = torch.zeros((), dtype=dtype, device=device).expand(shape)
        arrived.append(dy)
    return arrived
'''

AS_BEFORE: Final = '''def _as_before(ctx: Any) -> AbstractContextManager[Any]:
    """The autocast state of the forward pass, entered again where it has changed."""
    device, dtype, enabled = ctx.autocast
    if enabled or torch.is_autocast_enabled(device):
        return torch.autocast(device, dtype, enabled)
    return nullcontext()
'''

KEPT: Final = '''class _Kept(NamedTuple):
    """Saved values without their tensors: class, names of the tensors, all the rest."""

    kind: Any
    names: list[str]
    rest: dict[str, Any]
'''

_RECALL: Final = '''def _recall(ctx: Any) -> tuple[Params, list[Array], Any]:
    """{what}"""
    tensors = iter(ctx.saved_tensors){clear}
    params = {name: next(tensors) for name in ctx.names}
    inputs = [next(tensors) for _ in range(ctx.inputs)]
    return params, inputs, {saved}
'''

_CLEAR: Final = """
    if not torch.compiler.is_compiling():
        ctx.maybe_clear_saved_tensors()"""

_PACKED: Final = '''def _packed(saved: Any, tensors: list[Array]) -> Any:
    """Saved values without their tensors, which are appended to a list."""
    if saved is None or isinstance(saved, int | torch.SymInt):
        return saved
    if isinstance(saved, list):
        return [_packed(part, tensors) for part in saved]
    names: list[str] = []
    rest: dict[str, Any] = {}
    for name, part in {fields}:
        if isinstance(part, torch.Tensor):
            names.append(name)
            tensors.append(part)
        else:
            rest[name] = part
    rest = {name: _packed(part, tensors) for name, part in rest.items()}
    return _Kept(saved.__class__, names, rest)
'''

UNPACKED: Final = '''def _unpacked(kept: Any, tensors: Iterator[Array]) -> Any:
    """Saved values with their tensors again."""
    if isinstance(kept, _Kept):
        fields: dict[str, Any] = {name: next(tensors) for name in kept.names}
        for name, part in kept.rest.items():
            fields[name] = _unpacked(part, tensors)
        return kept.kind(**fields)
    if isinstance(kept, list):
        return [_unpacked(part, tensors) for part in kept]
    return kept
'''


def around(releases: bool, several: bool, *, flat: bool = False) -> list[str]:
    """The code around a model whose blocks save records that are freed in parts, or else tuples.

    `several` is whether any has more than one result; `flat` records have nothing but tensors.
    """
    what = "Parameters, inputs and saved values"
    if releases:
        what += "; the backward pass alone keeps them now."
    else:
        what += ", as the forward pass had them."
    remember = (
        _REMEMBER.replace("{head}", _HEAD_OF_SEVERAL if several else _HEAD)
        .replace("{kept}", "saved.__class__" if flat else "_packed(saved, tensors)")
        .replace("{rest}", ", *saved" if flat else "")
        .replace("{results}", _RESULTS if several else "")
    )
    recall = (
        _RECALL.replace("{what}", what)
        .replace("{clear}", _CLEAR if releases else "")
        .replace("{saved}", "ctx.kept(*tensors)" if flat else "_unpacked(ctx.kept, tensors)")
    )
    if flat:
        return [remember, recall, *([ARRIVED] if several else []), AS_BEFORE]
    of_object = "[(name, saved.__dict__[name]) for name in saved._fields]"
    packed = _PACKED.replace("{fields}", of_object if releases else "saved._asdict().items()")
    arrived = [ARRIVED] if several else []
    return [remember, recall, *arrived, AS_BEFORE, KEPT, packed, UNPACKED]
