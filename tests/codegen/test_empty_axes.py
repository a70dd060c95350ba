"""Axes of length 0: every form agrees with torch's autograd, or names the axis that it refuses."""

from __future__ import annotations

import pytest
from fuzz.edge_proof import prove_edges
from fuzz.test_structural_zeros import Case

HEAD = "dim B, D = 2, K = 3\n\nblock Cell(x [D], f [D]) -> y [{y}] {{\n"
MAIN = """}}

block Main(Z [B, D], F [B, D]{start}) -> Y [B, {y}]{last} {{
    Z -> tanh -> Cell{given}<-F over B{order} as c : Y{named}
}}
"""


def loop(*lines: str, y: str = "D", state: bool = True, order: str = "") -> str:
    """A loop over B; one that goes from the end begins with a state of the caller's."""
    start = ", h0 [D]" if order else ""
    main = MAIN.format(
        start=start,
        y=y,
        last=", h_last [D]" if state else "",
        given="(h=h0)" if order else "",
        order=order,
        named=", h_last" if state else "",
    )
    return HEAD.format(y=y) + "".join(f"    {line}\n" for line in lines) + main


WEIGHTS = ("param w [D], W [K, D]", "state h [D]")
LOOPS = {
    "no state": loop("param w [D]", "x -> ⊙<-w -> ⊕<-f -> tanh : y", state=False),
    "a state": loop("param w [D]", "state h [D]", "h -> ⊕<-x -> ⊙<-w : y", "next h = y"),
    "a state that begins as the caller says": loop(
        *WEIGHTS,
        "h -> ⊙<-f -> ⊕<-x -> ⊙<-w -> tanh : h2",
        "h2 -> BC : a [K, D]",
        "a -> ⊙<-W : y",
        "next h = h2",
        y="K, D",
        order=" reversed",
    ),
    "a linear recurrence": loop(
        "state h [D]", "f -> sigmoid -> ⊙<-h -> ⊕<-x : y", "next h = y", order=" reversed"
    ),
    "a gradient that stops": loop(
        "state h [D]", "h -> stop -> ⊕<-x -> ⊙<-f : y", "next h = y", order=" reversed"
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_of_no_rounds_ends_as_it_began(name: str) -> None:
    """Its stacks are empty, its gradient is that of the last state, its weights get zeros."""
    for length in (0, 1):
        prove_edges(Case(LOOPS[name], {"B": length}), seed=0, every=True)
