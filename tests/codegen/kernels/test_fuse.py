"""Fused programs compute what their diagrams say, and fuse only values that nothing else reads."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import with_kernels
from numpy.typing import NDArray
from tier import THOROUGH

import xg
from xg.driver import BACKENDS
from xg.ir.graph import Apply, IRProgram
from xg.passes.ir_text import spell_program
from xg.verify.reference.interpret import Interpreter, initial
from xg_runtime.module import Module

Arrays = dict[str, NDArray[Any]]
DIAGRAMS = Path(__file__).parents[3] / "diagrams"
SIZES = {"V": 13, "D": 12, "N_L": 2, "N_H": 3, "D_ff": 10, "S_max": 7}
CHOICES = [{}, {"norm": "post", "pos": "rope", "head": "own"}, {"ffn": "GatedMLP"}]
IN_CODE = [  # one of them where nothing is by hand
    pytest.param(backend, choice, id="-".join([backend, *choice.values()]))
    for backend in BACKENDS
    for choice in (CHOICES if backend in with_kernels() else CHOICES[:1])
]

HEAD = "dim B = 2, S = 3, D = 5, D_h = 4\nblock F(X [B, S, D]) -> Y [B, S, {width}]{more} {{\n"
ATTENTION = """\
    param W_Q, W_K, W_V [D, D_h]
    X -> •<=W_Q : Q [B, S, D_h]
    X -> •<=W_K -> T : KT [B, D_h, S]
    X -> •<=W_V : V [B, S, D_h]
    Q -> •<=KT -> SM(0.5, causal) : Z [B, S, S]
    Z -> S : P [B, S, S]
    P -> DO(0.2) : A [B, S, S]
    A -> •<=V : Y
