"""`xg compare`: code of the user's beside a diagram, by running it or by what it wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.conftest import DIAGRAMS, Xg
from examples.minigpt.minigpt import build, unscaled

from xg_torch.compare.foreign_run import HookedRun
from xg_torch.testing import assert_matches

EXAMPLE = DIAGRAMS.parent / "examples" / "minigpt"
FILE = str(DIAGRAMS / "models" / "transformer.xg")
MAP = ("--map", str(EXAMPLE / "minigpt.names.toml"))


save: Any = np.savez  # to a checker its arrays by name are its own options


def module(name: str) -> tuple[str, str]:
    return "--module", f"{EXAMPLE / 'minigpt.py'}:{name}"


def test_a_module_that_agrees(xg: Xg) -> None:
    said = xg("compare", FILE, *module("build"), *MAP)
    assert said.code == 0, said.err
    assert (
        "agree: 46 forward tensors, 42 backward tensors and the gradients of 36 parameters"
        in said.out
    )


def test_a_module_with_an_error(xg: Xg) -> None:
    said = xg("compare", FILE, *module("unscaled"), *MAP)
    assert said.code == 1
    assert "first forward difference: O of line 22 in layers.0.attn" in said.out
    assert "likely cause at SM of line 20 in layers.0.attn" in said.out
    assert "the scores are not scaled by 1/sqrt(D_h)" in said.out
    data = json.loads(xg("compare", FILE, *module("unscaled"), *MAP, "--json").out)
    assert data["agree"] is False
    assert data["first"]["name"] == "layers.0.attn.O"


def test_weights_as_they_are_hide_an_error_that_drawn_ones_show(xg: Xg, folder: Path) -> None:
    text = (EXAMPLE / "minigpt.py").read_text(encoding="utf-8")
    wrong = "x = x + self.attention(self.norm_1(x)) - self.attention.out.bias"
    text = text.replace("x = x + self.attention(self.norm_1(x))", wrong)
    text = text.replace("def build() -> MiniGPT:", "def build() -> MiniGPT:\n    return zeros()")
    text += "\n\ndef zeros():\n    model = MiniGPT(Config(), Attention)\n"
    text += "    for layer in model.layers: nn.init.zeros_(layer.attention.out.bias)\n"
    text += "    return model\n"
    (folder / "mine.py").write_text(text, encoding="utf-8")
    words = ("compare", FILE, "--module", "mine.py:zeros", *MAP)
    assert "first backward" in xg(*words, "--as-is").out
    said = xg(*words)
    assert said.code == 1
    assert "first forward difference: M of line 45 in layers.0" in said.out


def test_arrays_that_were_dumped(xg: Xg, folder: Path) -> None:
    rng = np.random.default_rng(0)
    ids, t = (rng.integers(0, 61, (2, 5)) for _ in range(2))
    for name, model in {"good": build().double(), "wrong": unscaled().double()}.items():
        given = {"ids": torch.as_tensor(ids), "t": torch.as_tensor(t)}
        run = HookedRun(model, given, 0)
        found = run.backward({1: np.ones(())})
        arrays = {n: p.detach().numpy() for n, p in model.named_parameters()}
        for event in found.events:
            module = event.module + (".input" if event.kind == "input" else "")
            arrays[module] = event.array
            if event.gradient is not None:
                arrays[f"d/{module}"] = event.gradient
        for n, gradient in found.gradients.items():
            if n in arrays and gradient is not None:
                arrays[f"d/{n}"] = gradient
        save(folder / f"{name}.npz", ids=ids, t=t, loss=found.outputs[1][1], **arrays)
    sizes = ("--set", "N_L=2", "--set", "N_H=4", "--set", "D_ff=40")
    said = xg("compare", FILE, "--against", "good.npz", *MAP, *sizes)
    assert said.code == 0, said.err + said.out
    said = xg("compare", FILE, "--against", "wrong.npz", *MAP, *sizes)
    assert said.code == 1
    assert "first forward difference: O of line 22 in layers.0.attn" in said.out
    with np.load(folder / "good.npz") as held:
        arrays = dict(held)
    save(folder / "edge.npz", **arrays, **{"layers.1.M": np.zeros((2, 5, 24))})
    said = xg("compare", FILE, "--against", "edge.npz", *MAP, *sizes)
    assert "first forward difference: M of line 45 in layers.1" in said.out
    arrays["d/layers.1.up.weight"] = 2 * arrays["d/layers.1.up.weight"]
    save(folder / "twice.npz", **arrays)
    said = xg("compare", FILE, "--against", "twice.npz", *MAP, *sizes)
    assert "first backward difference: dlayers.1.ffn.W_up" in said.out
    assert "the diagram's times 2" in said.out
    del arrays["words.weight"]
    save(folder / "less.npz", **arrays)
    said = xg("compare", FILE, "--against", "less.npz", *MAP, *sizes)
    assert said.code == 1
    assert "missing: words.weight, for E" in said.err


def test_a_module_in_a_test() -> None:
    names = EXAMPLE / "minigpt.names.toml"
    assert_matches(build(), FILE, names=names)
    with pytest.raises(AssertionError, match=r"the scores are not scaled by 1/sqrt\(D_h\)"):
        assert_matches(unscaled(), FILE, names=names)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name what to compare with: --module MODULE:BUILD"),
        (("--module", "nothing"), "--against takes MODULE:BUILD"),
        (("--module", "nothing:build"), "there is no module nothing"),
        (("--module", "nothing.py:build"), "there is no file nothing.py"),
        (("--module", "bad.py:nothing"), "bad.py has no function or class nothing"),
        (("--module", "bad.py:build"), "bad.py:build must return a torch.nn.Module; found 1"),
        (("--module", "bad.py:fails"), "cannot be built: ZeroDivisionError: division by zero"),
        (("--module", "bad.py:other"), "the module has names of its own, such as bias"),
        (
            ("--module", "bad.py:crash"),
            "fails on the diagram's inputs: RuntimeError: no   bad.py:10: def forward",
        ),
        (
            ("--module", "bad.py:shape"),
            "it returns [4, 3], and the diagram has Y [4, 5]",
        ),
    ],
)
def test_bad_input_is_told(xg: Xg, folder: Path, words: tuple[str, ...], message: str) -> None:
    (folder / "bad.py").write_text(
        "import torch\n"
        "def build(): return 1\n"
        "def fails(): return 1 / 0\n"
        "def other(): return torch.nn.Linear(3, 4)\n"
        "class Crash(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        for n, s in {'W': (5, 10), 'b': (10,), 'V': (10, 5)}.items():\n"
        "            self.register_parameter(n, torch.nn.Parameter(torch.ones(s)))\n"
        "    def forward(self, X, t): raise RuntimeError('no')\n"
        "class Shape(Crash):\n"
        "    def forward(self, X, t): return (X @ self.W @ self.V)[:, :3]\n"
        "crash, shape = Crash, Shape\n",
        encoding="utf-8",
    )
    said = xg("compare", "tiny.xg", *words, "--set", "B=4", "--set", "D=5")
    assert said.code in (1, 2)
    assert message in said.err.replace("\n", " "), said.err
    assert "Traceback" not in said.err


SCALED = """\
dim B, D, k = 2
block Half(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> scale(k) : Y
}
block Net(X [B, D]) -> Y [B, D] {
    X -> 2 × Half as halves : Y
}
"""
HALF = """\
from torch import nn

