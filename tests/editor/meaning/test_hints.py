"""Shapes between the words, while one line of a block is half typed."""

from __future__ import annotations

import pytest
from editor.meaning.places import known

from xg_editor.explain import hints

TEXT = """\
dim B, D = 64, D_ff = 4*D
block F(X [B, D]) -> Y [B, D] {
    param γ [D] = ones, W_up [D, D_ff], W_down [D_ff, D]
    X -> LN(γ) -> tanh : H [B, D]
    H -> •<=W_up : U
    H -> ReLU -> S : G [B, D]
    U -> •<=W_down -> ⊕<-G : Y
}
block G(X [B, D]) -> Y [B, D] {
    X -> F -> S : Y
}
"""
ABOVE = ["LN(γ)[B, D]", "U[B, D_ff]"]
BELOW = ["•<=W_down[B, D]"]
CALLER = ["F[B, D]"]
LINE = "H -> ReLU -> S : G [B, D]"
HALF: dict[
    str, tuple[list[str], list[str]]
] = {  # the line as it is being typed: the shapes that stand in it, and of those behind it
    LINE: (["ReLU[B, D]"], BELOW),
    "H -> ReLU -> RLU : G [B, D]": (["ReLU[B, D]"], BELOW),
    "H -> ReLU -> ": (["ReLU[B, D]"], []),  # goes on in the next line
    "H -> ReLU": (["ReLU[B, D]"], BELOW[:1]),
    "H -> ReLU -> S : G [D": ([], BELOW[:1]),
    "H -> ReLU(": ([], []),
    "HH -> ReLU -> S : G [B, D]": ([], BELOW),
    "H -> ReLU -> S : G [B, D] )": (["ReLU[B, D]"], BELOW),
    "param": ([], BELOW[:1]),
    "": ([], BELOW[:1]),
}


def shown(text: str) -> list[str]:
    """Each shape behind the word that it follows."""
    project, typed = known(text)
    found = sorted(hints(project.main, typed, 0, len(text)), key=lambda each: each.offset)
    return [text[: each.offset].split()[-1] + each.text for each in found]


@pytest.mark.parametrize("line", HALF)
def test_shapes_stay_while_a_line_is_half_typed(line: str) -> None:
    inside, below = HALF[line]
    assert shown(TEXT.replace(LINE, line)) == [*ABOVE, *inside, *below, *CALLER]


def test_an_output_has_the_shape_that_the_head_gives() -> None:
    assert not [hint for hint in shown(TEXT) if hint.startswith("Y")]


def test_a_call_in_front_of_what_it_takes_has_a_shape() -> None:
    text = """\
dim B, D
block F(X [B, D]) -> Y [B, D], Z [B, D] {
    X -> tanh : Y
    T(X) -> S -> T : Z
}
block G(X [B, D]) -> U [B, D], W [B, D] {
    F(X) as f : A, C
    T(A) -> S -> T : U
    f(C) : E, W [B, D]
}
"""
    assert shown(text) == [
        "T(X)[D, B]",
        "S[D, B]",
        "A[B, D]",
        "C[B, D]",
        "T(A)[D, B]",
        "S[D, B]",
    ]


DIMS = "dim B, D = 64, D_ff = 4*D"
HALF_SIZES = (
    "dim B, D = 64, D_ff = 4*D, K = 5x",
    "dim B, D = 64, D_ff = 4*D, K = ",
    "dim B, D = 64, D_ff = 4*D, ",
    "dim B, D = 64, D_ff = 4*D\n, Q = 2",
    "dim B, D = , D_ff = 4*D",
    "dim B, D = 64x, D_ff = 4*D",
    "dim B, D = 64, D_ff = 4*",
    "dim B, D = 64, D_ff = 4*DD",
    "dim B, D = 64, D_ff = 4*D,\ndim",
)


@pytest.mark.parametrize("line", HALF_SIZES)
def test_shapes_stay_while_a_line_of_dims_is_half_typed(line: str) -> None:
    assert shown(TEXT.replace(DIMS, line)) == shown(TEXT)


def test_a_head_that_cannot_be_read_hides_only_what_it_gives() -> None:
    broken = TEXT.replace("block F(X [B, D])", "block F(X")
    other = "block Other(X [B, D]) -> Y [B, D] {\n    X -> S -> tanh : Y\n}\n"
    behind_h = ["U[B, D_ff]", "ReLU[B, D]", *BELOW, "Y[B, D]"]
    assert shown(broken + other) == [*behind_h, "S[B, D]"]
