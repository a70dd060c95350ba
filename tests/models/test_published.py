"""Models of transformers and the library's diagrams of them: one checkpoint, the same numbers.

Logits, loss and every gradient, the gradients under the names and in the layouts of the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pytest
from backends import narrow, with_calls
from models.families import FURTHER, LIKE_LLAMA, Arrays, Family, relative
from models.more_families import CONFIGURED, EVERY, ONE_OF_EACH
from models.witness import Witness
from tier import THOROUGH, some

from xg.cli.input_arrays import size_numbers
from xg_runtime import probe, rename
from xg_runtime.errors import InputError
from xg_runtime.module import Module, is_float
from xg_runtime.names import Names, NamesLine, TensorLayout
from xg_runtime.names import numbers as numbers_in
from xg_runtime.optim import global_norm

TOLERANCE: Final = 1e-8
NARROW: Final = narrow(1e-4, 0.2)
RELATIVES: Final = [
    pytest.param(name, config, id=f"{name}-{place}")
    for name, configs in LIKE_LLAMA.items()
    for place, config in enumerate(configs[1:], 1)
    if THOROUGH or place == 1
]

# Of each kind of `more_families` one.
Made: TypeAlias = Callable[[str, Family], Witness]
TURNED: Final = [
    (name, with_calls()[(place + turn) % len(with_calls())])
    for place, name in enumerate(EVERY)
    for turn in range(len(with_calls()))
]
WAYS: Final = some(TURNED, lambda way: way if way[0] in ONE_OF_EACH else way[0])
TRIED: Final = some(CONFIGURED, lambda name: name.rpartition("-")[0])
FURTHER_TRIED: Final[Mapping[str, Family]] = {**FURTHER, **{n: CONFIGURED[n] for n in TRIED}}


def calculated(module: Module, params: Arrays, inputs: Arrays) -> Arrays:
    """Outputs, and gradients of the loss as `d/NAME`."""
    outputs, saved = module.forward(params, inputs)
    d_outputs = {"Z": np.zeros_like(outputs["Z"]), "loss": np.ones_like(outputs["loss"])}
    gradients = module.backward(params, saved, d_outputs)
    return {**outputs, **{f"d/{name}": gradient for name, gradient in gradients.items()}}


def misses(
    witness: Witness, module: Module, params: Arrays, tolerance: float = TOLERANCE
) -> dict[str, float]:
    """How far everything is from the witness, as the contract measures it, above the tolerance."""
    found = calculated(module, params, witness.inputs)
    specs = witness.held.program.params
    derived = {name: found[f"d/{name}"] for name in params if not specs[name].frozen}
    gradients = rename.to_checkpoint(witness.names, derived, size_numbers(witness.held.program))
    assert gradients.keys() == witness.gradients.keys()
    total = global_norm(witness.gradients)
    errors = {
        name: probe.error(gradients[name], wanted, total)
        for name, wanted in witness.gradients.items()
    }
    errors["logits"] = probe.error(found["Z"], witness.logits, 0.0)
    errors["loss"] = probe.error(found["loss"], np.array(witness.loss), 0.0)
    return {name: error for name, error in errors.items() if not error <= tolerance}


def is_noticed(witness: Witness, module: Module, params: Arrays) -> bool:
    """Whether anything misses the witness; where the logits do, gradients need not be computed."""
    outputs, _ = module.forward(params, witness.inputs)
    agrees = probe.error(outputs["Z"], witness.logits, 0.0) <= TOLERANCE
    return not agrees or bool(misses(witness, module, params))


def is_fused(name: str, backend: str) -> bool:
    """With kernels in one backend and without in the other, turned from one family to the next."""
    return (list(EVERY).index(name) + with_calls().index(backend)) % 2 == 1


def in_numpy(witness: Witness) -> Module:
    """The module that is compared in NumPy, which is written already."""
    name = list(EVERY)[list(EVERY.values()).index(witness.family)]
    return witness.held.program.on_arrays(kernels=is_fused(name, "numpy"))


@pytest.mark.parametrize(("name", "backend"), WAYS)  # the other backends: see the gallery
def test_logits_loss_and_every_gradient_agree(name: str, backend: str, witness_of: Made) -> None:
    """Daily as `is_fused` says, where thorough with kernels and without.

    Daily families that share a file of names with an earlier one are in one backend, by turns.
    """
    witness = witness_of(name, EVERY[name])
    for kernels in (False, True) if THOROUGH else (is_fused(name, backend),):
        module = witness.held.program.on_arrays(backend, kernels=kernels)
        assert misses(witness, module, witness.held.params) == {}, kernels


@pytest.mark.parametrize("family", FURTHER_TRIED.values(), ids=list(FURTHER_TRIED))
def test_further_configurations_agree(family: Family, tmp_path: Path) -> None:
    """In torch with kernels, and where tests are thorough in each backend with and without."""
    witness = Witness.of(family, tmp_path)
    ways = [(b, k) for b in with_calls() for k in (False, True)] if THOROUGH else [("torch", True)]
    for backend, kernels in ways:
        module = witness.held.program.on_arrays(backend, kernels=kernels)
        assert misses(witness, module, witness.held.params) == {}, (backend, kernels)


@pytest.mark.parametrize(("name", "config"), RELATIVES)
def test_every_config_of_a_relative_agrees(
    name: str, config: Mapping[str, Any], tmp_path: Path
) -> None:
    """Configs of one family differ in heads, sizes, windows, biases, turns and tied heads.

    Daily in one backend, with kernels or without, by turns.
    """
    witness = Witness.of(relative(name, config), tmp_path)
    ways, turn = list(product(("numpy", "torch"), (False, True))), list(LIKE_LLAMA).index(name) % 4
    for backend, kernels in ways if THOROUGH else ways[turn::4]:
        module = witness.held.program.on_arrays(backend, kernels=kernels)
        assert misses(witness, module, witness.held.params) == {}, (backend, kernels)


def test_narrow_numbers_stay_within_their_rounding(one_of_each: Witness) -> None:
    """One way of each family, by turns; where thorough, all."""
    place = list(EVERY.values()).index(one_of_each.family)
    turn = 3 if place % 2 else place // 2 % 3  # one that the family goes in float64 as well
    for backend, kernels, dtype, bound in NARROW if THOROUGH else [NARROW[turn]]:
        half = dtype if dtype == "bfloat16" else None
        module = one_of_each.held.program.on_arrays(backend, half, kernels=kernels)
        params = {name: array.astype(np.float32) for name, array in one_of_each.held.params.items()}
        inputs = {
            n: a.astype(np.float32) if is_float(a) else a for n, a in one_of_each.inputs.items()
        }
        narrower = replace(one_of_each, inputs=inputs)
        most = max(bound, one_of_each.family.coarse) if half else bound
        assert misses(narrower, module, params, most) == {}, (backend, kernels, dtype)
        assert misses(narrower, module, params, 1e-9)  # they were narrow indeed


def test_no_gradient_of_the_witness_is_zero_without_a_reason(witness: Witness) -> None:
    total = global_norm(witness.gradients)
    for name, gradient in witness.gradients.items():
        if not name.endswith(
            ("key.bias", "k_proj.bias", "k_lin.bias")
        ):  # it shifts whole rows of scores, which softmax does not see
            assert global_norm({name: gradient}) > 1e-5 * total, name


def last(line: NamesLine) -> tuple[str, ...]:
    """The parameters of a line without the calls that they are in."""
    return tuple(name.rpartition(".")[2] for name in line.params)


def lines_in_use(witness: Witness) -> list[tuple[int, NamesLine]]:
    """The lines of parameters that the witness's choice of options has."""
    params = witness.held.params
    return [
        (place, line)
        for place, line in enumerate(witness.names.lines)
        if any(numbers_in(line.params[0], name) is not None for name in params)
    ]


