"""One of two processes that train a generated model on half a batch each; knows nothing of xg.

python ddp_rank.py FOLDER RANK

The folder holds the generated module (`lm.py`) and `given.pt`: parameters and inputs. The
results go to `rank0.pt` and `rank1.pt`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateImportUsage=false
# Without postponed annotations: DDP reads those of its hooks.

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

Tensors = dict[str, torch.Tensor]
Events = list[str]


class Whole(torch.nn.Module):
    """The control: the same functions as one single step of autograd."""

    def __init__(self, module: ModuleType, params: Tensors) -> None:
        super().__init__()
        self.module, self.names = module, list(params)
        self.held = torch.nn.ParameterList([x.clone() for x in params.values()])

    def forward(self, **inputs: torch.Tensor) -> Tensors:
        return {"loss": WholeStep.apply(self.module, self.names, inputs, *self.held)}  # pyright: ignore


class WholeStep(torch.autograd.Function):
    """Every gradient arrives at the very end."""

    @staticmethod
    def forward(  # pyright: ignore
        ctx: Any,  # noqa: ANN401 - torch says no more of it
        module: ModuleType,
        names: list[str],
        inputs: Tensors,
        *held: torch.Tensor,
    ) -> torch.Tensor:
        ctx.module, ctx.params = module, dict(zip(names, held, strict=True))
        outputs, ctx.saved = module.forward(ctx.params, inputs)
        return outputs["loss"]

    @staticmethod
    def backward(  # pyright: ignore
        ctx: Any,  # noqa: ANN401
        dloss: torch.Tensor,
    ) -> tuple[torch.Tensor | None, ...]:
        gradients = ctx.module.backward(ctx.params, ctx.saved, {"loss": dloss})
        return None, None, None, *[gradients[name] for name in ctx.params]


def recording(function: Callable[..., Any], events: Events) -> Callable[..., Any]:
    """The backward function of a layer, noted down when it is done."""

    def run(params: Tensors, at: str, *rest: Any) -> Any:  # noqa: ANN401 - whatever it gives
        given = function(params, at, *rest)
        events.append(at)
        return given

    return run


def trained(
    model: torch.nn.Module, inputs: Tensors, events: Events, *, alone: bool = False
) -> tuple[Events, list[torch.Tensor]]:
    """The events of the second step, and the gradients; DDP builds its buckets in the first."""

    def hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        events.append("bucket")
        return allreduce_hook(dist.group.WORLD, bucket)  # pyright: ignore

    parallel = DistributedDataParallel(model, bucket_cap_mb=0.002)
    parallel.register_comm_hook(None, hook)
    for _ in range(2):
        events.clear()
        model.zero_grad()
        parallel.require_backward_grad_sync = not alone
        parallel(**inputs)["loss"].backward()
    return list(events), [param.grad for param in model.parameters() if param.grad is not None]


def main(folder: Path, rank: int) -> None:
    sys.path.insert(0, str(folder))
    import lm  # pyright: ignore

    given: dict[str, Any] = torch.load(folder / "given.pt")
    inputs: Tensors = {name: x.chunk(2)[rank] for name, x in given["inputs"].items()}
    limit = timedelta(seconds=40)
    store = f"file://{folder / 'store'}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=limit)
    events: Events = []
    lm.d_layer = recording(lm.d_layer, events)  # pyright: ignore
    found: dict[str, Any] = {}
    for name in ("together", "alone"):
        model = lm.Model(0, torch.float64).eval()  # pyright: ignore
        model.load_state_dict(given["params"])
        found[name] = trained(model, inputs, events, alone=name == "alone")
    found["names"] = [name for name, _ in model.named_parameters()]  # pyright: ignore
    found["whole"] = trained(Whole(lm, given["params"]), inputs, events)
    torch.save(found, folder / f"rank{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
