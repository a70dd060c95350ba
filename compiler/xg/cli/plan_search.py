"""A search for the quickest plan that fits: products of a file's plans, on meshes of every shape.

Factors are added one by one to the products that did best so far, by their time and by their
memory. Each product is compiled once, for its costs are formulas in the sizes of the mesh; a
pipeline is tried by taking equal parts of these. The best are compiled again at their own sizes.

Stages are tried with every product and not last: recomputation wins without a pipeline and loses
once stages have made the memory fit. Compiling each product with each number of stages would take
ten times as long.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from math import prod
from pathlib import Path
from typing import Final

from xg.cli.arguments import settings_of
from xg.cli.console import Console, json_text
from xg.cli.costs import machines_of
from xg.cli.exits import FINE, PROBLEM
from xg.cli.opening import open_project
from xg.cost.stage_cost import (
    Cluster,
    Formula,
    MeshPrice,
    StageCost,
    formula,
    price,
    shapes,
    share,
    stages_of,
    value,
)
from xg.cost.table import align_columns, seconds
from xg.diagnostics.diagnostic import DiagnosticError, Source
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.diagnostics.terminal import counted
from xg.driver import compile_typed
from xg.frontend.plan_in_choices import check_parallel, plans_of
from xg.frontend.project import Project
from xg.frontend.typed import Settings, named_block, shape_project, type_project
from xg.ir.graph import IRProgram
from xg.ir.placement import ROUNDS, Plan, axes_over, is_zigzag
from xg.ir.size_checks import axes_of
from xg.ir.walk import instances
from xg.passes.resolve.plans import multiply
from xg.sharding.apply_plan import placed_values
from xg.sharding.divisibility import cuts_of
from xg.syntax.ast import Plan as PlanText
from xg.syntax.format import format
from xg.syntax.tokens import tokenize
from xg_runtime import files
from xg_runtime.cells import fits
from xg_runtime.errors import InputError

# Products of plans on meshes, as a search prices them.


WHOLE = 1e-6  # a quotient of floats that is so near to a whole number is one


@dataclass(frozen=True, slots=True)
class Wish:
    """The request: what is compiled, on how many ranks, with how many bytes for each."""

    project: Project
    block: str | None
    settings: Settings
    dtype: str
    ranks: int
    memory: float
    cluster: Cluster


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A plan that shares the `rounds` of a row among stages over an axis."""

    name: str
    axis: str
    rounds: int
    turns: int
    order: str

    def counts(self, ranks: int) -> list[int]:
        """The numbers of ranks along its axis that can share its rounds."""
        rows = self.rounds // self.turns if self.rounds % self.turns == 0 else 0
        return [n for n in range(2, min(ranks, rows) + 1) if ranks % n == rows % n == 0]


