"""Report what a training step costs one rank, and the least time that a machine takes.

On a single device there is one rank, and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from math import prod
from typing import Final, Protocol, TypeGuard

from xg.cost.communication import Sent, inside_of, price_of, sent, total
from xg.cost.cost import BYTES, Amount, BlockCost, Cost, cost
from xg.cost.memory import Alive, Largest, Policy, alive, largest, policies
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim
from xg.ir.graph import IRProgram
from xg.ir.placement import axes_over
from xg.ir.walk import inside

# Machines by their rates, and how long they take at least for what a program counts.
#
# An estimate is FLOPs over the rate of matrix products, and bytes over the rate of a link, plus
# what every hop around the ring waits. All rates are peaks and nothing overlaps, so it orders
# plans; it does not foretell a clock.


DTYPES: Final = ("float64", "float32", "bfloat16")
KEYS: Final = ("title", "source", "flops", "link", "latency", "links")


class UnreadableMachines(Exception):
    """A table of machines that cannot be read; says what is wrong, and where."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates of one rank: FLOP/s by dtype, bytes/s that it sends, seconds that a hop waits.

    `links` are the bytes/s of mesh axes that run over another link.
    """

    name: str
    title: str
    source: str
    flops: Mapping[str, float]
    link: float
    latency: float
    links: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds of a rank for one step; None where a size has no number, or the dtype no rate."""

    machine: Machine
    compute: float | None
    communicate: float | None

    @property
    def total(self) -> float | None:
        """Both, one after the other."""
        if self.compute is None or self.communicate is None:
            return None
        return self.compute + self.communicate


def estimate(
    machine: Machine, dtype: str, flops: Dim, sent: Iterable[Sent], numbers: Mapping[str, int]
) -> Estimate:
    """How long a machine takes at least."""
    sent = tuple(sent)
    names = {*numbers}
    rate, needed = machine.flops.get(dtype), set(flops.symbols())
    compute = value_of(flops, numbers) / rate if rate and needed <= names else None
    symbols = {name for part in sent for name in (*part.payload.symbols(), *part.calls.symbols())}
    for part in sent:
        if price_of(part.kind).route != "peer":
            symbols |= {*axes_over(part.over)}
    if not symbols <= names:
        return Estimate(machine, compute, None)
    return Estimate(machine, compute, sum((seconds_of(machine, p, numbers) for p in sent), 0.0))


def seconds_of(machine: Machine, part: Sent, numbers: Mapping[str, int]) -> float:
    """How long a machine takes to send a part."""
    volume, hops = value_of(part.bytes("ring"), numbers), value_of(part.hops, numbers)
    return seconds_of_bytes(machine, axes_over(part.over), volume, hops)


def seconds_of_bytes(machine: Machine, axes: Iterable[str], volume: float, hops: float) -> float:
    """How long a machine takes for so many bytes over these axes, in so many hops."""
    rate = min(machine.links.get(axis, machine.link) for axis in axes)
    return volume / rate + hops * machine.latency


def value_of(dim: Dim, numbers: Mapping[str, int]) -> float:
    """A formula as a number, which a ring's need not be whole."""
    terms = dim.terms
    return sum(float(c) * prod(float(numbers[name]) ** p for name, p in m) for m, c in terms)


# ---- tables --------------------------------------------------------------------------------------


def machines(table: Mapping[str, object]) -> tuple[Machine, ...]:
    """The machines of a table as TOML gives it; raises Unfit."""
    if not table:
        raise UnreadableMachines("it names no machine: give one as [NAME]")
    return tuple(_machine(name, entry) for name, entry in table.items())


def _machine(name: str, entry: object) -> Machine:
    if not _is_table(entry):
        raise UnreadableMachines(f"{name} is no table: give a machine as [{name}]")
    unknown = [key for key in entry if key not in KEYS]
    if unknown:
        raise UnreadableMachines(f"[{name}] has {unknown[0]}; it may have {', '.join(KEYS)}")
    rates = {dtype: _rate(name, f"flops.{dtype}", rate) for dtype, rate in _flops(name, entry)}
    links = entry.get("links", {})
    if not _is_table(links):
        raise UnreadableMachines(f"[{name}] links is no table of mesh axes")
    return Machine(
        name,
        str(entry.get("title", name)),
        str(entry.get("source", "")),
        rates,
        _rate(name, "link", entry.get("link")),
        _rate(name, "latency", entry.get("latency", 0.0), least=0.0),
        {axis: _rate(name, f"links.{axis}", rate) for axis, rate in links.items()},
    )


