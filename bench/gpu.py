"""GPT-2 (124M) on one GPU in bfloat16: generated code against a model by hand, SDPA, compiled.

    python -m bench gpu

Besides times and peaks of a training step it measures what a GPU has to get right: attention in
bfloat16, forward and backward, and all plans on one rank under NCCL. Every function takes a device,
so that the tests run all of it on the CPU, with gloo and a small model.
"""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import socket
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from time import perf_counter
from typing import Any, Final

import xg
from bench.contestants import FILE, Task
from bench.pairs import Ratio, summary
from bench.turns import torch_peak
from xg_runtime.ranks import kinds

GPT2: Final = Task(8, 1024, {"D": 768, "N_L": 12, "N_H": 12, "V": 50257})
SMALL: Final = Task(4, 16, {"D": 64, "N_L": 2, "N_H": 4, "V": 96})  # what plans are tried on
HAND: Final = "torch by hand, SDPA, compiled"
BEST: Final = "xg torch, kernels, compiled"
WARM, STEPS = 3, 5  # in front of all turns, and in a turn
KINDS: Final = (
    kinds.ALL_REDUCE,
    kinds.ALL_REDUCE_MAX,
    kinds.ALL_GATHER,
    kinds.REDUCE_SCATTER,
    kinds.ALL_TO_ALL,
)
PLANS: Final[Mapping[str, tuple[str, ...]]] = {
    "DP": ("N_D",),
    "ZeRO1": ("N_D",),
    "FSDP": ("N_D",),
    "HSDP": ("N_R", "N_D"),
    "SP_VP": ("N_T",),
    "CP": ("N_S",),
    "Ring": ("N_S",),
    "Ulysses": ("N_S",),
    "KV": ("N_S",),
    "All": ("N_D", "N_T"),
}
Step = Callable[[], Any]


def is_there() -> bool:
    """Whether torch is installed and finds a GPU."""
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def measure(pairs: int) -> Iterator[Ratio]:
    """Training, attention and plans, on the GPU."""
    yield from training(GPT2, "cuda", pairs)
    yield from attention(GPT2, "cuda")
    yield from plans("cuda")


# ---- training -----------------------------------------------------------------------------------


def training(task: Task, device: str, pairs: int, *, compiled: bool = True) -> Iterator[Ratio]:
    """Times of a training step in turns, then peaks; what is below 1 has more tokens per second."""
    makers = contestants(task, device)
    steps: dict[str, Step] = {}
    peaks: dict[str, int] = {}
    for name, make in makers.items():
        if compiled or not name.endswith("compiled"):
            before = _allocated(device)
            steps[name] = make()
            for _ in range(WARM):
                steps[name]()
            peaks[name] = _peak(steps[name], device, _allocated(device) - before)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(pairs):
        for name, step in steps.items():
            times[name].append(_turn(step, device))
    reference = HAND if HAND in steps else next(iter(steps))
    for name in steps.keys() - {reference}:
        target = 1.0 if name == BEST else None
        both = list(zip(times[name], times[reference], strict=True))
        yield summary(f"GPT-2, bfloat16: {name}", reference, both, target)
        peak = [(float(peaks[name]), float(peaks[reference]))]
        yield replace(summary(f"GPT-2, bfloat16: {name}, peak", reference, peak, target), unit="B")


def contestants(task: Task, device: str) -> dict[str, Callable[[], Step]]:
    """Functions that make a step of each: the same model, start, batch and optimizer."""

    def by_hand(*, compiled: bool) -> Step:
        from bench.torch_transformer import LM

        model = LM({**task.sizes, "S_max": task.length}, "sdpa").float()
        model.load(task.params())
        return _training_step(model, task, device, compiled=compiled)

    def generated(*, kernels: bool, compiled: bool) -> Step:
        model = _generated(task, kernels=kernels)
        return _training_step(model, task, device, compiled=compiled)

    return {
        HAND: lambda: by_hand(compiled=True),
        "torch by hand, SDPA": lambda: by_hand(compiled=False),
        BEST: lambda: generated(kernels=True, compiled=True),
        "xg torch, kernels": lambda: generated(kernels=True, compiled=False),
        "xg torch, compiled": lambda: generated(kernels=False, compiled=True),
    }


def _generated(task: Task, *, kernels: bool) -> Any:  # noqa: ANN401 - a module of torch
    import torch

    sizes = {"V": task.sizes["V"], "D": task.sizes["D"], "S_max": task.length}
    model = task.program().load("torch", kernels=kernels).Model(**sizes).eval()
    start = {name: torch.from_numpy(array) for name, array in task.params().items()}
    model.load_state_dict(start)
    return model


