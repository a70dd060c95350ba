"""Everything that a generated JAX module may mention (see `xg.codegen.emit.allowlist`)."""

from __future__ import annotations

from typing import Final

from xg.codegen.emit.allowlist import MATH, STANDARD, Allowlist
from xg.codegen.emit.mentions import words

IMPORTS: Final = STANDARD | {"import jax", "import jax.numpy as jnp"}
FUNCTIONS: Final = words(
    """
    abs arange argsort argwhere asarray broadcast_to concatenate stack cos diff einsum exp float32
    floating full iinfo inf int32 issubdtype log maximum minimum moveaxis ones pad promote_types sin
    sqrt take take_along_axis tanh uint32 where zeros zeros_like
    """
)
METHODS: Final = words(
    """
    T Tracer add any append astype at cummax dtype encode get isdigit items itemsize join max mean
    erf ndim mT register_static reshape setdefault shape split stop_gradient sum swapaxes transpose
    values
    """
)
VOCABULARY: Final = Allowlist(
    imports=IMPORTS,
    modules={
        "jnp": FUNCTIONS,
        "jax": frozenset({"Array", "core", "jit", "lax", "tree_util"}),
        "math": MATH,
    },
    methods=METHODS,
    decorators=frozenset({"jax.jit", "jax.jit(static_argnames='shape')"}),
)
