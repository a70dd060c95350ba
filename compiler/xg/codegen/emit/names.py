"""Name what generated code has: by the author's name if there is one, and no name twice.

While a module is written, every name that comes from the diagram is marked: its first letter is one
of an alphabet that no name uses, one alphabet for each kind. So each name in the text is known to
be the author's or the module's own. Where both have one spelling in one scope, the author's is
written with ``_`` behind it; at the end the marks are removed.
"""

from __future__ import annotations

import ast
import re
import string
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from keyword import iskeyword, issoftkeyword
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeVar, cast, get_args

from xg.codegen.emit.allowlist import REMEMBERED, by_piece, descendants
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Apply, Backward, Call, IRProgram, Step, Value
from xg.ir.labels import identifier, value_names
from xg.ir.placement import is_term

Kind = Literal["size", "function", "variable"]  # classes are named as functions are
Avoided = Mapping[Kind, frozenset[str]]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_LETTERS: Final = string.ascii_letters + "_"
_FIRST: Final = 0x14400  # Anatolian hieroglyphs: Python takes them in names as they are
_MARKS: Final[Mapping[Kind, Mapping[str, str]]] = {
    kind: {letter: chr(_FIRST + 64 * row + n) for n, letter in enumerate(_LETTERS)}
    for row, kind in enumerate(KINDS)
}
_KINDS: Final[Mapping[str, Kind]] = {
    mark: kind for kind, marks in _MARKS.items() for mark in marks.values()
}
_PLAIN: Final = {ord(mark): letter for marks in _MARKS.values() for letter, mark in marks.items()}
_MARK: Final = re.compile(f"[{min(_KINDS)}-{max(_KINDS)}]")  # a range is found fast
_NOTHING: Final[Avoided] = MappingProxyType({})
_avoided: ContextVar[Avoided] = ContextVar("avoided", default=_NOTHING)


class Names:
    """Gives out identifiers of one scope; what was given once is taken."""

    def __init__(self, taken: Iterable[str] = (), kind: Kind = "variable") -> None:
        self._kind: Kind = kind
        self._taken = set(map(plain, taken))
        self._next: dict[str, int] = {}  # a number per name below which all are taken
        self._promised: set[str] = set()

    def fresh(self, wanted: str) -> str:
        """The wanted name if it is free, else the same with a number."""
        name = identifier(plain(wanted))
        while self._belongs(name):
            name += "_"
        if name in self._promised:
            self._promised.remove(name)
            return self._claim_name(name)
        if name in self._taken:
            return self._add_number(name.removesuffix("_"), 2)
        return self._claim_name(name)

    def _belongs(self, name: str) -> bool:
        """Whether a name means something else already, in Python or in the module."""
        avoided = _avoided.get().get(self._kind, ())
        made = (name, f"d_{name}", f"move_{name}") if self._kind == "function" else (name,)
        return _is_keyword(name) or any(each in avoided for each in made)

    def _add_number(self, name: str, number: int) -> str:
        number = max(number, self._next.get(name, 1))
        while not self._is_free(f"{name}_{number}"):
            number += 1
        self._next[name] = number + 1
        return self._claim_name(f"{name}_{number}")

    def _is_free(self, name: str) -> bool:
        return not (name in self._taken or name in self._promised or self._belongs(name))

    def _claim_name(self, name: str) -> str:
        self._taken.add(name)
        return _add_mark(name, self._kind)

    def promise(self, names: Iterable[str]) -> None:
        """Keep names for those that want just these."""
        self._promised.update(set(map(identifier, names)) - self._taken)

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names from being used."""
        self._taken.update(map(plain, names))


def spell_symbol(name: str) -> str:
    """Return the variable of a size: its symbol, followed by ``_`` if that name is avoided."""
    stem = name.rstrip("_")
    avoided = _is_keyword(stem) or stem in _avoided.get().get("size", ())
    return _add_mark(f"{name}_" if avoided else name, "size")


def _is_keyword(name: str) -> bool:
    return iskeyword(name) or issoftkeyword(name)


# ---- marks --------------------------------------------------------------------------------------


@contextmanager
def avoiding(names: Avoided) -> Generator[None]:
    """Give none of these names out, to no kind of thing that must avoid them."""
    token = _avoided.set(names)
    try:
        yield
    finally:
        _avoided.reset(token)


def plain(text: str) -> str:
    """A text without marks."""
    return text if text.isascii() else text.translate(_PLAIN)


def plain_module(text: str) -> str:
    """As `plain`, for a long text with few marks: a third of the time."""
    return _MARK.sub(lambda mark: _PLAIN.get(ord(mark[0]), mark[0]), text)


def kind_of(name: str) -> Kind | None:
    """The kind of a marked name; None for one of the module's own."""
    if name.isascii():
        return None
    return next((_KINDS[char] for char in name if char in _KINDS), None)


