"""The meanings of a name, and where the files of a project declare it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, TypeVar

from xg import ops
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span
from xg.frontend.project import Project
from xg.ir.op import Op
from xg.syntax import ast
from xg.syntax.tree import Syntax, walk

Kind = Literal[
    "input", "output", "edge", "parameter", "state", "argument", "definition", "axis", "dim",
    "mesh axis", "option", "word", "operator", "block", "call", "plan", "file",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Declaration:
    """The declaration that a name refers to.

    `tree` is what declares it and `span` its name there; an operator of the language is declared in
    no file. `owner` is the block, operator or node that the name belongs to.
    """

    kind: Kind
    name: str
    span: Span | None = None
    tree: Syntax | None = None
    owner: Syntax | None = None
    op: Op | None = None


class _Named(Protocol):
    @property
    def name(self) -> ast.Name: ...


Named = TypeVar("Named", bound=_Named)


class ProjectNames:
    """The names that a project declares; files that could not be read declare nothing."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._blocks: dict[int, BlockNames] = {}  # the project keeps the blocks alive

    def inside(self, block: ast.Block) -> BlockNames:
        """The names that a block declares."""
        if id(block) not in self._blocks:
            self._blocks[id(block)] = BlockNames(block)
        return self._blocks[id(block)]

    def block(self, module: ast.Module, name: str) -> ast.Block | None:
        """A block that a file declares or takes from another file."""
        declaration = self.operator(module, name)
        return declaration.tree if declaration and isinstance(declaration.tree, ast.Block) else None

    def operator(self, module: ast.Module, name: str) -> Declaration | None:
        """A block or an operator, of a file, of one it uses, or of the language."""
        seen: set[int] = set()
        origin: ast.Module | None = module
        while origin is not None and id(origin) not in seen:
            seen.add(id(origin))
            if block := _last(origin.blocks, name):
                return Declaration("block", name, block.name.span, block)
            if op := _last(origin.ops, name):
                return Declaration("operator", name, op.name.span, op)
            origin = self._used(origin, name)
        op = ops.find(name)
        return Declaration("operator", name, op=op) if op else None

    def module_of(self, tree: Syntax) -> ast.Module | None:
        """The file that a tree is from."""
        source = tree.span.source
        modules = self.project.modules
        return next((module for module in modules if module.span.source is source), None)

    def file(self, use: ast.Use) -> Declaration | None:
        """The file that a `use` names, from its beginning."""
        module = self._load(use)
        if module is None:
            return None
        source = module.span.source
        return Declaration("file", source.name, Span(source, 0, 0), module)

    def size(self, name: str) -> Declaration | None:
        """A dim or a mesh axis of the program; the file that uses another one wins."""
        for module in self.project.modules:
            if dim := _last(module.dims, name):
                return Declaration("dim", name, dim.name.span, dim)
            if mesh := _last(module.meshes, name):
                return Declaration("mesh axis", name, mesh.name.span, mesh)
        return None

    def option(self, name: str) -> Declaration | None:
        """An option of the program."""
        for module in self.project.modules:
            if option := _last(module.options, name):
                return Declaration("option", name, option.name.span, option)
        return None

    def plan(self, name: str) -> Declaration | None:
        """A plan of the program, or a product of plans."""
        for module in self.project.modules:
            if plan := _last(module.plan_decls, name):
                return Declaration("plan", name, plan.name.span, plan)
        return None

    def _used(self, module: ast.Module, name: str) -> ast.Module | None:
        for use in module.uses:
            if any(taken.name == name for taken in use.names):
                return self._load(use)
        return None

    def _load(self, use: ast.Use) -> ast.Module | None:
        return self.project.find(use)


class BlockNames:
    """The names that a block declares: looked for once, asked about for every name in it."""

    def __init__(self, block: ast.Block) -> None:
        self.block = block
        self.labels = tuple(labels(block))
        self.nodes = nodes(block)
        self.values: dict[str, Declaration] = {}
        self.calls: dict[str, Declaration] = {}
        outputs = {port.name.name for port in block.outputs}
        for port in block.data:
            self._add("input", port)
        for param in block.params:
            self._add("parameter", param)
        for state in block.states:
            self._add("state", state)
        for port in self.labels:  # an edge precedes the output it is
            self._add("output" if port.name.name in outputs else "edge", port)
        for port in block.outputs:
            self._add("output", port)
        for node in self.nodes:
            called = node.instance or node.operator
            call = Declaration("call", called.name, called.span, node, block)
            self.calls.setdefault(called.name, call)

    def _add(self, kind: Kind, tree: ast.Port | ast.Param | ast.State) -> None:
        name = tree.name.name
        self.values.setdefault(name, Declaration(kind, name, tree.name.span, tree, self.block))

    def size(self, name: str) -> Declaration | None:
        """A dim that the block declares."""
        dim = _last(self.block.dims, name)
        return Declaration("dim", name, dim.name.span, dim, self.block) if dim else None


def argument_of(owner: ast.Block | ast.OpDef, name: str) -> Declaration | None:
    """The argument right of the semicolon."""
    own = _last(owner.own, name)
    return Declaration("argument", name, own.name.span, own, owner) if own else None


def word_of(owned: Sequence[ast.Own], name: str) -> Declaration | None:
    """A word of one of the options that a call takes."""
    for own in owned:
        for word in own.words:
            if word.name == name:
                return Declaration("word", name, word.span, own)
    return None


def name_in_op(op: ast.OpDef, name: str) -> Declaration | None:
    """An operand, an argument, a definition behind `where`, or an axis of an operator."""
    if port := _last(op.data, name):
        return Declaration("input", name, port.name.span, port, op)
    if own := argument_of(op, name):
        return own
    if binding := _last(op.bindings, name):
        return Declaration("definition", name, binding.name.span, binding, op)
    for shape in (port.shape for port in (*op.data, *op.own)):
        for tree in walk(shape) if shape else ():
            if isinstance(tree, ast.Name) and tree.name == name:
                return Declaration("axis", name, tree.span, shape, op)
    return None


def labels(block: ast.Block) -> Iterator[ast.Port]:
    """Every name that the chains of a block give an edge, in file order."""
    trees = [tree for tree in walk(block) if isinstance(tree, ast.Label)]
    for label in sorted(trees, key=_start):
        yield from label.ports


def nodes(block: ast.Block) -> list[ast.NodeUse]:
    """Every node in the chains of a block, in file order."""
    node_uses = [tree for tree in walk(block) if isinstance(tree, ast.NodeUse)]
    return sorted(node_uses, key=_start)


def _start(tree: Syntax) -> int:
    return tree.span.start


def _last(trees: Sequence[Named], name: str) -> Named | None:
    return next((tree for tree in reversed(trees) if tree.name.name == name), None)
