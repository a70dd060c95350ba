"""`xg plan`: the quickest plan for so many ranks with so much memory, and why others lose."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection
from pathlib import Path

from xg.cli.actions.run_cost import machines_of
from xg.cli.arguments import settings_of
from xg.cli.console import Console
from xg.cli.exits import FINE, PROBLEM
from xg.cli.opening import open_project
from xg.cli.plan_candidates import Candidate, Wish
from xg.cli.plan_search import PlanSearch
from xg.cli.render.found_plans import as_data, lines
from xg.cli.render.json_text import json_text
from xg.cost.stage_cost import Cluster
from xg.diagnostics.source import Source
from xg.frontend.choose_plan import plans_of
from xg.frontend.typed import Settings, shape_project
from xg.ir.graph import Program
from xg.ir.size_checks import axes_of
from xg.ir.walk import instances
from xg.syntax.format import format
from xg.syntax.tokens import tokenize
from xg_runtime import files
from xg_runtime.errors import InputError


def run(options: Namespace, console: Console) -> int:
    """Search, print the ten best, and write the winner where that is asked for."""
    project = open_project(options.file)
    wish = Wish(
        project,
        options.block,
        settings_of(options),
        options.dtype,
        options.ranks,
        options.memory,
        _cluster(options),
    )
    _refuse(options, wish)
    found = PlanSearch(wish).run()
    if options.json:
        console.write(json_text(as_data(found, wish)))
    else:
        console.say_all(lines(found, wish))
    if not found.best:
        return PROBLEM
    if options.write is not None:
        console.note(_written(options.file, options.write, found.best[0]))
    return FINE


def _refuse(options: Namespace, wish: Wish) -> None:
    """Raise InputError for what no search can answer."""
    plans = plans_of(wish.project, wish.settings)
    if not plans:
        raise InputError(f"{options.file} has no plan to choose from")
    if options.write is not None:
        _refuse_name(options.file, options.write, plans)
    axes = {axis for plan in plans.values() for axis in plan.mesh}
    if given := sorted(axes & wish.settings.keys()):
        raise InputError(f"the search chooses the sizes of the mesh: leave --set {given[0]} out")
    program = shape_project(wish.project, wish.block, wish.settings)
    sizes = program.main.sizes
    numbers = sizes.bind({**sizes.defaults, **_whole(wish.settings)})
    missing = sorted(_symbols(program) - {*numbers, *sizes.mesh})
    if missing:
        told = " ".join(f"--set {name}=…" for name in missing)
        raise InputError(f"a plan is chosen for sizes with numbers: {told}")


def _whole(settings: Settings) -> dict[str, int]:
    return {name: value for name, value in settings.items() if isinstance(value, int)}


def _cluster(options: Namespace) -> Cluster:
    """The machine of a node, and the one between nodes; raises InputError."""
    table = {machine.name: machine for machine in machines_of(options.hardware)}
    between = options.between or f"{options.machine}-network"
    for name in (options.machine, *([options.between] if options.between else [])):
        if name not in table:
            raise InputError(f"there is no machine {name}: the table has {', '.join(table)}")
    if between not in table and options.ranks > options.node:
        raise InputError(
            f"{options.ranks} ranks are more than a node of {options.node}, and the table has no "
            f"{between}: --between says over what nodes send, --node how large they are"
        )
    if options.dtype not in table[options.machine].flops:
        raise InputError(f"{options.machine} has no rate for {options.dtype}")
    return Cluster(table[options.machine], table.get(between), options.node)


# ---- the winner as a plan of the file ------------------------------------------------------------


def _symbols(program: Program) -> set[str]:
    """Every size that costs depend on: of axes, and of how often blocks are called."""
    found: set[str] = set()
    for graph, symbols in instances(program):
        counts = [call.count for call in graph.calls if call.count is not None]
        for dim in (*axes_of(graph), *counts):
            found.update(graph.sizes.expand(dim).substitute(symbols).symbols())
    return found


def _refuse_name(file: str, name: str, plans: Collection[str]) -> None:
    """Raise InputError where a plan of that name cannot be written."""
    if file == "-" or not Path(file).is_file():
        raise InputError("--write needs a file, not standard input or a shipped diagram")
    found = tokenize(Source("name", name))
    if found.problems or [token.type for token in found.tokens] != ["NAME", "$END"]:
        raise InputError(f"{name!r} is no name for a plan: letters, digits and _, a letter first")
    if name in plans:
        raise InputError(f"{file} has a plan {name}: give the new one another name")


def _written(file: str, name: str, winner: Candidate) -> str:
    """Add the winner to the file, in canonical layout, and tell how it is used.

    Raises InputError and FileError.
    """
    factors = winner.product.factors
    if not factors:
        raise InputError("one device is best: there is no plan to write")
    title = f"{winner.ranks} ranks: {winner.mesh.replace(' × ', ', ')}"
    path = Path(file)
    text = files.read(path).decode()
    line = f'plan {name} "{title}" = {" × ".join(factors)}\n'
    laid_out = format(Source.from_bytes(path.as_posix(), f"{text.rstrip()}\n\n{line}".encode()))
    files.write(path, laid_out.encode())
    sizes = " ".join(f"--set {axis}={size}" for axis, size in winner.price.mesh.items())
    parts = winner.price.parts
    train = f", and in xg train --accumulate {parts}" if parts > 1 else ""
    return f"{file}: plan {name} is written; use it with --plan {name} {sizes}{train}"