def blank_marks(text: str) -> str:
    """A text of the author's in which nothing is taken for a mark."""
    return "".join(" " if char in _KINDS else char for char in text)


def _add_mark(name: str, kind: Kind) -> str:
    return _MARKS[kind][name[0]] + name[1:]


# ---- spelling -----------------------------------------------------------------------------------


def mentioned_names(lines: Iterable[str]) -> set[str]:
    """Every name that lines of code mention, comments and strings left out."""
    names: set[str] = set()
    for line in lines:
        code = re.sub(r'"[^"]*"', "", line.split("# ")[0])
        names.update(re.findall(r"[^\W\d]\w*", code))
    return names


def camel(name: str) -> str:
    """A class's name from a block's: ``self attention`` is ``SelfAttention``, ``MHA`` stays."""
    parts = re.split(r"[\s_\-]+", name)
    return identifier("".join(part[:1].upper() + part[1:] for part in parts))


def safe(text: str) -> str:
    """A title inside a docstring or a comment: nothing that could end it or hide in it."""
    cleaned = "".join(char if char.isprintable() else " " for char in blank_marks(text))
    return cleaned.replace("\\", "/").replace('"', "'")


# Name clashes between the author's names and the module's own, and how they are resolved.
#
# No list reserves names. A module is written with marked names (`xg.codegen.emit.names`); if two
# kinds of names have one spelling in one scope, it is written again, and the lesser kind avoids
# that spelling.


Result = TypeVar("Result")
Spellings = dict[str, set[Kind | None]]  # None is a name of the module's own

ROUNDS: Final = 8


class AmbiguousNames(Exception):
    """A module whose names do not come apart: an error of the compiler."""


def write_with_stable_names(write: Callable[[], tuple[str, Result]]) -> tuple[str, Result]:
    """The text of `write`, without marks and without a name that hides another.

    The second result is that of `write`, still marked.
    """
    avoided: Avoided = {}
    for _ in range(ROUNDS):
        with avoiding(avoided):
            text, result = write()
        clashes = _clashes(text)
        if not any(clashes.values()):
            return plain_module(text), result
        avoided = {kind: clashes[kind] | avoided.get(kind, frozenset()) for kind in KINDS}
    raise AmbiguousNames(str(avoided))


def _clashes(text: str) -> dict[Kind, frozenset[str]]:
    """For each kind the spellings that it must avoid: the module's own come first, then sizes."""
    order = (None, *KINDS)
    reserved: dict[Kind, set[str]] = {kind: set() for kind in KINDS}
    pieces = [piece for _, piece in by_piece(text, _scopes)]
    imported = frozenset[str]().union(*(piece.imported for piece in pieces))  # hidden nowhere
    outer: Spellings = {}
    for piece in pieces:
        _free(piece.outer, piece.outer, outer)
    for names in (outer, *(inner for piece in pieces for inner in piece.inner)):
        for name, kinds in names.items():
            present = kinds | {None} if name in imported else kinds
            first = min(map(order.index, present))
            for kind in present - {order[first]}:
                if kind:
                    reserved[kind].add(name)
    return {kind: frozenset(names) for kind, names in reserved.items()}


class _Scopes(NamedTuple):
    """The names of every function and class of a piece, and those that belong to the module.

    These are bound there, or functions read them without binding them. Names of the module's own
    never clash among themselves: where there are no others, they are left out of `inner`.
    """

    inner: tuple[Spellings, ...]
    outer: Spellings
    imported: frozenset[str]


@lru_cache(REMEMBERED)
def _scopes(piece: str) -> _Scopes:
    outer: Spellings = {}
    inner: list[Spellings] = []
    imported: set[str] = set()
    for node in ast.parse(piece).body:
        if isinstance(node, ast.ClassDef):
            _add(outer, node.name)
            _add_names(outer, [*node.bases, *node.decorator_list])
            inner += _class(node, outer)
        elif isinstance(node, ast.FunctionDef):
            _add(outer, node.name)
            inner.append(_function(node, outer))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.asname or alias.name for alias in node.names}
            imported |= names
            for name in names:
                _add(outer, name)
        else:
            _add_names(outer, [node])
    return _Scopes(() if piece.isascii() else tuple(inner), outer, frozenset(imported))


