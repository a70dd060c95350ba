"""Rewritings of a program that change neither values nor gradients.

Each takes a sketch and gives the files of another program (the last one is the main file), what
settings choose, and what its names were before. Dropout is off: it is drawn from names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
from fuzz.inlined import NotInlined, inlined
from fuzz.proof import Case, Failure, on_arrays
from fuzz.sketch import Block, Sketch, Statement, words

from xg import ops
from xg.codegen.backend import default, load
from xg.codegen.numpy.dialect import emit
from xg.diagnostics.diagnostic import Source
from xg.ir.graph import IRProgram
from xg.ir.use import Word
from xg.ir.walk import param_specs
from xg.passes.differentiate import differentiate
from xg.passes.infer import infer
from xg.passes.resolve import resolve
from xg.syntax import ast
from xg.syntax.ast import walk
from xg.syntax.format import format
from xg.syntax.parse import parse

CLOSE = 1e-10
LIBRARY = "library.xg"


@dataclass(frozen=True)
class Rewritten:
    """Files by name, the main one last; `names` are the new names of what has another one."""

    files: Mapping[str, str]
    settings: Mapping[str, str]
    names: Mapping[str, str] = field(default_factory=dict[str, str])


Law = Callable[[Sketch, Random], Rewritten]


def renamed(sketch: Sketch, random: Random) -> Rewritten:
    """Dims, edges, parameters, blocks, calls and options under other names, in another order."""
    text = str(sketch)
    tree = parse(Source("case.xg", text))
    spots = {name.span.start: name for name in _names(tree)}
    plain = [name for name in spots.values() if name.name not in _builtin(tree)]
    order = list(dict.fromkeys(name.name for name in plain))
    random.shuffle(order)
    names = {name: f"n{place}_{place % 3}" for place, name in enumerate(order)}
    for name in sorted(plain, key=lambda name: name.span.start, reverse=True):
        text = text[: name.span.start] + names[name.name] + text[name.span.end :]
    settings = {names.get(n, n): names.get(word, word) for n, word in sketch.settings.items()}
    return Rewritten({"case.xg": text}, settings, names)


def _names(tree: ast.Module) -> list[ast.Name]:
    return [part for part in walk(tree) if isinstance(part, ast.Name)]


def _builtin(tree: ast.Module) -> set[str]:
    """Names that the language knows, or that are in places where only it has names."""
    declared = {
        decl.name.name
        for decl in walk(tree)
        if isinstance(decl, ast.Port | ast.Param | ast.DimDecl | ast.Block | ast.OptionDecl)
    }
    uses = [part for part in walk(tree) if isinstance(part, ast.NodeUse)]
    calls = {use.instance.name for use in uses if use.instance}
    declared |= calls
    operators = {
        part.operator.name for part in walk(tree) if isinstance(part, ast.NodeUse | ast.Call)
    }
    blocks = {block.name.name for block in tree.blocks}
    known = operators - blocks - calls - {option.name.name for option in tree.options}
    own = [own for op in ops.table().values() for own in op.own if isinstance(own, Word)]
    known |= {choice for each in own for choice in each.choices}  # `mean` of CE
    return known | {name.name for name in _names(tree) if name.name not in declared}


def reordered(sketch: Sketch, random: Random) -> Rewritten:
    """Lines that do not need each other in another order."""
    blocks = {block.name for block in sketch.blocks}
    changed = tuple(_reordered(block, blocks, random) for block in sketch.blocks)
    return Rewritten({"case.xg": str(replace(sketch, blocks=changed))}, sketch.settings)


def _reordered(block: Block, blocks: set[str], random: Random) -> Block:
    waiting = list(block.statements)
    makes = [_made(statement, blocks) for statement in waiting]
    needs = [
        {other for other in range(place) if makes[other] & words(statement)}
        for place, statement in enumerate(waiting)
    ]
    order: list[int] = []
    while len(order) < len(waiting):
        ready = [i for i in range(len(waiting)) if i not in order and needs[i] <= {*order}]
        order.append(random.choice(ready))
    return replace(block, statements=tuple(waiting[place] for place in order))


def _made(statement: Statement, blocks: set[str]) -> set[str]:
    """The names that a line makes, those of its calls included."""
    calls = {step.call for step in statement.steps if step.call}
    return {port.name for port in statement.makes} | calls | (blocks & words(statement))


def formatted(sketch: Sketch, _: Random) -> Rewritten:
    """The same in the layout of `xg fmt`."""
    text = format(Source("case.xg", str(sketch)))
    return Rewritten({"case.xg": text}, sketch.settings)


def chosen(sketch: Sketch, _: Random) -> Rewritten:
    """Options with the word that `--set` chooses in front, and nothing set."""
    options = {
        name: tuple(sorted(choices, key=lambda word, name=name: word != sketch.settings.get(name)))
        for name, choices in sketch.options.items()
    }
    rest = {name: word for name, word in sketch.settings.items() if name not in options}
    return Rewritten({"case.xg": str(replace(sketch, options=options))}, rest)


def split(sketch: Sketch, _: Random) -> Rewritten:
    """All blocks but the last, and the operators, in a file of their own."""
    taken = [block.name for block in sketch.blocks[:-1]]
    taken += [op.split("(")[0].removeprefix("op ") for op in sketch.ops]
    if not taken:
        return Rewritten({"case.xg": str(sketch)}, sketch.settings)
    library = replace(sketch, dims={}, blocks=sketch.blocks[:-1], options={})
    main = replace(sketch, blocks=sketch.blocks[-1:], ops=())
    use = f'use {", ".join(taken)} from "{LIBRARY}"\n\n'
    return Rewritten({LIBRARY: str(library), "case.xg": use + str(main)}, sketch.settings)


def in_place(sketch: Sketch, _: Random) -> Rewritten:
    """The body of each block written in the place of its calls."""
    try:
        found = inlined(sketch)
    except NotInlined:
        return Rewritten({"case.xg": str(sketch)}, sketch.settings)
    return Rewritten({"case.xg": found.text}, sketch.settings, found.names)


LAWS: tuple[Law, ...] = (renamed, reordered, formatted, chosen, split, in_place)


def drawn(sketch: Sketch, seed: int) -> Case:
    """The program as it is, with random parameters and inputs."""
    program = _program(Rewritten({"case.xg": str(sketch)}, sketch.settings))
    return Case.draw(program, on_arrays(default(), program), sketch.numbers, seed)


def check_law(law: Law, sketch: Sketch, case: Case, seed: int) -> None:
    """Raise Failure where the other program has other values or gradients."""
    rewritten = law(sketch, Random(seed))
    try:
        second = _program(rewritten)
    except Exception as error:
        files = "\n".join(rewritten.files.values())
        raise Failure(law.__name__, f"{error}\n{files}") from error
    params = {_path(name, rewritten.names): array for name, array in case.params.items()}
    inputs = {_path(name, rewritten.names): array for name, array in case.inputs.items()}
    others = _others(second, params, sketch.numbers) if law is in_place else {}
    params |= others
    module = load(emit(second), "case_again")
    expected, saved = case.module.forward(case.params, case.inputs, seed=None)
    outputs, saved_again = module.forward(params, inputs, seed=None)
    _compare(law, expected, outputs, rewritten.names)
    floats = {name: value for name, value in expected.items() if value.dtype == np.float64}
    cotangents = {name: case.random.standard_normal(value.shape) for name, value in floats.items()}
    derived = case.module.backward(case.params, saved, cotangents)
    given = {_path(name, rewritten.names): array for name, array in cotangents.items()}
    found = module.backward(params, saved_again, given)
    if any(np.any(found.pop(name)) for name in others):
        raise Failure(law.__name__, f"{sorted(others)} have gradients")
    _compare(law, derived, found, rewritten.names)


def _others(
    program: IRProgram, params: Mapping[str, Any], numbers: Mapping[str, int]
) -> dict[str, Any]:
    """The parameters that the program has besides: of calls in chains of other choices.

    Where a body is in the place of its call, its parameters are the block's own in every choice.
    """
    shapes = {path: param.type.shape for path, param, *_ in param_specs(program)}
    sizes = program.main.sizes.bind(numbers)
    return {
        path: np.ones([dim.evaluate(sizes) for dim in shape])
        for path, shape in shapes.items()
        if path not in params
    }


def _program(rewritten: Rewritten) -> IRProgram:
    *_, (name, text) = rewritten.files.items()

    def load_file(_: ast.Use) -> ast.Module:
        return library

    library = parse(Source(LIBRARY, rewritten.files.get(LIBRARY, "")))
    main = parse(Source(name, text))
    return differentiate(infer(resolve(main, load_file, None, rewritten.settings)))


def _path(name: str, names: Mapping[str, str]) -> str:
    return names.get(name) or ".".join(names.get(part, part) for part in name.split("."))


def _compare(
    law: Law, expected: Mapping[str, Any], found: Mapping[str, Any], names: Mapping[str, str]
) -> None:
    if {_path(name, names) for name in expected} != set(found):
        raise Failure(law.__name__, f"{sorted(found)} instead of {sorted(expected)}")
    for name, array in expected.items():
        other = found[_path(name, names)]
        if not np.allclose(other, array, CLOSE, CLOSE, equal_nan=True):
            raise Failure(law.__name__, f"{name} is {other}, not {array}")
