"""Steps that no input reaches, written around all modules that read them: T5's bias of scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Protocol, TypeVar

from xg_torch.importing.diagram import ModelStep
from xg_torch.importing.views import ModelValue


class HasKey(Protocol):
    """A module by its key."""

    key: str


M = TypeVar("M", bound=HasKey)


def further_out(
    steps: Sequence[ModelStep], home: Mapping[ModelStep, tuple[M, ...]]
) -> dict[ModelStep, int]:
    """How many modules stay around steps that others than their own module read.

    Layers that share a table are then equal, also the first, which computed it.
    """
    homes = dict(home)
    readers: dict[ModelValue, list[ModelStep]] = {}
    for step in steps:
        for value in step.operands:
            readers.setdefault(value, []).append(step)
    depths: dict[ModelStep, int] = {}
    for step in reversed(list(_of_no_input(steps))):
        users = [user for value in step.outputs for user in readers.get(value, ())]
        shared = _shared([homes[step], *(homes[user] for user in users)])
        if len(shared) < len(homes[step]) and shared:
            homes[step] = shared
            keys = {instance.key for instance in shared}
            around = [i + 1 for i, scope in enumerate(step.stack) if scope.key in keys]
            depths[step] = max(around, default=0)
    return depths


def _shared(chains: Sequence[tuple[M, ...]]) -> tuple[M, ...]:
    """The modules around all."""
    same = takewhile(lambda each: all(x is each[0] for x in each), zip(*chains, strict=False))
    return tuple(first for first, *_ in same)


def _of_no_input(steps: Iterable[ModelStep]) -> Iterable[ModelStep]:
    """The steps that begin with a source, such as `buckets`."""
    made: set[ModelValue] = set()
    for step in steps:
        if all(value in made for value in step.data):
            made.update(step.outputs)
            yield step


def in_place(steps: Sequence[ModelStep], raised: Mapping[ModelStep, int]) -> list[ModelStep]:
    """The steps in order, those that are raised in front of the module that they were in."""
    alone = {step for step in _of_no_input(steps) if step in raised}
    first: dict[tuple[str, ...], int] = {}
    for place, step in enumerate(steps):
        for depth in range(len(step.stack) + 1):
            first.setdefault(tuple(scope.key for scope in step.stack[:depth]), place)

    def place_of(item: tuple[int, ModelStep]) -> tuple[int, bool]:
        place, step = item
        if step not in alone:
            return place, True
        return first[tuple(scope.key for scope in step.stack[: raised[step] + 1])], False

    return [step for _, step in sorted(enumerate(steps), key=place_of)]
