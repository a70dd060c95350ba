"""Run a module in memory, so that its import can be compared with the module itself.

The exported program knows no `backward` of an `autograd.Function`, no hook, and no branch that was
not taken, so agreement with it says nothing about them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from xg_torch.importing.errors import first_line
from xg_torch.importing.exported import Exported
from xg_torch.importing.proof import NotReplayed, double_by_default

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportPrivateUsage=false


class ModuleRun:
    """A module, and the form of its inputs."""

    def __init__(
        self,
        module: nn.Module,
        inputs: Sequence[Any],
        named: Mapping[str, Any],
        *,
        first_output: bool = False,
    ) -> None:
        self.module, self.first_output = module, first_output
        self.leaves, self.form = pytree.tree_flatten((tuple(inputs), dict(named)))
        self.tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        self.outputs: list[Tensor] = []

    def run(
        self, exported: Exported, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]
    ) -> list[Tensor]:
        """Return the outputs in float64 for inputs, parameters and buffers, by their names there.

        Raises NotReplayed if the module can't be run so.
        """
        del sizes
        self.outputs = []
        drawn = [tensors[each.name] for each in exported.entries if each.kind == "user"]
        places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        if len(drawn) != len(places):
            raise NotReplayed("its inputs are not those of the exported program")
        leaves: list[Any] = list(self.leaves)
        for place, tensor in zip(places, drawn, strict=True):
            leaves[place] = tensor.to(_wider(self.leaves[place].dtype))
        args, kwargs = pytree.tree_unflatten(leaves, self.form)
        state = {
            each.target: self._with_hooks(each.target, tensors[each.name])
            for each in exported.entries
            if each.kind in ("parameter", "constant") and each.target in self.tensors
        }
        try:
            with torch.enable_grad(), double_by_default(), _KnownDifferences():
                found = torch.func.functional_call(self.module, state, args, kwargs)
        except Exception as error:  # of the user's own code: of all kinds
            raise NotReplayed(f"the model cannot be run in float64: {first_line(error)}") from error
        self.outputs = [each for each in pytree.tree_leaves(found) if isinstance(each, Tensor)]
        outputs = self.outputs[:1] if self.first_output else self.outputs
        return [each.double() if each.is_floating_point() else each for each in outputs]

    def _with_hooks(self, name: str, tensor: Tensor) -> Tensor:
        """The tensor in the place of a parameter, with the hooks that the parameter has."""
        hooks: Mapping[int, Callable[..., Any]] | None = self.tensors[name]._backward_hooks
        if not hooks or not tensor.requires_grad:
            return tensor
        stand_in = tensor.view_as(tensor)
        for hook in hooks.values():
            stand_in.register_hook(hook)
        return stand_in

    def own_gradients(self) -> list[str]:
        """The parts of the module that may have a gradient of their own, with their lines."""
        found = [f"the backward of {_place(kind)}" for kind in self._functions()]
        for name, parameter in self.module.named_parameters():
            if parameter._backward_hooks:
                found.append(f"a hook of the parameter {name}")
        for name, module in self.module.named_modules():
            if module._backward_hooks or module._backward_pre_hooks:
                found.append(f"a backward hook of {name or 'the model'} ({type(module).__name__})")
        return found

    def _functions(self) -> Iterator[type]:
        """The kinds of `autograd.Function` that the outputs were computed by, in order."""
        waiting: list[Any] = [each.grad_fn for each in self.outputs if each.grad_fn is not None]
        seen: set[Any] = set(waiting)
        kinds: dict[type, None] = {}
        while waiting:
            node = waiting.pop()
            kind = getattr(node, "_forward_cls", None)
            if isinstance(kind, type):
                kinds[kind] = None
            nodes = [each for each, _ in node.next_functions if each is not None]
            waiting += [each for each in nodes if each not in seen]
            seen |= set(nodes)
        yield from kinds


def _wider(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype.is_floating_point else dtype


def _place(kind: type) -> str:
    """``Scaled (model.py, line 12)``."""
    try:
        lines, first = inspect.getsourcelines(kind)
        file = Path(inspect.getfile(kind)).name
    except (OSError, TypeError):
        return kind.__name__
    own = next((i for i, line in enumerate(lines) if "def backward" in line), 0)
    return f"{kind.__name__} ({file}, line {first + own})"


class _KnownDifferences(TorchFunctionMode):
    """Let nothing be dropped, and let padding have a gradient, which a note of the import says."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,  # noqa: ANN401 - as torch calls it
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - what the function gives
        kwargs = dict(kwargs or {})
        if func in (functional.dropout, torch.dropout, torch.dropout_):
            return args[0] if args else kwargs["input"]
        if func is functional.embedding:
            kwargs.pop("padding_idx", None)
            args = args[:2]
        if func is functional.scaled_dot_product_attention:
            kwargs |= {"dropout_p": 0.0}
            args = (*args[:4], *args[5:]) if len(args) > 4 else args
            if len(args) > 4:
                kwargs["is_causal"], args = args[4], args[:4]
        return func(*args, **kwargs)
