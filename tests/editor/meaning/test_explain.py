"""The explanation shown for a place in a file."""

import pytest
from editor.meaning.places import MARK, hover

TEXT = """\
dim B, S, D = 64, D_ff = 4*D, N_L = 2
mesh N_T = 2
option act = GELU | ReLU
op Twice(x) = 2 * x

block MLP "Feed-forward" (X [B, S, D]; p = 0.1) -> Y [B, S, D] {
    param γ [D] = ones, β [D] = zeros
    param W_up [D, D_ff], W_down [D_ff, D]

    X -> LN(γ, β) : H
      -> •<=W_up -> act : U [B, S, D_ff]
      -> •<=W_down -> Twice -> DO(p) -> ⊕<-X : Y
}

block Net(ids [B, S] in V) -> Y [B, S, D] {
    dim V = 2*D
    param E [V, D]

    ids -> Emb(E) : X
      -> N_L × MLP(0.2) as layers -> S : Y
}

plan TP "Tensor parallel" of MLP {
    W_up   [D, D_ff/N_T] -> [..]
    W_down [D_ff/N_T, D]
    X      [B, S/N_T, D]
}
plan All of MLP {
    * [_/N_T, ..]
}
"""


def at(words: str) -> str:
    """The file with a mark where `|` is in the words, which it contains once."""
    before, behind = words.split("|")
    assert TEXT.count(before + behind) == 1, words
    return TEXT.replace(before + behind, before + MARK + behind)


SAID = {
    # edges: in the label, in a use, along an arrow
    "LN(γ, β) : |H": ["H [B, S, D]", "edge of `MLP`", "with D = 64"],
    "act : U| [B": ["U [B, S, D_ff]", "edge of `MLP`", "with D_ff = 256"],
    "X -|> LN": ["[B, S, D]", "with D = 64"],
    "W_up -|> act": ["[B, S, D_ff]", "with D_ff = 256"],
    "•<|=W_up": ["[D, D_ff]", "with D = 64, D_ff = 256"],
    "⊕|<-X": ["[B, S, D]", "with D = 64"],
    # values
    "LN(γ|, β)": [
        "γ [D]",
        "parameter of `MLP`, starts as `ones`",
        "with D = 64",
        "in plan `All`: `[D/N_T]`",
    ],
    "•<=W_up| ->": [
        "W_up [D, D_ff]",
        "parameter of `MLP`, starts at random",
        "with D = 64, D_ff = 256",
        "in plan `TP`: `[D, D_ff/N_T] -> [D, D_ff]`",
        "in plan `All`: `[D/N_T, D_ff]`",
    ],
    "    |X -> LN": [
        "X [B, S, D]",
        "input of `MLP`",
        "with D = 64",
        "in plan `TP`: `[B, S/N_T, D]`",
    ],
    "<=W_|down": [
        "W_down [D_ff, D]",
        "parameter of `MLP`, starts at random",
        "with D_ff = 256, D = 64",
        "in plan `TP`: `[D_ff/N_T, D]`",
        "in plan `All`: `[D_ff/N_T, D]`",
    ],
    "i|ds -> Emb": ["ids [B, S] in V", "input of `Net`"],
    "DO(p|)": ["p = 0.1", "argument of `MLP`"],
    # sizes
    "up [|D, D_ff]": ["dim D = 64", "dim"],
    "D_ff|], W_down": ["dim D_ff = 4*D", "dim, 256 in this file"],
    "[|B, S] in V": [
        "dim B",
        "dim without a size: the inputs decide, or `--set B=…`",
    ],
    "in |V)": ["dim V = 2*D", "dim, 128 in this file"],
    "N_L| ×": ["dim N_L = 2", "dim"],
    "W_up   [D, D_ff/N_|T]": ["mesh N_T = 2", "mesh axis"],
    # nodes
    "-> |S : Y": [
        "**S** softmax",
        "z -> S : p",
        "softmax over the last axis, or the one in brackets; a fully masked row gives zeros",
        "- formula `p_i = exp(z_i) / Σ_j exp(z_j)`",
        "- gradient `dZ = (dP - Σ dP ⊙ P) ⊙ P, Σ over that axis`",
        "here it gives",
        "Y [B, S, D]",
        "with D = 64",
    ],
    "-> Tw|ice ->": [
        "op Twice(x) = 2 * x",
        "operator of the file; its gradient is derived from the expression",
        "here it gives",
        "[B, S, D]",
        "with D = 64",
    ],
    "-> a|ct :": [
        "act = GELU | ReLU",
        "option; `GELU` where nothing is chosen",
        "here it gives",
        "U [B, S, D_ff]",
        "with D_ff = 256",
    ],
    "× M|LP(0.2)": [
        'block MLP "Feed-forward" (X [B, S, D]; p = 0.1) -> Y [B, S, D]',
        "parameters: `γ [D]`, `β [D]`, `W_up [D, D_ff]`, `W_down [D_ff, D]`",
        "here it gives",
        "[B, S, D]",
        "with D = 64",
    ],
    "(x) = 2 * |x": ["x", "operand of `Twice`"],
    # plans, and places of which nothing is known
    "plan T|P": ["plan TP of MLP", "Tensor parallel"],
    'parallel" of M|LP {': [
        'block MLP "Feed-forward" (X [B, S, D]; p = 0.1) -> Y [B, S, D]',
        "parameters: `γ [D]`, `β [D]`, `W_up [D, D_ff]`, `W_down [D_ff, D]`",
    ],
    "= on|es": [],
    "pa|ram γ": [],
    "LN(γ, β)| :": [],
}


