"""Refuse generated Python that mentions anything but allowed constructs and names.

Names and titles of a diagram end up in the code. If their escaping failed, the result would show as
a construct, a name or a dotted call that no emitter writes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar, cast

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.functions import FUNCTIONS

# Everything that a piece of Python mentions, as sets that later checks compare with others.
#
# A module is written in pieces: functions, classes, the head. Many are the same in every module, so
# what a piece mentions is found out once for each text.


Result = TypeVar("Result")

BETWEEN: Final = "\n\n\n"  # two pieces of a module
REMEMBERED: Final = 1_000  # pieces


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set of names."""
    return frozenset(text.split())


NODES: Final = words(
    """
    Module Import ImportFrom alias ClassDef FunctionDef arguments arg Assign AnnAssign AugAssign
    Delete Expr Return Raise If For With Try Name Constant Attribute Subscript Slice Call keyword
    Starred Tuple List Dict ListComp DictComp comprehension IfExp withitem BoolOp And Or Not
    JoinedStr FormattedValue Compare BinOp UnaryOp USub Add Sub Mult MatMult Div FloorDiv Mod
    Pow LShift RShift BitXor BitOr BitAnd Eq NotEq Gt GtE Lt LtE Is IsNot In NotIn
    """
)
_KNOWN: Final = frozenset(getattr(ast, name) for name in NODES)
_LEAVES: Final = frozenset({ast.Name, ast.Constant})
_PLAIN_FIELDS: Final = words(
    "ctx id attr arg name asname module level type_comment conversion simple kind"
)
_CHILDREN: Final = {
    kind: tuple(name for name in kind._fields if name not in _PLAIN_FIELDS) for kind in _KNOWN
}


class WrittenFunction(NamedTuple):
    """A function: the calls of it that its own variables hide, and its decorators."""

    name: str
    line: int
    hidden: frozenset[str]
    decorators: frozenset[str]


@dataclass(frozen=True, slots=True)
class PieceMentions:
    """The mentions of a piece, each with the line that has it first, the lines counted from zero.

    `bound` are the names that it binds, `fields` those bound in its classes and `modules` those of
    imported modules. `attributes` are pairs of the name in front, if it is one, and the attribute.
    `strange` are parts that no emitter writes, whatever the names in them mean.
    """

    bound: frozenset[str]
    fields: frozenset[str]
    modules: frozenset[str]
    names: Mapping[str, int]
    attributes: Mapping[tuple[str, str], int]
    imports: Mapping[str, int]
    functions: tuple[WrittenFunction, ...]
    strange: tuple[tuple[int, str], ...]


def by_piece(text: str, read: Callable[[str], Result]) -> list[tuple[int, Result]]:
    """The result of `read` for each piece of a module, with the number of its first line.

    Pieces that are modules by themselves are, one after the other, the same module. A text that is
    not made of such pieces is one piece.
    """
    found: list[tuple[int, Result]] = []
    line = 1
    try:
        for piece in text.split(BETWEEN):
            found.append((line, read(piece)))
            line += piece.count("\n") + len(BETWEEN)
    except SyntaxError:
        return [(1, read(text))]
    return found


@lru_cache(REMEMBERED)
def mentions(piece: str) -> PieceMentions:
    """All that a piece of code mentions; raises SyntaxError."""
    found = _Collector()
    for part in ast.parse(piece).body:
        if type(part) is ast.ClassDef:
            found.class_(part)
        else:
            found.add(descendants(part))
    return found.mentions()


