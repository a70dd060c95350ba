"""What a module in torch is made of."""

from __future__ import annotations

from typing import Final

from xg.backends.torch.spelling import SUPPORT, TorchSpelling
from xg.backends.torch.vocabulary import VOCABULARY
from xg.emit.dialect import Dialect

HEADER = '''"""{title}: forward and backward pass in torch.

Compiled by xg from {file}, block {block}. Change the diagram, not this file.

    forward({inputs}) -> {outputs}
"""

from __future__ import annotations

{math}from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

Array = torch.Tensor
Params = dict[str, Array]
DType = torch.dtype
Device = torch.device | str | None
Seed = int | torch.Tensor | None
'''

INIT = '''
    """Parameters by their names in the diagram, drawn from the seed."""
    params: Params = {{}}
    {starts}
    for name, (shape, start) in starts.items():
        if start == "ones":
            params[name] = torch.ones(shape, dtype=dtype, device=device)
        elif start == "zeros":
            params[name] = torch.zeros(shape, dtype=dtype, device=device)
        else:
            drawn = normal(seed, name, shape, float(start))
            params[name] = drawn.to(dtype=dtype, device=device)
    return params
'''

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
    decorator="@torch.no_grad()",
)
