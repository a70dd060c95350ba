"""A rank that trains the `Model` of its program, in a file so that processes can load it."""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from xg_runtime.module import Arrays
from xg_runtime.ranks import (
    all_gather,
    all_reduce,
    all_reduce_max,
    all_to_all,
    gather_shards,
    local_shards,
    pad_from_shard,
    reduce_scatter,
    shard_slice,
    shift,
)
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


def traced(options: Json, arrays: Arrays) -> Answer:
    """One step as it runs, and as `torch.compile` traces it: without a break in the graph."""
    module: Any = load_file(Path(options["module"]))
    sys.modules[module.__name__] = module  # where the trace looks for its functions
    cuts = module.cuts()
    given = local_shards({name: torch.tensor(array) for name, array in arrays.items()}, cuts)
    X = given.pop("X")

    def step(params: Tensors, X: torch.Tensor) -> Tensors:
        outputs, saved = module.forward(params, {"X": X}, seed=3)
        return {**outputs, **module.backward(params, saved, {"Y": outputs["Y"]})}

    def collectives(x: torch.Tensor) -> Tensors:
        wide = x.reshape(4, -1)[:, : x.numel() // 16 * 4]
        return {
            "sum": all_reduce(x, "N_A"),
            "largest": all_reduce_max(x, "N_A"),
            "gathered": all_gather(x, "N_A zigzag", -1),
            "scattered": reduce_scatter(wide, "N_A", -2),
            "exchanged": all_to_all(wide, "N_A", -2, -1),
            "shifted": shift(x, "N_A"),
            "slice": shard_slice(wide, "N_A", -2),
            "padded": pad_from_shard(wide, "N_A", -1),
        }

    what: Any = collectives if options["collectives"] else step
    operands = (X,) if options["collectives"] else (given, X)
    fast = torch.compile(what, fullgraph=True, backend="aot_eager")
    found = {
        f"{kind}/{n}": x
        for kind, f in (("run", what), ("traced", fast))
        for n, x in f(*operands).items()
    }
    return Answer({name: tensor.detach().numpy() for name, tensor in found.items()})
