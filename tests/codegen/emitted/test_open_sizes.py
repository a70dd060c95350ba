"""Sizes that have no number in the file: what arrays tell, and what they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from backends import forms_of_code, with_kernels
from numpy.typing import NDArray
from tier import THOROUGH

import xg
from xg.codegen.backend import backends, load
from xg.diagnostics.diagnostic import DiagnosticError
from xg.driver import Program
from xg.frontend.choices import check_choices
from xg.frontend.project import parse_project
from xg.passes.pipelines import BLOCKS, run
from xg_kernels.pipelines import FUSED_BLOCKS

HALVES = """\
dim B, T
block F(X [B, 2*T]) -> Y [B, T] {
    X -> split : Y [B, T], U [B, T]
}
"""
CUT = """\
dim B, N, k, M = N + k - 1
block F(X [B, N + k - 1], W [k]) -> Y [B, N] {
    X -> slice[M](k - 1, M) : U [B, N]
    U -> ⊙<-(W -> sum[k] -> BC) : Y
}
"""
HALF = """\
dim B, T, M = (T + 1)/2
block F(X [B, (T + 1)/2]) -> Y [B, T] {
    X -> sum[M] -> BC[b -> b, t=T] : Y [B, T]
}
"""
HEADS = """\
dim B, D, N_H = 2, D_h = D/N_H
block F(X [B, D_h]) -> Y [B, D] {
    X -> BC[b, d -> b, (n=N_H, d)] : Y [B, D]
}
"""
INNER = """\
dim B, D, D_ff
block FFN(X [B, D]) -> Y [B, D] {
    param W_1 [D, D_ff]
    param W_2 [D_ff, D]
    X -> •<=W_1 -> GELU -> •<=W_2 : Y
}
block F(X [B, D]) -> Y [B, D] {
    X -> FFN(D_ff=D_ff) as ffn : Y
}
"""
ROW = INNER.replace("X -> FFN", "X -> N_L × FFN").replace("D_ff\n", "D_ff, N_L = 2\n", 1)
WIDE = """\
dim B, D, E, M = E + 1
block G(X [B, D]) -> Y [B, D] {
    param V [D, M]
    X -> •<=V -> tanh -> •<=T(V) : Y
}
block F(X [B, D]) -> Y [B, D], Z [B, E] {
    X -> G(E=E) as g : Y
    zeros[B, E] : Z
}
""".replace("zeros[B, E] : Z", "Y -> mean[D] -> BC[b -> b, e=E] : Z")
HEAD = """\
dim B, E, H, N_H, D_h = H/N_H
block G(X [B, E]) -> Y [B, E] {
    param W [D_h, E]
    bernoulli[B, D_h](0.3) -> •<=W -> ⊕<-X : Y
}
block F(X [B, E]) -> Y [B, E] {
    X -> G(H=H, N_H=N_H) as g : Y
}
"""
# A mean divides by H/N_H in its gradient, and nothing asks for that.
IDLE = """\
dim B, E, H, N_H, D_h = H/N_H
block G(X [B], W [E]) -> Y [B] {
    X -> ⊕<-(W -> stop -> sum[E] -> BC) : Y
}
block F(X [B], V [D_h, E]) -> Y [B] {
    X, (V -> mean[D_h]) -> G : Y
}
"""
# A text, the shapes of its arrays, those of its outputs, and an array of another shape with which
# no sizes agree.
Shapes = dict[str, tuple[int, ...]]
TOLD: dict[str, tuple[str, Shapes, Shapes, Shapes, Shapes | None]] = {
    "a multiple": (HALVES, {"X": (3, 10)}, {}, {"Y": (3, 5)}, {"X": (3, 9)}),
    "a sum": (CUT, {"X": (2, 9), "W": (3,)}, {}, {"Y": (2, 7)}, {"X": (2, 1)}),
    "a half of a sum": (HALF, {"X": (2, 4)}, {}, {"Y": (2, 7)}, None),
    "a part": (HEADS, {"X": (3, 5)}, {}, {"Y": (3, 10)}, None),
    "a mean of no gradient": (IDLE, {"X": (3,), "V": (4, 5)}, {}, {"Y": (3,)}, None),
    "a part in a call": (HEAD, {"X": (3, 4)}, {"g.W": (2, 4)}, {"Y": (3, 4)}, None),
    "a parameter of a call": (
        INNER,
        {"X": (3, 4)},
        {"ffn.W_1": (4, 7), "ffn.W_2": (7, 4)},
        {"Y": (3, 4)},
        {"ffn.W_2": (6, 4)},
    ),
    "one of a row": (
        ROW,
        {"X": (3, 4)},
        {f"ffn.{n}.W_{m}": shape for n in (0, 1) for m, shape in ((1, (4, 7)), (2, (7, 4)))},
        {"Y": (3, 4)},
        {"ffn.1.W_2": (6, 4)},
    ),
    "a sum in a parameter of a call": (
        WIDE,
        {"X": (3, 4)},
        {"g.V": (4, 7)},
        {"Y": (3, 4), "Z": (3, 6)},
        None,
    ),
}
Array = NDArray[np.float64]


def modules(program: Program) -> dict[str, Any]:
    """The program in every backend, in plain code and in kernels; daily where it has some."""
    found: dict[str, Any] = {}
    for name, backend in backends().items():
        for kernels in (False, True) if THOROUGH else forms_of_code(name):
            pipeline = FUSED_BLOCKS if kernels else BLOCKS
            derived = run(pipeline, program.graphs).result if backend.pipeline else None
            source = backend.source(program.graphs, derived, kernels=kernels)
            loaded = load(source, f"open_{name}_{kernels}")
            found[f"{name} {kernels}"] = backend.on_arrays(loaded)
    return found


@pytest.mark.parametrize("case", TOLD)
def test_arrays_tell_what_the_file_leaves_open(case: str) -> None:
    text, inputs, params, outputs, wrong = TOLD[case]
    assert check_choices(parse_project(text.encode())) == ()
    random = np.random.default_rng(0)
    arrays = {name: random.standard_normal(shape) for name, shape in {**inputs, **params}.items()}
    x, weights = ({n: arrays[n] for n in names} for names in (inputs, params))
    values: list[dict[str, Array]] = []
    for name, module in modules(xg.compile(source=text)).items():
        found, saved = module.forward(weights, x)
        assert {n: np.shape(y) for n, y in found.items()} == outputs, name
        gradients = module.backward(weights, saved, {n: np.ones(s) for n, s in outputs.items()})
        assert {n: np.shape(g) for n, g in gradients.items()} == {**inputs, **params}, name
        values.append({**found, **{f"d{n}": g for n, g in gradients.items()}})
        if wrong:
            other = {n: random.standard_normal(shape) for n, shape in wrong.items()}
            with pytest.raises(ValueError, match=r"should have shape|is more than"):
                module.forward(
                    {n: other.get(n, w) for n, w in weights.items()},
                    {n: other.get(n, a) for n, a in x.items()},
                )
    for others in values[1:]:
        for name, value in values[0].items():
            np.testing.assert_allclose(others[name], value, rtol=1e-9, atol=1e-12)


def test_a_model_of_torch_reads_them_off_its_parameters() -> None:
    module = xg.compile(source=WIDE).load("torch")
    model = module.Model(D=4, E=6)
    found = model(torch.randn(3, 4))
    assert found["Z"].shape == (3, 6)


def test_what_nothing_tells_is_a_warning_of_check_and_an_error_of_code() -> None:
    text = ROW.replace("D_ff, N_L = 2", "D_ff = 7, N_L")
    (warned,) = check_choices(parse_project(text.encode()))
    assert (warned.code, warned.severity) == ("XG0501", "warning")
    assert "no size is set for N_L" in warned.message
    program = xg.compile(source=text)
    assert repr(program).endswith(", ? parameters>")
    with pytest.raises(DiagnosticError, match="no size is set for N_L") as caught:
        program.source("numpy")
    (label,) = caught.value.diagnostics[0].labels
    assert label.text == "called so often"
    given = xg.compile(source=text, sizes={"N_L": 2})
    assert repr(given).endswith(", 4 parameters>")


def test_an_empty_row_tells_nothing() -> None:
    """Its parameters are not there; so the size that they have must be given."""
    text = ROW.replace("N_L = 2", "N_L = 0")
    (warned,) = check_choices(parse_project(text.encode()))
    assert "no size is set for D_ff" in warned.message
    with pytest.raises(DiagnosticError, match="no size is set for D_ff"):
        xg.compile(source=text).source("numpy")


def test_what_no_output_needs_tells_nothing() -> None:
    """Dead calls are compiled to nothing, and their parameters with them."""
    used = "    X -> G(E=E) as g : Y\n"
    text = WIDE.replace(used, f"{used}    X -> tanh : V [B, D]\n").replace("Y -> mean", "V -> mean")
    dead = text.replace("-> Y [B, D], Z [B, E]", "-> Z [B, E]", 1)
    for each, codes in ((text, set[str]()), (dead, {"XG0501"})):
        found = check_choices(parse_project(each.encode()))
        assert {d.code for d in found if d.code == "XG0501"} == codes


ENOUGH = {
    "a loss that divides by its weights": """\
dim S, H = 6, N_H, D_h = H/N_H
block F(A [D_h, S, 5], t [D_h, S] in 5, w [D_h, S] in 2) -> Y [] {
    A -> CE<-t<-w : Y
}
""",
    "a norm whose gradient takes means": """\
dim B, P, F = B*P
block F(X [F, 3]) -> Y [F, 3] {
    param γ, β [3]
    X -> BN(γ, β) : Y
}
""",
    "a mean that divides by its number": """\
dim B, P, F = B*P
block F(X [F, 3]) -> Y [3] {
    X -> mean[F] : Y
}
""",
}


@pytest.mark.parametrize("name", ENOUGH)
def test_a_product_is_enough_where_no_number_needs_its_factors(name: str) -> None:
    assert check_choices(parse_project(ENOUGH[name].encode())) == ()
    assert len(modules(xg.compile(source=ENOUGH[name]))) >= len(backends()) + len(with_kernels())
