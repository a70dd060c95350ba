"""docs/api.md lists the public Python interface; `./dev docs` writes it from the docstrings."""

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from importlib import import_module
from itertools import chain
from pathlib import Path
from textwrap import dedent
from types import FunctionType, ModuleType
from typing import Final, cast

from docs.markdown import blocks

import xg
import xg_runtime.generate
from xg.cost.report import CostReport
from xg.driver import TensorSpec

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = DOCS / "api.md"
# Names without a docstring of their own.
TEXTS: Final = {
    "Array": "An array of NumPy.",
    "Arrays": "Arrays by their diagram names.",
    "Saved": "The values that a module's `backward` reads; each module has its own type.",
    "Later": "A list of the parts of backward passes that are still to be run.",
    "Form": "The form of a checkpoint's files: `safetensors` or `dcp`.",
    "Cuts": "The cuts of an array: each a mesh axis and an axis of the array.",
}
# Pages about the inside of xg, whose names may change.
INSIDE: Final = ("adding-", "architecture", "ir")

HEAD: Final = """\
# Python interface

This page lists the public names of `xg`, of the packages beside it and of `xg_runtime`, with their
signatures: those in `__all__` of the modules named here. Other names may change at any time.
`help` shows more about each. [Use xg from Python](how-to/python.md) has an example.

<!-- ./dev docs writes this page from the docstrings. -->
"""

COMPILER: Final = """\
## The compiler

`import xg` is cheap: each name is imported when it is first used.
"""

MODULES: Final = """\
## Generated modules

Every generated module has these functions; `load` imports one, and `source` returns its text. A
module for torch takes tensors and also has [`Model`](how-to/pytorch-module.md).
"""

SECTIONS: Final = {
    "Models of PyTorch": (
        "`xg_torch.importing`, also as `xg.trace` and `xg.import_exported`: "
        "[import a model](importing.md).",
        ("xg_torch.importing",),
    ),
    "Tests of yours": (
        "`xg_torch.testing`: [compare your code](how-to/compare-pytorch.md).",
        ("xg_torch.testing",),
    ),
    "Notebooks": (
        "`xg_pages.notebook`, loaded by `%load_ext xg`: [notebooks](how-to/notebook.md).",
        ("xg_pages.notebook",),
    ),
    "Ranks": (
        "`xg_runtime.ranks`: collectives for [code that runs on many ranks](ranks.md).",
        ("xg_runtime.ranks",),
    ),
    "Processes and pipelines": (
        "`joined` is in `xg_runtime.ranks.joining`, `Terms` in `xg_runtime.ranks.terms`, a task in "
        "`xg_runtime.ranks.run_task`,\n`with_dtensors` in `xg_runtime.ranks.dtensors`, the rest in "
        "`xg_runtime.ranks.pipeline`: "
        "[on processes](ranks.md#on-processes).",
        tuple(
            f"xg_runtime.ranks.{name}"
            for name in ("joining", "terms", "run_task", "dtensors", "pipeline")
        ),
    ),
    "Checkpoints": (
        "`xg_runtime.checkpoint`: checkpoints of training runs, on one device.",
        ("xg_runtime.checkpoint",),
    ),
    "Checkpoints of ranks": (
        "`xg_runtime.checkpoint.on_ranks`: [every rank](ranks.md#checkpoints) has a part.",
        ("xg_runtime.checkpoint.on_ranks",),
    ),
    "Errors": ("`xg_runtime.errors`: why a run ends.", ("xg_runtime.errors",)),
}


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
    for name, kind in ((n, t) for n, t in things.items() if inspect.isclass(t)):
        yield f"### {name}\n\n{_text(kind)}\n"
        yield from _brief(_members(kind))


def _listed(module: ModuleType) -> Iterator[str]:
    """All that a module has in `__all__`: functions, then types, then classes."""
    things = {name: getattr(module, name) for name in module.__all__}
    functions = {name: thing for name, thing in things.items() if inspect.isfunction(thing)}
    yield from (_entry(name, thing) for name, thing in functions.items())
    yield from (f"`{name}`  \n{TEXTS[name]}\n" for name in things if name in TEXTS)
    rest = {n: t for n, t in things.items() if n not in functions and n not in TEXTS}
    yield from (_class(name, thing) for name, thing in rest.items())


def _brief(parts: Iterable[str]) -> Iterator[str]:
    """Each entry with its first paragraph: `help` has the others."""
    for part in parts:
        for entry in re.split(r"\n(?=`[^\n]*`  \n)", part):
            head, _, _ = entry.rstrip().partition("\n\n")
            if head.startswith("### "):
                head = "\n\n".join(entry.rstrip().split("\n\n")[:2])
            yield f"{head}\n"


def _page() -> str:
    parts = [HEAD, COMPILER, *_compiler(), _class("TensorSpec", TensorSpec)]
    parts += [_class("CostReport", CostReport), MODULES]
    parts += _listed(import_module("xg_runtime.module"))
    parts.append(_class("StepModule", xg_runtime.generate.StepModule))
    for title, (text, modules) in SECTIONS.items():
        parts.append(f"## {title}\n\n{text}\n")
        parts += _brief(chain.from_iterable(_listed(import_module(name)) for name in modules))
    return "\n".join(parts)


def _names() -> set[str]:
    """The names that the page lists, members of classes left out."""
    text = PAGE.read_text(encoding="utf-8")
    heads = re.findall(r"^(?:### |`(?:xg\.)?)(\w+)(?=[(`\n])", text, re.MULTILINE)
    return set(heads)


def test_the_page_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, _page())


def test_every_public_name_is_on_it_and_no_private_one() -> None:
    modules = {"xg", "xg_runtime.module", *chain(*(each for _, each in SECTIONS.values()))}
    public = {name for module in modules for name in import_module(module).__all__}
    assert public - _names() == {"__version__"}
    assert re.findall(r"\b_[A-Za-z]\w*", PAGE.read_text(encoding="utf-8")) == []


def test_pages_for_users_import_public_names_alone() -> None:
    """Code of the documents and of `xg new` takes from xg only what the page lists."""
    found: set[str] = set()
    for page in (*DOCS.glob("*.md"), *DOCS.glob("how-to/*.md")):
        if not page.stem.startswith(INSIDE):
            for block in blocks(page.read_text(encoding="utf-8")):
                found |= _imported(block.text) if block.language == "python" else set()
    assert found >= {"assert_matches", "joined", "simulate"}
    modules = {name.rpartition(".")[2] for _, each in SECTIONS.values() for name in each}
    assert found - _names() - modules == set()


def _imported(text: str) -> set[str]:
    """The names that lines of Python import from the packages."""
    lines = re.findall(r"^from xg(?:_\w+)?[\w.]* import (.+)$", text, re.MULTILINE)
    return {name.strip() for line in lines for name in line.split(",")}


def test_a_private_name_in_a_page_is_found() -> None:
    assert _imported("from xg.driver import BACKENDS, Program\n") - _names() == {"BACKENDS"}
