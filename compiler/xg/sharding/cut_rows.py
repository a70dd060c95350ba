"""The row of calls that a plan shares among the stages of a pipeline: `layers [N_L/N_P]`."""

from __future__ import annotations

from collections.abc import Iterator

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Call, Program
from xg.ir.plan import ROUNDS, Entry
from xg.ir.size_checks import value_of
from xg.sharding.errors import NoMeshSize, NotDivisible, OneRowOnly, RowMisfit


@dataclass(frozen=True, slots=True)
class CutRow:
    """A row of calls of the entry block, and the mesh axis whose ranks share its rounds.

    `stages` and `rounds` are None where the axis or the row has no number.
    """

    call: Call
    axis: str
    stages: int | None
    rounds: int | None


def cut_row(program: Program) -> CutRow | None:
    """The row that the program's plan shares among stages, if any.

    Raises DiagnosticError where the plan does not fit the row, or its numbers do not divide.
    """
    entries = tuple(_entries(program))
    if not entries:
        return None
    problems: dict[Problem, None] = {}
    rows: dict[str, CutRow] = {}
    for entry in entries:
        row = _row(program, entry)
        if row is None:
            problems[RowMisfit(entry.span, entry.path[0], program.main.block, str(entry.rest))] = (
                None
            )
            continue
        rows.setdefault(entry.path[0], row)
        if len(rows) > 1 or row.axis != rows[entry.path[0]].axis:
            problems[OneRowOnly(entry.span, entry.path[0], entries[0].span)] = None
        elif row.stages and row.rounds is not None and row.rounds % row.stages:
            sizes = ((row.axis, row.stages),)
            problems[NotDivisible(entry.span, str(row.call.count), row.rounds, sizes)] = None
    if problems:
        raise DiagnosticError.of(*problems)
    return next(iter(rows.values()))


def with_numbers(row: CutRow) -> CutRow:
    """The row itself; raises DiagnosticError where its axis has no number of ranks."""
    if row.stages is None:
        raise DiagnosticError.of(NoMeshSize(row.axis))
    return row


def _entries(program: Program) -> Iterator[Entry]:
    """The lines of the plan about rows of the entry block."""
    for entry in program.plan.entries if program.plan else ():
        if entry.path[-1] == ROUNDS and entry.block == program.main.block_id:
            yield entry


def _row(program: Program, entry: Entry) -> CutRow | None:
    """The row that an entry cuts; None where it is no row, or has another number of rounds."""
    main, layout, plan = program.main, entry.rest, program.plan
    assert layout is not None
    assert plan is not None
    call = next((c for c in main.calls if c.path == entry.path[0] and c.count is not None), None)
    (dim,), ((axis,),) = layout.dims, layout.cuts
    if call is None or call.count is None or dim is None or not main.sizes.same(dim, call.count):
        return None
    numbers = main.sizes.bind({**main.sizes.defaults, **program.numbers})
    stages = program.mesh.get(axis, plan.mesh.get(axis))
    return CutRow(call, axis, stages, value_of(main.sizes.expand(call.count), numbers))
