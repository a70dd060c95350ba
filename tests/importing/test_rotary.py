"""Rotary positions by the coordinates of pairs, which a model may leave in another order."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import pytest
import torch
from importing.sources import Case
from importing.test_cases import agree, case, told
from tier import THOROUGH
from torch import Tensor


def tables(x: Tensor) -> tuple[Tensor, Tensor]:
    """One angle for each pair of the last axis; positions along the last but one."""
    width = x.shape[-1]
    speeds = 500.0 ** (-torch.arange(0, width, 2).double() / width)
    angle = torch.arange(x.shape[-2])[:, None] * speeds
    return angle.cos(), angle.sin()


def columns(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[..., ::2], x[..., 1::2]


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    one, two = x.chunk(2, -1)
    return one, two


def turned(x: Tensor, apart: Callable[[Tensor], tuple[Tensor, Tensor]], *, beside: bool) -> Tensor:
    cosine, sine = tables(x)
    one, two = apart(x)
    both = [one * cosine - two * sine, two * cosine + one * sine]
    return torch.stack(both, -1).flatten(-2) if beside else torch.cat(both, -1)


def heads(x: Tensor, count: int = 2) -> Tensor:
    return x.view(*x.shape[:2], count, -1).transpose(1, 2)


def test_columns_that_stay_beside_each_other_are_turned_in_their_place() -> None:
    text = agree(case(partial(turned, apart=columns, beside=True)))
    assert "-> RoPE(base=500, layout=interleaved) : Y" in text


def test_columns_that_are_left_as_halves_are_laid_out_behind() -> None:
    text = agree(case(partial(turned, apart=columns, beside=False)))
    assert "RoPE(base=500, layout=interleaved)\n      -> R[b, s, (x=4, q) -> b, s, (q, x)]" in text


def test_halves_are_turned_in_every_head() -> None:
    def net(x: Tensor) -> Tensor:
        return turned(heads(x), halves, beside=False).transpose(1, 2).flatten(2)

    text = agree(case(net, 16))
    assert "-> RoPE(base=500) -> R[b, x, s, q -> b, s, (x, q)]" in text
    assert "slice" not in text


def test_halves_of_heads_behind_positions_are_turned_along_positions() -> None:
    def net(x: Tensor) -> Tensor:
        x = x.view(*x.shape[:2], 2, -1)
        cosine, sine = (table[:, None] for table in tables(x.transpose(1, 2)))
        one, two = halves(x)
        both = [one * cosine - two * sine, two * cosine + one * sine]
        return torch.cat(both, -1).flatten(2)

    assert "-> RoPE(base=500)" in agree(case(net, 16))


def test_a_part_that_is_half_of_a_head_is_no_coordinate() -> None:
    def net(x: Tensor) -> Tensor:
        x = x.view(*x.shape[:2], 2, 3, 8)[..., 1, :].transpose(1, 2)
        part = x[..., :4]
        cosine, sine = (torch.cat([table, table], -1) for table in tables(part))
        straight = part * cosine
        one, two = halves(part)
        part = straight + torch.cat([-two, one], -1) * sine
        return torch.cat([part, x[..., 4:]], -1)

    assert agree(case(net, 48)).count("RoPE(base=500)") == 1


def attention(x: Tensor, *, kept: int = 0, beside: bool = False) -> Tensor:
    """Queries and keys that are turned behind the first numbers; keys as `beside` says."""
    q, k, v = (heads(x[..., i * 16 : (i + 1) * 16]) for i in range(3))
    q = torch.cat([q[..., :kept], turned(q[..., kept:], columns, beside=False)], -1)
    k = torch.cat([k[..., :kept], turned(k[..., kept:], columns, beside=beside)], -1)
    weights = (q @ k.transpose(-1, -2) / 8**0.5).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2)


@cache
def attending(kept: int, *, beside: bool = False) -> Case:
    return case(partial(attention, kept=kept, beside=beside), 48)


@pytest.mark.parametrize("kept", [0, 4] if THOROUGH else [4])
def test_an_order_that_queries_and_keys_share_is_left_out(kept: int) -> None:
    text = agree(attending(kept))
    assert text.count("RoPE(base=500, layout=interleaved)") == 2
    assert "R[" not in text


@pytest.mark.parametrize("kept", [0, 4] if THOROUGH else [0])
def test_an_order_that_only_queries_have_is_said(kept: int) -> None:
    text = agree(attending(kept, beside=True))
    assert text.count("R[b, h, s, (x=") == 1


def test_parts_that_are_all_of_a_head_are_one_split() -> None:
    text = agree(attending(4))
    assert text.count("-> split") == 2
    assert "D_h = D_p + D_r" in text
    assert "slice" not in text


def backwards(x: Tensor) -> Tensor:
    cosine, sine = tables(x)
    one, two = columns(x)
    return torch.cat([one * cosine - two * sine, two * cosine - one * sine], -1)


def exchanged(x: Tensor) -> Tensor:
    cosine, sine = tables(x)
    one, two = columns(x)
    return torch.cat([two * cosine + one * sine, one * cosine - two * sine], -1)


def mixed(x: Tensor) -> Tensor:
    cosine, sine = tables(x)
    one, two = halves(x)
    return torch.cat([one * cosine - two * sine, x[..., 1::2] * cosine + one * sine], -1)


def twice_as_fast(x: Tensor) -> Tensor:
    cosine, sine = tables(x)
    one, two = columns(x)
    again = cosine * cosine - sine * sine, 2 * cosine * sine
    return torch.cat([one * cosine - two * sine, two * again[0] + one * again[1]], -1)


@pytest.mark.parametrize("net", [backwards, exchanged, mixed, twice_as_fast])
def test_coordinates_of_another_turn_are_refused(net: Callable[[Tensor], Tensor]) -> None:
    assert "table of constants other than rotary positions" in told(case(net))
