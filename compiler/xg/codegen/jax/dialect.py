"""The fixed parts of a module in JAX."""

from __future__ import annotations

from typing import Final

from xg.codegen.emit.dialect import Dialect
from xg.codegen.jax.spelling import SUPPORT, JaxSpelling
from xg.codegen.jax.vocabulary import VOCABULARY

IMPORTS = """\
{standard}

import jax
import jax.numpy as jnp
{ranks}"""

JAX: Final = Dialect(
    spelling=JaxSpelling(),
    support=SUPPORT,
    vocabulary=VOCABULARY,
    library="jnp",
    title="JAX",
    header=IMPORTS,
    aliases={
        "Array": "jax.Array",
        "Params": "dict[str, Array]",
        "DType": "Any",
        "Seed": "int | Array | None",
    },
    ones="jnp.ones(shape, dtype)",
    zeros="jnp.zeros(shape, dtype)",
    converted=".astype(dtype)",
    types=("dtype: DType = jnp.float32",),
    empty="",
    like={"dtype": "dtype"},
    checks_width=True,
)
