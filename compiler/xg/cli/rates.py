"""The table of machines: the bundled one, or the one that `--hardware` names."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path

from xg.cost.hardware import Machine, UnreadableMachines, machines
from xg_runtime.errors import InputError
from xg_runtime.files import read


def read_machines(path: Path | None) -> tuple[Machine, ...]:
    """Every machine of a table; raises FileError, InputError."""
    if path is None:
        text = files("xg.cost").joinpath("hardware.toml").read_text(encoding="utf-8")
        return machines(tomllib.loads(text))
    try:
        return machines(tomllib.loads(read(path).decode("utf-8")))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is no TOML: {error}") from None
    except UnreadableMachines as unfit:
        raise InputError(f"{path}: {unfit}") from None
