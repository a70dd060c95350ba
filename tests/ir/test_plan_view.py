"""A plan sees shapes, operators and the names that it mentions, and nothing else of a program."""

from __future__ import annotations

import pytest

from xg.frontend.project import parse_project
from xg.frontend.typed import type_project
from xg.ir.content import PlanViews

TEXT = """\
dim B, D = 8
block Mix(X [B, D]; p = 0.1) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> DO(p) : H [B, D]
      -> SM(1/sqrt(D)) -> S : Y
}
block Net(X [B, D]) -> Y [B, D] {
    X -> Mix(0.2) as mix -> ⊕<-X : Y
}
"""


def look_the_same(one: str, other: str, *mentioned: str) -> bool:
    views, names = PlanViews(), frozenset(mentioned)
    programs = [type_project(parse_project(text.encode()), "Net") for text in (one, other)]
    first, second = (views.of(program, names) for program in programs)
    return first == second


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Mix(0.2)", "Mix(0.3)"),
        ("1/sqrt(D)", "2/sqrt(D)"),
        ("D = 8", "D = 16"),
        (": H", ": Hidden"),
        ("block Mix", "# A line more.\nblock Mix"),
    ],
    ids=["a probability", "a factor", "a size", "a name", "a comment"],
)
def test_what_changes_no_shape_and_no_operator_is_not_seen(old: str, new: str) -> None:
    assert look_the_same(TEXT, TEXT.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DO(p) : H", "DO(p) -> GELU : H"),
        ("-> S : Y", "-> S -> S : Y"),
        ("1/sqrt(D)", "1/sqrt(B)"),
        ("1/sqrt(D)", "2"),
        ("⊕<-X", "⊙<-X"),
        ("as mix", "as other"),
        ("param W [D, D]", "param W, V [D, D]"),
        ("•<=W", "•<=T(W)"),
    ],
    ids=["an operator", "one again", "a size", "a whole", "another", "a path", "a param", "turned"],
)
def test_what_a_plan_can_depend_on_is_seen(old: str, new: str) -> None:
    changed = TEXT.replace(old, new).replace("V [D, D]\n", "V [D, D]\n    X -> •<=V : Q [B, D]\n")
    assert not look_the_same(TEXT, changed)


def test_a_name_is_seen_by_a_plan_that_mentions_it() -> None:
    renamed = TEXT.replace(": H", ": Hidden")
    assert not look_the_same(TEXT, renamed, "H")
    assert not look_the_same(TEXT, renamed, "Hidden")
    assert look_the_same(TEXT, renamed, "Y", "W")