def _class(node: ast.ClassDef, outer: Spellings) -> Iterator[Spellings]:
    inner: Spellings = {}
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            _add(inner, part.name)
            yield _function(part, outer)
        else:
            _add_names(inner, [part])
    _free(inner, inner.keys() - _bound(node.body), outer)
    yield inner


def _bound(body: list[ast.stmt]) -> set[str]:
    """The names that a class binds: its fields and methods."""
    fields = [part.target for part in body if isinstance(part, ast.AnnAssign)]
    methods = {plain(part.name) for part in body if isinstance(part, ast.FunctionDef)}
    return methods | {plain(field.id) for field in fields if isinstance(field, ast.Name)}


def _function(node: ast.FunctionDef, outer: Spellings) -> Spellings:
    inner: Spellings = {}
    bound: set[str] = set()
    for part in descendants(node):
        kind = type(part)
        if kind is ast.Name:
            name = cast(ast.Name, part)
            _add(inner, name.id)
            if type(name.ctx) is ast.Store:
                bound.add(_split_mark(name.id)[0])
        elif kind is ast.arg:
            name = cast(ast.arg, part).arg
            _add(inner, name)
            bound.add(_split_mark(name)[0])
    _free(inner, inner.keys() - bound, outer)
    return inner


def _free(inner: Mapping[str, set[Kind | None]], names: Iterable[str], outer: Spellings) -> None:
    for name in names:
        outer.setdefault(name, set()).update(inner[name])


def _add_names(names: Spellings, nodes: list[ast.AST] | list[ast.expr]) -> None:
    for node in nodes:
        for part in descendants(node):
            if isinstance(part, ast.Name):
                _add(names, part.id)


def _add(names: Spellings, name: str) -> None:
    spelling, kind = _split_mark(name)
    if spelling in names:
        names[spelling].add(kind)
    else:
        names[spelling] = {kind}


@lru_cache(REMEMBERED)
def _split_mark(name: str) -> tuple[str, Kind | None]:
    """A name without its mark, and the kind of the mark."""
    return plain(name), kind_of(name)


# Names for the values of a backward function: ``dX``, ``d_S``, ``dX_LN``.


def gradient_names(
    backward: Backward,
    forward_names: Mapping[Value, str],
    program: IRProgram,
    is_function: Callable[[str], bool],
) -> dict[Value, str]:
    """A name for every gradient; equal ones are numbered where they are written.

    The gradient of a labeled value is called after it: ``dX``. One without a label is called after
    the node that gives it: ``d_S``. A part of a sum is called after both: ``dX_LN``. Where several
    nodes have one name, operand or label follow: ``dX_attn_M``, ``d_R_Q``. No name is one of a
    function, if that can be helped.
    """
    labels = value_names(program, backward.key)
    namer = _GradientNamer(backward, program, labels, forward_names, _forward_values(backward))
    names = {value: f"d{namer.stem(of)}" for value, of in namer.of.items()}
    sums = (step for step in backward.steps if _is_sum(step))
    summed = {value for step in sums for value in step.inputs}
    groups: dict[tuple[str, str], list[tuple[Value, _Producer]]] = {}
    for node, value in namer.outputs():
        term = "_i" if is_term(backward.placements.get(value)) else ""
        of = namer.of.get(value)
        if value.name is not None:
            names[value] = value.name + term
        elif value in summed:
            groups.setdefault((f"d{namer.stem(of)}_{node.name}", term), []).append((value, node))
        elif of is None:  # inside one gradient, written where it is read
            names[value] = f"d_{node.name}{term}"
        elif of.name is not None:
            names[value] = f"d{of.name}{term}"
        else:
            groups.setdefault((f"d_{node.name}", term), []).append((value, node))
    for (stem, term), members in groups.items():
        for value, name in _apart(stem, members, is_function):
            names[value] = name + term
    return names