class _Collector:
    """The mentions of a piece, as far as it has been read."""

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.fields: set[str] = set()
        self.modules: set[str] = set()
        self.names: dict[str, int] = {}
        self.attributes: dict[tuple[str, str], int] = {}
        self.imports: dict[str, int] = {}
        self.functions: list[WrittenFunction] = []
        self.strange: list[tuple[int, str]] = []
        self._deletions: list[ast.Delete] = []  # of the function that is read

    def mentions(self) -> PieceMentions:
        """All of them."""
        return PieceMentions(
            frozenset(self.bound),
            frozenset(self.fields),
            frozenset(self.modules),
            self.names,
            self.attributes,
            self.imports,
            tuple(self.functions),
            tuple(self.strange),
        )

    def class_(self, node: ast.ClassDef) -> None:
        """Add a class; each of its methods is walked by itself."""
        methods = [part for part in node.body if type(part) is ast.FunctionDef]
        rest = [part for part in node.body if type(part) is not ast.FunctionDef]
        above = [node.name, *self.add([each for part in rest for each in descendants(part)])]
        heads = [*node.bases, *node.keywords, *node.decorator_list]
        self.add([each for head in heads for each in descendants(head)])
        self.bound.add(node.name)
        for method in methods:
            above += self.add(descendants(method))
        self.fields.update(above[1:])

    def add(self, nodes: list[ast.AST]) -> set[str]:
        """Add nodes, of one function if the first is one; the names that they bind."""
        bound: set[str] = set()
        called: set[str] = set()
        functions: list[ast.FunctionDef] = []
        names = self.names
        for node in nodes:
            kind = type(node)
            if kind is ast.Name:
                name = cast(ast.Name, node)
                if type(name.ctx) is ast.Store:
                    bound.add(name.id)
                if name.id not in names:
                    names[name.id] = name.lineno - 1
            elif kind is ast.Call:
                func = cast(ast.Call, node).func
                if type(func) is ast.Name:
                    called.add(func.id)
                elif type(func) is not ast.Attribute:
                    self.strange.append((func.lineno - 1, f"a call of {ast.unparse(func)}"))
            elif kind is ast.Attribute:
                self._attribute(cast(ast.Attribute, node))
            elif kind is ast.arg:
                bound.add(cast(ast.arg, node).arg)
            elif kind is ast.FunctionDef:
                functions.append(cast(ast.FunctionDef, node))
            elif kind not in _KNOWN or kind in _RARE:
                bound.update(self._rare(node))
        self._check_deletions(bound)
        bound.update(function.name for function in functions)
        for function in functions:
            first = function is nodes[0]
            own = (called, bound - {function.name}) if first else _calls(function)
            self._function(function, *own)
        self.bound |= bound
        return bound

    def _attribute(self, node: ast.Attribute) -> None:
        owner = node.value.id if type(node.value) is ast.Name else ""
        self.attributes.setdefault((owner, node.attr), node.lineno - 1)

    def _rare(self, node: ast.AST) -> Iterator[str]:
        """The names that a node binds of a kind that modules have few of, or none."""
        line: int = getattr(node, "lineno", 1) - 1
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                self.imports.setdefault(ast.unparse(node), line)
                bound = [alias.asname or alias.name for alias in names]
                self.modules.update(bound if isinstance(node, ast.Import) else ())
                yield from bound
            case ast.ClassDef(name=name):  # within a function
                yield name
            case ast.Delete():
                self._deletions.append(node)
            case _:
                self.strange.append((line, f"a {type(node).__name__}"))

    def _check_deletions(self, bound: Collection[str]) -> None:
        """Note every ``del`` but of fields of saved values and of a function's own variables."""
        for node in self._deletions:
            match node.targets:
                case [ast.Tuple(elts=targets)] | targets:
                    if not all(_may_go(target, bound) for target in targets):
                        self.strange.append((node.lineno - 1, f"the line {ast.unparse(node)}"))
        self._deletions.clear()

    def _function(self, node: ast.FunctionDef, called: set[str], bound: set[str]) -> None:
        above = frozenset(map(ast.unparse, node.decorator_list))
        hidden = frozenset(called & bound)
        self.functions.append(WrittenFunction(node.name, node.lineno - 1, hidden, above))


_RARE: Final = frozenset({ast.Import, ast.ImportFrom, ast.ClassDef, ast.Delete})


def _calls(function: ast.FunctionDef) -> tuple[set[str], set[str]]:
    """The names that a function within another calls, and those that it binds."""
    inner = _Collector()
    bound = inner.add(descendants(function)[1:])
    calls = (node.func for node in descendants(function) if isinstance(node, ast.Call))
    return {func.id for func in calls if isinstance(func, ast.Name)}, bound


def _may_go(target: ast.expr, bound: Collection[str]) -> bool:
    """Whether generated code may delete it."""
    if isinstance(target, ast.Name):
        return target.id in bound
    return isinstance(target, ast.Attribute) and ast.unparse(target.value) == "saved"


