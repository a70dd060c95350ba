"""Kernels of torch for a GPU: their calls on tensors without numbers, and their numbers.

Where there is no GPU, numbers are those of the CPU's own kernels, by the same functions.
"""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from inspect import signature
from types import SimpleNamespace

import pytest
import torch
from codegen.kernels.stand_ins import Aten
from torch._subclasses.fake_tensor import FakeTensorMode

from xg_kernels.torch import attention, flash, kernels

DEVICES = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
HALVES = (torch.bfloat16, torch.float16)
LENGTHS = [(40, 40, "causal"), (100, 37, "none"), (1, 50, "causal"), (128, 128, "causal")]


def draw(length: int, dtype: torch.dtype, device: str, head: int = 24) -> torch.Tensor:
    """[2, 3, length, head] as merged heads are in memory."""
    return torch.randn(2, length, 3, head, device=device).to(dtype).transpose(1, 2)


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
@pytest.mark.parametrize("plans", [True, False])
def test_a_gpu_gets_the_kernels_that_it_has(
    dtype: torch.dtype, plans: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plans_pay(q: torch.Tensor) -> bool:
        return plans

    monkeypatch.setattr(flash, "plans_pay", plans_pay)
    with FakeTensorMode():
        q, k, v = (draw(length, dtype, "cuda") for length in (40, 70, 70))
        assert flash.is_flash(q, k, v, None, "none")
        y, lse = flash.flash(q, k, v, None, 0.3, causal=False)
        assert y.shape == q.shape
        assert y.dtype == dtype
        assert (lse.shape, lse.dtype) == (q.shape[:-1], torch.float32)
        found = flash.d_flash(y, q, k, v, None, y, lse.unsqueeze(-1), 0.3, causal=False)
        assert [each.shape for each in found] == [q.shape, k.shape, v.shape]
        assert {each.device.type for each in found} == {"cuda"}


def test_what_a_gpu_has_no_kernel_for_takes_all_weights() -> None:
    with FakeTensorMode():
        for dtype, head in ((torch.float64, 24), (torch.float32, 20), (torch.bfloat16, 264)):
            q = draw(40, dtype, "cuda", head)
            assert not flash.is_flash(q, q, q, None, "none")


def test_operands_of_several_types_meet_in_the_narrowest() -> None:
    q, k, v = (draw(9, dtype, "cpu") for dtype in (torch.float32, torch.bfloat16, torch.float32))
    assert {each.dtype for each in flash.operands(q, k, v)} == {torch.bfloat16}


@pytest.mark.parametrize("width", [11, 16])
def test_uneven_rows_are_filled_and_cut_again(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(3, 5, 16, dtype=torch.float64)
    table = torch.randn(width, 16, dtype=torch.float64)
    dz = torch.randn(3, 5, width, dtype=torch.float64)

    def products() -> list[torch.Tensor]:
        return [
            kernels.product(x, table.T),
            kernels.product(x, table.T.contiguous()),
            kernels.product_with_transpose(dz, table.T),
            kernels.product_over_rows(dz, x),
            kernels.product_over_rows(x, dz),
        ]

    def is_uneven(a: torch.Tensor) -> bool:
        return a.shape[-1] % 8 != 0

    plain = products()
    monkeypatch.setattr(kernels, "is_uneven", is_uneven)
    for mine, theirs in zip(products(), plain, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
    assert kernels.filled(table.T).shape == (16, 16)
    assert kernels.filled(table.T).stride() == (1, 16)  # a transposed matrix stays one


def test_a_norm_of_narrow_rows_by_wide_numbers_is_wide() -> None:
    x = torch.randn(3, 5).to(torch.bfloat16)
    gamma, beta = torch.randn(5), torch.randn(5)
    expected = torch.nn.functional.layer_norm(x.float(), (5,), gamma, beta, 1e-5)
    alone = kernels.layer_norm_output(x, gamma, beta, 1e-5)
    assert alone.dtype == torch.float32
    torch.testing.assert_close(alone, expected)
    torch.testing.assert_close(kernels.layer_norm(x, gamma, beta, 1e-5)[0], expected)


def test_rows_are_uneven_on_a_gpu_alone() -> None:
    assert not kernels.is_uneven(torch.zeros(8, 7))
    with FakeTensorMode():
        assert kernels.is_uneven(torch.zeros(8, 7, device="cuda"))
        assert not kernels.is_uneven(torch.zeros(7, 8, device="cuda"))


def test_the_loss_for_the_compiler_is_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    z = 3 * torch.randn(2, 7, 13, dtype=torch.float64)
    t = torch.randint(0, 13, (2, 7))
    slope = torch.tensor(0.7, dtype=torch.float64)

    def both() -> list[torch.Tensor]:
        loss, lse = kernels.cross_entropy(z, t, 14.0)
        return [loss, lse, kernels.d_cross_entropy(slope, z, t, lse, 14.0)]

    def compiling() -> bool:
        return True

    plain = both()
    monkeypatch.setattr(torch.compiler, "is_compiling", compiling)
    for mine, theirs in zip(both(), plain, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("S", "S_k", "mask"), LENGTHS)
@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
def test_attention_by_a_kernel_is_that_of_all_weights_in_float64(
    dtype: torch.dtype, S: int, S_k: int, mask: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [draw(length, dtype, device) for length in (S, S_k, S_k, S)]

    def both(given: list[torch.Tensor]) -> list[torch.Tensor]:
        q, k, v, dy = given
        y, lse = attention.attend(q, k, v, None, None, 0.3, mask, 1.0)
        return [y, lse, *attention.d_attend(dy, q, k, v, None, y, lse, None, 0.3, mask, 1.0)]

    def all_weights(*_: object) -> bool:
        return False

    with monkeypatch.context() as patch:
        patch.setattr(attention, "is_flash", all_weights)
        exact = both([each.double() for each in given])
    bound = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 2e-6}[dtype]
    for mine, wanted in zip(both(given), exact, strict=True):
        assert 0 < float((mine.double() - wanted).norm() / wanted.norm()) < bound


def test_stand_ins_take_what_torch_takes() -> None:
    names = [name for name in vars(Aten) if name.startswith("_scaled")]
    assert len(names) == 6
    for name in names:
        schema = getattr(torch.ops.aten, name).default._schema
        wanted = [(each.name, each.kwarg_only) for each in schema.arguments]
        own = signature(getattr(Aten, name)).parameters.values()
        assert [(each.name, each.kind is each.KEYWORD_ONLY) for each in own] == wanted


@pytest.mark.parametrize("kernel", ["flash", "cudnn", "efficient"])
@pytest.mark.parametrize(("S", "S_k", "mask"), LENGTHS)
def test_each_kernel_of_a_gpu_is_given_what_it_takes(
    kernel: str, S: int, S_k: int, mask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(q: torch.Tensor) -> str:
        return kernel

    q, k, v, dy = (draw(length, torch.float64, "cpu") for length in (S, S_k, S_k, S))
    scale, causal = 0.3, mask == "causal" and S > 1
    wanted_y, wanted_lse = attention.attend(q, k, v, None, None, scale, mask, 1.0)
    saved = (None, wanted_y, wanted_lse, None)
    wanted = attention.d_attend(dy, q, k, v, *saved, scale, mask, 1.0)
    names = ("empty", "uint64", "constant_pad_nd", "inf")
    torch_s = {name: getattr(torch, name) for name in names}
    monkeypatch.setattr(flash, "kernel_of", chosen)
    monkeypatch.setattr(flash, "torch", SimpleNamespace(ops=SimpleNamespace(aten=Aten), **torch_s))
    y, lse = flash.flash(q, k, v, None, scale, causal)
    assert lse.shape == (2, 3, S)
    found = flash.d_flash(dy, q, k, v, None, y, lse.unsqueeze(-1), scale, causal)
    for mine, theirs in zip((y, *found), (wanted_y, *wanted), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-12)
