"""Each planted error is one change of code, and the tables name files and tests that exist."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

from mutants.plant import mutants
from mutants.rooms import ROOMS, ROOT

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


def test_tables_name_what_exists() -> None:
    for room in ROOMS.values():
        assert all(any(ROOT.glob(pattern)) for pattern in room.files)
        assert all((ROOT / test.partition("::")[0]).exists() for test in room.tests)
    record = tomllib.loads(Path(__file__).with_name("equivalent.toml").read_text("utf-8"))
    for each in record["equivalent"]:
        path = ROOT / each["mutant"].partition(":")[0]
        assert each["mutant"] in map(str, mutants(path, ROOT)), each["mutant"]
        assert each["why"]
