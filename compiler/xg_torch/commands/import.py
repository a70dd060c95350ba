"""`xg import`: a model of torch or ONNX as an `.xg` file, with its names and weights."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any, cast

from xg.cli.arguments import FileOrName, XgFile
from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.terminal import counted

if TYPE_CHECKING:
    from xg_torch.importing import Imported
    from xg_torch.importing.proof import ModelComparison

# ruff: noqa: N999 - the module has the name of its command, which is a keyword


EXAMPLE = (
    "xg export mlp --seed 0 -o mlp.onnx\n"
    "xg import mlp.onnx -o imported.xg --params imported.safetensors"
)


def add_arguments(parser: ArgumentParser) -> None:
    """A model, and where the diagram and the weights go."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        type=FileOrName,
        help="a .pt2 file of torch.export.save (xg reads it as data), an .onnx file, a "
        "folder of transformers (config.json and weights), or module:function, which "
        "returns a model and its inputs",
    )
    parser.add_argument(
        "-o",
        dest="out",
        metavar="FILE.xg",
        type=XgFile,
        required=True,
        help="write the diagram here; - prints it",
    )
    parser.add_argument(
        "--params", metavar="P", type=Path, help="also write the weights: .safetensors or .npz"
    )
    parser.add_argument(
        "--name", metavar="NAME", help="name of the main block; default: the model's class"
    )


def run(options: Namespace, console: Console) -> int:
    """Read, translate, compare; write every file or none."""
    from xg_runtime import arrays, files

    _refuse_endings(options)
    console.working(f"reading {options.model}, and comparing it")
    translation = _import_model(options.model, options.name)
    written: dict[Path, bytes] = {}
    if options.out != "-":
        written[Path(options.out)] = translation.text.encode()
        written[_names_of(options)] = translation.names.encode()
    if options.params:
        written[options.params] = arrays.pack(options.params, dict(translation.params))
    files.write_files(written)
    if options.out == "-":
        console.write(translation.text)
    else:
        _say(options, translation, console)
    return FINE


def _names_of(options: Namespace) -> Path:
    """The file of names beside the diagram."""
    from xg.cli.input_arrays import ENDING

    return Path(options.out).with_suffix(ENDING)


def _say(options: Namespace, made: Imported, console: Console) -> None:
    blocks = sum(line.startswith("block ") for line in made.text.splitlines())
    counts = f"{counted(blocks, 'block')}, {counted(len(made.params), 'parameter')}"
    console.say(f"{options.out}: {counts}, {_describe_proof(made.proof)}")
    for note in made.notes:
        console.say(f"note: {note}")
    console.say(f"{_names_of(options)}: the tensors of the model that they are")
    if options.params:
        console.say(f"{options.params}: their numbers, by the names of {options.out}")


def _describe_proof(proof: ModelComparison) -> str:
    if not proof.compared:
        return "checked, but not compared with the model: torch is not installed"
    whose = "the model's" if proof.module else "the exported program's"
    return f"outputs and gradients within {proof.tolerance} of {whose}"


def _refuse_endings(options: Namespace) -> None:
    """Raise FileError for a file that could not be written, before anything is read."""
    from xg_runtime.arrays import ENDINGS
    from xg_runtime.errors import FileError

    if options.out != "-" and Path(options.out).suffix != ".xg":
        raise FileError(f"{options.out}: the file of a diagram must end in .xg")
    path = options.params
    if path is not None and path.suffix not in ENDINGS:
        raise FileError(f"{path}: a file of arrays must end in {', '.join(ENDINGS)}")


# MODEL: a program, an ONNX file, a folder of transformers, or a function.


FORM = "it should return a model and an example of its inputs: (model, x, …) or (model, {name: x})"


def _import_model(model: str, name: str | None) -> Imported:
    """Import MODEL; raises DiagnosticError and FileError."""
    from xg_runtime import files
    from xg_torch.importing.model import import_archive, import_folder
    from xg_torch.importing.onnx_model import read_onnx

    path = Path(model)
    if path.is_dir():
        return import_folder(path, name)
    of_windows = PureWindowsPath(model).is_absolute()  # C:\models\m.pt2 is no module called C
    if ":" in model and not of_windows and not path.exists():
        return _trace_function(model, name)
    if path.suffix == ".onnx":
        with files.file_errors("read"):
            model_read = read_onnx(path)  # raises if torch is not there
        from xg_torch.importing.onnx_module import import_model

        return import_model(model_read, path.as_posix(), name)
    return import_archive(files.read(path), path.as_posix(), name)


def _trace_function(model: str, name: str | None) -> Imported:
    """``module:function``, from the working folder or installed: it makes model and inputs."""
    from xg_torch.importing.model import trace

    parts = _function(model)()
    if not isinstance(parts, Sequence) or len(cast("Sequence[object]", parts)) < 2:
        raise _refusal(model, FORM)
    module, *inputs = cast("Sequence[Any]", parts)
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        return trace(module, name=name, **cast("Mapping[str, Any]", inputs[0]))
    return trace(module, *inputs, name=name)


def _function(model: str) -> Any:  # noqa: ANN401 - whatever the user has written
    place, _, attribute = model.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = import_module(place)
    except ModuleNotFoundError as error:
        if place.endswith(".py"):
            reason = f"a module has no ending: {place.removesuffix('.py')}:{attribute}"
            raise _refusal(model, reason) from error
        if error.name != place.partition(".")[0]:
            raise _refusal(model, f"it needs {error.name}, which is not installed") from error
        raise _refusal(model, f"there is no module {place}") from error
    finally:
        sys.path.remove(str(Path.cwd()))
    function = getattr(module, attribute, None)
    if not callable(function):
        raise _refusal(model, f"{place} has no function {attribute}")
    return function


def _refusal(model: str, reason: str) -> DiagnosticError:
    from xg_torch.importing.errors import NotLoaded

    return DiagnosticError.of(NotLoaded(model, reason))
