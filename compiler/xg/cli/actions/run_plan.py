"""`xg plan`: the quickest plan for so many ranks with so much memory, and why others lose."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from xg.cli.actions.run_cost import machines_of
from xg.cli.arguments import settings_of
from xg.cli.console import Console, json_text
from xg.cli.exits import FINE, PROBLEM
from xg.cli.opening import open_project
from xg.cli.plan_search import Candidate, FoundPlans, PlanSearch, Wish
from xg.cli.render.table import aligned, seconds
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

# The plans that a search has found: a table with the reason why each but the first loses.


_HEAD = ("plan", "mesh", "parts", "computing", "sending", "waiting", "step", "held", "why not")


def lines(found: FoundPlans, wish: Wish) -> Iterator[str]:
    """The best, or what is nearest to fitting."""
    block = wish.project.main.blocks[-1].name.name if wish.block is None else wish.block
    ranks = "1 rank" if wish.ranks == 1 else f"{wish.ranks} ranks"
    where = f"{ranks} of {wish.cluster.inside.name} with {_bytes(wish.memory)}"
    yield (
        f"{block} on {where}, {wish.dtype}: {found.products} products of plans on {found.meshes} "
        "meshes tried"
    )
    if found.best:
        rows = [_HEAD, *(_row(each, found.best[0]) for each in found.best)]
        yield from aligned(rows, frozenset(range(2, 8)), "  ")
        best = found.best[0]
        inner = " and ".join(best.price.inner)
        within = f"; within a node: {inner}" if inner else ""
        yield f"best: {best.product.name or 'one device'}{within}"
        yield "times are bounds from below: peak rates, and nothing overlaps"
    else:
        yield from _refusal(found, wish)
    alone = {name: why for name, why in found.refused.items() if "×" not in name}
    for name, why in list((alone or found.refused).items())[:3]:
        yield f"{name} is left out: {why}"


def _refusal(found: FoundPlans, wish: Wish) -> Iterator[str]:
    if not found.nearest:
        yield f"no product of plans can be shared by {wish.ranks} ranks"
    elif found.nearest[0].ranks < wish.ranks:
        yield f"no product of plans can be shared by {wish.ranks} ranks; the nearest:"
    else:
        yield f"nothing fits into {_bytes(wish.memory)}; the nearest:"
    for each in found.nearest:
        name = each.product.name or "one device"
        mesh = f" on {each.mesh}" if each.mesh else ""
        parts = f" in {each.price.parts} microbatches" if each.price.parts > 1 else ""
        yield f"  {name}{mesh}{parts} holds {_bytes(each.price.memory)}"


def as_data(found: FoundPlans, wish: Wish) -> Mapping[str, object]:
    """The same as data."""
    best = found.best[0] if found.best else None
    return {
        "ranks": wish.ranks,
        "memory": wish.memory,
        "dtype": wish.dtype,
        "products": found.products,
        "meshes": found.meshes,
        "plans": [_data(each, best) for each in found.best],
        "nearest": [_data(each, None) for each in found.nearest],
        "refused": dict(found.refused),
    }


def _data(each: Candidate, best: Candidate | None) -> Mapping[str, object]:
    price = each.price
    return {
        "plan": each.product.name,
        "mesh": dict(price.mesh),
        "microbatches": price.parts,
        "computing": price.computing,
        "sending": price.sending,
        "waiting": price.waiting,
        "seconds": price.seconds,
        "held": price.memory,
        "inner": list(price.inner),
        "loses": reason(each, best) if best is not None and each is not best else None,
    }


def _row(each: Candidate, best: Candidate) -> tuple[str, ...]:
    price = each.price
    times = (price.computing, price.sending, price.waiting, price.seconds)
    why = "" if each is best else reason(each, best)
    name = each.product.name or "one device"
    return (name, each.mesh, str(price.parts), *map(seconds, times), _bytes(price.memory), why)


def reason(each: Candidate, best: Candidate) -> str:
    """Why a plan loses against the best: what takes longer, and where."""
    one, other = each.price, best.price
    more = {
        "computing": one.computing - other.computing,
        "sending": one.sending - other.sending,
        "waiting": one.waiting - other.waiting,
    }
    worst = max(more, key=lambda what: more[what])
    if more[worst] <= 1e-3 * other.seconds:
        bytes_, less = _bytes(one.memory), _bytes(other.memory)
        return "as quick" if bytes_ == less else f"as quick, holds {bytes_}, not {less}"
    time = seconds(more[worst])
    if worst == "computing":
        return f"computes {time} longer"
    if worst == "waiting":
        return f"waits {time} longer in the pipeline"
    over = max(one.sent, key=lambda axis: one.sent[axis] - other.sent.get(axis, 0.0))
    near = set(over.split("*")) <= set(one.inner)
    return f"sends {time} longer, most over {over}, {'in a node' if near else 'between nodes'}"


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


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