def _training_step(model: Any, task: Task, device: str, *, compiled: bool) -> Step:  # noqa: ANN401
    """One step in bfloat16 with parameters and moments in float32."""
    import torch

    model = model.to(device)

    def loss_of(*tokens: Any) -> Any:  # noqa: ANN401 - tensors
        found = model(*tokens)
        return found["loss"] if isinstance(found, dict) else found  # logits that leave cost memory

    run: Any = torch.compile(loss_of, fullgraph=True) if compiled else loss_of
    fused = device == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=fused)
    ids, targets = (torch.from_numpy(tokens).to(device) for tokens in task.tokens())

    def step() -> Any:  # noqa: ANN401 - a tensor
        with torch.autocast(device, torch.bfloat16):
            loss = run(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def _turn(step: Step, device: str) -> float:
    _ready(device)
    start = perf_counter()
    for _ in range(STEPS):
        step()
    _ready(device)
    return (perf_counter() - start) / STEPS


def _ready(device: str) -> None:
    """Wait until the device has done what it was given."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def _allocated(device: str) -> int:
    import torch

    return torch.cuda.memory_allocated() if device == "cuda" else 0


def _peak(step: Step, device: str, resident: int) -> int:
    """The bytes that a contestant has at most during a step; others rest on the device too."""
    import torch

    if device != "cuda":
        return torch_peak(step)
    _ready(device)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    _ready(device)
    return torch.cuda.max_memory_allocated() - before + resident


# ---- attention ----------------------------------------------------------------------------------


def attention(task: Task, device: str) -> Iterator[Ratio]:
    """Errors of attention with kernels in bfloat16, which may be twice those of the readable form.

    Both are compared with the readable form in float32.
    """
    exact, readable, fused = (
        _attended(task, device, kernels=kernels, half=half)
        for kernels, half in ((False, False), (False, True), (True, True))
    )
    for name, wanted in exact.items():
        mine, theirs = (float((each[name] - wanted).abs().max()) for each in (fused, readable))
        yield _within(f"attention, bfloat16: {name}", "twice the readable form", mine, 2 * theirs)


def _attended(task: Task, device: str, *, kernels: bool, half: bool) -> Mapping[str, Any]:
    """The output and all gradients of a block of attention, in float32."""
    import torch

    sizes = {"D": task.sizes["D"], "N_H": task.sizes["N_H"]}
    program = xg.compile(FILE, block="Attention", sizes=sizes, options={"mask": "causal"})
    module: Any = program.load("torch", kernels=kernels)
    dtype = torch.bfloat16 if half else torch.float32
    given = torch.Generator().manual_seed(0)
    shape = (task.batch, task.length, task.sizes["D"])
    draw = {name: torch.randn(shape, generator=given) for name in ("X", "M", "Y")}
    # Numbers of bfloat16 in both: what differs is how they are computed.
    placed = {name: x.bfloat16().to(device, dtype) for name, x in draw.items()}
    params = {name: x.bfloat16().to(device, dtype) for name, x in module.init(0).items()}
    slope = {"Y": placed.pop("Y")}
    outputs, saved = module.forward(params, placed)
    gradients = module.backward(params, saved, slope)
    return {name: x.float() for name, x in {**outputs, **gradients}.items()}


# ---- plans on one rank --------------------------------------------------------------------------


def plans(device: str) -> Iterator[Ratio]:
    """Collectives of torch in a group of one, and every plan on a mesh of one rank."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh

    from xg_runtime.ranks.process_mesh import ProcessMesh

    backend = "NCCL" if device == "cuda" else "gloo"
    with _one_rank(device):
        x = torch.arange(8.0, device=device)
        for kind in KINDS:
            yield _within(f"{backend}: {kind.name}", "what went in", _collective(kind, x), 1e-6)
        alone = _loss(xg.compile(FILE, sizes=_sizes()), device)
        for plan, names in PLANS.items():
            mesh: dict[str, int] = {name: 1 for name in names}  # noqa: C420 - its keys are str
            program = xg.compile(FILE, sizes=_sizes(), plan=plan, mesh=mesh)
            devices = init_device_mesh(device, (1,) * len(names), mesh_dim_names=names)
            with ProcessMesh(devices):
                found = _loss(program, device)
            error = max(float((found[name] - alone[name]).abs().max()) for name in alone)
            yield _within(f"{backend}, one rank: {plan}", "one device", error, 1e-4)


def _collective(kind: kinds.Kind, x: Any) -> float:  # noqa: ANN401
    """How far what comes out of a group of one is from what goes in."""
    import torch.distributed as dist

    from xg_runtime.ranks.backend import TorchGroup

    work, result = kind.begin(TorchGroup(dist.group.WORLD), x.clone())
    work.wait()
    return float((result - x).abs().max())


def _sizes() -> Mapping[str, int]:
    return {**SMALL.sizes, "S_max": SMALL.length}


def _loss(program: xg.Program, device: str) -> Mapping[str, Any]:
    """The loss and all gradients of a program with kernels."""
    import torch

    module: Any = program.load("torch", kernels=True)
    params = {name: torch.from_numpy(x).to(device) for name, x in SMALL.params().items()}
    ids, targets = (torch.from_numpy(tokens).to(device) for tokens in SMALL.tokens())
    outputs, saved = module.forward(params, {"ids": ids, "t": targets})
    one = {"loss": torch.ones((), device=device)}
    return {"loss": outputs["loss"], **module.backward(params, saved, one)}


@contextmanager
def _one_rank(device: str) -> Generator[None]:
    """A process group of this process alone."""
    import torch.distributed as dist

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    backend, store = "nccl" if device == "cuda" else "gloo", f"tcp://127.0.0.1:{port}"
    dist.init_process_group(backend, init_method=store, rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _within(what: str, against: str, error: float, bound: float) -> Ratio:
    """An error beside what it may be."""
    ratio = error / bound if bound else float(error > 0)
    return Ratio(what, against, error, bound, ratio, ratio, ratio, 1, 1.0, unit="error")
