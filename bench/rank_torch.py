"""One model on several ranks by the tools of torch, as one who knows them well would write it.

Each step gives a loss, whose mean over the ranks is that of the batch, and its gradients.
"""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.experimental._context_parallel import _attention as ring
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.distributed.tensor.parallel.style import ParallelStyle

from bench.contestants import Task
from bench.torch_transformer import LM, Attention, Layer

MICROBATCHES: Final = 4
Step = Callable[[], tuple[Tensor, object]]


def model_of(task: Task) -> LM:
    """The model by hand, with the start that all have."""
    model = LM({**task.sizes, "S_max": task.length}, "sdpa").float()
    model.load(task.params())
    return model


def ddp(task: Task, size: int, rank: int) -> Step:
    """Data parallel: `DistributedDataParallel`."""
    model = nn.parallel.DistributedDataParallel(model_of(task))
    return _stepped(model, *_rows(task, size, rank))


def fully_sharded(task: Task, size: int, rank: int, *, again: bool) -> Step:
    """Parameters in pieces: `fully_shard` of each layer and of the rest."""
    model, mesh = model_of(task), mesh_of("N_D", size)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=again)
    fully_shard(model, mesh=mesh)
    return _stepped(model, *_rows(task, size, rank))


def tensor_parallel(task: Task, size: int, _rank: int) -> Step:
    """Heads and hidden units in parts: `parallelize_module`."""
    model, mesh = model_of(task), mesh_of("N_T", size)
    for layer in _layers(model, size):
        columns = dict.fromkeys(("attn.Q", "attn.K", "attn.V", "up"), ColwiseParallel())
        rows = dict.fromkeys(("attn.O", "down"), RowwiseParallel())
        parallelize_module(layer, mesh, {**columns, **rows})
    return _stepped(model, *_tokens(task))


def sequence_parallel(task: Task, size: int, rank: int) -> Step:
    """The same with the stream in parts between products, and the vocabulary and loss in parts."""
    model, mesh, whole, stream = model_of(task), mesh_of("N_T", size), Replicate(), Shard(1)
    for layer in _layers(model, size):
        gathered = PrepareModuleInput(input_layouts=stream, desired_input_layouts=whole)
        plan: dict[str, ParallelStyle] = {
            **dict.fromkeys(("norm_1", "norm_2"), SequenceParallel()),
            "attn": gathered,
            **dict.fromkeys(("attn.Q", "attn.K", "attn.V"), ColwiseParallel()),
            "up": ColwiseParallel(input_layouts=stream),
            **dict.fromkeys(("attn.O", "down"), RowwiseParallel(output_layouts=stream)),
        }
        parallelize_module(layer, mesh, plan)
    ends: dict[str, ParallelStyle] = {
        "tokens": RowwiseParallel(input_layouts=whole, output_layouts=stream),
        "places": SequenceParallel(sequence_dim=0, use_local_output=True),
        "norm": SequenceParallel(),
    }
    parallelize_module(model, mesh, ends)
    PrepareModuleOutput(
        output_layouts=stream, desired_output_layouts=whole, use_local_output=False
    )._apply(model.norm, mesh)
    ids, targets = _tokens(task)
    return _stepped(
        model, ids, targets, torch.arange(task.length).chunk(size)[rank], within=loss_parallel
    )


def pipelined(task: Task, size: int, rank: int) -> Step:
    """Layers in stages under 1F1B; the table of the first stage is tied to the head of the last."""
    model, is_first, is_last = model_of(task), rank == 0, rank == size - 1
    each = task.sizes["N_L"] // size
    model.layers = model.layers[each * rank : each * (rank + 1)]
    own = _Stage(model, is_first=is_first, is_last=is_last)
    stage = PipelineStage(own, rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=model.loss)  # its mark of training
    tied = dist.new_group([0, size - 1])
    used = [each for name, each in model.named_parameters() if own.uses(name)]
    ids, targets = _tokens(task)

    def step() -> tuple[Tensor, object]:
        losses: list[Tensor] = []
        if is_last:
            schedule.step(target=targets, losses=losses)
        else:
            schedule.step(*((ids,) if is_first else ()))
        if is_first or is_last:
            dist.all_reduce(cast("Tensor", model.tokens.weight.grad), group=tied)
        loss = torch.stack(losses).mean() * size if losses else torch.zeros(())
        return loss.detach(), _taken(used)

    return step


