"""A model in memory is read where it is, and what its import gives does not change with it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from importing.agreement import build, saved, traced
from importing.sources import CASES
from torch import Tensor, nn

import xg
from xg.diagnostics.diagnostic import DiagnosticError
from xg_torch.importing.archive import read_archive
from xg_torch.importing.exported import Exported, read_graph
from xg_torch.importing.model import read_program
from xg_torch.importing.names import names_file
from xg_torch.importing.proof import part, small_pages


def programs(program: torch.export.ExportedProgram) -> tuple[Exported, Exported]:
    """A program read in memory, and by the whole file that torch writes of it."""
    filed = read_graph(read_archive(saved(program)))
    return read_program(program, equal_sizes=False), filed


def test_weights_are_read_without_a_copy() -> None:
    model, program = traced(CASES["old_gpt"])
    held, _ = programs(program)
    for name, parameter in model.named_parameters():
        target = held.tied.get(name, name)
        assert np.shares_memory(held.arrays[target], parameter.detach().numpy()), name


@pytest.mark.parametrize("name", CASES)
def test_a_program_in_memory_is_that_of_its_file(name: str) -> None:
    live, filed = programs(traced(CASES[name])[1])
    assert list(live.arrays) == list(filed.arrays)
    assert live.tied == filed.tied
    for each, array in filed.arrays.items():
        assert array.dtype == live.arrays[each].dtype, each
        assert np.array_equal(live.arrays[each], array), each


class Kinds(nn.Module):
    """Weights in bfloat16, one that is a part of another, one turned, and one turned in place."""

    def __init__(self) -> None:
        super().__init__()
        whole = torch.arange(24.0).view(4, 6)
        self.whole = nn.Parameter(whole)
        self.part = nn.Parameter(whole[1:3])
        self.turned = nn.Parameter(torch.arange(24.0).view(4, 6).T)
        self.short = nn.Parameter(torch.randn(6).to(torch.bfloat16))
        square = torch.arange(36.0).view(6, 6)
        self.square = nn.Parameter(square)
        self.across = nn.Parameter(square.T)  # of the same numbers at the same place

    def forward(self, x: Tensor) -> Tensor:
        x = x @ self.square + (x @ self.across).sin()
        return x @ self.whole.T @ self.turned.T + (x @ self.part.T).sum() + self.short.float()


@pytest.mark.filterwarnings("ignore:No complete tensor")  # torch's, of the file
def test_weights_of_all_kinds_are_those_of_the_file() -> None:
    live, filed = programs(torch.export.export(Kinds(), (torch.randn(2, 6),)))
    assert live.tied == filed.tied == {}
    assert live.arrays.keys() == filed.arrays.keys()
    for name, array in filed.arrays.items():
        assert array.dtype == live.arrays[name].dtype
        assert np.array_equal(live.arrays[name], array), name


def test_parameters_stay_when_the_model_changes() -> None:
    model = nn.Linear(3, 4)
    made = xg.trace(model, torch.randn(2, 3))
    before = {name: array.copy() for name, array in made.params.items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    for name, array in made.params.items():
        assert array.flags.c_contiguous
        assert np.array_equal(array, before[name])


def test_the_program_keeps_its_weights() -> None:
    program = torch.export.export(nn.Linear(3, 4), (torch.randn(2, 3),))
    read_program(program)
    assert program.state_dict["weight"].shape == (4, 3)
    assert program.module()(torch.randn(2, 3)).shape == (2, 4)


def test_a_weight_of_nothing_is_refused() -> None:
    class Empty(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.none = nn.Parameter(torch.zeros(0, 3))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.none.sum()

    with pytest.raises(DiagnosticError):
        xg.trace(Empty(), torch.randn(2, 3))


def test_a_part_of_a_tensor_is_a_view() -> None:
    case = CASES["old_gpt"]
    model = build(case)
    made = xg.trace(model, *case.inputs(3, 5))
    assert any(weight.transposed for weight in made.sources.values())
    for weight in made.sources.values():
        array = model.state_dict()[weight.source].numpy()
        assert np.shares_memory(part(array, weight), array)


def test_a_file_of_names_needs_no_memory_of_weights() -> None:
    model = nn.Linear(1000, 1000)
    made = xg.trace(model, torch.randn(2, 1000))
    held, _ = programs(torch.export.export(model, (torch.randn(2, 1000),)))
    tracemalloc.start()
    names_file(made.sources, held)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20  # of 4 MB


def test_huge_pages_are_asked_for_again() -> None:
    core: Any = np
    switch: Callable[[bool], bool] = core._core.multiarray._set_madvise_hugepage
    before = switch(True)
    with small_pages():
        assert not switch(False)
    assert switch(before)
