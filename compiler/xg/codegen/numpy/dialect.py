"""The fixed parts of a module in NumPy."""

from __future__ import annotations

from typing import Final

from xg.codegen.emit.dialect import Dialect
from xg.codegen.numpy.kernel_table import KERNELS
from xg.codegen.numpy.spelling import SUPPORT, NumpySpelling
from xg.codegen.numpy.vocabulary import VOCABULARY

HEADER = '''"""{title}: {what} in NumPy.

Compiled by xg from {file}, block {block}. Change the diagram, not this file.

    {function}({inputs}) -> {outputs}
"""

from __future__ import annotations

{standard}

import numpy as np
from numpy.typing import NDArray
{ranks}
Array = NDArray[Any]
Params = dict[str, Array]
DType = Any
'''

INIT = '''
    """Parameters by their names in the diagram, drawn from the seed."""
    params: Params = {{}}
    {starts}
    for name, (shape, start) in starts.items():{cuts}
        if start == "ones":
            params[name] = np.ones(shape, dtype)
        elif start == "zeros":
            params[name] = np.zeros(shape, dtype)
        else:{whole}
            params[name] = {drawn}.astype(dtype)
    return params
'''

EMPTY = '''
    """What a step finds where nothing was before: no positions, for texts of a batch."""
    dtype = next(iter(params.values()), np.zeros(0)).dtype
    {states}
    cache: Params = {{}}
    for name, (shape, kind) in found.items():
        cache[name] = np.zeros(shape, np.int64 if kind == "int" else dtype)
    return cache
'''

KEEPING = """
# A large array, freed at once: from now on glibc keeps the memory of arrays that are freed. Else it
# would give it back to the system and get it again, empty page by empty page, in every step.
np.empty(2**22 - 2**10)
"""

NUMPY: Final = Dialect(
    spelling=NumpySpelling(),
    support=SUPPORT,
    vocabulary=VOCABULARY,
    library="np",
    header=HEADER,
    init=INIT,
    types=("dtype: DType = np.float32",),
    empty=EMPTY,
    kernels=KERNELS,
    prelude=KEEPING,
    like=("dtype = next(iter({**params, **d_outputs}.values())).dtype",),
)
