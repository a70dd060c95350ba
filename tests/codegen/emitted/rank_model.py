"""A rank that trains the `Model` of its program, in a file so that processes can load it."""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import sys
from collections.abc import Callable
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
    """Steps as they run, and as `torch.compile` traces them: without a break in the graph.

    A step of each module, and each collective by itself, as `KIND/MODULE/NAME`.
    """
    found: Tensors = {}
    own: list[torch.Tensor] = []  # what differs from rank to rank
    for plan, path in options["modules"].items():
        module: Any = load_file(Path(path))
        sys.modules[module.__name__] = module  # where the trace looks for its functions
        tensors = {name: torch.tensor(array) for name, array in arrays.items()}
        params = local_shards(tensors, module.cuts())
        X = params.pop("X")
        own.append(X)

        def step(params: Tensors, X: torch.Tensor, module: Any = module) -> Tensors:  # noqa: ANN401
            outputs, saved = module.forward(params, {"X": X}, seed=3)
            return {**outputs, **module.backward(params, saved, {"Y": outputs["Y"]})}

        found |= _run_and_traced(plan, step, params, X)
    found |= _run_and_traced("collectives", _collectives, own[0])
    return Answer({name: tensor.detach().numpy() for name, tensor in found.items()})


def _run_and_traced(name: str, what: Callable[..., Tensors], *operands: Any) -> Tensors:  # noqa: ANN401
    fast: Any = torch.compile(what, fullgraph=True, backend="aot_eager")
    return {
        f"{kind}/{name}/{n}": x
        for kind, f in (("run", what), ("traced", fast))
        for n, x in f(*operands).items()
    }


def _collectives(x: torch.Tensor) -> Tensors:
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