class _Stage(nn.Module):
    """Some of the layers, and of the first stage the embeddings; the head is in the loss."""

    def __init__(self, model: LM, *, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self.model, self.is_first, self.is_last = model, is_first, is_last

    def forward(self, x: Tensor) -> Tensor:
        return self.model.deeper(self.model.embedded(x) if self.is_first else x)

    def uses(self, name: str) -> bool:
        """Whether a parameter of the model is one of the stage's."""
        ends = {"tokens": self.is_first or self.is_last, "places": self.is_first}
        return ends.get(name.split(".")[0], self.is_last or name.startswith("layers."))


def context_parallel(task: Task, size: int, rank: int, *, balanced: bool) -> Step:
    """Keys and values go round the ranks: torch's ring, balanced or not, and DDP."""
    model = model_of(task)
    for layer in model.layers:
        assert isinstance(layer, Layer)
        layer.attn.attend = _ring(balanced=balanced)
    parts = torch.arange(task.length).chunk(2 * size)
    if balanced:  # a part from each end: every rank has as much to do
        at = torch.cat([parts[rank], parts[-1 - rank]])
    else:
        at = torch.cat(parts[2 * rank : 2 * rank + 2])
    ids, targets = (each[:, at].contiguous() for each in _tokens(task))
    return _stepped(nn.parallel.DistributedDataParallel(model), ids, targets, at)


def _ring(*, balanced: bool) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Causal attention by the templates of torch, on the kernels that it has for the CPU.

    torch calls its templates for the kernels of GPUs alone.
    """
    aten = torch.ops.aten
    attend = aten._scaled_dot_product_flash_attention_for_cpu
    group = dist.group.WORLD

    def backward_of(query: Tensor, key: Tensor, value: Tensor, **more: Any) -> Any:  # noqa: ANN401
        first = (more.pop("grad_out"), query, key, value, more.pop("out"), more.pop("logsumexp"))
        return attend_backward(*first, 0.0, more.pop("is_causal"))

    attend_backward = aten._scaled_dot_product_flash_attention_for_cpu_backward

    class Ring(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, Q: Tensor, K: Tensor, V: Tensor) -> Tensor:  # noqa: ANN401
            ring._cp_options.enable_load_balance = balanced
            out, lse = ring._templated_ring_attention(
                cast("Any", group), 2, attend, Q, K, V, is_causal=True
            )
            ctx.save_for_backward(Q, K, V, out, lse)
            return out

        @staticmethod
        def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401
            ring._cp_options.enable_load_balance = balanced
            Q, K, V, out, lse = ctx.saved_tensors
            (dy,), last = grad_outputs, (Q, K, V, out, lse)
            return ring._templated_ring_attention_backward(
                *(cast("Any", group), 2, backward_of, dy, "grad_out", *last), is_causal=True
            )

    return Ring.apply


# ---- what they share ----------------------------------------------------------------------------


def mesh_of(axis: str, size: int) -> DeviceMesh:
    """All processes along one axis."""
    return init_device_mesh("cpu", (size,), mesh_dim_names=(axis,))


def _tokens(task: Task) -> tuple[Tensor, Tensor]:
    ids, targets = (torch.from_numpy(tokens) for tokens in task.tokens())
    return ids, targets


def _rows(task: Task, size: int, rank: int) -> tuple[Tensor, Tensor]:
    ids, targets = (tokens.chunk(size)[rank] for tokens in _tokens(task))
    return ids, targets


def _layers(model: LM, size: int) -> list[Layer]:
    """The layers, each with its part of the heads."""
    layers = [layer for layer in model.layers if isinstance(layer, Layer)]
    for layer in layers:
        assert isinstance(layer.attn, Attention)
        layer.attn.heads //= size
    return layers


def _taken(parameters: list[nn.Parameter]) -> list[Any]:
    """The gradients, summed over ranks as an optimizer needs them."""
    grads = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    return [
        grad.redistribute(placements=[Replicate()])
        if isinstance(grad, DTensor) and isinstance(grad.placements[0], Partial)
        else grad
        for grad in grads
    ]


def _stepped(model: nn.Module, *inputs: Tensor, within: Callable[[], Any] | None = None) -> Step:
    known = list(model.parameters())

    def run() -> Tensor:
        loss = model(*inputs)
        loss.backward()
        return loss.detach()

    def step() -> tuple[Tensor, object]:
        if within is None:
            return run(), _taken(known)
        with within():
            loss = run()
        return loss.to_local() if isinstance(loss, DTensor) else loss, _taken(known)

    return step
