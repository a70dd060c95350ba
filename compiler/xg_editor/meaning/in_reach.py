"""The names that a place can reach, whatever the grammar wants there."""

from __future__ import annotations

from collections.abc import Iterator

from xg.syntax import ast
from xg_editor.meaning.completion import Completion
from xg_editor.meaning.declared import Declaration, Kind, ProjectNames
from xg_editor.meaning.paragraphs import paragraphs, title_of

Tree = (
    ast.Own
    | ast.Port
    | ast.State
    | ast.DimDecl
    | ast.MeshDecl
    | ast.OptionDecl
    | ast.Plan
    | ast.PlanProduct
)


class InReach:
    """The names that the block around an offset, its file and those it uses have for it."""

    def __init__(self, names: ProjectNames, block: ast.Block | None, offset: int) -> None:
        self.names = names
        self.module = names.project.main
        self.block = block
        self.own = block.own if block else ()
        self.offset = offset

    def values(self) -> Iterator[Completion]:
        """Values that are made above, and operators written in front of what they take."""
        if self.block is None:
            return
        inside = self.names.inside(self.block)
        for declaration in inside.values.values():
            made = declaration.kind in ("input", "parameter", "state")
            span = declaration.span
            if made or (span and span.start < self.offset and declaration.tree in inside.labels):
                yield declared(declaration)
        shaped = (own for own in self.own if not own.words and own.shape is not None)
        yield from (named("argument", own) for own in shaped)

    def blocks(self) -> Iterator[Completion]:
        """The blocks of the file and those that it takes, without the one around the place."""
        taken = (name.name for use in self.module.uses for name in use.names)
        for name in (*(block.name.name for block in self.module.blocks), *taken):
            declaration = self.names.operator(self.module, name)
            if declaration and declaration.kind == "block" and not self._is_ring(declaration):
                yield declared(declaration)

    def _is_ring(self, called: Declaration) -> bool:
        """Whether a block is the one around the place, or calls it."""
        if self.block is None or not isinstance(called.tree, ast.Block):
            return False
        called_blocks = reached(self.names, self.module, called.tree)
        return any(block.name.name == self.block.name.name for block in called_blocks)

    def options(self) -> Iterator[Completion]:
        """Options of the block and of the program; in place of a node, those with words for it."""
        yield from (named("option", own) for own in self.own if own.words)
        for module in self.names.project.modules:
            yield from (named("option", option) for option in module.options)

    def sizes(self) -> Iterator[Completion]:
        """Dims of the block and of the program; in plans and for collectives the mesh's axes."""
        yield from (named("dim", dim) for dim in (self.block.dims if self.block else ()))
        for module in self.names.project.modules:
            yield from (named("dim", dim) for dim in module.dims)
        for module in self.names.project.modules:
            yield from (named("mesh axis", mesh) for mesh in module.meshes)

    def plans(self) -> Iterator[Completion]:
        """Plans and products of plans of the program."""
        for module in self.names.project.modules:
            yield from (named("plan", plan) for plan in module.plan_decls)

    def is_operator(self, name: str) -> bool:
        """Whether the name of a node is an operator, not a block, a call or an option."""
        calls = self.names.inside(self.block).calls if self.block else {}
        call = calls.get(name)
        named = call is not None and isinstance(call.tree, ast.NodeUse) and call.tree.instance
        if named or self.names.option(name) or any(own.name.name == name for own in self.own):
            return False
        declaration = self.names.operator(self.module, name)
        return declaration is not None and declaration.kind == "operator"


def named(kind: Kind, tree: Tree) -> Completion:
    """The name that a tree declares."""
    return declared(Declaration(kind, tree.name.name, tree.name.span, tree))


def declared(declaration: Declaration) -> Completion:
    """A declaration by its name."""
    text = "\n\n".join(paragraphs(declaration))
    return Completion(spelled(declaration), declaration.kind, title_of(declaration), text)


def spelled(declaration: Declaration) -> str:
    """The name of a declaration as its file writes it."""
    return declaration.span.text if declaration.span else declaration.name


def reached(names: ProjectNames, module: ast.Module, start: ast.Block) -> Iterator[ast.Block]:
    """A block and all that it calls, each once."""
    waiting, seen = [(module, start)], set[int]()
    while waiting:
        place, block = waiting.pop()
        if id(block) in seen:
            continue
        seen.add(id(block))
        yield block
        home = names.module_of(block) or place
        for node in names.inside(block).nodes:
            for name in _words(names, block, node.operator.name):
                called = names.block(home, name)
                if called is not None:
                    waiting.append((home, called))


def _words(names: ProjectNames, block: ast.Block, name: str) -> Iterator[str]:
    """The names that a node may stand for: its own, or the words of an option."""
    own = next((own for own in block.own if own.name.name == name and own.words), None)
    option = names.option(name)
    tree = own or (option.tree if option else None)
    if isinstance(tree, ast.Own | ast.OptionDecl):
        yield from (word.name for word in tree.words)
    else:
        yield name
