"""Windows of an axis: convolution, pooling and attention to neighbors, against torch's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from passes.decode_step.stepping import stepping, written
from torch.nn import functional as F  # noqa: N812

import xg
from xg.cli import main

Array = NDArray[Any]
EXAMPLES = Path(__file__).parents[2] / "diagrams/examples"
GAP = 1e-12

CONV = """\
dim B, H = 5, W = 8, C, D, H_c = (H + 1)/2, W_c = W - 4
mesh N_T = 2

block Conv(X [B, H, W, C]) -> Y [B, H_c, W_c, D] {
    param K [6*C, D]
    X -> window[H](2, 2, 1)           : [B, H_c, 2, W, C]
      -> window[W](3, dilation=2)     : [B, H_c, 2, W_c, 3, C]
      -> R[b, h, i, w, j, c -> b, h, w, (i, j, c)]
      -> •<=K                         : Y
}

plan DP of Conv {
    X [B/N_T, H, W, C]
}

plan TP of Conv {
    K [6*C, D/N_T]
}
"""

COLUMNS = """
plan Columns of Conv {
    X [B, H, W/N_T, C]
}
"""

LOCAL = """\
dim B, S, D = 6, w = 3

op Seen(a [.., S, w]) = select(range[S] + range[w] + 1 >= w, a, -inf)

block Local(X [B, S, D]) -> Y [B, S, D] {
    param W_Q, W_K, W_V [D, D], K [4*D, D]

    X -> window[S](4, causal, dilation=2) -> R : [B, S, 4*D] -> •<=K : U [B, S, D]
    U -> •<=W_Q -> BC[b, s, d -> b, s, 1, d] : Q [B, S, 1, D]
    U -> •<=W_K -> window[S](w, causal)      : K_w [B, S, w, D]
      -> T                                   : KT [B, S, D, w]
    X -> •<=W_V -> window[S](w, causal)      : V [B, S, w, D]
    Q -> •<=KT -> R                          : A [B, S, w]
      -> scale(1/sqrt(D)) -> Seen -> S -> R  : P [B, S, 1, w]
      -> •<=V -> R                           : Y
}
"""


def drawn(program: xg.Program) -> tuple[dict[str, Array], dict[str, Array]]:
    draw = np.random.default_rng(3)
    shapes = {name: list(map(int, spec.shape)) for name, spec in program.params.items()}
    params: dict[str, Array] = {n: draw.standard_normal(shape) for n, shape in shapes.items()}
    inputs: dict[str, Array] = {}
    for name, spec in program.inputs.items():
        shape = list(map(int, spec.shape))
        inputs[name] = (
            draw.standard_normal(shape)
            if spec.range is None
            else draw.integers(0, int(spec.range), shape)
        )
    return params, inputs


def kernel(flat: torch.Tensor, *sizes: int) -> torch.Tensor:
    """A matrix [k k C, D] as torch has the weights of a convolution."""
    return flat.reshape(*sizes, -1, flat.shape[-1]).movedim((-1, -2), (0, 1))


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a text to a file."""

    def writing(text: str) -> Path:
        (tmp_path / "net.xg").write_text(text, encoding="utf-8")
        return tmp_path / "net.xg"

    return writing


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_windows_and_a_product_are_the_convolution_of_torch(
    backend: str, file: Callable[[str], Path]
) -> None:
    """Along H a stride that does not divide the axis with its zeros, along W a dilation."""
    sizes = {"B": 2, "H": 5, "W": 9, "C": 3, "D": 4}
    program = xg.compile(file(CONV), sizes=sizes)
    params, inputs = drawn(program)
    module = program.on_arrays(backend)
    outputs, saved = module.forward(params, inputs)
    X = torch.tensor(inputs["X"], requires_grad=True)
    K = torch.tensor(params["K"], requires_grad=True)
    Y = F.conv2d(
        X.movedim(-1, 1), kernel(K, 2, 3), stride=(2, 1), padding=(1, 0), dilation=(1, 2)
    ).movedim(1, -1)
    np.testing.assert_allclose(outputs["Y"], Y.detach(), atol=GAP)
    dY = np.random.default_rng(5).standard_normal(Y.shape)
    dX, dK = torch.autograd.grad(Y, (X, K), torch.tensor(dY))
    gradients = module.backward(params, saved, {"Y": dY})
    np.testing.assert_allclose(gradients["X"], dX, atol=GAP)
    np.testing.assert_allclose(gradients["K"], dK, atol=GAP)


@pytest.mark.parametrize("plan", ["DP", "TP"])
def test_plans_cut_the_axes_that_no_window_is_along(
    plan: str, file: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(file(CONV)), "--plan", plan]) == 0, capsys.readouterr().out
    assert "all proven" in capsys.readouterr().out


def test_a_plan_that_cuts_windows_is_refused_with_the_reason(
    file: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(file(CONV + COLUMNS))]) == 1
    assert "the axis whose windows overlap is cut" in capsys.readouterr().err


