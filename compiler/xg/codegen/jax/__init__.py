"""Readable JAX: pure functions on arrays, which `jax.jit` compiles and `jax.grad` agrees with.

Nothing here is traced or differentiated by the module itself: the backward pass as code is the
point of xg, and `jax.grad` checks it from outside. `jax.custom_vjp` would hide it, `lax.scan` would
stack parameters under other names, and `jax.random` has other numbers than the hashes that all
backends share.
"""

from typing import Final

from xg.codegen.backend import Backend, Runs

BACKEND: Final = Backend(
    name="jax",
    title="JAX",
    emit="xg.codegen.jax.dialect:emit",
    dialect="xg.codegen.jax.dialect:JAX",
    runs=Runs(library="jax", extra="jax", arrays="xg.codegen.jax.on_arrays:OnArrays", half=True),
    forms=(),  # XLA would compile a step again for each length of its cache
)
