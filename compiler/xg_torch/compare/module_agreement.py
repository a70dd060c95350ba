"""A comparison with other code, as lines: what was compared, and the first difference."""

from __future__ import annotations

from collections.abc import Iterator

from xg_torch.compare.comparison import FirstDifference, ModuleAgreement


def lines(found: ModuleAgreement, name: str) -> Iterator[str]:
    """The count of what was compared, and the verdict."""
    counts = (
        f"{found.forward} tensors forward, {found.backward} backward and the gradients of "
        f"{found.gradients} parameters"
    )
    if found.first is None:
        yield f"{name} and the diagram agree: {counts} within {found.tolerance:.0e}"
    else:
        yield f"{name} DIFFERS from the diagram, of {counts}"
        yield from _difference(found.first, found.on)
    if found.unmatched:
        yield f"without an edge in the diagram: {', '.join(found.unmatched)}"


def _difference(first: FirstDifference, on: str | None) -> Iterator[str]:
    where = f" {on}" if on else ""
    yield f"first {first.direction}: {first.edge}, off by {first.error:.1e} of its size{where}"
    yield f"  {first.theirs} should be that"
    if first.cause is not None:
        at = f" at {first.at}" if first.at and first.at != first.edge else ""
        yield f"  likely cause{at}: {first.cause}"
        yield "  the diagram gives the same numbers with that error"
    elif first.between:
        yield f"  the cause lies in: {', '.join(first.between)}"
