"""Let torch export quickly: without its memory of the operators that it has seen."""

from __future__ import annotations

from collections.abc import Generator

import pytest


@pytest.fixture(autouse=True)
def without_a_memory_of_operators() -> Generator[None]:
    """It pays in large models: to fill it takes a third of the time of an export of a small one."""
    import torch._dynamo.config as settings

    with settings.patch(fake_tensor_cache_enabled=False):
        yield
