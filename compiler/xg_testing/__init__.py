"""Test diagrams in your own repository: a pytest plugin, `xg lock`, and assertions.

record       the facts of a block that a lock keeps
lockfile     `xg.lock` as a text, read and written
differences  a block beside its record, in words
checking     the files of a folder beside its lock
plugin       the pytest plugin
proofs       the proofs that it runs
asserts      the assertions below
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xg_testing.asserts import assert_code_unchanged, assert_numbers, assert_proven
    from xg_torch.testing import assert_matches

__all__ = ["assert_code_unchanged", "assert_matches", "assert_numbers", "assert_proven"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a function of this package
    """Import an assertion when it is first used: pytest loads this package in every run."""
    if name not in __all__:
        raise AttributeError(f"module 'xg_testing' has no attribute '{name}'")
    home = "xg_torch.testing" if name == "assert_matches" else "xg_testing.asserts"
    return getattr(import_module(home), name)
