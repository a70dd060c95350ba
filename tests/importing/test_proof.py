"""No import is accepted without a comparison with its model, and a comparison can fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from importing.agreement import build, exported, imported
from importing.sources import CASES
from torch import Tensor, nn

import xg
from xg.diagnostics.diagnostic import DiagnosticError
from xg_runtime import names, rename
from xg_runtime.weights import Weights
from xg_torch.importing.archive import read_archive
from xg_torch.importing.exported import Exported, read_graph
from xg_torch.importing.lower import lower
from xg_torch.importing.model import Imported, import_archive
from xg_torch.importing.proof import ModelComparison, prove
from xg_torch.importing.views import Model, Weight


@pytest.fixture(scope="module")
def held() -> tuple[Imported, Model, Exported]:
    """A model, its program and its diagram."""
    case = CASES["old_gpt"]
    data = exported(case, build(case))
    program = read_graph(read_archive(data))
    return import_archive(data, "model.pt2"), lower(program), program


def codes(text: str, sources: Mapping[str, Weight], model: Model, program: Exported) -> list[str]:
    with pytest.raises(DiagnosticError) as error:
        prove(text, sources, model, program)
    assert "nothing was written" in str(error.value)
    return sorted({each.code for each in error.value.diagnostics})


def test_what_was_imported_was_compared(held: tuple[Imported, Model, Exported]) -> None:
    made, model, program = held
    assert prove(made.text, made.sources, model, program) == made.proof
    assert made.proof.compared
    assert made.proof.worst < 1e-12
    assert [set(sizes.values()) for sizes in made.proof.sizes] == [{3, 5}, {4, 6}]


CHANGES = [
    ("SM(1/sqrt(D_h), causal)", "SM(1/sqrt(D_h))"),
    ("-> GELU ", "-> GELU(exact) "),
    ("SM(1/sqrt(D_h)", "SM(1/D_h"),
]


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_a_diagram_of_something_else_is_refused(
    held: tuple[Imported, Model, Exported], old: str, new: str
) -> None:
    made, model, program = held
    text = made.text.replace(old, new)
    assert text != made.text
    assert codes(text, made.sources, model, program) == ["XG0905"]


def test_a_diagram_with_a_mistake_is_refused(held: tuple[Imported, Model, Exported]) -> None:
    made, model, program = held
    text = made.text.replace("-> GELU ", "-> GULE ")
    assert codes(text, made.sources, model, program) == ["XG0904"]


def test_weights_that_changed_places_are_noticed(held: tuple[Imported, Model, Exported]) -> None:
    """Also biases, which are zero in a new model: parameters are moved before the comparison."""
    made, model, program = held
    for one, other in (("W_Q", "W_V"), ("b_Q", "b_K"), ("b_K", "b_V")):
        sources = {**made.sources, one: made.sources[other], other: made.sources[one]}
        assert codes(made.text, sources, model, program) == ["XG0905"]


def test_a_weight_that_lacks_its_transpose_is_noticed(
    held: tuple[Imported, Model, Exported],
) -> None:
    made, model, program = held
    turned = replace(made.sources["W_c_out"], transposed=False)
    assert codes(made.text, {**made.sources, "W_c_out": turned}, model, program) == ["XG0905"]


@pytest.mark.parametrize("name", CASES)
def test_weights_travel_both_ways_by_the_file_of_names(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model, made = imported(CASES[name])
    path = tmp_path_factory.mktemp(name) / "model.names.toml"
    path.write_text(made.names, encoding="utf-8")
    held = names.read(path)
    tensors = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    shapes = {name: array.shape for name, array in made.params.items()}
    params = rename.to_diagram(held, Weights("it", tensors), shapes, {}, "it")
    assert all(np.array_equal(params[name], made.params[name]) for name in made.params)
    back = rename.to_checkpoint(held, dict(made.params), {})
    trained = {name for name, _ in model.named_parameters()}
    assert back.keys() == trained
    assert all(np.array_equal(back[name], tensors[name]) for name in back)


class Tied(nn.Module):
    """A table that is also the head, by a name of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(23, 6)
        self.head = nn.Linear(6, 23, bias=False)
        self.head.weight = self.table.weight
        self.unused = nn.Linear(3, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.relu(self.table(ids)))


def test_the_file_of_names_knows_what_is_tied_and_what_is_unused() -> None:
    made = xg.trace(Tied(), torch.arange(10).reshape(2, 5))
    assert '[tied]\n"head.weight" = "table.weight"' in made.names
    assert 'ignored = ["unused.weight", "unused.bias"]' in made.names


def test_without_torch_a_file_is_checked_only(
    held: tuple[Imported, Model, Exported], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xg_torch.importing.proof.has_torch", lambda: False)
    made, model, program = held
    assert prove(made.text, made.sources, model, program) == ModelComparison(compared=False)


def below_one(x: Tensor) -> Tensor:
    return torch.sqrt(1 - x * x)


def above_one(x: Tensor) -> Tensor:
    return torch.sqrt(torch.log(x))


def nowhere(x: Tensor) -> Tensor:
    return torch.log(-1 - x * x)


def bounded(x: Tensor) -> Tensor:
    return torch.log(x.clamp(min=1e-6))


@pytest.mark.parametrize("of", [torch.log, torch.sqrt, below_one, above_one, bounded])
def test_a_model_is_compared_where_its_outputs_are_finite(of: Callable[[Tensor], Tensor]) -> None:
    made = xg.trace(of, torch.rand(3, 5))
    assert made.proof.compared
    assert made.proof.worst < 1e-12


def test_a_model_whose_outputs_are_never_finite_is_no_defect() -> None:
    with pytest.raises(DiagnosticError, match="the outputs are not finite") as error:
        xg.trace(nowhere, torch.rand(3, 5))
    assert [each.code for each in error.value.diagnostics] == ["XG0908"]
