"""The stages of one rank of a pipeline: their cells in the order of a schedule, and what is sent.

    pipeline = Pipeline((RankStage(module, Link("N_P", 0, 2, 2, sends="sent"), names),))
    actions = scheduled_actions("1F1B", ranks=2, parts=4, turns=1)[0]
    results, gradients = pipeline.step(params, parts, actions)

A module is a stage's, as the compiler writes it: an ordinary forward and backward pass, of which
one input comes from the stage before and one output goes to the next. Messages are posted in an
order that cannot deadlock (`xg_runtime.stage_messages`), and sends are not waited for until all
cells are done. A parameter of several stages has the sum of their gradients on each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from xg_runtime.cells import Cell
from xg_runtime.held import Held
from xg_runtime.module import Array, Arrays, Later, Module, Saved, StageModule, move_of
from xg_runtime.ranks.call import Incoming, Outgoing
from xg_runtime.ranks.collectives import all_reduce
from xg_runtime.ranks.mesh import check_mesh, current
from xg_runtime.stage_messages import (
    Actions,
    Batch,
    Key,
    Message,
    forward_actions,
    scheduled_actions,
)
from xg_runtime.world import World

__all__ = ["Pipeline", "RankStage", "Link", "Part"]


@dataclass(frozen=True)
class Link:
    """The place of a stage among `count`, which share the `ranks` of a mesh axis in turn.

    `receives` and `sends` are the input from the stage before and the output for the next one;
    `holders` are the stages that have a parameter, or a float input, where they are on several
    ranks: of each rank the first.
    """

    axis: str
    place: int
    count: int
    ranks: int
    receives: str | None = None
    sends: str | None = None
    holders: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])

    @property
    def rank(self) -> int:
        """The rank that has the stage."""
        return self.place % self.ranks


@dataclass(frozen=True)
class RankStage:
    """A stage of the running rank: its module, its place, the parameters and inputs it takes."""

    module: Module
    link: Link
    names: Collection[str]


def writers(links: Sequence[Link]) -> dict[str, int]:
    """The rank that counts and writes what several ranks hold: the first that has it."""
    return {name: first for link in links for name, (first, *_) in link.holders.items()}


@dataclass(frozen=True)
class Part:
    """One microbatch: its inputs, the cotangents of the program's outputs, and its seed."""

    inputs: Arrays
    cotangents: Arrays
    seed: int | None


