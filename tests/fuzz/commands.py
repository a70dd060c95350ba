"""Random programs through the commands: whatever they say, it is no internal error.

Half of the programs leave numbers of sizes out, a third have a plan, and arrays may have other
shapes than a program takes. Each program meets a few commands with some of their options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from fuzz.opened import without
from fuzz.plans import with_plan
from fuzz.program import generate
from fuzz.sketch import Sketch
from numpy.typing import NDArray

import xg
from xg.cli import main
from xg.codegen.backend import backends

LEFT_OUT = 0.5  # of the numbers of every other program
COMMANDS = 4  # that a program meets
PLANNED = 3  # so many programs for one with a plan
FILE, OTHER, INPUTS, WRONG, SEEDS = "case.xg", "other.xg", "in.npz", "wrong.npz", "seeds.npz"
CODES = range(6)  # of the contract, but for 3: an internal error
INTERNAL = 3
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Scene:
    """A program in its file, with what the options of commands may name."""

    sketch: Sketch
    random: Random
    planned: bool

    def maybe(self, *words: str, share: float = 0.5) -> Sequence[str]:
        """These words, or none."""
        return words if self.random.random() < share else ()

    def one(self, *words: str) -> str:
        """One of the words."""
        return self.random.choice(words)

    @property
    def chosen(self) -> Iterator[str]:
        """The options of the program."""
        for name, word in self.sketch.settings.items():
            yield from ("--set", f"{name}={word}")

    @property
    def block(self) -> Sequence[str]:
        """A block of the file, or none."""
        return self.maybe("--block", self.one(*(block.name for block in self.sketch.blocks)))

    @property
    def plan(self) -> Sequence[str]:
        """The plan on four ranks, or none."""
        ranks = ("--set", "N_D=2", "--set", "N_T=2")
        return self.maybe("--plan", "P", *ranks) if self.planned else ()

    @property
    def of_program(self) -> Sequence[str]:
        """The words of all commands that compile a block."""
        return (FILE, *self.chosen, *self.block, *self.plan)

    @property
    def edge(self) -> str:
        """A value of the block that is compiled."""
        return self.one("Y", *re.findall(r": (\w+) \[", str(self.sketch.main)))


def _shown(scene: Scene) -> Sequence[str]:
    forms = ("dot", "ir", "html", "cost", "dtensor", "xg", *backends())
    passes = scene.maybe("--pass", scene.one("forward", "backward", "overview", "step"))
    return ("--as", scene.one(*forms), *passes, *scene.maybe("--kernels", share=0.3))


def _ran(scene: Scene) -> Sequence[str]:
    given = ("--inputs", scene.one(INPUTS, INPUTS, WRONG), "-o", "out.npz")
    how = scene.maybe("--backend", scene.one("numpy", "torch"))
    asked = (*scene.maybe("--d-outputs", SEEDS), *scene.maybe("--keep", scene.edge))
    return (*given, *how, *asked, *scene.maybe("--kernels", share=0.3))


# The words of each command behind the program, and how often it is tried.
TRIED: Mapping[str, tuple[int, Callable[[Scene], Sequence[str]]]] = {
    "check": (2, lambda scene: ("--format", scene.one("text", "json", "sarif", "github"))),
    "show": (8, _shown),
    "run": (8, _ran),
    "cost": (3, lambda scene: (scene.one("--full", "--json"),)),
    "verify": (4, lambda scene: scene.maybe("--every-choice", share=0.3)),
    "explain": (3, lambda scene: ("-o", scene.one("out.md", "out.html"))),
    "build": (2, lambda scene: ("-o", "built", "--only", scene.one("svg", "html", "numpy"))),
    "plan": (2, lambda scene: ("--ranks", "4", "--memory", "1GB")),
    "diff": (2, lambda scene: (OTHER, *scene.maybe("--json"))),
    "export": (1, lambda scene: ("-o", scene.one("out.onnx", "out.pt2"))),
}
ALONE = ("check", "diff")  # that take no block, plan or choice of options here


def command_failure(seed: int) -> tuple[str, str]:
    """A program and the internal error of a command that meets it; both empty if there is none."""
    random, sketch = Random(seed), generate(seed)
    planned = seed % PLANNED == 0
    open_ = [name for name in sketch.numbers if random.random() < LEFT_OUT]
    open_ = [name for name in open_ if sketch.dims.get(name) == str(sketch.numbers[name])]
    opened = without(sketch, open_) if seed % 2 else sketch
    text = with_plan(opened, seed) if planned else str(opened)
    scene = Scene(sketch, random, planned)
    with TemporaryDirectory() as folder, chdir(folder):
        Path(FILE).write_text(text, encoding="utf-8")
        Path(OTHER).write_text(str(generate(seed + 1)), encoding="utf-8")
        _write_arrays(scene)
        names = random.choices(list(TRIED), [often for often, _ in TRIED.values()], k=COMMANDS)
        for name in names:
            taken = (FILE,) if name in ALONE else scene.of_program
            words = (name, *taken, *TRIED[name][1](scene))
            said = _failure(words)
            if said:
                return text, f"xg {' '.join(words)}\n{said}"
    return "", ""


def _write_arrays(scene: Scene) -> None:
    """Arrays of the program at its numbers, some of another shape, and cotangents."""
    sketch = scene.sketch
    sizes, options = dict(sketch.numbers), dict(sketch.settings)
    program = xg.compile(source=str(sketch), sizes=sizes, options=options)
    draw = np.random.default_rng(0)
    inputs: Arrays = {}
    for name, spec in program.inputs.items():
        shape = [int(axis) for axis in spec.shape]
        is_float = spec.dtype == "float"
        inputs[name] = (
            draw.standard_normal(shape)
            if is_float
            else draw.integers(0, int(spec.range or 1), shape)
        )
    np.savez(INPUTS, allow_pickle=False, **inputs)
    axes = [(name, axis) for name, array in inputs.items() for axis in range(array.ndim)]
    if axes:
        name, axis = scene.random.choice(axes)
        inputs[name] = np.concatenate([inputs[name]] * 2, axis)
    np.savez(WRONG, allow_pickle=False, **inputs)
    outputs = {name: spec for name, spec in program.outputs.items() if spec.dtype == "float"}
    seeds = {n: draw.standard_normal([int(axis) for axis in s.shape]) for n, s in outputs.items()}
    np.savez(SEEDS, allow_pickle=False, **seeds)


def _failure(words: Sequence[str]) -> str:
    """The words of a command that fails by itself; empty if it does or refuses what it is to do."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(list(words))
        except SystemExit as end:
            code = end.code
    said = err.getvalue()
    is_fine = code in CODES and code != INTERNAL
    return "" if is_fine and "internal error" not in said and "Traceback" not in said else said
