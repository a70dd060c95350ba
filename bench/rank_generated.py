"""Rank code of a plan, with kernels, as a step: a loss and its gradients."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import xg
from bench.contestants import FILE, Task
from bench.rank_torch import MICROBATCHES, Step, mesh_of
from xg.driver import Program
from xg.sharding.local import cuts
from xg.verify.pipeline_proof import link_of
from xg_runtime import ranks
from xg_runtime.ranks.pipeline import Part, Pipeline, RankStage
from xg_runtime.ranks.process_mesh import ProcessMesh
from xg_runtime.stage_messages import scheduled_actions


def generated(task: Task, plan: str, axis: str, size: int) -> Step:
    """A rank under a plan of one axis of the mesh."""
    module = _compiled(task, plan, axis, size).load("torch", kernels=True)
    whole, tokens = _arrays(task)
    mesh = ProcessMesh(mesh_of(axis, size))
    with mesh:
        params = ranks.local_shards(whole, module.cuts())
        inputs = ranks.local_shards(tokens, module.cuts())
        model = module.Model(seed=0).eval()  # nothing is dropped
    model.load_state_dict(params)
    known = list(model.parameters())

    def step() -> tuple[Tensor, object]:
        with mesh:
            loss = model(**inputs)["loss"]
            loss.backward()
        grads = [parameter.grad for parameter in known]
        for parameter in known:
            parameter.grad = None
        return loss.detach(), grads

    return step


def pipelined(task: Task, size: int, rank: int) -> Step:
    """A stage of layers under 1F1B."""
    stage = _compiled(task, "PP", "N_PP", size).stages[rank]
    module: Any = stage.load("torch", kernels=True)
    held = cuts(stage.graphs)
    assert stage.graphs.stage is not None
    own = RankStage(module, link_of(stage.graphs.stage), {*stage.params, *stage.inputs})
    whole, tokens = _arrays(task)
    params = {name: value for name, value in whole.items() if name in held}
    rows = {name: each.chunk(MICROBATCHES) for name, each in tokens.items() if name in held}
    share: dict[str, Any] = {"loss": torch.tensor(1 / MICROBATCHES)}
    parts = [
        Part({name: each[i] for name, each in rows.items()}, share, None)
        for i in range(MICROBATCHES)
    ]
    actions = scheduled_actions("1F1B", size, MICROBATCHES, 1)[rank]
    mesh, pipeline = ProcessMesh(mesh_of("N_PP", size)), Pipeline((own,))

    def step() -> tuple[Tensor, object]:
        with mesh:
            results, gradients = pipeline.step(params, parts, actions, wanted="loss")
        losses: list[Any] = [result["loss"] for result in results if "loss" in result]
        return torch.stack(losses).mean() * size if losses else torch.zeros(()), gradients

    return step


def _compiled(task: Task, plan: str, axis: str, size: int) -> Program:
    settings = {**task.sizes, "S_max": task.length}
    return xg.compile(FILE, sizes=settings, plan=plan, mesh={axis: size})


def _arrays(task: Task) -> tuple[dict[str, Any], dict[str, Any]]:
    """The whole parameters and inputs."""
    ids, targets = (torch.from_numpy(tokens) for tokens in task.tokens())
    params = {name: torch.from_numpy(array) for name, array in task.params().items()}
    return params, {"ids": ids, "t": targets}
