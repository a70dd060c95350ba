"""Names from torch, NumPy, Keras and ONNX: the error says what to write in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import xg
from xg import ops
from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.choices import check_choices
from xg.frontend.project import parse_project
from xg.frontend.typed import type_project
from xg.passes.resolve.errors_of_names import ACTIVATIONS, meant

functional: Any = torch.nn.functional

FIRST_TRIES = {
    "Linear": "•<=W", "Dense": "•<=W", "Conv2d": "conv[H, W]", "conv1d": "conv[S]",
    "softmax": "S[T]", "Softmax": "S[T]", "relu": "ReLU", "LayerNorm": "LN(", "RMSNorm": "op rms(",
    "BatchNorm2d": "BN(γ, β, μ, v)", "MultiheadAttention": "SM(", "cat": "joined by C",
    "concat": "joined by C", "concatenate": "joined by C", "transpose": "use T", "permute": "use T",
    "reshape": "R makes", "view": "R makes", "Flatten": "R makes", "unsqueeze": "R makes",
    "expand": "BC repeats", "repeat": "BC repeats", "matmul": "•<=W", "einsum": "•<=W",
    "bmm": "•<=W", "add": "⊕<-Y", "mul": "⊙<-Y", "Embedding": "Emb(E)", "Dropout": "DO(p)",
    "CrossEntropyLoss": "CE<-t", "MSELoss": "MSE<-t", "masked_fill": "SM", "LSTM": "over S",
    "exp": "op f(x)", "sub": "x - y", "div": "x / y",
    "Sequential": "X -> F -> G", "MaxPool2d": "maxpool[H, W]", "GlobalAveragePooling2D": "mean[S]",
    "LeakyReLU": "op LeakyReLU(x) = select(", "ELU": "op ELU(x) = select(",
    "Mish": "op Mish(x) = x*tanh(", "lse": "op lse(x [.., D]) = logsumexp[D]",
    "log_softmax": "-> S -> ln", "GroupNorm": "no group norm", "Identity": "nothing is needed",
    "unfold": "window[S](k=3)",
    "render": "xg build", "swish": "SiLU", "chunk": "split : u", "RotaryEmbedding": "RoPE",
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST_TRIES)
def test_a_first_try_is_answered(name: str) -> None:
    text = f"dim B, D\nblock F(X [B, D]) -> Y [B, D] {{\n    X -> {name} : Y\n}}\n"
    (found,) = check_choices(parse_project(text.encode()))
    assert found.code == "XG0202"
    assert FIRST_TRIES[name] in found.help[0]


FORMULAS = {
    "X @ W -> tanh : Y": "X -> •<=W",
    "X + W : Y": "X -> ⊕<-W",
    "X * W -> tanh : Y": "X -> ⊙<-W",
    "X / W : Y": "X -> f<-W",
    "X -> X^2 : Y": "op power(x) = x^2",
    "X -> S(dim=-1) : Y": "brackets: `S[T]`",
    "X -> S(axis=1) : Y": "brackets: S[D]",
    "Y = X -> tanh": "`X -> tanh : Y`",
    "W_1 = param(D, D)": "`param W_1 [D, D]`",
    "X -> mean(-1) : Y": "brackets: mean[-1]",
    "X -> LN(D) : Y": "D is a dim",
    "X -> •<=W.T : Y": "T(W)",
    "X -> •<=W_2 : Y": "param W_2 [D, D]",
    "X -> tanh -> Y : Z": "`: Y` names an edge",
}


@pytest.mark.parametrize("line", FORMULAS)
def test_a_formula_is_answered_by_a_chain(line: str) -> None:
    text = f"dim B, D\nblock F(X, W [B, D]) -> Y [B, D] {{\n    {line}\n}}\n"
    with pytest.raises(DiagnosticError) as caught:
        type_project(parse_project(text.encode()))
    helps = [help for each in caught.value.diagnostics for help in each.help]
    assert any(FORMULAS[line] in help for help in helps)


TORCH: dict[str, Callable[[Any], Any]] = {
    "relu6": functional.relu6, "leakyrelu": functional.leaky_relu,
    "leaky_relu": functional.leaky_relu, "elu": functional.elu, "celu": functional.celu,
    "prelu": lambda x: functional.leaky_relu(x, 0.25), "mish": functional.mish,
    **dict.fromkeys(("logsigmoid", "log_sigmoid"), functional.logsigmoid),
    **dict.fromkeys(("var", "variance"), lambda x: x.var(-1, unbiased=False)),
    **dict.fromkeys(("std", "stdev", "stddev"), lambda x: x.std(-1, unbiased=False)),
    "selu": functional.selu, "hardtanh": functional.hardtanh, "softsign": functional.softsign,
    "hardsigmoid": functional.hardsigmoid, "hardswish": functional.hardswish,
    "quickgelu": lambda x: x * (1.702 * x).sigmoid(),
    "threshold": lambda x: functional.threshold(x, 0.1, 0.0),
    **dict.fromkeys(("lse", "log_sum_exp"), lambda x: x.logsumexp(-1)),
    **dict.fromkeys(("normalize", "l2norm", "l2_norm"), lambda x: x / x.norm(dim=-1)[..., None]),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_op_that_a_help_writes_is_the_function_of_that_name(name: str) -> None:
    (help,) = meant(name)
    op = help.partition(": ")[2].partition(", and then")[0]
    shape = "[B]" if any(f"= {each}" in op for each in ("logsumexp", "mean", "sqrt")) else "[B, D]"
    text = f"dim B, D\n{op}\nblock F(X [B, D]) -> Y {shape} {{\n    X -> {name} : Y\n}}\n"
    module = xg.compile(source=text).load("numpy")
    X = np.random.default_rng(0).standard_normal((3, 5)) * 3
    found = module.forward({}, {"X": X}, seed=None)[0]["Y"]
    wanted = TORCH[name](torch.tensor(X)).tolist()
    assert np.allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("name", ["logsigmoid", "mish", "elu", "celu", "selu"])
def test_an_op_that_a_help_writes_does_not_overflow(name: str) -> None:
    op = meant(name)[0].partition(": ")[2].partition(", and then")[0]
    text = f"dim B\n{op}\nblock F(X [B]) -> Y [B] {{\n    X -> {name} : Y\n}}\n"
    module = xg.compile(source=text).load("numpy")
    X = np.array([-100, -1, 0, 1, 100], dtype=np.float32)
    found, saved = module.forward({}, {"X": X}, seed=None)
    dX = module.backward({}, saved, {"Y": np.ones_like(X)})["X"]
    x = torch.tensor(X, requires_grad=True)
    wanted = TORCH[name](x)
    wanted.sum().backward()
    assert np.allclose(found["Y"], wanted.tolist(), rtol=1e-5)
    assert x.grad is not None
    assert np.allclose(dX, x.grad.numpy(), rtol=1e-5, atol=1e-7)


def test_a_mark_over_a_letter_is_answered_by_a_word() -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse_project(
            "dim B\nblock F(x [B]) -> y [B] {\n    x -> tanh : x\u0302 -> y\n}\n".encode()
        )
    assert caught.value.diagnostics[0].help == ("letters have no accents: write `_hat` after it",)


def test_a_loss_that_should_keep_an_axis_is_not_repeated() -> None:
    text = "dim B, D\nblock F(X, T [B, D]) -> Y [B] {\n    X, T -> MSE : Y\n}\n"
    (found,) = check_choices(parse_project(text.encode()))
    assert "sum[D]((x - y)^2)" in found.help[0]


def test_a_matrix_as_torch_holds_it_is_no_other_one() -> None:
    text = (
        "dim B, D = 4\nblock F(x [B, D]) -> y [B, D] {\n"
        "    param W [3*D, D], V [D, 3*D]\n    x -> •<=W -> ReLU -> •<=V : y\n}\n"
    )
    (found,) = check_choices(parse_project(text.encode()))
    assert found.help == ("the second operand fits transposed: <=T(W)",)


def test_a_colon_before_a_shape_is_no_open_bracket() -> None:
    text = "dim B, D\nblock F(X: [B, D]) -> Y: [B, D] {\n    X -> tanh : Y\n}\n"
    with pytest.raises(DiagnosticError) as caught:
        parse_project(text.encode())
    assert [each.code for each in caught.value.diagnostics] == ["XG0121", "XG0121"]


def test_no_operator_is_taken_for_another_ones_name() -> None:
    assert not {*FIRST_TRIES} & ops.table().keys()


def test_every_unknown_function_is_reported_at_once() -> None:
    text = (
        "dim D\nop f(x) = relu(x) + clamp(mish(x))\nop g(x) = y\n  where y = ceil(x)\n"
        "block F(X [D]) -> Y [D] {\n    X -> f -> g : Y\n}\n"
    )
    found = check_choices(parse_project(text.encode()))
    assert [each.code for each in found] == ["XG0252"] * 4
    names = [each.message.rpartition(" ")[2] for each in found]
    assert names == ["relu", "clamp", "mish", "ceil"]
