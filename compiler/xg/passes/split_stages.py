"""The programs of the stages of a pipeline, of a placed program whose plan shares a row.

Every stage makes its rounds of the row, the first also all that is in front of it, the last all
that is behind it. The stream, which goes through the rounds, is an input of all stages but the
first and the output of all but the last. Everything else that a stage needs it computes itself from
inputs and parameters: where two stages use one parameter, both hold it.

The blocks that stages have in common are derived once: `joint` makes one program of all stages for
the passes that follow, `apart` takes it apart again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import replace
from xg.ir.content import prune
from xg.ir.dim import number
from xg.ir.graph import Apply, Call, Graph, IRProgram, Value
from xg.ir.parameters import moving_paths, param_specs
from xg.ir.stage import Stage
from xg.ir.walk import reachable_keys
from xg.sharding.apply_plan import CutRow, cut_row, with_numbers
from xg.sharding.errors import StageOfCall, StatisticOfStages, UnknownRounds


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
    needed, kept = _dependencies(steps, outputs)
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


def _dependencies(
    steps: Sequence[Apply | Call], outputs: Sequence[Value]
) -> tuple[set[Value], tuple[Apply | Call, ...]]:
    """The values that outputs depend on, and the steps that make them."""
    needed = set(outputs)
    kept: list[Apply | Call] = []
    for step in reversed(steps):
        if any(value in needed for value in step.outputs):
            needed.update(step.inputs)
            kept.append(step)
    return needed, tuple(reversed(kept))


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
