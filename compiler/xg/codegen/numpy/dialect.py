"""The fixed parts of a module in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from xg.codegen.emit.dialect import Dialect
from xg.codegen.emit.kernel import ring_kernels
from xg.codegen.numpy.spelling import SUPPORT, NumpySpelling
from xg.codegen.numpy.vocabulary import VOCABULARY

IMPORTS = """\
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
    header=IMPORTS,
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
    always=ring_kernels(Path(__file__).with_name("ring.py"), SUPPORT),
    prelude=KEEPING,
    like={"dtype": "dtype"},
    ready="tall_by_columns",
    readies_tied=True,
)
