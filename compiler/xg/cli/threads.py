"""The number of threads for NumPy's matrix products.

One is the default. A small model gains little from a second thread, and where another program uses
the same cores, threads that wait for each other make a step many times slower.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Final

from xg.cli.quantities import positive

# What the libraries that NumPy may be built with read, once, when NumPy is imported.
_VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def add_threads(parser: ArgumentParser) -> None:
    """The option for a command that computes."""
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="of matrix products; default: 1, or what the environment says",
    )


def limit_threads(wanted: int | None) -> None:
    """Let matrix products take so many threads; has to come before NumPy is imported."""
    if wanted is not None:
        os.environ.update(dict.fromkeys(_VARIABLES, str(wanted)))
    elif not any(name in os.environ for name in _VARIABLES):
        os.environ["OMP_NUM_THREADS"] = "1"
