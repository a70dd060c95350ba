"""Readable NumPy: forward and backward as a person would write them."""

from typing import Final

from xg.codegen.backend import Backend, Runs

BACKEND: Final = Backend(
    name="numpy",
    title="NumPy",
    emit="xg.codegen.numpy.dialect:emit",
    dialect="xg.codegen.numpy.dialect:NUMPY",
    runs=Runs(library="numpy", arrays="xg.codegen.numpy.on_arrays:on_arrays"),
    is_default=True,
)
