"""Make the operators of collectives, and the groups of ranks that call them.

Such a step only changes where a tensor is placed.

On the global tensor each operator is the identity, so shapes, figures and derivatives need to know
nothing of ranks. `moved` is the computation of one rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import prod

from xg.ir.collectives import AROUND, COLLECTIVES, MOVES, SENDING
from xg.ir.graph import Apply, Graph, IRProgram, Step, Value
from xg.ir.op import Gradient, Op, Term
from xg.ir.placement import FAMILY, AxisState, Collective, axes_over, dual, joined_axes
from xg.ir.prim import Expr
from xg.ir.use import Attrs, MeshAxis


def collective(op: Op) -> Collective | None:
    """Return the collective that an operator is; None for any other operator."""
    return COLLECTIVES[op.name] if op.family == FAMILY else None


def move(over: str, source: AxisState, target: AxisState) -> tuple[str, Attrs]:
    """Return the glyph and the attributes of the operator from one state to another."""
    attrs = {"over": over, "source": source, "target": target}
    return MOVES[source.kind, target.kind].glyph, attrs


def transpose(source: AxisState, target: AxisState) -> tuple[AxisState, AxisState] | None:
    """Return the states of a move's backward pass; None if nothing is differentiated there."""
    start, end = dual(target), dual(source)
    return (start, end) if start and end else None


def moved(op: Op, x: Expr, attrs: Attrs) -> Expr:
    """Compute one rank's part of `x` in the target state from its part in the source state."""
    over, source, target = attrs["over"], attrs["source"], attrs["target"]
    return COLLECTIVES[op.name].local(x, over, source, target)


def operator(record: Collective) -> Op:
    """Make the operator of a collective; one that no file may write is only inserted."""
    return Op(
        glyph=record.glyph,
        name=record.name,
        family=FAMILY,
        own=(MeshAxis("over"),),
        forward=_identity,
        pullback=_transpose_move,
        derived=not record.is_written,
        keeps_shape=True,
        meaning=record.meaning,
        formula=record.formula,
        gradient=record.gradient,
        source=record.source,
    )


def _identity(x: Expr, **_: object) -> Expr:
    return x


def _transpose_move(attrs: Attrs) -> Mapping[str, Gradient]:
    states = transpose(attrs["source"], attrs["target"])
    if states is None:
        return {}
    glyph, back = move(attrs["over"], *states)
    return {"x": Term(glyph, ("d",), back)}


# Inputs that a block does not keep for its backward pass: `X again` in a plan.


def inputs_again(graph: Graph) -> tuple[Value, ...]:
    """Return the inputs of a graph that a plan makes its callers recompute."""
    return tuple(v for v in graph.inputs if graph.memory.get(str(v.name)) == "again")


def steps_again(value: Value, makers: Mapping[Value, Step]) -> tuple[Apply, ...]:
    """List the steps that recompute an operand of a call, the last one first.

    A gather runs again on the shard that the caller keeps. Without a gather, the operator that
    makes the operand runs again. A sum over ranks is as large as its terms, so it is kept.
    """
    steps: list[Apply] = []
    is_gathered = False
    while isinstance(step := makers.get(value), Apply):
        record = collective(step.op)
        is_layout = step.op.family == "layout" and len(step.inputs) == 1
        if record and not (record.gathers or record.is_free):
            break
        if not record and not is_layout:
            return tuple(steps) if is_gathered else (*steps, step)
        is_gathered = is_gathered or bool(record and record.gathers)
        steps.append(step)
        value = step.inputs[0]
    return tuple(steps) if is_gathered else ()


# The communicators of a program: the groups of ranks that call collectives together.
#
# All ranks of a group have to make it at the same time, and a transport may only tell two groups
# apart by their order. If ranks made groups when they first use them, the stages of a pipeline
# would make theirs in different orders, and one rank's group would meet another rank's. So the
# groups are data: every rank makes those of `IRProgram.communicators` before its program starts, in
# that order.
#
# A communicator is named by the mesh axes that it spans, ``N_D*N_T``: each rank is in one group of
# it. A group is named by its communicator and its members.


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
