"""Each family's witness, made once."""

from __future__ import annotations

import pytest
from models.more_families import EVERY
from models.witness import Witness
from tier import some

# Of the families that one file of names describes, which differ in what configs say, the first.
ONE_OF_EACH = some(EVERY, lambda name: (EVERY[name].diagram, EVERY[name].names))
MADE: dict[str, Witness] = {}


def _made(name: str, folders: pytest.TempPathFactory) -> Witness:
    if name not in MADE:
        MADE[name] = Witness.of(EVERY[name], folders.mktemp("witness"))
    return MADE[name]


@pytest.fixture(scope="session", params=list(EVERY))
def witness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Witness:
    return _made(request.param, tmp_path_factory)


@pytest.fixture(scope="session", params=ONE_OF_EACH)
def one_of_each(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Witness:
    """For what has to do with names, layouts and types: the first family of each file of names."""
    return _made(request.param, tmp_path_factory)
