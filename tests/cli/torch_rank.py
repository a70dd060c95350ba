"""A rank of torch's own training that goes on with a run of xg."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

from xg_runtime.module import Arrays
from xg_runtime.ranks import number
from xg_runtime.ranks.dtensors import with_dtensors
from xg_runtime.ranks.task import Answer, Json

_save, _load = (getattr(dcp, name) for name in ("save", "load"))  # half of their types are missing


def model_of(kind: str, space: dict[str, Any]) -> nn.Module:
    """The model with other parameters than those of the run, cut by xg's plan or by torch."""
    model: Any = space["Model"](seed=7, dtype=torch.float64)
    if kind == "dtensors":
        return with_dtensors(model, space["cuts"]())
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)


def go_on(options: Json, arrays: Arrays) -> Answer:
    """Load a run, take some steps with torch's AdamW, and save it with its facts."""
    space: dict[str, Any] = {}
    exec(compile(options["source"], "rank", "exec"), space)
    model = model_of(options["kind"], space)
    matrices = [param for param in model.parameters() if param.ndim >= 2]
    others = [param for param in model.parameters() if param.ndim < 2]
    optimizer = torch.optim.AdamW([{"params": matrices}, {"params": others, "weight_decay": 0.0}])
    weights, slots = get_state_dict(model, optimizer)
    held: dict[str, Any] = {"model": weights, "optimizer": slots, "train": {"step": 0, "facts": ""}}
    _load(held, checkpoint_id=options["load"])
    set_state_dict(
        model, optimizer, model_state_dict=held["model"], optim_state_dict=held["optimizer"]
    )
    for step in options["steps"]:
        rows = {
            name: torch.from_numpy(arrays[f"{step}/{name}"]).chunk(2)[number()] for name in "Xt"
        }
        loss: Tensor = model(**rows)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights, slots = get_state_dict(model, optimizer)
    train = {**held["train"], "step": options["steps"][-1] + 1}
    _save({"model": weights, "optimizer": slots, "train": train}, checkpoint_id=options["save"])
    return Answer({}, {"step": held["train"]["step"]})
