"""From the bytes of an exported program to the text of a file and its parameters."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, replace, resting_collector
from xg_torch.importing.archive import (
    Array,
    Damaged,
    SavedTensors,
    read_archive,
    saved_tensors,
    with_weights,
    without_weights,
)
from xg_torch.importing.blocks import fold
from xg_torch.importing.errors import (
    NotAnArchive,
    NotAnInput,
    NotLoaded,
    NotSpoken,
    NotTraced,
    Unspeakable,
    first_line,
)
from xg_torch.importing.exported import Exported, read_graph, with_equal_sizes
from xg_torch.importing.lower import is_read, lower
from xg_torch.importing.names import identifier, names_file
from xg_torch.importing.proof import ModelComparison, Witness, part, prove
from xg_torch.importing.views import Weight
from xg_torch.importing.write import write

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.export import ExportedProgram

    from xg_torch.importing.module_run import ModuleRun


IN_MEMORY: Final = "the exported program"


@dataclass(frozen=True)
class Imported:
    """A model as a file of the language.

    `text` is the file. `params` are the numbers of its parameters by their paths in it, `sources`
    where in the model each comes from, `names` the same as a file of names. `proof` says how far
    it was off from the model at worst, `notes` what it does otherwise.
    """

    text: str
    params: Mapping[str, Array]
    sources: Mapping[str, Weight]
    names: str
    proof: ModelComparison
    notes: Sequence[str] = ()


def import_archive(data: bytes, file: str, name: str | None = None) -> Imported:
    """Read what `torch.export.save` wrote; raises DiagnosticError with all that is in the way.

    `file` is how messages call it, `name` the name of the entry block. Nothing of it is run but
    the operators of torch that it calls, to compare (`Imported.proof`).
    """
    return import_read(_read(data, file), file, name)


def import_exported(program: ExportedProgram, name: str | None = None) -> Imported:
    """The model of `torch.export.export`, by the same way: saved in memory, and read as data.

    Raises DiagnosticError with all that is in the way.
    """
    return import_program(program, name)


def import_program(
    program: ExportedProgram,
    name: str | None = None,
    *,
    equal_sizes: bool = False,
    first_output: bool = False,
    config: Mapping[str, Any] | None = None,
    saved: SavedTensors | None = None,
    module: ModuleRun | None = None,
) -> Imported:
    """A program of torch; with `equal_sizes` axes that were equally long are one size.

    `config` is what a config.json says of it, which the file of names keeps, and `saved` what else
    than the modules' tensors its folder has. A `module` is compared itself. Raises DiagnosticError
    with all that is in the way.
    """
    exported = read_program(program, equal_sizes=equal_sizes)
    if first_output:
        exported = replace(exported, outputs=exported.outputs[:1])
    return import_read(exported, IN_MEMORY, name, config=config, saved=saved, module=module)


@resting_collector()
def read_program(program: ExportedProgram, *, equal_sizes: bool = True) -> Exported:
    """A program of torch as data; raises DiagnosticError."""
    import torch  # heavy, and here in the user's program already

    buffer = io.BytesIO()
    lighter, live = without_weights(program)
    try:
        torch.export.save(lighter, buffer)
    except RuntimeError as error:  # of tensors that hold nothing, for instance
        raise DiagnosticError.of(NotAnArchive(IN_MEMORY, first_line(error))) from error
    exported = _read(buffer.getvalue(), IN_MEMORY, live)
    return with_equal_sizes(exported) if equal_sizes else exported


def _read(data: bytes, file: str, live: Mapping[str, Array] = MappingProxyType({})) -> Exported:
    try:
        return read_graph(with_weights(read_archive(data), live))
    except Damaged as damage:
        raise DiagnosticError.of(NotAnArchive(file, str(damage))) from None


def import_read(
    exported: Exported,
    file: str,
    name: str | None,
    *,
    origin: str = "a torch.export program",
    config: Mapping[str, Any] | None = None,
    saved: SavedTensors | None = None,
    witness: Witness | None = None,
    module: ModuleRun | None = None,
) -> Imported:
    """The diagram of a program that was read; a `witness` computes its outputs in another way.

    Raises DiagnosticError with all that is in the way.
    """
    model = lower(exported)
    if not model.steps:
        raise DiagnosticError.of(NotAnArchive(file, "it computes nothing"))
    blocks = fold(model)
    entry = identifier(name or blocks.entry.kind, "Model")
    heading = (f"Imported from {origin} of {entry}.", *model.notes)
    written = write(model, blocks, entry, heading)
    proof = prove(written.text, written.weights, model, exported, witness, module)
    notes = [*model.notes]
    text = written.text
    if limits := _describe_limits(exported, written.symbols, proof):
        notes.append(limits)
        first, rest = text.split("\n", 1)
        text = f"{first}\n# {limits}\n{rest}"
    params = {
        path: np.array(part(exported.arrays[weight.source], weight), order="C")
        for path, weight in written.weights.items()
    }
    params = _with_one_type(params, written.weights, exported)
    names = _names(written.weights, exported, config, saved)
    return Imported(text, params, written.weights, names, proof, tuple(notes))


def _with_one_type(
    params: Mapping[str, Array], weights: Mapping[str, Weight], exported: Exported
) -> dict[str, Array]:
    """The parameters, with constant tables in the element type of the trained ones."""
    own = {each.target for each in exported.entries if each.kind == "parameter"}
    kinds = {array.dtype for path, array in params.items() if weights[path].source in own}
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    return {
        path: array if kind is None or weights[path].source in own else array.astype(kind)
        for path, array in params.items()
    }


def _describe_limits(exported: Exported, names: Mapping[str, str], proof: ModelComparison) -> str:
    """The sizes that a diagram holds for, if it doesn't hold for all.

    torch never traces a size of 0 or 1, so only the module itself shows what it computes there.
    """
    parts: list[str] = []
    for symbol, name in sorted(names.items(), key=lambda item: item[1]):
        low, high = exported.limits[symbol]
        single = symbol in proof.single
        low = 1 if proof.module and low <= 2 and not single else max(low, 2)
        if high is not None:
            parts.append(f"{name} from {low} to {high}")
        elif low > 2 or single:
            parts.append(f"{name} from {low} on")
    return f"The diagram holds for {', '.join(parts)}." if parts else ""


def _names(
    sources: Mapping[str, Weight],
    exported: Exported,
    config: Mapping[str, Any] | None,
    saved: SavedTensors | None,
) -> str:
    try:
        return names_file(sources, exported, config, saved)
    except Unspeakable as problem:
        raise DiagnosticError.of(NotAnInput("a weight", problem.reason)) from None


# A model in memory as a diagram: traced with inputs of an example, and compared with itself.


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false


def trace(
    model: nn.Module | Callable[..., Any], *inputs: Tensor, name: str | None = None, **named: Tensor
) -> Imported:
    """A model of torch as a diagram, by one example of its inputs.

    Sizes that the model does not fix stay free; axes that are equally long in the example are one
    size, so give axes that differ different lengths. Dropout is written down and drops only when a
    run asks for it. Raises DiagnosticError with all that is in the way.
    """
    called = name or _name(model)
    _check_arguments(model, (*inputs, *named.values()), called)
    apart, keyed = _separate_inputs(inputs, named)
    return import_torch_module(_module(model), apart, keyed, called)


def _separate_inputs(
    inputs: tuple[Tensor, ...], named: Mapping[str, Tensor]
) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Copy inputs that are the same tensor: torch would trace them as one input."""
    seen: set[int] = set()

    def copied(x: Tensor) -> Tensor:
        again = id(x) in seen
        seen.add(id(x))
        return x.clone() if again else x

    return tuple(map(copied, inputs)), {name: copied(x) for name, x in named.items()}


