"""`xg export`: files that run without xg, compared before they are written."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from cli.conftest import Xg

import xg as compiler
from xg_runtime import arrays
from xg_runtime.errors import InputError
from xg_torch import export as formats
from xg_torch.export import Export, write_onnx

SUM = """\
dim B, S, D = 4
block Sum(x [B, D]) -> y [B, D] {
    state h [B, D] = zeros
    x -> ⊕<-h : y
    next h = y
}
block Running(X [B, S, D]) -> Y [B, S, D] { X -> Sum over S : Y }
"""


def test_onnx_with_the_names_of_the_diagram(xg: Xg, folder: Path) -> None:
    said = xg("export", "tiny.xg", "--seed", "3", "-o", "tiny.onnx")
    assert said.code == 0, said.err
    first, note = said.out.splitlines()
    described = "tiny.onnx: Net(X [B, 4], t [B]) -> Y [B, 4], loss [], 3 parameters, outputs within"
    assert first.startswith(described)
    assert first.endswith("of the diagram's in 2 cases")
    assert note == "note: the parameters are drawn from seed 3: --params names some"

    graph: Any = onnx.load(folder / "tiny.onnx").graph
    assert {each.name for each in graph.initializer} >= {"W", "b", "V"}
    shapes = {each.name: dims(each) for each in (*graph.input, *graph.output)}
    assert shapes == {"X": ["B", 4], "t": ["B"], "Y": ["B", 4], "loss": []}

    model = compiler.compile("tiny.xg").load("torch").Model(seed=3).eval()
    X, t = torch.randn(11, 4), torch.randn(11)
    session: Any = onnxruntime.InferenceSession("tiny.onnx", providers=["CPUExecutionProvider"])
    found = session.run(["Y", "loss"], {"X": X.numpy(), "t": t.numpy()})
    for output, expected in zip(found, model(X, t).values(), strict=True):
        assert np.allclose(output, expected.detach().numpy(), atol=1e-6)


POOLED = """\
dim B, H, W, C = 4
block Pooled(X [B, H, W, C]) -> Y [B, C] {
    X -> meanpool[H, W](k=2) : [B, H/2, W/2, C] -> mean[-3, -2] : Y
}
"""


@pytest.mark.parametrize("kernels", [(), ("--kernels",)])
def test_sizes_that_the_backward_pass_keeps_stay_free(
    xg: Xg, folder: Path, kernels: tuple[str, ...]
) -> None:
    (folder / "pooled.xg").write_text(POOLED, encoding="utf-8")
    said = xg("export", "pooled.xg", *kernels, "-o", "pooled.pt2")
    assert said.code == 0, said.err
    module = torch.export.load(folder / "pooled.pt2").module()
    X = torch.randn(3, 10, 14, 4)
    assert torch.allclose(module(X=X)["Y"], X.mean((1, 2)), atol=1e-6)


def exported(xg: Xg, folder: Path, text: str) -> tuple[Any, Any]:
    """The graph of an .onnx and the module of a .pt2 that a text is exported to."""
    (folder / "block.xg").write_text(text, encoding="utf-8")
    for file in ("block.onnx", "block.pt2"):
        said = xg("export", "block.xg", "--seed", 0, "-o", file)
        assert (said.code, said.err) == (0, "")
    graph = onnx.load(str(folder / "block.onnx")).graph
    return graph, torch.export.load(folder / "block.pt2").module()


def test_inputs_with_names_that_python_or_sizes_have(xg: Xg, folder: Path) -> None:
    """λ is a word of Python, and H a size."""
    text = "dim B, H\nblock F(λ [H, B], H [H, B], self [B]) -> Y [H, B] {\n"
    text += "    λ -> ⊙<-H -> ⊕<-BC(self) : Y\n}\n"
    graph, module = exported(xg, folder, text)
    assert [each.name for each in graph.input] == ["lambda", "H", "self"]
    one, two, three = torch.randn(3, 5), torch.randn(3, 5), torch.randn(5)
    found = module(lambda_=one, H_2=two, self_=three)["Y"]
    assert torch.allclose(found, one * two + three)


def test_an_input_may_leave_as_it_is(xg: Xg, folder: Path) -> None:
    text = "dim B\nblock F(X [B, 3]) -> Y [B, 3], Z [B, 3], V [B, 3] {\n"
    text += "    X : Y\n    X -> tanh : Z\n    X : V\n}\n"
    graph, module = exported(xg, folder, text)
    assert [each.name for each in (*graph.input, *graph.output)] == ["X", "Y", "Z", "V"]
    X = torch.randn(4, 3)
    assert torch.equal(module(X=X)["Y"], X)


@pytest.mark.parametrize("left", ["y", "k"])
def test_a_cell_by_itself_has_a_state_that_comes_and_goes(xg: Xg, folder: Path, left: str) -> None:
    """One name for an input and an output, or one value under two names, is no ONNX."""
    text = (
        "dim B, D = 4\nblock Cell(x [B, D]) -> y [B, D] {\n    state h [B, D]\n"
        "    x -> ⊕<-h -> tanh : y -> scale(2) : k\n"
        f"    next h = {left}\n}}\n".replace(" -> scale(2) : k" if left == "y" else "", "")
    )
    graph, _ = exported(xg, folder, text)
    assert [each.name for each in graph.input] == ["x", "h"]
    assert [each.name for each in graph.output] == ["y", "h_next"]


def dims(value: Any) -> list[int | str]:  # noqa: ANN401 - a message of protobuf
    return [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]


def test_a_program_of_torch_with_given_parameters(xg: Xg, folder: Path) -> None:
    draw = np.random.default_rng(0)
    params = {
        "W": draw.normal(size=(4, 8)),
        "b": draw.normal(size=8),
        "V": draw.normal(size=(8, 4)),
    }
    arrays.write(folder / "p.npz", {name: x.astype(np.float32) for name, x in params.items()})
    said = xg("export", "tiny.xg", "--params", "p.npz", "--set", "act=tanh", "-o", "tiny.pt2")
    assert (said.code, len(said.out.splitlines())) == (0, 1), said.err
    X, t = draw.normal(size=(5, 4)).astype(np.float32), np.zeros(5, np.float32)
    module = torch.export.load(folder / "tiny.pt2").module()
    Y = module(X=torch.from_numpy(X), t=torch.from_numpy(t))["Y"].detach().numpy()
    by_hand = np.tanh(X @ params["W"] + params["b"]) @ params["V"]
    assert np.allclose(Y, by_hand, atol=1e-5)


def test_a_file_that_differs_is_not_written() -> None:
    """A control: parameters that are not those of the diagram are seen."""
    program = compiler.compile(source=SMALL)
    export = Export.of(program, None, {}, options(seed=0))
    other = Export.of(program, None, {}, options(seed=1))
    shapes = {name: spec.shape for name, spec in program.inputs.items()}
    example = export.cases[0].inputs
    right, wrong = (write_onnx(each.traced, example, shapes, ["y"]) for each in (export, other))
    assert "in 2 cases" in export.compared(Path("y.onnx"), right)
    with pytest.raises(
        InputError, match=r"would compute another y than the diagram, by .*so nothing"
    ):
        export.compared(Path("y.onnx"), wrong)


SMALL = "dim B, D = 3\nblock Small(x [B, D]) -> y [B, D] { param W [D, D]\n x -> •<=W : y }\n"


DRAWN = "dim D = 3\nblock Drawn() -> y [D, D] { normal[D, D](1) -> GELU(exact) : y }\n"
NONE = """\
dim B, T, L = 0
block Layer(x [1, B]) -> y [1, B] { param b [1, B]
 x -> ⊕<-b : y }