@dataclass(frozen=True, slots=True)
class Product:
    """Plans that are used together, compiled, with the costs of each stage.

    `cuts` are the sizes that ranks share, with the axes over which they do; `numbers` are the sizes
    of the formulas, `batch` the size that microbatches share.
    """

    factors: tuple[str, ...]
    axes: tuple[str, ...]
    cuts: tuple[tuple[Formula, tuple[str, ...]], ...]
    costs: tuple[StageCost, ...]
    numbers: Mapping[str, int]
    batch: str | None
    pipeline: Pipeline | None = None

    @property
    def name(self) -> str:
        """As files and `--plan` write it; one device has none."""
        return " × ".join(self.factors)

    @property
    def base(self) -> tuple[str, ...]:
        """Its plans without the pipeline."""
        return tuple(
            each for each in self.factors if self.pipeline is None or each != self.pipeline.name
        )

    @property
    def stages(self) -> str | None:
        """The axis of its stages."""
        return self.pipeline.axis if self.pipeline else None

    @property
    def order(self) -> str:
        """The order in which stages take microbatches."""
        return self.pipeline.order if self.pipeline else "1F1B"

    @property
    def rows(self) -> int:
        """The rows of a batch."""
        return self.numbers.get(self.batch or "", 1)

    def numbers_of(self, parts: int) -> Mapping[str, int]:
        """Return the sizes of one microbatch, if the batch is cut into `parts` microbatches."""
        return (
            self.numbers if self.batch is None else {**self.numbers, self.batch: self.rows // parts}
        )

    def can_share(self, mesh: Mapping[str, int], parts: int) -> bool:
        """Whether the ranks can share every size that they cut, as the checks of a plan ask."""
        numbers = {**dict.fromkeys(self.axes, 1), **self.numbers_of(parts), **mesh}
        for size, axes in self.cuts:
            ranks = prod(mesh.get(axis, 1) for over in axes for axis in axes_over(over))
            ranks *= 2 if any(map(is_zigzag, axes)) else 1
            number = value(size, numbers) if ranks > 1 else 0.0
            if abs(number - round(number)) < WHOLE and round(number) % ranks:
                return False
        return True

    def in_stages(self, pipeline: Pipeline, factors: tuple[str, ...], ranks: int) -> Product:
        """The product with a pipeline, each stage being taken as an equal part of the whole."""
        count = ranks * pipeline.turns
        (whole,) = self.costs
        return replace(
            self, factors=factors, costs=(share(whole, count),) * count, pipeline=pipeline
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A product on one mesh."""

    product: Product
    price: MeshPrice

    @property
    def ranks(self) -> int:
        """The ranks of its mesh."""
        return prod(self.price.mesh.values())

    @property
    def mesh(self) -> str:
        """Its mesh as people write it."""
        return " × ".join(f"{axis} = {size}" for axis, size in self.price.mesh.items())


@dataclass(frozen=True, slots=True)
class FoundPlans:
    """The best plans that fit, the nearest of the others, and how many were tried."""

    best: Sequence[Candidate]
    nearest: Sequence[Candidate]
    products: int
    meshes: int
    refused: Mapping[str, str]


def pipelines_of(plans: Mapping[str, Plan], typed: IRProgram) -> dict[str, Pipeline]:
    """Every plan that cuts a row of the program's block."""
    numbers = typed.main.sizes.bind(typed.all_numbers)
    rounds = {
        call.path: call.count.evaluate(numbers)
        for call in typed.main.calls
        if call.count is not None and {*call.count.symbols()} <= numbers.keys()
    }
    found: dict[str, Pipeline] = {}
    for name, plan in plans.items():
        for entry in plan.entries:
            if entry.path[-1:] == (ROUNDS,) and plan.mesh:
                order = plan.schedules[0] if plan.schedules else None
                found[name] = Pipeline(
                    name,
                    next(iter(plan.mesh)),
                    rounds.get(entry.path[-2], 0),
                    order.turns if order else 1,
                    order.name if order else "1F1B",
                )
    return found


def microbatches(product: Product, ranks: int) -> list[int]:
    """The numbers of microbatches to try, few first; of a pipeline enough to fill it."""
    rows = product.rows
    counts = [n for n in range(1, rows + 1) if rows % n == 0]
    if product.pipeline is None:
        return counts
    turns = product.pipeline.turns
    return [n for n in counts if ranks <= n <= 16 * ranks and fits(ranks, n, turns)] or [
        n for n in counts[-1:] if fits(ranks, n, turns)
    ]


def distinct(ordered: Iterable[Candidate]) -> list[Candidate]:
    """Keep the first candidate of each cost: others use another axis for data, for example."""
    found: dict[tuple[str, str], Candidate] = {}
    for each in ordered:
        found.setdefault(_cost(each), each)
    return list(found.values())


def unlike(ordered: Iterable[Candidate]) -> Iterator[tuple[str, ...]]:
    """The plans of candidates without their pipelines, where none before cost the same."""
    prices: set[tuple[str, str]] = set()
    names: set[tuple[str, ...]] = set()
    for each in ordered:
        cost = _cost(each)
        if cost not in prices and each.product.base not in names:
            names.add(each.product.base)
            yield each.product.base
        prices.add(cost)


def _cost(candidate: Candidate) -> tuple[str, str]:
    return f"{candidate.price.seconds:.6g}", f"{candidate.price.memory:.6g}"


WIDTH: Final = 2  # products that get another factor, by each of three measures
FACTORS: Final = 5  # of a product, without a pipeline
TRIES: Final = 30  # compiled at their own sizes
SHOWN: Final = 10


@dataclass(slots=True)
class PlanSearch:
    """One search."""

    wish: Wish
    plans: Mapping[str, Plan] = field(init=False)
    pipelines: Mapping[str, Pipeline] = field(init=False)
    known: dict[tuple[str, ...], Product | None] = field(init=False)
    refused: dict[str, str] = field(init=False)
    typed: dict[tuple[tuple[str, str | int], ...], tuple[IRProgram, Mapping[str, Plan]]] = field(
        init=False
    )
    priced: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Find the plans that are not products of other plans."""
        project = self.wish.project
        own = {
            decl.name.name
            for m in project.modules
            for decl in m.plan_decls
            if isinstance(decl, PlanText)
        }
        self.known, self.refused, self.typed = {}, {}, {}
        found = plans_of(project, self.wish.settings)
        self.plans = {name: plan for name, plan in found.items() if name in own}
        self.pipelines = pipelines_of(self.plans, self._apply_plan((), dict(self.wish.settings)))

    def run(self) -> FoundPlans:
        """Search; raises DiagnosticError where the block itself does not compile."""
        candidates: list[Candidate] = []
        beam: list[tuple[str, ...]] = [()]
        for _ in range(FACTORS):
            level: list[Candidate] = []
            for factors in dict.fromkeys(f for base in beam for f in self._longer(base)):
                level += self._candidates(factors)
            candidates += level
            beam = self._beam(level)
        return self._found(candidates)

    # ---- products -------------------------------------------------------------------------------

    def _longer(self, factors: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """The product itself if it is one device, and with one factor more."""
        if not factors:
            yield ()
        for name in self.plans:
            if name in self.pipelines:
                continue
            if name not in factors and all(self._meet(name, other) for other in factors):
                yield tuple(each for each in self.plans if each in (*factors, name))

    def _meet(self, one: str, other: str) -> bool:
        """Whether two plans say different things: not the same value, nor both only of memory."""
        a, b = self.plans[one], self.plans[other]
        if not a.mesh and not b.mesh:
            return False
        places = [
            {(entry.block, entry.path) for entry in plan.entries if entry.rest is not None}
            for plan in (a, b)
        ]
        same_axes = set(a.mesh) & set(b.mesh)
        return not (same_axes and places[0] & places[1])

    def _product(self, factors: tuple[str, ...]) -> Product | None:
        """The compiled product; None where it is refused."""
        if factors not in self.known:
            self.known[factors] = self._compile_product(factors, {}, brief=True)
        return self.known[factors]

    def _in_stages(self, product: Product) -> Iterator[tuple[Product, int]]:
        """The product alone, then with each pipeline that it meets, by the number of its ranks."""
        yield product, 1
        for name, pipeline in self.pipelines.items():
            if all(self._meet(name, other) for other in product.factors):
                factors = tuple(each for each in self.plans if each in (*product.factors, name))
                for ranks in pipeline.counts(self.wish.ranks):
                    yield product.in_stages(pipeline, factors, ranks), ranks

    def _compile_product(
        self, factors: tuple[str, ...], mesh: Mapping[str, int], *, brief: bool
    ) -> Product | None:
        pipeline = next((p for name, p in self.pipelines.items() if name in factors), None)
        try:
            program = compile_typed(
                self._apply_plan(factors, {**self.wish.settings, **mesh}), self.wish.project
            )
            programs = program.stages or (program,)
            reports = program.costs(self.wish.dtype, brief=brief)
        except DiagnosticError as error:
            if not factors:
                raise
            self.refused.setdefault(" × ".join(factors), error.diagnostics[0].message)
            return None
        told = dict.fromkeys(a for f in factors for a in self.plans[f].mesh)
        stages = pipeline.axis if pipeline else None
        axes = tuple(dict.fromkeys(a for a in (*program.mesh, *told) if a in told and a != stages))
        placed = programs[0].distributed
        cuts = cuts_of(placed, placed_values(placed)) if placed else ()
        main = programs[0].on_one_device.graphs.main
        first = next((main.types[value].shape for value in main.inputs), ())
        batch = first[0].name if first else None
        costs, numbers = stages_of(reports), reports[0].numbers
        return Product(
            factors,
            axes,
            tuple((formula(dim), over) for dim, over in cuts),
            costs,
            numbers,
            batch,
            pipeline,
        )

    def _apply_plan(self, factors: tuple[str, ...], settings: Settings) -> IRProgram:
        """The block with the product as its plan; types and plans are found once for all."""
        key = tuple(sorted(settings.items()))
        if key not in self.typed:
            typed = type_project(self.wish.project, self.wish.block, settings)
            self.typed[key] = typed, plans_of(self.wish.project, settings)
        typed, plans = self.typed[key]
        if factors:
            typed = replace(typed, plan=multiply(plans, factors))
            check_parallel(typed)
        return typed

    # ---- prices ---------------------------------------------------------------------------------

    def _candidates(self, factors: tuple[str, ...]) -> list[Candidate]:
        """A product on every mesh of as many ranks, or of a part of them where that is valid."""
        product = self._product(factors)
        if product is None:
            return []
        return [
            candidate
            for staged, stages in self._in_stages(product)
            for candidate in self._on_meshes(staged, stages)
        ]

    def _on_meshes(self, product: Product, stages: int) -> Iterator[Candidate]:
        ranks = self.wish.ranks // stages
        for part in sorted((n for n in range(1, ranks + 1) if ranks % n == 0), reverse=True):
            valid = False
            for mesh in self._meshes(product, part):
                whole = {product.stages: stages, **mesh} if product.stages else mesh
                if candidate := self._in_parts(product, whole, stages):
                    valid = True
                    yield candidate
            if valid:  # fewer ranks only where so many cannot share the sizes
                return

    def _meshes(self, product: Product, ranks: int) -> Iterator[dict[str, int]]:
        """Yield every mesh of `ranks` ranks on which each factor has an axis to share over.

        Of a factor with several axes some may have one rank.
        """
        needed = [self.plans[name].mesh.keys() for name in product.base]
        for count in range(len(product.axes), -1, -1):
            for used in combinations(product.axes, count):
                if all(not axes or axes & {*used} for axes in needed):
                    for mesh in shapes(used, ranks):
                        yield {axis: mesh.get(axis, 1) for axis in product.axes}

    def _in_parts(self, product: Product, mesh: dict[str, int], stages: int) -> Candidate | None:
        """The quickest number of microbatches that fits, or the one that comes nearest."""
        counts = (n for n in microbatches(product, stages) if product.can_share(mesh, n))
        found = [each for each in (self._price(product, mesh, n) for n in counts) if each]
        if not found:
            return None
        self.priced += 1
        fitting = [each for each in found if each.memory <= self.wish.memory]
        if fitting:
            return Candidate(product, min(fitting, key=lambda each: each.seconds))
        return Candidate(product, min(found, key=lambda each: each.memory))

    def _price(self, product: Product, mesh: Mapping[str, int], parts: int) -> MeshPrice | None:
        numbers, cluster = product.numbers_of(parts), self.wish.cluster
        return price(product.costs, mesh, product.stages, numbers, parts, cluster, product.order)

    # ---- results --------------------------------------------------------------------------------

    def _beam(self, level: Sequence[Candidate]) -> list[tuple[str, ...]]:
        """The products to go on with."""
        limit = self.wish.memory
        quick = sorted(level, key=lambda each: (not self._fits(each), each.price.seconds))
        near = sorted(level, key=lambda e: e.price.seconds * max(1.0, e.price.memory / limit))
        small = sorted(level, key=lambda each: each.price.memory)
        return list(
            dict.fromkeys(f for ways in (quick, near, small) for f in islice(unlike(ways), WIDTH))
        )

    def _fits(self, candidate: Candidate) -> bool:
        return candidate.price.memory <= self.wish.memory

    def _found(self, candidates: Sequence[Candidate]) -> FoundPlans:
        most = max((each.ranks for each in candidates), default=0)
        whole = [each for each in candidates if each.ranks == most]
        fitting = sorted(filter(self._fits, whole), key=lambda each: each.price.seconds)
        if most < self.wish.ranks:
            fitting.clear()
        others = sorted(
            (each for each in whole if not (self._fits(each) and fitting)),
            key=lambda each: each.price.memory,
        )
        best = self._compile_best(distinct(fitting))
        return FoundPlans(best, distinct(others)[:3], len(self.known), self.priced, self.refused)

    def _compile_best(self, ordered: Sequence[Candidate]) -> list[Candidate]:
        """The first that compile at their own sizes, with the costs that they have there."""
        found: list[Candidate] = []
        for candidate in ordered[:TRIES]:
            mesh = candidate.price.mesh
            product = self._compile_product(candidate.product.factors, mesh, brief=False)
            cost = product and self._price(product, mesh, candidate.price.parts)
            if product and cost and cost.memory <= self.wish.memory:
                found.append(Candidate(product, cost))
            if len(found) == SHOWN:
                break
        return sorted(found, key=lambda each: each.price.seconds)


# `xg plan`: the quickest plan for so many ranks with so much memory, and why others lose.


# The plans that a search has found: a table with the reason why each but the first loses.


_HEAD = ("plan", "mesh", "parts", "computing", "sending", "waiting", "step", "held", "why not")


def lines(found: FoundPlans, wish: Wish) -> Iterator[str]:
    """The best, or what is nearest to fitting."""
    block = named_block(wish.project, wish.block).name.name
    ranks = "1 rank" if wish.ranks == 1 else f"{wish.ranks} ranks"
    where = f"{ranks} of {wish.cluster.inside.name} with {_bytes(wish.memory)}"
    yield (
        f"{block} on {where}, {wish.dtype}: tried {counted(found.products, 'plan combination')} "
        f"on {found.meshes} mesh{'' if found.meshes == 1 else 'es'}"
    )
    if found.best:
        rows = [_HEAD, *(_row(each, found.best[0]) for each in found.best)]
        yield from align_columns(rows, frozenset(range(2, 8)), "  ")
        best = found.best[0]
        inner = " and ".join(best.price.inner)
        within = f"; within a node: {inner}" if inner else ""
        yield f"best: {best.product.name or 'one device'}{within}"
        yield "times are lower bounds: peak rates, no overlap"
    else:
        yield from _refusal(found, wish)
    alone = {name: why for name, why in found.refused.items() if "×" not in name}
    for name, why in list((alone or found.refused).items())[:3]:
        yield f"{name} is left out: {why}"


def _refusal(found: FoundPlans, wish: Wish) -> Iterator[str]:
    if not found.nearest:
        yield f"no plan combination can use all {wish.ranks} ranks"
    elif found.nearest[0].ranks < wish.ranks:
        yield f"no plan combination can use all {wish.ranks} ranks; the nearest:"
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
        return "same time" if bytes_ == less else f"same time, {bytes_} instead of {less}"
    time = seconds(more[worst])
    if worst == "computing":
        return f"{time} more computation"
    if worst == "waiting":
        return f"{time} more waiting in the pipeline"
    over = max(one.sent, key=lambda axis: one.sent[axis] - other.sent.get(axis, 0.0))
    near = set(over.split("*")) <= set(one.inner)
    where = "inside a node" if near else "between nodes"
    return f"{time} more communication, mostly over {over}, {where}"


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def search(options: Namespace, console: Console) -> int:
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
        console.say_lines(lines(found, wish))
    if not found.best:
        return PROBLEM
    if options.write is not None:
        console.note(_written(options.file, options.write, found.best[0]))
    return FINE


def _refuse(options: Namespace, wish: Wish) -> None:
    """Raise InputError for what no search can answer."""
    plans = plans_of(wish.project, wish.settings)
    if not plans:
        raise InputError(
            f"{options.file} has no plan to choose from: declare one, such as `plan TP of BLOCK`"
        )
    if options.write is not None:
        _refuse_name(options.file, options.write, plans)
    axes = {axis for plan in plans.values() for axis in plan.mesh}
    if given := sorted(axes & wish.settings.keys()):
        raise InputError(
            f"--set {given[0]}=… fixes an axis of the mesh, but the search chooses the mesh: "
            "leave it out"
        )
    program = shape_project(wish.project, wish.block, wish.settings)
    sizes = program.main.sizes
    numbers = sizes.bind({**sizes.defaults, **_integer_settings(wish.settings)})
    missing = sorted(_symbols(program) - {*numbers, *sizes.mesh})
    if missing:
        told = " ".join(f"--set {name}=…" for name in missing)
        raise InputError(f"the search needs a number for every size: {told}")


def _integer_settings(settings: Settings) -> dict[str, int]:
    return {name: value for name, value in settings.items() if isinstance(value, int)}


def _cluster(options: Namespace) -> Cluster:
    """The machine of a node, and the one between nodes; raises InputError."""
    table = {machine.name: machine for machine in machines_of(options.hardware)}
    between = options.between or f"{options.machine}-network"
    for name in (options.machine, *([options.between] if options.between else [])):
        if name not in table:
            raise InputError(f"no machine is called {name}; the table has {', '.join(table)}")
    if between not in table and options.ranks > options.node:
        raise InputError(
            f"{options.ranks} ranks need several nodes of {options.node}, but the table has "
            f"no network {between}: name one with --between, or set the ranks of a node with "
            "--node"
        )
    if options.dtype not in table[options.machine].flops:
        raise InputError(
            f"{options.machine} has no FLOP rate for {options.dtype}: choose --dtype "
            f"{' or '.join(table[options.machine].flops)}"
        )
    return Cluster(table[options.machine], table.get(between), options.node)


# ---- the winner as a plan of the file ------------------------------------------------------------


def _symbols(program: IRProgram) -> set[str]:
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
        raise InputError(
            f"{name!r} is not a name for a plan: use letters, digits and _, and begin with a letter"
        )
    if name in plans:
        raise InputError(f"{file} has a plan {name}: give the new one another name")


def _written(file: str, name: str, winner: Candidate) -> str:
    """Add the winner to the file, in canonical layout, and tell how it is used.

    Raises InputError and FileError.
    """
    factors = winner.product.factors
    if not factors:
        raise InputError(
            "one device is the best choice, so there is no plan to write: leave out --write"
        )
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
