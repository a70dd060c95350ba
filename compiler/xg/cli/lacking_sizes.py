"""Sizes that have no number yet, where parameters are made or arrays are given."""

from __future__ import annotations

import re
from collections.abc import Mapping

from xg.driver import Program
from xg.ir.known_sizes import SizeSources
from xg.ir.tensor import spell_shape
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
    main = program.graphs.main
    for shape in SizeSources.of(program.graphs).idle(main):
        unknown = [name for dim in shape for name in main.sizes.computed(dim).symbols()]
        if free := [name for name in unknown if name not in main.sizes.defaults]:
            said = spell_shape(main.sizes.fold_shape(shape))
            raise InputError(
                f"a parameter {said} of a call that may have no round has no number for {free[0]}, "
                f"and {why}: --set {free[0]}=…{instead}"
            )


def refuse_no_size(
    program: Program, shapes: Mapping[str, tuple[int, ...]], sources: Mapping[str, str]
) -> None:
    """Raise InputError for an axis as [2*T] whose length no T has; others have a number by now."""
    numbers = program.graphs.main.sizes.defaults
    for name, spec in {**program.inputs, **program.params}.items():
        lengths = shapes.get(name, ())
        for axis, length in zip(spec.shape, lengths, strict=False):
            symbols = _symbols(axis)
            unknown = [name for name in symbols if name not in numbers]
            if len(unknown) == 1 and symbols != [axis]:  # of two of them code asks for one
                shape, found = (", ".join(map(str, each)) for each in (spec.shape, lengths))
                where = f"{sources[name]}: {name}" if sources.get(name) else name
                raise InputError(
                    f"{where} has shape [{found}], expected [{shape}]: {length} is no {axis}"
                )


def _symbols(axis: int | str) -> list[str]:
    return re.findall(r"[^\W\d]\w*", axis) if isinstance(axis, str) else []
