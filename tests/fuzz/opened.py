"""Random programs that leave as many numbers out as arrays tell."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from fuzz.proof import Failure, compiled
from fuzz.sketch import Sketch

from xg.codegen.backend import default
from xg.diagnostics.diagnostic import DiagnosticError, Source
from xg.frontend.warnings import warn_unbound_sizes
from xg.syntax.parse import parse

LEFT_OUT = 0.7  # of the numbers, before those are said again that code needs
UNNUMBERED = "XG0501"


def opened(sketch: Sketch, seed: int) -> Sketch:
    """The program without the numbers of some of its sizes; all of them have one in `numbers`.

    `xg check` says which of them must be given, and those have their numbers. Raises Failure where
    code needs others, or fewer.
    """
    random = Random(seed)
    left_out = [
        name
        for name, number in sketch.numbers.items()
        if sketch.dims.get(name) == str(number) and random.random() < LEFT_OUT
    ]
    program = without(sketch, left_out)
    needed = _needed(program)
    if bool(needed) != _lacks_number(program):
        raise Failure("open sizes", f"check says {needed or 'none'}, code says otherwise")
    while needed:
        left_out = [name for name in left_out if name not in needed]
        program = without(sketch, left_out)
        needed = _needed(program)
    return program


def without(sketch: Sketch, names: list[str]) -> Sketch:
    """The program without the numbers of these sizes."""
    return replace(sketch, dims={**sketch.dims, **dict.fromkeys(names, "")})


def _needed(sketch: Sketch) -> list[str]:
    """The sizes that `xg check` warns of."""
    program = compiled(parse(Source("case.xg", str(sketch))), sketch, dead=False)
    words = (found.message.split() for found in warn_unbound_sizes(program))
    return [each[-1] for each in words]


def _lacks_number(sketch: Sketch) -> bool:
    """Whether no code can be written for want of a number."""
    program = compiled(parse(Source("case.xg", str(sketch))), sketch, dead=False)
    try:
        default().source(program, None, kernels=False)
    except DiagnosticError as error:
        if {found.code for found in error.diagnostics} != {UNNUMBERED}:
            raise
        return True
    return False
