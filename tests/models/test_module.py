"""The modules of transformers agree with the library's diagrams edge by edge: no false alarm."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

import numpy as np
import pytest
from models.families import LIKE_LLAMA, in_double
from models.more_families import EVERY, unpadded
from models.witness import quietly
from tier import some

from xg.cli.opening import open_project
from xg_torch.compare.comparison import Counterpart, compare_module

# A module with experts holds all those of a layer in one parameter, its checkpoint each in another:
# a file of names says the second, so that such a module is refused with what is missing.
ROUTED = ("mixtral", "deepseek2")
WHOLE = {name: each for name, each in EVERY.items() if each.diagram not in ROUTED}
# A relative of Llama has a file of names of its own.
TRIED = some(WHOLE, lambda name: name if name in LIKE_LLAMA else WHOLE[name].diagram)
# torch holds the gradient of the row of padding at zero, although places that pad read it.
WHOLE["roberta"] = replace(WHOLE["roberta"], inputs=unpadded)


@pytest.mark.parametrize("name", TRIED)
def test_a_module_agrees_on_every_edge(name: str) -> None:
    """Of the families of one diagram the first, and Llama's relatives; where thorough all."""
    family = WHOLE[name]
    file = str(family.path)
    options = Namespace(file=file, block=None, settings=[], names=None, plan=None)
    given = family.inputs(np.random.default_rng(1))
    with quietly(), in_double():
        counterpart = Counterpart.of(open_project(file), options, family.model(), given, draw=True)
        found = compare_module(counterpart, given, 1e-10)
    assert found.first is None
    assert min(found.forward, found.backward, found.gradients) > 20
