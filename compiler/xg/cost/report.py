"""Report what a training step costs one rank, and the least time that a machine takes.

On a single device there is one rank, and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Final, Protocol, TypeGuard, TypeVar

from xg.cost.communication import (
    Sent,
    Way,
    inside_of,
    price_of,
    sent,
    sum_by_kind,
    total,
    total_bytes,
    total_formula,
)
from xg.cost.cost import BYTES, Amount, BlockCost, Cost, CostRow, cost
from xg.cost.memory import Alive, Largest, Policy, alive, largest, policies
from xg.cost.table import (
    Cell,
    Column,
    Evaluated,
    Seconds,
    Table,
    align_columns,
    amount,
    data_of,
    evaluate_dim,
)
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ZERO, Dim
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
        """Return the seconds to compute and then communicate; None if one is unknown."""
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
    """Return the seconds to send a volume over these axes in a number of hops."""
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
        return "\n".join(summary(self))

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


# Print the tables of `xg cost` as people read them, or give them as data.


# The tables of `xg cost`: what each says of a block, a collective, a policy, a machine.


Row = TypeVar("Row")
Numbers = Mapping[str, int]
AMOUNTS = {
    "parameters": "parameters",
    "forward FLOPs": "forward_flops",
    "backward FLOPs": "backward_flops",
    "saved bytes": "saved_bytes",
}


def operators(block: BlockCost) -> Table[CostRow]:
    """The rows of a block as formulas; the text of a call's are in the callee's table."""

    def amount(place: int, head: str, key: str) -> Column[CostRow]:
        def dim(row: CostRow) -> Dim:
            return row.amount.dims()[place]

        def text(row: CostRow) -> str:
            if not row.callee:
                return str(dim(row))
            return "" if dim(row).constant == 0 else row.name

        return Column(head, key, dim, text)

    amounts = (amount(place, *names) for place, names in enumerate(AMOUNTS.items()))
    return Table((*_PLACE, *amounts), block.rows)


def in_numbers(block: BlockCost, numbers: Numbers) -> Table[CostRow]:
    """The same rows as numbers, and their sum."""

    def amount(place: int, head: str) -> Column[CostRow]:
        return Column(
            head, None, lambda row: Evaluated(row.amount.dims()[place], numbers), right=True
        )

    amounts = (amount(place, head) for place, head in enumerate(AMOUNTS))
    return Table((*_PLACE, *amounts), (*block.rows, CostRow("total", None, block.total)))


_PLACE: tuple[Column[CostRow], ...] = (
    Column("line", "line", lambda row: row.line, right=True),
    Column("operator", "operator", lambda row: row.name),
)


def collectives(report: CostReport) -> Table[Sent]:
    """List every collective: payload is for one call, naive and ring for all calls."""
    numbers = report.numbers
    return Table(
        (
            Column("line", "line", lambda part: part.line, right=True),
            Column("block", "block", lambda part: part.key, lambda part: part.block),
            Column("of", "of", lambda part: part.of or None),
            Column("pass", "pass", lambda part: part.direction),
            Column("collective", "collective", lambda part: part.glyph),
            Column("over", "over", lambda part: part.over),
            _formula("calls", numbers, lambda part: part.calls),
            _formula("payload", numbers, lambda part: part.each or part.payload),
            Column("naive", None, lambda part: part.formula("naive")),
            Column("ring", None, lambda part: part.formula("ring")),
            *sending(numbers, _as_list),
        ),
        report.sent,
    )


def _as_list(part: Sent) -> Sequence[Sent]:
    return [part]


def _again(policy: Policy) -> Sequence[Sent]:
    return policy.sent


def _formula(name: str, numbers: Numbers, dim: Callable[[Sent], Dim]) -> Column[Sent]:
    return Column(
        name, name, lambda part: Evaluated(dim(part), numbers), lambda part: str(dim(part))
    )


def sending(
    numbers: Numbers, parts: Callable[[Row], Sequence[Sent]]
) -> tuple[Column[Row], Column[Row], Column[Row]]:
    """The traffic of a row as data: elements around a ring and naive, bytes around a ring."""

    def elements(row: Row, way: Way) -> Cell:
        number = evaluate_dim(total(parts(row), way), numbers)
        return {"formula": total_formula(parts(row), way), "number": number}

    def size(row: Row) -> Cell:
        return Evaluated(total_bytes(parts(row)), numbers)

    return (
        Column(None, "communication", lambda row: elements(row, "ring")),
        Column(None, "communication_naive", lambda row: elements(row, "naive")),
        Column(None, "communication_bytes", size),
    )


def policy_table(report: CostReport) -> Table[Policy]:
    """The savings and costs of recompute policies."""
    numbers, flops = report.numbers, report.total.forward + report.total.backward

    def amount(head: str, key: str | None, dim: Callable[[Policy], Dim]) -> Column[Policy]:
        return Column(head, key, lambda policy: Evaluated(dim(policy), numbers), right=True)

    return Table(
        (
            Column("policy", "policy", lambda policy: policy.name),
            amount("saved bytes", "saved_bytes", lambda policy: policy.saved),
            amount("at once", "at_once_bytes", lambda policy: policy.at_once),
            amount("FLOPs in all", None, lambda policy: flops + policy.again),
            amount("FLOPs again", "flops_again", lambda policy: policy.again),
            amount("sent again", None, lambda policy: total(policy.sent, "ring")),
            *sending(numbers, _again),
        ),
        report.policies,
    )


def estimates(report: CostReport) -> Table[Estimate]:
    """How long machines take at least."""
    return Table(
        (
            Column("machine", "machine", lambda each: each.machine.name),
            Column(None, "title", lambda each: each.machine.title),
            Column(None, "source", lambda each: each.machine.source),
            _time("computing", "computing_seconds", lambda each: each.compute),
            _time("sending", "sending_seconds", lambda each: each.communicate),
            _time("together", None, lambda each: each.total),
            Column("", None, lambda each: each.machine.title),
        ),
        report.estimates,
    )


def _time(
    head: str, key: str | None, seconds: Callable[[Estimate], float | None]
) -> Column[Estimate]:
    return Column(head, key, lambda each: Seconds(seconds(each)), right=True)


def memory(report: CostReport) -> Sequence[tuple[str, str, Dim]]:
    """The memory of a rank in training: names for people and for data, and bytes."""
    held = report.memory
    return (
        ("parameters", "parameters", held.parameters),
        ("gradients", "gradients", held.gradients),
        ("moments of Adam or AdamW", "optimizer", held.optimizer),
        ("saved activations", "saved", held.saved),
        ("total", "total", held.total),
    )


# Sections of `xg cost` about a rank besides its operators: sending, memory, recomputing, time.


ESTIMATE: Final = "estimated step time: peak rates, no overlap, no other waiting"


def sending_lines(report: CostReport) -> Iterator[str]:
    """Every collective, as formulas and in numbers; a layer of each kind; the sums."""
    if not report.placed:
        return
    yield ""
    yield "communication per rank and step, in elements; payload is per call"
    if not report.sent:
        yield "  nothing is sent"
        return
    yield from collectives(report).lines("  ")
    for each in report.rounds:
        for way in ("naive", "ring"):
            yield f"  one {each.name}, {way}: {total_formula(each.sent, way)}"
    for way in ("naive", "ring"):
        yield f"  total, {way}: {total_formula(report.sent, way)}"
    yield f"in numbers, bytes of {report.dtype} around a ring"
    rows = [("pass", "collective", "over", "calls", "payload", "naive", "ring", "ring bytes")]
    rows += [_sum(part, report) for part in sum_by_kind(report.sent)]
    rows.append(_total(report))
    yield from align_columns(rows, frozenset(range(3, 8)), "  ")


def _sum(part: Sent, report: CostReport) -> tuple[str, ...]:
    dims = (part.calls, part.payload, part.elements("naive"), part.elements("ring"))
    cells = (amount(dim, report.numbers) for dim in (*dims, part.bytes("ring")))
    return (part.direction, part.glyph, part.over, *cells)


def _total(report: CostReport) -> tuple[str, ...]:
    calls = sum((part.calls for part in report.sent), ZERO)
    payload = sum((part.payload for part in report.sent), ZERO)
    dims = (calls, payload, total(report.sent, "naive"), total(report.sent, "ring"))
    cells = (amount(dim, report.numbers) for dim in (*dims, total_bytes(report.sent)))
    return ("total", "", "", *cells)


def memory_lines(report: CostReport) -> Iterator[str]:
    """The memory of a rank."""
    if not report.total.saved.terms:
        return
    yield ""
    yield f"memory of one {_place(report)} in training, bytes of {report.dtype}"
    rows = memory(report)
    cells = [(name, amount(dim, report.numbers), str(dim)) for name, _, dim in rows]
    yield from align_columns(cells, frozenset({1}), "  ")


def largest_lines(report: CostReport) -> Iterator[str]:
    """The largest array of a single step, in addition to the memory that is held."""
    one = report.largest
    if one is None:
        return
    yield ""
    yield f"largest array of one step, bytes of {report.dtype}"
    kind = "an array inside" if one.inner else "the result of"
    where = f"{kind} {one.name}, {one.block}, line {one.line}, {one.direction} pass"
    yield f"  {amount(one.size, report.numbers)}  {one.size}: {where}"


def recomputing(report: CostReport) -> Iterator[str]:
    """The savings and costs of recompute policies."""
    if len(report.policies) < 2:
        return
    yield ""
    yield "recompute policies, for comparison; plans choose with `again` and `keep`"
    yield from policy_table(report).lines("  ")
    for each in report.policies[1:]:
        yield f"  {each.name}: saved {each.saved}; again {each.again}{_again_note(each.sent)}"


def _again_note(parts: Sequence[Sent]) -> str:
    return f"; sent again, ring {total_formula(parts, 'ring')}" if parts else ""


def times(report: CostReport) -> Iterator[str]:
    """How long machines take at least; nothing while a size has no number."""
    if not any(each.compute is not None for each in report.estimates):
        return
    yield ""
    yield ESTIMATE
    yield from estimates(report).lines("  ")


def _place(report: CostReport) -> str:
    return "rank" if report.placed else "device"


NOTE = (
    "FLOPs are counted from primitives: 2 for each term of a contraction, 1 for each element of\n"
    "anything elementwise, 1 for each element that a reduction takes, 0 for moving data.\n"
    "Saved bytes are what the backward pass keeps; a mask has 1 byte, an integer 8."
)


MORE = "--full also lists each operator, memory, traffic and what can be recomputed"


def lines(report: CostReport, *, full: bool) -> Iterator[str]:
    """The totals and the least times; in full also the tables that they are sums of."""
    if full:
        yield from _totals(report)
        yield from _all(report)
        return
    yield from summary(report)
    yield ""
    yield MORE


def summary(report: CostReport) -> Iterator[str]:
    """The totals and the least times."""
    yield from _totals(report)
    yield from times(report)


def _totals(report: CostReport) -> Iterator[str]:
    """Each sum with its number and its formula."""
    rank = "rank" if report.placed else "device"
    yield f"{_name(report.blocks[0])}, one step of one {rank}, {report.dtype}: {sizes(report)}"
    dims = [*zip(AMOUNTS, report.total.dims(), strict=True)]
    dims.append(("held bytes", report.memory.total))
    rows = [(name, amount(dim, report.numbers), str(dim)) for name, dim in dims]
    if report.placed:
        sent = amount(total(report.sent, "ring"), report.numbers)
        rows.append(("sent elements", sent, total_formula(report.sent, "ring")))
    yield from align_columns(rows, frozenset({1}), "  ")


def _all(report: CostReport) -> Iterator[str]:
    """The tables of all blocks, then of all that a rank holds and sends."""
    yield ""
    for block in report.blocks:
        yield from _block(block, report)
        yield ""
    yield f"in numbers: {sizes(report)}"
    yield from in_numbers(report.blocks[0], report.numbers).lines("  ")
    for section in (sending_lines, memory_lines, largest_lines, recomputing, times):
        yield from section(report)
    yield ""
    yield NOTE


def _block(block: BlockCost, report: CostReport) -> Iterator[str]:
    rank = ", one rank" if report.placed else ""
    yield f"{_name(block)}, one call{rank}, {report.dtype}"
    yield from operators(block).lines("  ")
    formulas = [*map(str, block.total.dims())]
    if block is report.blocks[0]:
        formulas.append(total_formula(report.sent, "ring"))
    heads = ("total", "", "", "", "")
    cells = [*zip(heads, (*AMOUNTS, "communication"), formulas, strict=False)]
    yield from align_columns(cells, indent="  ")


def _name(block: BlockCost) -> str:
    title = block.graph.title
    return block.graph.key + ("" if title == block.graph.block else f' "{title}"')


def sizes(report: CostReport) -> str:
    """Every size that the totals mention, with its number or how to give it one."""
    dims = [*report.total.dims(), *(part.payload for part in report.sent)]
    lengths = report.cost.program.lengths
    return bound(dims, report.numbers, [part.over for part in report.sent], lengths)


def bound(
    dims: Sequence[Dim],
    numbers: Mapping[str, int],
    more: Sequence[str] = (),
    lengths: Mapping[str, int] | None = None,
) -> str:
    """The symbols of some formulas, with numbers where they have any.

    Sizes that a plan pads say their `lengths` too.
    """
    known = (name for name in more if name in numbers)  # an axis that no formula has needs none
    symbols = sorted({*known, *(name for dim in dims for name in dim.symbols())})
    true = {name: f" ({length} padded)" for name, length in (lengths or {}).items()}
    texts = [f"{n} = {numbers[n]}{true.get(n, '')}" for n in symbols if n in numbers]
    free = [name for name in symbols if name not in numbers]
    if free:
        texts.append(f"{' and '.join(free)} free (--set {free[0]}=…)")
    return ", ".join(texts) or "no sizes"


# `xg cost --json`: every amount as formula and number.


Data = Mapping[str, object]


def as_data(report: CostReport) -> Data:
    """One document: blocks, then what a rank sends, holds, and could compute again."""
    plan = report.placed.plan if report.placed else None
    layers: tuple[Column[Round], ...] = (
        Column(None, "block", lambda each: each.name),
        Column(None, "line", lambda each: each.line),
        *sending(report.numbers, _sent),
    )
    return {
        "block": report.cost.program.main.block,
        "dtype": report.dtype,
        "plan": plan.name if plan else None,
        "mesh": dict(report.mesh),
        "sizes": dict(sorted(report.numbers.items())),
        "total": _total_data(report),
        "blocks": [
            {
                "block": block.graph.key,
                "total": dict(zip(_AMOUNT_KEYS, map(str, block.total.dims()), strict=True)),
                "rows": operators(block).data(),
            }
            for block in report.blocks
        ],
        "collectives": collectives(report).data(),
        "layers": Table(layers, report.rounds).data(),
        "memory_bytes": {
            key: data_of(Evaluated(dim, report.numbers)) for _, key, dim in memory(report)
        },
        "largest_array": _largest_data(report),
        "recompute": policy_table(report).data(),
        "estimates": estimates(report).data(),
    }


def _report_sent(report: CostReport) -> Sequence[Sent]:
    return report.sent


def _sent(layer: Round) -> Sequence[Sent]:
    return layer.sent


_AMOUNT_KEYS = tuple(AMOUNTS.values())


def _total_data(report: CostReport) -> Data:
    amounts = (data_of(Evaluated(dim, report.numbers)) for dim in report.total.dims())
    (sent,) = Table(sending(report.numbers, _report_sent), [report]).data()
    return {**dict(zip(_AMOUNT_KEYS, amounts, strict=True)), **sent}


def _largest_data(report: CostReport) -> Data | None:
    """The largest array of a single step; null where nothing is made."""
    one = report.largest
    return one and {
        "bytes": data_of(Evaluated(one.size, report.numbers)),
        "operator": one.name,
        "block": one.block,
        "line": one.line,
        "pass": one.direction,
        "inside": one.inner,
    }
