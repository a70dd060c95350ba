"""The last check of generated Python: it holds only allowed constructs, or it is not returned.

Names and titles of a diagram end up in the code. If their escaping failed, the result would show as
a construct, a name or a dotted call that no emitter writes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

from xg.diagnostics.lazy_dataclass import dataclass


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set of names."""
    return frozenset(text.split())


NODES: Final = words(
    """
    Module Import ImportFrom alias ClassDef FunctionDef arguments arg Assign AnnAssign AugAssign
    Delete Expr Return Raise If For With Name Constant Attribute Subscript Slice Call keyword
    Starred Tuple List Dict ListComp DictComp comprehension IfExp withitem BoolOp And Or Not
    JoinedStr FormattedValue Compare BinOp UnaryOp USub Add Sub Mult MatMult Div FloorDiv Mod
    Pow LShift RShift BitXor BitOr BitAnd Eq NotEq Gt GtE Lt LtE Is IsNot In NotIn
    """
)
BUILTINS: Final = words(
    """
    range len float int str list tuple dict next iter reversed bool enumerate isinstance max min
    ord round slice staticmethod super zip RuntimeError ValueError
    """
)


_CHECKED: Final = frozenset(
    {ast.Attribute, ast.Call, ast.FunctionDef, ast.Delete, ast.Import, ast.ImportFrom}
)

_LEAVES: Final = frozenset({ast.Name, ast.Constant})
_BINDING: Final = frozenset({ast.arg, ast.FunctionDef, ast.ClassDef, ast.alias})


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


def check_allowed(source: str, vocabulary: Allowlist, attributes: Iterable[str] = ()) -> None:
    """Raise DisallowedCode if a module has a part that is not allowed; `attributes` are its own."""
    tree = ast.parse(source)
    nodes = descendants(tree)
    imports = _imports(nodes)
    module = _Module(
        vocabulary,
        names=frozenset(_bound(nodes)) | BUILTINS,
        attributes=vocabulary.methods.union(attributes, _fields(tree)),
        modules={name: names for name, names in vocabulary.modules.items() if name in imports},
    )
    for node in nodes:
        problem = module.problem(node)
        if problem:
            raise DisallowedCode(f"line {getattr(node, 'lineno', 0)}: {problem}")


@dataclass(frozen=True, slots=True)
class _Module:
    """One module: names, attributes and imported modules that mean something in it."""

    vocabulary: Allowlist
    names: frozenset[str]
    attributes: frozenset[str]
    modules: Mapping[str, frozenset[str]]

    def problem(self, node: ast.AST) -> str | None:
        """The first thing wrong with a node by itself."""
        if type(node).__name__ not in NODES:
            return f"a {type(node).__name__}"
        if isinstance(node, ast.Name):
            return _unknown("the name ", node.id, self.names)
        return self._rarer(node) if type(node) in _CHECKED else None

    def _rarer(self, node: ast.AST) -> str | None:
        match node:
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call(func=ast.Name() | ast.Attribute()):
                return None
            case ast.Call():
                return f"a call of {ast.unparse(node.func)}"
            case ast.FunctionDef():
                return self._function(node)
            case ast.Delete(targets=targets):
                return None if _are_saved(targets) else f"the line {ast.unparse(node)}"
            case _:
                return _unknown("", ast.unparse(node), self.vocabulary.imports)

    def _attribute(self, node: ast.Attribute) -> str | None:
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        if owner not in self.modules and node.attr in self.vocabulary.methods:
            return None  # also a hidden one
        names = self.modules.get(owner, self.attributes)
        return _unknown("the attribute ", node.attr, names)

    def _function(self, node: ast.FunctionDef) -> str | None:
        """A variable that goes by the name of a function hides it."""
        inside = descendants(node)[1:]
        calls = [inner.func for inner in inside if type(inner) is ast.Call]
        called = {func.id for func in calls if type(func) is ast.Name}
        hidden = called.intersection(_bound(inside)) - self.vocabulary.callables
        if hidden:
            return f"{node.name} calls its own variable {', '.join(sorted(hidden))}"
        above = {ast.unparse(decorator) for decorator in node.decorator_list}
        strange = sorted(above - self.vocabulary.decorators)
        return f"{node.name} is decorated by {strange[0]}" if strange else None


def _unknown(what: str, name: str, known: frozenset[str]) -> str | None:
    return None if name in known and not name.startswith("__") else f"{what}{name}"


def _are_saved(targets: list[ast.expr]) -> bool:
    """Whether a ``del`` deletes fields of saved values, the only deletion in generated code."""
    match targets:
        case [ast.Tuple(elts=names)]:
            return _are_fields(names)
        case _:
            return _are_fields(targets)


def _are_fields(names: list[ast.expr]) -> bool:
    return all(isinstance(n, ast.Attribute) and ast.unparse(n.value) == "saved" for n in names)


def _bound(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Every name that nodes bind: variables, arguments, functions, imports."""
    for node in nodes:
        kind = type(node)
        if kind is ast.Name:
            name = cast(ast.Name, node)
            if type(name.ctx) is ast.Store:
                yield name.id
        elif kind in _BINDING:
            yield _binds(node)


def _binds(node: ast.AST) -> str:
    match node:
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.alias(name=name, asname=asname):
            return asname or name
        case _:
            raise AssertionError(node)


def _imports(nodes: Iterable[ast.AST]) -> set[str]:
    """The names under which modules are imported."""
    imports = (node for node in nodes if isinstance(node, ast.Import))
    return {alias.asname or alias.name for node in imports for alias in node.names}


def _fields(tree: ast.Module) -> frozenset[str]:
    """The fields of the module's classes."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return frozenset(name for node in classes for name in _bound(descendants(node)[1:]))


def descendants(root: ast.AST) -> list[ast.AST]:
    """A node and all below it, each before its children: `ast.walk` at a fraction of its time.

    Contexts (load, store, delete) are left out: each is an attribute of the node above it.
    """
    nodes = [root]
    for node in nodes:  # grows while it is walked
        if type(node) in _LEAVES:
            continue
        for name in node._fields:
            child = getattr(node, name, None)
            if type(child) is list:
                parts = cast(list[object], child)
                nodes += [part for part in parts if isinstance(part, ast.AST)]
            elif isinstance(child, ast.AST) and name != "ctx":
                nodes.append(child)
    return nodes
