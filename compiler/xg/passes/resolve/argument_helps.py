"""Refusals and helps for arguments in the wrong place; imported only where a text has one.

Without errors no text needs the modules behind it, and starting is most of the time of a command.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from xg.ir.op import Op
from xg.ir.use import Own, Word
from xg.passes.resolve.in_parentheses import (
    instead_of_tensor,
    refuse_none,
    refuse_option,
    to_operator,
)
from xg.passes.resolve.named_otherwise import other_argument, to_block
from xg.passes.resolve.undeclared import Beside
from xg.passes.resolve.units import LocatedBlock
from xg.syntax import ast


class Helps(NamedTuple):
    """The refusals and helps of arguments, by what they are for."""

    refuse_none: Callable[[Beside, Op], None]
    refuse_option: Callable[[Beside, Sequence[Word], Own, ast.Expr | None], None]
    to_operator: Callable[[Beside, Op, ast.Argument], str]
    other_argument: Callable[[Beside, Op, ast.Argument], str]
    to_block: Callable[[Beside, LocatedBlock, ast.Argument], str]
    instead_of_tensor: Callable[[Beside, Op, Own, ast.Expr], tuple[str, ...]]


HELPS: Final = Helps(
    refuse_none, refuse_option, to_operator, other_argument, to_block, instead_of_tensor
)
