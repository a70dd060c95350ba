"""The communication of a rank: elements as formulas, naive and in a ring.

Each collective sends so many elements of its payload V over an axis of N ranks (seed 001, 6.2 and
7.3, has those of all-reduce, which is a reduce-scatter and an all-gather):

    collective                           naive           ring
    all-reduce                           2(N-1) V        2(N-1)/N V
    all-gather, reduce-scatter           (N-1)/N V       (N-1)/N V
    all-to-all                           (N-1)/N V       (N-1)/N V
    shift, N-1 of a part of V            (N-1)/N V       (N-1)/N V
    send, to another stage               V               V

Naive is a reduction to one rank that sends the result out; for the others every rank sends to all
others the elements that they need, and a ring sends no less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from xg.cost.cost import BYTES
from xg.cost.pipeline import sends
from xg.cost.traffic import Kind, Pass, Sending, traffic
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, ZERO, Dim
from xg.ir.graph import Apply, Program
from xg.ir.instances import Symbols
from xg.ir.mesh_axes import axes_over, ranks_over

Way = Literal["naive", "ring"]
WAYS: Final[tuple[Way, ...]] = ("naive", "ring")
SHORT: Final[Mapping[Kind, str]] = {
    "all_reduce": "AR",
    "all_reduce_max": "ARmax",
    "all_gather": "AG",
    "reduce_scatter": "RS",
    "all_to_all": "A2A",
    "shift": "shift",
    "send": "send",
}
REDUCING: Final = frozenset({"all_reduce", "all_reduce_max"})


@dataclass(frozen=True, slots=True)
class Sent:
    """Collectives of one kind over one axis in one pass; `payload` is the V of all `calls`.

    `each` is the payload of one call, None for a sum of several collectives. `of` says whose they
    are: one collective's name, or nothing for a sum of several; `step` is where one is called.
    Elements are those of one rank; `bytes_each` is the width of an element. `once` says that all
    microbatches of a step share it.
    """

    direction: Pass
    kind: Kind
    over: str
    payload: Dim
    calls: Dim
    bytes_each: int
    each: Dim | None = None
    of: str = ""
    line: int | None = None
    key: str = ""
    step: Apply | None = None
    once: bool = False

    @property
    def block(self) -> str:
        """The name of the block that sends it."""
        return self.key.partition("(")[0].strip()

    def elements(self, way: Way) -> Dim:
        """The elements that a rank sends in all calls."""
        return self.payload * factor(self.kind, self.over, way)

    def bytes(self, way: Way) -> Dim:
        """The same in bytes."""
        return self.elements(way) * self.bytes_each

    def formula(self, way: Way) -> str:
        """`elements` as people write it: ``2*(N_T - 1)/N_T*B*D*S``."""
        return _times(spell_factor(self.kind, self.over, way), self.payload)

    def inside(self, symbols: Symbols, count: Dim = ONE) -> Sent:
        """The same in the sizes of a call's caller, `count` times."""
        payload, calls = (dim.substitute(symbols) * count for dim in (self.payload, self.calls))
        each = self.each and self.each.substitute(symbols)
        return replace(self, payload=payload, calls=calls, each=each)

    @property
    def hops(self) -> Dim:
        """Messages that follow one another around the ring, in all calls."""
        if self.kind in ("send", "shift"):
            return self.calls
        return self.calls * (ranks_over(self.over) - 1) * (2 if self.kind in REDUCING else 1)


def share(kind: Kind, way: Way) -> tuple[int, bool]:
    """How often an element goes to each other rank, and whether a rank sends its Nth part of all.

    Every formula and every figure that prices a collective is made of these two.
    """
    return (2, way == "ring") if kind in REDUCING else (1, True)


def factor(kind: Kind, over: str, way: Way) -> Dim:
    """How often a rank sends an element of the payload."""
    if kind == "send":
        return ONE
    times, divided = share(kind, way)
    ranks = ranks_over(over)
    return (ONE - ONE / ranks if divided else ranks - 1) * times


