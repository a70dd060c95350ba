"""Examples in docstrings are tried wherever they are, and nothing else is searched for them."""

from pathlib import Path

import doctests
import pytest
from _pytest.doctest import DoctestModule

WITH_EXAMPLE = 'def twice(x: int) -> int:\n    """Double.\n\n    >>> twice(2)\n    4\n    """\n'


def collected(session: pytest.Session, path: Path) -> list[pytest.Collector]:
    """Return what is kept of the collectors of a file, one of tests and one of doctests."""
    both: list[pytest.Collector] = [
        kind.from_parent(session, path=path)  # pyright: ignore[reportUnknownMemberType]
        for kind in (pytest.Module, DoctestModule)
    ]
    collecting = doctests.pytest_collect_file(path)
    next(collecting)
    with pytest.raises(StopIteration) as ended:
        collecting.send(both)
    return ended.value.value


@pytest.mark.parametrize(("text", "kept"), [(WITH_EXAMPLE, 2), ("def test() -> None: ...\n", 1)])
def test_only_a_file_with_an_example_is_searched(
    request: pytest.FixtureRequest, tmp_path: Path, text: str, kept: int
) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)
    of = collected(request.session, path)
    assert len(of) == kept
    assert type(of[0]) is pytest.Module


def test_the_session_uses_it(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.is_registered(doctests)
