"""The table of parameters: names, shapes and what they start as, with loops kept as loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xg.dim import Dim
from xg.emit.spelling import Scope
from xg.emit.text import tuple_of
from xg.graph import Call, Graph, Program
from xg.instances import inside
from xg.scalar import Scalar
from xg.tensor import Shape


def table_lines(program: Program, scope: Scope) -> list[str]:
    """Lines that fill ``starts``, a dictionary from name to shape and start.

    The parameters of a graph stand before those of its calls.
    """
    lines: list[str] = []
    with_params = _with_params(program)
    waiting = [_Level(program.main, "", 0, {})]
    while waiting:
        level = waiting.pop()
        lines += level.lines(scope)
        inner = [level.below(call, program, scope) for call in level.graph.named_calls()]
        waiting += reversed([each for each in inner if each.graph.key in with_params])
    return lines


@dataclass(frozen=True, slots=True)
class _Level:
    """One use of a graph: where its parameters are, inside how many loops, and their sizes.

    `loop` is the line that begins the innermost loop, where this use is its body.
    """

    graph: Graph
    path: str
    depth: int
    symbols: Mapping[str, Dim]
    loop: str = ""

    def lines(self, scope: Scope) -> Iterator[str]:
        indent = "    " * self.depth
        if self.loop:
            yield self.loop
        own = [
            f"{indent}    {_key(self.path, str(param.value.name))}: "
            f"({_shape(self._in_entry(param.type.shape), scope)}, "
            f"{_start(param.start, self.graph, self.symbols, scope)}),"
            for param in self.graph.params
        ]
        if own:
            yield from (f"{indent}starts |= {{", *own, f"{indent}}}")

    def below(self, call: Call, program: Program, scope: Scope) -> _Level:
        """The use of the callee of a call."""
        callee = program.graphs[call.callee]
        inner = inside(call, self.graph, callee, self.symbols)
        path = f"{self.path}.{call.path}" if self.path else call.path
        if call.count is None:
            return _Level(callee, path, self.depth, inner)
        counter = "ijklmn"[self.depth]
        count = scope.size(call.count.substitute(self.symbols)).text
        loop = f"{'    ' * self.depth}for {counter} in range({count}):"
        return _Level(callee, f"{path}.{{{counter}}}", self.depth + 1, inner, loop)

    def _in_entry(self, shape: Shape) -> Shape:
        """A shape in the symbols of the entry."""
        return tuple(self.graph.sizes.expand(dim).substitute(self.symbols) for dim in shape)


def _key(path: str, name: str) -> str:
    full = f"{path}.{name}" if path else name
    return f'f"{full}"' if "{" in full else f'"{full}"'


def _shape(shape: Shape, scope: Scope) -> str:
    return tuple_of(scope.shape(shape)) if shape else "()"


def _start(start: str | Scalar, graph: Graph, symbols: Mapping[str, Dim], scope: Scope) -> str:
    if isinstance(start, str):
        return f'"{start}"'
    expanded = start.substitute({name: graph.sizes.expand(dim) for name, dim in _self(start)})
    return scope.number(expanded.substitute(symbols)).text


def _self(scalar: Scalar) -> Iterator[tuple[str, Dim]]:
    from xg.dim import symbol

    for name in scalar.symbols():
        yield name, symbol(name)


def _with_params(program: Program) -> frozenset[str]:
    """The graphs that have parameters, or whose calls have."""
    found: set[str] = set()
    for key, graph in program.graphs.items():  # callees stand first
        if graph.params or any(call.callee in found for call in graph.named_calls()):
            found.add(key)
    return frozenset(found)