def sums_with_seeds(backward: Backward) -> dict[Value, Value]:
    """Map each sum to the cotangent that only it reads, and whose name it takes over."""
    reads = Counter(value for step in backward.steps for value in step.inputs)
    reads.update(value for value, _ in backward.rows)
    seeds = {seed for seed in backward.cotangents.values() if reads[seed] == 1}
    return {
        step.outputs[0]: value
        for step in backward.steps
        if _is_sum(step) and step.outputs[0].name is not None
        for value in step.inputs
        if value in seeds and value.name == step.outputs[0].name
    }


@dataclass(frozen=True, slots=True)
class _Producer:
    """The node that gives a gradient: its name, which operand, and the label after it."""

    name: str
    operand: str
    label: str


@dataclass(slots=True)
class _GradientNamer:
    backward: Backward
    program: IRProgram
    labels: Mapping[Value, str]
    forward_names: Mapping[Value, str]
    of: Mapping[Value, Value]

    def stem(self, value: Value | None) -> str:
        """The name of a forward value."""
        if value is None:
            return "part"
        return identifier(
            plain(value.name or self.forward_names.get(value) or self.labels.get(value, "part"))
        )

    def outputs(self) -> Iterator[tuple[_Producer, Value]]:
        """Every value that a step gives, with the node."""
        for step in (step for step in self.backward.steps if not step.again):
            for place, value in enumerate(step.outputs):
                yield self._node(step, place, value), value

    def _node(self, step: Step, place: int, value: Value) -> _Producer:
        if isinstance(step, Call):
            ports = [
                port.name or ""
                for port in self.program.graphs[step.callee].inputs
                if self.program.graphs[step.callee].types[port].is_float
            ]
            gradients = len(step.outputs) - len(self.program.backwards[step.callee].rows)
            operand = ports[place] if place < len(ports) == gradients else ""
            behind = step.origin.outputs[0] if step.origin else None
            return _Producer(identifier(step.path), operand, self._label(behind))
        operator = step.op if step.origin is None or _moves(step) else step.origin.op
        glyph = operator.glyph if step.origin or _moves(step) else operator.name
        name = glyph if glyph.isidentifier() and glyph.isascii() else operator.name
        if _is_sum(step):
            name = "sum"
        behind = step.origin.outputs[0] if step.origin else self.of.get(value)
        return _Producer(identifier(name), self._operand(step, place, value), self._label(behind))

    def _operand(self, step: Apply, place: int, value: Value) -> str:
        """The name of the operand whose gradient it is, in its operator."""
        if step.op.name.startswith("gradient of ") and len(step.op.outputs) > 1:
            return step.op.outputs[place].removeprefix("d")
        if step.origin is None:
            return ""
        names = step.origin.op.operand_names(step.origin.attrs)
        of = self.of.get(value)
        pairs = zip(names, step.origin.inputs, strict=False)
        return next((name for name, operand in pairs if operand is of), "")

    def _label(self, value: Value | None) -> str:
        """The label, or the number of the node that makes a value without one."""
        if value is None:
            return ""
        if value.name is None:
            digits = self.labels.get(value, "").rpartition("_")[2]
            return digits if digits.isdecimal() else ""
        return identifier(value.name)


def _forward_values(backward: Backward) -> dict[Value, Value]:
    """The forward value of every gradient, also of a sum of some of its parts."""
    of = dict(backward.of)
    for step in reversed(backward.steps):
        if _is_sum(step) and step.outputs[0] in of:
            of.update({part: of[step.outputs[0]] for part in step.inputs if part not in of})
    return of


def _is_sum(step: Step) -> bool:
    """Whether a step adds up the parts of a gradient."""
    alone = isinstance(step, Apply) and step.origin is None and not step.again
    return alone and len(step.inputs) > 1


def _moves(step: Apply) -> bool:
    return step.op.family == "collective"


def _apart(
    stem: str, members: list[tuple[Value, _Producer]], is_function: Callable[[str], bool]
) -> Iterator[tuple[Value, str]]:
    """Names for all that have one stem, as short as keeps them apart."""
    ways = [
        [stem for _ in members],
        [f"{stem}_{node.operand}".rstrip("_") for _, node in members],
        [f"{stem}_{node.label}".rstrip("_") for _, node in members],
        [f"{stem}_{node.label}_{node.operand}".rstrip("_") for _, node in members],
    ]
    fitting = (way for way in ways if len(set(way)) == len(way) and not any(map(is_function, way)))
    for (value, _), name in zip(members, next(fitting, ways[2]), strict=True):
        yield value, name
