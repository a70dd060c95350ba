"""Calls of torch for a plan, run: the loss and every gradient are those of the diagram."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from codegen.dtensor.divided_rank import built
from tier import THOROUGH
from torch import nn

import xg
from xg_runtime import names as names_files
from xg_runtime import rename
from xg_runtime.module import Arrays
from xg_runtime.ranks.launch import launch
from xg_runtime.ranks.task import Task
from xg_runtime.run import spread_params
from xg_torch.dtensor.styles import ModuleNames, named_by
from xg_torch.dtensor.torch_calls import Calls, source

ROOT = Path(__file__).parents[3]
RANK = Path(__file__).with_name("divided_rank.py")
HAND_NAMES = names_files.read(ROOT / "examples" / "minigpt" / "minigpt.names.toml")
NAMES = {
    "minigpt": HAND_NAMES,
    "keyword": replace(HAND_NAMES, keywords={"layers.*.attention": "x"}),
    "published": names_files.read(ROOT / "diagrams" / "models" / "llama.names.toml"),
}
LLAMA = {"V": 64, "N_L": 2, "D": 24, "D_ff": 40, "N_H": 4, "N_KV": 2, "N_T": 1}
GPT = {"V": 64, "D": 24, "N_L": 2, "N_H": 4, "D_ff": 40, "S_max": 16}
FILES = {"mlp": "notation/mlp.xg", "llama": "models/llama.xg", "published": "models/llama.xg"}
SIZES = {
    "minigpt": GPT,
    "keyword": GPT,
    "mlp": {"D": 8, "D_ff": 16},
    "llama": LLAMA,
    "published": LLAMA,
}


@dataclass(frozen=True)
class Trial:
    """A model under a plan; `without` are lines that are left out, which has to be noticed."""

    kind: str
    plan: str
    mesh: dict[str, int] = field(default_factory=dict[str, int])
    without: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.plan} {self.mesh} {self.without}"


# Each plan daily with one kind of model, each kind with some; what joins two plans on four ranks.
MORE_ON_2 = [
    *(Trial("minigpt", plan) for plan in ("TP", "SP_VP")),
    *(Trial("mlp", "DP"), Trial("keyword", "TP"), Trial("keyword", "SP")),
    *(Trial("llama", plan) for plan in ("TP", "SP", "FSDP", "DP")),
]
MORE_ON_4 = [
    *(Trial("minigpt", plan, {"N_T": 4}) for plan in ("TP", "SP")),
    *(Trial("minigpt", plan, {"N_D": 4}) for plan in ("FSDP", "DP")),
    *(Trial("minigpt", plan) for plan in ("DP_TP", "FSDP_TP")),
]
ON_2 = [
    *(Trial("minigpt", plan) for plan in ("SP", "FSDP", "ZeRO2", "DP", "VP")),
    *(Trial("mlp", "TP"), Trial("llama", "SP_VP"), Trial("keyword", "SP_VP")),
    *(MORE_ON_2 if THOROUGH else []),
]
ON_4 = [
    *(Trial("minigpt", plan) for plan in ("HSDP", "DP_SP", "All", "FSDP × SP_VP")),
    *(Trial("mlp", "DP_TP"), Trial("llama", "FSDP_TP")),
    *(MORE_ON_4 if THOROUGH else []),
]
BROKEN = [
    Trial("minigpt", "SP", without='"layers.*.norm_1": SequenceParallel(use_local_output=True),'),
    Trial("minigpt", "FSDP", without="fully_shard(model, mesh=rows, reshard_after_forward=False)"),
    Trial("minigpt", "SP_VP", without="model.head.weight = model.words.weight"),
    Trial("llama", "SP_VP", without='"g": SequenceParallel(use_local_output=True),'),
]


def diagram(trial: Trial, plan: str | None) -> xg.Program:
    settings = {**SIZES[trial.kind], **(trial.mesh if plan else {})}
    return compiled(FILES.get(trial.kind, "models/transformer.xg"), plan, **settings)


@cache
def compiled(file: str, plan: str | None, **sizes: int) -> xg.Program:
    """A program, which several kinds of modules and trials share."""
    return xg.compile(str(ROOT / "diagrams" / file), plan=plan, sizes=sizes)


def names_of(trial: Trial, program: xg.Program) -> ModuleNames:
    if trial.kind not in NAMES:
        return ModuleNames()
    return named_by(NAMES[trial.kind], program.graphs)


def as_tensors(trial: Trial, arrays: Arrays) -> Arrays:
    """Parameters of the diagram, or their gradients, as those of the module."""
    if trial.kind in NAMES:
        return rename.to_checkpoint(NAMES[trial.kind], arrays, SIZES[trial.kind])
    model: Any = built(trial.kind)
    modules: dict[str, nn.Module] = dict(model.named_modules())
    biases = {"b_up": "W_up.bias", "b_down": "W_down.bias", "beta": "gamma.bias"}
    found: Arrays = {}
    for path, array in arrays.items():
        is_linear = isinstance(modules.get(path), nn.Linear)
        found[biases.get(path, f"{path}.weight")] = array.T if is_linear else array
    return found


def expected(trial: Trial) -> tuple[Arrays, float, Arrays]:
    """The arrays of a rank, and the loss and the gradients of the diagram on one device."""
    program = diagram(trial, None)
    module = program.load()
    params = spread_params(module.init(seed=0, dtype=np.float64), 0)
    draw = np.random.default_rng(0)
    if trial.kind == "mlp":
        inputs = {"X": draw.normal(size=(4, 6, 8))}
        weight = draw.normal(size=(4, 6, 8))
        outputs, saved = module.forward(params, inputs)
        loss = float((outputs["Y"] * weight).sum())
        gradients = module.backward(params, saved, {"Y": weight})
    else:
        inputs = {name: draw.integers(0, 64, (4, 8)) for name in ("ids", "t")}
        weight = np.zeros(4)
        outputs, saved = module.forward(params, inputs)
        loss = float(outputs["loss"])
        gradients = module.backward(params, saved, {"loss": np.ones(())})
    tensors = as_tensors(trial, params)
    if "words.weight" in tensors:
        tensors["head.weight"] = tensors["words.weight"]
    given = {f"weights/{name}": np.ascontiguousarray(array) for name, array in tensors.items()}
    given |= {f"inputs/{name}": array for name, array in inputs.items()} | {"weight": weight}
    return given, loss, as_tensors(trial, {name: gradients[name] for name in params})


def worst(trials: list[Trial], ranks: int) -> list[float]:
    """How far the loss and the gradients of each trial are off, as a part of their size."""
    arrays: Arrays = {}
    options: list[dict[str, object]] = []
    known: dict[str, tuple[Arrays, float, Arrays]] = {}
    for place, trial in enumerate(trials):
        known.setdefault(trial.kind, expected(trial))
        program = diagram(trial, trial.plan)
        assert program.distributed is not None
        names = names_of(trial, program)
        calls = Calls.of(program.distributed, program.graphs, names)
        text = source(program.distributed, program.graphs, names)
        assert trial.without in text
        options.append(
            {
                "kind": trial.kind,
                "source": text.replace(trial.without, ""),
                "rows": [axis for axis in calls.data.names if axis != "one"],
                "loss parallel": bool(calls.styles and calls.styles.of_loss),
                "heads": _parts_of_heads(calls),
            }
        )
        arrays |= {f"{place}/{name}": array for name, array in known[trial.kind][0].items()}
    answers = launch(Task(f"{RANK}:divide", {"trials": options}, arrays), {"N": ranks})
    found: list[float] = []
    for place, trial in enumerate(trials):
        _, loss, gradients = known[trial.kind]
        size = max(float(np.linalg.norm(gradient)) for gradient in gradients.values())
        off: list[float] = []
        for answer in answers:
            told = answer.facts[str(place)]
            off.append(abs(told - loss) / abs(loss) if isinstance(told, float) else np.inf)
            for name, gradient in gradients.items():
                got = answer.arrays.get(f"{place}/{name}")
                small = 1e-2 * size  # the gradient of a bias of keys is zero
                error = np.inf if got is None else np.linalg.norm(got - gradient)
                off.append(float(error) / (float(np.linalg.norm(gradient)) + small))
        found.append(max(off))
    return found


def _parts_of_heads(calls: Calls) -> int:
    """Into how many parts the heads are cut."""
    is_cut = calls.styles and any(size.startswith("N_H/") for size in calls.styles.cut)
    return calls.mesh[calls.styles.axis] if calls.styles and is_cut else 1


NEEDS_NAMES = [Trial("published", "SP"), Trial("keyword", "SP", without="kwarg_")]


@pytest.fixture(scope="module")
def on_2(warm_program: Path) -> dict[str, float]:
    """How far each trial on two ranks is off: one start of processes."""
    trials = [*ON_2, *BROKEN, *NEEDS_NAMES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(warm_program))
        return dict(zip(map(str, trials), worst(trials, 2), strict=True))


def test_a_module_by_hand_gives_what_the_diagram_gives_on_2_ranks(on_2: dict[str, float]) -> None:
    assert {name: on_2[name] for name in map(str, ON_2) if on_2[name] > 1e-9} == {}


@pytest.mark.usefixtures("warm_ranks")
def test_a_module_by_hand_gives_what_the_diagram_gives_on_4_ranks() -> None:
    found = worst(ON_4, 4)
    assert {str(trial): off for trial, off in zip(ON_4, found, strict=True) if off > 1e-9} == {}


def test_a_module_that_is_called_by_keyword_needs_its_name(on_2: dict[str, float]) -> None:
    """Torch refuses a style of arguments by place where there are none.

    Llama as it is published computes its norms and angles in float32.
    """
    published, without = (on_2[str(trial)] for trial in NEEDS_NAMES)
    assert published < 1e-6
    assert without == np.inf


def test_a_call_that_is_missing_is_noticed(on_2: dict[str, float]) -> None:
    """Each of these runs all the same, and gives wrong gradients."""
    assert all(1e-6 < on_2[str(trial)] < np.inf for trial in BROKEN)