"""


def written(text: str, tmp_path: Path, width: str = "D_h", more: str = "") -> xg.Program:
    file = tmp_path / "f.xg"
    file.write_text(HEAD.format(width=width, more=more) + text + "}\n", encoding="utf-8")
    return xg.compile(file)


def names(program: IRProgram) -> list[str]:
    steps = [step for graph in program.graphs.values() for step in graph.steps]
    return [step.op.name for step in steps if isinstance(step, Apply)]


def both_passes(program: IRProgram, params: Arrays, inputs: Arrays, seed: int | None) -> Arrays:
    interpreter = Interpreter(program, params, seed)
    outputs, record = interpreter.forward(inputs)
    draw = np.random.default_rng(3)
    floats = {name: a for name, a in outputs.items() if a.dtype.kind == "f"}
    d_outputs = {name: draw.standard_normal(array.shape) for name, array in floats.items()}
    return {**outputs, **{f"d{n}": g for n, g in interpreter.backward(record, d_outputs).items()}}


def inputs_of(program: xg.Program) -> Arrays:
    draw = np.random.default_rng(2)
    return {name: draw.integers(0, SIZES["V"], (2, 5)) for name in program.inputs}


def chosen(backend: str, **options: str) -> xg.Program:
    """A language model, for JAX of one layer: XLA compiles each for a while."""
    return compiled(1 if backend == "jax" else SIZES["N_L"], **options)


@cache
def compiled(layers: int, **options: str) -> xg.Program:
    sizes = {**SIZES, "N_L": layers}
    return xg.compile(DIAGRAMS / "models" / "transformer.xg", sizes=sizes, options=options)


@cache
def as_interpreted(in_jax: bool, seed: int | None, **options: str) -> Arrays:
    """The results of both passes of a readable model, with which several are compared."""
    program = chosen("jax" if in_jax else "numpy", **options)
    return both_passes(program.graphs, initial(program.graphs, 1), inputs_of(program), seed)


@cache
def on_arrays(backend: str, **options: str) -> Module:
    """A module with kernels, compiled once for all tests of it."""
    return chosen(backend, **options).on_arrays(backend, kernels=True)


@pytest.mark.parametrize("seed", [None, 4], ids=["eval", "train"])
@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: "-".join(choice.values()) or "-")
def test_a_fused_transformer_computes_the_same(choice: dict[str, str], seed: int | None) -> None:
    program = chosen("numpy", **choice)
    assert {"attention", "linear"} <= set(names(program.fused))
    params, inputs = initial(program.graphs, 1), inputs_of(program)
    wanted = as_interpreted(False, seed, **choice)
    fused = both_passes(program.fused, params, inputs, seed)
    assert wanted.keys() == fused.keys()
    total = np.sqrt(sum(np.sum(array**2) for array in wanted.values()))
    for name, array in wanted.items():
        assert np.linalg.norm(fused[name] - array) <= 1e-12 * total, name


@pytest.mark.parametrize("seed", [None, 4], ids=["eval", "train"])
@pytest.mark.parametrize(("backend", "choice"), IN_CODE)
def test_its_modules_do_too(backend: str, choice: dict[str, str], seed: int | None) -> None:
    program = chosen(backend, **choice)
    params, inputs = initial(program.graphs, 1), inputs_of(program)
    wanted = as_interpreted(backend == "jax", seed, **choice)
    module = on_arrays(backend, **choice)
    outputs, saved = module.forward(params, inputs, seed=seed)
    draw = np.random.default_rng(3)
    d_outputs = {n: draw.standard_normal(np.shape(array)) for n, array in outputs.items()}
    gradients = module.backward(params, saved, d_outputs)
    again = module.backward(params, saved, d_outputs)  # nothing that it is given was overwritten
    assert all(np.array_equal(gradient, again[name]) for name, gradient in gradients.items())
    found = {**outputs, **{f"d{name}": gradient for name, gradient in gradients.items()}}
    total = np.sqrt(sum(np.sum(array**2) for array in wanted.values()))
    for name, array in found.items():
        assert np.linalg.norm(wanted[name] - array) <= 1e-12 * total, name


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cotangent_that_is_not_given_is_zero(backend: str) -> None:
    program, module = chosen(backend), on_arrays(backend)
    params, inputs = initial(program.graphs, 1), inputs_of(program)
    outputs, saved = module.forward(params, inputs, seed=None)
    one = {"loss": np.ones(())}
    given = module.backward(params, saved, {**one, "Z": np.zeros_like(outputs["Z"])})
    for name, gradient in module.backward(params, saved, one).items():
        np.testing.assert_array_equal(gradient, given[name])


def test_the_readable_form_stays() -> None:
    program = xg.compile(DIAGRAMS / "models" / "transformer.xg")
    before = program.source("numpy")
    assert "fuses KT, P, AS" in program.source("numpy", kernels=True)
    assert program.source("numpy") == before
    assert "fuses" not in before
    assert "Attention" in spell_program(program.fused, ("forward",))


def test_attention_is_fused(tmp_path: Path) -> None:
    assert names(written(ATTENTION, tmp_path).fused).count("attention") == 1


@pytest.mark.parametrize("edge", ["Z", "P", "A"])
def test_not_where_an_inner_edge_leaves(edge: str, tmp_path: Path) -> None:
    program = written(ATTENTION, tmp_path, more=f", {edge} [B, S, S]")
    assert "attention" not in names(program.fused)


@pytest.mark.parametrize("edge", ["Z", "P", "A"])
def test_not_where_an_inner_edge_has_another_reader(edge: str, tmp_path: Path) -> None:
    text = ATTENTION.replace("A -> •<=V : Y", f"A -> •<=V -> ⊕<-({edge} -> •<=V) : Y")
    assert "attention" not in names(written(text, tmp_path).fused)


def test_keys_that_are_no_transpose_are_turned(tmp_path: Path) -> None:
    text = ATTENTION.replace(
        "X -> •<=W_K -> T : KT [B, D_h, S]",
        "X -> •<=W_K -> T : KT [B, D_h, S]\n    KT -> T : K [B, S, D_h]",
    ).replace("A -> •<=V", "A -> •<=K")
    program = written(text, tmp_path)
    assert names(program.fused).count("attention") == 1
    params = initial(program.graphs, 1)
    inputs = {"X": np.random.default_rng(0).standard_normal((2, 3, 5))}
    wanted = both_passes(program.graphs, params, inputs, 4)
    for name, array in both_passes(program.fused, params, inputs, 4).items():
        np.testing.assert_allclose(array, wanted[name], atol=1e-13)


LINEAR = "    param W [D, D_h], b [D_h] = zeros\n"


def test_a_bias_for_each_row_is_fused(tmp_path: Path) -> None:
    program = written(LINEAR + "    X -> •<=W -> ⊕<-BC(b) : Y\n", tmp_path)
    assert names(program.fused) == ["linear"]


def test_a_bias_for_each_column_is_not(tmp_path: Path) -> None:
    text = (
        "    param W [D, D_h], b [S] = zeros\n    X -> •<=W -> ⊕<-BC[s -> b=B, s, d=D_h](b) : Y\n"
    )
    assert "linear" not in names(written(text, tmp_path).fused)


def test_a_product_that_is_read_twice_is_not(tmp_path: Path) -> None:
    text = LINEAR + "    X -> •<=W : H [B, S, D_h]\n    H -> ⊕<-BC(b) -> ⊕<-H : Y\n"
    assert "linear" not in names(written(text, tmp_path).fused)


ROUTED = """\
dim B = 2, S = 3, D = 5, D_ff = 7, N_E = 4, k = 2
op Mix(y [B, N_E, S, D], G [B, N_E, S]) = sum[N_E](y*G)
block F(X [B, S, D]) -> Y [B, S, D] {
    param W_r [D, N_E], W_1, W_2 [N_E, D, D_ff], W_3 [N_E, D_ff, D]
    X -> •<=W_r -> S -> topk(k) : p [B, S, k], e [B, S, k] in N_E
    p -> scatter[k]<-e -> T     : G [B, N_E, S]
    X -> BC[b, s, d -> b, n=N_E, s, d] : x [B, N_E, S, D]
"""
GATED = ROUTED + "      -> •<=W_1 -> SwiGLU<-(x -> •<=W_2) -> •<=W_3 -> Mix<-G : Y\n}\n"
EXPERTS = {
    "gated": GATED,
    "gated by ReLU": GATED.replace("SwiGLU<-(x -> •<=W_2)", "ReLU -> ⊙<-(x -> •<=W_2)"),
    "gate second": GATED.replace("SwiGLU<-(x -> •<=W_2)", "⊙<-(x -> •<=W_2 -> SiLU)"),
    "plain": GATED.replace("SwiGLU<-(x -> •<=W_2)", "GELU").replace(", W_2", ""),
    "weights first": GATED.replace("y*G", "G*y"),
}
ONE_BY_ONE = {
    "another activation": GATED.replace("SwiGLU<-(x -> •<=W_2)", "tanh").replace(", W_2", ""),
    "rows with other readers": GATED.replace("Mix<-G :", "⊕<-x -> Mix<-G :"),
    "other weights": GATED.replace("scatter[k]<-e -> T  ", "scatter[k]<-e -> T -> tanh  "),
}


def routed(text: str, tmp_path: Path) -> xg.Program:
    file = tmp_path / "routed.xg"
    file.write_text(text, encoding="utf-8")
    return xg.compile(file)


@pytest.mark.parametrize("text", EXPERTS.values(), ids=list(EXPERTS))
def test_routed_experts_compute_the_rows_that_chose_them(text: str, tmp_path: Path) -> None:
    """The readable form computes all; expert 2 is chosen by none.

    Daily backends without functions by hand, which have one way for all, compute the first text.
    """
    program = routed(text, tmp_path)
    assert names(program.fused).count("experts") == 1
    params = initial(program.graphs, 1)
    params["W_r"][:, 2] = -10
    inputs = {"X": np.abs(np.random.default_rng(0).standard_normal((2, 3, 5)))}
    wanted = both_passes(program.graphs, params, inputs, None)
    d_outputs = {"Y": np.random.default_rng(3).standard_normal((2, 3, 5))}
    for backend in BACKENDS if THOROUGH or text == GATED else with_kernels():
        module = program.on_arrays(backend, kernels=True)
        outputs, saved = module.forward(params, inputs, seed=None)
        gradients = module.backward(params, saved, d_outputs)
        found = {**outputs, **{f"d{name}": array for name, array in gradients.items()}}
        assert not np.any(found["dW_1"][2])
        assert found.keys() == wanted.keys()
        for name, array in found.items():
            np.testing.assert_allclose(array, wanted[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("text", ONE_BY_ONE.values(), ids=list(ONE_BY_ONE))
def test_others_stay_as_they_are_written(text: str, tmp_path: Path) -> None:
    assert "experts" not in names(routed(text, tmp_path).fused)
