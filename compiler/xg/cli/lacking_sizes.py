"""Sizes that have no number yet, where parameters are made or arrays are given."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xg.driver import Program
from xg_runtime.errors import InputError


def refuse_open_parameters(program: Program, why: str, instead: str = "") -> None:
    """Raise InputError where the size of a parameter has no number; `why` it must have one."""
    for name, spec in program.params.items():
        free = [symbol for axis in spec.shape for symbol in _symbols(axis)]
        if free:
            shape = ", ".join(map(str, spec.shape))
            raise InputError(
                f"the parameter {name} [{shape}] has no number for {free[0]}, and {why}: "
                f"--set {free[0]}=…{instead}"
            )


def refuse_no_size(
    program: Program, shapes: Mapping[str, tuple[int, ...]], sources: Mapping[str, str]
) -> None:
    """Raise InputError for an axis as [2*T] whose length no T has; others have a number by now."""
    for name, spec in {**program.inputs, **program.params}.items():
        lengths = shapes.get(name, ())
        for axis, length in zip(spec.shape, lengths, strict=False):
            if isinstance(axis, str) and [axis] != _symbols(axis):
                shape, found = (", ".join(map(str, each)) for each in (spec.shape, lengths))
                where = f"{sources[name]}: {name}" if sources.get(name) else name
                raise InputError(
                    f"{where} has shape [{found}], expected [{shape}]: {length} is no {axis}"
                )


def _symbols(axis: int | str) -> list[str]:
    return re.findall(r"[^\W\d]\w*", axis) if isinstance(axis, str) else []
