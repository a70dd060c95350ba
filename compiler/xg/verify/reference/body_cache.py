"""The bodies of a program's steps, built once however often the steps run."""

from __future__ import annotations

from collections.abc import Mapping

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.graph import Apply, Value
from xg.ir.prim import Expr
from xg.ir.tensor import TensorType


@dataclass(frozen=True, slots=True)
class CachedBody:
    """The names of a body's operands, its outputs, and the expressions they need, in order."""

    operands: tuple[str, ...]
    outputs: tuple[Expr, ...]
    order: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class BodyCache:
    """The bodies of one program: the types of a step are the same whenever it runs."""

    known: dict[Apply, CachedBody] = field(default_factory=dict[Apply, CachedBody])

    def of(self, node: Apply, types: Mapping[Value, TensorType]) -> CachedBody:
        """The body of a step whose values have these types."""
        if node not in self.known:
            body = node.body(types)
            names = tuple(str(expr.name) for expr in body.operands)
            order = tuple(body.order())
            self.known[node] = CachedBody(names, body.outputs, order)
        return self.known[node]
