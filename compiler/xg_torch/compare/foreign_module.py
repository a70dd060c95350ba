"""Build and call a torch module of the user, with hooks on every tensor and gradient."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xg.cli.input_arrays import Published, at_sizes_of, expected_inputs, size_numbers
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import fields, is_dataclass
from xg.driver import Program
from xg.frontend.project import Project
from xg.frontend.typed import dims_of
from xg.verify.proof_sizes import verification_sizes
from xg_runtime import random_inputs
from xg_runtime.errors import InputError
from xg_runtime.expect import fit
from xg_runtime.module import Array, Arrays
from xg_runtime.names import Names
from xg_torch.compare.flat_program import in_shape
from xg_torch.compare.foreign_run import Event, ForeignRun

if TYPE_CHECKING:
    from argparse import Namespace

    from torch import Tensor, nn


# pyright: reportUnknownMemberType=false


def built(text: str) -> nn.Module:
    """The module; raises InputError with the line of the user's code that failed."""
    import torch

    place, _, attribute = text.rpartition(":")
    if not place or not attribute:
        raise InputError(
            f"{text} should be MODULE:BUILD, such as mymodel:build or my/model.py:build"
        )
    folder = str(Path(place).resolve().parent) if place.endswith(".py") else str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        found: Any = getattr(_loaded(text, place), attribute, None)
        if found is None:
            raise InputError(f"{place} has no {attribute}")
        torch.manual_seed(0)
        module: Any = found if isinstance(found, torch.nn.Module) else found()
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise failure(text, "cannot be built", error) from error
    finally:
        sys.path.remove(folder)
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"{text} gives no torch.nn.Module, but {module!r:.60}")
    return module


def failure(text: str, how: str, error: BaseException) -> InputError:
    """An error of the user's code, with its own line."""
    import torch

    said = (str(error).strip().splitlines() or ["no reason"])[0]
    frames = traceback.extract_tb(error.__traceback__)
    others = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
    own = [each for each in frames if not each.filename.startswith(others)]
    where = f"{Path(own[-1].filename).name}:{own[-1].lineno}: {own[-1].line}" if own else ""
    reason = f"{text} {how}: {type(error).__name__}: {said}"
    return InputError(reason, (where,) if where else ())


def _loaded(text: str, place: str) -> ModuleType:
    """The user's Python module, by its name or by its file."""
    if not place.endswith(".py"):
        try:
            return import_module(place)
        except ModuleNotFoundError as error:
            if error.name != place.partition(".")[0]:
                raise
            raise InputError(f"{text}: there is no module {place}") from error
    path = Path(place)
    spec = spec_from_file_location(path.stem, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise InputError(f"{text}: there is no file {place}")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


# A call of code that others wrote: sizes, inputs, which result is which, and what is sent back.


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false


def config_of(module: nn.Module) -> dict[str, Any] | None:
    """The sizes and words that a module keeps as its `config`, as config.json would have them."""
    config: Any = getattr(module, "config", None)
    if isinstance(config, Mapping):
        return dict(config)
    to_dict = getattr(config, "to_dict", None)
    told: Any = to_dict() if to_dict is not None else getattr(config, "__dict__", None)
    return dict(told) if told else None


def at_all_sizes(
    project: Project, options: Namespace, held: Published, given: Arrays, every: int = 2
) -> Program:
    """The program with a number for every size: of arrays, of the user, and else one that is free.

    Multiples of `every` where the file allows them, as ranks cut them; else those that a proof
    takes.
    """
    graphs = held.program.on_one_device.graphs
    arrays = {**given, **held.params}
    proof = verification_sizes(graphs, graphs.all_numbers)
    open_ = [name for name in proof if name not in size_numbers(held.program)]
    taken = set(size_numbers(held.program).values())
    wished = (n for n in range(4 if every == 2 else every, 100, every) if n not in taken)
    for sizes in (dict(zip(open_, wished, strict=False)), proof):
        own = {name: n for name, n in sizes.items() if name in dims_of(project, options.block)}
        try:
            return at_sizes_of(
                arrays, project, options.block, {**own, **held.settings}
            ).on_one_device
        except DiagnosticError:
            if sizes is proof:
                raise
    raise AssertionError("the last sizes compile or raise")


def all_inputs(program: Program, given: Arrays, seed: int) -> Arrays:
    """The inputs of the diagram: those given, and drawn ones in place of the others."""
    expectations = expected_inputs(program)
    missing = {name: want for name, want in expectations.items() if name not in given}
    drawn = random_inputs.random_inputs(missing, {}, seed)
    arrays = {**drawn, **{name: given[name] for name in given if name in expectations}}
    return fit(arrays, expectations, dtype="float64", source="the inputs")


def called_with(
    module: nn.Module, names: Names | None, inputs: Arrays
) -> tuple[dict[str, Any], int]:
    """The tensors that the module is called with, by name, and how many of them by place."""
    import torch

    tensors = {name: torch.from_numpy(array.copy()) for name, array in inputs.items()}
    for tensor in tensors.values():
        if tensor.is_floating_point():
            tensor.requires_grad_()
    kinds = signature(module.forward).parameters
    table = names.inputs if names else {}
    wanted = {name: ours for name, ours in table.items() if ours in tensors}
    wanted |= {name: name for name in kinds if name in tensors}
    if wanted:
        return {name: tensors[ours] for name, ours in wanted.items()}, 0
    placed = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in kinds.values() if p.kind in placed]
    required = [p for p in places if p.default is Parameter.empty]
    several = any(p.kind is Parameter.VAR_POSITIONAL for p in kinds.values())
    count = len(tensors) if several else min(len(tensors), len(places))
    if len(required) > len(tensors):
        raise InputError(
            f"the module's forward needs {', '.join(p.name for p in required)}, and the diagram "
            f"has {', '.join(tensors)}: say which is which under [inputs] in the file of names"
        )
    return dict(list(tensors.items())[:count]), count


def output_shapes(program: Program) -> dict[str, tuple[int, ...]]:
    """The shapes of the diagram's outputs."""
    sizes = size_numbers(program)
    return {
        name: tuple(n if isinstance(n, int) else sizes[n] for n in spec.shape)
        for name, spec in program.outputs.items()
    }


def results_of(program: Program, outputs: Sequence[tuple[str, Array]]) -> dict[str, int]:
    """The place of each of the diagram's outputs among the module's results, by name or shape."""
    shapes = output_shapes(program)
    found: dict[str, int] = {}
    for by_name in (True, False):
        for name, shape in shapes.items():
            for place, (its, array) in enumerate(outputs):
                is_free = name not in found and place not in found.values()
                if is_free and (its == name or not by_name) and in_shape(array, shape) is not None:
                    found[name] = place
    if not found:
        ours = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        theirs = ", ".join(str(list(array.shape)) for _, array in outputs) or "nothing"
        raise InputError(f"the module gives {theirs}, and the diagram {ours}")
    return found


def cotangents_of(program: Program, names: list[str], seed: int) -> Arrays:
    """1 for a loss, else random numbers for every result that both have."""
    outputs, shapes = program.outputs, output_shapes(program)
    floats = [name for name in names if outputs[name].dtype == "float"]
    losses = [name for name in floats if not shapes[name]]
    if losses:
        return {name: np.ones(()) for name in losses}
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shapes[name]) for name in floats}


# A run of a torch module with hooks on everything that it calls: tensors, and their gradients.


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false


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
