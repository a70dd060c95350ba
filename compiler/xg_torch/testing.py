"""Assert in your own tests that a torch module computes what a diagram says.

from xg_torch.testing import assert_matches

def test_my_model():
    assert_matches(build(), "gpt2.xg")
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from xg.cli.opening import open_project
from xg_torch.compare.comparison import TOLERANCE, Counterpart, compare_module, lines

if TYPE_CHECKING:
    from torch import nn

    from xg.frontend.typed import Settings

__all__ = ["assert_matches"]


def assert_matches(
    model: nn.Module,
    file: str | os.PathLike[str],
    *,
    block: str | None = None,
    names: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
    inputs: Mapping[str, NDArray[Any]] | None = None,
    as_is: bool = False,
    tolerance: float = TOLERANCE,
) -> None:
    """Raise AssertionError with the first edge, forward or backward, where a module differs.

    `names` is the file that tells its parameters, by default NAME.names.toml beside the diagram.
    Inputs are drawn unless they are given, and so are weights unless they are to stay `as_is`; the
    module is left in float64, in evaluation mode, with the weights that were drawn.
    """
    options = Namespace(
        file=os.fspath(file),
        block=block,
        settings=list((settings or {}).items()),
        names=None if names is None else Path(names),
        plan=None,
    )
    project = open_project(options.file)
    given = dict(inputs or {})
    counterpart = Counterpart.of(project, options, model, given, draw=not as_is)
    found = compare_module(counterpart, given, tolerance)
    if found.first is not None:
        raise AssertionError("\n".join(lines(found, type(model).__name__)))
