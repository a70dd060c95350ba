"""The cost of a training step for one rank: compute, memory, communication, least time.

On a single device there is one rank, and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final, Protocol

from xg.cost.alive import Alive, alive
from xg.cost.communication import Sent, inside_of, sent, total
from xg.cost.cost import BYTES, Amount, BlockCost, Cost, cost
from xg.cost.hardware import Estimate, Machine, estimate
from xg.cost.largest import Largest, largest
from xg.cost.recompute import Policy, policies
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim
from xg.ir.graph import Program
from xg.ir.instances import inside

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
    placed: Program | None
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
    program: Program,
    placed: Program | None = None,
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
    ranks: Sequence[tuple[Program, Program | None]],
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


def _rounds(placed: Program, dtype: str) -> tuple[Round, ...]:
    """Every call of the entry that sends something."""
    rounds: list[Round] = []
    for call in placed.main.calls:
        callee = placed.graphs[call.callee]
        symbols = inside(call, placed.main, callee, {})
        sending = tuple(part.inside(symbols) for part in inside_of(placed, call.callee, dtype))
        if sending:
            rounds.append(Round(callee.block, call.span.line, sending))
    return tuple(rounds)
