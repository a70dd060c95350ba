"""The fixed parts of a module in torch."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from xg.codegen.emit.dialect import Dialect
from xg.codegen.emit.kernel import ring_kernels
from xg.codegen.torch.spelling import SUPPORT, TorchSpelling
from xg.codegen.torch.vocabulary import VOCABULARY

IMPORTS = """\
{standard}

import torch
{ranks}"""

EMPTY = '''
    """Make an empty cache: no positions yet{batch}."""
    like = next(iter(params.values()), torch.zeros(0))
    {states}
    cache: Params = {{}}
    for name, (shape, kind) in {table}.items():
        dtype = torch.int64 if kind == "int" else like.dtype
        cache[name] = torch.zeros(shape, dtype=dtype, device=like.device)
    return cache
'''

KEEPING = """
# A large tensor, freed at once: from now on glibc keeps the memory of tensors that are
# freed. Else it would give it back to the system and get it again, page by page, in
# every step on a CPU.
torch.empty(2**23 - 2**11, device="cpu")
"""

TORCH: Final = Dialect(
    spelling=TorchSpelling(),
    support=SUPPORT,
    vocabulary=VOCABULARY,
    library="torch",
    title="torch",
    header=IMPORTS,
    aliases={
        "Array": "torch.Tensor",
        "Params": "dict[str, Array]",
        "DType": "torch.dtype",
        "Device": "torch.device | str | None",
        "Seed": "int | torch.Tensor | None",
    },
    ones="torch.ones(shape, dtype=dtype, device=device)",
    zeros="torch.zeros(shape, dtype=dtype, device=device)",
    converted=".to(device, dtype)",
    types=("dtype: DType = torch.float32", "device: Device = None"),
    like={"dtype": "dtype", "device": "device"},
    empty=EMPTY,
    decorator="@torch.no_grad()",
    always=ring_kernels(Path(__file__).with_name("ring.py"), SUPPORT),
    prelude=KEEPING,
    ready="by_columns",
)
