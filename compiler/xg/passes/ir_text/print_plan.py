"""The lines of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from xg.ir.axis_cuts import Layout
from xg.ir.plan import Entry, Plan
from xg.passes.ir_text.block_labels import label
from xg.passes.ir_text.print_graph import quoted


def plan_lines(plan: Plan) -> Iterator[str]:
    """A plan, and what it says of each value."""
    axes = [axis if count is None else f"{axis} = {count}" for axis, count in plan.mesh.items()]
    over = f" over {', '.join(axes)}" if axes else ""
    yield f"  plan {quoted(plan.name)} {quoted(plan.title)}{over}"
    yield from (f"    {_entry(entry)}" for entry in plan.entries)


def _entry(entry: Entry) -> str:
    use = f" use {_layout(entry.use)}" if entry.use is not None else ""
    rest = f" {_layout(entry.rest)}" if entry.rest is not None else ""
    lies = f"{quoted('.'.join(entry.path))}{rest}{use}"
    over = ", ".join(sorted(entry.over))
    memory = f" memory {entry.memory}" if entry.memory else ""
    return f"entry {label(entry.block)} {lies} over {over} in {quoted(entry.plan)}{memory}"


def _layout(layout: Layout) -> str:
    """Like a file's, but mesh axes are apart from the size: ``[D_ff|N_T, ..]``."""
    parts = [
        ("_" if dim is None else str(dim)) + (f"|{'*'.join(cuts)}" if cuts else "")
        for dim, cuts in zip(layout.dims, layout.cuts, strict=True)
    ]
    return "[" + ", ".join([*parts, *([".."] if layout.open else [])]) + "]"
