"""The ways to reshard a value, and their prices.

Prices only order: nothing before a cast, a cast before a slice, both before communication, and
among collectives the one that the file asks for. They are compared per operator, so a sum is made
as late as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from itertools import islice
from math import prod
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.placement import INVARIANT, REPLICATED, AxisState, PlacementRequest, shard

FREE: Final = 0.0
CAST: Final = 1.0
OWN_CONSTANT: Final = 1.0
OWN_USED: Final = 2.0  # a slice of R: zeros around its gradient
OWN_ONCE: Final = 6.0  # a slice of I: its gradient is gathered
SCATTER: Final = 15.0
GATHER: Final = 18.0
SUM: Final = 20.0
PART_AGAIN: Final = 22.0  # a slice of what is gathered for other uses: the part that was there
USED_SUM: Final = 100.0  # beside what each rank uses for its own, where nothing else fits
TRIED_AT_MOST: Final = 2_000


@dataclass(frozen=True, slots=True)
class ReshardOption:
    """A state that a value can be brought into, and its price."""

    price: float
    state: AxisState


@lru_cache(maxsize=4_096)  # called for every operand of every operator, with few arguments
def reshard_options(
    state: AxisState,
    cuts: tuple[int, ...],
    request: PlacementRequest | None,
    demand: AxisState | None,
    *,
    sends: bool,
    keeps: bool,
) -> tuple[ReshardOption, ...]:
    """Every state that a value in `state` can be brought into; collectives only where `sends`.

    `cuts` are the axes that could be sharded. `keeps` says whether the shards of a value that is
    gathered for its use are available too.
    """
    return tuple(_options(state, cuts, request, demand, sends=sends, keeps=keeps))


def _options(
    state: AxisState,
    cuts: Sequence[int],
    request: PlacementRequest | None,
    demand: AxisState | None,
    *,
    sends: bool,
    keeps: bool,
) -> Iterator[ReshardOption]:
    if request and request.use and request.rest == state:
        yield from _in_use(state, request.use, sends=sends)
        if keeps:
            yield ReshardOption(PART_AGAIN, state)
        return
    yield ReshardOption(FREE, state)
    cut_price = {"I": OWN_ONCE, "R": OWN_USED, "C": OWN_CONSTANT}.get(state.kind)
    if cut_price is not None:
        for axis in cuts:
            yield ReshardOption(CAST if shard(axis) == demand else cut_price, shard(axis))
    if state.kind == "I":
        yield ReshardOption(CAST, REPLICATED)
    if state.kind == "P" and sends:
        if demand is not None:
            yield ReshardOption(SCATTER, demand)
        yield ReshardOption(SUM, INVARIANT)
        yield ReshardOption(USED_SUM, REPLICATED)


def _in_use(state: AxisState, use: AxisState, *, sends: bool) -> Iterator[ReshardOption]:
    """The placement in which a value is used, where that differs from how it is stored."""
    if use.kind == "S" or state.kind != "S":
        yield ReshardOption(GATHER if sends else FREE, use)
    elif sends:
        yield ReshardOption(GATHER, REPLICATED)
        yield ReshardOption(GATHER + CAST, INVARIANT)


def cheapest_first(
    now: Sequence[tuple[AxisState, PlacementRequest | None]],
    options: Callable[[], Iterable[Sequence[ReshardOption]]],
) -> Iterator[tuple[AxisState, ...]]:
    """`combinations` of options that are asked for only if operands do not fit as they are `now`.

    Nothing is cheaper than that, but for what rests in another placement than it is used in.
    """
    stays = not any(request and request.use and request.rest == state for state, request in now)
    if stays:
        yield tuple(state for state, _ in now)
    yield from islice(combinations([*options()]), int(stays), None)


def combinations(options: Sequence[Sequence[ReshardOption]]) -> Iterator[tuple[AxisState, ...]]:
    """One state per operand, the cheapest combination first, and no more than can be tried.

    Of more than these, there follow those in which all operands that can have the same placement.
    """
    if all(options):
        yield tuple(min(ways, key=_price_of).state for ways in options)  # mostly it fits
        yield from islice(_combinations(options), 1, None)
        if prod(map(len, options)) > TRIED_AT_MOST:
            for state in dict.fromkeys(way.state for ways in options for way in ways):
                yield tuple(_nearest(ways, state) for ways in options)


def _nearest(ways: Sequence[ReshardOption], state: AxisState) -> AxisState:
    return state if any(way.state == state for way in ways) else min(ways, key=_price_of).state


def _combinations(options: Sequence[Sequence[ReshardOption]]) -> Iterator[tuple[AxisState, ...]]:
    sorted_options = [sorted(ways, key=_price_of) for ways in options]
    first: tuple[int, ...] = (0,) * len(options)
    heap: list[tuple[float, tuple[int, ...]]] = [(_price(sorted_options, first), first)]
    seen: set[tuple[int, ...]] = {first}
    for _ in range(TRIED_AT_MOST):
        if not heap:
            return
        _, chosen = heappop(heap)
        yield tuple(ways[i].state for ways, i in zip(sorted_options, chosen, strict=True))
        for place, ways in enumerate(sorted_options):
            following = (*chosen[:place], chosen[place] + 1, *chosen[place + 1 :])
            if following[place] < len(ways) and following not in seen:
                seen.add(following)
                heappush(heap, (_price(sorted_options, following), following))


def _price_of(option: ReshardOption) -> float:
    return option.price


def _price(options: Sequence[Sequence[ReshardOption]], chosen: Sequence[int]) -> float:
    return sum(ways[i].price for ways, i in zip(options, chosen, strict=True))
