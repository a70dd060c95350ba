"""Docstrings of emitted backward passes say the arguments by the names that they have."""

from __future__ import annotations

import ast
import re

import pytest

import xg
from xg.driver import BACKENDS, Program


def backward_passes(program: Program, backend: str) -> list[ast.FunctionDef]:
    """The functions of a module that a block's backward pass has become."""
    module = ast.parse(program.source(backend))
    functions = [each for each in module.body if isinstance(each, ast.FunctionDef)]
    return [each for each in functions if (ast.get_docstring(each) or "").startswith("Backward")]


@pytest.mark.parametrize("backend", [each for each in BACKENDS if each in ("numpy", "torch")])
@pytest.mark.parametrize("plan", [None, "TP", "PP"])
def test_names_of_arguments(plan: str | None, backend: str) -> None:
    program = xg.compile("transformer", "LM", plan)
    found = [
        function
        for each in program.stages or (program,)
        for function in backward_passes(each, backend)
    ]
    assert found
    for function in found:
        said = re.sub(r"\[[^]]*\]", "", (ast.get_docstring(function) or "").split("\n\n")[1])
        arriving = [name.strip() for name in said.split("->")[0].split(",")]
        own = [each.arg for each in function.args.args]
        assert [name for name in arriving if name not in own] == [], function.name
