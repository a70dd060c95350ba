"""One stage of a pipeline: its cells in the order of a schedule, with what neighbours send.

    pipeline = Pipeline(module, Link("N_P", 0, 2, sends="sent"))
    results, gradients = pipeline.step(params, parts, order)

The module is a stage's, as the compiler writes it: an ordinary forward and backward pass, of which
one input comes from the stage before and one output goes to the next. Sends are not waited for
until all cells are done. A parameter of several stages has the sum of their gradients on each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from xg_runtime.cells import Cell
from xg_runtime.module import Array, Arrays, Module, Saved
from xg_runtime.ranks.mesh import current


@dataclass(frozen=True)
class Link:
    """The place of a stage in the pipeline of `count` stages over a mesh axis.

    `receives` and `sends` are the input from the stage before and the output for the next one;
    `holders` are the stages that have a parameter, or a float input, where there are several.
    """

    axis: str
    place: int
    count: int
    receives: str | None = None
    sends: str | None = None
    holders: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])

    def writer(self, name: str) -> int:
        """The stage that counts and writes a parameter of this one: the first that has it."""
        return self.holders.get(name, (self.place,))[0]


@dataclass(frozen=True)
class Part:
    """One microbatch: its inputs, the cotangents of the program's outputs, and its seed."""

    inputs: Arrays
    cotangents: Arrays
    seed: int | None


@dataclass(frozen=True)
class Pipeline:
    """The module of the running rank's stage, and its neighbours."""

    module: Module
    link: Link

    def step(
        self,
        params: Arrays,
        parts: Sequence[Part],
        order: Sequence[Cell],
        around: Callable[[int], AbstractContextManager[Any]] = lambda _: nullcontext(),
    ) -> tuple[list[Arrays], Arrays]:
        """Run all cells: the outputs that this stage has of every microbatch, and gradients.

        The backward pass of a microbatch runs inside of `around`.
        """
        results: list[Arrays] = [{} for _ in parts]
        saved: dict[int, Saved] = {}
        gradients: Arrays = {}
        for cell in order:
            if cell.backward:
                arrays = self.backward(
                    params, saved.pop(cell.part), parts[cell.part], around(cell.part)
                )
                for name, array in arrays.items():
                    gradients[name] = gradients[name] + array if name in gradients else array
            else:
                results[cell.part], saved[cell.part] = self.forward(params, parts[cell.part])
        self.sum_shared(gradients)
        current().flush()
        return results, gradients

    def forward(self, params: Arrays, part: Part) -> tuple[Arrays, Saved]:
        """The forward pass of a microbatch: outputs of the program, and what is saved."""
        link, mesh, inputs = self.link, current(), dict(part.inputs)
        mesh.diverge(link.axis)
        with mesh.counters.during("forward"):
            if link.receives is not None:
                inputs[link.receives] = mesh.receive(link.axis, link.place - 1)
            outputs, saved = self.module.forward(params, inputs, seed=part.seed)
            if link.sends is not None:
                mesh.send(outputs.pop(link.sends), link.axis, link.place + 1)
        return outputs, saved

    def backward(
        self,
        params: Arrays,
        saved: Saved,
        part: Part,
        around: AbstractContextManager[Any] | None = None,
    ) -> Arrays:
        """The backward pass of a microbatch: the gradients of parameters and inputs."""
        link, mesh = self.link, current()
        cotangents = part.cotangents
        with mesh.counters.during("backward"):
            if link.sends is not None:
                cotangents = {link.sends: mesh.receive(link.axis, link.place + 1)}
            with around or nullcontext():
                gradients = self.module.backward(params, saved, cotangents)
            if link.receives is not None:
                mesh.send(gradients.pop(link.receives), link.axis, link.place - 1)
        return gradients

    def sum_shared(self, gradients: Arrays) -> None:
        """Sum the gradients of what several stages hold: on the first of them, which sends back."""
        link, mesh = self.link, current()
        with mesh.counters.during("shared"):
            for name, holders in link.holders.items():
                first, *others = holders
                if link.place != first:
                    mesh.send(gradients[name], link.axis, first)
            for name, (first, *others) in link.holders.items():
                if link.place == first:
                    total: Array = gradients[name]
                    for other in others:
                        total = total + mesh.receive(link.axis, other)
                    gradients[name] = total
                    for other in others:
                        mesh.send(total, link.axis, other)
            for name, (first, *_) in link.holders.items():
                if link.place != first:
                    gradients[name] = mesh.receive(link.axis, first)
