"""Names for values that the author gave none: after the next label on their way."""

from __future__ import annotations

from collections import Counter

from xg.ir.graph import Backward, Call, Graph, Value
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
        target = next((bases[v] for v in step.outputs if v in bases), None)
        for value in step.inputs:
            if value.name is None and value not in bases and target:
                bases[value] = target.removesuffix("_#").removesuffix("_i") + "_#"
    for step in graph.steps:
        for value in step.outputs:
            if value.role == "cache":
                owner = step.outputs[0]
                bases[value] = f"{bases.get(owner, 'part').removesuffix('_#')}_{value.name}"
    return bases


def saved_names(backward: Backward) -> dict[Value, str]:
    """Name the values without a label that a backward pass reads: ``U_1``, ``U_2``.

    They are numbered in the order of the forward pass. Values that several operators call the same,
    as the masks of two dropouts, are named after their results: ``Y_keep``.
    """
    graph, read = backward.forward, set(backward.saved)
    bases = names_by_label(graph)
    taken = {value.name for value in graph.types if value.name}
    names: dict[Value, str] = {}
    values = [value for step in graph.steps for value in step.outputs if value in read]
    caches = Counter(value.name for value in values if value.role == "cache")
    for value in values:
        stem, number = bases.get(value, "").removesuffix("_#"), 1
        if not stem or (value.name is not None and caches[value.name] < 2):
            continue
        name = f"{stem}_1" if value.name is None else stem
        while name in taken:
            number += 1
            name = f"{stem}_{number}"
        names[value] = name
        taken.add(name)
    return names


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
