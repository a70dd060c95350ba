"""The last steps before the memory is kept: what a page asks most, once, then tidying.

It runs in Pyodide, behind `answer.py`, whose names it uses. Of Python's library only the
modules that are imported here are sent, and of those nothing that only people read.
"""
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import gc
import re
import sys
import types
from contextlib import suppress
from functools import _lru_cache_wrapper, cached_property  # pyright: ignore
from importlib import import_module, invalidate_caches
from pathlib import Path

import xg

IMPORTED = re.compile(r"^ *(?:from|import) ([a-z_]+)\b(?! import annotations)", re.MULTILINE)
ROOMS = [
    "codegen",
    "cost",
    "diagnostics",
    "figures",
    "frontend",
    "ir",
    "ops",
    "passes",
    "sharding",
    "syntax",
]
DISCOVERING = (
    "xg_grammar",
    "xg.ops",
    "xg.codegen",
    "xg.passes.resolve",
    "xg.frontend",
)  # in folders
# Python's library imports these inside its functions: for code, for tables of costs, for PDF.
late = ["_ast_unparse", "importlib.readers", "importlib.resources._adapters"]
late += ["encodings.utf_16_be", "encodings.latin_1"]
HAS_DOCSTRING = 0x4000000
SMALL, LARGE = 1 << 17, 1 << 20  # bytes of each size that are written over, at most
# They keep the docstring of the function that they are made from.
DESCRIBED = (property, classmethod, staticmethod, cached_property, _lru_cache_wrapper)


def _import_library() -> None:
    """Import what parts of the compiler that are imported later need of Python's library."""
    for name in late:
        import_module(name)
    folder = Path(xg.__path__[0])
    for room in ROOMS:
        for file in (folder / room).rglob("*.py"):
            for name in IMPORTED.findall(file.read_text("utf-8")):
                with suppress(ImportError):  # of NumPy and others, which are not here
                    import_module(name)


def _ask_all() -> None:
    text = next(file for file in library_files() if file.stem == "mha").read_text("utf-8")  # pyright: ignore
    asked = {"name": "mha", "text": text}
    for view in ("forward", "backward"):
        _draw({**asked, "view": view})  # pyright: ignore
    # What knows errors is sent as text, which takes less room: a page has one later, if at all.
    _check(asked)  # pyright: ignore
    _format(asked)  # pyright: ignore


def _without_words() -> None:
    """Take docstrings, annotations and line tables away: no one reads them here."""
    known: dict[int, tuple[types.CodeType, types.CodeType]] = {}

    def lean(code: types.CodeType) -> types.CodeType:
        if id(code) not in known:
            inner = (
                lean(each) if isinstance(each, types.CodeType) else each for each in code.co_consts
            )
            consts = tuple(inner)
            if code.co_flags & HAS_DOCSTRING:
                consts = (None, *consts[1:])
            known[id(code)] = (code, code.replace(co_consts=consts, co_linetable=b""))
        return known[id(code)][1]

    for each in gc.get_objects():
        if isinstance(each, types.FunctionType):
            each.__doc__ = None
            each.__annotations__ = None  # pyright: ignore
            each.__code__ = lean(each.__code__)
        elif isinstance(each, DESCRIBED) or (
            isinstance(each, type | types.ModuleType) and each.__dict__.get("__doc__")
        ):
            with suppress(TypeError, AttributeError):  # of what is written in C
                each.__doc__ = None


def _tidy() -> None:
    run_engine.ENGINES = ()  # pyright: ignore
    KNOWN.clear()  # pyright: ignore
    READ.clear()  # pyright: ignore
    MEMORY.clear()  # pyright: ignore
    for each in gc.get_objects():
        if isinstance(each, _lru_cache_wrapper) and not each.__module__.startswith(DISCOVERING):
            each.cache_clear()
    invalidate_caches()  # the list of all files of Python's library
    _without_words()
    for _ in range(3):
        gc.collect()
    _blank()


def _blank() -> None:
    """Write zeros over what is free: pages would be sent what lay there last."""
    kept: list[bytes] = []
    for size in range(16, 512, 16):
        kept += [bytes(size - 1) for _ in range(SMALL // size)]
    for size in (1024, 4096, 16384, 65536):
        kept += [bytes(size) for _ in range(LARGE // size)]
    kept.clear()


_import_library()
_ask_all()
_tidy()
imported = [str(each.__file__) for each in sys.modules.values() if getattr(each, "__file__", None)]
