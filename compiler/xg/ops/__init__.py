"""The operators of the language, one module each.

Every module holds one `OP`. They are found by being here: there is no list to edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from xg.ir.op import Op


@cache
def table() -> Mapping[str, Op]:
    """Every operator by its glyph, in the order of the module names."""
    ops: dict[str, Op] = {}
    for module in sorted(info.name for info in iter_modules(__path__)):
        op: Op = import_module(f"{__name__}.{module}").OP
        if op.glyph in ops:
            raise ValueError(f"two operators are written {op.glyph}: see {module}.py")
        ops[op.glyph] = op
    return ops


def find(glyph: str) -> Op | None:
    """The operator written so, or None."""
    return table().get(glyph)
