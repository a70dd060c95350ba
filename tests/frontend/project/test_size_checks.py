"""Numbers for sizes: impossible ones are refused, with a suggestion that works."""

from pathlib import Path

import pytest

import xg
from xg.diagnostics.limits import DimSize

TEXT = """\
dim B, S, S_max = 8, D = 12, N_H = 3, D_h = D/N_H, N = 2

block Part(X [B, S, D]) -> Y [B, S, D] {
    X -> R : H [B, N_H, S, D_h] -> S -> R : Y
}

block Net(ids [B, S] in S_max) -> Y [B, S, D] {
    param P [S_max, D]
    range(S) -> Emb(P) : PE [S, D]
    ids -> Emb(P) -> ⊕<-BC(PE) -> N × Part as parts : Y
}
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    (tmp_path / "net.xg").write_text(TEXT, encoding="utf-8")
    return tmp_path / "net.xg"


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"N_H": 5}, "D_h = D/N_H = 12/5 is not a whole number"),
        ({"S": 9}, "S = 9 is more than S_max = 8"),
        ({"B": 0}, "B = 0: it is at least 1"),
        ({"N": -1}, "N = -1: it is at least 0"),
        ({"D": DimSize.maximum + 1, "N_H": 1}, "this axis has 2,147,483,648 positions"),
    ],
)
def test_numbers_that_cannot_be(net: Path, sizes: dict[str, int], message: str) -> None:
    with pytest.raises(xg.DiagnosticError) as caught:
        xg.compile(net, sizes=sizes)
    assert message in str(caught.value)
    assert "net.xg:" in str(caught.value)


@pytest.mark.parametrize("sizes", [{"N_H": 4}, {"S": 8}, {"B": 1}, {"N": 0}, {"D": 3}])
def test_numbers_that_can_be(net: Path, sizes: dict[str, int]) -> None:
    assert xg.compile(net, sizes=sizes)


def test_a_row_of_half_as_many_is_whole(net: Path) -> None:
    """Without this a row of an odd number was cut short: of one layer it had none."""
    text = TEXT.replace("N × Part", "N_P × Part").replace("dim ", "dim N_P = N/2, ", 1)
    net.write_text(text, encoding="utf-8")
    assert xg.compile(net, sizes={"N": 4})
    with pytest.raises(xg.DiagnosticError, match="N_P = N/2 = 5/2 is not a whole number"):
        xg.compile(net, sizes={"N": 5})


def test_what_would_do_is_told(net: Path) -> None:
    with pytest.raises(xg.DiagnosticError, match="N_H may be 1, 2, 3, 4, 6 or 12"):
        xg.compile(net, sizes={"N_H": 5})


def test_a_size_that_nothing_uses_is_not_judged(net: Path) -> None:
    path = net.with_name("plain.xg")
    path.write_text(
        "dim B, D = 12, N_H = 5, D_h = D/N_H\n"
        "block Net(X [B, D]) -> Y [B, D] {\n    X -> ReLU : Y\n}\n"
    )
    assert xg.compile(path).inputs["X"].shape == ("B", 12)


def test_numbers_of_a_call_are_judged_there(net: Path) -> None:
    text = TEXT.replace("N × Part as parts", "Part(N_H=5) as parts")
    net.write_text(text, encoding="utf-8")
    with pytest.raises(xg.DiagnosticError, match="12/5 is not a whole number"):
        xg.compile(net)


TWO_WIDTHS = """\
dim B, D = 6, E = 10, N_H = 2, D_h = D/N_H, E_h = E/N_H
block G(Z [B, E]) -> W [B, N_H, E_h] {
    Z -> R : W
}
block F(X [B, D], Z [B, E]) -> Y [B, N_H, D_h], W [B, N_H, E_h] {
    X -> R : Y
    Z -> G : W
}
"""


@pytest.mark.parametrize("heads", [3, 4, 5])
def test_a_divisor_is_proposed_with_which_all_sizes_are_whole(heads: int) -> None:
    """Of the block and of those that it calls: 3 divides D alone, 5 E alone."""
    alone = TWO_WIDTHS.replace("Z -> G : W", "Z -> R : W")
    for text in (TWO_WIDTHS, alone):
        with pytest.raises(xg.DiagnosticError) as caught:
            xg.compile(source=text, sizes={"N_H": heads})
        assert {each.help for each in caught.value.diagnostics} == {("N_H may be 1 or 2",)}
    with pytest.raises(xg.DiagnosticError, match="N_H may be 1, 2, 5 or 10"):
        xg.compile(source=TWO_WIDTHS, block="G", sizes={"N_H": 4})
