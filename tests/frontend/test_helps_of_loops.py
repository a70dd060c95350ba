"""Helps around loops, windows, convolutions and experts: what they say, and that it compiles."""

from __future__ import annotations

import pytest
from frontend.refused import refused

DIMS = "dim B, S, D = 4"
CELL = f"""{DIMS}

block Cell(x [B, D]) -> y [B, D] {{
    state h [B, D]
    x -> ⊕<-h -> tanh : y
    next h = y
}}
"""
TWO = f"""{DIMS}

block Cell(x [B, D]) -> y [B, D] {{
    state h, c [B, D]
    x -> ⊕<-h -> ⊕<-c : c_n
    c_n -> tanh : y
    next h, c = y, c_n
}}
"""
ROUTED = """dim B, S, D = 8, N_E = 4, k = 2

block A(X [B, S, D]) -> Y [B, S, D] {
    param W_r [D, N_E]
    X -> •<=W_r -> S -> topk(k) : g, e
    X -> dispatch(N_E, S)<-e : x_E, slot, dropped
    x_E -> combine<-slot<-g : Y
}
"""
IMAGES = """dim B, H, W, C = 8, D = 16

block A(X [B, H, W, C]) -> Y [B, H, W, D] {
    param K [3, 3, C, D]
    X -> conv[H, W](K, pad=1) : Y
}
"""
WINDOW = (
    "op Window(a [.., S, T]; w) = select(and(i >= j, w > i - j), a, -inf) "
    "where i = range[S](T - S), j = range[T]"
)


def over(chain: str, head: str = "X [B, S, D]) -> Y [B, S, D]", cell: str = CELL) -> str:
    return f"{cell}\nblock R({head} {{\n    {chain}\n}}\n"


def block(chain: str, head: str = "X [B, S, D]) -> Y [B, S, D]", dims: str = DIMS) -> str:
    return f"{dims}\n\nblock A({head} {{\n    {chain}\n}}\n"


