"""A model in memory as a diagram: traced with inputs of an example, and compared with itself."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any

from xg.diagnostics.diagnostic import DiagnosticError
from xg_torch.importing.errors import NotLoaded, NotTraced, first_line
from xg_torch.importing.model import Imported, import_program
from xg_torch.importing.saved import SavedTensors

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.export import ExportedProgram


def trace(
    model: nn.Module | Callable[..., Any],
    *inputs: Tensor,
    name: str | None = None,
    **named: Tensor,
) -> Imported:
    """A model of torch as a diagram, by one example of its inputs.

    Sizes that the model does not fix stay free; axes that are equally long in the example are one
    size, so give axes that differ different lengths. Dropout is written down and drops only when a
    run asks for it. Raises DiagnosticError with all that is in the way.
    """
    called = name or _name(model)
    _refuse_others(model, (*inputs, *named.values()), called)
    return import_module(_module(model), inputs, named, called)


def _refuse_others(model: object, inputs: Iterable[object], name: str) -> None:
    """Raise DiagnosticError for what is no model, or an input that is no tensor, as a tuple."""
    import torch

    if not callable(model):
        reason = f"a model is a module or a function of tensors, and not {type(model).__name__}"
        raise DiagnosticError.of(NotLoaded(name, reason))
    for each in inputs:
        if not isinstance(each, torch.Tensor):
            kind = type(each).__name__
            reason = f"its inputs are tensors, each by itself or by its name: among them is {kind}"
            raise DiagnosticError.of(NotLoaded(name, reason))


def import_module(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    named: Mapping[str, Tensor],
    name: str,
    *,
    first_output: bool = False,
    config: Mapping[str, Any] | None = None,
    saved: SavedTensors | None = None,
) -> Imported:
    """A module, with all sizes free, or those of features fixed where the diagram needs that.

    If neither can be said, the reasons are those of the last that torch could trace: what is in
    the way of free sizes only is not in the way of the model.
    """
    errors: list[DiagnosticError] = []
    for features in (True, False):
        try:
            with evaluating(module):
                program = _exported(module, inputs, named, features=features)
            return import_program(
                program,
                name,
                equal_sizes=True,
                first_output=first_output,
                config=config,
                saved=saved,
            )
        except DiagnosticError as error:
            errors.append(error)
        if not any(x.is_floating_point() and x.ndim > 1 for x in (*inputs, *named.values())):
            break
    traced = [e for e in errors if all(each.code != NotTraced.code for each in e.diagnostics)]
    raise traced[-1] if traced else errors[0]


def _name(model: object) -> str:
    from torch import nn

    own = type(model).__name__ if isinstance(model, nn.Module) else None
    return own or getattr(model, "__name__", "Model").title().replace("_", "")


def _module(model: nn.Module | Callable[..., Any]) -> nn.Module:
    """A module that calls the model, if it is none."""
    from torch import nn

    if isinstance(model, nn.Module):
        return model

    class Function(nn.Module):
        """A function as a module."""

        def forward(self, *inputs: Tensor, **named: Tensor) -> Any:  # noqa: ANN401
            return model(*inputs, **named)

    return Function()


@contextmanager
def evaluating(module: nn.Module) -> Generator[None]:
    """Hold a model in evaluation mode, experts of transformers as products of matrices.

    Encoders and decoders give no cache of keys and values, which torch cannot trace.
    """
    modes = {each: each.training for each in module.modules()}
    configs: list[Any] = [getattr(each, "config", None) for each in module.modules()]
    ways = {
        id(config): (config, config._experts_implementation)
        for config in configs
        if hasattr(config, "_experts_implementation")
    }
    pairs = any(getattr(config, "is_encoder_decoder", False) for config in configs)
    caches = {id(c): (c, c.use_cache) for c in configs if pairs and hasattr(c, "use_cache")}
    module.eval()
    for config, _ in ways.values():
        config._experts_implementation = "batched_mm"
    for config, _ in caches.values():
        config.use_cache = False
    try:
        yield
    finally:
        for config, way in ways.values():
            config._experts_implementation = way
        for config, kept in caches.values():
            config.use_cache = kept
        for each, training in modes.items():
            each.training = training


def _exported(
    module: nn.Module, inputs: tuple[Tensor, ...], named: Mapping[str, Tensor], *, features: bool
) -> ExportedProgram:
    """The traced program, with as many sizes free as torch can leave; raises DiagnosticError.

    Without `features` only the first axis of inputs that are no integers is free.
    """
    import torch

    auto = torch.export.Dim.AUTO

    def axes_of(x: Tensor, axes: int | None) -> dict[int, Any]:
        fixed = x.is_floating_point() and not features
        return dict.fromkeys(range(x.ndim)[: 1 if fixed else axes], auto)

    def free(axes: int | None) -> tuple[dict[int, Any], ...] | dict[str, Any]:
        positional = [axes_of(x, axes) for x in inputs]
        keyed = {name: axes_of(x, axes) for name, x in named.items()}
        if not keyed:
            return tuple(positional)
        names = signature(module.forward).parameters  # by which torch takes all, if any are keyed
        return dict(zip(names, positional, strict=False)) | keyed

    return exported_program(module, inputs, named, [free(None), free(1), None], _name(module))


def exported_program(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    named: Mapping[str, Tensor],
    tried: Iterable[Any],
    name: str,
) -> ExportedProgram:
    """The traced program by the first dynamic shapes that torch can; raises DiagnosticError."""
    import torch

    reason: Exception | None = None
    for shapes in tried:
        try:
            return torch.export.export(module, inputs, dict(named), dynamic_shapes=shapes)
        except Exception as error:
            reason = reason or error
    raise DiagnosticError.of(NotTraced(name, first_line(reason)))
