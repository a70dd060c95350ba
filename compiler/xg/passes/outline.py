"""The entry block as calls only: its own operators gathered into blocks of their own.

A module that answers automatic differentiation block by block (`torch.nn.Module` around generated
code) needs a forward and a backward function for every piece between two calls: before the layers,
and behind them. Operators in a row become one piece; calls stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from xg.ir.content import prune
from xg.ir.dim import symbol
from xg.ir.graph import Apply, Call, Graph, Param, Program, Value
from xg.ir.tensor import Sizes


def outline(program: Program) -> Program:
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


def _without_reuse(program: Program) -> Program:
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
    """The call of a piece, whose sizes are those of the entry: it has no number of its own."""
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
    """Every parameter that the block reads; those of its calls under their paths (``bert.E``)."""
    yield from main.params
    yield from (Param(value, main.types[value], "ones") for value in main.foreign)
