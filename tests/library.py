"""The shipped diagrams, found by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from xg import ops
from xg.frontend.project import read_project
from xg.syntax import ast
from xg.syntax.ast import walk

LIBRARY: Final = Path(__file__).parents[1] / "diagrams"
# Together they have every operator and construct of the library: `test_tier` counts.
VARIED: Final = frozenset(
    {
        *("cat_sleeps", "convnet", "hvp", "legend", "mamba", "moe", "node_i", "ops"),
        *("resnet", "rwkv", "t5", "transformer", "unet", "vae", "vit"),
    }
)


def varied(path: Path) -> bool:
    """Whether a diagram is one of these."""
    return path.stem in VARIED


def shipped(name: str) -> Path:
    """The shipped diagram of that name, in whichever folder it is."""
    (path,) = LIBRARY.glob(f"*/{name}.xg")
    return path


def constructs(path: Path) -> Iterator[str]:
    """The operators and the parts of the language that a file has."""
    for tree in walk(read_project(path).main):
        yield type(tree).__name__
        if isinstance(tree, ast.NodeUse):
            yield from (name for name in ("over", "guard", "repeat") if getattr(tree, name))
        if isinstance(tree, ast.NodeUse | ast.Call) and tree.operator.name in ops.table():
            yield tree.operator.name


def another_user(home: Path) -> dict[str, str]:
    """The variables of somebody who has nothing here but the engine of layouts.

    That is the same machine code for all: to compile it again for each takes over a second.
    """
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CACHE_HOME": cache}
