"""Names from torch, NumPy, Keras and ONNX: the error says what to write in their place."""

from __future__ import annotations

import pytest

from xg import ops
from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.choices import check_choices
from xg.frontend.project import parse_project
from xg.frontend.typed import type_project

FIRST_TRIES = {
    "Linear": "•<=W", "Dense": "•<=W", "Conv2d": "conv[H, W]", "conv1d": "conv[H, W]",
    "softmax": "S[T]", "Softmax": "S[T]", "relu": "ReLU", "LayerNorm": "LN(", "RMSNorm": "op rms(",
    "BatchNorm2d": "no batch norm", "MultiheadAttention": "SM(", "cat": "joined by C",
    "concat": "joined by C", "concatenate": "joined by C", "transpose": "by T", "permute": "by T",
    "reshape": "R makes", "view": "R makes", "Flatten": "R makes", "unsqueeze": "R makes",
    "expand": "BC repeats", "repeat": "BC repeats", "matmul": "•<=W", "einsum": "•<=W",
    "bmm": "•<=W", "add": "⊕<-Y", "mul": "⊙<-Y", "Embedding": "Emb(E)", "Dropout": "DO(p)",
    "CrossEntropyLoss": "CE<-t", "MSELoss": "MSE<-t", "masked_fill": "SM", "LSTM": "over S",
    "exp": "op f(x)", "sub": "x - y", "div": "x / y",
    "Sequential": "X -> F -> G", "MaxPool2d": "maxpool[H, W]", "GlobalAveragePooling2D": "mean[S]",
    "LeakyReLU": "op leaky(x)", "ELU": "op leaky(x)", "Mish": "op leaky(x)",
    "log_softmax": "-> S -> ln", "GroupNorm": "no group norm", "Identity": "nothing is needed",
    "unfold": "window[S](k=3)",
    "render": "xg build", "swish": "SiLU", "chunk": "slice[S]", "RotaryEmbedding": "RoPE",
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
    "X -> S(axis=1) : Y": "brackets: S[S]",
    "Y = X -> tanh": "`X -> tanh : Y`",
    "W_1 = param(D, D)": "`param W_1 [D, D_ff]`",
    "X -> mean(-1) : Y": "brackets: mean[S]",
    "X -> LN(D) : Y": "D is a dim",
    "X -> •<=W.T : Y": "T(W)",
    "X -> •<=W_2 : Y": "param W_2 [..]",
    "X -> tanh -> Y : Z": "`: Y` names an edge",
}


@pytest.mark.parametrize("line", FORMULAS)
def test_a_formula_is_answered_by_a_chain(line: str) -> None:
    text = f"dim B, D\nblock F(X, W [B, D]) -> Y [B, D] {{\n    {line}\n}}\n"
    with pytest.raises(DiagnosticError) as caught:
        type_project(parse_project(text.encode()))
    helps = [help for each in caught.value.diagnostics for help in each.help]
    assert any(FORMULAS[line] in help for help in helps)


def test_a_matrix_as_torch_holds_it_is_no_other_one() -> None:
    text = (
        "dim B, D = 4\nblock F(x [B, D]) -> y [B, D] {\n"
        "    param W [3*D, D], V [D, 3*D]\n    x -> •<=W -> ReLU -> •<=V : y\n}\n"
    )
    (found,) = check_choices(parse_project(text.encode()))
    assert found.help == ("the second operand fits transposed: <=T(…)",)


def test_a_colon_before_a_shape_is_no_open_bracket() -> None:
    text = "dim B, D\nblock F(X: [B, D]) -> Y: [B, D] {\n    X -> tanh : Y\n}\n"
    with pytest.raises(DiagnosticError) as caught:
        parse_project(text.encode())
    assert [each.code for each in caught.value.diagnostics] == ["XG0121", "XG0121"]


def test_no_operator_is_taken_for_another_ones_name() -> None:
    assert not {*FIRST_TRIES} & ops.table().keys()


def test_every_unknown_function_is_reported_at_once() -> None:
    text = (
        "dim D\nop f(x) = relu(x) + clamp(softplus(x))\nop g(x) = y\n  where y = floor(x)\n"
        "block F(X [D]) -> Y [D] {\n    X -> f -> g : Y\n}\n"
    )
    found = check_choices(parse_project(text.encode()))
    assert [each.code for each in found] == ["XG0252"] * 4
    names = [each.message.rpartition(" ")[2] for each in found]
    assert names == ["relu", "clamp", "softplus", "floor"]
