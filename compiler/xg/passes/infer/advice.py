"""How one shape becomes another: the operator that an author may have forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xg.ir.dim import Dim, product
from xg.ir.tensor import Shape


def advice(found: Shape, wanted: Shape, names: Sequence[str]) -> str:
    """How to get from `found` to `wanted`, in a few words; `names` are those of the axes found."""
    gone = [name for name, dim in zip(names, found, strict=True) if dim not in wanted]
    if Counter(found) == Counter(wanted):
        return "T brings axes into another order"
    if _is_part(found, wanted):
        return "BC repeats along new axes"
    if _is_part(wanted, found):
        return f"mean[{', '.join(gone)}] or sum[{', '.join(gone)}] removes axes"
    if product(found) == product(wanted):
        return "R splits and merges axes"
    return ""


def _is_part(few: Sequence[Dim], many: Sequence[Dim]) -> bool:
    """Whether the one is the other with some axes left out."""
    rest = iter(many)
    return all(dim in rest for dim in few)
