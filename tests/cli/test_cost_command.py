"""`xg cost`: formulas and numbers."""

import json

from cli.conftest import Xg


def test_formulas_for_free_sizes_and_numbers_for_bound_ones(xg: Xg) -> None:
    said = xg("cost", "tiny.xg").out
    assert "2*D + 4*D^2" in said  # b, W and V with D_ff = 2*D
    assert "in numbers: D = 4, B free (--set B=…)" in said
    assert "?" in said
    bound = xg("cost", "tiny.xg", "--set", "B=3").out
    assert "in numbers: B = 3, D = 4" in bound
    assert "?" not in bound


def test_the_same_as_data(xg: Xg) -> None:
    found = json.loads(xg("cost", "tiny.xg", "--json", "--set", "B=3").out)
    assert found["total"]["parameters"] == {"formula": "2*D + 4*D^2", "number": 72}
    assert found["total"]["communication"] == {"formula": "0", "number": 0}
    (block,) = found["blocks"]
    rows = {row["operator"]: row for row in block["rows"]}
    assert rows["•"]["forward_flops"] == "4*B*D^2"
    assert rows["•"]["backward_flops"] == "8*B*D^2"


def test_the_type_decides_the_bytes(xg: Xg) -> None:
    def saved(dtype: str) -> int:
        words = ["cost", "tiny.xg", "--json", "--set", "B=3", "--dtype", dtype]
        return json.loads(xg(*words).out)["total"]["saved_bytes"]["number"]

    mask = 3 * 8  # one byte for each number that dropout may drop
    assert saved("float64") - mask == 2 * (saved("float32") - mask)
