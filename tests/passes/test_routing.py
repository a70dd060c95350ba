"""Routes: topk, gather and scatter, tokens sent to experts and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from passes.decode_step.stepping import stepping, written
from tier import THOROUGH
from verify.proof.daily import proof_of

import xg
from xg.cli import main
from xg.cost.communication import traffic
from xg.frontend.project import read_project

Array = NDArray[Any]
BACKENDS = pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])

EXPERTS = """\
    param W_1 [N_E, D, D_ff], W_2 [N_E, D_ff, D]
    X -> dispatch(N_E, N_C)<-e : x_E [B, N_E, N_C, D], slot [B, S, k], dropped
    x_E -> •<=W_1 -> ReLU -> •<=W_2 : y_E [B, N_E, N_C, D]
    y_E -> combine<-slot<-g : Y
"""
SENT = f"""\
dim B, S, D = 7, D_ff = 5, N_E = 4, k = 2, N_C
mesh N_T = 2

block MoE(X [B, S, D], g [B, S, k], e [B, S, k] in N_E) -> Y [B, S, D], dropped [] {{
{EXPERTS}}}
"""
DENSE = """\
dim B, S, D = 7, D_ff = 5, N_E = 4, k = 2

op Weighed(y [B, N_E, S, D], g [B, N_E, S]) = sum[N_E](y * g)

block MoE(X [B, S, D], g [B, S, k], e [B, S, k] in N_E) -> Y [B, S, D] {
    param W_1 [N_E, D, D_ff], W_2 [N_E, D_ff, D]
    g -> scatter[k]<-e -> T                        : G [B, N_E, S]
    X -> BC[b, s, d -> b, e=N_E, s, d]             : x_E [B, N_E, S, D]
      -> •<=W_1 -> ReLU -> •<=W_2 -> Weighed<-G    : Y
}
"""
ROUTER = f"""\
dim B, S, D = 6, D_ff = 8, N_E = 4, k = 2, N_C = 3
mesh N_T = 2

block MoE(X [B, S, D]) -> Y [B, S, D], dropped [], balance [] {{
    param W_r [D, N_E]
    X -> •<=W_r -> S : P [B, S, N_E]
    P -> topk(k)     : g [B, S, k], e [B, S, k] in N_E
{EXPERTS}
    g -> scatter[k]<-e -> mean[B, S] : f [N_E]
    P -> mean[B, S] -> ⊙<-f -> sum[N_E] : balance
}}

plan DP of MoE {{
    X [B/N_T, S, D]
}}

plan TP of MoE {{
    W_1 [N_E, D, D_ff/N_T]
    W_2 [N_E, D_ff/N_T, D]
}}

plan FSDP of MoE {{
    X [B/N_T, S, D]
    * [_/N_T, ..] -> [..] again
}}

plan EP "Experts over ranks: all-to-all there and back" of MoE {{
    X, Y [B/N_T, S, D]
    W_1  [N_E/N_T, D, D_ff]
    W_2  [N_E/N_T, D_ff, D]
    x_E  [B, N_E/N_T, N_C, D]
    y_E  [B/N_T, N_E, N_C, D]
}}
"""
WHOLE = f"""{ROUTER}
plan Whole "Every rank has all tokens and some experts: their results are terms of a sum" of MoE {{
    W_1 [N_E/N_T, D, D_ff]
    W_2 [N_E/N_T, D_ff, D]
    x_E [B, N_E/N_T, N_C, D]
}}

plan Scattered of MoE {{
    W_1 [N_E/N_T, D, D_ff]
    W_2 [N_E/N_T, D_ff, D]
    x_E [B, N_E/N_T, N_C, D]
    Y   [B, S/N_T, D]
}}

plan Sliced of MoE {{
    W_1 [N_E/N_T, D, D_ff]
    W_2 [N_E/N_T, D_ff, D]
}}
"""
STEPPED = """\
dim B, S, D = 6, N_E = 4, k = 2

block Net(X [B, S, D]) -> Y [B, S, D] {
    param W_r [D, N_E], E [N_E, D]
    X -> •<=W_r -> S        : P [B, S, N_E]
    P -> topk(k)            : g [B, S, k], e [B, S, k]
    g -> scatter[k]<-e -> •<=E : Y
}
"""
CHOOSE = """\
dim B, N = 5, k = 3

