"""The garbage collector is off while a program is compiled, and only then."""

import gc

import pytest

from xg.diagnostics.lazy_dataclass import resting_collector


def test_it_rests_inside_and_nests() -> None:
    with resting_collector():
        with resting_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_works_again_after_an_error() -> None:
    @resting_collector()
    def fail() -> None:
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError):  # noqa: PT011 - any error does
            fail()
        assert gc.isenabled()
