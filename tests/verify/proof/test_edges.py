"""Shipped diagrams agree with the interpreter at their edges; what was wrong there stays right."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from library import shipped
from tier import THOROUGH

import xg
from xg.cli.verification import by_default
from xg.driver import compile_project
from xg.frontend.project import read_project
from xg.frontend.typed import Settings, dims_of
from xg.verify.domains import refusal
from xg.verify.edge_point import Point, round_to
from xg.verify.edge_proof import EdgeProof, point_at, try_edges
from xg.verify.proof_sizes import sizes_of_proof

# Daily those in which something was wrong: exact GELU in float16, and kernels at S = 1.
DAILY = ("bert", "legend", "mha", "mlp", "rwkv")
PATHS = sorted(shipped("mlp").parents[1].rglob("*.xg"))


def _edges(path: Path, block: str, settings: Settings) -> EdgeProof:
    project = read_project(path)
    draft = compile_project(project, block, settings).on_one_device
    sizes = sizes_of_proof(compile_project(project, block, settings), {})
    numbers = {name: n for name, n in sizes.items() if name in dims_of(project, block)}
    program = compile_project(project, block, {**settings, **numbers}).on_one_device
    with np.errstate(all="ignore"):
        return try_edges(program, sizes, draft.graphs.main.sizes.defaults, 0, ["numpy"])


@pytest.mark.parametrize(
    "path", [p for p in PATHS if THOROUGH or p.stem in DAILY], ids=lambda path: path.stem
)
def test_shipped_diagrams_agree_at_their_edges(path: Path) -> None:
    for block, settings in by_default(read_project(path), {}):
        edges = _edges(path, block, settings)
        assert edges.tried
        assert not edges.disagreements, edges.disagreements


def test_the_error_function_has_values_in_float16() -> None:
    program = xg.compile(source="dim B\nop E(x) = erf(x)\nblock F(x [B]) -> y [B] { x -> E : y }\n")
    x = np.linspace(-6, 6, 49).astype(np.float16)
    found = program.on_arrays("numpy").forward({}, {"x": x})[0]["y"]
    assert found.dtype == np.float16
    expected = [math.erf(float(each)) for each in x]
    np.testing.assert_allclose(found.astype(float), expected, atol=1e-3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_numbers_are_rounded_to_what_a_type_holds(dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal(100)
    once = round_to(x, dtype)
    assert np.array_equal(round_to(once, dtype), once)
    assert 0 < np.abs(once / x - 1).max() < 2**-7


def test_a_division_that_leaves_no_whole_number_is_refused() -> None:
    source = "dim B, D\nblock F(x [B, D]) -> y [B, D/2, 2] { x -> R : y }\n"
    graphs = xg.compile(source=source).graphs
    assert refusal(replace(graphs, numbers={"B": 0, "D": 4})) is None
    assert "D/2" in (refusal(replace(graphs, numbers={"B": 1, "D": 1})) or "")


def _point(formula: str) -> Point:
    source = f"dim B\nop F(x [B], z [B]) = {formula}\n"
    source += "block N(x [B], z [B]) -> y [B] {\n    x -> F<-z : y\n}\n"
    return point_at(replace(xg.compile(source=source).graphs, numbers={"B": 4}), 0)


@pytest.mark.parametrize(
    ("dtype", "error"), [("float64", 1e-6), ("float32", 3e-4), ("float16", 2.5)]
)
def test_an_error_in_a_small_gradient_is_found_beside_a_large_one(dtype: str, error: float) -> None:
    point = _point("100*x + z")
    point = point if dtype == "float64" else point.rounded(dtype)
    outputs, gradients = (
        {name: x.astype(dtype) for name, x in each.items()}
        for each in (point.expected.outputs, point.expected.gradients)
    )
    assert point.compare(outputs, gradients) is None
    found = point.compare(
        outputs, {**gradients, "z": gradients["z"] + gradients["z"].dtype.type(error)}
    )
    assert found is not None
    assert found.tensor == "dz"


def test_a_finite_slope_is_found_where_it_should_be_infinite() -> None:
    point = _point("sqrt(x) + z").zeros()
    with np.errstate(all="ignore"):
        outputs, gradients = point.expected.outputs, point.expected.gradients
    assert np.isinf(gradients["x"]).all()
    assert point.compare(outputs, {**gradients, "x": np.full(4, np.nan)}) is None
    found = point.compare(outputs, {**gradients, "x": np.zeros(4)})
    assert found is not None
    assert found.tensor == "dx"


def test_a_gradient_of_a_half_type_is_no_float32() -> None:
    point = _point("x + z").rounded("float16")
    outputs = {name: x.astype("float16") for name, x in point.expected.outputs.items()}
    found = point.compare(outputs, {n: x.astype("f4") for n, x in point.expected.gradients.items()})
    assert found is not None
    assert "is float32, not float16" in str(found)


ROUTED = """\
dim B, S, D = 3
op scaled(y [B, E, C, D]) = y * (1 + range[E])
block Main(X [B, S, D]) -> Y [B, S, D] {
    param w [D, 3]
    X -> LN -> •<=w -> S          : p [B, S, 3]
      -> topk(1)                  : g [B, S, 1], e [B, S, 1] in 3
    X -> dispatch(3, S)<-e        : x [B, 3, S, D], slot [B, S, 1] in 3*S + 1, n []
    x -> scaled -> combine<-slot<-g : Y
}
"""


def test_results_on_another_route_are_named_and_not_wrong() -> None:
    """Every expert is as good as the others, so last bits choose among them."""
    program = xg.compile(source=ROUTED, sizes={"B": 1, "S": 1})
    base = point_at(program.graphs, 0).tied()
    point = replace(base, params={"w": np.ones((3, 3))}, inputs={"X": np.array([[[0.1, 0.3, 1]]])})
    others = [point.shake(number) for number in range(100, 110)]
    assert [point.compare(*each) for each in others] == [None] * 10
    assert "Y" in point.chances
    assert point.undecided["Y"].all()
    outputs, gradients = others[0]
    assert point.compare({"Y": outputs["Y"] + 10}, gradients)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_steps_that_a_narrow_type_may_change_are_named_and_not_wrong(dtype: str) -> None:
    """A layer norm of two numbers is 0.99999, which these types round to 1."""
    text = "dim B\nop f(x, y) = y*(floor(x) + 2)\n"
    text += "block F(X [B, 2]) -> Y [B, 2] { X -> LN -> f<-X : Y }\n"
    point = point_at(xg.compile(source=text, sizes={"B": 3}).graphs, 0).rounded(dtype)
    held = "float16" if dtype == "float16" else "float32"
    x, above = point.inputs["X"], point.inputs["X"].argmax(-1)[:, None] == np.arange(2)
    found = {"Y": (x * (1 + 2 * above)).astype(held)}
    gradients = {"X": (point.cotangents["Y"] * (1 + 2 * above)).astype(held)}
    assert point.compare(found, gradients) is None
    assert point.chances == dict.fromkeys(["Y", "dX"], "the last bits of a value decide it")
    assert point.compare({"Y": found["Y"] + ~above * np.float16(16)}, gradients)
    assert point.compare(found, {"X": gradients["X"] + ~above * np.float16(16)})


def test_sums_of_short_numbers_are_the_same_in_any_order() -> None:
    text = "dim B, D\nblock F(X [B, D], w [D, D]) -> Y [B, D] { X -> •<=w -> ReLU : Y }\n"
    program = xg.compile(source=text, sizes={"B": 2, "D": 3})
    point = point_at(program.graphs, 0).tied()
    outputs, gradients = point.shake(1)
    assert np.array_equal(outputs["Y"], point.expected.outputs["Y"])
    assert point.compare({"Y": outputs["Y"] + (outputs["Y"] == 0)}, gradients)
    assert not point.chances
    assert not point.undecided


TOO_LARGE = {  # a formula, and the tensors that float16 has no numbers for
    "x*1000000": ["Y", "dX"],
    "exp(20*x)": ["Y", "dX"],
    "x*1000/1000": [],
    "tanh(x*1000000)": [],
}


@pytest.mark.parametrize("formula", TOO_LARGE)
def test_numbers_too_large_for_a_type_are_named(formula: str, tmp_path: Path) -> None:
    path = tmp_path / "net.xg"
    path.write_text(
        f"dim B, D\nop f(x) = {formula}\nblock F(X [B, D]) -> Y [B, D] {{ X -> f : Y }}"
    )
    edges = _edges(path, "F", {"B": 8, "D": 8})
    assert edges.passed, edges.disagreements
    reason = "the type has no number that large"
    assert [name for name, why in edges.left_out.items() if why == reason] == [
        f"{name} at float16" for name in TOO_LARGE[formula]
    ]


@pytest.mark.parametrize("found", [np.inf, np.nan, -np.inf])
def test_an_infinity_is_found_in_a_type_that_has_the_number(found: float) -> None:
    text = "dim B, D\nop f(x) = x*100\nblock F(X [B, D]) -> Y [B, D] { X -> f : Y }\n"
    point = point_at(xg.compile(source=text, sizes={"B": 2, "D": 3}).graphs, 0).rounded("float16")
    expected = {name: x.astype(np.float16) for name, x in point.expected.outputs.items()}
    gradients = {name: x.astype(np.float16) for name, x in point.expected.gradients.items()}
    assert point.compare(expected, gradients) is None
    assert point.compare({"Y": np.full((2, 3), found, np.float16)}, gradients)


def test_every_gradient_that_is_not_finite_is_named() -> None:
    text = "dim B\nop f(x, y) = sqrt(x) + log(y)\nblock F(x, y [B]) -> z [B] { f(x, y) : z }\n"
    point = point_at(xg.compile(source=text, sizes={"B": 2}).graphs, 0)
    point = replace(point, inputs={"x": np.zeros(2), "y": np.array([0.0, 1.0])})
    with np.errstate(all="ignore"):
        assert point.undefined_gradients == ["x", "y"]


def _tie(formula: str, x: float) -> Point:
    text = f"dim B\nop f(x, y) = {formula}\nblock F(x, y [B]) -> z [B] {{ f(x, y) : z }}\n"
    point = point_at(xg.compile(source=text, sizes={"B": 2}).graphs, 0)
    return replace(point, inputs={"x": np.full(2, x), "y": np.full(2, x)})


@pytest.mark.parametrize("factor", [-1.0, -0.5, 0.5, 1.0, 1.05, 3.9, -3.9])
def test_a_slope_at_a_tie_is_one_of_those_that_last_bits_choose(factor: float) -> None:
    """The slope of abs is -1, 0 or 1."""
    point = _tie("abs(x/3 - y/3)", 0.1)
    slope = factor * point.cotangents["z"] / 3
    found = point.compare(point.expected.outputs, {"x": slope, "y": -slope})
    assert (found is None) == (abs(factor) == 1)
    assert bool(point.chances) == (abs(factor) == 1)


@pytest.mark.parametrize(
    ("of_x", "of_y", "is_right"), [(1, 1, True), (2, 0, True), (2, 2, False), (4.9, 4.9, False)]
)
def test_slopes_at_a_tie_fit_each_other(of_x: float, of_y: float, *, is_right: bool) -> None:
    """Each half of a maximum has one share, two or none, and both have two together."""
    point = _tie("max(cos(x + 0.5), cos(y + 0.5))", 0.25)
    gradients = point.expected.gradients
    scaled = {"x": of_x * gradients["x"], "y": of_y * gradients["y"]}
    assert (point.compare(point.expected.outputs, scaled) is None) == is_right


@pytest.mark.parametrize(("off", "is_right"), [(0, True), (1, False), (4, False), (-1, True)])
def test_a_step_at_a_tie_is_off_by_one_to_one_side(off: int, *, is_right: bool) -> None:
    point = _tie("floor(x/3 - y/3 + 1)", 0.1)
    outputs = {"z": point.expected.outputs["z"] + off}
    assert (point.compare(outputs, point.expected.gradients) is None) == is_right


def test_a_form_may_take_near_ties_for_ties() -> None:
    """A form that finds two rows equal shares a slope that the interpreter gives to one."""
    text = "dim B, S, D\nop Peak(x [.., D]) = max[D](x)\n"
    text += "block Net(X [B, S, D]) -> Y [B] { X -> S -> logsumexp[-1] -> Peak : Y }\n"
    program = xg.compile(source=text, sizes={"B": 2, "S": 9, "D": 4})
    rows = np.array([[0.0, 1.0, 2.0, 0.5], [0.1, 1.1, 2.1, 0.6], [3.0, 3.0, 0.0, 1.0]] * 3)
    point = replace(point_at(program.graphs, 1), inputs={"X": np.stack([rows, rows[::-1]])})
    tied = point.shake(3)
    assert point.compare(*tied) is None
    outputs, gradients = tied
    assert point.compare(outputs, {"X": 3 * gradients["X"]})


def test_each_of_many_ties_breaks_to_both_sides_at_every_draw() -> None:
    text = "dim B\nop f(x, y) = abs(x/3 - y/3)\nblock F(x, y [B]) -> z [B] { f(x, y) : z }\n"
    base = point_at(xg.compile(source=text, sizes={"B": 200}).graphs, 0)
    for draw in (16, 19, 20, 40, 47):
        x = np.full(200, 0.1)
        point = replace(base, draw=draw, inputs={"x": x, "y": x})
        slope = point.cotangents["z"] / 3
        assert point.compare(point.expected.outputs, {"x": slope, "y": -slope}) is None
        assert point.compare(point.expected.outputs, {"x": 2 * slope, "y": -2 * slope})


@pytest.mark.parametrize(("tensor", "is_right"), [("a", True), ("dx", True), ("b", False)])
@pytest.mark.parametrize("found", [np.inf, np.nan])
def test_only_what_depends_on_an_overflow_may_be_infinite(
    tensor: str, found: float, *, is_right: bool
) -> None:
    text = "dim B\nop f(x) = x*1000000\nop g(x) = x*2\n"
    text += "block F(x [B], y [B]) -> a [B], b [B] { x -> f : a\n y -> g : b }\n"
    point = point_at(xg.compile(source=text, sizes={"B": 2}).graphs, 0).rounded("float16")
    with np.errstate(all="ignore"):
        outputs, gradients = (
            {name: x.astype(np.float16) for name, x in each.items()}
            for each in (point.expected.outputs, point.expected.gradients)
        )
    assert point.compare(outputs, gradients) is None
    changed = gradients if tensor.startswith("d") else outputs
    changed[tensor.removeprefix("d")] = np.full(2, found, np.float16)
    assert (point.compare(outputs, gradients) is None) == is_right
    changed["y" if changed is gradients else "b"] = np.full(2, found, np.float16)
    assert point.compare(outputs, gradients)


def test_a_run_without_a_number_excuses_no_number() -> None:
    """Last bits put the root of 0 on either side of its domain."""
    point = _tie("sqrt(x/3 - y/3)", 0.1)
    with np.errstate(all="ignore"):
        outputs, gradients = point.expected[:2]
    assert point.compare(outputs, gradients) is None
    assert point.compare({"z": np.full(2, 5.0)}, gradients)
