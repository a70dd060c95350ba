"""Rewrite whole programs: without mesh, without dead steps, as calls only, by stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import replace
from xg.ir.content import needed_steps, prune
from xg.ir.dim import number, symbol
from xg.ir.graph import Apply, Call, Graph, IRProgram, Param, Step, Value
from xg.ir.placement import FAMILY, Stage
from xg.ir.tensor import Sizes
from xg.ir.walk import moving_paths, param_specs, reachable_keys
from xg.sharding.apply_plan import CutRow, cut_row, with_numbers
from xg.sharding.errors import StageOfCall, StatisticOfStages, UnknownRounds


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
    paths = {str(value.name).partition(".")[0] for value in graph.foreign}

    def lends(step: Step) -> bool:
        return isinstance(step, Call) and step.path in paths

    needed, steps = needed_steps(graph.steps, graph.outputs, lends)
    if len(steps) == len(graph.steps):
        return graph
    alive = replace(
        graph,
        steps=steps,
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


# The programs of the stages of a pipeline, of a placed program whose plan shares a row.
#
# Every stage makes its rounds of the row, the first also all that is in front of it, the last all
# that is behind it. The stream, which goes through the rounds, is an input of all stages but the
# first and the output of all but the last. Everything else that a stage needs it computes itself
# from inputs and parameters: where two stages use one parameter, both hold it.
#
# The blocks that stages have in common are derived once: `joint` makes one program of all stages
# for the passes that follow, `apart` takes it apart again.


def split_stages(program: IRProgram) -> tuple[IRProgram, ...]:
    """The program of every stage; none where the plan has no pipeline. Raises DiagnosticError."""
    found = cut_row(program)
    if found is None:
        return ()
    row = with_numbers(found)
    assert row.ranks is not None
    if row.rounds is None:
        raise DiagnosticError.of(UnknownRounds(row.call.span, str(row.call.count)))
    ranks = row.ranks
    whole = [_stage(program, row, place) for place in range(ranks * row.turns)]
    _refuse_statistics(program, row, whole)
    holders: dict[str, list[int]] = {}
    for place, stage in enumerate(whole):
        types = stage.main.types
        learned = ((path, param.value) for path, param, *_ in param_specs(stage))
        inputs = ((str(value.name), value) for value in stage.main.inputs if types[value].is_float)
        held = [path for path, value in (*learned, *inputs) if not value.frozen]
        for path in dict.fromkeys(held):
            if stage.stage and path != stage.stage.receives:
                holders.setdefault(path, []).append(place)
    firsts = {  # of each rank the first that has it
        path: tuple({place % ranks: place for place in reversed(places)}.values())
        for path, places in holders.items()
    }
    shared = {path: tuple(sorted(places)) for path, places in firsts.items() if len(places) > 1}
    return tuple(_with_holders(stage, shared) for stage in whole)


def joint(stages: Sequence[IRProgram]) -> IRProgram:
    """All stages as the entries of one program, whose passes derive each shared block once."""
    callees: dict[str, Graph] = {}
    mains: dict[str, Graph] = {}
    for place, stage in enumerate(stages):
        callees |= {key: graph for key, graph in stage.graphs.items() if key != stage.entry}
        key = _entry(stage, place)
        mains[key] = replace(stage.main, key=key)
    *others, entry = mains
    return replace(
        stages[-1], graphs={**callees, **mains}, entry=entry, others=tuple(others), stage=None
    )


def apart(program: IRProgram, stages: Sequence[IRProgram]) -> Iterator[IRProgram]:
    """The program of every stage, of the one that `joint` made and passes have changed."""
    for place, stage in enumerate(stages):
        key = _entry(stage, place)
        keys = [each for each in stage.graphs if each != stage.entry]
        main = replace(program.graphs[key], key=stage.entry)
        backwards = {each: program.backwards[each] for each in keys if each in program.backwards}
        if key in program.backwards:
            backward = program.backwards[key]
            backwards[stage.entry] = replace(backward, key=stage.entry, forward=main)
        yield replace(
            program,
            graphs={**{each: program.graphs[each] for each in keys}, stage.entry: main},
            backwards=backwards,
            entry=stage.entry,
            others=(),
            stage=stage.stage,
        )


def _entry(stage: IRProgram, place: int) -> str:
    """Return the key of a stage's own graph among all stages; no block has such a name."""
    return f"{stage.entry}, stage {place}"


