"""Kernels write into arrays of their own alone: no array of the caller changes, no value is wrong.

Each view is an operand of each kernel that works in place, in the forward and the backward pass.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import as_arrays_of, forms_of_code, with_kernels
from numpy.typing import NDArray

import xg
from xg.ir.graph import Graph, IRProgram
from xg.ir.verify import BrokenProgram
from xg.passes.pipelines import VERIFY, Pass, run
from xg_kernels.pipelines import FUSED

Arrays = dict[str, NDArray[Any]]
WHOLE = "[B, S, D]"
# The shape of the operand, the steps that give a view of it, and the shape of the view.
VIEWS = {
    "window": (WHOLE, "window[S](k=3)", "[B, S-2, 3, D]"),
    "padded": (WHOLE, "window[S](k=3, pad=1)", "[B, S, 3, D]"),
    "stride": (WHOLE, "window[S](k=2, stride=2)", "[B, S/2, 2, D]"),
    "dilation": (WHOLE, "window[S](k=2, dilation=2)", "[B, S-2, 2, D]"),
    "overlap": ("[B, S-2, 2, D]", "overlap[-3](dilation=2)", WHOLE),
    "reshape": (WHOLE, "R", "[B, S*D]"),
    "transpose": (WHOLE, "T", "[B, D, S]"),
    "slice": (WHOLE, "slice[S](1, 4)", "[B, 3, D]"),
    "pick": (WHOLE, "pick[S](2)", "[B, D]"),
    "repeated": ("[S, D]", "BC", WHOLE),
    "stop": (WHOLE, "stop", WHOLE),
    "nothing dropped": (WHOLE, "DO(0.5)", WHOLE),
}


def compiled(view: str, folder: Path) -> xg.Program:
    """A program in which the view is added to, comes before GELU, and has a gradient in a sum."""
    taken, step, given = VIEWS[view]
    text = f"""dim B = 2, S = 6, D = 4

block Main(X {taken}, V {given}) -> Y {given}, Z {given}, W {given}, Q {taken} {{
    X -> {step} : U {given} -> ⊕<-V : Y
    X -> {step} : P {given}
    V -> ⊕<-P : Z
    X -> GELU -> {step} : W
    X -> tanh : Q
}}
"""
    file = folder / "views.xg"
    file.write_text(text, encoding="utf-8")
    return xg.compile(file)


def drawn(shapes: dict[str, tuple[int, ...]], seed: int) -> Arrays:
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(shape) for name, shape in shapes.items()}


def both_passes(  # of arrays of any library
    module: Any,  # noqa: ANN401
    inputs: Any,  # noqa: ANN401
    cotangents: Any,  # noqa: ANN401
) -> list[Arrays]:
    """Outputs and gradients."""
    outputs, saved = module.forward({}, inputs)
    kept = {name: np.array(value.tolist()) for name, value in outputs.items()}
    gradients = module.backward({}, saved, cotangents)
    for name, value in outputs.items():
        assert np.array_equal(np.array(value.tolist()), kept[name]), (
            f"the backward pass changes {name}"
        )
    return [kept, {name: np.array(value.tolist()) for name, value in gradients.items()}]


@pytest.mark.parametrize("backend", with_kernels())
@pytest.mark.parametrize("view", VIEWS)
def test_kernels_leave_what_a_view_shows_as_it_is(view: str, backend: str, tmp_path: Path) -> None:
    program = compiled(view, tmp_path)
    interpreted = program.load()
    graph = program.graphs.main
    sizes = graph.sizes.bind({})
    shapes = {
        str(value.name): tuple(dim.evaluate(sizes) for dim in graph.types[value].shape)
        for value in (*graph.inputs, *graph.outputs)
    }
    arrays = drawn(shapes, 0)
    inputs = {name: arrays[name] for name in ("X", "V")}
    cotangents = {name: arrays[name] for name in graph.output_names}
    expected = both_passes(interpreted, inputs, cotangents)
    given = [inputs, cotangents]
    for array in arrays.values():
        array.flags.writeable = False  # NumPy refuses to write; of torch a copy is compared
    held: Any = given
    if backend != "numpy":
        convert = as_arrays_of(backend)
        held = [{n: convert(a.copy()) for n, a in each.items()} for each in given]
    module = program.load(backend, kernels=True)
    for _ in range(2):
        found = both_passes(module, *held)
        for result, right in zip(found, expected, strict=True):
            assert list(result) == list(right)
            for name, array in right.items():
                np.testing.assert_allclose(result[name], array, 1e-10, 1e-10, err_msg=name)
        for each, before in zip(held, given, strict=True):
            for name, array in before.items():
                assert np.array_equal(np.array(each[name].tolist()), array), (
                    f"{name} was overwritten"
                )


# ---- the rule of the IR -------------------------------------------------------------------------


def more_reusable(change: Callable[[Graph], Graph]) -> Pass:
    """A pass that says of a value that it may be overwritten, though it may not."""

    def spoil(program: IRProgram) -> IRProgram:
        graphs = {**program.graphs, program.entry: change(program.main)}
        backward = replace(program.backwards[program.entry], forward=graphs[program.entry])
        backwards = {**program.backwards, program.entry: backward}
        return replace(program, graphs=graphs, backwards=backwards)

    return Pass("spoil", "overwrites too much", spoil)


def view_of_input(graph: Graph) -> Graph:
    return replace(graph, reusable=(*graph.reusable, graph.steps[0].outputs[0]))


def caller_array(graph: Graph) -> Graph:
    return replace(graph, reusable=(*graph.reusable, graph.inputs[0]))


def result(graph: Graph) -> Graph:
    return replace(graph, reusable=(*graph.reusable, graph.outputs[-1]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (view_of_input, "U is to be reused, but may be a view of x"),
        (caller_array, "X is to be reused, but belongs to the caller"),
        (result, "Q is to be reused, but has another reader than one step"),
    ],
)
def test_a_pass_that_reuses_too_much_is_named(
    change: Callable[[Graph], Graph], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    single = compiled("window", tmp_path).graphs
    monkeypatch.setenv(VERIFY, "1")
    with pytest.raises(BrokenProgram, match=f"after the pass spoil:\n.*{said}"):
        run((*FUSED, more_reusable(change)), single)


# ---- what kernels of loops and numbers need -----------------------------------------------------

LOOPS = {
    "stopped": """dim B = 2, S = 2, D = 2

