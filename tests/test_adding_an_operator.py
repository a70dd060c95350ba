"""The recipe of the documentation, followed to the letter: it must give a working operator."""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ops import sample
from ops.sample import Sample
from ops.trial import Array, Trial

from xg import ops
from xg.backends.numpy.module import emit
from xg.graph import Program
from xg.interpret import Interpreter
from xg.op import Op
from xg.passes.differentiate import differentiate
from xg.passes.infer import infer
from xg.passes.resolve import resolve
from xg.source import Source
from xg.syntax import ast
from xg.syntax.parse import parse

DOCUMENT = Path(__file__).parent.parent / "docs" / "adding-an-operator.md"
MODULE = "rms_norm"


@dataclass(frozen=True)
class Recipe:
    """The code blocks of the document, in its order."""

    module: str
    samples: str
    adjoint: str
    program: str

    @classmethod
    def read(cls) -> "Recipe":
        text = DOCUMENT.read_text(encoding="utf-8")
        assert f"`compiler/xg/ops/{MODULE}.py`" in text
        module, samples, adjoint = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        (program,) = re.findall(r"```xg\n(.*?)```", text, re.DOTALL)
        return cls(module, samples, adjoint, program)

    def module_with_adjoint(self) -> str:
        """Step 3: the function in front of the record, its name in it, and its import."""
        text = self.module.replace("OP: Final", self.adjoint + "\n\nOP: Final")
        text = text.replace("configure=configure,", "configure=configure,\n    adjoint=adjoint,")
        return text.replace("from xg.op", "from xg.derivative import unbroadcast\nfrom xg.op", 1)


@pytest.fixture(params=["module", "module_with_adjoint"])
def op(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Op]:
    recipe = Recipe.read()
    text = recipe.module if request.param == "module" else recipe.module_with_adjoint()
    (tmp_path / f"{MODULE}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(ops, "__path__", [*ops.__path__, str(tmp_path)])
    ops.table.cache_clear()
    found = ops.find("RMS")
    assert found
    yield found
    sys.modules.pop(f"xg.ops.{MODULE}")
    monkeypatch.undo()
    ops.table.cache_clear()


def _sample() -> Sample:
    table: Mapping[str, tuple[Sample, ...]] = eval(
        f"{{{Recipe.read().samples}}}", dict(vars(sample))
    )
    (only,) = table["RMS"]
    return only


def _program() -> Program:
    module = parse(Source("normalized.xg", Recipe.read().program))
    return differentiate(infer(resolve(module, _no_file)))


def _no_file(use: ast.Use) -> ast.Module:
    raise AssertionError("the recipe uses no other file")


def _formula(x: Array, g: Array) -> Array:
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6) * g


def test_its_value_is_the_formula(op: Op) -> None:
    trial = Trial.make(op, _sample())
    assert np.allclose(trial.outputs()["y"], _formula(**trial.arrays), rtol=1e-14)


def test_its_gradient_is_right(op: Op) -> None:
    for more in range(3):
        trial = Trial.make(op, _sample().deeper(more))
        assert trial.distance(trial.gradients(), trial.differences(1e-3)) < 1e-6
        derived = trial.without_closed_form().gradients()
        assert trial.distance(trial.gradients(), derived) < 1e-12


def test_a_program_uses_it(op: Op) -> None:
    random = np.random.default_rng(0)
    X, g, dY = random.normal(size=(2, 3, 4)), random.normal(size=4), random.normal(size=(2, 3, 4))
    interpreter = Interpreter(_program(), {"g": g})
    outputs, record = interpreter.forward({"X": X})
    assert np.allclose(outputs["Y"], X + _formula(X, g), rtol=1e-14)
    gradients = interpreter.backward(record, {"Y": dY})
    step = 1e-6
    up, _ = interpreter.forward({"X": X + step * dY})
    down, _ = interpreter.forward({"X": X - step * dY})
    directional = np.sum(dY * (up["Y"] - down["Y"])) / (2 * step)
    assert np.isclose(np.sum(gradients["X"] * dY), directional, rtol=1e-7)
    assert gradients["g"].shape == g.shape


def test_generated_code_uses_it(op: Op) -> None:
    random = np.random.default_rng(0)
    X, g, dY = random.normal(size=(2, 3, 4)), random.normal(size=4), random.normal(size=(2, 3, 4))
    interpreter = Interpreter(_program(), {"g": g})
    _, record = interpreter.forward({"X": X})
    module: dict[str, Any] = {"__name__": "normalized"}
    exec(emit(_program()), module)
    outputs, saved = module["forward"]({"g": g}, {"X": X})
    assert np.allclose(outputs["Y"], X + _formula(X, g), rtol=1e-14)
    gradients = module["backward"]({"g": g}, saved, {"Y": dY})
    for name, expected in interpreter.backward(record, {"Y": dY}).items():
        assert np.allclose(gradients[name], expected, rtol=1e-12)


def test_it_is_gone_without_its_file() -> None:
    assert ops.find("RMS") is None
