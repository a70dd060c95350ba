"""The import of a model of 12 layers beside the limit of 10 s, and the memory of `xg weights`."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final

import xg
from bench.pairs import Ratio

DIAGRAMS: Final = Path(__file__).parents[1] / "diagrams" / "models"
LIMIT: Final = 10.0  # seconds of the CPU beyond torch.export
OF_FILE: Final = 1.2  # the memory of a command beside the bytes of the checkpoint
SMALL: Final[Mapping[str, int]] = {"n_layer": 12, "n_embd": 512, "n_head": 8, "vocab_size": 8192}
SIZES: Final[Mapping[str, int]] = {"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257}
# Of 150 million numbers, nine tenths of them of experts, each of which is a tensor of the file.
EXPERTS: Final[Mapping[str, int]] = {
    "num_hidden_layers": 6,
    "hidden_size": 512,
    "intermediate_size": 1792,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 8192,
}
WAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "read": (),
    "-o": ("-o", "made.safetensors"),
    "-o, bfloat16": ("-o", "half.safetensors", "--dtype", "bfloat16"),
    "--to": ("--to", "back"),
}
# Runs a command and says the most memory that it had, with pages of files and shared libraries.
CHILD: Final = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(most if sys.platform == "darwin" else 1024 * most)
"""


def measure(pairs: int) -> Iterator[Ratio]:
    """The import of two GPT-2, as often as asked for, five times at most; memory of checkpoints."""
    for sizes in (SMALL, SIZES):
        model = gpt2(sizes)
        millions = sum(each.numel() for each in model.parameters()) // 10**6
        taken = sorted(beyond_export(model) for _ in range(min(pairs, 5)))
        middle, low, high = (each / LIMIT for each in (median(taken), taken[0], taken[-1]))
        what = f"import: 12 layers, {millions} million numbers"
        seconds = middle * LIMIT
        yield Ratio(what, "10 s", seconds, LIMIT, middle, low, high, len(taken), 1.0)
    for diagram, build in (("gpt2", lambda: gpt2(SIZES)), ("mixtral", mixtral)):
        with TemporaryDirectory() as folder:
            build().save_pretrained(Path(folder) / "published")
            yield from memories(Path(folder), diagram)


def gpt2(sizes: Mapping[str, int]) -> Any:  # noqa: ANN401 - a module
    """A GPT-2 of transformers, drawn at random."""
    transformers: Any = import_module("transformers")
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).eval()


def mixtral() -> Any:  # noqa: ANN401 - a module
    """A Mixtral of transformers, drawn at random."""
    transformers: Any = import_module("transformers")
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**EXPERTS))


def beyond_export(model: Any) -> float:  # noqa: ANN401 - a module
    """Seconds of `xg.trace`, comparison included, without those of torch's own export."""
    import torch

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any) -> Any:  # noqa: ANN401 - a tensor
            return self.model(input_ids=ids, use_cache=False).logits

    ids, free = torch.arange(10).view(2, 5), torch.export.Dim.AUTO
    shapes = ({0: free, 1: free},)

    def export() -> object:
        return torch.export.export(Logits(), (ids,), dynamic_shapes=shapes)

    export()  # the first of a process imports half of torch
    exported = _seconds(export)
    return _seconds(lambda: xg.trace(Logits(), ids)) - exported


def _seconds(action: Callable[[], object]) -> float:
    start = process_time()
    action()
    return process_time() - start


def memories(folder: Path, diagram: str) -> Iterator[Ratio]:
    """The most memory of each way to read and write a checkpoint, beside the bytes of its file."""
    checkpoint = folder / "published"
    file = float((checkpoint / "model.safetensors").stat().st_size)
    own = _most(folder, "--version")
    for way, options in WAYS.items():
        path = str(DIAGRAMS / f"{diagram}.xg")
        most = _most(folder, "weights", path, "--from", str(checkpoint), *options)
        ratio = (most - own) / file
        what = f"memory of xg weights, {diagram}: {way}"
        yield Ratio(what, "the file", most - own, file, ratio, ratio, ratio, 1, OF_FILE, "B")


def _most(folder: Path, *arguments: str) -> float:
    command = [sys.executable, "-c", CHILD, sys.executable, "-m", "xg", *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return float(done.stdout)
