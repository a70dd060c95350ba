"""Programs of newcomers compile once what the helps say is written, one after the other.

Each case is a program as a newcomer writes it, and what has to be exchanged for the line of a help.
"""

from __future__ import annotations

import re

import pytest
from frontend.refused import refused

CELL = """
block Cell(x [B, D]) -> y [B, D] {
    state h [B, D] = zeros
    x -> ⊕<-h : y
    next h = y
}
"""
IMAGES = "dim B, H, W, C = 3, D = 8"
TEXTS = f"dim B, S, D = 16{CELL}"
SHARES = "dim B, S, D = 8, N_E = 4, k = 2, N_C = {}"
ROUTED = """A(X [B, S, D]) -> Y [B, S, D] {
    param W_r [D, N_E]
    X -> •<=W_r -> S -> topk(k) : g, e
    X -> dispatch(N_E, N_C)<-e -> combine<-slot<-g : Y
}""".replace("<-e -> combine", "<-e : x_E, slot, dropped\n    x_E -> combine")
QUOTED = re.compile(r"`([^`]*)`")

# The head of a program, its block, and what the helps replace: a text by the n-th in quotes.
CASES = {
    "channels first, as in torch": (
        IMAGES,
        "A(X [B, C, H, W]) -> Y [B, H, W, D] {\n    param K [3, 3, C, D]\n"
        "    X -> conv[H, W](K, pad=1) : Y\n}",
        [("-> conv[H, W](", 0)],
    ),
    "channels first and no axes": (
        IMAGES,
        "A(X [B, C, H, W]) -> Y [B, H, W, D] {\n    param K [3, 3, C, D]\n"
        "    X -> conv(K, pad=1) : Y\n}",
        [("-> conv(", 0)],
    ),
    "heads behind the axis": (
        "dim B, S, N_H, D = 8",
        "A(X [B, S, N_H, D]) -> Y [B, N_H, S, D] {\n    param K [3, D, D]\n"
        "    X -> conv[S](K, causal) : Y\n}",
        [("-> conv[S](", 0)],
    ),
    "no channels": (
        "dim B, H, W, D = 8",
        "A(X [B, H, W]) -> Y [B, H, W, D] {\n    param K [3, 3, 1, D]\n"
        "    X -> conv[H, W](K, pad=1) : Y\n}",
        [("-> conv[H, W](", 0)],
    ),
    "the padding of torch": (
        IMAGES,
        "A(X [B, H, W, C]) -> Y [B, H, W, D] {\n    param K [5, 5, C, D]\n"
        "    X -> conv[H, W](K, same) : Y\n}",
        [("same", 0)],
    ),
    "the padding of torch by name": (
        IMAGES,
        "A(X [B, H, W, C]) -> Y [B, H, W, D] {\n    param K [3, C, D]\n"
        "    X -> conv[W](K, dilation=2, padding=same) : Y\n}",
        [("padding=same", 0)],
    ),
    "padding of an even width": (
        IMAGES,
        "A(X [B, H, W, C]) -> Y [B, H, W, D] {\n    param K [4, C, D]\n"
        "    X -> conv[W](K, same) : Y\n}",
        [("same", 0)],
    ),
    "padding of windows": (
        "dim B, H, W, C = 3",
        "A(X [B, H, W, C]) -> Y [B, H, W, 3, C] {\n    X -> window[W](3, same) : Y\n}",
        [("same", 0)],
    ),
    "states before outputs": (
        TEXTS,
        "R(X [B, S, D]) -> Y [B, S, D], h_S [B, D] {\n    X -> Cell over S : h_S, Y\n}",
        [(": h_S, Y", 0)],
    ),
    "places before values": (
        "dim B, N, k = 2",
        "R(X [B, N]) -> Y [B, k], i [B, k] in N {\n    X -> topk(k) : i, Y\n}",
        [(": i, Y", 0)],
    ),
    "results that go on": (
        "dim B, D\nblock G(x [B, D]) -> y [B, D], a [B] {\n    x -> tanh : y\n"
        "    y -> sum[D] : a\n}",
        "R(X [B, D]) -> Y [B, D], q [B] {\n    X -> G : t [B], z [B, D]\n"
        "    z -> tanh : Y\n    t -> tanh : q\n}",
        [(": t [B], z [B, D]", 0)],
    ),
    "an expression as a start": (
        TEXTS,
        "R(X [B, S, D]) -> Y [B, S, D] {\n    param h_0 [D]\n"
        "    X -> Cell(h=BC(h_0)) over S : Y\n}",
        [("    X", 0), ("h=BC(h_0)", 1)],
    ),
    "a start with axes of its own": (
        TEXTS,
        "R(X [B, S, D]) -> Y [B, S, D] {\n    param h_0 [D]\n"
        "    X -> Cell(h=BC[B](h_0)) over S : Y\n}",
        [("    X", 0), ("h=BC[B](h_0)", 1)],
    ),
    "a start that is small": (
        TEXTS,
        "R(X [B, S, D]) -> Y [B, S, D] {\n    param h_0 [D]\n    X -> Cell(h=h_0) over S : Y\n}",
        [("    X", 0), ("h=h_0", 1)],
    ),
    "over an axis of the cell": (
        TEXTS.replace("y [B, D] {", "y [B, D_h] {").replace("h [B, D] ", "h [B, D_h] ")
        .replace("⊕<-h", "•<=W -> ⊕<-h").replace("    state", "    param W [D, D_h]\n    state")
        .replace("D = 16", "D = 16, D_h = 24"),
        "R(X [B, S, D]) -> Y [B, S, D_h] {\n    X -> Cell over D : Y\n}",
        [("Cell over D", 0)],
    ),
    "over an axis of the cell, in silence": (
        TEXTS,
        "R(X [B, S, D]) -> Y [B, S, D] {\n    X -> Cell over D : Y\n}",
        [("Cell over D", 0)],
    ),
    "a share with a point": (SHARES.format("1.25*S*k/N_E"), ROUTED, [("1.25*S*k/N_E", 0)]),
    "a share of a sum": (SHARES.format("S*k*0.5 + 1"), ROUTED, [("S*k*0.5", 0)]),
    "a share that is divided by": (SHARES.format("S*k/N_E/0.8"), ROUTED, [("S*k/N_E/0.8", 0)]),
    "a half": (SHARES.format("(S + 1)*0.5"), ROUTED, [("(S + 1)*0.5", 0)]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_helps_of_a_newcomer_lead_to_a_program(case: str) -> None:
    head, block, wrong = CASES[case]
    text = f"{head}\nblock {block}\n"
    (found,) = refused(text)
    lines = QUOTED.findall("\n".join(found.help))
    for written, place in wrong:
        assert text.count(written) == 1, written
        line = lines[place].removesuffix("…)")
        # a line above goes in front, anything else in the place of what is wrong
        text = text.replace(written, f"    {line}\n{written}" if written == "    X" else line)
    assert refused(text) == [], text


def test_a_pool_goes_along_the_axes_that_a_label_has_shorter() -> None:
    block = "block A(X [B, C, H, W]) -> Y [B, C, H/2, W/2] {\n    X -> maxpool(2) : Y\n}\n"
    (found,) = refused(f"dim B, C, H = 8, W = 6\n{block}")
    assert found.help == ("name it: maxpool[H, W](k=2)",)
    mended = block.replace("maxpool(2)", "maxpool[H, W](k=2)")
    assert refused(f"dim B, C, H = 8, W = 6\n{mended}") == []


def test_a_kernel_of_torch_is_turned_with_its_operand() -> None:
    text = f"{IMAGES}\nblock A(X [B, C, H, W]) -> Y [B, D, H, W] {{\n    param K [D, C, 3, 3]\n"
    text += "    X -> conv[H, W](K, pad=1) : Y\n}\n"
    (found,) = refused(text)
    assert "T[b, c, h, w -> b, h, w, c] -> conv[H, W](" in found.help[0]
    assert found.help[1] == "a kernel [D, C/groups, k, k] of elsewhere is [k, k, C/groups, D] here"
    text = text.replace("[D, C, 3, 3]", "[3, 3, C, D]")
    text = text.replace("-> conv[H, W](", QUOTED.findall(found.help[0])[0].removesuffix("…)"))
    (found,) = refused(text)
    assert found.message == "the label says [B, D, H, W], but the edge has [B, H, W, D]"
    assert found.help == ("T reorders axes",)
    assert refused(text.replace("pad=1) :", "pad=1) -> T :")) == []


@pytest.mark.parametrize(("given", "start"), [("zeros", "zeros"), ("ones", "ones"), ("0.5", "0.5"),
                                              ("-1", "-1"), ("zeros[B, D]", "zeros")])  # fmt: skip
def test_a_number_is_a_start_where_the_state_is(given: str, start: str) -> None:
    block = f"block R(X [B, S, D]) -> Y [B, S, D] {{\n    X -> Cell(h={given}) over S : Y\n}}\n"
    (found,) = refused(f"{TEXTS}\n{block}")
    line = f"state h [B, D] = {start}"
    assert found.help == (f"set a number where the state is declared: {line}",)
    mended = TEXTS.replace("state h [B, D] = zeros", line)
    assert refused(f"{mended}\n{block.replace(f'(h={given})', '')}") == []


def test_a_number_of_many_digits_has_no_fraction() -> None:
    (found,) = refused(f"{SHARES.format('0.123456789*S')}\nblock {ROUTED}\n")
    assert found.help == ("a size can use dims, numbers and + - * / ^",)
