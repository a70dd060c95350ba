"""Models that torch exports to ONNX: onnxruntime, torch and the diagram compute the same."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from importing.onnx_nodes import ROOT, TABLE, cases, outcome
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from xg.diagnostics.diagnostic import DiagnosticError
from xg.driver import compile_project
from xg.frontend.project import parse_project
from xg_torch.importing import Imported
from xg_torch.importing.onnx_model import from_proto, read_onnx, unround
from xg_torch.importing.onnx_module import import_model


def import_onnx(path: Path, name: str | None = None) -> Imported:
    """The model of a file."""
    return import_model(read_onnx(path), path.as_posix(), name)


class Convolutions(nn.Module):
    """Convolutions with a norm that the exporter folds, pooling, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.second, self.head = nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        return self.head(F.relu(self.second(x)).mean((2, 3)))


class Encoder(nn.Module):
    """Layers of torch's own, on a table of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(23, 12), nn.Embedding(32, 12)
        layer = nn.TransformerEncoderLayer(12, 3, 20, activation="gelu", batch_first=True)
        self.body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.body(self.words(ids) + self.places(torch.arange(ids.shape[1])))


class Layer(nn.Module):
    """One layer of a decoder: one matrix for queries, keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(12), nn.LayerNorm(12)
        self.qkv, self.out = nn.Linear(12, 36), nn.Linear(12, 12)
        self.up, self.down = nn.Linear(12, 20), nn.Linear(20, 12)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        parts = self.qkv(self.before(x)).chunk(3, -1)
        q, k, v = (part.view(b, t, 3, 4).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.silu(self.up(self.between(x))))


class Decoder(nn.Module):
    """A language model with a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(23, 12), nn.Embedding(32, 12)
        self.layers, self.last = nn.ModuleList([Layer(), Layer()]), nn.LayerNorm(12)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.last(x), self.words.weight)


def exported(model: nn.Module, x: Tensor, path: Path, *, free: int, new: bool) -> Path:
    """The model in evaluation mode, its parameters moved, in a file; the first axes are free."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if new:
            shapes = dict.fromkeys(range(free), torch.export.Dim.DYNAMIC)
            torch.onnx.export(
                model.eval(), (x,), path, dynamo=True, dynamic_shapes=(shapes,), verbose=False
            )
        else:
            names = {axis: f"n{axis}" for axis in range(free)}
            torch.onnx.export(
                model.eval(), (x,), path, dynamo=False, input_names=["x"], dynamic_axes={"x": names}
            )
    return path


def run(made: Imported, x: Tensor) -> np.ndarray[Any, Any]:
    """The numbers that the diagram computes, in float64."""
    program = compile_project(parse_project(made.text.encode()))
    outputs, _ = program.load().forward(dict(made.params), {next(iter(program.inputs)): x.numpy()})
    return outputs["Y"]


def by_onnxruntime(path: Path, x: Tensor) -> np.ndarray[Any, Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    return np.asarray(found)


def test_a_perceptron_has_its_names_and_its_numbers(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.LayerNorm(9), nn.Linear(9, 4))
    path = exported(model, torch.randn(3, 6), tmp_path / "net.onnx", free=1, new=False)
    made = import_onnx(path, "Net")
    assert "block Net(x [B, D_2]) -> Y [B, N_C]" in made.text
    assert "GELU(exact)" in made.text
    assert '"0.weight" = "T : W_0"' in made.names
    x = torch.randn(7, 6)
    assert np.abs(run(made, x) - by_onnxruntime(path, x)).max() < 1e-5


def test_convolutions_are_nodes(tmp_path: Path) -> None:
    path = exported(
        Convolutions(), torch.randn(2, 3, 16, 12), tmp_path / "c.onnx", free=1, new=False
    )
    made = import_onnx(path)
    assert "conv[H, W](K" in made.text
    assert "maxpool[H, W](2)" in made.text
    x = torch.randn(5, 3, 16, 12)
    assert np.abs(run(made, x) - by_onnxruntime(path, x)).max() < 1e-5


def test_an_encoder_has_the_legends_attention(tmp_path: Path) -> None:
    path = exported(
        Encoder(), torch.zeros(2, 5, dtype=torch.int64), tmp_path / "e.onnx", free=2, new=False
    )
    made = import_onnx(path)
    assert "-> •<=KT -> SM(1/sqrt(D_h)) -> S" in made.text
    x = torch.arange(15).reshape(3, 5)
    assert np.abs(run(made, x) - by_onnxruntime(path, x)).max() < 1e-5


def test_a_decoder_has_the_blocks_and_names_of_its_modules(tmp_path: Path) -> None:
    model = Decoder().double()
    ids = torch.arange(14).reshape(2, 7)
    path = exported(model, ids, tmp_path / "d.onnx", free=2, new=True)
    made = import_onnx(path)
    assert made.proof.tolerance == 1e-8
    assert "N_L × Layer as layers" in made.text
    assert "SM(1/sqrt(D_h), causal)" in made.text
    held = {
        line.partition('" = ')[0].strip('"') for line in made.names.splitlines() if '" = ' in line
    }
    state = {name.replace(".0.", ".*.").replace(".1.", ".*.") for name in model.state_dict()}
    assert held == state
    x = torch.arange(3 * 11).reshape(3, 11) % 23
    assert np.abs(run(made, x) - model(x).detach().numpy()).max() < 1e-8


def graph(
    *nodes: tuple[str, dict[str, Any]], opset: int = 20, axes: Sequence[str | int] = ("b", 6)
) -> Any:  # noqa: ANN401 - a ModelProto
    """A chain of nodes; the input has these axes, and the output some."""
    from onnx import TensorProto, helper

    names = [f"v{number}" for number in range(len(nodes) + 1)]
    made = [
        helper.make_node(name, [names[i]], [names[i + 1]], **attributes)
        for i, (name, attributes) in enumerate(nodes)
    ]
    first = helper.make_tensor_value_info(names[0], TensorProto.FLOAT, list(axes))
    last = helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, None)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(helper.make_graph(made, "g", [first], [last]), opset_imports=opsets)


