"""The fused operators, one module each; each replaces a pattern of the language's operators.

Every module has one `FUSION`. They are discovered, and tried in the order of names, after
attention, which the core has for ring attention.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from xg.passes.ring import attention
from xg.passes.ring.attention import Fusion


@cache
def fusions() -> tuple[Fusion, ...]:
    """All of them."""
    names = sorted(info.name for info in iter_modules(__path__))
    return (attention.FUSION, *(import_module(f"{__name__}.{name}").FUSION for name in names))
