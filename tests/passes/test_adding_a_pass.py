"""The recipe of the documentation, followed to the letter: it must give a working pass."""

import re
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from xg.frontend.project import read_project
from xg.frontend.typed import type_project
from xg.ir.graph import IRProgram
from xg.passes import pipelines
from xg.passes.ir_text import spell_program
from xg.passes.pipelines import SINGLE, History, Pass, run
from xg.verify.reference.interpret import Interpreter

DOCUMENT = (Path(__file__).parents[2] / "docs" / "adding-a-pass.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    return [text for found, text in fences if found == language]


@pytest.fixture
def typed(tmp_path: Path) -> IRProgram:
    file = tmp_path / "twice.xg"
    file.write_text(_blocks("xg")[0], encoding="utf-8")
    return type_project(read_project(file), "Twice", None)


@pytest.fixture
def history(typed: IRProgram) -> History:
    module, record = _blocks("python")
    names: dict[str, object] = {**vars(pipelines), "Final": object}
    exec(module.replace("from __future__ import annotations\n", ""), names)
    exec(record, names)
    return run(cast(tuple[Pass, ...], names["SINGLE"]), typed)


def test_it_leaves_out_what_the_page_says(history: History) -> None:
    before, after = history.after("eliminate-dead"), history.after("merge-repeats")
    assert len(before.main.steps) - len(after.main.steps) == 1
    (shown,) = _blocks("")
    assert shown in spell_program(after)


def test_it_changes_no_number(history: History, typed: IRProgram) -> None:
    X, dY = np.random.default_rng(0).normal(size=(2, 3, 4))[0], np.ones((3, 3))
    results: list[tuple[object, object]] = []
    for program in (history.result, run(SINGLE, typed).result):
        interpreter = Interpreter(program, {})
        outputs, record = interpreter.forward({"X": X})
        gradient = interpreter.backward(record, {"Y": dY})["X"]
        results.append((outputs["Y"].tolist(), gradient.tolist()))
    assert results[0] == results[1]
