"""ResNet in training beside transformers': by the statistics of the batch, which move others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import with_calls
from models.families import Arrays, cross_entropy, in_double, randomised
from models.resnets import RESNET, resnets
from models.witness import published, quietly
from tier import some

from xg.cli.input_arrays import Published, size_numbers
from xg_runtime import probe, rename
from xg_runtime.optim import global_norm

COUNTED = "num_batches_tracked"


@dataclass(frozen=True)
class Trained:
    """Inputs, loss and gradients of a step in training, the statistics behind it, and the model."""

    inputs: Arrays
    loss: float
    gradients: Arrays
    statistics: Arrays
    held: Published


def trained(config: Mapping[str, Any], folder: Path) -> Trained:
    torch: Any = import_module("torch")
    family = resnets(config)
    with quietly(), in_double():
        model = randomised(family.model())
        model.save_pretrained(folder)
        inputs = family.inputs(np.random.default_rng(2))
        given = {name: torch.from_numpy(array) for name, array in inputs.items()}
        loss = cross_entropy(family.call(model.train(), given), given)
        loss.backward()
    gradients = {name: param.grad.numpy() for name, param in model.named_parameters()}
    buffers = {name: each.numpy() for name, each in model.named_buffers() if COUNTED not in name}
    held = published(family.path, folder)
    return Trained(inputs, loss.item(), gradients, buffers, held)


PLACES = {"Bottleneck": 0, "Basic": 1, "as wide as the stem": 6}


@pytest.fixture(scope="module")
def resnet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained(RESNET[PLACES[request.param]], tmp_path_factory.mktemp("resnet"))


# Daily the first goes each way, and of the others each one, by turns.
WAYS = [(backend, kernels) for kernels in (False, True) for backend in with_calls()]
TURNED = [
    (name, *WAYS[(turn + i) % len(WAYS)]) for turn, name in enumerate(PLACES) for i in range(4)
]
TRIED = some(TURNED, lambda each: each if each[0] == "Bottleneck" else each[0])


@pytest.mark.parametrize(("resnet", "backend", "kernels"), TRIED, indirect=["resnet"])
def test_a_step_in_training_is_that_of_transformers(
    resnet: Trained, backend: str, kernels: bool
) -> None:
    loss, gradients, statistics = resnet.loss, resnet.gradients, resnet.statistics
    held = resnet.held
    module: Any = held.program.on_arrays(backend, kernels=kernels)
    outputs, saved = module.forward(held.params, resnet.inputs, seed=1)
    moved = module.moved(held.params, saved)
    d_outputs = {"Z": np.zeros_like(outputs["Z"]), "loss": np.ones_like(outputs["loss"])}
    found = module.backward(held.params, saved, d_outputs)
    sizes = size_numbers(held.program)
    assert held.names is not None
    learned = {name: array for name, array in found.items() if name in held.params}
    by_name = rename.to_checkpoint(held.names, learned, sizes)
    total = global_norm(gradients)
    assert by_name.keys() == gradients.keys()
    assert abs(float(outputs["loss"]) - loss) < 1e-8
    for name, wanted in gradients.items():
        assert probe.error(by_name[name], wanted, total) < 1e-8, name
    before = rename.to_checkpoint(held.names, {n: held.params[n] for n in moved}, sizes)
    now = rename.to_checkpoint(held.names, moved, sizes)
    assert now.keys() == statistics.keys()
    for name, wanted in statistics.items():
        assert np.allclose(now[name], wanted, rtol=1e-10, atol=1e-12), name
        assert not np.allclose(before[name], wanted, rtol=1e-3), name
