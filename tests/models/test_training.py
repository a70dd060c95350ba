"""ResNet in training beside transformers': by the statistics of the batch, which move others."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import with_calls
from models.families import Arrays, cross_entropy, in_double, randomised
from models.resnets import RESNET, resnets
from models.witness import published, quietly

from xg.cli.published import size_numbers
from xg_runtime import agreement, rename
from xg_runtime.norm import global_norm

COUNTED = "num_batches_tracked"


def trained(config: Mapping[str, Any], folder: Path) -> tuple[Arrays, float, Arrays, Arrays]:
    """Inputs, loss and gradients of a step in training, and the statistics behind it."""
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
    return inputs, loss.item(), gradients, buffers


@pytest.mark.parametrize("kernels", [False, True], ids=["readable", "kernels"])
@pytest.mark.parametrize("backend", with_calls())
@pytest.mark.parametrize("place", [0, 1, 6], ids=["Bottleneck", "Basic", "as wide as the stem"])
def test_a_step_in_training_is_that_of_transformers(
    place: int, backend: str, kernels: bool, tmp_path: Path
) -> None:
    config = RESNET[place]
    inputs, loss, gradients, statistics = trained(config, tmp_path)
    held = published(resnets(config).path, tmp_path)
    module: Any = held.program.on_arrays(backend, kernels=kernels)
    outputs, saved = module.forward(held.params, inputs, seed=1)
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
        assert agreement.error(by_name[name], wanted, total) < 1e-8, name
    before = rename.to_checkpoint(held.names, {n: held.params[n] for n in moved}, sizes)
    now = rename.to_checkpoint(held.names, moved, sizes)
    assert now.keys() == statistics.keys()
    for name, wanted in statistics.items():
        assert np.allclose(now[name], wanted, rtol=1e-10, atol=1e-12), name
        assert not np.allclose(before[name], wanted, rtol=1e-3), name
