"""The notation itself as a figure: each node of seed 001, section 4.3, between its edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xg.figures.model.figure import EdgeRole, EdgeStyle, Figure, FigureEdge, FigureNode, NodeKind
from xg.figures.model.richtext import plain, symbol, tensor

_BSD: Final = ["B", "S", "D"]
_SCORES: Final = ["B", "N_H", "S", "S"]
_LOCAL: Final = ["B", "S", "D/N_T"]

# Glyph, kind, what arrives, what leaves; a second operand where the node has one.
_NAMES: Final = {
    "GELU": "gelu",
    "DO": "dropout",
    "SM": "scale_mask",
    "S": "softmax",
    "LN": "layer_norm",
    "R": "reshape",
    "T": "transpose",
    "BC": "broadcast",
    "AR": "all_reduce",
    "AG": "all_gather",
}
_ENTRIES: Final = (
    ("", NodeKind.MATMUL, ("X", _BSD), ("Y", _BSD), ("W", ["D", "D"])),
    ("", NodeKind.ADD, ("A", _BSD), ("Y", _BSD), ("B", _BSD)),
    ("GELU", NodeKind.NONLINEAR, ("X", _BSD), ("Y", _BSD), None),
    ("DO", NodeKind.NONLINEAR, ("X", _BSD), ("Y", _BSD), None),
    ("SM", NodeKind.NONLINEAR, ("A", _SCORES), ("Z", _SCORES), None),
    ("S", NodeKind.NONLINEAR, ("Z", _SCORES), ("P", _SCORES), None),
    ("LN", NodeKind.NONLINEAR, ("X", _BSD), ("H", _BSD), None),
    ("R", NodeKind.LAYOUT, ("X", _BSD), ("Q", ["B", "N_H", "S", "D_h"]), None),
    ("T", NodeKind.LAYOUT, ("K", ["B", "N_H", "S", "D_h"]), ("KT", ["B", "N_H", "D_h", "S"]), None),
    ("BC", NodeKind.LAYOUT, ("b_0", ["D"]), ("Y", _BSD), None),
    ("AR", NodeKind.COMMUNICATION, ("Z_i", _BSD), ("Z", _BSD), None),
    ("AG", NodeKind.COMMUNICATION, ("H_i", _LOCAL), ("H", _BSD), None),
)


def dictionary() -> Figure:
    """Every node with what arrives and what leaves; the legend adds the arrows."""
    return Figure(
        title="Operator Dictionary",
        subtitle="nodes and arrows",
        description="Each node of the notation between the tensor that arrives and that leaves.",
        nodes=tuple(_nodes()),
        edges=tuple(_edges()),
        legend=True,
    )


def _nodes() -> Iterator[FigureNode]:
    for i, (glyph, kind, arrives, leaves, second) in enumerate(_ENTRIES):
        for place, named in (("in", arrives), ("out", leaves), ("second", second)):
            if named is not None:
                name, dims = named
                turned = symbol("K", sup="⊤") if name == "KT" else symbol(name)
                yield FigureNode(f"{i}.{place}", NodeKind.TENSOR, tensor(turned, dims))
        yield FigureNode(f"{i}.node", kind, plain(glyph), title=_NAMES.get(glyph, ""))


def _edges() -> Iterator[FigureEdge]:
    for i, (_, kind, _, _, second) in enumerate(_ENTRIES):
        yield FigureEdge(f"{i}.in", f"{i}.node")
        yield FigureEdge(f"{i}.node", f"{i}.out")
        if second is not None:
            double = EdgeStyle.DOUBLE if kind is NodeKind.MATMUL else EdgeStyle.SINGLE
            yield FigureEdge(f"{i}.second", f"{i}.node", double, EdgeRole.SIDE)
