"""Walks: order, sharing, circles, and depth far beyond Python's own recursion."""

from collections.abc import Generator, Iterator

import pytest

from xg.ir.walk import Circular, answers, callees_first, callers_first, level_by_level

BELOW = {"a": "bc", "b": "d", "c": "bd", "d": ""}
DEPTH = 5_000


def down(number: int) -> Iterator[int]:
    return iter([number + 1] if number < DEPTH else [])


def test_callers_come_before_what_they_call_at_once() -> None:
    assert "".join(callers_first("a", BELOW.__getitem__)) == "abdcbdd"


def test_levels_come_one_after_the_other_and_equal_keys_once() -> None:
    assert "".join(level_by_level(["a"], BELOW.__getitem__)) == "abcdbdd"
    assert "".join(level_by_level(["a"], BELOW.__getitem__, str.upper)) == "abcd"


def test_callees_come_first_and_once() -> None:
    assert "".join(callees_first(["a"], BELOW.__getitem__)) == "dbca"
    assert "".join(callees_first(["a"], BELOW.__getitem__, str.upper)) == "dbca"


def test_a_circle_is_named_from_where_it_closes() -> None:
    with pytest.raises(Circular) as refused:
        callees_first(["a"], {**BELOW, "d": "b"}.__getitem__)
    assert refused.value.ring == ["b", "d"]


def test_answers_are_computed_once_and_sent_to_all_that_ask() -> None:
    asked: list[str] = []

    def work(node: str) -> Generator[str, int, int]:
        asked.append(node)
        total = 1
        for each in BELOW[node]:
            total += yield each
        return total

    assert answers("a", work, {}) == {"d": 1, "b": 2, "c": 4, "a": 7}
    assert sorted(asked) == ["a", "b", "c", "d"]
    assert answers("a", work, {"b": 10, "d": 1})["a"] == 1 + 10 + 12


def test_depth_is_no_limit() -> None:
    def work(number: int) -> Generator[int, int, int]:
        if number == DEPTH:
            return 0
        below = yield number + 1
        return below + 1

    assert len(list(callers_first(0, down))) == len(list(level_by_level([0], down))) == DEPTH + 1
    assert callees_first([0], down)[0] == DEPTH
    assert answers(0, work, {})[0] == DEPTH
