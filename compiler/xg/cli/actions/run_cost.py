"""`xg cost`: parameters, FLOPs, memory and communication, as formulas and numbers."""

from __future__ import annotations

import tomllib
from argparse import Namespace
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xg.cli.compiling import compile_one, stage_of
from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.cli.render import cost_pipeline
from xg.cli.render.cost_data import as_data
from xg.cli.render.cost_plans import run_all
from xg.cli.render.cost_text import lines
from xg.cli.render.json_text import json_text
from xg.cost.report import Machine, UnreadableMachines, machines
from xg.driver import Program
from xg_runtime.cells import fits
from xg_runtime.errors import InputError
from xg_runtime.files import read, write

if TYPE_CHECKING:
    from xg.figures import Format

ALL = "*"
DRAWN: Final[tuple[Format, ...]] = ("svg", "pdf", "png", "tex")


def run(options: Namespace, console: Console) -> int:
    """Count, and print."""
    table = machines_of(options.hardware)
    if options.plan == ALL:
        return run_all(options, table, console)
    program = compile_one(options)
    if program.stages:
        return _pipeline(program, options, table, console)
    for option in ("microbatches", "timeline"):
        if getattr(options, option) is not None:
            raise InputError(f"--{option} is of a pipeline, and the plan has none")
    program = stage_of(program, options.stage)  # which it does not have
    (cost_report,) = program.costs(options.dtype, table)
    if options.json:
        console.write(json_text(as_data(cost_report)))
        return FINE
    console.say_all(lines(cost_report, full=options.full))
    return FINE


def _pipeline(
    program: Program, options: Namespace, table: Sequence[Machine], console: Console
) -> int:
    """Count every stage; print them side by side, and then one of them."""
    ranks, planned = next(iter(program.mesh.values())), program.schedule
    parts = options.microbatches or (planned and planned.parts) or 2 * ranks
    if not fits(ranks, parts, len(program.stages) // ranks):
        raise InputError(
            f"--microbatches {parts}: where a rank has several stages, microbatches go round in "
            f"groups of {ranks}"
        )
    if options.timeline is not None:
        _draw(program, parts, options.timeline)
    found = program.costs(options.dtype, table)
    place: int = options.stage or 0
    stage_of(program, place)
    if options.json:
        stage_data = [as_data(each) for each in found]
        said = cost_pipeline.data(program, parts)
        console.write(json_text({"pipeline": said, "stages": stage_data}))
        return FINE
    console.say_all(cost_pipeline.lines(program, found, parts))
    console.say(f"\nstage {place}, one microbatch")
    console.say_all(lines(found[place], full=options.full))
    return FINE


def _draw(program: Program, parts: int, path: Path) -> None:
    """Write the picture of a pipeline's schedules; raises InputError, FileError."""
    from xg.cli.render.pipeline_figure import picture  # figures are drawn by few programs

    format: Format | None = next((each for each in DRAWN if path.suffix == f".{each}"), None)
    if format is None:
        raise InputError(f"{path}: pictures end in {', '.join(f'.{each}' for each in DRAWN)}")
    write(path, picture(program, parts, format, "auto" if format == "svg" else "light"))


def machines_of(path: Path | None) -> tuple[Machine, ...]:
    """Every machine of a table, by default the bundled one; raises FileError, InputError."""
    if path is None:
        text = files("xg.cost").joinpath("hardware.toml").read_text(encoding="utf-8")
        return machines(tomllib.loads(text))
    try:
        return machines(tomllib.loads(read(path).decode("utf-8")))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is no TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{path} is no TOML: its brackets are nested too deeply") from None
    except UnreadableMachines as unfit:
        raise InputError(f"{path}: {unfit}") from None