@pytest.mark.parametrize("words", SAID)
def test_what_is_said(words: str) -> None:
    assert hover(at(words)).split("\n") == (SAID[words] or [""])


def test_types_that_depend_on_a_choice_are_all_said() -> None:
    text = """\
dim B, D, E = 2*D
option wide = no | yes
block F(X [B, D]) -> Y [B] {
    param W [D, E]
    X -> •<=W if wide = yes : ‸H
    H -> mean : Y
}
"""
    assert "H [B, D] or [B, E]" in hover(text)


def test_a_mistake_leaves_what_comes_before_it_and_what_the_file_promises() -> None:
    text = """\
dim B, D = 64, E = 3
block F(X [B, D]) -> Y [B, D] {
    param W [E, D]
    X -> GELU -> ReLU ‸-> •<=W : H [B, D]
    H -> S : Y
}
"""
    assert hover(text.replace("ReLU ‸->", "ReLU -‸>")) == "[B, D]\nwith D = 64"
    behind = text.replace("‸", "").replace("•<=W : H", "•<=W -‸> tanh : H")
    assert hover(behind) == ""
    broken = text.replace("‸", "").replace("H -> S", "‸H -> S")
    assert hover(broken) == "H [B, D]\nedge of `F`"


def test_a_half_typed_file_still_says_what_names_are() -> None:
    text = """\
dim B, D = 64
block F(X [B, D]) -> Y [B, D] {
    X -> LN -> ‸S : Y
    Y -> (
}
"""
    assert hover(text).startswith("**S** softmax")
    assert hover(text.replace("‸", "").replace("F(X", "F(‸X")).startswith("X [B, D]\ninput of `F`")


def test_greek_letters_are_said_as_they_are_written() -> None:
    text = "dim B, λ = 8\nblock F(X [B, λ]) -> Y [B, λ] {\n    X -‸> ReLU : Y\n}\n"
    assert hover(text) == "[B, λ]\nwith λ = 8"


def test_an_edge_that_the_block_itself_cuts_is_said_so() -> None:
    text = """\
dim B, D = 64
mesh N_T = 2
block F(X [B/N_T, D]) -> Y [B/N_T, D] {
    X -> ReLU : H
    ‸H -> tanh : Y
}
"""
    assert hover(text.replace("‸", "").replace("    X", "    ‸X")).startswith("X [B/N_T, D]\n")
    assert hover(text).startswith("H [B, D]\n")