block Choose(X [B, N]) -> g [B, k], e [B, k] in N {
    X -> topk(k) : g, e
}
"""
COLUMNS = """\
dim B, N = 5, D = 4, k = 3

block Choose(X [B, N, D]) -> m [B, 2], Y [B, k, D], Z [B, 2, D] {
    X -> topk[N](k) : g [B, k, D], e [B, k, D] in N
    g -> mean[D] -> topk(2) : m [B, 2], i [B, 2] in k
    g -> gather[k]<-i : Z
    X -> T : [B, D, N]
      -> gather[N]<-(e -> T) -> T : Y
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a text to a file."""

    def writing(text: str) -> Path:
        (tmp_path / "net.xg").write_text(text, encoding="utf-8")
        return tmp_path / "net.xg"

    return writing


def whole(program: xg.Program, chosen: Array) -> tuple[dict[str, Array], dict[str, Array]]:
    """Parameters and inputs that are whole numbers: sums of them are exact in any order."""
    draw = np.random.default_rng(3)
    params = {name: small(draw, spec.shape) for name, spec in program.params.items()}
    floats = {name: spec for name, spec in program.inputs.items() if spec.range is None}
    inputs = {name: small(draw, spec.shape) for name, spec in floats.items()}
    return params, {**inputs, "e": chosen}


def small(draw: np.random.Generator, shape: tuple[int | str, ...]) -> Array:
    return draw.integers(-4, 5, [int(length) for length in shape]) * 1.0


def chosen(tokens: int) -> Array:
    draw = np.random.default_rng(5)
    rows = [draw.permutation(4)[:2] for _ in range(3 * tokens)]
    return np.array(rows).reshape(3, tokens, 2)


@BACKENDS
def test_with_room_for_all_it_is_the_dense_sum_exactly(
    backend: str, file: Callable[[str], Path]
) -> None:
    """Outputs and every gradient, element by element."""
    found: list[list[Array]] = []
    for text, sizes in ((SENT, {"N_C": 6}), (DENSE, {})):
        program = xg.compile(file(text), sizes={"B": 3, "S": 6, **sizes})
        params, inputs = whole(program, chosen(6))
        module = program.on_arrays(backend)
        outputs, saved = module.forward(params, inputs)
        assert outputs.get("dropped", 0) == 0
        dY = np.random.default_rng(7).integers(-4, 5, outputs["Y"].shape) * 1.0
        seeds = {"Y": dY, **({"dropped": np.zeros(())} if "dropped" in outputs else {})}
        gradients = module.backward(params, saved, seeds)
        found.append(
            [
                np.asarray(outputs["Y"]),
                *(np.asarray(gradients[n]) for n in ("X", "g", "W_1", "W_2")),
            ]
        )
    for sent, dense in zip(*found, strict=True):
        assert np.any(dense)
        assert np.array_equal(sent, dense)


@BACKENDS
def test_who_comes_late_is_dropped_and_counted(backend: str, file: Callable[[str], Path]) -> None:
    """Of experts with one place each only the first of each row is computed."""
    program = xg.compile(file(SENT), sizes={"B": 1, "S": 3, "N_C": 1})
    params, inputs = whole(program, np.array([[[0, 2], [2, 0], [3, 0]]]))
    outputs, _ = program.on_arrays(backend).forward(params, inputs)
    first = np.maximum(inputs["X"][0] @ params["W_1"], 0) @ params["W_2"]  # [N_E, S, D]
    g = inputs["g"][0]
    expected = [
        g[0, 0] * first[0, 0] + g[0, 1] * first[2, 0],
        0 * first[0, 1],
        g[2, 0] * first[3, 2],
    ]
    assert np.array_equal(outputs["Y"][0], expected)
    assert outputs["dropped"] == 3


@BACKENDS
def test_of_equal_ones_the_first_comes_first(backend: str, file: Callable[[str], Path]) -> None:
    program = xg.compile(file(CHOOSE), sizes={"B": 4})
    rows = [[1, 2, 2, 1, 2], [0, -0.0, 0, -0.0, 0], [-1, -1, 3, -1, 3], [5, 4, 3, 2, 1]]
    outputs, _ = program.on_arrays(backend).forward({}, {"X": np.array(rows)})
    assert np.asarray(outputs["e"]).tolist() == [[1, 2, 4], [0, 1, 2], [2, 4, 0], [0, 1, 2]]
    assert np.asarray(outputs["g"]).tolist() == [[2, 2, 2], [0, 0, 0], [3, 3, -1], [5, 4, 3]]


# All steps of SENT are in ROUTER.
TEXTS = [ROUTER, DENSE, COLUMNS, *([SENT] if THOROUGH else [])]


@pytest.mark.parametrize("text", TEXTS, ids=str.splitlines)
def test_all_backends_and_differences_agree(
    text: str, file: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Differences hold the routes, as the gradient does."""
    assert main(["verify", str(file(text)), "--against", "torch,jax"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("plan", ["DP", "TP", "FSDP", "EP"])
def test_plans_of_a_router_are_proven(
    plan: str, file: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(file(ROUTER)), "--plan", plan]) == 0, capsys.readouterr().out
    assert "all proven" in capsys.readouterr().out


OF_G = ("backward", "all_reduce", "B*S*k")


@pytest.mark.parametrize(
    ("plan", "sent"),
    [
        ("Whole", {("forward", "all_reduce", "B*D*S"), ("backward", "all_reduce", "B*D*S")}),
        (
            "Scattered",
            {
                ("forward", "reduce_scatter", "B*D*S"),
                ("backward", "all_gather", "B*D*S"),
                ("backward", "all_reduce", "B*D*S"),
            },
        ),
        # Without a line for x_E, the gradients of all places are gathered.
        (
            "Sliced",
            {("forward", "all_reduce", "B*D*S"), ("backward", "all_gather", "N_C*N_E*B*D")},
        ),
    ],
)
def test_experts_of_a_rank_give_terms_of_a_sum(
    plan: str, sent: set[tuple[str, str, str]], file: Callable[[str], Path]
) -> None:
    """Ranks compute what one device does, also modulo primes, and not without any collective."""
    proof = proof_of(read_project(file(WHOLE)), "MoE", plan, {}, ["numpy", "torch"])
    assert proof.passed
    assert proof.floats is not None
    assert proof.floats.controls
    assert {each.verdict for each in proof.floats.controls} == {"needed"}
    placed = proof.program.distributed
    assert placed is not None
    found = [(each.direction, each.kind, str(each.payload)) for each in traffic(placed)]
    assert sorted(found) == sorted({*sent, OF_G})


def test_a_rank_sends_tokens_to_its_own_experts_only(file: Callable[[str], Path]) -> None:
    """It makes no rows for the experts of others, to cut them off."""
    whole, sliced = (
        xg.compile(file(WHOLE), plan=plan).source().partition("def backward")[0]
        for plan in ("Whole", "Sliced")
    )
    assert "shard_slice(" in sliced
    assert "shard_slice(" not in whole


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        ("X [B, S/N_T, D]", "the axis along which equal ids are counted is cut"),
        ("P [B, S, N_E/N_T]", "the axis of which the largest are taken is cut"),
    ],
)
def test_a_plan_that_cuts_what_a_route_needs_whole_is_refused(
    cut: str, reason: str, file: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    text = ROUTER + f"\nplan Wrong of MoE {{\n    {cut}\n}}\n"
    assert main(["check", str(file(text))]) == 1
    assert reason in capsys.readouterr().err


def test_a_step_of_generation_routes_its_own_positions() -> None:
    one = stepping(written(STEPPED))
    for pieces in ((1,) * 7, (3, 4)):
        assert np.abs(one.stepped(pieces) - one.expected()).max() < 1e-12


def test_places_are_shared_by_all_positions_so_there_is_no_step() -> None:
    """The operator that makes the places is named, not the one behind that first needs them."""
    for places in ("3", "2*S*k/N_E"):
        with pytest.raises(xg.DiagnosticError) as caught:
            written(SENT.replace("N_C\n", f"N_C = {places}\n")).step()
        (problem,) = caught.value.diagnostics
        assert problem.code == "XG0553"
        assert problem.message.startswith("dispatch ")