def test_the_residual_network_is_that_of_torch() -> None:
    program = xg.compile(EXAMPLES / "convnet.xg", sizes={"B": 2})
    params, inputs = drawn(program)
    outputs, saved = program.load().forward(params, inputs)
    gradients = program.load().backward(params, saved, {"loss": np.ones(())})
    given = {name: torch.tensor(array, requires_grad=True) for name, array in params.items()}
    X = torch.tensor(inputs["X"], requires_grad=True)

    def conv(x: torch.Tensor, path: str) -> torch.Tensor:
        return F.conv2d(x, kernel(given[f"{path}.K"], 3, 3), given[f"{path}.b"], padding=1)

    def residual(x: torch.Tensor, path: str) -> torch.Tensor:
        inner = x
        for name in ("conv_1", "conv_2"):
            normal = F.layer_norm(inner.movedim(1, -1), x.shape[1:2]).movedim(-1, 1)
            inner = conv(normal.relu(), f"{path}.{name}")
        return x + inner

    fine = residual(conv(X.movedim(-1, 1), "stem"), "fine")
    coarse = residual(F.max_pool2d(fine, 2), "coarse")
    Z = coarse.mean((-1, -2)) @ given["W_out"] + given["b_out"]
    loss = F.cross_entropy(Z, torch.tensor(inputs["t"]))
    tensors = {**given, "X": X}
    theirs = torch.autograd.grad(loss, list(tensors.values()))
    np.testing.assert_allclose(outputs["Z"], Z.detach(), atol=GAP)
    np.testing.assert_allclose(outputs["loss"], loss.detach(), atol=GAP)
    for name, gradient in zip(tensors, theirs, strict=True):
        np.testing.assert_allclose(gradients[name], gradient, atol=GAP, err_msg=name)


def test_attention_to_neighbors_is_that_to_all_under_a_mask(
    file: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = file(LOCAL)
    assert main(["verify", str(path), "--against", "torch,jax"]) == 0, capsys.readouterr().out
    program = xg.compile(path, sizes={"B": 2, "S": 7})
    params, inputs = drawn(program)
    outputs, _ = program.load().forward(params, inputs)
    X = torch.tensor(inputs["X"])
    W_Q, W_K, W_V, K = (torch.tensor(params[name]) for name in ("W_Q", "W_K", "W_V", "K"))
    padded = F.pad(X.mT, (6, 0))
    U = F.conv1d(padded, kernel(K, 4), dilation=2).mT
    i, j = torch.arange(7)[:, None], torch.arange(7)
    seen = (i >= j) & (i - j < 3)
    Y = F.scaled_dot_product_attention(U @ W_Q, U @ W_K, X @ W_V, attn_mask=seen)
    np.testing.assert_allclose(outputs["Y"], Y, atol=GAP)


def test_a_step_of_generation_has_the_windows_of_the_whole_text() -> None:
    one = stepping(written(LOCAL))
    for pieces in ((1,) * 7, (3, 4), (2, 1, 4)):
        assert np.abs(one.stepped(pieces) - one.expected()).max() < GAP


FEW = """\
dim B, S, D = 6, k = 3

op Counted(x [.., S, D]) = x * (1 + range[S])

block Few(X [B, S, D]) -> Y [B, S, D] {
    param W [D, D], K [k, 1, D], L [2*D, D]

    X -> •<=W -> SiLU                                    : U [B, S, D]
      -> conv[S](K, causal, groups=D)                    : V [B, S, D]
    V -> window[S](2, causal) -> R : [B, S, 2*D] -> •<=L -> tanh -> ⊕<-U : Y
}
"""
PAST = {path: (2, kept, 6) for path, kept in (("U", 2), ("V", 1))}


@pytest.mark.parametrize(
    ("text", "states"),
    [
        (FEW, PAST),
        (FEW.replace("causal, groups", "causal, dilation=2, groups"), {**PAST, "U": (2, 4, 6)}),
        (
            FEW.replace("V -> win", "U -> win").replace("⊕<-U", "⊕<-V"),
            {"U": (2, 0, 6)},
        ),  # of two reaches: all
        (FEW.replace("⊕<-U", "Counted -> ⊕<-U"), {"X": (2, 0, 6), **PAST}),
    ],
)
def test_a_step_keeps_the_positions_that_its_windows_reach(
    text: str, states: dict[str, tuple[int, ...]]
) -> None:
    one = stepping(written(text))
    assert {path: array.shape for path, array in one.empty().items()} == states
    for pieces in ((7,), (1,) * 7, (3, 4), (2, 1, 4)):
        assert np.abs(one.stepped(pieces) - one.expected()).max() < GAP


@pytest.mark.parametrize(
    ("causal", "centered"),
    [("(4, causal, dilation=2)", "(4, pad=3, dilation=2)"), ("(w, causal)", "(w, pad=(w - 1)/2)")],
)
def test_windows_that_reach_later_positions_have_no_step(causal: str, centered: str) -> None:
    with pytest.raises(xg.DiagnosticError) as caught:
        written(LOCAL.replace(causal, centered)).step()
    assert {each.code for each in caught.value.diagnostics} == {"XG0551"}
