"""`xg compare --dropout`: their module drops by the diagram's masks."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.conftest import DIAGRAMS, Said, Xg

FILE = str(DIAGRAMS / "models" / "transformer.xg")
MINI = DIAGRAMS.parent / "examples" / "minigpt"
MODELS = Path(__file__).with_name("dropping.py")
MAP = ("--map", str(MINI / "minigpt.names.toml"))


def compared(xg: Xg, name: str, *more: object) -> Said:
    return xg("compare", FILE, "--module", f"{MODELS}:{name}", *MAP, *more)


@pytest.mark.parametrize("seed", [0, 3])
def test_a_module_that_drops_as_the_diagram_does(xg: Xg, seed: int) -> None:
    said = compared(xg, "right", "--dropout", seed)
    assert said.code == 0, said.out + said.err
    assert (
        "agree: 46 forward tensors, 42 backward tensors and the gradients of 36 parameters"
        in said.out
    )


def test_masks_are_used(xg: Xg) -> None:
    """Without dropout the errors below cannot be seen."""
    for name in ("right", "more", "without", "twice", "inside"):
        assert compared(xg, name).code == 0


def test_a_dropout_that_is_missing_is_named(xg: Xg) -> None:
    said = compared(xg, "without", "--dropout", 3)
    assert said.code == 1
    assert "first forward difference: Y of line 48 in layers.0" in said.out
    assert "likely cause at DO of line 47 in layers.0: DO is left out" in said.out


def test_one_too_many_is_found_where_it_is(xg: Xg) -> None:
    said = compared(xg, "twice", "--dropout", 3)
    assert said.code == 1
    assert "first forward difference: M of line 45 in layers.0" in said.out
    assert "the cause is in: DO of line 44 in layers.0, M of line 45 in layers.0" in said.out


def test_another_part_is_refused_with_both(xg: Xg) -> None:
    said = compared(xg, "more", "--dropout", 3)
    assert said.code == 1
    assert said.err == (
        "xg: the diagram drops 0.1 of AS of line 21 in layers.0.attn [8, 4, 10, 10], but the "
        "module drops 0.2: give both the same probability\n"
    )


def test_what_takes_no_mask_is_refused(xg: Xg) -> None:
    said = compared(xg, "inside", "--dropout", 3)
    assert said.code == 1
    assert "the module drops inside scaled_dot_product_attention, where xg cannot" in said.err


def test_a_diagram_without_dropout_has_no_masks(xg: Xg, folder: Path) -> None:
    text = (DIAGRAMS / "models" / "transformer.xg").read_text(encoding="utf-8")
    (folder / "dry.xg").write_text(text.replace("p = 0.1", "p = 0"), encoding="utf-8")
    said = xg("compare", "dry.xg", "--module", f"{MODELS}:right", *MAP, "--dropout", 3)
    assert (said.code, said.err) == (
        1,
        "xg: --dropout needs a DO in LM, and there is none: leave it out\n",
    )
