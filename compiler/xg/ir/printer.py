"""Graphs as text, for people who follow a program through the passes (``xg show --as ir``).

One line per step, in order; ``%`` marks values without a name of the author's. Works after every
pass: types are shown where they are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import cast

from xg.ir.dim import Dim
from xg.ir.graph import Apply, Backward, Call, Graph, Program, Step, Value
from xg.ir.scalar import Scalar
from xg.ir.tensor import Sizes, TensorType


def spell_program(program: Program, passes: Collection[str] = ("forward", "backward")) -> str:
    """Every graph, callees first, and its backward graph; or only one of these `passes`."""
    parts: list[str] = []
    for key, graph in program.graphs.items():
        names = _Names()
        lines = {"forward": list(_graph_lines(graph, names))}
        if key in program.backwards:
            lines["backward"] = list(_backward_lines(program.backwards[key], names))
        parts += ["\n".join(lines[each]) for each in lines if each in passes]
    return "\n\n".join(parts) + "\n"


class _Names:
    """A name for every value: the author's, made unique, or a number."""

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}
        self._taken: dict[str, int] = {}

    def of(self, value: Value) -> str:
        """The name of a value."""
        if value not in self._names:
            wanted = value.name or "%"
            self._taken[wanted] = self._taken.get(wanted, 0) + 1
            number = self._taken[wanted]
            plain = value.name is not None and number == 1
            self._names[value] = (
                wanted if plain else f"{wanted}{'' if wanted == '%' else '~'}{number}"
            )
        return self._names[value]

    def all(self, values: Iterable[Value]) -> str:
        """Several names."""
        return ", ".join(self.of(value) for value in values)


def _graph_lines(graph: Graph, names: _Names) -> Iterator[str]:
    inputs = ", ".join(_typed(value, graph.types, graph.sizes, names) for value in graph.inputs)
    pairs = zip(graph.output_names, graph.output_types, strict=True)
    outputs = ", ".join(f"{name} {type_}" for name, type_ in pairs)
    yield f"graph {graph.key} ({inputs}) -> {outputs}"
    for param in graph.params:
        yield f"  param {names.of(param.value)} {param.type} = {_start(param.start)}"
    for state in graph.states:
        past = _typed(state.past, graph.types, graph.sizes, names)
        yield f"  state {state.name} = {past} next {names.of(state.next)}"
    for step in graph.steps:
        yield f"  {_step(step, graph.types, graph.sizes, names)}"
    yield f"  return {names.all(graph.outputs)}"


def _backward_lines(backward: Backward, names: _Names) -> Iterator[str]:
    yield f"backward {backward.key} ({names.all(backward.inputs)})"
    yield f"  saved {names.all(backward.saved)}"
    for step in backward.steps:
        yield f"  {_step(step, backward.types, backward.sizes, names)}"
    for value, gradient in backward.gradients.items():
        yield f"  d {names.of(value)} = {names.of(gradient)}"


def _step(
    step: Step,
    types: Mapping[Value, TensorType],
    sizes: Sizes,
    names: _Names,
) -> str:
    match step:
        case Apply():
            outputs = ", ".join(_typed(value, types, sizes, names) for value in step.outputs)
            attrs = ", ".join(
                f"{key}={_attr(value, sizes)}" for key, value in sorted(step.attrs.items())
            )
            return f"{outputs} = {step.op.glyph}({names.all(step.inputs)}) {{{attrs}}}"
        case Call():
            count = f"{sizes.fold(step.count)} × " if step.count is not None else ""
            verb = "backward" if step.origin else "call"
            called = f"{verb} {count}{step.callee} as {step.path}"
            return f"{names.all(step.outputs)} = {called} ({names.all(step.inputs)})"


def _typed(value: Value, types: Mapping[Value, TensorType], sizes: Sizes, names: _Names) -> str:
    type_ = types.get(value, value.declared)
    if type_ is None:
        return names.of(value)
    range_ = sizes.fold(type_.range) if type_.range is not None else None
    return f"{names.of(value)} {TensorType(sizes.fold_shape(type_.shape), range_)}"


def _attr(value: object, sizes: Sizes) -> str:
    """An attribute as text; sizes under their names, at any depth."""
    if isinstance(value, Dim):
        return str(sizes.fold(value))
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        return "[" + ", ".join(_attr(item, sizes) for item in items) + "]"
    return str(value)


def _start(start: str | Scalar) -> str:
    return start if isinstance(start, str) else f"normal({start})"
