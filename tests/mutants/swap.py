"""A mutant planted in functions that exist: their code is replaced, and nothing imported again."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType

from mutants.plant import Mutant
from mutants.rooms import ROOT
from mutants.seen import Function, function_of

Functions = Mapping[str, list[FunctionType]]  # by the file that they are of


def functions() -> Functions:
    """Every function of the project's packages in this process."""
    found: dict[str, list[FunctionType]] = {}
    gc.unfreeze()  # what the tests' configuration has set apart is not listed
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(str(ROOT)):
            found.setdefault(each.__code__.co_filename, []).append(each)
    gc.freeze()
    return found


def home(mutant: Mutant) -> Function | None:
    """The outermost function whose body a mutant changes; None if it changes a module or class."""
    stack: list[tuple[str, ast.AST]] = [("", ast.parse(mutant.path.read_text("utf-8")))]
    while stack:
        prefix, node = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                stack.append((f"{prefix}{child.name}.", child))
            elif isinstance(child, ast.FunctionDef):
                first, last = child.body[0], child.body[-1]
                if (first.lineno, first.col_offset) <= mutant.start and mutant.end <= (
                    last.end_lineno or 0,
                    last.end_col_offset or 0,
                ):
                    return mutant.path.relative_to(ROOT).as_posix(), f"{prefix}{child.name}"
            elif isinstance(child, ast.If | ast.Try | ast.With):
                stack.append((prefix, child))
    return None


def swap(mutant: Mutant, live: Functions) -> bool:
    """Give the functions of a file their changed code; False if that cannot be done."""
    path = str(mutant.path)
    old, new = (
        list(_codes(compile(text, path, "exec", dont_inherit=True)))
        for text in (mutant.path.read_text("utf-8"), mutant.text)
    )
    if [_shape(code) for code in old] != [_shape(code) for code in new]:
        return False
    places = {code: place for place, code in enumerate(old)}
    function, done = home(mutant), False
    for each in live.get(path, []):
        if each.__code__ in places:
            done = done or function_of(each.__code__) == function
            each.__code__ = new[places[each.__code__]]
    return done


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _shape(code: CodeType) -> tuple[str, tuple[str, ...]]:
    return code.co_qualname, code.co_freevars
