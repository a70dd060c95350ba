"""A block as a step: the new positions of a text go in, the past ones are kept in states.

`decode_step` turns a block that takes whole texts into one that takes them piece by piece, with the
same results. No operator has a rule for it: what a node needs of earlier positions is read off its
body, axis by axis (`positions`, `retype`); what is needed whole is kept (`block`, `views`), what
needs no position is given (`prologue`); the result is an ordinary program whose graphs have states
(`assemble`); and whether an earlier position could ever depend on a later one is checked on that
result (`causal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import Dim, symbol
from xg.ir.graph import Graph, IRProgram, Param, Value
from xg.ir.parameters import param_patterns
from xg.ir.tensor import TensorType
from xg.ir.walk import answers
from xg.syntax.spelling import greek_name
from xg_generate.decode_step.assemble import Assembler, prologue_graph
from xg_generate.decode_step.block import (
    BlockPlanner,
    Kept,
    StepCall,
    StepLoop,
    StepPart,
    StepPlan,
    StepRequest,
    Used,
    keep_all_positions,
)
from xg_generate.decode_step.causal import check_causal
from xg_generate.decode_step.errors import NoPositions, NoStep


def decode_step(program: IRProgram, output: str | None = None) -> IRProgram:
    """The step of a typed program that gives one output, by default the first that has positions.

    Raises DiagnosticError where a step cannot give what the whole text would.
    """
    request, past = _request(program, output), _past(program)
    plans = _plans(program, request, past)
    _check_rows(plans[request])
    if not _is_recurrent(plans.values(), past.symbols()):
        plans[request] = _with_state(plans[request])
    keys = _keys(plans)
    params = _params(program, plans)
    graphs = {
        keys[each]: Assembler(plan, keys).graph(params[each], frozenset(plan.graph.foreign))
        for each, plan in plans.items()
    }
    step = IRProgram(graphs, keys[request])
    step = replace(step, partial=param_patterns(step) != param_patterns(program))
    lengths = {keys[each]: plan.positions.length for each, plan in plans.items()}
    check_causal(step, lengths, past)
    return step


def prologue(program: IRProgram, output: str | None = None) -> IRProgram | None:
    """Return a program for the step inputs that need no positions; None without such inputs.

    The output of an encoder is the same in every step. Unneeded steps are not eliminated here.
    """
    request = _request(program, output)
    plans = _plans(program, request, _past(program))
    if not plans[request].given:
        return None
    graphs = dict(program.graphs)
    keys: dict[StepRequest, str] = {}
    for number, (each, plan) in enumerate(plans.items()):
        if plan.given:
            keys[each] = f"{each.callee} once ({number})"
            graphs[keys[each]] = prologue_graph(plan, program, graphs, keys)
    return replace(program, graphs=graphs, entry=keys[request], backwards={}, partial=True)


def _request(program: IRProgram, output: str | None) -> StepRequest:
    """The request for the entry block: one output at the new positions."""
    main = program.main
    if main.carries:
        what = f"is one round of a loop, with the state {greek_name(main.carries[0].name)}"
        help = f"choose the block that calls it: {main.block} over …"
        raise DiagnosticError.of(NoStep(main.span, main.block, what, help))
    if program.mesh:
        help = "leave the plan out: a decode step runs on one device"
        raise DiagnosticError.of(NoStep(main.span, main.block, "is for one of several ranks", help))
    place, length = _output(main, output)
    whole = (False,) * len(main.types[main.outputs[place]].shape)
    return StepRequest(program.entry, (length,), ((place, whole),), alone=True)


def _output(graph: Graph, wanted: str | None) -> tuple[int, str]:
    """The output of a step, and the symbol of its axis of positions, the last but one."""
    types = [graph.types[value] for value in graph.inputs]
    names = {name for type_ in types for name in _positions(type_)}
    names -= {type_.shape[0].name for type_ in types if len(type_.shape) > 1 + type_.is_float}
    for place, (name, value) in enumerate(zip(graph.output_names, graph.outputs, strict=True)):
        type_ = graph.types[value]
        if wanted in (None, name) and type_.is_float and len(type_.shape) > 1:
            length = type_.shape[-2].name
            if length is not None and length in names:
                return place, length
    pairs = zip(graph.output_names, graph.output_types, strict=True)
    outputs = tuple(f"{name} {type_}" for name, type_ in pairs if wanted in (None, name))
    raise DiagnosticError.of(NoPositions(graph.span, graph.block, outputs, wanted))


def _positions(type_: TensorType) -> tuple[str, ...]:
    """Candidates for an axis of positions: the last of integers, the last but one of floats."""
    axes = type_.shape[-2:-1] if type_.is_float else type_.shape[-1:]
    return tuple(dim.name for dim in axes if dim.name is not None)


def _past(program: IRProgram) -> Dim:
    """A symbol for the past positions that the program does not use."""
    used: set[str] = set()
    for graph in program.graphs.values():
        used |= {
            name for type_ in graph.types.values() for d in type_.shape for name in d.symbols()
        }
        used |= {*graph.sizes.defaults, *graph.sizes.definitions}
    names = ["T", "S_past", *(f"T_{number}" for number in range(len(used) + 1))]
    return symbol(next(name for name in names if name not in used))


def _plans(program: IRProgram, request: StepRequest, past: Dim) -> dict[StepRequest, StepPlan]:
    """The plans of a request and of all that it asks, callees first."""
    return answers(request, lambda asked: BlockPlanner(program, asked, past).plan(), {})


def _check_rows(plan: StepPlan) -> None:
    """Refuse a table of pairs of positions as what a step takes or gives: it has new rows alone.

    A block that takes nothing with positions cannot know how many are new.
    """
    graph, length = plan.graph, plan.request.same[0]
    taken = [graph.inputs[place] for place, _ in plan.inputs]
    for value in [*taken, *(graph.outputs[place] for place, _ in plan.request.outputs)]:
        if sum(dim.name == length for dim in graph.types[value].shape) > 1:
            what = f"has a number for every pair of positions {length}"
            raise DiagnosticError.of(NoStep(value.span, str(value.name), what))
    if not any(dim.name == length for value in taken for dim in graph.types[value].shape):
        output = graph.outputs[plan.request.outputs[0][0]]
        what = f"depends on no input with the positions {length}"
        raise DiagnosticError.of(NoStep(output.span, str(output.name), what))


def _is_recurrent(plans: Iterable[StepPlan], past: Sequence[str]) -> bool:
    """Whether what steps leave does not grow, and nothing asks how many positions there were."""
    parts = [(plan, part) for plan in plans for part in plan.parts]
    counted = any(
        _grows(part) or (isinstance(part, Used) and _counts(plan, part, past))
        for plan, part in parts
    )
    return not counted and any(isinstance(part, StepLoop | Kept) for _, part in parts)


def _grows(part: StepPart) -> bool:
    return isinstance(part, Kept) and part.past is None


def _counts(plan: StepPlan, part: Used, past: Sequence[str]) -> bool:
    """Whether an operator computes with the number of past positions, as `range` does."""
    types = list(map(plan.type_in, part.inputs))
    body = part.use.op.body(types, part.use.attrs)
    attrs = (value for expr in body.order() for _, value in expr.attrs)
    dims = (value for value in attrs if isinstance(value, Dim))
    return any(name in past for dim in dims for name in dim.symbols())


def _with_state(plan: StepPlan) -> StepPlan:
    """The entry's plan with a state that counts the positions so far."""
    if any(map(_grows, plan.parts)):
        return plan
    for place, whole in plan.inputs:
        value = plan.graph.inputs[place]
        every = plan.positions.whole_flags(plan.graph.types[value].shape)
        if sum(every) == 1 and not any(whole):
            state = Kept(value, every.index(True), len(every), value.span)
            if state in (replace(p, past=None) for p in plan.parts if isinstance(p, Kept)):
                return keep_all_positions(plan, (value, every))
            return replace(plan, parts=(state, *plan.parts))
    return plan


