"""Every name of a file renamed: the blocks are the same graphs, up to names."""

from __future__ import annotations

from pathlib import Path

import pytest

from xg.diagnostics.diagnostic import Source
from xg.frontend.choices import checked
from xg.frontend.project import KnownFiles, Reading, read_for_editor
from xg.ir.graph import Apply
from xg.ops import find
from xg_editor.declared import ProjectNames
from xg_editor.navigation import CannotRename, Occurrences, rename

ROOT = Path(__file__).parents[3]
Graphs = list[tuple[str, tuple[int, ...]]]


def compiled(reading: Reading) -> Graphs:
    """Each step of every block: its operator and where each of its operands was made."""
    assert reading.project is not None
    assert not reading.diagnostics
    result = checked(reading.project)
    assert not result.diagnostics
    found: Graphs = []
    for graph in result.graphs:
        made = {value: place for place, (_, value) in enumerate(graph.names())}
        for step in graph.steps:
            operator = step.op.name if isinstance(step, Apply) else "call"
            if isinstance(step, Apply) and find(step.op.glyph) is None:
                operator = "one of the file, or a gradient"
            found.append((operator, tuple(made.get(value, -1) for value in step.inputs)))
    return found


@pytest.mark.parametrize("name", ["notation/mlp.xg", "examples/gru.xg", "examples/pinn.xg"])
def test_any_name_can_be_another_one(name: str) -> None:
    path = ROOT / "diagrams" / name
    text = path.read_text("utf-8")
    reading = read_for_editor(path, Source(path.name, text), {})
    assert reading.project is not None
    names = Occurrences(reading, ProjectNames(reading.project))
    before = compiled(reading)
    assert any(operands for _, operands in before)
    by_key = {each.key: each for each in names.of_file(reading.project.main) if each.key}
    count = 0
    for found in by_key.values():
        try:
            renaming = rename(found, [names], "other_1", KnownFiles())
        except CannotRename:
            continue  # operators of the language and words
        after = read_for_editor(path, Source(path.name, renaming.apply(path, text)), {})
        assert compiled(after) == before, found.name.name
        count += 1
    assert count > 15


QUERIES = """\
dim N = 2, D = 3

block Queries() -> q [N, D] {
    param table [N, D]

    table -> scale(2) : q
}

block Main(x [N, D]) -> y, z [N, D] {
    Queries(N=N, D=D) as more -> ⊕<-x : y
    y -> ⊕<-more() -> ⊙<-Queries(N=N, D=D) : z
}

example "Ones" of Main {
    given x = [[1, 1, 1], [1, 1, 1]]
    given Queries.table = [[1, 1, 1], [1, 1, 1]], more.table = [[1, 1, 1], [1, 1, 1]]
    expect z = [[8, 8, 8], [8, 8, 8]]
}
"""


@pytest.mark.parametrize(("name", "at", "count"), [("Queries", "block ", 4), ("more", "as ", 3)])
def test_a_call_in_front_of_what_it_takes_is_renamed(name: str, at: str, count: int) -> None:
    path = Path("queries.xg")
    reading = read_for_editor(path, Source(path.name, QUERIES), {})
    assert reading.project is not None
    names = Occurrences(reading, ProjectNames(reading.project))
    found = names.at(reading.project.main, QUERIES.index(at + name) + len(at))
    assert found is not None
    after = rename(found, [names], "other_1", KnownFiles()).apply(path, QUERIES)
    assert after.count("other_1") == count
    assert name not in after
    assert compiled(read_for_editor(path, Source(path.name, after), {})) == compiled(reading)


ZERO = """\
dim D = 3
block Inner(x [D]) -> y [D] {
    param W [D, D]
    x -> stop -> •<=W -> ⊕<-x : y
}
block Outer(x [D]) -> y [D] {
    param W [D, D]
    expect dW = 0
    expect inner.dW = 0
    x -> •<=W -> Inner as inner : y
}
"""


@pytest.mark.parametrize(
    ("at", "line"),
    [
        ("param W", "expect inner.dother = 0"),
        ("{\n    param W [D, D]\n    expect", "expect dother = 0"),
    ],
)
def test_a_gradient_that_a_block_expects_is_renamed_with_its_parameter(at: str, line: str) -> None:
    path = Path("zero.xg")
    reading = read_for_editor(path, Source(path.name, ZERO), {})
    assert reading.project is not None
    names = Occurrences(reading, ProjectNames(reading.project))
    found = names.at(reading.project.main, ZERO.index(at) + at.index("W"))
    assert found is not None
    text = rename(found, [names], "other", KnownFiles()).apply(path, ZERO)
    assert text.count("other") == 3
    assert line in text
