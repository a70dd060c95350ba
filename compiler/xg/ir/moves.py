"""Make the operators of collectives: a step that only changes where a tensor is placed.

On the global tensor each operator is the identity, so shapes, figures and derivatives need to know
nothing of ranks. `moved` is the computation of one rank.
"""

from __future__ import annotations

from collections.abc import Mapping

from xg.ir.collective import FAMILY, Collective
from xg.ir.collectives import COLLECTIVES, MOVES
from xg.ir.graph import Apply, Graph, Step, Value
from xg.ir.op import Gradient, Op, Term
from xg.ir.placement import AxisState, dual
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