block Cell(x [S, D]) -> y [S, D] {
    param w [D, D]
    state h [S, D]

    h -> ReLU : g
    h -> •<=w : y
    next h = g
}

block Main(X [B, S, D]) -> Z [B, S, D] {
    X -> Cell over B as c : Y -> stop : Z
}
""",
    "filled": """dim B = 3, S = 2, D = 2

block Cell(x [B, D]) -> y [B, D] {
    state h [B, D] = 0.5

    h -> ⊕<-h -> ⊕<-x : y
    next h = y
}

block Main(X [B, S, D]) -> Y [B, S, D] {
    X -> Cell over S as c : Y
}
""",
}


@pytest.mark.parametrize("backend", with_kernels())
@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_in_kernels_is_the_readable_one(loop: str, backend: str, tmp_path: Path) -> None:
    file = tmp_path / "loop.xg"
    file.write_text(LOOPS[loop], encoding="utf-8")
    program = xg.compile(file)
    readable, fused = program.on_arrays(), program.on_arrays(backend, kernels=True)
    params = readable.init(0, np.float32)
    shape = (2, 2, 2) if loop == "stopped" else (3, 2, 2)
    inputs = {"X": np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)}
    expected, saved = readable.forward(params, inputs)
    found, again = fused.forward(params, inputs)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype == np.float32
        np.testing.assert_allclose(found[name], array, 1e-5, 1e-6)
    cotangents = {name: np.ones_like(array) for name, array in expected.items()}
    right = readable.backward(params, saved, cotangents)
    for name, array in fused.backward(params, again, cotangents).items():
        np.testing.assert_allclose(array, right[name], 1e-5, 1e-6)


# ---- warnings -----------------------------------------------------------------------------------

CHOICES = {
    "root": ("select(x > 0, sqrt(x), 0)", [[1, 0, 0, 2]]),
    "logarithm": ("select(x > 0, log(x), x)", [[0, -1, 0, np.log(4)]]),
    "quotient": ("select(x > 0, x/(x*x), 0)", [[1, 0, 0, 0.25]]),
    "power": ("select(x > 0, x^0.5, 0)", [[1, 0, 0, 2]]),
    "of nothing": ("select(x*x > 100, x/(x - x), x)", [[1, -1, 0, 4]]),
}


@pytest.mark.parametrize("fused", forms_of_code("numpy"))
@pytest.mark.parametrize("choice", CHOICES)
def test_a_branch_that_is_not_chosen_gives_no_warning(
    choice: str, fused: bool, tmp_path: Path
) -> None:
    text, expected = CHOICES[choice]
    file = tmp_path / "choice.xg"
    file.write_text(
        f"dim B, D = 4\n\nop Choice(x [..]) = {text}\n\n"
        "block Main(X [B, D]) -> Y [B, D] {\n    X -> Choice : Y\n}\n",
        encoding="utf-8",
    )
    module: Any = xg.compile(file).load(kernels=fused)
    x = np.array([[1.0, -1.0, 0.0, 4.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outputs, saved = module.forward({}, {"X": x})
        gradients = module.backward({}, saved, {"Y": np.ones_like(x)})
    np.testing.assert_allclose(outputs["Y"], expected)
    assert np.isfinite(gradients["X"]).all()
