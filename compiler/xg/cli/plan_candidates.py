"""Products of plans on meshes, as a search prices them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from xg.cost.stage_cost import Cluster, Formula, MeshPrice, StageCost, share, value
from xg.diagnostics.lazy_dataclass import dataclass
from xg.frontend.project import Project
from xg.frontend.typed import Settings
from xg.ir.graph import Program as Graphs
from xg.ir.placement import axes_over, is_zigzag
from xg.ir.plan import ROUNDS, Plan
from xg_runtime.cells import fits

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
        """The sizes of one of so many microbatches."""
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


def pipelines_of(plans: Mapping[str, Plan], typed: Graphs) -> dict[str, Pipeline]:
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
    """The first of those that cost the same: data over another axis, or one of two pipelines."""
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
