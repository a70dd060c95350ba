"""A run of a torch module with hooks on everything that it calls: tensors, and their gradients."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xg_runtime.module import Array
from xg_torch.compare.foreign_run import Event, ForeignRun

if TYPE_CHECKING:
    from torch import Tensor, nn


def parameters(module: nn.Module) -> dict[str, Tensor]:
    """Every parameter under each of its names."""
    return dict(module.named_parameters(remove_duplicate=False))


class HookedRun:
    """One run of a module, forward and then backward."""

    def __init__(self, module: nn.Module, given: Mapping[str, Tensor], positional: int) -> None:
        """Run forward: the first `positional` tensors by place, the others by name."""
        self.module, self.found = module, ForeignRun()
        self.calls: dict[tuple[str, str], int] = {}
        params = parameters(module)
        first = {id(tensor): name for name, tensor in reversed(params.items())}
        self.found.tied = {name: first[id(tensor)] for name, tensor in params.items()}
        self.found.direct = _direct(module)
        handles = list(self._hooks())
        try:
            tensors = list(given.values())[:positional]
            named = dict(list(given.items())[positional:])
            self.result = list(_tensors(module(*tensors, **named)))
        finally:
            for handle in handles:
                handle.remove()
        self.found.outputs = [(name, _array(tensor)) for name, tensor in self.result]

    def backward(self, cotangents: Mapping[int, Array]) -> ForeignRun:
        """Send gradients back from these outputs, by their place."""
        import torch

        self.module.zero_grad(set_to_none=True)
        roots = [(self.result[place][1], d) for place, d in cotangents.items()]
        roots = [(tensor, d) for tensor, d in roots if tensor.requires_grad]
        if roots:
            arrays = [torch.as_tensor(d, dtype=t.dtype).reshape(t.shape) for t, d in roots]
            torch.autograd.backward([tensor for tensor, _ in roots], arrays)
        for name, tensor in parameters(self.module).items():
            self.found.gradients[name] = None if tensor.grad is None else whole(tensor.grad)
        return self.found

    def _hooks(self) -> Iterator[Any]:
        """Hooks on every module that has parameters, but for the whole."""
        for name, module in self.module.named_modules():
            if name and any(True for _ in module.parameters()):
                is_leaf = bool(self.found.direct.get(name))
                if is_leaf:
                    yield module.register_forward_pre_hook(self._before(name), with_kwargs=True)
                yield module.register_forward_hook(self._after(name))

    def _before(self, name: str) -> Any:  # noqa: ANN401 - a hook
        def hook(_: object, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
            for _, tensor in _tensors((*args, *kwargs.values())):
                self._note(name, "input", tensor)
                break

        return hook

    def _after(self, name: str) -> Any:  # noqa: ANN401 - a hook
        def hook(_: object, __: object, output: object) -> None:
            for _, tensor in _tensors(output):
                self._note(name, "output", tensor)
                break

        return hook

    def _note(self, name: str, kind: Literal["input", "output"], tensor: Tensor) -> None:
        number = self.calls.get((name, kind), 0)
        self.calls[name, kind] = number + 1
        event = Event(name, kind, _array(tensor), call=number)
        self.found.events.append(event)
        if tensor.requires_grad:

            def arrived(gradient: Tensor) -> None:
                event.gradient = _array(gradient)

            tensor.register_hook(arrived)


def _direct(module: nn.Module) -> dict[str, list[str]]:
    """The parameters of modules that have some of their own, and no module below with others."""
    found: dict[str, list[str]] = {}
    for name, each in module.named_modules():
        start = f"{name}." if name else ""
        own = [start + param for param, _ in each.named_parameters(recurse=False)]
        if own and len(own) == len(list(each.named_parameters(remove_duplicate=False))):
            found[name] = own
    return found


def _tensors(found: object, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of a result, with names where it has names."""
    import torch

    if isinstance(found, torch.Tensor):
        yield name, found
    elif isinstance(found, Mapping):
        for key, value in found.items():
            yield from _tensors(value, str(key))
    elif isinstance(found, list | tuple):
        for value in found:
            yield from _tensors(value)
    elif is_dataclass(found):
        for each in fields(found):
            yield from _tensors(getattr(found, each.name), each.name)


def whole(tensor: Tensor) -> Array:
    """All numbers of a tensor, which each rank may have a part of: then every rank has to call."""
    gathered: Any = getattr(tensor, "full_tensor", None)
    return _array(tensor if gathered is None else gathered())


def _array(tensor: Tensor) -> Array:
    """A copy of its numbers, of several ranks those of this one, floats in float64."""
    own: Any = getattr(tensor, "to_local", None)
    plain = (tensor if own is None else own()).detach().cpu()
    return np.array((plain.double() if plain.is_floating_point() else plain).numpy())
