"""Define what a backend spells: each primitive, and the support functions that it needs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

from xg.codegen.emit.sizes import spell_dim, spell_scalar
from xg.codegen.emit.text import Text
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import Dim, Scalar
from xg.ir.prim import Expr
from xg.ir.tensor import Shape, Sizes

# Functions and classes that a generated module contains, from files of ordinary, tested code.
#
# In a module they are private: ``drop`` of a file is ``_drop`` there.


_DEFINED = (ast.FunctionDef, ast.ClassDef)


def private(function: str) -> str:
    """The name of a support function in a generated module."""
    return function if function.startswith("_") else f"_{function}"


class SupportFile:
    """The functions of some files and what they call among themselves.

    `spell` says the text of a file in the words of the backend, if others have the file, too.
    """

    def __init__(self, *paths: Path, spell: Callable[[str], str] = str) -> None:
        self.paths = [*paths]
        self._spell = dict.fromkeys(paths, spell)

    def __add__(self, other: SupportFile) -> SupportFile:
        """The functions of both, in this order."""
        both = SupportFile(*self.paths, *other.paths)
        both._spell = self._spell | other._spell
        return both

    def texts(self) -> list[str]:
        """The text of each file."""
        return [self._spell[path](path.read_text(encoding="utf-8")) for path in self.paths]

    def definitions(self) -> dict[str, ast.FunctionDef]:
        """The functions by their names, as the files have them."""
        nodes = [node for text in self.texts() for node in ast.parse(text).body]
        return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}

    def source(self, function: str) -> str:
        """The text of a function as it is in a module: it and what it calls are private."""
        return self._functions[function][0]

    def callees(self, function: str) -> tuple[str, ...]:
        """The functions that a function calls."""
        return self._functions[function][1]

    def closure(self, functions: Iterable[str]) -> list[str]:
        """The functions and all that they call, in the order of the files."""
        names: set[str] = set()
        pending = list(functions)
        while pending:
            name = pending.pop()
            if name not in names:
                names.add(name)
                pending.extend(self._functions[name][1])
        return [name for name in self._functions if name in names]

    @cached_property
    def _functions(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """For every function: its text and the other functions that it calls."""
        bodies = [(text, ast.parse(text).body) for text in self.texts()]
        nodes = [(text, n) for text, body in bodies for n in body if isinstance(n, _DEFINED)]
        names = {node.name for _, node in nodes}
        functions: dict[str, tuple[str, tuple[str, ...]]] = {}
        for text, node in nodes:
            called = {
                inner.func.id
                for inner in ast.walk(node)
                if isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Name)
                and inner.func.id in names
            }
            functions[node.name] = (_with_private_names(text, node, names), tuple(sorted(called)))
        return functions


def _with_private_names(
    text: str, node: ast.FunctionDef | ast.ClassDef, names: Collection[str]
) -> str:
    """The text of a definition, with every mention of the named ones made private.

    Its decorators are part of it, which `ast` does not count.
    """
    first = min(part.lineno for part in (node, *node.decorator_list))
    lines = [line.encode() for line in text.split("\n")[first - 1 : node.end_lineno]]
    inner = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    bound = {part.id for part in inner if isinstance(part.ctx, ast.Store)}
    bound |= {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    places = [(part.lineno, part.col_offset, part.id) for part in inner if part.id not in bound]
    keyword = "class " if isinstance(node, ast.ClassDef) else "def "
    places.append((node.lineno, node.col_offset + len(keyword), node.name))
    for number, column, name in sorted(places, reverse=True):
        if name in names and private(name) != name:
            line = lines[number - first]
            lines[number - first] = line[:column] + b"_" + line[column:]
    return b"\n".join(lines).decode()


@dataclass(slots=True)
class Scope:
    """The names that the text of one function may mention, and those that it did mention.

    `dtype` is the text of the float type of the function's tensors, `device` of where they are.
    `needed` collects the symbols of sizes, `support` the backend's own functions, `typed` and
    `placed` whether type and device were mentioned.
    """

    sizes: Sizes
    dtype: str = "dtype"
    device: str = "device"
    typed: bool = False
    placed: bool = False
    own: dict[int, str] = field(default_factory=dict[int, str])
    needed: dict[str, None] = field(default_factory=dict[str, None])
    support: dict[str, None] = field(default_factory=dict[str, None])

    def size(self, dim: Dim) -> Text:
        """A size, under the name that the file gives it."""
        folded = self.sizes.fold_exactly(dim)
        self.needed.update(dict.fromkeys(folded.symbols()))
        return spell_dim(folded)

    def rounds(self, count: Dim, first: int) -> str:
        """The numbers of the rounds of a row."""
        return (
            f"range({first}, {self.size(count + first).text})"
            if first
            else (f"range({self.size(count).text})")
        )

    def shape(self, shape: Shape) -> list[str]:
        """The sizes of a shape."""
        return [self.size(dim).text for dim in shape]

    def number(self, scalar: Scalar) -> Text:
        """A real number; one that the function takes as an argument goes by that name."""
        if id(scalar) in self.own:
            return Text(self.own[id(scalar)])
        for dim in scalar.dims():
            self.needed.update(dict.fromkeys(self.sizes.fold_exactly(dim).symbols()))
        return spell_scalar(scalar, self.sizes)

    def float_type(self) -> str:
        """The text of the float type."""
        self.typed = True
        return self.dtype

    def place(self) -> str:
        """The text of the device."""
        self.placed = True
        return self.device

    def types(self, names: Sequence[str]) -> list[str]:
        """The texts of what is asked for of float type and device."""
        texts = {"dtype": self.float_type, "device": self.place}
        return [texts[name]() for name in names]

    def type_lines(self, floats: Sequence[str], tensors: Sequence[str], empty: str) -> list[str]:
        """Lines that fetch what was asked for from the first tensor, or from `empty`."""
        typed = [f"dtype = {next(iter(floats), empty)}.dtype"] if self.typed else []
        placed = [f"device = {next(iter(tensors), empty)}.device"] if self.placed else []
        return typed + placed

    def use(self, function: str) -> str:
        """The private name of a support function, which the module then contains."""
        self.support[function] = None
        return private(function)


Spell = Callable[[Expr, Sequence[Text], Scope], Text]


class Spelling(Protocol):
    """A backend's words. `seed` is the type of a seed; `empty` a float tensor without elements.

    `quiet` is the decorator of a function that computes both branches of a choice: the one that is
    not chosen is to give no warning. `wide` is the support function that decorates an operator that
    adds, and computes half types in float32. A library that `rounds_sizes` divides float16 numbers
    by a size of 65,520 as by inf. `saved_size` is the support class of a size that is
    saved as a number, if it needs one.
    """

    name: str
    seed: str
    empty: str
    saved_size: str
    quiet: str
    wide: str
    rounds_sizes: bool

    def primitive(self, expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        """The text of one primitive, its arguments given as text."""
        ...

    def cast(self, text: Text, scope: Scope) -> Text:
        """Integers or wide floats as floats of the function's type."""
        ...

    def zeros(self, shape: str, scope: Scope, *, whole: bool = False) -> str:
        """Zeros of a shape, a tuple as text, of the function's type; `whole` ones are integers."""
        ...

    def no_room(self, shape: str, scope: Scope) -> str:
        """Zeros of a shape that are only read, and take no room."""
        ...

    def stack(self, rows: str, axis: int) -> str:
        """A list of arrays, stacked along a new axis."""
        ...

    def support(self, function: str) -> str:
        """The source of a function that `Scope.use` asked for."""
        ...
