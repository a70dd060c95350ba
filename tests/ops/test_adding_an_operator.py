"""The recipe of the documentation, followed to the letter: it must give a working operator."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from ops import sample
from ops.sample import Sample
from ops.trial import Array, Trial

import xg
from xg import Program, ops
from xg.frontend.project import parse_project
from xg.ir.op import Op
from xg.verify import plan_proof
from xg.verify.controls import Control, controls
from xg.verify.controls import Trial as Controlled
from xg.verify.plan_proof import prove_ranks
from xg.verify.rank_comparison import ArrayDifference, RankRun
from xg.verify.reference.interpret import Interpreter

DOCUMENT = Path(__file__).parents[2] / "docs" / "adding-an-operator.md"
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
        return text.replace(
            "from xg.ir.op", "from xg.ir.primitive_gradients import unbroadcast\nfrom xg.ir.op", 1
        )


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


@pytest.fixture
def program(op: Op, tmp_path: Path) -> Program:
    file = tmp_path / "normalized.xg"
    file.write_text(Recipe.read().program, encoding="utf-8")
    return xg.compile(file)


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


def test_a_program_uses_it(program: Program) -> None:
    params, inputs, d_outputs = _arrays()
    interpreter = Interpreter(program.graphs, params)
    outputs, record = interpreter.forward(inputs)
    assert np.allclose(outputs["Y"], inputs["X"] + _formula(inputs["X"], params["g"]), rtol=1e-14)
    step = 1e-6 * d_outputs["Y"]
    up, _ = interpreter.forward({"X": inputs["X"] + step})
    down, _ = interpreter.forward({"X": inputs["X"] - step})
    directional = np.sum(d_outputs["Y"] * (up["Y"] - down["Y"])) / 2e-6
    gradients = interpreter.backward(record, d_outputs)
    assert np.isclose(np.sum(gradients["X"] * d_outputs["Y"]), directional, rtol=1e-7)


def test_generated_code_uses_it(program: Program) -> None:
    params, inputs, d_outputs = _arrays()
    interpreter = Interpreter(program.graphs, params)
    expected, record = interpreter.forward(inputs)
    module = program.load("numpy")
    outputs, saved = module.forward(params, inputs)
    assert np.allclose(outputs["Y"], expected["Y"], rtol=1e-12)
    gradients = module.backward(params, saved, d_outputs)
    for name, gradient in interpreter.backward(record, d_outputs).items():
        assert np.allclose(gradients[name], gradient, rtol=1e-12), name


def _arrays() -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
    """Parameters, inputs and cotangents of the program."""
    random = np.random.default_rng(0)
    X, dY = random.normal(size=(2, 2, 3, 4))
    return {"g": random.normal(size=4)}, {"X": X}, {"Y": dY}


def test_it_is_gone_without_its_file() -> None:
    assert ops.find("RMS") is None


# ---- an operator that sums over ranks, its gradient derived --------------------------------------

LOG_SUM_EXP = """\
from xg.ir.op import Op
from xg.ir.functions import exp, log
from xg.ir.prim import reduce_max, reduce_sum, reshape, {imports}
from xg.ir.use import Data

def forward(z):
    peak = reduce_max(z)
    top = {top}
    return reshape(log(reduce_sum(exp(z - top))) + top, z.shape[:-1])

OP = Op(glyph="LSE", name="log_sum_exp", family="reduce", data=(Data("z"),), forward=forward,
        sums_over_ranks=True)
"""
LOGITS = """\
dim B, D, V
mesh N_D = 2, N_T = 2

block Logits(X [B, D]) -> Y [B] {
    param W [D, V]
    X -> •<=W -> LSE : Y
}
plan Vocabulary of Logits {
    W [D, V/N_T]
}
plan Rows of Logits {
    X [B/N_D, D]
}
plan Inner of Logits {
    W [D/N_T, V]
}
plan Both = Rows × Vocabulary
"""


# Its gradient does go through the maximum, which several elements of several ranks have at once.
PEAK_SUM = """\
from xg.ir.op import Op
from xg.ir.functions import exp
from xg.ir.prim import reduce_max, reduce_sum, reshape
from xg.ir.use import Data

def forward(z):
    peak = reduce_max(z)
    return reshape(reduce_sum(exp(z - peak)) * peak, z.shape[:-1])

OP = Op(glyph="PS", name="peak_sum", family="reduce", data=(Data("z"),), forward=forward,
        sums_over_ranks=True)
"""
TIES = """\
dim B, V
mesh N_D = 2, N_T = 2

op Raise(x [B, V], k [V] in 2) = x + k

block Ties(X [B], K [V] in 2) -> Y [B] {
    X -> BC : x [B, V] -> Raise<-K -> PS : Y
}
plan Vocabulary of Ties {
    K [V/N_T]
}
plan Rows of Ties {
    X [B/N_D]
}
plan Both = Rows × Vocabulary
"""


@pytest.fixture
def operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of more operators."""
    monkeypatch.setattr(ops, "__path__", [*ops.__path__, str(tmp_path)])
    ops.table.cache_clear()
    yield tmp_path
    for file in tmp_path.iterdir():
        sys.modules.pop(f"xg.ops.{file.stem}", None)
    monkeypatch.undo()
    ops.table.cache_clear()


TOPS = ["peak", "stop(peak)", 'where(peak > float("-inf"), peak, 0.0)']


@pytest.mark.parametrize("plan", ["Vocabulary", "Rows", "Inner", "Both"])
@pytest.mark.parametrize("top", TOPS)
def test_a_derived_gradient_is_proven_where_it_sums_over_ranks(
    top: str, plan: str, operators: Path
) -> None:
    text = LOG_SUM_EXP.format(imports="stop, where", top=top)
    (operators / "log_sum_exp.py").write_text(text, encoding="utf-8")
    proof = prove_ranks(parse_project(LOGITS.encode()), "Logits", plan, {}, 0, exact=False)
    assert proof.passed
    assert proof.floats
    # The gradient through the maximum is zero but for rounding, and so is what the count divides.
    zeros = [each.code for each in proof.floats.controls if each.verdict == "zeros"]
    counts = top != "stop(peak)" and plan in ("Vocabulary", "Both")
    assert [code.endswith('all_reduce(total, "N_T")') for code in zeros] == [True] * counts


@pytest.mark.parametrize("plan", ["Vocabulary", "Rows", "Both"])
def test_a_gradient_through_equal_maxima_of_many_ranks_is_proven(
    plan: str, operators: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (operators / "peak_sum.py").write_text(PEAK_SUM, encoding="utf-8")
    errors: list[float] = []

    def with_errors(
        trial: Controlled[RankRun], others: Iterable[Controlled[RankRun]]
    ) -> Iterator[Control]:
        def differences(runs: Sequence[RankRun]) -> Iterator[ArrayDifference]:
            for each in trial.differences(runs):
                errors.append(each.error)
                yield each

        return controls(replace(trial, differences=differences), others)

    monkeypatch.setattr(plan_proof, "controls", with_errors)
    proof = prove_ranks(parse_project(TIES.encode()), "Ties", plan, {}, 0, exact=False)
    assert proof.passed
    assert proof.floats
    assert {each.verdict for each in proof.floats.controls} <= {"needed"}
    assert np.isfinite(errors).all(), "a control rests on a number"
