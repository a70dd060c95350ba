"""Authors may use any name for anything: it never shadows a name that a module needs itself."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, Final

import jax
import numpy as np
import pytest
from backends import in_words_alone, with_kernels, writing
from numpy.typing import NDArray
from tier import THOROUGH

import xg
from xg import ops
from xg.diagnostics.diagnostic import DiagnosticError, Source
from xg.driver import BACKENDS, Program
from xg.syntax.parse import parse

Arrays = dict[str, NDArray[Any]]

# Every role that a name may have: a dim, an operator with its operand, tensor, number and part, and
# of two blocks themselves, inputs, outputs, parameters, calls and edges.
PROGRAM = Template("""\
dim $B, $S, $D = 4, $N = 2
op $Gate($x [.., $D]; $g [$D], $a = 0.5) = $part * $g where $part = $x * sigmoid($a * $x)
block $Inner($U [$B, $S, $D]; p = 0.1) -> $V [$B, $S, $D] {
    param $W [$D, $D], $G [$D] = ones
    $U -> •<=$W -> $Gate($G)                     : $Q [$B, $S, $D]
      -> T                                       : $K [$B, $D, $S]
    $Q -> •<=$K -> SM(0.5, causal) -> S -> DO(p) : $P [$B, $S, $S]
      -> •<=$U -> ⊕<-$U                          : $V
}
block $Outer($X [$B, $S, $D]) -> $Y [$B, $S, $D], $Z [$B, $S, $D] {
    param $R [$D, $D], $b [$D] = zeros
    $X -> •<=$R -> ⊕<-BC($b) : $H
      -> $Inner as $one      : $M
      -> $N × $Inner as $row : $L
      -> GELU -> ⊙<-$M       : $Y
    $L -> tanh               : $Z
}
mesh N_R = 2
plan DP of $Outer {
    $X [$B/N_R, $S, $D]
}
""")
KINDS: Final = (  # sizes, functions and classes, variables; each row has some of all
    ("B", "Gate", "X", "x", "U", "Y", "W"),
    ("S", "Inner", "H", "g", "Q", "Z", "G"),
    ("D", "Outer", "M", "a", "K", "one", "R"),
    ("N", "L", "V", "part", "P", "row", "b"),
)
ROLES: Final[tuple[str, ...]] = tuple(role for row in KINDS for role in row)
MESH = ("N_R", "DP")
GLYPHS = {op.glyph for op in ops.table().values()}
FORMS = ("readable", "kernels", "ranks", "step")
BACKENDS_OF: Final[dict[str, Sequence[str]]] = {
    "readable": BACKENDS,
    "kernels": with_kernels(),
    "ranks": writing("ranks"),
    "step": writing("step"),
}
CASES = [(form, backend) for form in FORMS for backend in BACKENDS_OF[form]]


def every(roles: Mapping[str, str]) -> dict[str, str]:
    """All roles; those that are not given go by their own names."""
    return {role: roles.get(role, role) for role in ROLES}


def compiled(roles: Mapping[str, str], form: str) -> Program:
    source = PROGRAM.substitute(every(roles))
    program = xg.compile(source=source, plan="DP" if form == "ranks" else None)
    return program.step() if form == "step" else program


@cache
def plain(form: str) -> Program:
    """The program with the names that it has."""
    return compiled({}, form)


@cache
def names_of(form: str, backend: str) -> list[str]:
    """The names of a module in one of its forms."""
    return identifiers(plain(form).source(backend, kernels=form == "kernels"))


def in_turn(form: str, backend: str) -> tuple[list[str], int]:
    """These names, and how many of them are tried: daily those that no earlier form has."""
    earlier = () if THOROUGH else FORMS[: FORMS.index(form)]
    tried = {n for each in earlier if backend in BACKENDS_OF[each] for n in names_of(each, backend)}
    names = sorted(names_of(form, backend), key=lambda name: name in tried)
    return names, sum(name not in tried for name in names)


def identifiers(source: str) -> list[str]:
    """Every name in a module that may be an author's, but for those of the program itself."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    names |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef | ast.alias)}
    return sorted(filter(may_be_written, names - {*ROLES, *MESH, *GLYPHS}))


