"""Inputs that a block can take: a logarithm or a root has no value for what is drawn around 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from xg.ir.graph import Program
from xg.verify.first_nan import refuse_nan
from xg_runtime.errors import RunError
from xg_runtime.module import Array, Arrays

DOMAINS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "": lambda x: x,  # around 0, positive and negative
    "inputs above 0": lambda x: np.abs(x) + 0.1,
    "inputs between 0 and 1": lambda x: 0.1 + 0.8 / (1.0 + np.exp(-x)),
    "inputs above 10": lambda x: np.abs(x) + 10.1,
}


def fitting_inputs(
    program: Program, params: Mapping[str, Array], drawn: Arrays, seed: int
) -> tuple[Arrays, str]:
    """The drawn inputs in the first domain in which every edge is a number, and its name.

    Raises RunError with the first edge that is none as drawn, if there is no such domain.
    """
    refused: RunError | None = None
    for name, moved in DOMAINS.items():
        inputs = {key: moved(x) if x.dtype.kind == "f" else x for key, x in drawn.items()}
        try:
            refuse_nan(program, params, inputs, seed)
        except RunError as error:
            refused = refused or error
        else:
            return inputs, name
    assert refused
    raise refused