def descendants(root: ast.AST) -> list[ast.AST]:
    """A node and all below it, each before its children: `ast.walk` at a fraction of its time.

    Contexts (load, store, delete) are left out: each is an attribute of the node above it.
    """
    nodes = [root]
    for node in nodes:  # grows while it is walked
        kind = type(node)
        if kind in _LEAVES:
            continue
        for name in _CHILDREN.get(kind, kind._fields):
            child = getattr(node, name, None)
            if type(child) is list:
                parts = cast(list[object], child)
                nodes += [part for part in parts if isinstance(part, ast.AST)]
            elif isinstance(child, ast.AST):
                nodes.append(child)
    return nodes


BUILTINS: Final = words(
    """
    range len float int str list tuple dict next iter reversed set bool enumerate isinstance hasattr
    max min ord round slice staticmethod super zip RuntimeError TypeError ValueError
    """
)
RESULTS: Final = 20  # so many an operator may round
IN_FLOAT32: Final = ("_in_float32()", *(f"_in_float32({n})" for n in range(1, RESULTS)))
MATH: Final = frozenset(FUNCTIONS) | {"prod"}


def functions_in(library: str) -> frozenset[str]:
    """Return the functions of one number that a library has under its own name, such as `np`."""
    parts = (each.word(library).rpartition(".") for each in FUNCTIONS.values())
    return frozenset(name for module, _, name in parts if module == library)


STANDARD: Final = frozenset({  # imports that modules of all backends may have
    "from __future__ import annotations", "import math", "from collections.abc import Mapping",
    "from typing import Any, NamedTuple", "from typing import Any",
})  # fmt: skip


class DisallowedCode(Exception):
    """Generated code with something that no emitter writes: an error of the compiler."""


@dataclass(frozen=True, slots=True)
class Allowlist:
    """The names that the code of one backend may mention.

    `imports` are its import statements, `modules` the names of each imported module, `methods` the
    attributes of everything else; fields of the module's own classes are added to these.
    `decorators` are all that may precede a function; `callables` are variables that may be called,
    which hide nothing.
    """

    imports: frozenset[str]
    modules: Mapping[str, frozenset[str]]
    methods: frozenset[str]
    decorators: frozenset[str] = frozenset()
    callables: frozenset[str] = frozenset()


def check_code(source: str, vocabulary: Allowlist, attributes: Iterable[str] = ()) -> None:
    """Raise DisallowedCode if a module has a part that is not allowed; `attributes` are its own."""
    pieces = by_piece(source, mentions)
    imports = {name for _, piece in pieces for name in piece.modules}
    module = _Module(
        vocabulary,
        names=BUILTINS.union(*(piece.bound for _, piece in pieces)),
        attributes=vocabulary.methods.union(attributes, *(piece.fields for _, piece in pieces)),
        modules={name: names for name, names in vocabulary.modules.items() if name in imports},
    )
    for first, piece in pieces:
        for line, problem in module.problems(piece):
            raise DisallowedCode(f"line {first + line}: {problem}")


@dataclass(frozen=True, slots=True)
class _Module:
    """One module: names, attributes and imported modules that mean something in it."""

    vocabulary: Allowlist
    names: frozenset[str]
    attributes: frozenset[str]
    modules: Mapping[str, frozenset[str]]

    def problems(self, piece: PieceMentions) -> Iterator[tuple[int, str]]:
        """Everything wrong with a piece, with its lines."""
        yield from piece.strange
        for name, line in piece.names.items():
            if not _known(name, self.names):
                yield line, f"the name {name}"
        for (owner, name), line in piece.attributes.items():
            if owner not in self.modules and name in self.vocabulary.methods:
                continue  # also a hidden one
            if not _known(name, self.modules.get(owner, self.attributes)):
                yield line, f"the attribute {name}"
        for text, line in piece.imports.items():
            if not _known(text, self.vocabulary.imports):
                yield line, text
        for function in piece.functions:
            yield from ((function.line, problem) for problem in self._function(function))

    def _function(self, function: WrittenFunction) -> Iterator[str]:
        """A variable that goes by the name of a function hides it."""
        hidden = function.hidden - self.vocabulary.callables
        if hidden:
            yield f"{function.name} calls its own variable {', '.join(sorted(hidden))}"
        for decorator in sorted(function.decorators - self.vocabulary.decorators):
            yield f"{function.name} is decorated by {decorator}"


def _known(name: str, known: frozenset[str]) -> bool:
    return name in known and not name.startswith("__")
