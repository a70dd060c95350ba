"""A parallel program compared with the single-device program on the same arrays.

Every rank gets its shards of parameters, inputs and cotangents; its results are reassembled and
compared with the outputs and gradients of one device. Replicas must be equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

import xg_runtime.ranks as ranks
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Program
from xg.sharding.shard_spec import ShardSpec, cuts
from xg.verify.gather_shards import furthest, gather_shards
from xg_runtime import agreement
from xg_runtime.module import Array, Module, Saved, move_of
from xg_runtime.norm import global_norm
from xg_runtime.ranks.grid import Grid

Arrays = Mapping[str, Array]
Key = tuple[str, str, str]  # of traffic: pass, kind, mesh axis
Counts = dict[Key, tuple[int, int]]

FAINT: Final = 1e-2  # of ‖cotangents‖: where all gradients together are less, rounding may be all


@dataclass(frozen=True, slots=True)
class RankRun:
    """Outputs and gradients by name; of a rank its parts, and what it sent in each pass.

    Calls and elements are counted by pass, kind and mesh axis. `moved` are running statistics
    after the run.
    """

    outputs: Arrays
    gradients: Arrays
    sent: Counts
    moved: Arrays = field(default_factory=dict[str, Array])


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """How far ranks are from one device; `first` is the first array that differs, and why."""

    outputs: int
    gradients: int
    error: float
    first: str | None


@dataclass(frozen=True, slots=True)
class ArrayDifference:
    """How far ranks are from one device in one array, `furthest` the most of them.

    `unlike` is the first rank that differs in bits from another that holds the same part.
    """

    name: str
    error: float
    furthest: int
    unlike: int | None

    @property
    def is_wrong(self) -> bool:
        """Whether it is more than rounding."""
        return not self.error <= agreement.SAME_PROGRAM or self.unlike is not None

    def describe(self, grid: Grid) -> str:
        """The array, and a rank that has it wrong."""
        if self.error <= agreement.SAME_PROGRAM and self.unlike is not None:
            return f"{self.name}, in bits, on {grid.describe(self.unlike)}"
        return f"{self.name}, most on {grid.describe(self.furthest)}"


@dataclass(frozen=True)
class RankComparison:
    """The arrays that both programs run on."""

    ranks: Program
    params: Arrays
    inputs: Arrays
    cotangents: Arrays
    seed: int

    def each(self, change: Callable[[Arrays], Arrays]) -> RankComparison:
        """The same with arrays changed by name, as into one rank's parts of them."""
        params, inputs = change(self.params), change(self.inputs)
        return replace(self, params=params, inputs=inputs, cotangents=change(self.cotangents))

    @property
    def arrays(self) -> dict[str, Arrays]:
        """The global arrays that a rank takes its shards of, by kind."""
        return {"params": self.params, "inputs": self.inputs, "cotangents": self.cotangents}

    @cached_property
    def cuts(self) -> Mapping[str, ShardSpec]:
        """Which axes of its arrays are cut."""
        return cuts(self.ranks)

    def on_one_device(self, module: Module) -> RankRun:
        """Run on one device."""
        params = dict(self.params)
        outputs, saved = module.forward(params, dict(self.inputs), seed=self.seed)
        moved = moved_by(module, params, saved)
        return RankRun(outputs, module.backward(params, saved, dict(self.cotangents)), {}, moved)

    def on_ranks(
        self, module: Module, around: Callable[[], AbstractContextManager[Any]] = nullcontext
    ) -> list[RankRun]:
        """Run on all simulated ranks; raises RankError where they do not fit together.

        `around` is entered by every rank.
        """

        def rank() -> RankRun:
            with around():
                return run_rank(module, self.cuts, self.arrays, self.seed)

        return ranks.simulate(self.ranks.mesh, rank)

    def compare(self, alone: RankRun, together: Sequence[RankRun]) -> RankAgreement:
        """Everything that a run gives against one device, in the contract's measure."""
        found = self.differences(alone, together)
        return agreed(found, self.ranks.mesh, len(alone.outputs), len(alone.gradients))

    def differs(self, alone: RankRun, together: Sequence[RankRun]) -> bool:
        """Whether any array is wrong."""
        return any(difference.is_wrong for difference in self.differences(alone, together))

    def differences(self, alone: RankRun, together: Sequence[RankRun]) -> Iterator[ArrayDifference]:
        """How far every output, statistic and gradient is from that of one device."""
        outputs = [run.outputs for run in together]
        yield from self._differences("", alone.outputs, outputs, 0.0)
        moved = [run.moved for run in together]
        yield from self._differences("moved ", alone.moved, moved, 0.0)
        gradients = [run.gradients for run in together]
        faint = FAINT * global_norm(dict(self.cotangents))
        yield from self._differences("d", alone.gradients, gradients, faint)

    def _differences(
        self, prefix: str, wanted: Arrays, found: Sequence[Arrays], faint: float
    ) -> Iterator[ArrayDifference]:
        total = global_norm({name: finite_part(each) for name, each in wanted.items()})
        total = max(total, faint)
        for name in dict.fromkeys([*wanted, *(name for each in found for name in each)]):
            missing = next((n for n, each in enumerate(found) if name not in each), None)
            if name not in wanted or missing is not None:
                yield ArrayDifference(prefix + name, float("inf"), missing or 0, None)
                continue
            parts = [each[name] for each in found]
            yield self._difference(prefix + name, parts, wanted[name], name, total)

    def _difference(
        self, said: str, parts: Sequence[Array], wanted: Array, name: str, total: float
    ) -> ArrayDifference:
        where, mesh = self.cuts.get(name, ()), self.ranks.mesh
        whole = gather_shards(parts, where, mesh)
        error = error_of(whole.array, wanted, total)
        if whole.array.shape != wanted.shape or (
            whole.unlike is None and error <= agreement.SAME_PROGRAM
        ):
            return ArrayDifference(said, error, whole.unlike or 0, whole.unlike)
        worst = furthest(parts, wanted, where, mesh)
        whole = gather_shards(parts, where, mesh, worst)
        return ArrayDifference(said, error_of(whole.array, wanted, total), worst, whole.unlike)