@dataclass(frozen=True)
class Pipeline:
    """The stages of the running rank, in the order of their turns."""

    stages: Sequence[RankStage]

    @property
    def link(self) -> Link:
        """The place of the first stage."""
        return self.stages[0].link

    def step(
        self,
        params: Arrays,
        parts: Sequence[Part],
        actions: Actions,
        around: Callable[[Cell], AbstractContextManager[Any]] = lambda _: nullcontext(),
        *,
        wanted: str | None = None,
    ) -> tuple[list[Arrays], Arrays]:
        """Run all cells: the outputs of every microbatch, or the one `wanted`, and gradients.

        The backward pass of a cell runs inside of `around`. Gradients are summed stage by
        stage, so that they do not depend on the order.
        """
        results: list[Arrays] = [{} for _ in parts]
        saved: dict[tuple[int, int], Saved] = {}
        begun: dict[tuple[int, int], Later] = {}
        totals: list[Arrays | None] = [None for _ in self.stages]
        held = [Held(_stage_arrays(stage, params)) for stage in self.stages]
        mail, last = self._start(), next(a for a in reversed(actions) if isinstance(a, Cell))
        for cell in actions:
            if isinstance(cell, Batch):
                mail.exchange(cell)
                continue
            stage, key, part = self.stages[cell.turn], (cell.turn, cell.part), parts[cell.part]
            # The last one sends its gradient back before it computes those of parameters, so that
            # the stage before goes on. Earlier ones do not: what they saved would stay for longer.
            is_last = cell is last and stage.link.receives is not None
            if cell.half == "weights":
                self._finish(stage, begun.pop(key), around(cell))
            elif cell.backward:
                given = held[cell.turn], partial(saved.pop, key), part, totals[cell.turn]
                in_parts = cell.half == "inputs" or is_last
                rest = begun.setdefault(key, Later()) if in_parts else None
                totals[cell.turn] = self._backward(stage, mail, cell, *given, around(cell), rest)
            else:
                outputs, saved[key] = self._forward(stage, mail, held[cell.turn], cell.part, part)
                results[cell.part] |= _select_outputs(outputs, wanted)
        for (turn, _), rest in begun.items():
            self._finish(self.stages[turn], rest, around(last))
        return results, self._sum_gradients([each or {} for each in totals])

    def _start(self) -> _Mail:
        """Check the mesh, tell it that stages differ, and start without messages."""
        mesh, link = current(), self.link
        check_mesh({link.axis: link.ranks})
        mesh.diverge(link.axis)
        return _Mail(link)

    def _sum_gradients(self, totals: Sequence[Arrays]) -> Arrays:
        """Sum the gradients of all stages; sum shared parameters over ranks too."""
        gradients, *others = totals
        for each in others:
            _add(gradients, each)
        self._sum_over_holders(gradients)
        current().flush()
        return gradients

    def forward(self, params: Arrays, part: Part) -> Arrays:
        """The forward pass of a microbatch through all stages of this rank: its outputs."""
        results: Arrays = {}
        mail = self._start()
        for cell in forward_actions(self.link.ranks, len(self.stages))[self.link.rank]:
            if isinstance(cell, Batch):
                mail.exchange(cell)
                continue
            stage = self.stages[cell.turn]
            outputs, _ = self._forward(stage, mail, _stage_arrays(stage, params), 0, part)
            results |= outputs
        return results

    def _forward(
        self, stage: RankStage, mail: _Mail, params: Arrays, number: int, part: Part
    ) -> tuple[Arrays, Saved]:
        """The forward pass of a microbatch: outputs of the program, and what is saved."""
        link, mesh, inputs = stage.link, current(), _stage_arrays(stage, part.inputs)
        with mesh.counters.during("forward", link.place):
            if link.receives is not None:
                inputs[link.receives] = mail.take((False, link.place - 1, number))
            outputs, saved = stage.module.forward(params, inputs, seed=part.seed)
            move = None if part.seed is None else move_of(stage.module)
            for name, statistic in (move(params, saved) if move else {}).items():
                params[name][...] = statistic  # the next microbatch moves it on
            if link.sends is not None:
                mail.give((False, link.place, number), outputs.pop(link.sends))
        return outputs, saved

    def _backward(
        self,
        stage: RankStage,
        mail: _Mail,
        cell: Cell,
        params: Arrays,
        kept: Callable[[], Saved],
        part: Part,
        earlier: Arrays | None,
        around: AbstractContextManager[Any],
        rest: Later | None,
    ) -> Arrays:
        """The backward pass of a microbatch: the gradients of parameters, added to earlier ones.

        It alone keeps what was saved, so that it can free what it has read.

        With `rest` those of parameters are not there before all that is in it has been called.
        """
        link, mesh = stage.link, current()
        cotangents = part.cotangents
        with mesh.counters.during("backward", link.place):
            if link.sends is not None:
                cotangents = {link.sends: mail.take((True, link.place + 1, cell.part))}
            with around:
                if hasattr(stage.module, "backward_in_parts"):
                    module = cast(StageModule, stage.module)
                    gradients = module.backward_in_parts(params, kept(), cotangents, rest, earlier)
                else:  # one that is read, not written
                    gradients = {} if earlier is None else earlier
                    _add(gradients, stage.module.backward(params, kept(), cotangents))
            if link.receives is not None:
                mail.give((True, link.place, cell.part), gradients.pop(link.receives))
        return gradients

    def _finish(
        self,
        stage: RankStage,
        rest: Later,
        around: AbstractContextManager[Any],
    ) -> None:
        """The rest of a backward pass: the gradients of parameters."""
        with current().counters.during("backward", stage.link.place), around:
            for each in rest:
                each()

    def _sum_over_holders(self, gradients: Arrays) -> None:
        """Sum the gradients of parameters that several ranks hold, in one order on each rank.

        Every two ranks name them in one order, and each posts all of its messages at once.
        """
        mesh, own, axis = current(), self.link.rank, self.link.axis
        holders = {
            name: [place % self.link.ranks for place in places]
            for stage in self.stages
            for name, places in stage.link.holders.items()
        }
        pairs = [(name, rank) for name in sorted(holders) for rank in holders[name] if rank != own]
        if not pairs:
            return
        with mesh.counters.during("shared"):
            sends = [Outgoing(gradients[name], rank, name) for name, rank in pairs]
            receives = [Incoming(rank, name, like=gradients[name]) for name, rank in pairs]
            found = mesh.exchange(axis, sends, receives)
            came: dict[tuple[str, int], Array] = {
                pair: found.wait(number) for number, pair in enumerate(pairs)
            }
        for name, ranks in holders.items():
            first, *others = (came.get((name, rank), gradients[name]) for rank in ranks)
            total: Array = sum(others, start=first)
            gradients[name] = total


