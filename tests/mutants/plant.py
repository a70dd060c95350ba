"""Places of a source file where one small change can be planted, and the changed text."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from mutants.reach import Block, block_at
from mutants.rooms import ROOT, room_of

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """One change: the text of a node in a file, and what replaces it."""

    path: Path
    root: Path
    room: str
    place: str  # the function, or the name of a module or class that the value is given
    start: tuple[int, int]  # line from 1, bytes into it
    end: tuple[int, int]
    before: str
    after: str
    number: int = 1  # of those that are written the same way in one place

    def __str__(self) -> str:
        return f"{self.room}: {self.place}: {_line(self.before)} => {_line(self.after)}"

    @property
    def key(self) -> str:
        """Name this mutant and no other one, as the results do."""
        again = f" #{self.number}" if self.number > 1 else ""
        return f"{self.path.relative_to(self.root).as_posix()}: {self}{again}"

    @cached_property
    def block(self) -> Block | None:
        """The block of statements that it changes; None of a module or class."""
        return block_at(self.path, self.start, self.end)

    @cached_property
    def text(self) -> str:
        """The file with the change."""
        lines = self.path.read_bytes().split(b"\n")
        first, last = self.start[0] - 1, self.end[0] - 1
        new = (
            lines[first][: self.start[1]] + f"({self.after})".encode() + lines[last][self.end[1] :]
        )
        return b"\n".join([*lines[:first], new, *lines[last + 1 :]]).decode()


def _line(text: str) -> str:
    return " ".join(text.split())


def mutants(path: Path, root: Path = ROOT) -> list[Mutant]:
    """Make every change of a file that is tried."""
    text = path.read_text(encoding="utf-8")
    lines = text.encode().split(b"\n")
    room = room_of(path) if root == ROOT else path.stem
    found: list[Mutant] = []
    alike: Counter[str] = Counter()
    for place, node in _computing(ast.parse(text)):
        unchanged = ast.dump(node)
        for changed in _changes(node):
            if ast.dump(changed) == unchanged:
                continue
            start = node.lineno, node.col_offset
            end = node.end_lineno or 0, node.end_col_offset or 0
            before = _between(lines, start, end)
            each = Mutant(path, root, room, place, start, end, before, ast.unparse(changed))
            alike[str(each)] += 1
            found.append(replace(each, number=alike[str(each)]))
    return found


def _between(lines: list[bytes], start: tuple[int, int], end: tuple[int, int]) -> str:
    """The text between two places; `ast.get_source_segment` splits all lines each time."""
    cut = lines[start[0] - 1 : end[0]]
    cut[-1] = cut[-1][: end[1]]
    cut[0] = cut[0][start[1] :]
    return b"\n".join(cut).decode()


def _computing(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The expressions that compute, each with the function it is in: no types, texts, checks."""
    stack: list[tuple[str, bool, ast.AST]] = [("", False, tree)]
    while stack:
        place, inner, node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            place = f"{place}.{node.name}".lstrip(".")
            inner = inner or isinstance(node, ast.FunctionDef)
        if not inner and (name := _target(node)):
            place = f"{place}.{name}".lstrip(".")
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "os.kill":
            continue  # another signal, or another process, would end who asks
        if isinstance(node, ast.expr):
            yield place, node
        stack += [(place, inner, child) for child in reversed(list(_children(node)))]


def _target(node: ast.AST) -> str:
    """Return the name that a statement of a module or class gives its value."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case _:
            return ""


def _children(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Assert() | ast.Raise() | ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return
        case ast.FunctionDef():
            yield from (*node.args.defaults, *(d for d in node.args.kw_defaults if d), *node.body)
        case ast.ClassDef():
            yield from node.body
        case ast.AnnAssign():
            yield from [node.value] if node.value else []
        case ast.Expr(value=ast.Constant()) | ast.keyword(arg="strict"):
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Call(func=ast.Name(id="cast" | "TypeVar" | "isinstance")):
            return
        case ast.Subscript(value=ast.Name(id="dict" | "list" | "set" | "tuple" | "type")):
            return
        case _:
            yield from ast.iter_child_nodes(node)


def _changes(node: ast.expr) -> Iterator[ast.expr]:
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[op]) if type(op) in _SWAPPED:
            new.ops = [_swapped(op)]  # pyright: ignore
            yield new
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in _SWAPPED:
            new.op = _swapped(op)  # pyright: ignore
            yield new
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.IfExp():
            new.body, new.orelse = new.orelse, new.body
            yield new
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(2 * value or 1.0)
        case ast.Call(func=ast.Name(id="max" | "min" | "maximum" | "minimum")):
            pass  # the order means nothing
        case ast.Call(
            func=ast.Attribute(attr="swapaxes" | "transpose" | "promote_types"), args=[_, _]
        ):
            pass  # two axes are exchanged, two types widened, in either order
        case ast.Call(func=ast.Name(id="isinstance" | "range" | "replace")):
            pass  # every call shows it
        case ast.Call(args=[first, second, *_]) if _is_plain(first) and _is_plain(second):
            new.args[0], new.args[1] = new.args[1], new.args[0]
            yield new
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            if new.generators[0].ifs:
                new.generators[0].ifs.pop()
                yield new
        case _:
            pass


def _is_plain(node: ast.expr) -> bool:
    return not isinstance(node, ast.Starred)


def _swapped(op: ast.AST) -> ast.AST:
    return _SWAPPED[type(op)]()
