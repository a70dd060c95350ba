"""Witnesses of published models: checkpoint, logits, loss, and gradients by its names."""

from __future__ import annotations

import copy
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from models.families import Arrays, Family, Tensor, in_double, randomised

from xg.cli.input_arrays import Published, size_numbers
from xg.cli.opening import open_project
from xg_runtime import rename, weights
from xg_runtime.names import Names


def published(diagram: Path, checkpoint: Path, *settings: tuple[str, str | int]) -> Published:
    options = Namespace(file=str(diagram), block=None, settings=settings, names=None, plan=None)
    return Published.read(open_project(str(diagram)), options, checkpoint)


@dataclass(frozen=True)
class Witness:
    """One family's model: what it reads and says, and the folder of its checkpoint."""

    family: Family
    folder: Path
    inputs: Arrays
    logits: Any
    loss: float
    gradients: Arrays

    @classmethod
    def of(cls, family: Family, folder: Path) -> Witness:
        """Draw a model, ask it, save it."""
        torch: Any = import_module("torch")
        with quietly(), in_double():
            model = randomised(family.model())
            model.save_pretrained(folder / "checkpoint")
            inputs = family.inputs(np.random.default_rng(1))
            given = {name: torch.from_numpy(array) for name, array in inputs.items()}
            logits = family.call(model, given)
            loss = family.loss(logits, given)
            loss.backward()
            gradients = _gradients(model, folder / "gradients")
        said = logits.detach().numpy(), loss.item()
        return cls(family, folder / "checkpoint", inputs, *said, gradients)

    @cached_property
    def held(self) -> Published:
        """The checkpoint, through the door that users take."""
        return published(self.family.path, self.folder)

    @property
    def names(self) -> Names:
        assert self.held.names is not None
        return self.held.names

    def params(self, names: Names) -> Arrays:
        """The diagram's parameters, read from the checkpoint by these names."""
        specs = self.held.program.params.items()
        shapes = {name: tuple(map(int, spec.shape)) for name, spec in specs}
        sizes = size_numbers(self.held.program)
        return rename.to_diagram(names, weights.read(self.folder), shapes, sizes, "it")

    def asked_again(self, folder: Path) -> Any:  # noqa: ANN401 - an array
        """The logits of what transformers loads from a folder, in float64."""
        torch: Any = import_module("torch")
        far = self.family.names == "phi3" or self.family.diagram == "whisper"
        pads = {"pad_token_id": 0} if far else {}  # their own are beyond these few tokens
        with quietly(), in_double():
            model = self.family.model().from_pretrained(
                folder,
                attn_implementation="eager",
                experts_implementation="eager",
                dtype=torch.float64,
                **pads,
            )
            given = {name: torch.from_numpy(array) for name, array in self.inputs.items()}
            return self.family.call(model.eval(), given).detach().numpy()


def _gradients(model: Tensor, folder: Path) -> Arrays:
    """Saved like a checkpoint, so that transformers itself gives each its published name.

    Without what is not learned by them: Whisper's sinusoids, running statistics, a bias of routes.
    """
    twin = copy.deepcopy(model)
    frozen = {name for name, _ in twin.named_buffers()}
    for (name, param), grad in zip(twin.named_parameters(), model.parameters(), strict=True):
        if grad.requires_grad:
            param.data = grad.grad
        else:
            frozen.add(name)
    twin.save_pretrained(folder)
    found = weights.read(folder).tensors
    return {name: array for name, array in found.items() if name not in frozen}


@contextmanager
def quietly() -> Generator[None]:
    """Without bars and advice on standard error."""
    logging: Any = import_module("transformers.utils.logging")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    yield
