"""Each planted error is one change of code, and the tables name files and tests that exist."""

from __future__ import annotations

import ast
import operator
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from mutants import reach
from mutants.plant import Mutant, mutants
from mutants.rooms import ROOMS, ROOT
from mutants.seen import Record, Seen, ordered

SOURCE = '''\
"""A module."""
LIMIT: int = 3


def f(x: int | None, names: list[str]) -> bool:
    """Return something: 1 + 1 is no code."""
    assert x != 7
    if x is None or g(x, 2) < LIMIT:
        return not names
    return any(-x for name in names if name == "a - b")
'''


def test_every_change_is_one_place_of_code(tmp_path: Path) -> None:
    path = tmp_path / "case.py"
    path.write_text(SOURCE, encoding="utf-8")
    found = mutants(path, tmp_path)
    assert [f"{each}".partition(": ")[2] for each in found] == [
        "3 => 4",
        "x is None or g(x, 2) < LIMIT => x is None and g(x, 2) < LIMIT",
        "x is None => x is not None",
        "g(x, 2) < LIMIT => g(x, 2) <= LIMIT",
        "g(x, 2) => g(2, x)",
        "2 => 3",
        "not names => names",
        '(-x for name in names if name == "a - b") => (-x for name in names)',
        "-x => x",
        "name == \"a - b\" => name != 'a - b'",
    ]
    for each in found:
        assert ast.dump(ast.parse(each.text)) != ast.dump(ast.parse(SOURCE))


def test_nothing_is_planted_that_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "case.py"
    lines = ("f('a', \"a\", max(x, y), x.swapaxes(y, z))", "t.promote_types(x, y)")
    path.write_text("\n".join((*lines, "zip(x, x, strict=True)\n")), encoding="utf-8")
    assert mutants(path, tmp_path) == []


def test_tables_name_what_exists() -> None:
    for room in ROOMS.values():
        assert all(any(ROOT.glob(pattern)) for pattern in room.files)
        assert all((ROOT / test.partition("::")[0]).exists() for test in room.tests)
    record = tomllib.loads(Path(__file__).with_name("equivalent.toml").read_text("utf-8"))
    places = {each["mutant"].partition(":")[0] for each in record["equivalent"]}
    found = {place: {str(each) for each in mutants(ROOT / place, ROOT)} for place in places}
    for each in record["equivalent"]:
        assert each["mutant"] in found[each["mutant"].partition(":")[0]], each["mutant"]
        assert each["why"]


def test_what_ran_is_known_by_block(tmp_path: Path) -> None:
    path = tmp_path / "case.py"
    path.write_text(SOURCE, encoding="utf-8")
    tree = ast.parse(SOURCE)
    blocks = [part.block for part in reach.parts(tree, "case.py")]
    assert blocks == [reach.Block("case.py", "f", number) for number in (0, 1)]
    places = {mutant.before: _block(path, mutant, tmp_path) for mutant in mutants(path, tmp_path)}
    assert places["3"] is None
    assert places["x is None"] == blocks[0]
    assert places["not names"] == blocks[1]
    watch = reach.Watch(blocks)
    namespace: dict[str, Any] = {reach.NAME: watch.ran, "g": operator.add}
    exec(compile(reach.watched(tree, "case.py", watch.places), "case.py", "exec"), namespace)
    assert namespace["f"].__doc__ == "Return something: 1 + 1 is no code."
    namespace["f"](5, [])
    assert bytes(watch.ran) == b"\1\0"
    namespace["f"](None, [])
    assert bytes(watch.ran) == b"\1\1"


def _block(path: Path, mutant: Mutant, root: Path) -> reach.Block | None:
    return reach.block_at(path, mutant.start, mutant.end, root)


def test_the_order_of_tests() -> None:
    block, other = reach.Block("a.py", "f", 0), reach.Block("a.py", "f", 1)
    ran = {"slow": 1.0, "quick[a]": 0.01, "quick[b]": 0.02, "own": 0.02, "killer": 0.1}
    both, first = np.array([1, 1], np.uint8), np.array([1, 0], np.uint8)
    tests = [Seen(name, spent, both, useful=True) for name, spent in ran.items()]
    tests += [
        Seen("elsewhere", 0.01, first, useful=True),
        Seen("broken", 0.01, both, useful=False),
    ]
    record = Record([block, other], tests)
    near = record.near(other, "a.py")
    assert set(near) == set(ran)
    assert set(record.near(None, "a.py")) == {*ran, "elsewhere"}
    assert set(record.near(reach.Block("a.py", "f", 2), "a.py")) == {*ran, "elsewhere"}
    assert record.near(reach.Block("b.py", "g", 0), "b.py") == []
    assert set(record.near(None, "b.py")) == {*ran, "elsewhere"}
    order = ordered(near, record, {"killer": 3}, ["own"])
    assert order == ["killer", "own", "quick[a]", "quick[b]", "slow"]
