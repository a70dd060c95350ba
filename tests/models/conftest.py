"""Each family's witness, made once."""

from __future__ import annotations

import pytest
from models.more_families import EVERY
from models.witness import Witness


@pytest.fixture(scope="session", params=list(EVERY.values()), ids=list(EVERY))
def witness(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Witness:
    return Witness.of(request.param, tmp_path_factory.mktemp("witness"))
