"""The rules of the IR: a compiled program keeps them all, and every planted violation is found."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from library import LIBRARY

import xg
from xg.ir.content import prune
from xg.ir.graph import Backward, Call, Graph, IRProgram, Value
from xg.ir.tensor import TensorType
from xg.ir.verify import BrokenProgram, verify, violations

MODEL = LIBRARY / "models" / "transformer.xg"
Change = Callable[[Graph], Graph]


@pytest.fixture(scope="module")
def program() -> IRProgram:
    return xg.compile(MODEL, "Layer").graphs


def of(program: IRProgram, block: str, change: Change) -> IRProgram:
    """The program with the forward graph of a block changed, and a backward pass that knows it."""
    graphs = {k: change(g) if g.block == block else g for k, g in program.graphs.items()}
    backwards = {k: replace(b, forward=graphs[k]) for k, b in program.backwards.items()}
    return replace(program, graphs=graphs, backwards=backwards)


def test_a_compiled_program_keeps_every_rule(program: IRProgram) -> None:
    verify(program)


def test_pruning_changes_nothing_that_is_sound(program: IRProgram) -> None:
    assert all(prune(graph).types == graph.types for graph in program.graphs.values())


def swapped(graph: Graph) -> Graph:
    return replace(graph, steps=tuple(reversed(graph.steps)))


def doubled(graph: Graph) -> Graph:
    return replace(graph, steps=(graph.steps[0], *graph.steps))


def retyped(graph: Graph) -> Graph:
    first, second = graph.steps[0].outputs[0], graph.params[0].value
    return replace(graph, types={**graph.types, first: graph.types[second]})


def flattened(graph: Graph) -> Graph:
    made = graph.steps[0].outputs[0]
    return replace(graph, types={**graph.types, made: TensorType(())})


def untyped(graph: Graph) -> Graph:
    made = graph.steps[0].outputs[0]
    return replace(graph, types={v: t for v, t in graph.types.items() if v is not made})


def haunted(graph: Graph) -> Graph:
    gone = Value("gone", "edge", graph.span)
    return replace(graph, types={**graph.types, gone: graph.types[graph.inputs[0]]})


def deaf(graph: Graph) -> Graph:
    first, *rest = graph.steps
    return replace(graph, steps=(replace(first, inputs=first.inputs[1:]), *rest))


def greedy(graph: Graph) -> Graph:
    return replace(graph, inputs=(*graph.inputs, graph.inputs[0]))


def empty_handed(graph: Graph) -> Graph:
    return replace(graph, outputs=(Value("nothing", "edge", graph.span),))


def misnamed(graph: Graph) -> Graph:
    return replace(graph, output_names=("Y", "Z"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (swapped, "which nothing before it makes"),
        (doubled, "a second time"),
        (retyped, "do not broadcast"),
        (flattened, ", but a value of line 29 is []"),
        (untyped, "has no type"),
        (haunted, "types have gone, which no step reads or makes"),
        (deaf, "operands, not"),
        (greedy, "takes a value as two inputs"),
        (empty_handed, "returns nothing, which nothing makes"),
        (misnamed, "1 outputs and 2 names"),
    ],
)
def test_a_violation_is_found(program: IRProgram, change: Change, said: str) -> None:
    with pytest.raises(BrokenProgram) as caught:
        verify(of(program, "MLP", change))
    assert said in str(caught.value)


def broken(changed: IRProgram, program: IRProgram) -> list[str]:
    """Every broken rule; the same where graphs that a verified program has too are passed over."""
    lines = list(violations(changed))
    assert lines == list(violations(changed, program))
    return lines


def fewer_inputs(call: Call) -> Call:
    return replace(call, inputs=call.inputs[1:])


def no_outputs(call: Call) -> Call:
    return replace(call, outputs=())


def unknown(call: Call) -> Call:
    return replace(call, callee="Nobody")


def other_sizes(call: Call) -> Call:
    return replace(call, sizes={name: dim * 2 for name, dim in call.sizes.items()})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (fewer_inputs, "inputs, not"),
        (no_outputs, "outputs, not 0"),
        (unknown, "does not come before it"),
        (other_sizes, "but the callee's is"),
    ],
)
def test_a_wrong_call_is_found(
    program: IRProgram, change: Callable[[Call], Call], said: str
) -> None:
    def changed(graph: Graph) -> Graph:
        steps = tuple(change(s) if isinstance(s, Call) else s for s in graph.steps)
        return replace(graph, steps=steps)

    assert any(said in line for line in broken(of(program, "Layer", changed), program))


def test_callees_come_before_callers(program: IRProgram) -> None:
    turned = dict(reversed(list(program.graphs.items())))
    lines = broken(replace(program, graphs=turned), program)
    assert any("is not the last graph" in line for line in lines)
    assert any("does not come before it" in line for line in lines)


def unsaved(backward: Backward) -> Backward:
    return replace(backward, saved=())


def cut_short(backward: Backward) -> Backward:
    return replace(backward, steps=backward.steps[:-1])


def another_forward(backward: Backward) -> Backward:
    return replace(backward, forward=replace(backward.forward))


def without_cotangents(backward: Backward) -> Backward:
    return replace(backward, inputs=())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (unsaved, "which nothing before it makes"),
        (cut_short, "is made by nothing"),
        (another_forward, "is not that of the program"),
        (without_cotangents, "its inputs are not the cotangents"),
    ],
)
def test_a_backward_pass_is_a_graph_like_any_other(
    program: IRProgram, change: Callable[[Backward], Backward], said: str
) -> None:
    backwards = {**program.backwards, program.entry: change(program.backwards[program.entry])}
    assert any(said in line for line in broken(replace(program, backwards=backwards), program))


def test_an_untyped_program_has_structure_alone(program: IRProgram) -> None:
    graphs = {key: replace(graph, types={}) for key, graph in program.graphs.items()}
    assert list(violations(replace(program, graphs=graphs, backwards={}))) == []