class Config:
    factor = 3
    def to_dict(self): return vars(self)

class Half(nn.Module):
    config = Config
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(4, 4, bias=False)
    def forward(self, X): return self.config.factor * self.map(X)
"""
OWN_NAMES = '[tensors]\n"map.weight" = "T : W"\n\n[config]\nk = "factor"\n'
MODEL_NAMES = '[tensors]\n"halves.*.map.weight" = "T : halves.*.W"\n'


def test_a_config_may_be_a_class_and_names_those_of_one_block(xg: Xg, folder: Path) -> None:
    """Half is a part of each round of Net; its own file of names says nothing of Net."""
    (folder / "net.xg").write_text(SCALED, encoding="utf-8")
    (folder / "half.py").write_text(HALF, encoding="utf-8")
    (folder / "mine.toml").write_text(OWN_NAMES, encoding="utf-8")
    (folder / "net.names.toml").write_text(MODEL_NAMES, encoding="utf-8")
    words = ("compare", "net.xg", "--block", "Half", "--module", "half.py:Half")
    said = xg(*words, "--map", "mine.toml")
    assert said.code == 0, said.out + said.err
    refused = xg(*words).err
    assert "names the parameters of Net, which repeats Half" in refused
    assert "with lines for the parameters of Half itself, such as W" in refused