def spell_factor(kind: Kind, over: str, way: Way) -> str:
    """`factor` as people write it: ``2*(N_T - 1)/N_T``; nothing for 1."""
    if kind == "send":
        return ""
    times, divided = share(kind, way)
    below = f"({over})" if len(axes_over(over)) > 1 else over
    others = f"{times}*({over} - 1)" if times > 1 else f"({over} - 1)"
    return f"{others}/{below}" if divided else others


def sent(placed: Program | None, dtype: str) -> tuple[Sent, ...]:
    """Every collective of a placed program, floats being of `dtype`; none of a single device's."""
    if placed is None:
        return ()
    collectives = (_one(each, placed, BYTES[dtype]) for each in traffic(placed))
    stage = placed.stage
    if stage is None:
        return tuple(collectives)
    moved = (
        Sent(
            each.direction,
            "send",
            stage.axis,
            each.payload,
            ONE,
            BYTES[dtype],
            each.payload,
            each.name,
            once=not each.repeats,
        )
        for each in sends(placed)
    )
    return (*collectives, *moved)


def inside_of(placed: Program, key: str, dtype: str) -> tuple[Sent, ...]:
    """The communication of one call of a block, with all that it calls, in that block's sizes."""
    return sent(replace(placed, entry=key, stage=None), dtype)


def _one(sending: Sending, placed: Program, float_bytes: int) -> Sent:
    types = placed.graphs[sending.key].types
    type_ = types.get(sending.step.inputs[0])  # a cotangent is none of the forward pass's values
    width = float_bytes if type_ is None or type_.is_float else BYTES["int"]
    return Sent(
        sending.direction,
        sending.kind,
        sending.over,
        sending.elements,
        sending.calls,
        width,
        sending.each,
        sending.name or "",
        sending.line,
        sending.key,
        sending.step,
        _is_once(sending, placed),
    )


def _is_once(sending: Sending, placed: Program) -> bool:
    """Whether it gathers a parameter that is held, or sums a gradient that waits for others."""
    graph, step = placed.graphs[sending.key], sending.step
    if sending.kind == "all_gather":
        return graph.memory.get(str(step.inputs[0].name)) == "hold"
    backward = placed.backwards.get(sending.key)
    gradients = backward.gradients.items() if backward else ()
    params = set(graph.param_values())
    of = next((v for v, each in gradients if each == step.outputs[0] and v in params), None)
    held = of is not None and graph.memory.get(str(of.name)) == "hold"
    return held or (of is not None and sending.kind == "all_reduce")


def summed(parts: Iterable[Sent]) -> tuple[Sent, ...]:
    """The sums by pass, kind, axis and width, in the order in which they first occur."""
    sums: dict[tuple[Pass, Kind, str, int], Sent] = {}
    for part in parts:
        key = (part.direction, part.kind, part.over, part.bytes_each)
        earlier = sums.get(key)
        payload = part.payload + (earlier.payload if earlier else ZERO)
        calls = part.calls + (earlier.calls if earlier else ZERO)
        sums[key] = Sent(*key[:3], payload, calls, part.bytes_each)
    return tuple(sums.values())


def total(parts: Iterable[Sent], way: Way) -> Dim:
    """The elements that a rank sends."""
    return sum((part.elements(way) for part in parts), ZERO)


def total_bytes(parts: Iterable[Sent], way: Way = "ring") -> Dim:
    """The bytes that a rank sends."""
    return sum((part.bytes(way) for part in parts), ZERO)


def total_formula(parts: Sequence[Sent], way: Way) -> str:
    """`total` with like factors taken out, 0 for nothing."""
    return " + ".join(_terms(parts, way)) or "0"


def _terms(parts: Sequence[Sent], way: Way) -> Iterator[str]:
    sums: dict[str, Dim] = {}
    for part in parts:
        spelled = spell_factor(part.kind, part.over, way)
        sums[spelled] = sums.get(spelled, ZERO) + part.payload
    for spelled, payload in sums.items():
        yield _times(spelled, payload)


def _times(factor: str, dim: Dim) -> str:
    """A factor, nothing for 1, times a size."""
    return f"{factor}{_product(dim)}" if factor else str(dim)


def _product(dim: Dim) -> str:
    if dim == ONE:
        return ""
    return f"*({dim})" if len(dim.terms) > 1 else f"*{dim}"
