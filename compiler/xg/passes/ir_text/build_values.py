"""Values of a graph that is read: their names, and the tables of what is known of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from lark import Token

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.source import Source, Span
from xg.ir.graph import Role, Step, Value
from xg.ir.placement import Placement, PlacementRequest
from xg.ir.tensor import Sizes, TensorType
from xg.passes.ir_text.errors import Meaningless
from xg.passes.ir_text.expression import as_dim
from xg.passes.ir_text.records import TypeText, ValueText
from xg.passes.ir_text.value_names import bare


@dataclass(slots=True)
class GraphScope:
    """The names of a graph and of its backward pass."""

    values: dict[str, Value] = field(default_factory=dict[str, Value])
    makers: dict[str, Step] = field(default_factory=dict[str, Step])  # by what they make first

    def value(self, name: str) -> Value:
        """The value of a name; the error has the line of a token."""
        if str(name) not in self.values:
            raise Meaningless(f"no value before is called {name}", getattr(name, "line", None))
        return self.values[str(name)]

    def all(self, names: Iterable[Token]) -> tuple[Value, ...]:
        """Several values."""
        return tuple(map(self.value, names))

    def add(self, name: Token, value: Value) -> Value:
        """A value under a name that is new."""
        if str(name) in self.values:
            raise Meaningless(f"{name} is made a second time", name.line)
        self.values[str(name)] = value
        return value

    def maker(self, name: Token) -> Step:
        """The forward step that makes a value first."""
        if str(name) not in self.makers:
            raise Meaningless(f"no forward step makes {name} first", name.line)
        return self.makers[str(name)]


@dataclass(slots=True)
class Values:
    """The values of one graph while it is made."""

    source: Source
    scope: GraphScope
    sizes: Sizes
    types: dict[Value, TensorType] = field(default_factory=dict[Value, TensorType])
    placements: dict[Value, Placement] = field(default_factory=dict[Value, Placement])
    placement_requests: dict[Value, Mapping[str, PlacementRequest]] = field(
        default_factory=dict[Value, Mapping[str, PlacementRequest]]
    )
    of: dict[Value, Value] = field(default_factory=dict[Value, Value])

    def make(self, text: ValueText, role: Role, *, written: bool = False) -> Value:
        """A value where it comes into being; a `written` type is how people see it as well."""
        kind = role if text.role is None else cast("Role", text.role)
        declared = None
        if text.type is not None and written:
            declared = self.type(text.type, written=True)
        if text.shown is not None:
            declared = TensorType(tuple(as_dim(dim) for dim in text.shown))
        value = Value(
            bare(text.name),
            kind,
            span_of(text.name, self.source),
            declared,
            text.frozen is not None,
        )
        self.scope.add(text.name, value)
        return self._told(value, text)

    def again(self, text: ValueText) -> Value:
        """A value of the forward pass where the backward pass makes it once more."""
        return self._told(self.scope.value(text.name), text)

    def _told(self, value: Value, text: ValueText) -> Value:
        """A value with all that its text says of it in the tables."""
        if text.type is not None:
            self.types[value] = self.type(text.type)
        if text.placement is not None:
            self.placements[value] = text.placement
        if text.placement_requests is not None:
            self.placement_requests[value] = text.placement_requests
        if text.of is not None:
            self.of[value] = self.scope.value(text.of)
        return value

    def type(self, text: TypeText, *, written: bool = False) -> TensorType:
        """A type, as it is `written` or free of defined symbols."""
        sizes = None if written else self.sizes
        shape = tuple(as_dim(dim, sizes) for dim in text.shape)
        return TensorType(shape, None if text.range is None else as_dim(text.range, sizes))

    def line(self, token: Token) -> Span:
        """The line that a token begins."""
        start = token.start_pos or 0
        end = self.source.text.find("\n", start)
        return Span(self.source, start, len(self.source.text) if end < 0 else end)


def span_of(token: Token, source: Source) -> Span:
    """The place of a token."""
    start = token.start_pos or 0
    return Span(source, start, start + len(token))
