"""A rank of models that people wrote, divided by the calls that a plan was turned into."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from codegen.dtensor.hand_written import MLP, KeywordGPT, Llama
from examples.minigpt.minigpt import Attention, Config, MiniGPT
from torch import Tensor, nn
from torch.distributed.tensor.parallel import loss_parallel

from xg_runtime.module import Arrays
from xg_runtime.ranks.task import Answer, Json

SIZES = {"vocab": 64, "width": 24, "layers": 2, "heads": 4, "hidden": 40, "positions": 16}


def built(kind: str) -> nn.Module:
    """A model that nothing divides."""
    if kind == "minigpt":
        return MiniGPT(Config(**SIZES), Attention)
    if kind == "keyword":
        return KeywordGPT(Config(**SIZES))
    if kind == "published":
        from codegen.dtensor.published import published_llama  # transformers takes seconds

        return published_llama(64, 2, 24, 40)
    return MLP(8, 16) if kind == "mlp" else Llama(64, 2, 24, 40, 24, 12, 6)


def divide(options: Json, arrays: Arrays) -> Answer:
    """Divide the model of each trial, run it once, and return its loss and all gradients."""
    found: Arrays = {}
    facts: Json = {}
    for place, trial in enumerate(options["trials"]):
        given = {
            name.removeprefix(f"{place}/"): torch.from_numpy(array)
            for name, array in arrays.items()
            if name.startswith(f"{place}/")
        }
        try:
            loss, gradients = _once(trial, given)
        except Exception as error:  # a control may fail in any way
            facts[str(place)] = f"{type(error).__name__}: {error}"
            continue
        found |= {f"{place}/{name}": gradient for name, gradient in gradients.items()}
        facts[str(place)] = loss
    return Answer(found, facts)


def _once(trial: Json, given: dict[str, Tensor]) -> tuple[float, Arrays]:
    """The mean loss of all ranks, and the whole gradients."""
    model: Any = built(trial["kind"]).double()
    model.load_state_dict({n: given[f"weights/{n}"] for n in model.state_dict()})
    space: dict[str, Any] = {}
    exec(compile(trial["source"], "calls", "exec"), space)
    mesh = space["mesh"]()
    if trial["kind"] in ("minigpt", "keyword"):
        for layer in model.layers:
            layer.attention.heads //= trial["heads"]
    model = space["parallelize"](model, mesh)
    names, rows = mesh.mesh_dim_names, 1
    place = 0
    for name in trial["rows"]:
        place = place * mesh[name].size() + mesh[name].get_local_rank()
        rows *= mesh[name].size()
    assert set(trial["rows"]) <= set(names)
    inputs = {n[7:]: x.chunk(rows)[place] for n, x in given.items() if n.startswith("inputs/")}
    with loss_parallel() if trial["loss parallel"] else nullcontext():
        out = model(**inputs)
        out = out[1] if isinstance(out, tuple) else out
        loss: Any = (out * given["weight"].chunk(rows)[place]).sum() * rows if out.ndim else out
        loss.backward()
    total = loss.full_tensor() if hasattr(loss, "full_tensor") else loss.detach().clone()
    dist.all_reduce(total)
    return float(total) / dist.get_world_size(), {
        name: (p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad).numpy()
        for name, p in model.named_parameters()
    }
