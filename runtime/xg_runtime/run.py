"""One run of a program on given arrays: outputs, and gradients when cotangents are given.

    found = run(module, params, inputs)                              {"Y": …}
    found = run(module, params, inputs, d_outputs={"Y": …})          {"Y": …, "d/X": …, "d/W": …}

Results are keyed by diagram names; a gradient is `d/` and the name of its tensor.
"""

import numpy as np

from xg_runtime.errors import RunError
from xg_runtime.module import Array, Arrays, Module, is_float


def run(
    module: Module,
    params: Arrays,
    inputs: Arrays,
    *,
    d_outputs: Arrays | None = None,
    seed: int | None = None,
) -> Arrays:
    """Return the outputs, then the gradients, by name; dropout is on when `seed` is given.

    The arrays must fit the program (`expect.fit`). Raises RunError for a NaN.
    """
    return checked(compute_results(module, params, inputs, d_outputs=d_outputs, seed=seed))


def compute_results(
    module: Module,
    params: Arrays,
    inputs: Arrays,
    *,
    d_outputs: Arrays | None = None,
    seed: int | None = None,
) -> Arrays:
    """Return the results of `run` unchecked; of a rank its parts."""
    with np.errstate(all="ignore"):  # `checked` finds and names a NaN
        outputs, saved = module.forward(params, inputs, seed=seed)
        results = dict(outputs)
        if d_outputs is not None:
            gradients = module.backward(params, saved, d_outputs)
            results |= {f"d/{name}": gradient for name, gradient in gradients.items()}
    return results


def checked(results: Arrays) -> Arrays:
    """Return results as arrays; raises RunError for a NaN, naming the first that has one.

    -∞ may be intended, as where a mask hides a score.
    """
    for name, result in results.items():
        if _has_nan(result):
            raise RunError(f"{name} holds values that are not numbers (NaN)")
    return {name: np.asarray(result) for name, result in results.items()}


def _has_nan(array: Array) -> bool:
    return is_float(array) and bool(np.isnan(array).any())
