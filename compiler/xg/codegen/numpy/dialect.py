"""Define how modules in NumPy are written: what they may mention, words, fixed parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from xg.codegen.emit import array_ops
from xg.codegen.emit.allowlist import MATH, STANDARD, Allowlist, functions_in, words
from xg.codegen.emit.dialect import RING, Dialect, ring_kernels
from xg.codegen.emit.module import emit as emit_module
from xg.codegen.emit.spelling import Scope, Spell, SupportFile
from xg.codegen.emit.text import Text
from xg.ir.graph import IRProgram
from xg.ir.prim import Expr

# Say in NumPy what kernels of both backends say in torch.
#
# Such a kernel is written once, as plain torch, and its text is copied into modules of torch as it
# is. For modules of NumPy the few words that differ are replaced, in place: comments and lines
# stay. A word that NumPy lacks is an error here, so it can't reach a module.
#
# `x.to(…)` is left out: it is for autocast and for devices, and the arrays of a pass in NumPy have
# one type and one place. A cast that both need is written in each backend's own file.


# What `torch` and `np` both have, and what has another name.
SAME: Final = words(
    """
    arange broadcast_to empty exp float32 full_like inf log maximum promote_types where zeros
    zeros_like
    """
)
TORCH_FUNCTIONS: Final = {**{name: name for name in SAME}, "cat": "concatenate"}
SAME_METHODS: Final = words("reshape sum swapaxes wait")
TORCH_METHODS: Final = {"amax": "max", "mT": "swapaxes(-1, -2)"}
TORCH_KEYWORDS: Final = {"dim": "axis", "keepdim": "keepdims"}

Edit = tuple[int, int, bytes]


def in_numpy(source: str) -> str:
    """The text of a file of kernels, in NumPy."""
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def start(node: ast.expr | ast.keyword) -> int:
        return starts[node.lineno - 1] + node.col_offset

    def end(node: ast.expr | ast.keyword) -> int:
        return starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)

    def edits(node: ast.AST) -> Iterator[Edit]:
        match node:
            case ast.Attribute(value=ast.Name(id="torch"), attr=name) if name != "Tensor":
                yield start(node), end(node), f"np.{TORCH_FUNCTIONS[name]}".encode()
            case ast.Call(func=ast.Attribute(value=x, attr=name)) if (
                name not in SAME_METHODS | TORCH_METHODS.keys() | {"numel", "to"}
                and ast.unparse(x) != "torch"
            ):
                raise KeyError(name)
            case ast.Call(func=ast.Attribute(value=x, attr="to")):
                # The brackets around `x`, if any, are between it and the dot.
                yield text.index(b".to(", end(x)), end(node), b""
            case ast.Call(func=ast.Attribute(value=x, attr="numel")):
                yield end(x), end(node), b".size"
            case ast.Attribute(attr=name) if name in TORCH_METHODS:
                yield end(node) - len(name), end(node), TORCH_METHODS[name].encode()
            case ast.keyword(arg="device"):
                yield text.rindex(b",", 0, start(node)), end(node), b""
            case ast.keyword(arg=str(name)) if name in TORCH_KEYWORDS:
                yield start(node), start(node) + len(name), TORCH_KEYWORDS[name].encode()
            case ast.Assign(value=ast.Call(func=ast.Attribute(value=x, attr="to"))):
                if text[start(x) - 1 : start(x)] == b"(":
                    yield start(x) - 1, start(x), b""
                    yield end(x), end(x) + 1, b""
            case ast.Name(id="Seed", ctx=ast.Load()):
                yield start(node), end(node), b"int | None"
            case _:
                pass

    found = sorted(edit for node in ast.walk(ast.parse(source)) for edit in edits(node))
    parts, done = list[bytes](), 0
    for first, last, word in found:
        if first >= done:  # else it is in what was left out
            parts += [text[done:first], word]
            done = last
    return b"".join([*parts, text[done:]]).decode()


# Everything that a generated NumPy module may mention (see `xg.codegen.emit.allowlist`).


IMPORTS: Final = STANDARD | {
    "from collections.abc import Callable, Mapping",
    "from functools import wraps",
    "import numpy as np",
    "from numpy.typing import NDArray",
}
FUNCTIONS: Final = functions_in("np") | words(
    """
    abs add arange argsort argwhere ascontiguousarray bincount broadcast_to clip concatenate stack
    copysign copyto cumsum diff dtype einsum empty empty_like errstate flip float32 full generic
    inf int64 isfinite lib matmul maximum minimum moveaxis multiply ndarray full_like ndindex ones
    pad prod promote_types put_along_axis result_type split take_along_axis uint64 unique where
    zeros zeros_like
    """
)
METHODS: Final = words(
    """
    T accumulate all any append as_strided astype c_contiguous cumsum dtype encode flags get isdigit
    items itemsize join kind max mean ndim pop reduceat reshape setdefault shape size
    sliding_window_view split stride_tricks strides sum swapaxes transpose values
    """
)
VOCABULARY: Final = Allowlist(
    IMPORTS,
    {"np": FUNCTIONS, "math": MATH},
    METHODS,
    frozenset({"np.errstate(all='ignore')", "_in_float32", "wraps(compute)"}),
    frozenset({"compute", "part"}),
)


# How NumPy says each primitive.


AROUND: Final = SupportFile(RING, spell=in_numpy)
SUPPORT: Final = AROUND + SupportFile(Path(__file__).with_name("support.py"))


class NumpySpelling:
    """The backend's words (see `xg.codegen.emit.spelling.Spelling`)."""

    name = "numpy"
    seed = "int | None"
    empty = "np.zeros(0)"
    saved_size = ""
    quiet = '@np.errstate(all="ignore")'
    wide = ""  # whole passes are decorated: NumPy adds float16 numbers in float16 everywhere
    rounds_sizes = False

    def primitive(self, expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        """The text of one primitive."""
        return WORDS[expr.prim](expr, args, scope)

    def cast(self, text: Text, scope: Scope) -> Text:
        """Integers or float64 as floats of the function's type."""
        return Text(f"{text.atom}.astype({scope.float_type()})")

    def zeros(self, shape: str, scope: Scope, *, whole: bool = False) -> str:
        """Zeros of the function's type; `whole` ones are integers."""
        return f"np.zeros({shape}, {'np.int64' if whole else scope.float_type()})"

    def no_room(self, shape: str, scope: Scope) -> str:
        """One zero, repeated."""
        return f"np.broadcast_to(np.zeros((), {scope.float_type()}), {shape})"

    def stack(self, rows: str, axis: int) -> str:
        """A list of arrays, stacked along a new axis."""
        return f"np.stack({rows}, axis={axis})"

    def support(self, function: str) -> str:
        """The source of a support function."""
        return SUPPORT.source(function)


SWAPPED: Final = array_ops.swap_last_axes("swapaxes(-1, -2)")
WORDS: Final[Mapping[str, Spell]] = {
    **array_ops.ON_ARRAYS,
    **array_ops.WORDS,
    **array_ops.as_numpy("np"),
    "stop": array_ops.bare,
    "as_float": array_ops.bare,  # the writer casts where the type matters
    "contract": array_ops.contraction(SWAPPED, 'np.einsum("{spec}", {a}, {b}, optimize=True)'),
    "transpose": array_ops.transposition(SWAPPED, "swapaxes", "transpose"),
    "dropout_keep": array_ops.keep,
}


HEADER = """\
{standard}

import numpy as np
from numpy.typing import NDArray
{ranks}"""

EMPTY = '''
    """Make an empty cache: no positions yet{batch}."""
    dtype = next(iter(params.values()), np.zeros(0)).dtype
    {states}
    cache: Params = {{}}
    for name, (shape, kind) in {table}.items():
        cache[name] = np.zeros(shape, np.int64 if kind == "int" else dtype)
    return cache
'''

KEEPING = """
# A large array, freed at once: from now on glibc keeps the memory of arrays that are
# freed. Else it would give it back to the system and get it again, empty page by empty
# page, in every step.
np.empty(2**22 - 2**10)
"""

NUMPY: Final = Dialect(
    spelling=NumpySpelling(),
    support=SUPPORT,
    vocabulary=VOCABULARY,
    library="np",
    title="NumPy",
    header=HEADER,
    decorator="@_in_float32",
    wide="in_float32",
    aliases={
        "Array": "NDArray[Any]",
        "Params": "dict[str, Array]",
        "DType": "Any",
    },
    ones="np.ones(shape, dtype)",
    zeros="np.zeros(shape, dtype)",
    converted=".astype(dtype)",
    types=("dtype: DType = np.float32",),
    empty=EMPTY,
    state="cache[name].astype(floats.dtype)",
    always=ring_kernels(AROUND, SUPPORT),
    prelude=KEEPING,
    like={"dtype": "dtype"},
    ready="tall_by_columns",
    readies_tied=True,
)


# A program as a module in NumPy.


def emit(program: IRProgram, derived: IRProgram | None = None, *, kernels: bool = False) -> str:
    """The source of the module, of fused graphs with the kernels of the backend."""
    assert derived is None
    return emit_module(program, NUMPY, kernels=kernels)
