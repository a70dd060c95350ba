"""How much the tests try: what every commit needs, or with XG_THOROUGH=1 all that there is.

`./dev verify-all` runs every test with XG_THOROUGH=1. A test that tries less without it tries some
of each kind: fewer random programs, some elements of each gradient in place of all.
"""

import os
from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar

THOROUGH: Final = os.environ.get("XG_THOROUGH") == "1"
T = TypeVar("T")


def some(
    cases: Iterable[T], kind: Callable[[T], Hashable], *, thorough: bool = THOROUGH
) -> list[T]:
    """Choose the first case of each kind, in the order of the cases; or all of them."""
    every = list(cases)
    kinds = [kind(case) for case in every]
    first = [place for place, each in enumerate(kinds) if each not in kinds[:place]]
    return every if thorough else [every[place] for place in first]
