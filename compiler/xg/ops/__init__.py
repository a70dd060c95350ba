"""The operators of the language, one module each.

Every module holds one `OP`. They are found by being here: there is no list to edit. Those that move
a tensor between ranks are made of the records in `xg.ir.collectives`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from xg.ir.collectives import COLLECTIVES
from xg.ir.moves import operator
from xg.ir.op import Op


@cache
def table() -> Mapping[str, Op]:
    """Return every operator by its glyph, in the order of the names of their files."""
    named = {each.name: operator(each) for each in COLLECTIVES.values() if each.meaning}
    for module in iter_modules(__path__):
        named[module.name] = import_module(f"{__name__}.{module.name}").OP
    ops: dict[str, Op] = {}
    for name, op in sorted(named.items()):
        if op.glyph in ops:
            raise ValueError(f"two operators are written {op.glyph}: see {name}.py")
        ops[op.glyph] = op
    return ops


def find(glyph: str) -> Op | None:
    """The operator written so, or None."""
    return table().get(glyph)
