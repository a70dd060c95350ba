"""The model of minigpt.py on several ranks, as people write tensor parallelism by hand.

    torchrun --nproc-per-node 2 examples/minigpt/ranks.py FOLDER [--forget]

Each rank writes its weights, what its modules gave, and all gradients to FOLDER/rankN.npz, for
`xg compare --against FOLDER`. With `--forget` the sum over ranks in the backward pass is missing.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportIncompatibleMethodOverride=false

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from minigpt import MiniGPT, build
from torch import Tensor, nn


class Copy(torch.autograd.Function):
    """The same on every rank; gradients are summed."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        """Return what every rank has already."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: object, d_x: Tensor) -> Tensor:
        """Sum the terms of all ranks."""
        d_x = d_x.clone()
        dist.all_reduce(d_x)
        return d_x


class Sum(torch.autograd.Function):
    """The sum of what ranks have; its gradient is that of each term."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        """Sum the terms of all ranks."""
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: object, d_x: Tensor) -> Tensor:
        """Return what every rank has already."""
        return d_x


class Columns(nn.Linear):
    """Some of the outputs of a linear layer."""

    copies = True

    @classmethod
    def of(cls, whole: nn.Linear, rank: int, ranks: int) -> "Columns":
        """The part of one rank."""
        part = cls(whole.in_features, whole.out_features // ranks)
        part.weight = nn.Parameter(whole.weight.chunk(ranks, 0)[rank].clone())
        part.bias = nn.Parameter(whole.bias.chunk(ranks, 0)[rank].clone())
        return part

    def forward(self, input: Tensor) -> Tensor:
        """Apply the part; the input is on every rank."""
        return super().forward(Copy.apply(input) if self.copies else input)


class Rows(nn.Linear):
    """Some of the inputs of a linear layer; the outputs are summed, then comes the bias."""

    @classmethod
    def of(cls, whole: nn.Linear, rank: int, ranks: int) -> "Rows":
        """The part of one rank."""
        part = cls(whole.in_features // ranks, whole.out_features)
        part.weight = nn.Parameter(whole.weight.chunk(ranks, 1)[rank].clone())
        part.bias = nn.Parameter(whole.bias.clone())
        return part

    def forward(self, input: Tensor) -> Tensor:
        """Apply the part, and add those of the others."""
        return Sum.apply(input @ self.weight.T) + self.bias


def cut(layer: Any, rank: int, ranks: int) -> None:  # noqa: ANN401 - its parts are of any type
    """Leave a rank its heads and hidden units."""
    attention = layer.attention
    attention.heads //= ranks
    for name in ("q", "k", "v"):
        setattr(attention, name, Columns.of(getattr(attention, name), rank, ranks))
    attention.out = Rows.of(attention.out, rank, ranks)
    layer.up = Columns.of(layer.up, rank, ranks)
    layer.down = Rows.of(layer.down, rank, ranks)


def step(model: MiniGPT, ids: Tensor, t: Tensor) -> dict[str, Any]:
    """One pass forward and backward, with all that it shows."""
    found: dict[str, Any] = {name: p.detach().numpy() for name, p in model.named_parameters()}

    def note(name: str, tensor: Tensor) -> None:
        found[name] = tensor.detach().numpy()
        tensor.register_hook(lambda d: found.update({f"d/{name}": d.numpy()}))

    for name, module in model.named_modules():
        if name and any(True for _ in module.parameters()):
            module.register_forward_hook(lambda _, __, y, name=name: note(name, y))
    _, loss = model(ids, t)
    loss.backward()
    for name, param in model.named_parameters():
        assert param.grad is not None
        found[f"d/{name}"] = param.grad.numpy()
    return found | {"ids": ids.numpy(), "t": t.numpy(), "loss": loss.detach().numpy()}


def main() -> None:
    """Run one step on every rank, and write it."""
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = build().double()
    for param in model.parameters():  # off zeros and ones, which hide errors
        param.data += 0.1 * torch.randn_like(param)
    for layer in model.layers:
        cut(layer, rank, ranks)
    Columns.copies = "--forget" not in sys.argv
    ids = torch.randint(61, (2, 5))
    found = step(model, ids, ids.roll(-1, 1))
    np.savez(Path(sys.argv[1]) / f"rank{rank}.npz", **found)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
