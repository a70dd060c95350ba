"""A search for the quickest plan that fits: products of a file's plans, on meshes of every shape.

Factors are added one by one to the products that did best so far, by their time and by their
memory. Each product is compiled once, for its costs are formulas in the sizes of the mesh; the best
are compiled again at their own sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import prod
from typing import Final

from xg.cost.mesh_price import Cluster, MeshPrice, price, shapes
from xg.cost.report import CostReport
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.driver import Program, compile_typed
from xg.frontend.choose_plan import check_parallel, plans_of
from xg.frontend.project import Project
from xg.frontend.typed import Settings, type_project
from xg.ir.graph import Program as Graphs
from xg.ir.plan import ROUNDS, Plan
from xg.ir.recent import Recent
from xg.passes.resolve.plans import multiply
from xg.sharding.apply_plan import PlacedValue, placed_values
from xg.sharding.divisibility import check_parts, check_shares
from xg.syntax.ast import Plan as PlanText
from xg_runtime.cells import fits

WIDTH: Final = 4  # products that get another factor: half by time, half by memory
FACTORS: Final = 4  # of a product, without a pipeline
TRIES: Final = 30  # compiled at their own sizes
STAGES: Final = (2, 4, 8)
SHOWN: Final = 10


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
class Product:
    """Plans that are used together, compiled, with the costs of each stage.

    `placed` are the first program and the last on ranks, with all values that the plans place.
    """

    factors: tuple[str, ...]
    axes: tuple[str, ...]
    programs: tuple[Program, ...]
    placed: tuple[tuple[Graphs, tuple[PlacedValue, ...]], ...]
    reports: tuple[CostReport, ...]
    stages: str | None = None

    @property
    def name(self) -> str:
        """As files and `--plan` write it; one device has none."""
        return " × ".join(self.factors)


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


@dataclass(slots=True)
class PlanSearch:
    """One search."""

    wish: Wish
    plans: Mapping[str, Plan] = field(init=False)
    known: dict[tuple[tuple[str, ...], int | None], Product | None] = field(init=False)
    refused: dict[str, str] = field(init=False)
    valid: dict[tuple[str, tuple[tuple[str, int], ...], int], bool] = field(init=False)
    typed: dict[tuple[tuple[str, str | int], ...], tuple[Graphs, Mapping[str, Plan]]] = field(
        init=False
    )
    priced: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Find the plans that are no products of others."""
        project = self.wish.project
        own = {
            decl.name.name
            for m in project.modules
            for decl in m.plan_decls
            if isinstance(decl, PlanText)
        }
        found = plans_of(project, self.wish.settings)
        self.plans = {name: plan for name, plan in found.items() if name in own}
        self.known, self.refused, self.valid, self.typed = {}, {}, {}, {}

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
        for factors in self._beam(candidates):
            for name in self.plans:
                longer = tuple(each for each in self.plans if each in (*factors, name))
                if self._is_pipeline(name) and all(self._meet(name, f) for f in factors):
                    candidates += self._candidates(longer)
        return self._found(candidates)

    # ---- products -------------------------------------------------------------------------------

    def _longer(self, factors: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """The product itself if it is one device, and with one factor more."""
        if not factors:
            yield ()
        for name in self.plans:
            if self._is_pipeline(name):
                continue  # of the best products only, at the end: it compiles every stage
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

    def _is_pipeline(self, name: str) -> bool:
        return any(entry.path[-1:] == (ROUNDS,) for entry in self.plans[name].entries)

    def _stage_axis(self, factors: Sequence[str]) -> str | None:
        for name in factors:
            if self._is_pipeline(name):
                return next(iter(self.plans[name].mesh), None)
        return None

    def _product(self, factors: tuple[str, ...], stages: int | None) -> Product | None:
        """The compiled product; None where it is refused."""
        key = factors, stages
        if key not in self.known:
            axis = self._stage_axis(factors)
            mesh = {axis: stages} if axis and stages else dict[str, int]()
            self.known[key] = self._compiled(factors, mesh, brief=True)
        return self.known[key]

    def _compiled(
        self, factors: tuple[str, ...], mesh: Mapping[str, int], *, brief: bool
    ) -> Product | None:
        wish, axis = self.wish, self._stage_axis(factors)
        name = " × ".join(factors)
        settings = {**wish.settings, **mesh}
        try:
            program = compile_typed(self._planned(factors, settings), wish.project)
            programs = program.stages or (program,)
            reports = program.costs(wish.dtype, brief=brief)
        except DiagnosticError as error:
            if not factors:
                raise
            self.refused.setdefault(name, error.diagnostics[0].message)
            return None
        used = list(program.mesh)
        told = dict.fromkeys(a for f in factors for a in self.plans[f].mesh)
        axes = tuple(a for a in (*used, *told) if a in told and a != axis)
        ends = (each.distributed for each in programs[:: max(1, len(programs) - 1)])
        placed = tuple((end, tuple(placed_values(end))) for end in ends if end is not None)
        return Product(factors, tuple(dict.fromkeys(axes)), programs, placed, reports, axis)

    def _planned(self, factors: tuple[str, ...], settings: Settings) -> Graphs:
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
        axis = self._stage_axis(factors)
        counts = [n for n in STAGES if self.wish.ranks % n == 0] if axis else [None]
        found: list[Candidate] = []
        for stages in counts:
            product = self._product(factors, stages)
            if product is not None:
                found += self._on_meshes(product, stages or 1)
        return found

    def _on_meshes(self, product: Product, stages: int) -> Iterator[Candidate]:
        ranks = self.wish.ranks // stages
        for part in sorted((n for n in range(1, ranks + 1) if ranks % n == 0), reverse=True):
            valid = False
            for mesh in shapes(product.axes, part):
                whole = {product.stages: stages, **mesh} if product.stages else mesh
                for candidate in self._in_parts(product, whole):
                    valid = True
                    yield candidate
            if valid:  # fewer ranks only where so many cannot share the sizes
                return

    def _in_parts(self, product: Product, mesh: dict[str, int]) -> Iterator[Candidate]:
        """As few microbatches as fit; of a pipeline several numbers of them."""
        batch, rows = self._batch(product)
        counts = [n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256) if rows % n == 0]
        if product.stages:
            stages = mesh[product.stages]
            counts = [n for n in counts if stages <= n <= 16 * stages] or counts[-1:]
            turns = len(product.programs) // stages
            counts = [n for n in counts if fits(stages, n, turns)]
        for parts in counts:
            if not self._is_valid(product, mesh, batch, parts):
                return
            cost = self._price(product, mesh, parts)
            if cost is None:
                return
            self.priced += 1
            yield Candidate(product, cost)
            if not product.stages and cost.memory <= self.wish.memory:
                return

    def _price(self, product: Product, mesh: Mapping[str, int], parts: int) -> MeshPrice | None:
        numbers = {**product.reports[0].numbers, **mesh}
        batch, rows = self._batch(product)
        if batch is not None:
            numbers[batch] = rows // parts
        whole = product.programs[0].whole
        order = whole.schedule.name if whole and whole.schedule else "1F1B"
        cluster = self.wish.cluster
        return price(product.reports, mesh, product.stages, numbers, parts, cluster, order)

    def _batch(self, product: Product) -> tuple[str | None, int]:
        """The size that microbatches share: the first axis of the first input."""
        main = product.programs[0].on_one_device.graphs.main
        shapes_of = [main.types[value].shape for value in main.inputs]
        name = shapes_of[0][0].name if shapes_of and shapes_of[0] else None
        rows = product.reports[0].numbers.get(name or "", 1)
        return name, rows

    def _is_valid(
        self, product: Product, mesh: dict[str, int], batch: str | None, parts: int
    ) -> bool:
        """Whether the ranks can share every size that they cut."""
        key = product.name, tuple(mesh.items()), parts
        if key not in self.valid:
            self.valid[key] = self._shares(product, mesh, batch, parts)
        return self.valid[key]

    def _shares(
        self, product: Product, mesh: dict[str, int], batch: str | None, parts: int
    ) -> bool:
        for placed, values in product.placed:
            numbers = {**placed.all_numbers, **mesh}
            if batch is not None and batch in numbers:
                numbers[batch] //= parts
            inner = {axis: mesh.get(axis, 1) for axis in placed.mesh}
            sized = replace(placed, numbers=numbers, mesh=inner)
            try:
                if placed.stage is None:
                    check_shares(sized, values, advises=False)
                check_parts(sized, {}, Recent(), advises=False)
            except DiagnosticError:
                return False
        return True

    # ---- results --------------------------------------------------------------------------------

    def _beam(self, level: Sequence[Candidate]) -> list[tuple[str, ...]]:
        """The products to go on with."""
        quick = sorted(level, key=lambda each: (not self._fits(each), each.price.seconds))
        small = sorted(level, key=lambda each: each.price.memory)
        chosen: dict[tuple[str, ...], None] = {}
        for ways in (quick, small):
            names = list(dict.fromkeys(each.product.factors for each in ways))
            chosen |= dict.fromkeys(names[: WIDTH // 2])
        return list(chosen)

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
        best = self._proved(_distinct(fitting))
        return FoundPlans(best, _distinct(others)[:3], len(self.known), self.priced, self.refused)

    def _proved(self, ordered: Sequence[Candidate]) -> list[Candidate]:
        """The first that compile at their own sizes, with the costs that they have there."""
        found: list[Candidate] = []
        for candidate in ordered[:TRIES]:
            mesh = candidate.price.mesh
            product = self._compiled(candidate.product.factors, mesh, brief=False)
            cost = product and self._price(product, mesh, candidate.price.parts)
            if product and cost and cost.memory <= self.wish.memory:
                found.append(Candidate(product, cost))
            if len(found) == SHOWN:
                break
        return sorted(found, key=lambda each: each.price.seconds)


def _distinct(ordered: Sequence[Candidate]) -> list[Candidate]:
    """Each product on each mesh once, at its best."""
    found: dict[tuple[tuple[str, ...], str], Candidate] = {}
    for each in ordered:
        found.setdefault((each.product.factors, each.mesh), each)
    return list(found.values())
