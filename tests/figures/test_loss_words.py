"""The box of a loss says over what it is a mean: its targets, or those of them that count."""

from __future__ import annotations

import pytest
from library import shipped

import xg
from xg.figures.model.richtext import characters
from xg.figures.views import View

CE = """
dim B, S, V

block Loss (z [B, S, V], t [B, S] in V, w [B, S] in 2) -> loss [] {
    z -> CE(%s)<-t%s : loss
}
"""


def words(program: xg.Program, glyph: str, view: View = "forward") -> str:
    nodes = ((characters(n.label), n) for n in program.figure(view).nodes)
    label, node = next((label, n) for label, n in nodes if label.partition("(")[0] == glyph)
    return label.removeprefix(glyph) + characters(node.detail)


@pytest.mark.parametrize(
    ("arguments", "weights", "expected"),
    [
        ("", "", "mean over B·S"),
        ("sum", "", "(sum)"),
        ("", "<-w", "mean where w = 1"),
        ("ignore=-100", "", "mean where t ≠ −100"),
        ("sum, ignore=0", "<-w", "sum where w = 1, t ≠ 0"),
    ],
)
def test_a_cross_entropy_says_what_it_averages(arguments: str, weights: str, expected: str) -> None:
    source = CE.replace("(%s)", f"({arguments})" if arguments else "").replace("%s", weights)
    if not weights:
        source = source.replace(", w [B, S] in 2", "")
    program = xg.compile(source=source)
    assert words(program, "CE") == words(program, "dCE", "backward") == expected


def test_a_rank_divides_by_the_number_of_all_targets() -> None:
    assert words(xg.compile(shipped("gpt2"), plan="DP"), "CE") == "mean over B·S"


def test_other_losses_say_it_too() -> None:
    assert words(xg.compile(shipped("vae")), "BCE") == "mean over B·D, logits"
    assert words(xg.compile(shipped("vae"), plan="DP"), "BCE") == "mean, logits"
    assert words(xg.compile(shipped("unet"), "Diffusion"), "MSE") == "mean over B·H·W·C"
