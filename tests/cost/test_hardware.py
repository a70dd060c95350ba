"""Time estimates against calculations by hand, and errors in tables of hardware."""

import tomllib
from importlib.resources import files

import pytest

from xg.cost.communication import Sent
from xg.cost.report import Machine, UnreadableMachines, estimate, machines
from xg.ir.dim import ONE, number, symbol

HALF = Machine("half", "", "", {"float32": 2e12}, 1e9, 1e-6, {"N_D": 1e8})
FLOPS = symbol("B") * 1000
NUMBERS = {"B": 4, "N_T": 4, "N_D": 2}


def sum_over(axis: str, payload: int, calls: int = 1) -> Sent:
    return Sent("forward", "all_reduce", axis, number(payload), ONE * calls, 4)


def test_computing_is_flops_over_the_rate() -> None:
    found = estimate(HALF, "float32", FLOPS, (), NUMBERS)
    assert found.compute == pytest.approx(4000 / 2e12)
    assert (found.communicate, found.total) == (0.0, found.compute)


def test_a_sum_is_bytes_over_the_link_and_its_hops() -> None:
    """2 * 3/4 of 1000 elements of 4 bytes, and two rounds of three hops for each of two calls."""
    found = estimate(HALF, "float32", FLOPS, [sum_over("N_T", 1000, calls=2)], NUMBERS)
    assert found.communicate == pytest.approx(6000 / 1e9 + 12 * 1e-6)


def test_an_axis_may_have_a_link_of_its_own() -> None:
    found = estimate(HALF, "float32", FLOPS, [sum_over("N_D", 1000)], NUMBERS)
    assert found.communicate == pytest.approx(4000 / 1e8 + 2 * 1e-6)


def test_what_is_not_known_is_not_estimated() -> None:
    no_size = estimate(HALF, "float32", FLOPS, [sum_over("N_T", 1)], {})
    no_rate = estimate(HALF, "float64", FLOPS, (), NUMBERS)
    assert (no_size.compute, no_size.communicate, no_size.total) == (None, None, None)
    assert (no_rate.compute, no_rate.total) == (None, None)


def test_the_shipped_table_names_its_sources() -> None:
    text = files("xg.cost").joinpath("hardware.toml").read_text(encoding="utf-8")
    found = machines(tomllib.loads(text))
    assert [each.name for each in found] == ["h100", "h100-network", "a100"]
    assert all(each.source and each.title for each in found)


@pytest.mark.parametrize("rate", ["0.5", "1", "2e299"])
def test_any_positive_rate_is_one(rate: str) -> None:
    (machine,) = machines(tomllib.loads(f"[a]\nflops = {{ float32 = 1 }}\nlink = {rate}"))
    assert machine.link == float(rate)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no machine"),
        ("[a]\nflops = { float32 = 1 }\nlink = 1e300", "is no positive number"),
        ("flops = 3", "flops is no table"),
        ("[a]\nlink = 1", r"\[a\] has no flops"),
        ("[a]\nflops = { float16 = 1 }\nlink = 1", "flops of float16"),
        ("[a]\nflops = { float32 = 1 }", r"\[a\] has no link"),
        ("[a]\nflops = { float32 = true }\nlink = 1", "flops.float32 = True is no positive"),
        ("[a]\nflops = { float32 = 1 }\nlink = 0", "link = 0 is no positive number"),
        ("[a]\nflops = { float32 = 1 }\nlink = nan", "link = nan is no positive number"),
        ("[a]\nflops = { float32 = 1 }\nlink = 1\nlatency = -1", "latency = -1"),
        ("[a]\nflops = { float32 = 1 }\nlink = 1\nlinks = 2", "links is no table"),
        ("[a]\nflops = { float32 = 1 }\nlink = 1\nspeed = 2", r"\[a\] has speed"),
    ],
)
def test_a_table_that_is_wrong_says_where(text: str, said: str) -> None:
    with pytest.raises(UnreadableMachines, match=said):
        machines(tomllib.loads(text))


def test_a_machine_without_a_title_has_its_name() -> None:
    rates = "flops = { float32 = 1 }\nlink = 1\n"
    found = machines(tomllib.loads(f"[a]\n{rates}[b]\ntitle = 'B'\n{rates}"))
    assert [each.title for each in found] == ["a", "B"]


def test_what_is_sent_is_sent_in_each_microbatch_if_nothing_else_is_said() -> None:
    assert not sum_over("N_T", 1).once