block Row(x [1, T]) -> y [1, T] { x -> L × Layer as f : y }
"""


def options(seed: int) -> Namespace:
    return Namespace(kernels=False, seed=seed, params=None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tiny.xg", "-o", "a.txt"), "a model is exported to a file that ends in .onnx or .pt2"),
        (("sum.xg", "-o", "a.pt2"), "X has an axis S without a number"),
        (("free.xg", "-o", "a.pt2"), "the parameter W [D, D] has no number for D"),
        (("drawn.xg", "-o", "a.onnx"), "onnxruntime has no Erf for the types in this file"),
        (
            ("none.xg", "--block", "Row", "-o", "a.pt2"),
            "a parameter [1, T] of a call that may have no round has no number for T",
        ),
    ],
)
def test_refusals_write_nothing(xg: Xg, folder: Path, words: tuple[str, ...], said: str) -> None:
    (folder / "sum.xg").write_text(SUM, encoding="utf-8")
    (folder / "drawn.xg").write_text(DRAWN, encoding="utf-8")
    (folder / "none.xg").write_text(NONE, encoding="utf-8")
    (folder / "free.xg").write_text(SMALL.replace("D = 3", "D"), encoding="utf-8")
    there = set(folder.iterdir())
    refused = xg("export", *words)
    assert refused.code != 0
    assert said in refused.err
    assert set(folder.iterdir()) == there


def test_a_missing_package_is_named(xg: Xg, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "find_spec", lambda _: None)  # pyright: ignore
    refused = xg("export", "tiny.xg", "-o", "a.onnx")
    assert "a.onnx needs onnx and onnxscript: pip install 'xg[onnx]'" in refused.err
    assert not (folder / "a.onnx").exists()