@cache
def may_be_written(name: str) -> bool:
    """Whether the language takes a name, of an edge and of an operator."""
    head = f"op {name}(x) = x\ndim D, {name}\nblock F(x [D]) -> {name} [D]"
    try:
        parse(Source("name.xg", f"{head} {{\n    x -> ReLU : {name}\n}}\n"))
    except DiagnosticError:
        return False
    return True


def results(program: Program, roles: Mapping[str, str], form: str, backend: str) -> list[Any]:
    """Outputs and gradients of a module of one device, in the order of the roles."""
    named = every(roles)
    random = np.random.default_rng(0)
    inputs = {named["X"]: random.normal(size=(2, 3, 4))}
    drawn = {"R": (4, 4), "b": (4,)}
    for call in ("one", "row.0", "row.1"):
        drawn |= {f"{call}.W": (4, 4), f"{call}.G": (4,)}
    params = {
        ".".join(named.get(part, part) for part in name.split(".")): random.normal(size=shape)
        for name, shape in drawn.items()
    }
    module = program.on_arrays(backend, "float64", kernels=form == "kernels")
    with jax.disable_jit():  # XLA, which does not see names, would take most of the time
        outputs, saved = module.forward(params, inputs, seed=None)
        gradients = module.backward(params, saved, outputs)
    return [*outputs.values(), *(gradients[name] for name in (*params, *inputs))]


@pytest.mark.parametrize(("form", "backend"), CASES)
def test_a_name_of_the_module_may_be_the_authors(form: str, backend: str) -> None:
    """Each name of a form is in turn a size, a function and a variable.

    Where a backend has only words for itself, and in CI, each name is one of the three, and in CI
    in the first form that has it.
    """
    names, count = in_turn(form, backend)
    runs = form in ("readable", "kernels")
    expected = results(plain(form), {}, form, backend) if runs else []
    assert len(names) > 20
    assert count > 2
    turn = CASES.index((form, backend)) % len(KINDS)
    roles = [role for row in (*KINDS[turn:], *KINDS[:turn]) for role in row]
    once = backend in in_words_alone() or not THOROUGH
    stride = len(roles) if once else len(KINDS[0])
    for start in range(0, count, stride):
        chosen = [names[(start + place) % len(names)] for place in range(len(roles))]
        given = dict(zip(roles, chosen, strict=True))
        program = compiled(given, form)
        if not runs:
            program.load(backend)
            continue
        for one, other in zip(results(program, given, form, backend), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12, err_msg=str(given))


@pytest.mark.parametrize(("form", "backend"), CASES)
def test_names_of_several_things_are_kept_apart(form: str, backend: str) -> None:
    """A function, a class, a size and a variable may have one name, up to its case."""
    runs = form in ("readable", "kernels")
    expected = results(plain(form), {}, form, backend) if runs else []
    roles = {"Outer": "Loss", "Y": "loss", "Inner": "Part", "U": "part", "H": "d_part"}
    roles |= {"B": "outer", "part": "gate", "x": "d_gate", "V": "PartSaved", "M": "part_2"}
    program = compiled(roles, form)
    if runs:
        for one, other in zip(results(program, roles, form, backend), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    else:
        program.load(backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_block_may_have_a_name_whose_gradients_are_the_modules(
    backend: str, tmp_path: Path
) -> None:
    """The gradient of `outputs` would be `d_outputs`, what `backward` takes."""
    file = tmp_path / "outputs.xg"
    text = "dim B, D = 4\nblock Outputs(X [B, D]) -> Y [B, D] {\n    X -> ReLU : Y\n}\n"
    file.write_text(text, encoding="utf-8")
    assert "def d_outputs_(" in xg.compile(file).source(backend)
