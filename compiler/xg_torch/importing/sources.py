"""MODEL of `xg import`: a program, an ONNX file, a folder of transformers, or a function."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path, PureWindowsPath
from typing import Any, cast

from xg.diagnostics.diagnostic import DiagnosticError
from xg_runtime import files
from xg_torch.importing import Imported, import_archive, trace
from xg_torch.importing.errors import NotLoaded
from xg_torch.importing.model import import_folder
from xg_torch.importing.onnx_import import import_onnx

FORM = "it should return a model and an example of its inputs: (model, x, …) or (model, {name: x})"


def imported(model: str, name: str | None) -> Imported:
    """Import MODEL; raises DiagnosticError and FileError."""
    path = Path(model)
    if path.is_dir():
        return import_folder(path, name)
    of_windows = PureWindowsPath(model).is_absolute()  # C:\models\m.pt2 is no module called C
    if ":" in model and not of_windows and not path.exists():
        return _trace_function(model, name)
    if path.suffix == ".onnx":
        with files.file_errors("read"):
            return import_onnx(path, name)
    return import_archive(files.read(path), path.as_posix(), name)


def _trace_function(model: str, name: str | None) -> Imported:
    """``module:function``, from the working folder or installed: it makes model and inputs."""
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
    return DiagnosticError.of(NotLoaded(model, reason))