def _keys(plans: Mapping[StepRequest, StepPlan]) -> dict[StepRequest, str]:
    """A key for every plan: the block's own, numbered where a block has several steps."""
    keys: dict[StepRequest, str] = {}
    for request in sorted(plans, key=lambda each: each.suffix):
        number = sum(other.callee == request.callee for other in keys) + 1
        keys[request] = request.callee + (f" ({number})" if number > 1 else "")
    return keys


def _params(
    program: IRProgram, plans: Mapping[StepRequest, StepPlan]
) -> dict[StepRequest, tuple[Param, ...]]:
    """The parameters of each block that its steps read, or that a caller reads too."""
    read: dict[StepRequest, dict[Value, None]] = {request: {} for request in plans}
    lent: set[tuple[StepRequest, str]] = set()
    for request, plan in plans.items():
        tokens = [(plan.graph.outputs[place], whole) for place, whole in request.outputs]
        tokens += [t for part in plan.parts if not isinstance(part, Kept) for t in part.inputs]
        values = (value for value, _ in map(plan.resolve, tokens))
        read[request].update((value, None) for value in values if value.role == "param")
        calls = {p.step.path: p.request for p in plan.parts if isinstance(p, StepCall | StepLoop)}
        for value in plan.graph.foreign:
            path, _, name = str(value.name).partition(".")
            if value in read[request] and path in calls:
                lent.add((calls[path], name))
    return {
        request: tuple(
            param
            for param in plan.graph.params
            if param.value in read[request] or (request, str(param.value.name)) in lent
        )
        for request, plan in plans.items()
    }
