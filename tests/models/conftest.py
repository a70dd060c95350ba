"""Each family's witness, made once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from models.families import Family
from models.more_families import EVERY, ONE_OF_EACH
from models.witness import Witness

MADE: dict[str, Witness] = {}


def _made(name: str, folders: pytest.TempPathFactory, family: Family | None = None) -> Witness:
    if name not in MADE:
        MADE[name] = Witness.of(family or EVERY[name], folders.mktemp("witness"))
    return MADE[name]


@pytest.fixture(scope="session")
def witness_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Family], Witness]:
    """Gives a family's witness by its name; no two families have one name."""
    return lambda name, family: _made(name, tmp_path_factory, family)


@pytest.fixture(scope="session", params=list(EVERY))
def witness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Witness:
    return _made(request.param, tmp_path_factory)


@pytest.fixture(scope="session", params=ONE_OF_EACH)
def one_of_each(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Witness:
    """For what has to do with names, layouts and types: the first family of each file of names."""
    return _made(request.param, tmp_path_factory)
