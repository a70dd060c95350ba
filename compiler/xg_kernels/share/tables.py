"""The numbers that a graph is given or makes, each list of them once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.source import Span
from xg.ir.body import same
from xg.ir.graph import Apply, Graph, Value
from xg.ir.op import Op
from xg.ir.prim import Expr
from xg.ir.tensor import TensorType
from xg_kernels.share.parts import fresh


@dataclass(slots=True, eq=False)
class SizeTable:
    """Expressions of sizes alone, the values that they are in a graph, and how many read them."""

    parts: tuple[Expr, ...]
    values: tuple[Value, ...]
    span: Span
    readers: int = 0

    def step(self) -> Apply:
        """The step that makes them."""
        names = tuple(str(value.name) for value in self.values)
        op = Op(
            glyph="tables",
            name="tables",
            family="source",
            forward=lambda: list(self.parts),
            data=(),
            outputs=names,
            derived=True,
            meaning="numbers that depend on sizes alone, for all who read them",
        )
        return Apply(op, (), self.values, {}, self.span)


@dataclass(slots=True)
class SizeTables:
    """Those of one graph; their values have a role there. `used` are what its steps read."""

    graph: Graph
    role: Literal["edge", "input"]
    known: list[SizeTable] = field(default_factory=list[SizeTable])
    used: list[SizeTable] = field(default_factory=list[SizeTable])
    names: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        """Begin with the names that are taken."""
        self.names |= {name for name, _ in self.graph.names()}
        self.names |= {state.name for state in self.graph.states}

    def count(self, parts: Sequence[Expr], readers: int) -> None:
        """Note what some steps read."""
        for table in self.known:
            if same(table.parts, parts):
                table.readers += readers
                return
        self.known.append(SizeTable(tuple(parts), self._values(parts), self.graph.span, readers))

    def table(self, parts: Sequence[Expr]) -> SizeTable:
        """The table of what was noted."""
        return next(table for table in self.known if same(table.parts, parts))

    def use(self, table: SizeTable) -> None:
        """Have the graph make a table, or be given it."""
        if table not in self.used:
            self.used.append(table)

    def types(self) -> dict[Value, TensorType]:
        """The types of what is used."""
        return {
            value: TensorType(part.shape)
            for table in self.used
            for value, part in zip(table.values, table.parts, strict=True)
        }

    def _values(self, parts: Sequence[Expr]) -> tuple[Value, ...]:
        values: list[Value] = []
        for part in parts:
            name = fresh(part.name or "table", self.names)
            self.names.add(name)
            values.append(Value(name, self.role, self.graph.span))
        return tuple(values)