def test_everything_that_does_not_fit_is_said_at_once() -> None:
    proto = graph(("Hardmax", {}), ("Relu", {}), ("Softsign", {}), ("Gelu", {}), ("Hardmax", {}))
    with pytest.raises(DiagnosticError) as caught:
        import_model(from_proto(proto, "g.onnx"), "g.onnx")
    said = [each.message for each in caught.value.diagnostics]
    assert [each.partition(" in ")[0] for each in said] == ["Hardmax", "Softsign"]


def test_an_old_operator_set_is_refused() -> None:
    with pytest.raises(DiagnosticError, match="operator set 10, and 11 or later is read"):
        from_proto(graph(("Relu", {}), opset=10), "g.onnx")


@pytest.mark.parametrize("opset", [11, 12])
def test_operator_sets_before_13_are_converted(opset: int) -> None:
    """Softmax was along all axes from one on, and axes of a sum were an attribute."""
    nodes = (("Relu", {}), ("ReduceSum", {"axes": [1], "keepdims": 0}), ("Softmax", {"axis": 1}))
    made = import_model(
        from_proto(graph(*nodes, opset=opset, axes=("b", "s", 6)), "g.onnx"), "g.onnx"
    )
    assert "sum[" in made.text
    assert made.proof.compared


@pytest.mark.parametrize("unnamed", ["?", "", -1, 0, "unk"])
def test_two_axes_without_a_name_are_two_sizes(unnamed: str | int) -> None:
    proto = graph(("Relu", {}), axes=(unnamed, unnamed))
    made = import_model(from_proto(proto, "g.onnx"), "g.onnx")
    assert "[B, S]" in made.text


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"no model")
    with pytest.raises(DiagnosticError, match="it is no ONNX model"):
        import_onnx(tmp_path / "a.onnx")


# Operators on numbers, a layout, attention, a product, a norm, and four that do not fit.
OPERATORS = [
    "add",
    "log",
    "attention",
    "matmul",
    "transpose",
    "layernormalization",
    "argmax",
    "cumsum",
]
FEW = {
    "test_add_bcast": "agrees",
    "test_log": "agrees",
    "test_attention_3d_gqa": "agrees",
    "test_attention_4d_gqa": "agrees",
    "test_matmul_bcast": "agrees",
    "test_transpose_all_permutations_4": "agrees",
    "test_layer_normalization_default_axis": "refused",
    "test_argmax_default_axis_example": "refused",
    "test_cumsum_1d": "refused",
    "test_attention_4d_softcap": "refused",
}


def test_node_cases_agree_or_are_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = cases(*OPERATORS)
        assert {name: outcome(found[name]).partition(":")[0] for name in FEW} == FEW
    recorded = TABLE.read_text(encoding="utf-8").split()
    assert {name for name in FEW if FEW[name] == "agrees"} <= set(recorded)


def test_the_documentation_counts_the_cases_that_agree() -> None:
    text = (ROOT / "docs" / "importing.md").read_text(encoding="utf-8")
    recorded = TABLE.read_text(encoding="utf-8").split()
    assert f"[{len(recorded)}](../tests/importing/{TABLE.name}) agree" in text


@pytest.mark.parametrize(
    "number", [0.1, 1e-5, 0.044715, 2**-0.5, (2 / np.pi) ** 0.5, 12**-0.5, 7.0]
)
def test_a_number_of_float32_is_as_it_was_written(number: float) -> None:
    assert unround(float(np.float32(number))) == pytest.approx(number, rel=1e-15)
