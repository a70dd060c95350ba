"""The bodies of a program's steps, made once however often the steps run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xg.ir.body import topological
from xg.ir.graph import Apply, Value
from xg.ir.prim import Expr
from xg.ir.tensor import TensorType


@dataclass(frozen=True, slots=True)
class Trace:
    """The names of a body's operands, its outputs, and all that they need, arguments first."""

    operands: tuple[str, ...]
    outputs: tuple[Expr, ...]
    order: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Traces:
    """The traces of one program: a step's types are the same whenever it runs."""

    known: dict[Apply, Trace] = field(default_factory=dict[Apply, Trace])

    def of(self, node: Apply, types: Mapping[Value, TensorType]) -> Trace:
        """The trace of a step, its values having these types."""
        if node not in self.known:
            body = node.op.body([types[value] for value in node.inputs], node.attrs)
            names = tuple(str(expr.name) for expr in body.operands)
            order = tuple(topological(body.outputs))
            self.known[node] = Trace(names, body.outputs, order)
        return self.known[node]
