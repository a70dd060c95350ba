"""A block with everything chosen: what one graph is made for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span
from xg.ir.dim import Dim
from xg.ir.scalar import Scalar
from xg.passes.resolve.units import LocatedBlock


@dataclass(frozen=True, slots=True)
class BlockInstance:
    """A block with everything chosen: what one graph is made for."""

    located: LocatedBlock
    words: tuple[tuple[str, str], ...] = ()
    numbers: tuple[tuple[str, Scalar], ...] = ()

    @property
    def name(self) -> str:
        """The block's name with what was chosen: ``Attention(mask=causal)``."""
        chosen = [f"{name}={value}" for name, value in (*self.words, *self.numbers)]
        return self.located.block.name.name + (f"({', '.join(chosen)})" if chosen else "")


@dataclass(frozen=True, slots=True)
class ResolvedCall:
    """A call that was made: what it calls and where, and whether `as` named it or it is a row.

    `sizes` are the callee's symbols that the call gives, in the caller's sizes.
    """

    instance: BlockInstance
    sizes: Mapping[str, Dim]
    span: Span
    named: bool
    row: bool


Request = Callable[[BlockInstance], str]  # the key of an instance's graph, which is made if need be