def agreed(
    differences: Iterable[ArrayDifference], mesh: Mapping[str, int], outputs: int, gradients: int
) -> RankAgreement:
    """The largest difference of so many arrays, and the first array that is wrong."""
    found = list(differences)
    worst = max([0.0, *(each.error for each in found)])
    wrong = next((each for each in found if each.is_wrong), None)
    first = wrong and wrong.describe(Grid(dict(mesh)))
    return RankAgreement(outputs, gradients, worst, first)


def run_rank(
    module: Module, where: Mapping[str, ShardSpec], given: Mapping[str, Arrays], seed: int
) -> RankRun:
    """The run of the rank that calls this, on its parts of whole arrays, `Trial.arrays`."""
    counters = ranks.current().counters
    counters.clear()
    own = {kind: ranks.local_shards(arrays, where) for kind, arrays in given.items()}
    with counters.during("forward"):
        outputs, saved = module.forward(own["params"], own["inputs"], seed=seed)
    moved = moved_by(module, own["params"], saved)
    with counters.during("backward"):
        gradients = module.backward(own["params"], saved, own["cotangents"])
    counts = {key: (one.calls, one.elements) for key, one in counters.counts.items()}
    return RankRun(outputs, gradients, counts, moved)


def moved_by(module: Module, params: Arrays, saved: Saved) -> dict[str, Array]:
    """The running statistics of a module after a forward pass, none where it has none."""
    move = move_of(module)
    return move(dict(params), saved) if move else {}


def error_of(found: Array, wanted: Array, total: float) -> float:
    """How far an array is off; infinity where shapes differ, or the places without a number."""
    if found.shape != wanted.shape:
        return float("inf")
    if not np.array_equal(np.isfinite(found), np.isfinite(wanted)):
        return float("inf")
    return agreement.error(finite_part(found), finite_part(wanted), total)


def finite_part(array: Array) -> Array:
    """The array with zeros where it is no number."""
    return np.where(np.isfinite(array), array, 0.0)