class _Mail:
    """Hold the messages of a rank's cells to neighboring stages, and those that come."""

    def __init__(self, link: Link) -> None:
        """`link` tells the axis of the pipeline."""
        self._axis = link.axis
        self._given: dict[Key, Array] = {}
        self._came: dict[Key, Callable[[], Array]] = {}

    def give(self, key: Key, x: Array) -> None:
        """Keep a result until it is sent, or taken by a stage on this very rank."""
        self._given[key] = x

    def take(self, key: Key) -> Array:
        """Wait for what a cell needs."""
        return self._given.pop(key) if key in self._given else self._came.pop(key)()

    def exchange(self, batch: Batch) -> None:
        """Post the messages of a batch."""
        mesh = current()
        sends = [
            Outgoing(self._given.pop(each.key), each.target, _name(each), each.opens)
            for each in batch.sends
        ]
        receives = [Incoming(each.source, _name(each), each.opens) for each in batch.receives]
        first = (*batch.sends, *batch.receives)[0]
        with mesh.counters.during(_way(first), first.stage):  # a rank sends at most one at once
            found = mesh.exchange(self._axis, sends, receives)
        for number, each in enumerate(batch.receives):
            self._came[each.key] = partial(found.wait, number)


def _way(message: Message) -> str:
    return "backward" if message.backward else "forward"


def _name(message: Message) -> str:
    """The name of its way, which no parameter has: one may be called `forward`."""
    return f"{_way(message)} pass"


def _stage_arrays(stage: RankStage, arrays: Arrays) -> Arrays:
    """Return the arrays that a stage takes; other stages take the others."""
    return {name: array for name, array in arrays.items() if name in stage.names}


def _select_outputs(outputs: Arrays, wanted: str | None) -> Arrays:
    """The output that is wanted, or all of them."""
    return {name: each for name, each in outputs.items() if wanted in (None, name)}


def _add(totals: Arrays, arrays: Arrays) -> None:
    """Add each array to the total of the same name."""
    for name, array in arrays.items():
        totals[name] = totals[name] + array if name in totals else array


# The steps of training on the stages of one rank: the parts of a batch are the microbatches.


@dataclass(frozen=True)
class StageTraining:
    """The running rank's stages, and the name of the order in which it takes its cells."""

    pipeline: Pipeline
    schedule: str

    def init(self, seed: int = 0, dtype: DTypeLike = np.float32) -> Arrays:
        """The parameters of all stages of this rank."""
        params: Arrays = {}
        for stage in self.pipeline.stages:
            params |= stage.module.init(seed, dtype)
        return params

    def gradients(
        self, params: Arrays, parts: Sequence[tuple[Arrays, float, int]], loss: str, world: World
    ) -> tuple[float, Arrays]:
        """Loss and gradients of a batch in parts: each its inputs, its weight and its seed.

        The loss is the same on every rank; sums over ranks may be deferred until the last part.
        """
        dtype = next(iter(params.values())).dtype
        cells = [Part(x, {loss: np.full((), weight, dtype)}, seed) for x, weight, seed in parts]
        stages, link = self.pipeline.stages, self.pipeline.link
        held: list[dict[str, Any]] = [{} for _ in stages]
        every = scheduled_actions(self.schedule, link.ranks, len(cells), len(stages))
        results, gradients = self.pipeline.step(
            params,
            cells,
            every[link.rank],
            lambda cell: world.holding(held[cell.turn], is_last=cell.part + 1 == len(cells)),
            wanted=loss,
        )
        pairs = zip(results, parts, strict=True)
        mine = [weight * float(result[loss]) for result, (_, weight, _) in pairs if loss in result]
        total = self._everywhere(sum(mine))
        return total, {name: gradients[name] for name in params if name in gradients}

    def loss(self, params: Arrays, inputs: Arrays, loss: str) -> float:
        """The loss of a batch without dropout, the same on every rank."""
        outputs = self.pipeline.forward(params, Part(inputs, {}, None))
        current().flush()
        return self._everywhere(float(outputs.get(loss, 0.0)))

    def _everywhere(self, mine: float) -> float:
        """A number of the last stage; others have 0."""
        return float(all_reduce(np.array(mine, np.float64), self.pipeline.link.axis))
