"""The communicators of a program: the groups of ranks that call collectives together.

All ranks of a group have to make it at the same time, and a transport may only tell two groups
apart by their order. If ranks made groups when they first use them, the stages of a pipeline would
make theirs in different orders, and one rank's group would meet another rank's. So the groups are
data: every rank makes those of `IRProgram.communicators` before its program starts, in that order.

A communicator is named by the mesh axes that it spans, ``N_D*N_T``: each rank is in one group of
it. A group is named by its communicator and its members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import prod

from xg.ir.collectives import AROUND, SENDING
from xg.ir.graph import Apply, Graph, IRProgram
from xg.ir.placement import axes_over, joined_axes

Members = tuple[int, ...]


def spanned(over: str, mesh: Mapping[str, int]) -> str:
    """Return the axes of a collective on which there are other ranks, in the order of the mesh.

    It is empty if the collective goes over one rank: then nothing is sent.
    """
    axes = axes_over(over)
    return joined_axes(axis for axis, ranks in mesh.items() if axis in axes and ranks > 1)


def communicators(program: IRProgram) -> tuple[str, ...]:
    """The communicators that the program of one rank needs, in the order in which ranks make them.

    First each axis: training and checkpoints use all of them. Then those over several axes that the
    program calls, in the order of the mesh, whatever the order of the calls is.
    """
    mesh = program.mesh
    several = [axis for axis, ranks in mesh.items() if ranks > 1]
    called = {spanned(over, mesh) for _, over in calls(program)}
    joint = (joined_axes(c) for n in range(2, len(several) + 1) for c in combinations(several, n))
    return (*several, *(each for each in joint if each in called))


def groups(over: str, mesh: Mapping[str, int]) -> tuple[Members, ...]:
    """The groups of a communicator, by the numbers of their ranks: row-major on the mesh.

    >>> groups("N_D*N_T", {"N_P": 2, "N_D": 2, "N_T": 2})
    ((0, 1, 2, 3), (4, 5, 6, 7))
    """
    axes, found = axes_over(over), dict[tuple[int, ...], list[int]]()
    for rank in range(prod(mesh.values())):
        places, rest = dict[str, int](), rank
        for axis in reversed([*mesh]):
            rest, places[axis] = divmod(rest, mesh[axis])
        fixed = tuple(place for axis, place in places.items() if axis not in axes)
        found.setdefault(fixed, []).append(rank)
    return tuple(map(tuple, found.values()))


def calls(program: IRProgram) -> Iterator[tuple[str, str]]:
    """Yield each collective of the program of one rank: where it is called, and over which axes."""
    passes: Sequence[tuple[str, Mapping[str, Graph]]] = (
        ("", program.graphs),
        (", backward", program.backwards),
    )
    for name, graphs in passes:
        for key, graph in graphs.items():
            for step in graph.steps:
                if isinstance(step, Apply):
                    for expr in step.body(graph.types).order():
                        if expr.prim in SENDING or expr.prim in AROUND:
                            yield f"{key}{name}: {expr.prim}", str(expr.attr("over"))


def broken_communicators(program: IRProgram) -> Iterator[str]:
    """Yield each rule that the communicators of the program of one rank break."""
    made, mesh = program.communicators, program.mesh
    if not made:
        return  # not yet the program of one rank
    yield from clashes(made, mesh)
    for where, over in dict.fromkeys(calls(program)):
        if spanned(over, mesh) not in ("", *made):
            yield f"{where} goes over {over}, for which ranks make no communicator"


def clashes(made: Sequence[str], mesh: Mapping[str, int]) -> Iterator[str]:
    """Yield each communicator that is not one, and each that has the groups of another."""
    names: dict[tuple[Members, ...], str] = {}
    for each in made:
        if lacking := [axis for axis in axes_over(each) if axis not in mesh]:
            yield f"the communicator {each} spans {lacking[0]}, which is no axis of the mesh"
            continue
        found = groups(each, mesh)
        if found in names:
            yield f"the communicators {names[found]} and {each} have the same groups"
        names[found] = each


def differing_orders(stages: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield where a stage makes other communicators than the first one, or in another order."""
    first = stages[0] if stages else ()
    for place, made in enumerate(stages):
        for turn in range(max(len(first), len(made))):
            one, two = ("".join(each[turn : turn + 1]) or "none" for each in (first, made))
            if one != two:
                yield (
                    f"stage {place} makes the communicator {two} in turn {turn + 1}, "
                    f"where stage 0 makes {one}"
                )
                break
