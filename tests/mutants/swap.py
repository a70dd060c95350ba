"""A mutant planted in functions that exist: their code is replaced, and nothing imported again."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType

from mutants.plant import Mutant
from mutants.rooms import ROOT

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


def swap(mutant: Mutant, live: Functions) -> bool:
    """Give the functions of a file their changed code; False if that cannot be done."""
    qualified = block.function if (block := mutant.block) else ""
    path = str(mutant.path)
    old, new = (
        list(_codes(compile(text, path, "exec", dont_inherit=True)))
        for text in (mutant.path.read_text("utf-8"), mutant.text)
    )
    if [_shape(code) for code in old] != [_shape(code) for code in new]:
        return False
    places = {code: place for place, code in enumerate(old)}
    done = False
    for each in live.get(path, []):
        if each.__code__ in places:
            done = done or each.__code__.co_qualname == qualified
            each.__code__ = new[places[each.__code__]]
    return done


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _shape(code: CodeType) -> tuple[str, tuple[str, ...]]:
    return code.co_qualname, code.co_freevars
