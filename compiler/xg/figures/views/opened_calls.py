"""The calls that an overview opens; equal names in them get the names of the calls as indices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Call, Graph, Program, Value

CallPath = tuple[str, ...]  # the names of the calls around a value, the outermost first


@dataclass(frozen=True, slots=True)
class Level:
    """A block of an overview, inside the calls of a `path`: to what `depth` it opens its own."""

    program: Program
    depth: int | None
    homonyms: Mapping[CallPath, Mapping[str, str]]
    path: CallPath = ()

    @classmethod
    def of(cls, program: Program, depth: int | None) -> Level:
        """Return the level of a program's entry block."""
        return cls(program, depth, _homonyms(program, depth))

    def inside(self, call: Call) -> Level:
        """Return the level of an opened call."""
        return replace(self, depth=_below(self.depth), path=(*self.path, call.path))

    def is_opened(self, call: Call) -> bool:
        """Return whether a call is drawn as what it calls."""
        return _is_opened(call, self.program, self.depth)

    @property
    def indices(self) -> Mapping[str, str]:
        """Return the index of each name here that another thing in the figure has, too."""
        return self.homonyms.get(self.path, {})


def _is_opened(call: Call, program: Program, depth: int | None) -> bool:
    """Return whether a call is drawn as what it calls: not where that gives what it takes.

    Nor is a loop: one round has other shapes, and a state that comes from the round before.
    """
    callee = program.graphs[call.callee]
    if call.loop is not None:
        return False
    if depth is None:
        return call.count is not None and any(isinstance(one, Call) for one in callee.steps)
    computed = [value for one in callee.steps for value in one.outputs]
    return depth > 0 and len(set(callee.outputs) & set(computed)) == len(callee.outputs)


def _below(depth: int | None) -> int:
    return (depth or 1) - 1


def _homonyms(program: Program, depth: int | None) -> Mapping[CallPath, Mapping[str, str]]:
    """Return the indices of names by their calls: a part of a path that no other of that name has.

    That is ``dense`` for a name in ``dense.attn``, if the other one is in ``layers.attn``.
    """
    paths: dict[str, set[CallPath]] = defaultdict(set)
    for name, path in _names(program.main, program, depth, ()):
        paths[name].add(path)
    found: dict[CallPath, dict[str, str]] = defaultdict(dict)
    for name, some in paths.items():
        for path in some:
            found[path][name] = ",".join(_least(path, some - {path}))
    return found


def _least(path: CallPath, others: set[CallPath]) -> CallPath:
    """Return the shortest part of a path that no other one has, the first of several."""
    parts = _parts(path)
    return next((part for part in parts if not any(part in {*_parts(one)} for one in others)), path)


def _parts(path: CallPath) -> Iterator[CallPath]:
    """Yield what follows each other in a path, short parts first."""
    for length in range(len(path) + 1):
        yield from (path[start : start + length] for start in range(len(path) - length + 1))


def _names(
    graph: Graph, program: Program, depth: int | None, path: CallPath
) -> Iterator[tuple[str, CallPath]]:
    """Yield the names of what a block has itself, and of what is in the calls that it opens.

    Inputs and outputs of such a call have the caller's names; an input that goes round is drawn
    again, in the call.
    """
    names = dict(zip(graph.outputs, graph.output_names, strict=True))
    outside = {*graph.inputs, *graph.outputs} if path else set[Value]()
    for value in graph.types:
        name = value.name or names.get(value)
        if name and value.role != "cache" and value not in outside:
            yield name, path
    for call in graph.calls:
        if _is_opened(call, program, depth):
            callee, inside = program.graphs[call.callee], (*path, call.path)
            first = callee.inputs[0].name
            if call.count is not None and first:
                yield first, path if call.inputs[0].name == first else inside
            yield from _names(callee, program, _below(depth), inside)
