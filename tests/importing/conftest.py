"""Let torch export quickly: without its memory of the operators that it has seen."""

from __future__ import annotations

from collections.abc import Generator
from importlib import import_module
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def without_a_memory_of_operators() -> Generator[None]:
    """It pays in large models: to fill it takes a third of the time of an export of a small one."""
    settings: Any = import_module("torch._dynamo.config")
    with settings.patch(fake_tensor_cache_enabled=False):
        yield
