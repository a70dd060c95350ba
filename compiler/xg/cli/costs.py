"""Count the costs of a program, of a pipeline's stages, or of every plan side by side."""

from __future__ import annotations

import tomllib
from argparse import Namespace
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xg.cli.arguments import settings_of
from xg.cli.compiling import compile_request, stage_of
from xg.cli.console import Console, json_text
from xg.cli.exits import FINE, PROBLEM
from xg.cli.opening import open_project
from xg.cost.communication import total_bytes, total_formula
from xg.cost.report import (
    ESTIMATE,
    CostReport,
    Machine,
    UnreadableMachines,
    as_data,
    lines,
    machines,
    sizes,
)
from xg.cost.table import align_columns, amount, seconds
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.driver import Program, compile_project
from xg.frontend.plan_in_choices import plans_of
from xg_runtime.cells import fits
from xg_runtime.errors import InputError
from xg_runtime.files import read, write

if TYPE_CHECKING:
    from xg.figures import Format


# `xg cost --plan '*'`: one device and every plan of a file, side by side.


_HEAD = ("plan", "mesh", "parameters", "held bytes", "FLOPs", "naive", "ring", "ring bytes")


@dataclass(frozen=True, slots=True)
class PlanCost:
    """A plan with its costs, or why it has none; no name means one device."""

    name: str | None
    report: CostReport | None
    refused: str = ""


def compare_plans(options: Namespace, machines: Sequence[Machine], console: Console) -> int:
    """Compare them; a plan that cannot be compiled says why."""
    project, settings = open_project(options.file), settings_of(options)
    names = [*plans_of(project, settings)]
    if not names:
        console.note(f"xg cost: {options.file} has no plan, so there is none to compare")
        return PROBLEM
    costs: list[PlanCost] = []
    for name in (None, *names):
        try:
            program = compile_project(project, options.block, settings, name)
        except DiagnosticError as error:
            if name is None:
                raise
            costs.append(PlanCost(name, None, error.diagnostics[0].message))
            continue
        for place, counted in enumerate(program.costs(options.dtype, machines)):
            stage = f"{name}, stage {place}" if program.stages else name
            costs.append(PlanCost(stage, counted))
    if options.json:
        _write(costs, console)
    else:
        console.say_lines(_lines(costs, options.dtype))
    return FINE


def _write(found: Sequence[PlanCost], console: Console) -> None:
    plans = [
        as_data(each.report) if each.report else {"plan": each.name, "refused": each.refused}
        for each in found
    ]
    console.write(json_text({"plans": plans}))


def _lines(found: Sequence[PlanCost], dtype: str) -> Iterator[str]:
    compiled = [each for each in found if each.report]
    first = compiled[0].report
    assert first
    yield f"{first.cost.program.main.block}, one step of one rank, {dtype}: {_all_sizes(compiled)}"
    names = [each.machine.name for each in first.estimates]
    rows = [
        (*_HEAD, *names),
        *(_plan_row(each.name or "one device", each.report) for each in compiled),
    ]
    yield from align_columns(rows, frozenset(range(2, len(_HEAD) + len(names))), "  ")
    yield from (f"  {each.name} is refused: {each.refused}" for each in found if not each.report)
    yield ""
    yield "elements sent per rank (ring algorithm)"
    yield from align_columns([*_formulas(compiled)], indent="  ")
    yield ""
    yield "held: parameters, gradients, both Adam moments and saved activations; naive and ring:"
    yield "elements sent per rank"
    if names:
        yield ESTIMATE


def _all_sizes(compiled: Sequence[PlanCost]) -> str:
    """The sizes of all of them, where one plan mentions more than another."""
    mentioned = [sizes(each.report) for each in compiled if each.report]
    return max(mentioned, key=len)


def _formulas(compiled: Sequence[PlanCost]) -> Iterator[tuple[str, str]]:
    for each in compiled:
        if each.name and each.report:
            yield each.name, total_formula(each.report.sent, "ring")


def _plan_row(name: str, found: CostReport | None) -> tuple[str, ...]:
    assert found
    numbers = found.numbers
    mesh = " × ".join(f"{axis} = {size}" for axis, size in found.mesh.items())
    amounts = (*found.compared, total_bytes(found.sent))
    times = (seconds(each.total) for each in found.estimates)
    return (name, mesh, *(amount(dim, numbers) for dim in amounts), *times)


ALL = "*"
DRAWN: Final[tuple[Format, ...]] = ("svg", "pdf", "png", "tex")


def report(options: Namespace, console: Console) -> int:
    """Count, and print."""
    table = machines_of(options.hardware)
    if options.plan == ALL:
        return compare_plans(options, table, console)
    program = compile_request(options)
    if program.stages:
        return _pipeline(program, options, table, console)
    for option in ("microbatches", "timeline"):
        if getattr(options, option) is not None:
            raise InputError(
                f"--{option} needs stages, and this program has none: leave it out, or choose "
                "a plan with a line such as `layers [N_L/N_P]`"
            )
    program = stage_of(program, options.stage)  # which it does not have
    (cost_report,) = program.costs(options.dtype, table)
    if options.json:
        console.write(json_text(as_data(cost_report)))
        return FINE
    console.say_lines(lines(cost_report, full=options.full))
    return FINE


def _pipeline(
    program: Program, options: Namespace, table: Sequence[Machine], console: Console
) -> int:
    """Count every stage; print them side by side, and then one of them."""
    from xg.cli import pipeline  # it draws, and few programs are pipelines

    ranks, planned = next(iter(program.mesh.values())), program.schedule
    parts = options.microbatches or (planned and planned.parts) or 2 * ranks
    if not fits(ranks, parts, len(program.stages) // ranks):
        raise InputError(
            f"--microbatches must be a multiple of {ranks} if ranks have several stages; "
            f"found {parts}"
        )
    if options.timeline is not None:
        _draw(program, parts, options.timeline)
    found = program.costs(options.dtype, table)
    place: int = options.stage or 0
    stage_of(program, place)
    if options.json:
        stage_data = [as_data(each) for each in found]
        said = pipeline.data(program, parts)
        console.write(json_text({"pipeline": said, "stages": stage_data}))
        return FINE
    console.say_lines(pipeline.lines(program, found, parts))
    console.say(f"\nstage {place}, one microbatch")
    console.say_lines(lines(found[place], full=options.full))
    return FINE


def _draw(program: Program, parts: int, path: Path) -> None:
    """Write the picture of a pipeline's schedules; raises InputError, FileError."""
    from xg.cli import pipeline  # as above

    format: Format | None = next((each for each in DRAWN if path.suffix == f".{each}"), None)
    if format is None:
        raise InputError(f"{path}: a picture must end in {', '.join(f'.{each}' for each in DRAWN)}")
    write(path, pipeline.picture(program, parts, format, "auto" if format == "svg" else "light"))


def machines_of(path: Path | None) -> tuple[Machine, ...]:
    """Every machine of a table, by default the bundled one; raises FileError, InputError."""
    if path is None:
        text = files("xg.cost").joinpath("hardware.toml").read_text(encoding="utf-8")
        return machines(tomllib.loads(text))
    try:
        return machines(tomllib.loads(read(path).decode("utf-8")))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{path} is not TOML: its brackets are nested too deeply") from None
    except UnreadableMachines as unfit:
        raise InputError(f"{path}: {unfit}") from None
