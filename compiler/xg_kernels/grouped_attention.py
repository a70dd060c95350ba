"""Attention in which several query heads share a head of keys and values (Ainslie et al. 2023).

A diagram repeats the shared heads before the products: ``BC[b, n, s, d -> b, (n, g=G), s, d]``. Of
a step that would be a copy of the whole cache for each new position. The fused operator takes the
heads as they are kept; its body repeats them, kernels need not.

A step would otherwise copy the cached keys and values for each token, N_H/N_KV times as large.
Whether there is one position is only known when a step runs, so this is an operator and not a
rewriting of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import ONE, Scalar
from xg.ir.graph import Apply, IRProgram, Value
from xg.ir.op import Op
from xg.ir.prim import Expr, broadcast, reshape
from xg.ir.tensor import TensorType
from xg.passes.ring import attention
from xg.passes.ring.attention import Fusion, Inside, Match, apply_fusion
from xg_kernels.fuse import local_attention


def group(program: IRProgram) -> IRProgram:
    """The program whose attention takes shared heads of keys and values as they are."""
    graphs = dict(program.graphs)
    for fusion in FUSIONS:
        graphs = {key: apply_fusion(graph, fusion) for key, graph in graphs.items()}
    return replace(program, graphs=graphs)


def forward(q: Expr, k: Expr, v: Expr, *, scale: Scalar, mask: str) -> tuple[Expr, dict[str, Expr]]:
    """Compute attention after repeating the heads of `k` and `v` to match the heads of `q`."""
    return attention.forward(
        q, _repeat_heads(k, q), _repeat_heads(v, q), None, scale=scale, mask=mask
    )


def forward_local(
    q: Expr, k: Expr, v: Expr, *, scale: Scalar, behind: Scalar, ahead: Scalar
) -> tuple[Expr, dict[str, Expr]]:
    """Attention to a band of the keys of heads that are repeated."""
    numbers = {"scale": scale, "behind": behind, "ahead": ahead}
    return local_attention.forward(q, _repeat_heads(k, q), _repeat_heads(v, q), None, **numbers)


def _repeat_heads(x: Expr, like: Expr) -> Expr:
    *leading, heads, length, width = x.shape
    groups = like.shape[-3] / heads
    each = reshape(x, (*leading, heads, ONE, length, width))
    every = broadcast(each, (*leading, heads, groups, length, width))
    return reshape(every, (*leading, like.shape[-3], length, width))


def match(last: Apply, inside: Inside) -> Match | None:
    """Attention without a mask of its own, whose keys and values are repeated for it alone."""
    return _match_attention(last, inside, attention.OP, ("scale", "mask"))


def match_local(last: Apply, inside: Inside) -> Match | None:
    """The same of attention to a band of keys."""
    return _match_attention(last, inside, local_attention.OP, ("scale", "behind", "ahead"))


def _match_attention(last: Apply, inside: Inside, op: Op, own: Sequence[str]) -> Match | None:
    q, *kept = last.inputs
    repeats = [step for value in kept if (step := inside.maker(value, "BC")) is not None]
    shared = [step for step in repeats if _repeats_each_head(step, inside.types)]
    if last.op is not op or len(shared) != 2 or len(kept) != 2 or "p" in last.attrs:
        return None
    attrs = {name: last.attrs[name] for name in own}
    steps = (*shared, *last.parts[:-1], last)
    return Match(steps, (q, *(step.inputs[0] for step in shared)), attrs, last.place)


def _repeats_each_head(repeat: Apply, types: Mapping[Value, TensorType]) -> bool:
    """Whether each head is repeated, beside itself."""
    shape, attrs = types[repeat.inputs[0]].shape, repeat.attrs
    place = len(shape) - 2
    if place < 1 or attrs["new"] != (place,):
        return False
    atoms = attrs["atoms"]
    heads = atoms[place - 1] * atoms[place]
    return (*atoms[:place], *atoms[place + 1 :]) == shape and attrs["shape"] == (
        *shape[: place - 1],
        heads,
        *shape[place:],
    )


OP: Final = Op(
    glyph="Grouped",
    name="grouped attention",
    family="nonlinear",
    data=attention.OP.data[:3],
    own=attention.OP.own[:2],
    forward=forward,
    derived=True,
    meaning="attention whose query heads share heads of keys and values",
    formula="Y = softmax(α Q K⊤) V, K and V repeated for each group of heads",
    gradient=attention.OP.gradient,
    source="Ainslie et al. 2023",
)
LOCAL: Final = Op(
    glyph="GroupedLocal",
    name="grouped local attention",
    family="nonlinear",
    data=local_attention.OP.data[:3],
    own=local_attention.OP.own,
    forward=forward_local,
    derived=True,
    meaning="attention to a band of keys whose query heads share heads of keys and values",
    formula=OP.formula,
    gradient=local_attention.OP.gradient,
    source=OP.source,
)
FUSIONS: Final = (
    Fusion(OP, attention.OP.glyph, match),
    Fusion(LOCAL, local_attention.OP.glyph, match_local),
)
