"""The tasks of a rank with DTensors as parameters."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from xg_runtime.module import Arrays
from xg_runtime.ranks import local_shards
from xg_runtime.ranks.dtensors import with_dtensors
from xg_runtime.ranks.task import Answer, Json

_save, _load = (getattr(dcp, name) for name in ("save", "load"))  # half of their types are missing
LIMIT = 0.05  # of the norm of gradients, which has to be that of all ranks


def steps(
    model: nn.Module, optimizer: torch.optim.Optimizer, rows: dict[str, Tensor], count: int
) -> tuple[list[float], list[float]]:
    """Steps of training with clipping: the losses, and the norms of all gradients."""
    losses: list[float] = []
    norms: list[float] = []
    for _ in range(count):
        optimizer.zero_grad()
        loss: Tensor = model(**rows)["loss"]
        loss.backward()
        norm: Any = nn.utils.clip_grad_norm_(model.parameters(), LIMIT)
        norms.append((norm.full_tensor() if hasattr(norm, "full_tensor") else norm).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def norm_of_shards(model: nn.Module) -> float:
    """The norm that a rank would clip by, if it saw its own shards alone, of clipped gradients."""
    grads: list[Any] = [param.grad for param in model.parameters()]
    return sum(float((grad.to_local() ** 2).sum()) for grad in grads) ** 0.5


def train(options: Json, arrays: Arrays) -> Answer:
    """Train for some steps, from a checkpoint of torch where one is named, to another."""
    space: dict[str, Any] = {}
    exec(compile(options["source"], "rank", "exec"), space)
    model = with_dtensors(space["Model"](seed=0, dtype=torch.float64), space["cuts"]())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    if options["load"]:
        state, slots = get_state_dict(model, optimizer)
        held: dict[str, Any] = {"model": state, "optimizer": slots}
        _load(held, checkpoint_id=options["load"])
        set_state_dict(
            model, optimizer, model_state_dict=held["model"], optim_state_dict=held["optimizer"]
        )
    whole = {name: torch.from_numpy(array) for name, array in arrays.items()}
    rows = local_shards(whole, space["cuts"]())
    losses, norms = steps(model, optimizer, rows, options["steps"])
    if options["save"]:
        state, slots = get_state_dict(model, optimizer)
        _save({"model": state, "optimizer": slots}, checkpoint_id=options["save"])
    parts = {name: list(p.to_local().shape) for name, p in model.state_dict().items()}
    found = {name: p.full_tensor().numpy() for name, p in model.state_dict().items()}
    own = norm_of_shards(model) * norms[-1] / LIMIT
    return Answer(found, {"losses": losses, "norms": norms, "norm of shards": own, "parts": parts})
