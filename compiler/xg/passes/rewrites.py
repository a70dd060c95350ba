"""Rewrite whole programs: without mesh, without dead steps, with the entry as calls only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.collective import FAMILY
from xg.ir.content import prune
from xg.ir.dim import symbol
from xg.ir.graph import Apply, Call, Graph, IRProgram, Param, Step, Value
from xg.ir.tensor import Sizes
from xg.ir.walk import reachable_keys


def drop_mesh(program: IRProgram) -> IRProgram:
    """A program without plan and mesh, and without the collectives that its file writes.

    On one device a collective does nothing: its operand takes the place of its result. Values are
    those of the parallel program.
    """
    graphs = {key: _without_moves(graph) for key, graph in program.graphs.items()}
    return replace(program, graphs=graphs, backwards={}, mesh={}, plan=None)


def _without_moves(graph: Graph) -> Graph:
    if not (graph.is_cut or graph.placement_requests or graph.placements):
        return prune(graph)
    operands: dict[Value, Value] = {}
    steps: list[Step] = []
    for step in graph.steps:
        inputs = tuple(operands.get(value, value) for value in step.inputs)
        if isinstance(step, Apply) and step.op.family == FAMILY:
            operands[step.outputs[0]] = inputs[0]
        else:
            steps.append(replace(step, inputs=inputs))
    outputs = tuple(operands.get(value, value) for value in graph.outputs)
    aliases = tuple((name, operands.get(value, value)) for name, value in graph.aliases)
    whole = replace(graph, steps=tuple(steps), outputs=outputs, aliases=aliases)
    return prune(replace(whole, layouts={}, placement_requests={}))


# Remove steps that reach no output, and with them the parameters that nothing reads.
#
# A choice of options leaves such steps behind: a table of learned positions that only another
# choice adds. They were typed before, so their errors are found all the same.


def eliminate_dead(program: IRProgram) -> IRProgram:
    """The program without dead steps, and without the graphs that only these call.

    A call stays while a step reads a parameter of it. Where that step goes, the call may follow.
    """
    while True:
        lent = _lent(program)
        alive = {key: _alive(graph, lent) for key, graph in program.graphs.items()}
        same = all(alive[key] is graph for key, graph in program.graphs.items())
        program = replace(
            program, graphs={key: alive[key] for key in reachable_keys(alive, program.entry)}
        )
        if same:
            return program


def _lent(program: IRProgram) -> set[tuple[str, str]]:
    """Graph and name of the parameters that a caller reads too."""
    lent: set[tuple[str, str]] = set()
    for graph in program.graphs.values():
        callees = {step.path: step.callee for step in graph.calls}
        for value in graph.foreign:
            path, _, name = str(value.name).partition(".")
            lent.add((callees[path], name))
    return lent


def _alive(graph: Graph, lent: set[tuple[str, str]]) -> Graph:
    """The graph with the steps that its outputs need."""
    needed = set(graph.outputs)
    paths = {str(value.name).partition(".")[0] for value in graph.foreign}
    steps: list[Apply | Call] = []
    for step in reversed(graph.steps):
        lends = isinstance(step, Call) and step.path in paths
        if lends or any(value in needed for value in step.outputs):
            needed.update(step.inputs)
            steps.append(step)
    if len(steps) == len(graph.steps):
        return graph
    alive = replace(
        graph,
        steps=tuple(reversed(steps)),
        params=tuple(
            param
            for param in graph.params
            if param.value in needed or (graph.key, str(param.value.name)) in lent
        ),
        foreign=tuple(value for value in graph.foreign if value in needed),
    )
    return prune(alive)


# The entry block as calls only: its own operators gathered into blocks of their own.
#
# A module that answers automatic differentiation block by block (`torch.nn.Module` around generated
# code) needs a forward and a backward function for every piece between two calls: before the
# layers, and behind them. Operators in a row become one piece; calls stay.


def outline(program: IRProgram) -> IRProgram:
    """The program with an entry of calls; pieces are called under the empty path.

    An entry without calls is one piece: itself. A call over an axis becomes a block that makes it.
    """
    program = _without_reuse(program)
    main = program.main
    pieces: list[Graph] = []
    steps: list[Apply | Call] = []
    for run in _runs(main):
        if isinstance(run[0], Call):
            for call in run:
                assert isinstance(call, Call)
                if call.loop:
                    pieces.append(_around(call, main, program.graphs[call.callee], len(pieces) + 1))
                    inputs = pieces[-1].inputs
                    call = replace(call, callee=pieces[-1].key, inputs=inputs, loop=None, sizes={})
                steps.append(call)
        else:
            piece = main if _is_piece(main, run) else _piece(main, run, len(pieces) + 1)
            if piece.outputs:  # else nothing reads what it computes
                pieces.append(piece)
                steps.append(_call(piece))
    callees = {key: graph for key, graph in program.graphs.items() if key != program.entry}
    named = {piece.key: piece for piece in pieces}
    outlined = replace(
        main,
        key=f"{main.key}, outlined",
        block=f"{main.block}_outlined",  # no function is written for it: it takes no name
        steps=tuple(steps),
        foreign=(),
    )
    entry = prune(outlined)
    graphs = {**callees, **named, entry.key: entry}
    return replace(program, graphs=graphs, entry=entry.key, backwards={})


def _without_reuse(program: IRProgram) -> IRProgram:
    """The program that reuses no array: its pieces have other readers, and save other values."""
    graphs = {key: replace(graph, reusable=()) for key, graph in program.graphs.items()}
    return replace(program, graphs=graphs, backwards={})


def _runs(main: Graph) -> Iterator[list[Apply | Call]]:
    """The steps, calls and operators apart."""
    for _, run in groupby(main.steps, lambda step: isinstance(step, Call)):
        yield list(run)


def _is_piece(main: Graph, run: Sequence[Apply | Call]) -> bool:
    """Whether an entry is one piece as it is: it makes all that it gives, and gives it once."""
    produced = {value for step in run for value in step.outputs}
    once = len(set(main.outputs)) == len(main.outputs)
    return len(run) == len(main.steps) and once and produced.issuperset(main.outputs)


def _call(piece: Graph) -> Call:
    """Build the call of a piece, which takes its sizes from the entry."""
    saved = Value(None, "saved", piece.span)
    own = piece.sizes.local & piece.sizes.defaults.keys()
    sizes = {name: symbol(name) for name in sorted(own)}
    return Call(piece.key, "", piece.inputs, piece.outputs, saved, piece.span, sizes=sizes)


def _shared(sizes: Sizes) -> Sizes:
    """The sizes of the entry in a block that is a part of it."""
    return replace(sizes, local=frozenset())


def _piece(main: Graph, run: Sequence[Apply | Call], number: int) -> Graph:
    """The block that computes a run of operators."""
    produced = dict.fromkeys(value for step in run for value in step.outputs)
    read = dict.fromkeys(value for step in run for value in step.inputs)
    held = {param.value: param for param in _params(main)}
    inputs = tuple(value for value in read if value not in produced and value not in held)
    if not any(main.types[value].is_float for value in read if value not in produced):
        inputs += tuple(_floats(main))[:1]  # whose type the floats made here shall have
    inside = set(run)
    leaving = {v for step in main.steps if step not in inside for v in step.inputs}
    leaving.update(main.outputs)
    outputs = tuple(value for value in produced if value in leaving)
    piece = replace(
        main,
        key=f"{main.key}, piece {number}",
        block=f"{main.block}_part_{number}",
        title=f"{main.title}, piece {number}",
        inputs=inputs,
        outputs=outputs,
        sizes=_shared(main.sizes),
        output_names=tuple(str(value.name or "value") for value in outputs),
        output_types=tuple(main.types[value] for value in outputs),
        params=tuple(param for value, param in held.items() if value in read),
        steps=tuple(run),
        foreign=(),
    )
    return prune(piece)


def _around(call: Call, main: Graph, callee: Graph, number: int) -> Graph:
    """A block that makes a loop, so that all its rounds are one step of autograd.

    Its parameters are those of the loop's callee: it calls it under the empty path. A value that
    the loop takes twice is one input, whose gradient is the sum of both.
    """
    names = [f"output_{place + 1}" for place in range(len(call.outputs))]
    around = replace(
        main,
        key=f"{main.key}, loop {number}",
        block=f"{callee.block}_loop",
        title=f"{callee.title}, loop",
        inputs=tuple(dict.fromkeys(call.inputs)),
        outputs=call.outputs,
        sizes=_shared(main.sizes),
        output_names=tuple(names),
        output_types=tuple(main.types[value] for value in call.outputs),
        params=(),
        steps=(replace(call, path=""),),
        foreign=(),
        claims=(),
        carries=(),
    )
    return prune(around)


def _floats(main: Graph) -> Iterator[Value]:
    yield from (value for value in main.inputs if main.types[value].is_float)
    yield from (param.value for param in main.params)


def _params(main: Graph) -> Iterator[Param]:
    """Yield every parameter that the block reads; a callee's has its path (``bert.E``)."""
    yield from main.params
    yield from (Param(value, main.types[value], "ones") for value in main.foreign)
