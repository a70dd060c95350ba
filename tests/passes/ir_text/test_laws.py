"""The printed IR says all that a pass, the interpreter and a backend need: read back, it is equal.

The laws hold after every pass of every pipeline. `EVERYTHING` has them tried on every block of
every shipped diagram under every plan, which takes minutes; CI tries a choice of them.
"""

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from backends import with_calls
from ir_reader import read_program
from library import LIBRARY
from numpy.typing import NDArray
from tier import THOROUGH

from xg.codegen.backend import find
from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.project import Project, read_project
from xg.frontend.typed import type_project
from xg.ir.graph import IRProgram
from xg.ir.verify import verify
from xg.passes.ir_text import spell_program
from xg.passes.pipelines import BLOCKS, EVERY_PASS, PARALLEL, SINGLE, STEP, History, run
from xg.syntax.ast import Plan, only
from xg.verify.reference.interpret import Interpreter, initial
from xg_generate.decode_step import decode_step, prologue
from xg_kernels.pipelines import FUSED, FUSED_PASSES, FUSED_RANK

EVERYTHING = "XG_EVERY_IR" in os.environ
# Where tests are thorough: a block of Llama is under a product of these plans anyway, and has the
# steps of these layers.
MORE = [
    ("notation/mlp", "MLP", None),
    ("notation/mlp", "MLP", "TP × DP"),
    ("models/transformer", "Layer", None),
    ("models/transformer", "LM", "TP"),
    ("models/bert", "BERT", "DP"),
]
PASSES = {each.name: each for each in (*EVERY_PASS, *FUSED_PASSES)}
SOME = [
    ("models/transformer", "LM", "Zigzag"),
    ("models/llama", "GQA", None),
    ("models/llama", "GQA", "TP × DP"),
    ("models/encoder_decoder", None, None),
    ("models/vit", None, "FSDP"),
    ("notation/ops", None, None),
    ("examples/gru", None, None),
    *(MORE if THOROUGH else []),
]


@dataclass(frozen=True)
class Case:
    """A block of a diagram under a plan."""

    file: str
    block: str | None
    plan: str | None

    def __str__(self) -> str:
        return f"{self.file}-{self.block}-{self.plan}"

    def histories(self) -> Iterator[History]:
        """The programs after every pass of every pipeline that it can go through."""
        typed = type_project(_project(self.file), self.block, None, self.plan)
        if typed.is_parallel:
            ranks = run(PARALLEL, typed)
            yield ranks
            yield run(FUSED_RANK, ranks.after("eliminate-dead"))
            return
        single = run(SINGLE, typed)
        yield single
        yield run(FUSED, single.result)
        yield run(BLOCKS, single.result)
        try:
            yield History((("decode-step", decode_step(single.result)),))
            once = prologue(single.result)
        except DiagnosticError:  # not causal, or without positions
            return
        if once is not None:  # its dead steps read what is no input of it
            yield History(run(STEP, once).stages[1:])


@cache
def _project(file: str) -> Project:
    return read_project(LIBRARY / f"{file}.xg")


def _every_case() -> Iterator[Case]:
    for path in sorted(LIBRARY.glob("*/*.xg")):
        file = f"{path.parent.name}/{path.stem}"
        module = _project(file).main
        for block in module.blocks:
            plans = dict.fromkeys(plan.name.name for plan in only(Plan, module.plan_decls))
            for plan in (None, *plans):
                case = Case(file, block.name.name, plan)
                try:
                    next(case.histories())
                except DiagnosticError:  # a plan of another block
                    continue
                yield case


CASES = [*(_every_case() if EVERYTHING else (Case(*each) for each in SOME))]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_was_read_is_the_same_to_every_pass(case: Case) -> None:
    read: dict[
        str, IRProgram
    ] = {}  # many passes find nothing to do, and leave what was read before

    def reading(text: str) -> IRProgram:
        if text not in read:
            read[text] = read_program(text)
            assert spell_program(read[text]) == text
        return read[text]

    for history in case.histories():
        texts = [spell_program(program) for _, program in history.stages]
        for text, (name, _), after in zip(texts, history.stages[1:], texts[1:], strict=False):
            assert spell_program(PASSES[name].run(reading(text))) == after, name
        verify(reading(texts[-1]))


@cache
def _read_again(plan: str | None) -> list[tuple[IRProgram, IRProgram]]:
    """A block of Llama for one device or a rank, plain and fused, and what its text says of it."""
    histories = Case("models/llama", "GQA", plan).histories()
    programs = [next(histories).result, next(histories).result]
    return [(each, read_program(spell_program(each))) for each in programs]


def _code(program: IRProgram, backend: str, *, kernels: bool) -> str:
    """The generated code without comments and docstrings, which name lines of the file."""
    tree = ast.parse(find(backend).source(program, None, kernels=kernels))
    for node in ast.walk(tree):
        documented = isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
        if documented and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


@pytest.mark.parametrize("plan", [None, "TP"])
@pytest.mark.parametrize("backend", with_calls())
def test_what_was_read_gives_the_same_code(plan: str | None, backend: str) -> None:
    """With kernels where it is fused; where tests are thorough with and without in both."""
    for is_fused, (program, again) in zip((False, True), _read_again(plan), strict=True):
        for kernels in (False, True) if THOROUGH else (is_fused,):
            expected = _code(program, backend, kernels=kernels)
            assert _code(again, backend, kernels=kernels) == expected


def test_what_was_read_computes_the_same() -> None:
    sizes = {"B": 2, "S": 3, "D": 4}
    typed = type_project(_project("notation/mlp"), "MLP", {"D": 4})
    program = run(SINGLE, typed).result
    again = read_program(spell_program(program))
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=tuple(sizes.values()))}
    cotangents = {"Y": rng.normal(size=tuple(sizes.values()))}

    def results(of: IRProgram) -> dict[str, NDArray[Any]]:
        interpreter = Interpreter(of, initial(program), seed=3)
        outputs, record = interpreter.forward(arrays)
        return {**outputs, **interpreter.backward(record, cotangents)}

    expected, found = results(program), results(again)
    assert list(found) == list(expected)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
