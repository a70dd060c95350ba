"""Names for values that the author gave none: after the next label on their way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from xg.ir.graph import Call, Graph, IRProgram, Value
from xg.ir.placement import is_term


def names_by_label(graph: Graph) -> dict[Value, str]:
    """The preferred name of a value: its label, else the next label on its way, numbered.

    One term of a sum is named as in seed 001: ``Z_i``, of which AR makes ``Z``.
    """
    bases: dict[Value, str] = {}
    for step in reversed(graph.steps):
        for value in step.outputs:
            if value.name is not None and value.role != "cache":
                bases[value] = value.name + ("_i" if is_term(graph.placements.get(value)) else "")
        target = next((v.name or bases[v] for v in step.outputs if v in bases), None)
        for value in step.inputs:
            if value.name is None and value not in bases and target:
                bases[value] = target.removesuffix("_#") + "_#"
    for step in graph.steps:
        for value in step.outputs:
            if value.role == "cache":
                owner = step.outputs[0]
                bases[value] = f"{bases.get(owner, 'part').removesuffix('_#')}_{value.name}"
    return bases


def saved_names(program: IRProgram, key: str) -> dict[Value, str]:
    """Name the values of a graph without a label that its backward pass reads: ``U_1``, ``U_2``.

    Of those that only calls read, the source of a number has no name: where it is read it is said.
    They are numbered in the order of the forward pass; in front of ``X_2`` is ``X_1``, or the next
    free number. Values that several operators call the same, as the masks of two dropouts, are
    named after their results: ``Y_keep``.
    """
    if key not in program.backwards:
        return {}
    backward = program.backwards[key]
    graph, read = backward.forward, set(backward.saved)
    in_calls = {value for call in graph.calls for value in read_of(call, program)}
    read |= {value for step in graph.steps if step.inputs for value in step.outputs} & in_calls
    bases = names_by_label(graph)
    taken = {value.name for value in graph.types if value.name}
    names: dict[Value, str] = {}
    free: dict[tuple[str, int], int] = {}  # from a number on, the first that may be free
    values = [value for step in graph.steps for value in step.outputs if value in read]
    caches = Counter(value.name for value in values if value.role == "cache")
    for value in values:
        stem = bases.get(value, "").removesuffix("_#")
        if not stem or (value.name is not None and caches[value.name] < 2):
            continue
        name, stem, number = _in_front_of(stem) if value.name is None else (stem, stem, 2)
        first, number = number, free.get((stem, number), number)
        while name in taken:
            name = f"{stem}_{number}"
            number += 1
        free[stem, first] = number
        names[value] = name
        taken.add(name)
    return names


def _in_front_of(label: str) -> tuple[str, str, int]:
    """Return a name for what a label follows, else what it is numbered after, and from where on."""
    stem, _, number = label.rpartition("_")
    if not stem or not number.isdecimal():
        return f"{label}_1", label, 2
    return f"{stem}_{max(int(number) - 1, 0)}", stem, int(number) + 1


def read_of(call: Call, program: IRProgram) -> list[Value]:
    """Return which of the values that a call takes its backward pass reads, in calls of it too."""
    return _taken(call, program, _read(program))


@lru_cache(maxsize=4)
def _read(program: IRProgram) -> Mapping[str, frozenset[Value]]:
    """The values of each graph that its backward pass reads, callees first."""
    found: dict[str, frozenset[Value]] = {}
    for key in program.graphs:
        if key in program.backwards:
            backward = program.backwards[key]
            inside = [v for call in backward.forward.calls for v in _taken(call, program, found)]
            found[key] = frozenset([*backward.saved, *inside])
    return found


def _taken(call: Call, program: IRProgram, read: Mapping[str, frozenset[Value]]) -> list[Value]:
    """The inputs of a call that are read, where it is known what is read of its callee."""
    if call.callee not in read:
        return []
    taken = zip(program.backwards[call.callee].forward.inputs, call.inputs, strict=False)
    return list(dict.fromkeys(value for port, value in taken if port in read[call.callee]))


def place_names(graph: Graph) -> dict[Value, str]:
    """The results of steps after what gives them: ``SiLU_1``, ``attn``, of a second one ``attn'``.

    So an edge is called that no label names, and no variable of the code.
    """
    names: dict[Value, str] = {}
    for step in graph.steps:
        if isinstance(step, Call):
            place, values = step.path, list(step.outputs)
        else:
            place, values = step.place, [v for v in step.outputs if v.role != "cache"]
        names.update((value, f"{place}{chr(39) * n}") for n, value in enumerate(values))
    return names