def _with_holders(program: IRProgram, shared: dict[str, tuple[int, ...]]) -> IRProgram:
    """The program of a stage that knows which parameters and inputs others hold too."""
    stage = program.stage
    assert stage is not None
    mine = {path: places for path, places in shared.items() if stage.place in places}
    return replace(program, stage=replace(stage, holders=mine))


def _refuse_statistics(program: IRProgram, row: CutRow, stages: Sequence[IRProgram]) -> None:
    """Raise DiagnosticError for running statistics that no stage moves as one device does.

    A stage that makes all the steps that move one has it right, also beside others that do.
    """
    moved = moving_paths(program)
    if not moved:
        return
    found = [moving_paths(stage) for stage in stages]
    problems: list[StatisticOfStages] = []
    for path, param, *_ in param_specs(program):
        held = [place for place, stage in enumerate(stages) if path in _paths(stage)]
        if any(found[place][path] != moved[path] for place in held):
            places = " and ".join(map(str, held))
            problems.append(StatisticOfStages(row.call.span, path, places, param.value.span))
    if problems:
        raise DiagnosticError.of(*problems)


def _paths(stage: IRProgram) -> set[str]:
    """The parameters that a stage holds."""
    return {path for path, *_ in param_specs(stage)}


def _stage(program: IRProgram, row: CutRow, place: int) -> IRProgram:
    """The program of one stage."""
    main = program.main
    ranks, rounds = row.ranks or 1, row.rounds or 0
    stages = ranks * row.turns
    share = rounds // stages
    call = next(c for c in main.calls if c.path == row.call.path)
    stream, left = call.inputs[0], call.outputs[0]
    enters = place > 0
    received = Value(_free(main, "received"), "input", stream.span) if enters else stream
    inside = replace(
        call, count=number(share), first=place * share, inputs=(received, *call.inputs[1:])
    )
    last = place == stages - 1
    outputs = main.outputs if last else (left,)
    names = main.output_names if last else (_free(main, "sent"),)
    steps = tuple(inside if step is call else step for step in main.steps)
    needed, kept = needed_steps(steps, outputs)
    params = tuple(param for param in main.params if param.value in needed)
    inputs = tuple(value for value in main.inputs if value in needed)
    graph = replace(
        main,
        inputs=(*([received] if enters else []), *inputs),
        outputs=outputs,
        output_names=names,
        output_types=tuple(main.types[value] for value in outputs),
        steps=kept,
        params=params,
        foreign=tuple(_foreign(main, needed, kept, row, place)),
        types={**main.types, received: main.types[stream]},
        placements={**main.placements, received: main.placements.get(stream, {})},
    )
    graphs = {**program.graphs, graph.key: prune(graph)}
    sends = None if last else names[0]
    receives = str(received.name) if enters else None
    return replace(
        program,
        graphs={key: graphs[key] for key in reachable_keys(graphs, program.entry)},
        stage=Stage(row.axis, place, stages, ranks, receives, sends),
    )


def _free(graph: Graph, name: str) -> str:
    """A name that no value of the block has."""
    taken = {found for found, _ in graph.names()}
    while name in taken:
        name += "_"
    return name


def _foreign(
    main: Graph, needed: set[Value], kept: Sequence[Apply | Call], row: CutRow, place: int
) -> Iterator[Value]:
    """The parameters of calls that the stage reads itself; it has to make these calls."""
    paths = {step.path for step in kept if isinstance(step, Call)}
    for value in main.foreign:
        if value in needed:
            if str(value.name).partition(".")[0] not in paths:
                raise DiagnosticError.of(StageOfCall(row.call.span, str(value.name), place))
            yield value
