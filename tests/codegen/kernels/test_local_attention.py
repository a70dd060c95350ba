"""Scores that an operator of positions hides are not computed with kernels: a band of keys is."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from backends import with_kernels
from codegen.kernels.cases import functions
from numpy.typing import NDArray

import xg
from xg.ir.graph import Apply
from xg.verify.reference.interpret import initial
from xg_kernels.kernel_tables import TORCH_KERNELS

Array = NDArray[Any]
# More positions than two parts of a kernel have, so that some parts are at no end of the text.
PROGRAM = """\
dim B, S, D = 6, N_H = 2, D_h = D/N_H, w = 37
{op}
block F(X [B, S, D], keep [B, S] in 2) -> Y [B, S, D] {{
    param W_Q, W_K, W_V [D, D]
    X -> •<=W_Q -> R      : Q [B, N_H, S, D_h]
    X -> •<=W_K -> R      : K [B, N_H, S, D_h]
    X -> •<=W_V -> R      : V [B, N_H, S, D_h]
    Q -> •<=T(K) -> {hide} : Z [B, N_H, S, S]
      -> S -> •<=V -> R    : Y
}}
"""
ONE_HEAD = (
    PROGRAM.replace(" -> R ", " ").replace("N_H, S, D_h", "S, D").replace("N_H, S, S", "S, S")
)
RANGES = "\n    where i = range[S](T - S), j = range[T]"
WINDOW = "op Hide(a [.., S, T]; w) = select(and(i >= j, w > i - j), a, -inf)" + RANGES
SEEN = "<-BC[b, t -> b, n=N_H, s=S, t](keep)"
BANDS = {
    "a window": (WINDOW, "SM(0.4) -> Hide(37)", (36, 0)),
    "one of a size": (WINDOW, "SM(0.4) -> Hide(w)", (36, 0)),
    "before the scale": (WINDOW, "Hide(37) -> SM(0.4)", (36, 0)),
    "without a scale": (WINDOW, "Hide(1)", (0, 0)),
    "with padding": (WINDOW, f"SM(0.4){SEEN} -> Hide(150)", (149, 0)),
    "causal by SM": (
        "op Hide(a [.., S, T]; w) = select(w >= i - j, a, -inf)" + RANGES,
        "SM(0.4, causal) -> Hide(5)",
        (5, 0),
    ),
    "to both sides": (
        "op Hide(a [.., S, T]; w) = select(w >= abs(i - j), a, -inf)" + RANGES,
        "SM(0.4) -> Hide(130)",
        (130, 130),
    ),
    "what is hidden": (
        "op Hide(a [.., S, T]) = select(or(j > i - 1, i >= j + 9), -inf, a)" + RANGES,
        "SM(0.4) -> Hide",
        (8, -1),
    ),
    "two windows": (
        WINDOW + "\nop Near(a [.., S, T]) = select(j + 3 >= i, a, -inf)" + RANGES,
        "SM(0.4) -> Hide(37) -> Near",
        (3, 0),
    ),
    "later keys": (
        "op Hide(a [.., S, T]) = select(and(i >= j, 9 > i - j), a, -inf)"
        "\n    where i = range[T], j = range[S]",
        "SM(0.4) -> Hide",
        (0, 8),
    ),
}
OTHERS = {
    "no bound behind": (
        "op Hide(a [.., S, T]) = select(i >= j, a, -inf)" + RANGES,
        "SM(0.4) -> Hide",
    ),
    "blocks": (
        "op Hide(a [.., S, T]) = select(and(i >= j, 9 > i), a, -inf)" + RANGES,
        "SM(0.4) -> Hide",
    ),
    "halves": (WINDOW, "SM(0.4) -> Hide(2.5)"),
    "every other": (
        "op Hide(a [.., S, T]) = select(and(i >= j, 9 > 2*i - 2*j), a, -inf)" + RANGES,
        "SM(0.4) -> Hide",
    ),
    "zero in the place of -inf": (WINDOW.replace("-inf", "0"), "SM(0.4) -> Hide(3)"),
    "turned over": (WINDOW, "Hide(37) -> SM(-0.4)"),
    "dropout": (WINDOW, "SM(0.4) -> Hide(37) -> S -> DO(0.1) -> scale(1)"),
    "numbers of the scores": (
        "op Hide(a [.., S, T]) = select(and(i >= j, 9 > i - j, a > 0), a, -inf)" + RANGES,
        "SM(0.4) -> Hide",
    ),
}


def written(op: str, hide: str, tmp_path: Path, text: str = PROGRAM) -> xg.Program:
    file = tmp_path / "f.xg"
    text = text.format(op=op, hide=hide)
    if "keep" not in hide:
        text = text.replace(", keep [B, S] in 2", "")
    file.write_text(text, encoding="utf-8")
    return xg.compile(file)


def local(program: xg.Program) -> list[Apply]:
    steps = [step for graph in program.fused.graphs.values() for step in graph.steps]
    return [step for step in steps if isinstance(step, Apply) and "local" in step.op.name]


@pytest.mark.parametrize(("op", "hide", "bounds"), BANDS.values(), ids=list(BANDS))
def test_a_band_of_keys_is_seen(
    op: str, hide: str, bounds: tuple[int, int], tmp_path: Path
) -> None:
    program = written(op, hide, tmp_path)
    (step,) = local(program)
    found = tuple(step.attrs[name].evaluate({"w": 37}) for name in ("behind", "ahead"))
    assert found == bounds
    draw = np.random.default_rng(2)
    inputs = {"X": draw.standard_normal((2, 300, 6)), "keep": draw.integers(0, 2, (2, 300))}
    agree(program, {name: inputs[name] for name in program.inputs})


def agree(program: xg.Program, inputs: dict[str, Array]) -> None:
    """Hold both passes with kernels to the readable ones."""
    params, draw = initial(program.graphs, 1), np.random.default_rng(3)
    cotangents = {"Y": draw.standard_normal(inputs["X"].shape)}
    for backend in with_kernels():
        results: list[dict[str, Array]] = []
        for kernels in (False, True):
            module = program.on_arrays(backend, kernels=kernels)
            outputs, saved = module.forward(params, inputs, seed=None)
            results.append({**outputs, **module.backward(params, saved, cotangents)})
        readable, fused = results
        for name, array in readable.items():
            np.testing.assert_allclose(fused[name], array, rtol=1e-10, atol=1e-10)


OF_OTHERS = (
    PROGRAM.replace("block F(X [B, S, D]", "block F(X [B, S, D], M [B, T, D]")
    .replace("X -> •<=W_K -> R      : K [B, N_H, S", "M -> •<=W_K -> R      : K [B, N_H, T")
    .replace("X -> •<=W_V -> R      : V [B, N_H, S", "M -> •<=W_V -> R      : V [B, N_H, T")
    .replace("N_H, S, S]", "N_H, S, T]")
    .replace("dim B, S", "dim B, S, T")
)


@pytest.mark.parametrize(("queries", "keys"), [(300, 100), (5, 9)])
def test_keys_may_be_fewer_than_queries_or_more(queries: int, keys: int, tmp_path: Path) -> None:
    """Of more queries the first see no key, and have no gradient."""
    program = written(*BANDS["a window"][:2], tmp_path, OF_OTHERS)
    assert local(program)
    draw = np.random.default_rng(2)
    X, M = draw.standard_normal((2, queries, 6)), draw.standard_normal((2, keys, 6))
    agree(program, {"X": X, "M": M})


def test_a_single_head_has_a_band(tmp_path: Path) -> None:
    (step,) = local(written(*BANDS["a window"][:2], tmp_path, ONE_HEAD))
    assert (str(step.attrs["behind"]), str(step.attrs["ahead"])) == ("36", "0")


@pytest.mark.parametrize(("op", "hide"), OTHERS.values(), ids=list(OTHERS))
def test_other_masks_stay(op: str, hide: str, tmp_path: Path) -> None:
    assert not local(written(op, hide, tmp_path))


def test_a_window_of_a_long_text_has_no_weight_for_each_pair(tmp_path: Path) -> None:
    """Peaks of arrays grow with the text, not with its square."""
    program = written(*BANDS["a window"][:2], tmp_path)
    module = program.load("numpy", kernels=True)
    params = {name: a.astype(np.float32) for name, a in initial(program.graphs, 1).items()}
    peaks: list[int] = []
    for length in (2048, 4096):
        rows = np.zeros((1, length, 6), np.float32)
        tracemalloc.start()
        _, saved = module.forward(params, {"X": rows})
        module.backward(params, saved, {"Y": rows})
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2.2 * peaks[0]
    assert peaks[1] < 4096 * 4096


def test_its_result_has_the_type_of_the_values() -> None:
    kernels = functions(TORCH_KERNELS)
    half, single = (torch.ones(2, 3, 5, 4, dtype=each) for each in (torch.bfloat16, torch.float32))
    for q, v in ((half, single), (single, half)):
        y, _ = kernels["local_attention"](q, q, v, None, 0.5, 2, 0)
        assert y.dtype == v.dtype