def _flops(name: str, entry: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    rates = entry.get("flops")
    if not _is_table(rates) or not rates:
        raise UnreadableMachines(f"[{name}] has no flops: flops = {{ float32 = 1e12 }}")
    unknown = [dtype for dtype in rates if dtype not in DTYPES]
    if unknown:
        raise UnreadableMachines(
            f"[{name}] has flops of {unknown[0]}; there are {', '.join(DTYPES)}"
        )
    return rates.items()


def _rate(name: str, key: str, value: object, least: float = 1e-300) -> float:
    if value is None:
        raise UnreadableMachines(f"[{name}] has no {key}, a number of bytes per second")
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < 1e300:
        raise UnreadableMachines(f"[{name}] {key} = {value} is no positive number")
    return float(value)


def _is_table(value: object) -> TypeGuard[Mapping[str, object]]:
    """Tables of TOML have no keys but texts."""
    return isinstance(value, dict)


MOMENTS: Final = 2  # that Adam and AdamW keep of a parameter; SGD keeps none


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that one rank holds at the end of a forward pass, all floats being of one dtype."""

    parameters: Dim
    gradients: Dim
    optimizer: Dim
    saved: Dim

    @property
    def total(self) -> Dim:
        """All of them."""
        return self.parameters + self.gradients + self.optimizer + self.saved


@dataclass(frozen=True, slots=True)
class Round:
    """The communication of one call of the entry, or one round of a row: a layer."""

    name: str
    line: int
    sent: tuple[Sent, ...]


class _Printer(Protocol):
    """The part of IPython's printer that is used."""

    def text(self, obj: str) -> None:
        """Write a text."""


@dataclass(frozen=True, slots=True)
class CostReport:
    """The costs of one rank; `placed` is the whole program with its moves, None for one device.

    `print` and notebooks show it as `xg cost` does.
    """

    cost: Cost
    placed: IRProgram | None
    sent: tuple[Sent, ...]
    rounds: tuple[Round, ...]
    memory: Memory
    alive: Alive
    largest: Largest | None
    policies: tuple[Policy, ...]
    estimates: tuple[Estimate, ...]

    def __repr__(self) -> str:
        block, parameters = self.blocks[0].graph.key, self.total.parameters
        return f"<CostReport of {block}: {parameters} parameters …; print shows the table>"

    def __str__(self) -> str:
        text = import_module("xg.cli.render.cost_text")  # on a floor above this file
        return "\n".join(text.summary(self))

    def _repr_pretty_(self, printer: _Printer, cycle: bool) -> None:
        """The table, in a notebook."""
        printer.text(str(self))

    @property
    def numbers(self) -> Mapping[str, int]:
        """The sizes that have numbers."""
        return self.cost.numbers

    @property
    def blocks(self) -> tuple[BlockCost, ...]:
        """The costs of every block for one call of it."""
        return self.cost.blocks

    @property
    def total(self) -> Amount:
        """Parameters, FLOPs and saved bytes of one rank."""
        return self.cost.total

    @property
    def mesh(self) -> Mapping[str, int]:
        """The ranks along every axis."""
        return self.placed.mesh if self.placed else {}

    @property
    def dtype(self) -> str:
        """The type of floats."""
        return self.cost.dtype

    @property
    def compared(self) -> tuple[Dim, ...]:
        """The amounts to compare plans by: parameters, bytes, FLOPs, elements."""
        flops = self.total.forward + self.total.backward
        elements = total(self.sent, "naive"), total(self.sent, "ring")
        return (self.total.parameters, self.memory.total, flops, *elements)


def report(
    program: IRProgram,
    placed: IRProgram | None = None,
    dtype: str = "float32",
    machines: Sequence[Machine] = (),
    *,
    brief: bool = False,
) -> CostReport:
    """Count what a rank's program takes; `placed` is the program that it is a rank of.

    A `brief` one lacks rounds, the largest array and policies, which take as long as all the rest.
    """
    counted = cost(program, dtype)
    sending = sent(placed, dtype)
    flops = counted.total.forward + counted.total.backward
    return CostReport(
        counted,
        placed,
        sending,
        _rounds(placed, dtype) if placed and not brief else (),
        _memory(counted),
        alive(counted),
        None if brief else largest(program, dtype),
        () if brief else policies(counted, placed),
        tuple(estimate(each, dtype, flops, sending, counted.numbers) for each in machines),
    )


def reports(
    ranks: Sequence[tuple[IRProgram, IRProgram | None]],
    dtype: str = "float32",
    machines: Sequence[Machine] = (),
    *,
    brief: bool = False,
) -> tuple[CostReport, ...]:
    """A report for each stage of a pipeline, or for the one program of all ranks.

    Stages between the first and the last differ only in which rounds of a row they make, so one of
    them is counted for all.
    """
    known: dict[tuple[bool, bool], CostReport] = {}
    found: list[CostReport] = []
    for place, (program, placed) in enumerate(ranks):
        ends = place == 0, place == len(ranks) - 1
        if ends not in known:
            known[ends] = report(program, placed, dtype, machines, brief=brief)
        found.append(known[ends])
    return tuple(found)


def _memory(counted: Cost) -> Memory:
    size = BYTES[counted.dtype]
    total = counted.total
    resting, learned = total.parameters * size, total.learned * size
    # Of what is held whole for all microbatches, the gradients wait whole for the last of them.
    return Memory(resting + total.held, learned + total.held, learned * MOMENTS, total.saved)


def _rounds(placed: IRProgram, dtype: str) -> tuple[Round, ...]:
    """Every call of the entry that sends something."""
    rounds: list[Round] = []
    for call in placed.main.calls:
        callee = placed.graphs[call.callee]
        symbols = inside(call, placed.main, callee, {})
        sending = tuple(part.inside(symbols) for part in inside_of(placed, call.callee, dtype))
        if sending:
            rounds.append(Round(callee.block, call.span.line, sending))
    return tuple(rounds)
