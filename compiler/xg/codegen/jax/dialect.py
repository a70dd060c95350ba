"""Define how modules in JAX are written: what they may mention, words, fixed parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from xg.codegen.emit import array_ops
from xg.codegen.emit.allowlist import IN_FLOAT32, MATH, STANDARD, Allowlist, functions_in, words
from xg.codegen.emit.dialect import Dialect
from xg.codegen.emit.module import emit as emit_module
from xg.codegen.emit.spelling import Scope, Spell, SupportFile
from xg.codegen.emit.text import Text, call
from xg.ir.graph import IRProgram
from xg.ir.prim import Expr, batch_of

# Everything that a generated JAX module may mention (see `xg.codegen.emit.allowlist`).


IMPORTS: Final = STANDARD | {
    "from collections.abc import Callable, Mapping",
    "import jax",
    "import jax.numpy as jnp",
}
FUNCTIONS: Final = functions_in("jnp") | words(
    """
    abs arange argsort argwhere asarray bfloat16 broadcast_to concatenate stack diff einsum flip
    float16 float32 floating full iinfo inf int32 issubdtype maximum minimum moveaxis ones pad
    promote_types result_type take take_along_axis uint32 where zeros zeros_like
    """
)
METHODS: Final = words(
    """
    T Tracer add any append astype at cummax cumsum dtype encode get isdigit items itemsize join max
    mean erf ndim mT register_static reshape setdefault shape split stop_gradient sum swapaxes
    transpose values
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
    decorators=frozenset({"jax.jit", "jax.jit(static_argnames='shape')", *IN_FLOAT32}),
    callables=frozenset({"compute"}),
)


# How JAX says each primitive.


SUPPORT: Final = SupportFile(Path(__file__).with_name("support.py"))
FLOAT: Final = ".astype(float)"  # as wide as JAX is set to


class JaxSpelling:
    """The backend's words (see `xg.codegen.emit.spelling.Spelling`)."""

    name = "jax"
    seed = "Seed"
    empty = "jnp.zeros(0)"
    saved_size = "Size"
    quiet = ""
    wide = "in_float32"
    rounds_sizes = True

    def primitive(self, expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        """The text of one primitive."""
        return WORDS[expr.prim](expr, args, scope)

    def cast(self, text: Text, scope: Scope) -> Text:
        """Integers or wide floats as floats of the function's type."""
        source = Text(text.text.removesuffix(FLOAT), text.binding)
        return Text(f"{source.atom}.astype({scope.float_type()})")

    def zeros(self, shape: str, scope: Scope, *, whole: bool = False) -> str:
        """Zeros of the function's type; `whole` ones are integers."""
        return f"jnp.zeros({shape}, {'int' if whole else scope.float_type()})"

    def no_room(self, shape: str, scope: Scope) -> str:
        """Zeros: where they are only read, XLA makes none."""
        return self.zeros(shape, scope)

    def stack(self, rows: str, axis: int) -> str:
        """A list of arrays, stacked along a new axis."""
        return f"jnp.stack({rows}, axis={axis})"

    def support(self, function: str) -> str:
        """The source of a support function."""
        return SUPPORT.source(function)


def _float(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    return Text(f"{args[0].atom}{FLOAT}")


def _gather(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """Fill in NaN for an id outside: a bare index would give the nearest row instead.

    `jnp.take` does so, too, but gives the shape of its table if that has no rows.
    """
    if batch_of(expr):
        return array_ops.gather(expr, args, scope)
    return call(f"{args[0].atom}.at[{args[1].text}].get", 'mode="fill"')


SWAPPED: Final = array_ops.swap_last_axes("mT")
WORDS: Final[Mapping[str, Spell]] = {
    **array_ops.ON_ARRAYS,
    **array_ops.as_numpy("jnp"),
    "stop": array_ops.function("jax.lax.stop_gradient"),
    "as_float": _float,
    "contract": array_ops.contraction(SWAPPED, 'jnp.einsum("{spec}", {a}, {b})'),
    "transpose": array_ops.transposition(SWAPPED, "swapaxes", "transpose"),
    "gather": _gather,
    "dropout_keep": array_ops.keep,
}


HEADER = """\
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
    header=HEADER,
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


# A program as a module in JAX.


def emit(program: IRProgram, derived: IRProgram | None = None, *, kernels: bool = False) -> str:
    """The source of the module; fused operators are functions too, and XLA compiles them."""
    assert derived is None
    return emit_module(program, JAX, kernels=kernels)