def _check_arguments(model: object, inputs: Iterable[object], name: str) -> None:
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


def import_torch_module(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    named: Mapping[str, Tensor],
    name: str,
    *,
    first_output: bool = False,
    config: Mapping[str, Any] | None = None,
    saved: SavedTensors | None = None,
) -> Imported:
    """Import a module with all sizes free, or with features fixed if the diagram needs that.

    If neither can be said, the reasons are those of the last that torch could trace: what is in
    the way of free sizes only is not in the way of the model.
    """
    from xg_torch.importing.module_run import ModuleRun  # needs torch

    errors: list[DiagnosticError] = []
    run = ModuleRun(module, inputs, named, first_output=first_output)
    for features in (True, False):
        try:
            with evaluating(module):
                program = _export_module(module, inputs, named, features=features)
                return _import_decomposed(
                    program,
                    lambda program: import_program(
                        program,
                        name,
                        equal_sizes=True,
                        first_output=first_output,
                        config=config,
                        saved=saved,
                        module=run,
                    ),
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
    """Return the model as a module: itself, or a module that calls it."""
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

    No model gives a cache of keys and values, which torch cannot trace.
    """
    import torch

    modes = {each: each.training for each in module.modules()}
    configs: list[Any] = [getattr(each, "config", None) for each in module.modules()]
    ways = {
        id(config): (config, config._experts_implementation)
        for config in configs
        if hasattr(config, "_experts_implementation")
    }
    caches = {id(c): (c, c.use_cache) for c in configs if hasattr(c, "use_cache")}
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # calls of torch's own, for frozen models
    module.eval()
    for config, _ in ways.values():
        config._experts_implementation = "batched_mm"
    for config, _ in caches.values():
        config.use_cache = False
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for config, way in ways.values():
            config._experts_implementation = way
        for config, kept in caches.values():
            config.use_cache = kept
        for each, training in modes.items():
            each.training = training


def _export_module(
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
            with _silence():
                return torch.export.export(module, inputs, dict(named), dynamic_shapes=shapes)
        except Exception as error:
            reason = reason or error
    raise DiagnosticError.of(NotTraced(name, first_line(reason)))


def _import_decomposed(
    program: ExportedProgram, read: Callable[[ExportedProgram], Imported]
) -> Imported:
    """Read a program; if that fails, decompose some calls as torch does."""
    try:
        return read(program)
    except DiagnosticError as error:
        refused = all(each.code == NotSpoken.code for each in error.diagnostics)
        simpler = _decompose(program) if refused else None
        if simpler is None:
            raise
        try:
            return read(simpler)
        except DiagnosticError:
            raise error from None  # the error that names the model's own calls


def _decompose(program: ExportedProgram) -> ExportedProgram | None:
    """The program with calls that no rule reads as torch's own decompositions, if it has some."""
    import torch

    called = {str(node.target): node.target for node in program.graph.nodes}
    known: Any = torch.export.default_decompositions()
    unread = [each for name, each in called.items() if not is_read(name)]
    table = {each: known[each] for each in unread if each in known}
    if not table:
        return None
    try:
        with _silence():
            return program.run_decompositions(table)
    except Exception:  # of all kinds; the program as it is has a reason to report
        return None


@contextmanager
def _silence() -> Generator[None]:
    """Keep warnings and the graphs that torch logs off the terminal: errors have the reason."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


# A folder of transformers (config.json and weights) as a diagram.
#
# The class comes from `architectures` in the config and from the installed transformers; code in
# the folder is never run, and weights that are pickles are refused.


CONFIG: Final = "config.json"
ROWS: Final = 2  # of the example: axes that differ have different lengths
LENGTH: Final = 7
OTHER_LENGTH: Final = 5


def import_folder(folder: Path, name: str | None = None) -> Imported:
    """The model of a folder; raises DiagnosticError with all that is in the way."""
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise _refusal(folder, f"{package} is not installed, which builds the model")
    config = _config(folder)
    kind = next(iter(cast("list[str]", config.get("architectures") or [])), "")
    transformers: Any = import_module("transformers")
    if not hasattr(transformers, kind):
        named = f"names {kind}, which transformers does not have" if kind else "names no class"
        raise _refusal(folder, f"its {CONFIG} {named} (`architectures`)")
    with _quiet():
        model = _load_model(getattr(transformers, kind), folder)
    inputs = example(model)
    if not inputs:
        raise _refusal(
            folder,
            f"{kind} reads {model.main_input_name}, of which no example is drawn here",
            "xg.trace(model, *inputs) takes an example of yours",
        )
    return import_torch_module(
        model,
        (),
        inputs,
        name or kind,
        first_output=True,
        config=config,
        saved=saved_tensors(model),
    )


def example(model: Any) -> dict[str, Tensor]:  # noqa: ANN401 - a model of transformers
    """Inputs by their names; empty for a model that reads what is not known here."""
    import torch

    config, names = model.config, signature(model.forward).parameters

    def ids(length: int) -> Tensor:
        return torch.arange(ROWS * length).reshape(ROWS, length) % (config.vocab_size - 3) + 3

    match model.main_input_name:
        case "input_ids":
            tensors = {"input_ids": ids(LENGTH)}
            if "attention_mask" in names:
                tensors["attention_mask"] = torch.ones(ROWS, LENGTH, dtype=torch.long)
            if getattr(config, "is_encoder_decoder", False):
                tensors["decoder_input_ids"] = ids(OTHER_LENGTH)
            return tensors
        case "pixel_values":
            size: Any = getattr(config, "image_size", 224)
            shape: list[int] = [size, size] if isinstance(size, int) else list(size)
            channels: int = getattr(config, "num_channels", 3)
            return {"pixel_values": torch.randn(ROWS, channels, *shape)}
        case "input_values" if hasattr(config, "num_mel_bins"):
            return {"input_values": torch.randn(ROWS, config.max_length, config.num_mel_bins)}
        case _:
            return {}


def _config(folder: Path) -> Mapping[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise _refusal(folder, f"it has no {CONFIG}, which says what the model is")
    try:
        config: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise _refusal(folder, f"its {CONFIG} is no JSON") from None
    if not isinstance(config, dict):
        raise _refusal(folder, f"its {CONFIG} is no table of names")
    return cast("dict[str, Any]", config)


def _load_model(kind: Any, folder: Path) -> Any:  # noqa: ANN401 - classes of transformers
    """The model with its weights, computing attention by products that can be read."""
    try:
        model = kind.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, attn_implementation="eager"
        )
    except Exception as error:  # transformers raises of all kinds
        text = (str(error).strip().splitlines() or ["no reason"])[0]
        raise _refusal(folder, f"transformers cannot load it: {text}") from error
    model.config.use_cache = False
    return model.eval()


@contextmanager
def _quiet() -> Generator[None]:
    """Without the bars and the advice of transformers."""
    log: Any = import_module("transformers.utils.logging")
    level = log.get_verbosity()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        log.enable_progress_bar()


def _refusal(folder: Path, reason: str, advice: str = "") -> DiagnosticError:
    return DiagnosticError.of(NotLoaded(folder.as_posix(), reason, advice))
