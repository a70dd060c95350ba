"""The row of calls that a plan shares among the stages of a pipeline: `layers [N_L/N_P]`."""

from __future__ import annotations

from collections.abc import Iterator

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.graph import Call, Program
from xg.ir.plan import ROUNDS, Entry, Plan, Schedule
from xg.ir.size_checks import value_of
from xg.sharding.errors import (
    NoMeshSize,
    NotDivisible,
    OneRowOnly,
    PartsInTurns,
    RowMisfit,
    ScheduleOfNothing,
    TwoSchedules,
)


@dataclass(frozen=True, slots=True)
class CutRow:
    """A row of calls of the entry block, and the mesh axis whose ranks share its rounds.

    `ranks` and `rounds` are None where the axis or the row has no number; `schedule` is what the
    plan says about the order of its stages.
    """

    call: Call
    axis: str
    ranks: int | None
    rounds: int | None
    schedule: Schedule | None

    @property
    def turns(self) -> int:
        """The stages of a rank."""
        return self.schedule.turns if self.schedule else 1


def cut_row(program: Program) -> CutRow | None:
    """The row that the program's plan shares among stages, if any.

    Raises DiagnosticError where the plan does not fit the row, or its numbers do not divide.
    """
    entries, schedules = tuple(_entries(program)), tuple(_schedules(program))
    if not entries:
        if schedules:
            raise DiagnosticError.of(ScheduleOfNothing(schedules[0].span, program.main.block))
        return None
    problems: dict[Problem, None] = {}
    for other in schedules[1:]:
        problems[TwoSchedules(other.span, schedules[0].span)] = None
    rows: dict[str, CutRow] = {}
    for entry in entries:
        row = _row(program, entry, schedules[0] if schedules else None)
        if row is None:
            problems[RowMisfit(entry.span, entry.path[0], program.main.block, str(entry.rest))] = (
                None
            )
            continue
        rows.setdefault(entry.path[0], row)
        if len(rows) > 1 or row.axis != rows[entry.path[0]].axis:
            problems[OneRowOnly(entry.span, entry.path[0], entries[0].span)] = None
        else:
            problems |= dict.fromkeys(_uneven(row, entry))
    if problems:
        raise DiagnosticError.of(*problems)
    return next(iter(rows.values()))


def check_row(program: Program, plan: Plan | None) -> None:
    """Raise what `cut_row` raises of a program under a plan; most plans say nothing of rows."""
    if plan and (plan.schedules or any(entry.path[-1] == ROUNDS for entry in plan.entries)):
        cut_row(replace(program, plan=plan))


def with_numbers(row: CutRow) -> CutRow:
    """The row itself; raises DiagnosticError where its axis has no number of ranks."""
    if row.ranks is None:
        raise DiagnosticError.of(NoMeshSize(row.axis))
    return row


def _entries(program: Program) -> Iterator[Entry]:
    """The lines of the plan about rows of the entry block."""
    for entry in program.plan.entries if program.plan else ():
        if entry.path[-1] == ROUNDS and entry.block == program.main.block_id:
            yield entry


def _schedules(program: Program) -> Iterator[Schedule]:
    """The lines of the plan about the order of the entry block's stages."""
    for schedule in program.plan.schedules if program.plan else ():
        if schedule.block == program.main.block_id:
            yield schedule


def _uneven(row: CutRow, entry: Entry) -> Iterator[Problem]:
    """Rounds that stages cannot share equally, microbatches that do not go round in groups."""
    schedule = row.schedule
    if row.ranks and row.rounds is not None and row.rounds % (row.ranks * row.turns):
        sizes = *(((str(row.turns), row.turns),) if row.turns > 1 else ()), (row.axis, row.ranks)
        yield NotDivisible(entry.span, str(row.call.count), row.rounds, sizes)
    elif schedule and row.ranks and not schedule.fits(row.ranks):
        yield PartsInTurns(schedule.span, schedule.parts or 0, row.axis, row.ranks)


def _row(program: Program, entry: Entry, schedule: Schedule | None) -> CutRow | None:
    """The row that an entry cuts; None where it is no row, or has another number of rounds."""
    main, layout, plan = program.main, entry.rest, program.plan
    assert layout is not None
    assert plan is not None
    call = next((c for c in main.calls if c.path == entry.path[0] and c.count is not None), None)
    (dim,), ((axis,),) = layout.dims, layout.cuts
    if call is None or call.count is None or dim is None or not main.sizes.same(dim, call.count):
        return None
    numbers = main.sizes.bind({**main.sizes.defaults, **program.numbers})
    ranks = program.mesh.get(axis, plan.mesh.get(axis))
    rounds = value_of(main.sizes.expand(call.count), numbers)
    return CutRow(call, axis, ranks, rounds, schedule)
