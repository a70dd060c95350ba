"""The stages of one rank of a pipeline: their cells in the order of a schedule, and what is sent.

    pipeline = Pipeline((RankStage(module, Link("N_P", 0, 2, 2, sends="sent"), names),))
    results, gradients = pipeline.step(params, parts, order)

A module is a stage's, as the compiler writes it: an ordinary forward and backward pass, of which
one input comes from the stage before and one output goes to the next. Sends are not waited for
until all cells are done. A parameter of several stages has the sum of their gradients on each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from xg_runtime.cells import Cell
from xg_runtime.held import Held
from xg_runtime.module import Array, Arrays, Later, Module, Saved, StageModule, move_of
from xg_runtime.ranks.mesh import check_mesh, current

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
    _own: dict[tuple[str, int], deque[Array]] = field(default_factory=dict[Any, Any], init=False)

    @property
    def link(self) -> Link:
        """The place of the first stage."""
        return self.stages[0].link

    def step(
        self,
        params: Arrays,
        parts: Sequence[Part],
        order: Sequence[Cell],
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
        for cell in order:
            stage, key, part = self.stages[cell.turn], (cell.turn, cell.part), parts[cell.part]
            # The last one sends its gradient back before it computes those of parameters, so that
            # the stage before goes on. Earlier ones do not: what they saved would stay for longer.
            is_last = cell == order[-1] and stage.link.receives is not None
            if cell.half == "weights":
                self._finish(stage, begun.pop(key), around(cell))
            elif cell.backward:
                given = held[cell.turn], partial(saved.pop, key), part, totals[cell.turn]
                in_parts = cell.half == "inputs" or is_last
                rest = begun.setdefault(key, Later()) if in_parts else None
                totals[cell.turn] = self._backward(stage, *given, around(cell), rest)
                if is_last:
                    self._finish(stage, begun.pop(key), around(cell))
            else:
                outputs, saved[key] = self._forward(stage, held[cell.turn], part)
                results[cell.part] |= _select_outputs(outputs, wanted)
        return results, self._sum_gradients([each or {} for each in totals])

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
        for stage in self.stages:
            outputs, _ = self._forward(stage, _stage_arrays(stage, params), part)
            results |= outputs
        return results

    def _forward(self, stage: RankStage, params: Arrays, part: Part) -> tuple[Arrays, Saved]:
        """The forward pass of a microbatch: outputs of the program, and what is saved."""
        link, mesh, inputs = stage.link, current(), _stage_arrays(stage, part.inputs)
        check_mesh({link.axis: link.ranks})
        mesh.diverge(link.axis)
        with mesh.counters.during("forward", link.place):
            if link.receives is not None:
                inputs[link.receives] = self._receive(link, -1)
            outputs, saved = stage.module.forward(params, inputs, seed=part.seed)
            move = None if part.seed is None else move_of(stage.module)
            for name, statistic in (move(params, saved) if move else {}).items():
                params[name][...] = statistic  # the next microbatch moves it on
            if link.sends is not None:
                self._send(outputs.pop(link.sends), link, 1)
        return outputs, saved

    def _backward(
        self,
        stage: RankStage,
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
                cotangents = {link.sends: self._receive(link, 1)}
            with around:
                if hasattr(stage.module, "backward_in_parts"):
                    module = cast(StageModule, stage.module)
                    gradients = module.backward_in_parts(params, kept(), cotangents, rest, earlier)
                else:  # one that is read, not written
                    gradients = {} if earlier is None else earlier
                    _add(gradients, stage.module.backward(params, kept(), cotangents))
            if link.receives is not None:
                self._send(gradients.pop(link.receives), link, -1)
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

    def _send(self, x: Array, link: Link, way: int) -> None:
        """Begin to send to a neighbouring stage, which may be on this very rank."""
        if link.ranks == 1:
            self._own.setdefault((current().counters.current, link.place + way), deque()).append(x)
        else:
            current().send(x, link.axis, (link.place + way) % link.ranks)

    def _receive(self, link: Link, way: int) -> Array:
        """Wait for what a neighbouring stage sends to this one next."""
        if link.ranks == 1:
            return self._own[current().counters.current, link.place].popleft()
        return current().receive(link.axis, (link.place + way) % link.ranks)

    def _sum_over_holders(self, gradients: Arrays) -> None:
        """Sum the gradients of parameters that several ranks hold, in one order on each rank."""
        mesh, own = current(), self.link.rank
        holders = {
            name: [place % self.link.ranks for place in places]
            for stage in self.stages
            for name, places in stage.link.holders.items()
        }
        with mesh.counters.during("shared"):
            for name, ranks in holders.items():
                for other in ranks:
                    if other != own:
                        mesh.send(gradients[name], self.link.axis, other, name)
            for name, ranks in holders.items():
                first, *others = (
                    gradients[name] if rank == own else mesh.receive(self.link.axis, rank, name)
                    for rank in ranks
                )
                gradients[name] = sum(others, start=first)


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
