"""The fixed parts of a module in torch."""

from __future__ import annotations

from typing import Final

from xg.codegen.emit.dialect import Dialect
from xg.codegen.torch.kernel_table import KERNELS
from xg.codegen.torch.spelling import SUPPORT, TorchSpelling
from xg.codegen.torch.vocabulary import VOCABULARY

HEADER = '''"""{title}: {what} in torch.

Compiled by xg from {file}, block {block}. Change the diagram, not this file.

    {function}({inputs}) -> {outputs}
"""

from __future__ import annotations

{standard}

import torch
{ranks}
Array = torch.Tensor
Params = dict[str, Array]
Names = tuple[str, ...]
DType = torch.dtype
Device = torch.device | str | None
Seed = int | torch.Tensor | None
'''

INIT = '''
    """Parameters by their names in the diagram, drawn from the seed."""
    params: Params = {{}}
    {starts}
    for name, (shape, start) in starts.items():{cuts}
        if start == "ones":
            params[name] = torch.ones(shape, dtype=dtype, device=device)
        elif start == "zeros":
            params[name] = torch.zeros(shape, dtype=dtype, device=device)
        else:{whole}
            drawn = {drawn}
            params[name] = drawn.to(dtype=dtype, device=device)
    return params
'''

EMPTY = '''
    """What a step finds where nothing was before: no positions, for texts of a batch."""
    like = next(iter(params.values()), torch.zeros(0))
    {states}
    cache: Params = {{}}
    for name, (shape, kind) in found.items():
        dtype = torch.int64 if kind == "int" else like.dtype
        cache[name] = torch.zeros(shape, dtype=dtype, device=like.device)
    return cache
'''

KEEPING = """
# A large tensor, freed at once: from now on glibc keeps the memory of tensors that are freed. Else
# it would give it back to the system and get it again, page by page, in every step on a CPU.
torch.empty(2**23 - 2**11, device="cpu")
"""

TORCH: Final = Dialect(
    spelling=TorchSpelling(),
    support=SUPPORT,
    vocabulary=VOCABULARY,
    library="torch",
    header=HEADER,
    init=INIT,
    types=("dtype: DType = torch.float32", "device: Device = None"),
    like=(
        "like = next(iter({**params, **d_outputs}.values()))",
        "dtype, device = like.dtype, like.device",
    ),
    empty=EMPTY,
    decorator="@torch.no_grad()",
    kernels=KERNELS,
    prelude=KEEPING,
)
