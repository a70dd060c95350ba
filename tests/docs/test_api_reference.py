"""docs/api.md lists the public Python interface; `./dev docs` writes it from the docstrings."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from textwrap import dedent
from types import FunctionType
from typing import Final, cast

import xg
import xg_runtime.checkpoint
import xg_runtime.generate
import xg_runtime.module
import xg_runtime.ranks

PAGE: Final = Path(__file__).parents[2] / "docs" / "api.md"

HEAD: Final = """\
# Python interface

This page lists the public names of the packages `xg` and `xg_runtime`, with their signatures. Other
names may change at any time. `./dev docs` writes it from the docstrings, and a test fails if it is
out of date. [The overview](overview.md#in-python) has an example.
"""

COMPILER: Final = """\
## The compiler

`import xg` is cheap: each name is imported when it is first used.
"""

MODULES: Final = """\
## Generated modules

Every generated module has these functions; `load` imports one, and `source` returns its text. A
module for torch takes tensors and also has [`Model`](torch.md#as-a-module).
"""

RANKS: Final = """\
## Ranks

`xg_runtime.ranks`: collectives for [code that runs on many ranks](ranks.md).
"""

CHECKPOINTS: Final = """\
## Checkpoints

`xg_runtime.checkpoint`: checkpoints of training runs, on one device.
"""


def _entry(name: str, thing: object) -> str:
    call = _signature(thing) if isinstance(thing, FunctionType) else ""
    return f"`{name}{call}`  \n{_text(thing)}\n"


def _signature(function: FunctionType) -> str:
    """Parameters and result as the source writes them: numpy's own names of types would change."""
    node = ast.parse(dedent(inspect.getsource(inspect.unwrap(function)))).body[0]
    assert isinstance(node, ast.FunctionDef)
    positional = [*node.args.posonlyargs, *node.args.args]
    defaults = [None] * (len(positional) - len(node.args.defaults)) + node.args.defaults
    pairs = zip(positional, defaults, strict=True)
    parts = [_parameter(arg, default) for arg, default in pairs if arg.arg != "self"]
    if node.args.vararg:
        parts.append(f"*{_parameter(node.args.vararg)}")
    elif node.args.kwonlyargs:
        parts.append("*")
    keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    parts += [_parameter(arg, default) for arg, default in keywords]
    if node.args.kwarg:
        parts.append(f"**{_parameter(node.args.kwarg)}")
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({', '.join(parts)}){result}"


def _parameter(arg: ast.arg, default: ast.expr | None = None) -> str:
    kind = f": {ast.unparse(arg.annotation)}" if arg.annotation else ""
    return arg.arg + kind + (f" = {ast.unparse(default)}" if default else "")


def _text(thing: object) -> str:
    text = inspect.getdoc(thing)
    assert text, thing
    return re.sub(r"``([^`]*)``", r"`\1`", text)


def _members(kind: type) -> Iterator[str]:
    """The public methods and properties that a class defines itself."""
    members: dict[str, object] = dict(vars(kind))
    for name, member in members.items():
        if name.startswith("_"):
            continue
        if isinstance(member, (property, cached_property, FunctionType)):
            yield _entry(name, cast(object, member))


def _class(name: str, kind: type) -> str:
    return "\n".join([f"### {name}\n", f"{_text(kind)}\n", *_members(kind)])


def _compiler() -> Iterator[str]:
    names = [name for name in xg.__all__ if not name.startswith("_")]
    things = {name: getattr(xg, name) for name in sorted(names)}
    yield from (_entry(f"xg.{n}", t) for n, t in things.items() if inspect.isfunction(t))
    yield from (_class(n, t) for n, t in things.items() if inspect.isclass(t))


def _ranks() -> Iterator[str]:
    for name in xg_runtime.ranks.__all__:
        thing = getattr(xg_runtime.ranks, name)
        if inspect.isfunction(thing):
            yield _entry(name, thing)


def _page() -> str:
    module = xg_runtime.module
    checkpoint = xg_runtime.checkpoint
    functions = (checkpoint.save, checkpoint.load, checkpoint.exists)
    return "\n".join(
        [
            *(HEAD, COMPILER, *_compiler()),
            *(
                MODULES,
                _class("Module", module.Module),
                _class("StepModule", xg_runtime.generate.StepModule),
            ),
            *(RANKS, *_ranks()),
            *(CHECKPOINTS, *(_entry(function.__name__, function) for function in functions)),
        ]
    )


def test_the_page_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, _page())


def test_every_public_name_of_the_compiler_is_on_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = [name for name in xg.__all__ if not name.startswith("_")]
    assert [n for n in names if f"`xg.{n}(" not in text and f"### {n}\n" not in text] == []
