"""MODULE:BUILD of `xg compare`: a function of the user's, called for a torch module."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from xg_runtime.errors import InputError

if TYPE_CHECKING:
    from torch import nn


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