# A program, a help for it, and the edits that this help says.
CASES: dict[str, tuple[str, str, list[tuple[str, str]]]] = {
    "a start that arrives": (
        over("X, h_0 -> Cell over S : Y", "X [B, S, D], h_0 [B, D]) -> Y [B, S, D]"),
        "set the start of a state in the call: `X -> Cell(h=h_0) over S`",
        [("X, h_0 -> Cell over S", "X -> Cell(h=h_0) over S")],
    ),
    "two starts that arrive": (
        over(
            "X, a, b -> Cell over S : Y",
            "X [B, S, D], a, b [B, D]) -> Y [B, S, D]",
            cell=TWO.replace("next h, c = y,", "next h = y, c ="),
        ),
        "set the start of a state in the call: `X -> Cell(h=a, c=b) over S`",
        [("X, a, b -> Cell over S", "X -> Cell(h=a, c=b) over S")],
    ),
    "a start beside an argument": (
        over(
            "X, h_0 -> Cell(p=0.5) over S reversed : Y",
            "X [B, S, D], h_0 [B, D]) -> Y [B, S, D]",
            cell=CELL.replace("(x [B, D])", "(x [B, D]; p = 0.1)").replace("-> tanh", "-> DO(p)"),
        ),
        "set the start of a state in the call: `X -> Cell(p=0.5, h=h_0) over S reversed`",
        [("X, h_0 -> Cell(p=0.5)", "X -> Cell(p=0.5, h=h_0)")],
    ),
    "next of an input": (
        over(
            "X, h_0 -> Cell over S : Y",
            "X [B, S, D], h_0 [B, D]) -> Y [B, S, D]",
            cell=CELL.replace("(x [B, D])", "(x [B, D], h [B, D])").replace(
                "    state h [B, D]\n", ""
            ),
        ),
        "write it as a line of the block instead of an input, `state h [B, D]`; "
        "a call gives its start: Cell(h=…) over …",
        [
            (", h [B, D]) -> y [B, D] {\n", ") -> y [B, D] {\n    state h [B, D]\n"),
            ("X, h_0 -> Cell over S", "X -> Cell(h=h_0) over S"),
        ],
    ),
    "a state that is an input as well": (
        over(
            "X, h_0 -> Cell over S : Y",
            "X [B, S, D], h_0 [B, D]) -> Y [B, S, D]",
            cell=CELL.replace("(x [B, D])", "(x [B, D], h [B, D])"),
        ),
        "a state is not an input: remove h from the inputs; its start is set in the call: "
        "Cell(h=…)",
        [(", h [B, D]) -> y", ") -> y"), ("X, h_0 -> Cell over S", "X -> Cell(h=h_0) over S")],
    ),
    "a state that is made again and used": (
        over("X -> Cell over S : Y").replace(
            "tanh : y\n    next h = y", "tanh : h\n    h -> ReLU : y"
        ),
        "below it, h is the state before the round, and h_1 the new one",
        [("tanh : h\n    h ->", "tanh : h_1\n    next h = h_1\n    h_1 ->")],
    ),
    "the last round": (
        over("X -> Cell over S : Y", "X [B, S, D]) -> Y [B, D]"),
        "it has all rounds: `-> pick[S](S - 1)` takes the last, mean[S] or sum[S] all",
        [("over S", "over S -> pick[S](S - 1)")],
    ),
    "the last round backwards": (
        over("X -> Cell over S reversed : Y", "X [B, S, D]) -> Y [B, D]"),
        "it has all rounds: `-> pick[S](0)` takes the last, mean[S] or sum[S] all",
        [("reversed", "reversed -> pick[S](0)")],
    ),
    "a state without the batch": (
        over("X -> Cell over S : Y").replace("h [B, D]", "h [D]").replace("⊕<-h", "⊕<-BC(h)"),
        "write `state h [B, D]`",
        [("state h [D]", "state h [B, D]"), ("BC(h)", "h")],
    ),
    "a call in both directions": (
        over(
            "X -> Cell over S : f\n    X -> Cell over S reversed : b\n    f, b -> ⊕ : Y"
        ),
        "give each its own name: Cell over S as first_cell",
        [("Cell over S :", "Cell over S as first_cell :")],
    ),
    "an axis of no name": (
        over("X -> Cell over T : Y"),
        "T is not an axis of the operands: write `over S`",
        [("over T", "over S")],
    ),
    "two axes more than a round takes": (
        over("X -> Cell over S : Y", "X [B, S, N, D]) -> Y [B, S, N, D]").replace(
            "S, D = 4", "S, N, D = 4"
        ),
        "to give each round all of it, declare `x [B, N, D]` in Cell",
        [("x [B, D]", "x [B, N, D]"), ("y [B, D]", "y [B, N, D]"), ("h [B, D]", "h [B, N, D]")],
    ),
    "a mask for a port of floats": (
        over("X, m -> Cell over S : Y", "X [B, S, D], m [B, S] in 2) -> Y [B, S, D]").replace(
            "x [B, D])", "x [B, D], t [B])"
        ).replace("⊕<-h", "⊕<-h -> gate<-t").replace(
            "block Cell", "op gate(x [.., D], t [..] in N) = x * t\n\nblock Cell"
        ),
        "declare the range of an integer port: `t [B] in 2`",
        [("t [B])", "t [B] in 2)")],
    ),
    "an operator that compares places": (
        block(
            "range(S) : i\n    m, i -> after : f\n    X -> ⊙<-BC[s -> b, s, d](f) : Y",
            "X [B, S, D], m [S]) -> Y [B, S, D]",
        ).replace("\n\n", "\n\nop after(a [S], i [S]) = select(i >= 2, a, 0)\n\n", 1)
        .replace("b, s, d]", "b=B, s, d=D]"),
        "after takes integers where its signature says so: i [S] in N",
        [("i [S])", "i [S] in N)")],
    ),
    "attention in a window": (
        block("X -> •<=T(X) -> SM(causal, window=2) -> S -> •<=X : Y"),
        f"a window is an op of your own: {WINDOW}, and then -> Window(2)",
        [("SM(causal, window=2)", "Window(2)"), ("D = 4\n", f"D = 4\n{WINDOW}\n")],
    ),
    "a mask as a node": (
        block("X -> •<=T(X) -> scale(1/sqrt(D)) -> mask(causal) -> S -> •<=X : Y"),
        "a mask is a part of SM: SM(causal) or SM<-M; SM(1/sqrt(D_h), causal) scales, too",
        [("mask(causal)", "SM(causal)")],
    ),
    "windows with a stride": (
        IMAGES.replace("Y [B, H, W, D]", "Y [B, H/2, W/2, D]").replace("pad=1", "stride=2"),
        "pad=1 gives H/2",
        [("stride=2", "stride=2, pad=1")],
    ),
    "a kernel of even width": (
        IMAGES.replace("[3, 3, C, D]", "[4, C, D]").replace("[H, W](K, pad=1)", "[W](K, pad=3)"),
        "a window over 4 positions keeps the length if it is causal",
        [("pad=3", "causal")],
    ),
    "a kernel for each channel": (
        IMAGES.replace("W, D]", "W, C]").replace("C, D]", "C, 1]").replace("(K,", "(K, groups=C,")
        .replace(", D = 16", ""),
        "the channels that go in are before those that go out: [3, 3, 1, C]",
        [("[3, 3, C, 1]", "[3, 3, 1, C]")],
    ),
    "pools of whole axes": (
        IMAGES.replace("conv[H, W](K, pad=1)", "avgpool[H, W]")
        .replace("Y [B, H, W, D]", "Y [B, C]")
        .replace("    param K [3, 3, C, D]\n", "")
        .replace(", D = 16", ""),
        "windows are pooled by maxpool[H, W](k=2) and meanpool[H, W](k=2), whole axes by "
        "mean[H, W]",
        [("avgpool[H, W]", "mean[H, W]")],
    ),
    "experts of each position": (
        ROUTED.replace("topk(k)", "topk[S](k)"),
        "topk chooses among the experts of a token: [B, S, N_E]",
        [("topk[S](k)", "topk(k)")],
    ),
    "weights in the place of experts": (
        ROUTED.replace("<-e :", "<-g :"),
        "g are the values that topk chose, and e their places",
        [("<-g :", "<-e :")],
    ),
    "weights before places": (
        ROUTED.replace("<-slot<-g", "<-g<-slot"),
        "pass operands in order: write `combine<-slot<-g`",
        [("combine<-g<-slot", "combine<-slot<-g")],
    ),
    "weights in the place of places": (
        ROUTED.replace("<-slot<-g", "<-g<-g"),
        "dispatch returns the places, as its second result",
        [("<-g<-g", "<-slot<-g")],
    ),
    "one name for three results": (
        ROUTED.replace(": x_E, slot, dropped", ": x_E"),
        "name all of them: `: x_E, slot, dropped`",
        [(": x_E\n", ": x_E, slot, dropped\n")],
    ),
    "a name that another result has": (
        ROUTED.replace(": x_E, slot, dropped", ": slot").replace("x_E ->", "rows ->"),
        "name all of them: `: rows, slot, dropped`",
        [(": slot", ": rows, slot, dropped")],
    ),
    "experts without places": (
        ROUTED.replace("(N_E, S)", "(N_E)"),
        "all that it needs: dispatch(experts, capacity)",
        [("(N_E)", "(N_E, S)")],
    ),
    "a value in parentheses": (
        over("X -> Cell(g) over S : Y", "X, g [B, S, D]) -> Y [B, S, D]").replace(
            "x [B, D])", "x, a [B, D])"
        ).replace("⊕<-h", "⊕<-h -> ⊙<-a"),
        "pass a value from another node by an arrow: Cell<-g",
        [("Cell(g)", "Cell<-g")],
    ),
    "an arrow after next": (
        over("X -> Cell over S : Y").replace("next h =", "next h <-"),
        "write `next h = y`",
        [("next h <- y", "next h = y")],
    ),
    "a state that is assigned": (
        over("X -> Cell over S : Y").replace("state h [B, D]", "h = zeros"),
        "write `state h [B, D] = zeros`",
        [("h = zeros", "state h [B, D] = zeros")],
    ),
    "the state of the iteration before": (
        over("X -> Cell over S : Y").replace("⊕<-h", "⊕<-h[t-1]"),
        "write `h`",
        [("h[t-1]", "h")],
    ),
    "backwards": (
        over("X -> Cell over S backwards : Y"),
        "write `over S reversed`",
        [("over S backwards", "over S reversed")],
    ),
    "a state as an input": (
        over("X -> Cell over S : Y").replace("x [B, D])", "x [B, D], h [B, D])")
        .replace("    state h [B, D]\n", ""),
        "a value that goes from round to round is a state: `state h [B, D]`, and `next` sets it",
        [(", h [B, D])", ")"), ("{\n    x", "{\n    state h [B, D]\n    x")],
    ),
    "a recurrence in one block": (
        over("state h [B, D]\n    X -> tanh over S : Y\n    next h = Y"),
        "put the round and the state h into a block of their own, and call it: "
        "-> Cell over S",
        [
            ("state h [B, D]\n    X", "X"),
            ("tanh over S", "Cell over S"),
            ("    next h = Y\n", ""),
        ],
    ),
    "the last state of a call": (
        over(
            "X -> Cell over S : Y\n    Cell.h -> tanh : z",
            "X [B, S, D]) -> Y [B, S, D], z [B, D]",
        ),
        "the last states are results, named after the outputs: `: y, h`",
        [("S : Y", "S : Y, h"), ("Cell.h", "h")],
    ),
    "positions that go round": (
        block("X -> roll[S](1) : Y"),
        "positions go round by C: (X -> slice[S](S - 1, S)), (X -> slice[S](0, S - 1)) -> C[S]",
        [("X -> roll[S](1)", "(X -> slice[S](S - 1, S)), (X -> slice[S](0, S - 1)) -> C[S]")],
    ),
    "a word with a value": (
        IMAGES.replace("[3, 3, C, D]", "[3, C, D]").replace("[H, W](K, pad=1)", "[W](K, causal=1)"),
        "a word has no name: write `causal`",
        [("causal=1", "causal")],
    ),
    "a convolution of one axis": (
        IMAGES.replace("[3, 3, C, D]", "[3, C, D]").replace("conv[H, W]", "conv1d"),
        "a convolution is conv[S](K, b, pad=1), with param K [3, C, D], b [D]",
        [("conv1d", "conv[W]")],
    ),
    "a causal softmax": (
        block("X -> •<=T(X) -> S(causal) -> •<=X : Y"),
        "a mask is a part of SM: write `SM(causal) -> S`",
        [("S(causal)", "SM(causal) -> S")],
    ),
    "places along two axes of one name": (
        block("X -> •<=T(X) -> seen -> S -> •<=X : Y").replace(
            "\n\n", "\n\nop seen(a [.., S, S]) = select(range[S] >= range[S], a, -inf)\n\n", 1
        ),
        "places are range[S] along the first, and range[S_2] along the second",
        [("[.., S, S]", "[.., S, S_2]"), (">= range[S]", ">= range[S_2]")],
    ),
    "matrices of the experts of a token": (
        block("X -> •<=W[e] : Y", "X [B, S, D], e [] in S, W [S, D, D]) -> Y [B, S, D]"),
        "write `(W -> gather[S]<-e)`",
        [("W[e]", "(W -> gather[S]<-e)")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_help_says_what_compiles(case: str) -> None:
    text, help, edits = CASES[case]
    found = [line for each in refused(text) for line in each.help]
    assert help in found, found
    for wrong, right in edits:
        assert wrong in text, wrong
        text = text.replace(wrong, right, 1)
    assert refused(text) == [], text
