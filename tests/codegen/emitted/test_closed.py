"""Code that no emitter writes does not leave the compiler, wherever it comes from."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from xg import codegen
from xg.codegen.backend import backends
from xg.codegen.emit.allowlist import DisallowedCode, check_code
from xg.codegen.emit.module import emit
from xg.codegen.numpy.dialect import VOCABULARY
from xg.diagnostics.diagnostic import DiagnosticError, Source
from xg.ir import functions
from xg.ir.graph import IRProgram
from xg.passes.differentiate import differentiate
from xg.passes.infer import infer
from xg.passes.resolve import resolve
from xg.syntax import ast
from xg.syntax.parse import parse

CODEGEN = Path(codegen.__file__).parent
KERNELS = CODEGEN.parents[1] / "xg_kernels"
LISTS = ("vocabulary.py", "allowlist.py", "mentions.py")
WORD = re.compile(r"\w+")
MODULE = '''"""A module."""

import numpy as np


def f(x, saved):
    y = {}
    return y
'''


@pytest.mark.parametrize("name", backends())
def test_a_backend_allows_only_names_that_its_sources_write(name: str) -> None:
    allowed = backends()[name].parts.vocabulary
    folders = (CODEGEN / "emit", CODEGEN / name, KERNELS / name)
    sources = [file for folder in folders for file in folder.glob("*.py") if file.name not in LISTS]
    sources.append(Path(functions.__file__))  # which says the words of functions for every backend
    written = {word for file in sources for word in WORD.findall(file.read_text(encoding="utf-8"))}
    assert allowed.methods.union(*allowed.modules.values()) <= written


def test_what_emitters_write_passes() -> None:
    check_code(MODULE.format("np.exp(x.sum(axis=-1)) + saved.shape[0]"), VOCABULARY)


@pytest.mark.parametrize(
    "planted",
    [
        "__import__('os').system('id')",
        "eval('1')",
        "open('/etc/passwd')",
        "np.load('x.npy', allow_pickle=True)",
        "np.ctypeslib.load_library('c', '.')",
        "x.tofile('out')",
        "().__class__.__bases__",
        "f.__globals__",
        "(lambda: 1)()",
        "[f][0]()",
        "(yield x)",
        "x(1)",
        "y()",
        "unbound",
        "x.__class__",
        "getattr(x, 'T')",
        "{1, 2}",
        "(z := 1)",
    ],
)
def test_expressions_that_no_emitter_writes(planted: str) -> None:
    with pytest.raises(DisallowedCode, match=r"line [67]"):
        check_code(MODULE.format(planted), VOCABULARY)


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("np.of_module", True),
        ("np.of_arrays", False),  # a module has no more than its own names
        ("x.of_arrays", True),
        ("x.of_module", False),
        ("x.__hidden__", True),  # where an emitter writes it
        ("np.__hidden__", False),
        ("math.of_arrays", True),  # a variable: no such module is imported
        ("math.of_module", False),
    ],
)
def test_modules_and_variables_have_attributes_of_their_own(expression: str, allowed: bool) -> None:
    names = frozenset({"of_module"})
    vocabulary = replace(
        VOCABULARY,
        modules={"np": names, "math": names},
        methods=frozenset({"of_arrays", "__hidden__"}),
    )
    source = f"import numpy as np\n\n\ndef f(x, math):\n    return {expression}\n"
    if allowed:
        check_code(source, vocabulary)
    else:
        with pytest.raises(DisallowedCode, match="the attribute"):
            check_code(source, vocabulary)


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "from os import path",
        "import numpy",
        "from math import *",
        "del np",
        "del x",
        "del x.T",
        "global x",
        "while True: pass",
        "try:\n    pass\nfinally:\n    pass",
        "with x as y: pass",
        "@f\ndef g(): return 1",
        "async def g(): return 1",
        "assert x",
    ],
)
def test_statements_that_no_emitter_writes(line: str) -> None:
    with pytest.raises(DisallowedCode):
        check_code(f"{MODULE.format('x')}\n\n{line}\n", VOCABULARY)


@pytest.mark.parametrize("line", ["del y", "del y, z", "del saved.T"])
def test_variables_and_saved_values_may_be_deleted(line: str) -> None:
    source = "def f(x, saved):\n    y = x.T\n    z = y.T\n    {}\n    return x\n"
    check_code(source.format(line), VOCABULARY)
    for other in ("del f", "del y, f", "del x.T", "del (lambda: y)"):
        with pytest.raises((DisallowedCode, SyntaxError)):
            check_code(source.format(other), VOCABULARY)


def compiled(text: str) -> IRProgram:
    return differentiate(infer(resolve(parse(Source("net.xg", text)), _no_file)))


def _no_file(use: ast.Use) -> ast.Module:
    raise DiagnosticError(())


def test_a_title_that_would_get_out_is_caught() -> None:
    program = compiled('dim B\nblock F "x" (X [B]) -> Y [B] {\n    X -> ReLU : Y\n}\n')
    for dialect in (backend.parts for backend in backends().values()):
        with pytest.raises(DisallowedCode, match="line 2: import os"):
            emit(program, replace(dialect, title='x"""\nimport os\n"""'))
