"""Convolutional models: `conv`, pooling and repeated positions, laid out once at the edges."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from importing.agreement import compare, imported
from importing.sources import Case
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from xg.diagnostics.diagnostic import DiagnosticError


class Picture(nn.Module):
    """Strides, padding, dilation, groups of one and of several channels, and pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.grouped = nn.Conv2d(8, 12, (3, 3), padding=2, dilation=2, groups=2, bias=False)
        self.wide = nn.Conv2d(12, 10, 1)
        self.short = nn.Conv2d(12, 10, 1, stride=2)
        self.head = nn.Linear(10, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(torch.relu(self.stem(x)), 3, 2, 1)
        x = torch.relu(self.grouped(x + self.deep(x)))
        y = F.avg_pool2d(self.wide(x), 2) + self.short(x)
        y = F.interpolate(y, scale_factor=2)
        return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1))


class Sound(nn.Module):
    """Convolutions of free length, with padding that keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv1d(8, 12, 3, padding=1)
        self.b = nn.Conv1d(12, 8, 5, padding="same", dilation=2)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.b(F.gelu(self.a(x.transpose(1, 2)))).transpose(1, 2)


def agrees(given: Case) -> str:
    model, made = imported(given)
    outputs, gradients = compare(model, made, given.inputs(4, 7), dict(made.params))
    assert outputs < 1e-10
    assert gradients < 1e-8
    return made.text


def picture(build: Callable[[], nn.Module]) -> Case:
    return Case(build, lambda b, _: (torch.randn(b, 3, 16, 24).double(),), (("B",),))


def test_a_network_for_pictures_is_laid_out_once() -> None:
    text = agrees(picture(Picture))
    assert text.count("-> T") == 1
    assert "conv[H, W](K_stem, b_stem, stride=2, pad=1)" in text
    assert "maxpool[H_2, W_2](3, stride=2, pad=1)" in text
    assert "conv[H_3, W_3](K_grouped, pad=2, dilation=2, groups=N_G)" in text
    assert "meanpool[H_3, W_3](2)" in text
    assert "upsample[H_4, W_4](2)" in text
    assert "•<=W_wide" in text


class Normed(nn.Module):
    """Batch norms with statistics of their own, one without weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(8, eps=1e-3, momentum=0.01, affine=False)
        self.head, self.bn3 = nn.Linear(8, 4), nn.BatchNorm1d(4)
        for norm in (self.bn1, self.bn2, self.bn3):
            assert norm.running_mean is not None
            assert norm.running_var is not None
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)) + x)
        return self.bn3(self.head(x.mean((2, 3))))


def test_running_statistics_become_frozen_parameters() -> None:
    text = agrees(picture(Normed))
    assert "BN(γ_bn1, β_bn1, μ_bn1, v_bn1) -> ReLU" in text
    assert "BN(mean=μ_bn2, variance=v_bn2, eps=0.001, momentum=0.01)" in text
    assert "μ_bn1, μ_bn2 [8] = zeros frozen, v_bn1, v_bn2 [8] = ones frozen" in text
    assert "-> BN(γ_bn3, β_bn3, μ_bn3, v_bn3)         : Y   [B, N_C]" in text


def test_names_beside_a_file_have_the_statistics_too() -> None:
    _, made = imported(picture(Normed))
    assert '"bn1.running_mean" = "mu_bn1"' in str(made.names)
    assert "num_batches_tracked" in str(made.names)


def test_a_network_for_sound_keeps_its_length_free() -> None:
    given = Case(Sound, lambda b, s: (torch.randn(b, s, 8).double(),), (("B", "S"),))
    text = agrees(given)
    assert "conv[S](K_b, b_b, pad=4, dilation=2)" in text
    assert "dim B, S, D = 8" in text
    assert "-> T" not in text


def test_axes_of_one_are_told_apart_where_a_shape_does_not() -> None:
    """One picture of one channel: T says which of both axes of 1 goes behind."""
    one = torch.randn(1, 1, 6, 8).double()
    text = agrees(Case(lambda: nn.Conv2d(1, 4, 3), lambda _b, _s: (one,), ((),)))
    assert "T[1, 1, h, w -> 1, h, w, 1]" in text


def test_patches_may_be_as_high_as_their_picture() -> None:
    """There is one window along that axis, and all of the axis is in it."""
    text = agrees(picture(lambda: nn.Conv2d(3, 8, (16, 4), stride=(16, 4))))
    assert "conv[" not in text
    assert "•<=" in text


REFUSED: list[tuple[str, Callable[[], nn.Module], str]] = [
    ("ceil", lambda: nn.MaxPool2d(3, ceil_mode=True), "(ceil_mode)"),
    (
        "uncounted",
        lambda: nn.AvgPool2d(3, padding=1, count_include_pad=False),
        "(count_include_pad=False)",
    ),
    ("uneven", lambda: nn.Conv2d(3, 4, 3, padding=(1, 0)), "differ between axes ([1, 0])"),
    ("statistics", lambda: nn.BatchNorm2d(3, track_running_stats=False), "it is in training"),
    ("several", lambda: nn.AdaptiveAvgPool2d(2), "more than one position"),
]


@pytest.mark.parametrize(
    ("build", "said"), [pair[1:] for pair in REFUSED], ids=[n for n, *_ in REFUSED]
)
def test_windows_that_the_language_lacks_are_refused_with_the_reason(
    build: Callable[[], nn.Module], said: str
) -> None:
    with pytest.raises(DiagnosticError) as error:
        imported(picture(build))
    assert said in str(error.value)
