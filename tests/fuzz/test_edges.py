"""Programs of edges agree with their witnesses, and faults planted at edges are found."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from fuzz.edge_programs import Edge, generate, smaller
from fuzz.edge_proof import (
    ROUTES,
    Array,
    Arrays,
    EdgeCase,
    Failure,
    Form,
    edge_failure,
    prove_edges,
)
from fuzz.hunt import failure
from fuzz.proof import compiled
from fuzz.recorded import read, recorded
from tier import THOROUGH

from xg.codegen.emit import array_ops
from xg.codegen.numpy import dialect as spelling
from xg.diagnostics.diagnostic import Source
from xg.ir.prim import Expr
from xg.ops import table
from xg.syntax.parse import parse
from xg.verify import autograd_model as edge_witness

DAILY = range(200 if THOROUGH else 12)
KINDS_OF_EDGES = {
    *("stops", "dead lines", "ties", "masks", "integers", "windows", "overlaps", "views"),
    *("adds after views", "repeats", "repeats that carry no gradient", "loops", "lookups"),
    *("loops over nothing", "length 0", "length 1", "topk", "parts", "joined", "experts"),
    *("reversed loops", "repeats that carry nothing", "attention", "affine", "losses"),
    *("states read by stop", "states read by mask", "states read by dead", "states read by none"),
    *("inner gradients", "nested gradients", "running sums", "decays", "argmax", "onehot"),
    *("sign", "floor", "round", "log1p", "softplus", "logsumexp", "from the end"),
    *("calls of operators", "numbers of rounds"),
}
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("seed", DAILY)
def test_programs_of_edges_agree(seed: int) -> None:
    found = edge_failure(seed)
    assert not found, f"{found[0]}\n{found[1]}"


@pytest.mark.parametrize("path", recorded("edge"), ids=lambda path: path.stem)
def test_programs_of_edges_that_were_wrong_once(path: Path) -> None:
    program = read(path)
    assert failure(lambda: prove_edges(program, program.seed, every=True)) == ("", "")


def test_every_kind_of_edge_is_written() -> None:
    tags = Counter(tag for seed in range(400) for tag in generate(seed).tags)
    assert {tag for tag, count in tags.items() if count >= 5} >= KINDS_OF_EDGES


def test_a_seed_gives_the_same_program_always() -> None:
    assert [str(generate(seed)) for seed in range(20)] == [str(generate(s)) for s in range(20)]


def test_a_wrong_slope_of_the_compiler_is_seen_by_the_witness(monkeypatch: Patch) -> None:
    """The planted fault is on the side of the witness, which must not share a rule."""
    wrong = {**edge_witness.MEANING, "tanh": _flat_tanh}
    monkeypatch.setattr(edge_witness, "MEANING", wrong)
    assert any(_kind(seed) == "witness gradient" for seed in DAILY)


def test_a_word_that_a_backend_loses_is_found(monkeypatch: Patch) -> None:
    words = cast("dict[str, object]", spelling.WORDS)
    monkeypatch.setitem(words, "tanh", array_ops.bare)
    assert any(_kind(seed).startswith("numpy") for seed in DAILY)


def test_the_witness_knows_every_operator_with_a_slope_of_its_own_at_a_kink() -> None:
    assert {op.name for op in table().values() if op.kinks} == {*edge_witness.WHOLE}


def _flat_tanh(expr: Expr, sizes: edge_witness.Sizes, x: torch.Tensor) -> torch.Tensor:
    return x.detach().tanh() + 0 * x


class _Writer:
    """A module that writes into what it is given, or gives a wrong value at a tie alone."""

    def __init__(self, case: EdgeCase, *, writes: bool) -> None:
        self.case, self.writes = case, writes

    def forward(self, params: Arrays, inputs: Arrays) -> tuple[Arrays, object]:
        outputs = self.case.expected[0]
        if self.writes:
            next(iter(inputs.values()))[...] += 1
            return outputs, None
        moved = {name: x + _zeros(x) for name, x in outputs.items()}
        return moved, None

    def backward(self, params: Arrays, saved: object, d_outputs: Arrays) -> Arrays:
        return self.case.expected[1]


def _zeros(x: Array) -> Array:
    return (x == 0).astype(x.dtype)


TEXT = "dim B\nblock Main(X [B]) -> Y [B] {\n    X -> ReLU : Y\n}\n"


@pytest.mark.parametrize(("writes", "kind"), [(True, "planted changes"), (False, "planted value")])
def test_a_changed_input_and_a_wrong_tie_are_found(*, writes: bool, kind: str) -> None:
    program = compiled(parse(Source("case.xg", TEXT)), Edge((), {}, 0), dead=False)
    case = EdgeCase.draw(program, {"B": 8}, 0).tied()
    with pytest.raises(Failure) as caught:
        case.check(Form("planted", _Writer(case, writes=writes)))
    assert caught.value.kind == kind


ROUTED = """\
dim B, S = 1, D = 3
block Main(X [B, S, D]) -> Y [B, S, D] {
    param w [D, 3]
    X -> LN -> •<=w -> S        : p [B, S, 3]
      -> topk(1)                : g [B, S, 1], e [B, S, 1] in 3
    X -> dispatch(3, 1)<-e      : x [B, 3, 1, D], slot [B, S, 1] in 4, n []
    x -> tanh -> ⊙<-x           : y [B, 3, 1, D]
    y, p -> scaled -> combine<-slot<-g : Y
}
op scaled(y [B, E, C, D], p [B, S, E]) = y * mean[S](p) * (1 + range[E])
"""


def test_results_are_compared_on_the_route_that_was_taken() -> None:
    """All experts are equal but for last bits, which choose one; the result is not the same."""
    program = compiled(parse(Source("case.xg", ROUTED)), Edge((), {}, 0), dead=False)
    case = EdgeCase.draw(program, {"B": 1}, 1)
    case = replace(case, params={"w": np.ones((3, 3))})
    others = [case.shake(number) for number in range(100, 110)]
    routes = {round(float(outputs["Y"][0, 0, 0]), 9) for outputs, _ in others}
    assert len(routes) == 3
    ROUTES.clear()
    for outputs, gradients in others:
        case.compare("form", outputs, gradients)
    assert ROUTES["same"] + ROUTES["another"] == len(others)
    assert ROUTES["another"]
    for outputs, gradients in others:
        wrong = {name: x + 1e-3 * (x == x.max()) for name, x in outputs.items()}
        with pytest.raises(Failure, match="form value"):
            case.compare("form", wrong, gradients)
        wrong = {name: x * 1.001 for name, x in gradients.items()}
        with pytest.raises(Failure, match="form gradient"):
            case.compare("form", outputs, wrong)


def test_some_ties_break_and_others_stay() -> None:
    """Of two that rounding may break, a form may break one: shaken runs do each of these."""
    text = "dim B\nop Slope(x, y) = abs(x/3 - y/3)\n"
    text += "block Main(X [B], Y [B]) -> Z [B] {\n    Slope(X, Y) : Z\n}\n"
    program = compiled(parse(Source("case.xg", text)), Edge((), {}, 0), dead=False)
    case = EdgeCase.draw(program, {"B": 2}, 0)
    case = replace(case, inputs={"X": np.full(2, 0.1), "Y": np.full(2, 0.1)})
    slopes = [tuple(np.sign(gradients["X"]) != 0) for _, gradients in case.shaken]
    assert {*slopes} == {(True, True), (True, False), (False, True), (False, False)}


STEPS_AT_ONE = {  # each is on either side of a layer norm of two numbers, which float16 rounds to 1
    "floor(x)": False,
    "sign(x - 1)": False,
    "round(x*3/2)": False,
    "select(x >= 1, y, x)": False,
    "max(x, 1)": False,
    "range[D] - argmax[D](x*x)": False,
    "tanh(x)": True,
    "floor(x + 1/2)": True,
    "x + stop(100*y)": True,
}


@pytest.mark.parametrize("formula", STEPS_AT_ONE)
def test_a_draw_whose_steps_a_narrow_type_may_change_says_nothing(formula: str) -> None:
    text = f"dim B\nop Step(x, y [B, D]) = y*({formula})\n"
    text += "block Main(X [B, 2]) -> Z [B, 2] {\n    X -> LN -> Step<-X : Z\n}\n"
    program = compiled(parse(Source("case.xg", text)), Edge((), {}, 0), dead=False)
    case = EdgeCase.draw(program, {"B": 3}, 0)
    assert case.keeps_routes("float16") == STEPS_AT_ONE[formula]


def test_smaller_programs_have_a_piece_less() -> None:
    edge = generate(1)
    less = list(smaller(edge))
    assert less
    assert all(len(str(each)) <= len(str(edge)) + 8 for each in less)


def _kind(seed: int) -> str:
    with np.errstate(all="ignore"):
        return failure(lambda: prove_edges(generate(seed), seed))[0]
