"""The collectives, one module each.

Every module holds one `COLLECTIVE`. They are found by being here: there is no list to edit.
docs/adding-a-collective.md says what else a new one needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Final

from xg.ir.placement import Collective, Kind, RankPrimitive
from xg.ir.prim import Expr


def _collectives() -> Iterator[Collective]:
    """Yield every record, in the order of the module names."""
    for module in sorted(info.name for info in iter_modules(__path__)):
        yield import_module(f"{__name__}.{module}").COLLECTIVE


def _by_move() -> Iterator[tuple[tuple[Kind, Kind], Collective]]:
    """Yield the collective of each change of state; raise ValueError if there are two."""
    leads: dict[tuple[Kind, Kind], Collective] = {}
    for each in COLLECTIVES.values():
        for move in each.moves:
            if move in leads:
                raise ValueError(f"{leads[move].name} and {each.name} both lead from {move}")
            leads[move] = each
    yield from leads.items()


COLLECTIVES: Final[Mapping[str, Collective]] = MappingProxyType(
    {each.name: each for each in _collectives()}
)
BY_GLYPH: Final[Mapping[str, Collective]] = MappingProxyType(
    {each.glyph: each for each in COLLECTIVES.values()}
)
# The collective that brings a value from one state to another.
MOVES: Final[Mapping[tuple[Kind, Kind], Collective]] = MappingProxyType(dict(_by_move()))
# The collective after which every rank has the sum or the maximum of terms in this state.
REDUCTIONS: Final[Mapping[Kind, Collective]] = MappingProxyType(
    {each.reduces: each for each in COLLECTIVES.values() if each.reduces and not each.cuts}
)

PRIMITIVES: Final[Mapping[str, RankPrimitive]] = MappingProxyType(
    {one.name: one for each in COLLECTIVES.values() for one in each.primitives}
)
# What a rank runs when it applies a primitive: a collective, or one of the three kinds below.
OWNERS: Final[Mapping[str, Collective]] = MappingProxyType(
    {one.name: each for each in COLLECTIVES.values() for one in each.primitives}
)
AROUND: Final = frozenset(name for name, one in PRIMITIVES.items() if one.goes_around)
SENDING: Final = frozenset(name for name, each in OWNERS.items() if each.price) - AROUND
LOCAL: Final = frozenset(PRIMITIVES) - SENDING - AROUND  # these know their rank, no more


def collective_of(expr: Expr) -> Collective | None:
    """Return the collective that a primitive is; None for one that sends nothing to other ranks."""
    return OWNERS[expr.prim] if expr.prim in SENDING else None
