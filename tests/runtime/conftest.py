"""The hand-written module, loaded as the command line loads a generated one."""

import importlib.util
import os
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import xg_runtime
from xg_runtime.batches import TextSource, corpus_of
from xg_runtime.module import Arrays, Module

HERE = Path(__file__).parent


def load(**constants: int) -> Module:
    """Import the bigram model from its file, its constants replaced."""
    spec = importlib.util.spec_from_file_location("bigram", HERE / "bigram.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in constants.items():
        setattr(module, name, value)
    return cast(Module, module)


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The environment in which a subprocess can import the runtime."""
    return dict(os.environ) | {"PYTHONPATH": str(Path(xg_runtime.__file__).parents[1])}


@pytest.fixture
def bigram() -> Module:
    """The model over bytes."""
    return load()


@pytest.fixture
def narrow() -> Module:
    """The model over bytes, with fewer parameters."""
    return load(D=8)


@pytest.fixture
def small() -> Module:
    """The model over 23 ids, 5 wide: few enough scalars to check every one."""
    return load(V=23, D=5)


@pytest.fixture
def small_inputs() -> Arrays:
    """Ids and targets [2, 7] for `small`."""
    draw = np.random.default_rng(1)
    return {"ids": draw.integers(0, 23, (2, 7)), "t": draw.integers(0, 23, (2, 7))}


@pytest.fixture
def source() -> TextSource:
    """A short text that repeats, in batches [4, 16]."""
    text = b"the cat sat on the mat; the dog sat on the log. " * 30
    return TextSource(corpus_of(text), 4, 16, validation_batches=2)