def with_lines(names: Names, changed: dict[int, NamesLine]) -> Names:
    lines = [changed.get(place, line) for place, line in enumerate(names.lines)]
    return replace(names, lines=tuple(lines))


def readings(witness: Witness, changes: list[dict[int, NamesLine]]) -> Iterator[tuple[str, Arrays]]:
    """The parameters that a checkpoint gives by wrong names, where its shapes let them through."""
    for changed in changes:
        try:
            yield str(changed.values()), witness.params(with_lines(witness.names, changed))
        except InputError:
            continue


def test_a_transpose_too_many_or_too_few_is_noticed(one_of_each: Witness) -> None:
    """In square matrices by the numbers; in all others shapes tell.

    Lines of other calls of one block have the same last names again: one of each in CI.
    """
    other = {TensorLayout(): TensorLayout.of("T"), TensorLayout.of("T"): TensorLayout()}
    turned = [
        {place: replace(line, layout=other[line.layout])}
        for place, line in some(lines_in_use(one_of_each), lambda each: last(each[1]))
        if line.layout in other
    ]
    assert turned
    module = in_numpy(one_of_each)
    for line, params in readings(one_of_each, turned):
        assert is_noticed(one_of_each, module, params), line


def test_lines_that_changed_places_are_noticed(one_of_each: Witness) -> None:
    """Every line and each neighbor whose parameters have the same shapes.

    Lines of many calls of one block are the same pairs of last names again: one of each in CI.
    """
    lines = lines_in_use(one_of_each)
    pairs = [
        ((i, one), (j, other))
        for place, (i, one) in enumerate(lines)
        for j, other in lines[place + 1 : place + 4]
        if one.layout.splits == other.layout.splits
        if one.tensor.count("*") == other.tensor.count("*")
    ]
    swapped = [
        {i: replace(one, params=other.params), j: replace(other, params=one.params)}
        for (i, one), (j, other) in some(pairs, lambda pair: tuple(last(line) for _, line in pair))
    ]
    module, noticed = in_numpy(one_of_each), 0
    for line, params in readings(one_of_each, swapped):
        with np.errstate(invalid="ignore"):  # of a variance that is none
            assert is_noticed(one_of_each, module, params), line
        noticed += 1
    assert noticed


def test_fused_parts_in_another_order_are_noticed(witness: Witness) -> None:
    turned = [
        {place: replace(line, params=line.params[::-1])}
        for place, line in lines_in_use(witness)
        if line.layout.splits
    ]
    module = in_numpy(witness)
    for line, params in readings(witness, turned):
        assert is_noticed(witness, module, params), line
