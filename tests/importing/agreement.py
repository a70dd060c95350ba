"""A model and what was imported from it, side by side: outputs, and the gradient of everything."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from importing.sources import Case
from numpy.typing import NDArray
from torch import Tensor, nn

from xg.driver import Program, compile_project
from xg.frontend.project import parse_project
from xg_runtime.probe import error
from xg_torch.importing import Imported, import_archive
from xg_torch.importing.proof import restore_axes

Array = NDArray[Any]


def build(case: Case) -> nn.Module:
    """The model in float64, every parameter away from 0 and 1."""
    torch.manual_seed(7)
    model = case.build().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def program_of(case: Case, model: nn.Module) -> torch.export.ExportedProgram:
    """The model as `torch.export.export` gives it, in evaluation mode, sizes of axes free."""
    names = {name: torch.export.Dim(name, min=3, max=31) for axes in case.dynamic for name in axes}
    shapes = tuple({i: names[name] for i, name in enumerate(axes)} for axes in case.dynamic)
    return torch.export.export(model.eval(), case.inputs(3, 5), dynamic_shapes=shapes)


def saved(program: torch.export.ExportedProgram) -> bytes:
    """The file that `torch.export.save` writes."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def exported(case: Case, model: nn.Module) -> bytes:
    """The file of a model."""
    return saved(program_of(case, model))


@cache
def traced(case: Case) -> tuple[nn.Module, torch.export.ExportedProgram]:
    """A model and its program, of which no one changes a weight; torch exports it for a second."""
    model = build(case)
    return model, program_of(case, model)


@cache
def imported(case: Case) -> tuple[nn.Module, Imported]:
    """A model and its diagram."""
    model, program = traced(case)
    return model, import_archive(saved(program), "model.pt2")


@cache
def _compiled(text: str) -> Program:
    """The program of a text, which is compared at several sizes."""
    return compile_project(parse_project(text.encode()))


def compare(
    model: nn.Module, made: Imported, inputs: Sequence[Tensor], params: dict[str, Array]
) -> tuple[float, float]:
    """How far outputs and gradients of the generated code are from torch's, at worst."""
    program = _compiled(made.text)
    arrays = {
        name: tensor.detach().numpy() if tensor.dtype != torch.bool else tensor.numpy().astype(int)
        for name, tensor in zip(program.inputs, inputs, strict=True)
    }
    module = program.load()
    outputs, saved = module.forward(params, arrays)
    found = model(*inputs)
    wanted: list[Tensor] = [found] if isinstance(found, Tensor) else [*found]
    generator = np.random.default_rng(3)
    d_outputs = {name: generator.standard_normal(np.shape(y)) for name, y in outputs.items()}
    model.zero_grad()
    given = zip(wanted, map(torch.as_tensor, d_outputs.values()), strict=True)
    trained = [(y, d) for y, d in given if y.requires_grad]
    torch.autograd.backward([y for y, _ in trained], [d for _, d in trained])
    pairs = zip(outputs.values(), wanted, strict=True)
    off = max(float(np.abs(mine - its.detach().numpy()).max()) for mine, its in pairs)
    return off, _gradients(model, made, module.backward(params, saved, d_outputs))


def _gradients(model: nn.Module, made: Imported, found: dict[str, Array]) -> float:
    """The worst gradient in the measure of the contract; every parameter of the model has one."""
    own = dict(model.named_parameters(remove_duplicate=False))
    back = {name: np.zeros(tuple(p.shape)) for name, p in own.items()}
    covered: set[str] = set()
    for path, weight in made.sources.items():
        if weight.frozen:
            assert path not in found
            continue
        gradient = restore_axes(found[path], weight)
        place = [slice(None)] * gradient.ndim
        place[weight.axis] = slice(weight.start, weight.stop)
        shape = back[weight.source].shape if weight.flat else gradient.shape
        back[weight.source][tuple(place)] += gradient.reshape(shape)
        covered.add(weight.source)
    trained = {id(p) for p in model.parameters() if p.grad is not None}
    assert {id(own[name]) for name in covered} >= trained
    total = float(np.sqrt(sum((g**2).sum() for g in back.values())))
    worst = 0.0
    for name in covered:
        gradient = own[name].grad
        wanted = np.zeros_like(back[name]) if gradient is None else gradient.numpy()
        worst = max(worst, error(back[name], wanted, total))
    return worst


def hold_on_rows(model: nn.Module, made: Imported, width: int) -> None:
    """A model of rows [B, S, width] and its import agree, at sizes that neither was made from."""
    for sizes in ((4, 7), (2, 11)):
        torch.manual_seed(sizes[0])
        inputs = (torch.randn(*sizes, width).double(),)
        outputs, gradients = compare(model, made, inputs, dict(made.params))
        assert outputs < 1e-10, outputs
        assert gradients < 1e-8, gradients
