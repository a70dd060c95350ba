"""The type of a collective that was begun, for kernels that send.

Kernels are text of generated modules, which import what they call from `xg_runtime.ranks`; the
compiler does not.
"""

from __future__ import annotations

from typing import NoReturn, Protocol, TypeVar

T = TypeVar("T", covariant=True)


class Handle(Protocol[T]):
    """As that of `xg_runtime.ranks`."""

    def wait(self) -> T:
        """Return the result; once."""
        ...


def only_in_modules(*_: object) -> NoReturn:
    """Stand for a function of the runtime where a kernel is a file of the compiler."""
    raise RuntimeError("a generated module imports this from xg_runtime.ranks")
