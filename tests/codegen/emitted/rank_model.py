"""A rank that trains the `Model` of its program, in a file so that processes can load it."""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from xg_runtime.module import Arrays
from xg_runtime.ranks import gather_shards, local_shards
from xg_runtime.ranks.task import Answer, Json, load_file

Tensors = dict[str, torch.Tensor]


def passes(options: Json, arrays: Arrays) -> Answer:
    """The loss, the gradients and the parameters after a step, whole; `drawn` of a drawn seed."""
    module: Any = load_file(Path(options["module"]))
    cuts = module.cuts()
    given = {name: torch.tensor(array) for name, array in arrays.items()}
    inputs = local_shards({name: given.pop(name) for name in options["inputs"]}, cuts)
    model = module.Model(7, torch.float64)
    model.load_state_dict(local_shards(given, cuts))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(**inputs, seed=torch.tensor(3))["loss"]
    loss.backward()
    gradients = gather_shards({n: p.grad for n, p in model.named_parameters()}, cuts)
    optimizer.step()
    found: Tensors = {"loss": loss.detach(), "drawn": model(**inputs)["loss"].detach()}
    found |= {f"d/{name}": gradient for name, gradient in gradients.items()}
    found |= gather_shards(model.state_dict(), cuts)
    return Answer({name: tensor.numpy() for name, tensor in found.items()})
