"""The table of parameters: names, shapes and what they start as, with loops kept as loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xg.dim import Dim
from xg.emit.spelling import Scope
from xg.emit.text import tuple_of
from xg.graph import Call, Graph, Program
from xg.instances import inside
from xg.scalar import Scalar
from xg.tensor import Shape


def table_lines(program: Program, scope: Scope) -> list[str]:
    """Lines that fill ``starts``, a dictionary from name to shape and start."""
    return list(_lines(program, program.main, "", 0, {}, scope))


def _lines(
    program: Program,
    graph: Graph,
    path: str,
    depth: int,
    symbols: Mapping[str, Dim],
    scope: Scope,
) -> Iterator[str]:
    """The parameters of a graph, then those of its calls; as deep as blocks nest."""
    indent = "    " * depth
    own = [
        f"{indent}    {_key(path, str(param.value.name))}: "
        f"({_shape(_caller(param.type.shape, graph, symbols), scope)}, "
        f"{_start(param.start, graph, symbols, scope)}),"
        for param in graph.params
    ]
    if own:
        yield from (f"{indent}starts |= {{", *own, f"{indent}}}")
    seen: set[str] = set()
    for step in graph.steps:
        if not isinstance(step, Call) or step.path in seen:
            continue
        seen.add(step.path)
        callee = program.graphs[step.callee]
        inner = inside(step, graph, callee, symbols)
        below = f"{path}.{step.path}" if path else step.path
        if step.count is None:
            yield from _lines(program, callee, below, depth, inner, scope)
        elif _has_params(program, callee):
            counter = "ijklmn"[depth]
            count = scope.size(step.count.substitute(symbols)).text
            yield f"{indent}for {counter} in range({count}):"
            yield from _lines(program, callee, f"{below}.{{{counter}}}", depth + 1, inner, scope)


def _caller(shape: Shape, graph: Graph, symbols: Mapping[str, Dim]) -> Shape:
    """A shape of a callee in the symbols of the entry."""
    return tuple(graph.sizes.expand(dim).substitute(symbols) for dim in shape)


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


def _has_params(program: Program, graph: Graph) -> bool:
    return bool(graph.params) or any(
        isinstance(step, Call) and _has_params(program, program.graphs[step.callee])
        for step in graph.steps
    )
