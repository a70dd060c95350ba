"""`xg cost`: formulas and numbers."""

import json

from cli.conftest import Xg


def test_totals_come_first_as_numbers_and_formulas(xg: Xg) -> None:
    head, parameters, forward, *_ = xg("cost", "tiny.xg").out.splitlines()
    assert head.endswith("one step of one device, float32: D = 4, B free (--set B=…)")
    assert parameters.split(maxsplit=2) == ["parameters", "72", "2*D + 4*D^2"]  # b, W, V; D_ff = 2D
    assert forward.split()[:3] == ["forward", "FLOPs", "?"]
    bound = xg("cost", "tiny.xg", "--set", "B=3").out
    assert "float32: B = 3, D = 4\n" in bound
    assert "?" not in bound


def test_in_full_every_operator_follows_the_same_totals(xg: Xg) -> None:
    short, full = (xg("cost", "tiny.xg", "--set", "B=3", *more).out for more in ([], ["--full"]))
    totals, _, rest = short.partition("\n\n")
    assert full.startswith(f"{totals}\n\n")
    more = "--full also lists each operator, memory, traffic and what can be recomputed\n"
    assert rest.endswith(more)
    assert "operator" not in rest.rpartition("\n\n")[0]
    assert "in numbers: B = 3, D = 4" in full
    table = [line.split() for line in full.splitlines()]
    parameters = next(words for words in table if words[:1] == ["total"])
    assert parameters == ["total", "parameters", "2*D", "+", "4*D^2"]
    assert ["communication", "0"] in table
    assert "moments of Adam or AdamW" in full
    assert len(full.splitlines()) > 2 * len(short.splitlines())


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
