"""Attention in which keys and values go round a ring of ranks (Liu et al. 2023: Ring Attention).

A plan asks for it where it says how keys and values are placed for their use::

    K, V [B, N_H, S_k, D_h] ring

Each rank has queries for its part of the sequence. Where it would gather the keys and values of all
ranks, it meets one part at a time, which then goes on to the next rank, and merges what it has
found by the largest score and the sum of exponentials. In the backward pass the gradients of keys
and values travel along with them.

On whole tensors it is attention: the typing rule, the value and the gradient are those of its body.

The ring is one operator whose meaning knows no ring, so the interpreter proves the loop, and its
placement is typed by the rules of all plans. A repeat of N calls would keep the keys and values of
all rounds for the backward pass. That pass starts with the part of the rank before, so that sums
are at home after N - 1 shifts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import replace
from xg.ir.collectives.shift import gather_around, scatter_around
from xg.ir.dim import Scalar
from xg.ir.graph import Apply, Graph, IRProgram, Value
from xg.ir.op import Op
from xg.ir.placement import INVARIANT, ordered_axis, zigzag_axes
from xg.ir.prim import Cuts, Expr
from xg.ir.use import Word
from xg.passes.ring import attention
from xg.passes.ring.attention import apply_fusion
from xg.sharding.errors import RingAxes, RingOfNothing

KEYS: Final = -2  # the axis of keys and values that is cut


def ring(program: IRProgram) -> IRProgram:
    """The program with attention whose keys and values go round, where its plan says so."""
    if not any("ring" in graph.memory.values() for graph in program.graphs.values()):
        return program
    graphs = {key: _rings(graph, program) for key, graph in program.graphs.items()}
    return replace(program, graphs=graphs)


def _rings(graph: Graph, program: IRProgram) -> Graph:
    """Put the rings into a graph; a mesh axis that the program does not have makes no ring."""
    names = {name for name, word in graph.memory.items() if word == "ring"}
    if not names:
        return graph
    fused = apply_fusion(graph, attention.FUSION)
    steps, problems = list(fused.steps), list[Problem]()
    moving: dict[Value, str] = {}
    for place, step in enumerate(fused.steps):
        if not isinstance(step, Apply) or step.op is not attention.OP:
            continue
        around = [value for value in step.inputs[1:3] if str(value.name) in names]
        if around:
            axes = _axes(fused, around) if len(around) == 2 else ()
            if len(axes) != 1:
                both = tuple(str(value.name) for value in step.inputs[1:3])
                problems.append(RingAxes(step.span, both, axes))
                continue
            if axes[0] in program.mesh:
                around_ = ordered_axis(axes[0], zigzag_axes(program.plan))
                steps[place] = replace(step, op=OP, attrs={**step.attrs, "around": around_})
            moving.update(dict.fromkeys(around, axes[0]))
    for value in fused.types:
        if str(value.name) in names and value not in moving and not problems:
            problems.append(RingOfNothing(value.span, str(value.name)))
    if problems:
        raise DiagnosticError.of(*dict.fromkeys(problems))
    has_ring = any(axis in program.mesh for axis in moving.values())
    return _without_requests(replace(fused, steps=tuple(steps)) if has_ring else graph, moving)


def _axes(graph: Graph, values: list[Value]) -> tuple[str, ...]:
    """The mesh axes over which a plan has all of these whole where they are used."""
    requests = [graph.placement_requests.get(value, {}) for value in values]
    return tuple(
        axis
        for axis, request in requests[0].items()
        if all(each.get(axis) == request for each in requests) and request.rest == INVARIANT
    )


def _without_requests(graph: Graph, moving: Mapping[Value, str]) -> Graph:
    """The graph in which nothing gathers what goes round, and nothing is said of keeping it."""
    requests = {
        value: {axis: each for axis, each in asked.items() if axis != moving.get(value)}
        for value, asked in graph.placement_requests.items()
    }
    memory = {name: word for name, word in graph.memory.items() if word != "ring"}
    return replace(graph, placement_requests=requests, memory=memory)


# ---- the operator -------------------------------------------------------------------------------


def forward(
    q: Expr,
    k: Expr,
    v: Expr,
    m: Expr | None,
    *,
    around: str,
    scale: Scalar,
    mask: str,
    p: Scalar | None = None,
    scaling: str = "scaled",
    cuts: Cuts = (),
) -> tuple[Expr, dict[str, Expr]]:
    """Attention to the keys and values of all ranks."""
    keys, values = gather_around(k, around, KEYS), gather_around(v, around, KEYS)
    return attention.forward(
        q, keys, values, m, scale=scale, mask=mask, p=p, scaling=scaling, cuts=cuts
    )


def adjoint(
    dy: Expr,
    q: Expr,
    k: Expr,
    v: Expr,
    m: Expr | None,
    y: Expr,
    lse: Expr,
    keep: Expr | None,
    *,
    around: str,
    scale: Scalar,
    mask: str,
    p: Scalar | None,
    scaling: str,
) -> tuple[Expr, ...]:
    """Keys and values go round once more, and their gradients with them."""
    keys, values = gather_around(k, around, KEYS), gather_around(v, around, KEYS)
    dq, dk, dv = attention.adjoint(
        dy, q, keys, values, m, y, lse, keep, scale=scale, mask=mask, p=p, scaling=scaling
    )
    return dq, scatter_around(dk, around, KEYS), scatter_around(dv, around, KEYS)


OP: Final = Op(
    glyph="Ring",
    name="ring attention",
    family="nonlinear",
    data=attention.OP.data,
    own=(*attention.OP.own, Word("around", ())),
    forward=forward,
    adjoint=adjoint,
    derived=True,
    meaning="attention in which parts of keys and values go from rank to rank",
    formula="Y = softmax(α Q K⊤ + M) V, merged part by part",
    gradient=attention.OP.gradient,
    source="seed 001, 4.3.4 and 4.3.5; Liu et al. 2023",
)
