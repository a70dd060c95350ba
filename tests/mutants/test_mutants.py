"""Each planted error is one change of code, and the tables name files and tests that exist."""

from __future__ import annotations

import ast
import operator
from importlib import import_module
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
from mutants import reach, seen
from mutants.__main__ import equivalents, is_known, judge, score
from mutants.plant import Mutant, mutants
from mutants.rooms import ROOT, SOURCES, files, rooms
from mutants.seen import Record, Seen, ordered
from mutants.trial import SUPPORT, copied_texts

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
    assert [f"{each}".split(": ", 2)[2] for each in found] == [
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


def test_every_source_file_belongs_to_a_room() -> None:
    written = {path for name in SOURCES for path in (ROOT / name).rglob("*.py")}
    grouped = [path for paths in rooms().values() for path in paths]
    assert sorted(grouped) == sorted(written)
    assert set(files("passes/shard")) == set((ROOT / "compiler/xg/passes/shard").rglob("*.py"))
    assert list(files("ir/dim.py")) == [ROOT / "compiler/xg/ir/dim.py"]
    assert list(files("no_such_room")) == []


def test_every_equivalent_mutant_exists() -> None:
    for name, why in equivalents().items():
        room, place, _ = name.split(": ", 2)
        word = place.rpartition(".")[2]
        near = (path for path in files(room) if word in path.read_text("utf-8"))
        assert any(is_known(each, [name]) for path in near for each in mutants(path)), name
        assert why


def test_the_writer_of_copied_functions_is_where_the_record_looks() -> None:
    import_module("xg.codegen.numpy.dialect")
    assert import_module(SUPPORT).SupportFile.source
    paths = {path for path in copied_texts() if path.is_relative_to(ROOT)}
    assert ROOT / "compiler/xg/codegen/numpy/support.py" in paths


def test_a_mutant_that_no_test_reaches_is_not_killed(tmp_path: Path) -> None:
    path = tmp_path / "case.py"
    path.write_text(SOURCE, encoding="utf-8")
    here, _ = Pipe()
    assert judge(mutants(path, tmp_path)[0], [], Record([], []), here)[0] == "not tested"
    assert score({"planted": 5, "killed": 3, "equivalent": 1, "not tested": 1}).strip() == "75.0 %"


def test_a_record_outlives_moves_and_changes() -> None:
    old = {reach.Block("a.py", "f", 0): "x", reach.Block("a.py", "g", 0): "y"}
    moved = {reach.Block("b.py", "f", 0): "x", reach.Block("a.py", "g", 1): "changed"}
    new = {reach.Block("c.py", "h", 0): "z"}
    assert list(seen.matches(old, {**moved, **new})) == [[0], [1], []]


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
    assert record.near(reach.Block("a.py", "f", 2), "a.py") == []
    assert record.near(None, "b.py") == []
    assert set(record.near(None, "b.py", ["a.py"])) == {*ran, "elsewhere"}
    order = ordered(near, record, {"killer": 3}, ["own"])
    assert order == ["killer", "own", "quick[a]", "quick[b]", "slow"]
