"""Find the declaration and all references of a name, list declarations, and rename."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from pathlib import Path

from xg import ops
from xg.diagnostics.diagnostic import Source, Span
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.frontend.project import KnownFiles, Place, Reading, read_for_editor
from xg.syntax import ast
from xg.syntax.ast import Syntax, parts, walk
from xg.syntax.spelling import ascii_name
from xg.syntax.tokens import tokenize
from xg_editor.declared import (
    Declaration,
    Kind,
    ProjectNames,
    argument_of,
    call_name,
    labels,
    name_in_op,
    word_of,
)

Trail = tuple[Syntax, ...]  # the innermost tree first, the file last


def trail(module: ast.Module, offset: int) -> Trail:
    """The smallest tree that has the character at `offset`, then all that it is part of.

    Just behind a word is still in the word, as editors see it.

    >>> from xg.diagnostics.diagnostic import Source
    >>> from xg.syntax.parse import parse
    >>> module = parse(Source("f.xg", "dim B, D_h = 4*D"))
    >>> [type(tree).__name__ for tree in trail(module, 15)]
    ['Name', 'Path', 'Operation', 'Arithmetic', 'DimDecl', 'Module']
    """
    inside = smallest(module, offset, 0)
    return inside if named(inside) else smallest(module, offset, 1)


def named(found: Trail) -> bool:
    """Return whether a trail begins with a name or a text, not with the space between."""
    return isinstance(found[0], ast.Name | ast.Text)


def smallest(module: ast.Module, offset: int, behind: int) -> Trail:
    """Find the smallest tree around an offset; 1 as the last argument includes its end."""
    best: Trail = (module,)
    length = len(module.span.source.text) + 1
    for candidate in trails(module):
        span = candidate[0].span
        if span.start <= offset < span.end + behind and span.end - span.start <= length:
            best, length = candidate, span.end - span.start
    return best


def trails(module: ast.Module) -> Iterator[Trail]:
    """Every tree of a file with those around it, each before its parts."""
    waiting: list[Trail] = [(module,)]
    while waiting:
        branch = waiting.pop()
        yield branch
        waiting += [(part, *branch) for part in parts(branch[0])]


# The declaration of the name at a place: the place decides what the name means.


_DECLARING: dict[type[Syntax], Kind] = {
    ast.DimDecl: "dim",
    ast.MeshDecl: "mesh axis",
    ast.OptionDecl: "option",
    ast.OpDef: "operator",
    ast.Block: "block",
    ast.Plan: "plan",
    ast.PlanProduct: "plan",
}


def find(names: ProjectNames, trail: Trail) -> Declaration | None:
    """The declaration of the name that a trail begins with; None if it has none."""
    match trail:
        case (ast.Text(), ast.Use() as use, *_):
            return names.file(use)
        case (ast.Name() as name, *around) if around:
            return _Finder(names, around).name(name)
        case _:
            return None


class _Finder:
    """Looks up one name from its place."""

    def __init__(self, names: ProjectNames, around: Sequence[Syntax]) -> None:
        self.names = names
        self.around = around
        self.module = next(tree for tree in around if isinstance(tree, ast.Module))
        self.block = next((tree for tree in around if isinstance(tree, ast.Block)), None)
        self.op = next((tree for tree in around if isinstance(tree, ast.OpDef)), None)

    def name(self, name: ast.Name) -> Declaration | None:
        """The declaration of a name, by the tree that it is directly part of."""
        match self.around[0]:
            case ast.Path() as path:
                place = next(i for i, segment in enumerate(path.segments) if segment is name)
                return self._path(path, place)
            case ast.NodeUse() as node if name is node.instance:
                return Declaration("call", name.name, name.span, node, self.block)
            case ast.NodeUse() | ast.Call():
                return self._operator(name.name)
            case ast.Guard() as guard:
                word = self._option(guard.option.name, name)
                return self._option(name.name) if name is guard.option else word
            case ast.Argument():
                return self._formal(name.name)
            case ast.Axis() if self._is_variable():
                return self._value(name.name)
            case ast.Axis() | ast.Over():
                return self._size(name.name)
            case ast.Marked() if self.block is not None:
                inside = self.names.inside(self.block)
                return inside.values.get(name.name) or inside.calls.get(name.name)
            case ast.Port() | ast.Param() | ast.State() | ast.Own() | ast.Binding() as tree:
                return self._local_declaration(name, tree)
            case tree:
                return self._of_file(name, tree)

    def _of_file(self, name: ast.Name, tree: Syntax) -> Declaration | None:
        """A name in a declaration of the file, or what is declared there."""
        match tree:
            case ast.Use() as use:
                taken = self.names.operator(self.module, name.name)
                return self.names.file(use) if name is use.origin else taken
            case ast.OptionDecl() as option if name is not option.name:
                return self._word(option, name)
            case ast.Plan() | ast.Example() if name is tree.block:
                return self.names.operator(self.module, name.name)
            case ast.PlanProduct() if name is not tree.name:
                return self.names.plan(name.name)
            case _:
                kind = _DECLARING.get(type(tree))
                return Declaration(kind, name.name, name.span, tree, self.block) if kind else None

    # ---- names that are declared here ------------------------------------------------------------

    def _local_declaration(self, name: ast.Name, tree: Syntax) -> Declaration | None:
        if isinstance(tree, ast.Own) and name is not tree.name:
            return self._word(tree, name)
        if self.op is not None:
            return name_in_op(self.op, name.name)
        if self.block is None:
            return None
        if isinstance(tree, ast.Own):
            return argument_of(self.block, name.name)
        return self.names.inside(self.block).values.get(name.name)

    def _word(self, option: ast.OptionDecl | ast.Own, name: ast.Name) -> Declaration:
        """A word is the block or the operator of that name, if there is one."""
        stands_for = self.names.operator(self.module, name.name)
        return stands_for or Declaration("word", name.name, name.span, option, self.block)

    # ---- nodes -----------------------------------------------------------------------------------

    def _operator(self, name: str) -> Declaration | None:
        """The declaration of a node's name: a call made before, an option, a block, an operator."""
        if self.block is not None:
            call = self.names.inside(self.block).calls.get(name)
            if call and isinstance(call.tree, ast.NodeUse) and call.tree.instance:
                return call
        return self._option(name) or self.names.operator(self.module, name)

    def _option(self, name: str, word: ast.Name | None = None) -> Declaration | None:
        """An option of the block or of the program, or one of its words."""
        own = argument_of(self.block, name) if self.block else None
        listed = isinstance(own.tree, ast.Own) and own.tree.words if own else ()
        option = own if listed else self.names.option(name)
        if word is None or option is None:
            return option
        assert isinstance(option.tree, ast.Own | ast.OptionDecl)
        stands_for = self.names.operator(self.module, word.name)
        if stands_for is not None and stands_for.kind == "block":
            return stands_for
        for other in option.tree.words:
            if other.name == word.name:
                return Declaration("word", word.name, other.span, option.tree, self.block)
        return None

    def _formal(self, name: str) -> Declaration | None:
        """The name in `eps=1e-6`: an argument of the callee, a state's start, or a dim."""
        called = self._callee(self.around[1])
        tree = called.tree if called else None
        if not isinstance(tree, ast.Block | ast.OpDef):
            return self._size(name)
        own = argument_of(tree, name)
        if own is None and isinstance(tree, ast.Block):
            inside = self.names.inside(tree)
            value = inside.values.get(name)
            own = value if value and value.kind == "state" else inside.size(name)
        return own or self._size(name)

    def _callee(self, node: Syntax) -> Declaration | None:
        if not isinstance(node, ast.NodeUse | ast.Call):
            return None
        declaration = self._operator(node.operator.name)
        if declaration and isinstance(declaration.tree, ast.NodeUse):
            return self.names.operator(self.module, declaration.tree.operator.name)
        return declaration

    # ---- paths -----------------------------------------------------------------------------------

    def _path(self, path: ast.Path, position: int) -> Declaration | None:
        """A segment of a path: a dim, a value, a word, or a parameter of a call."""
        above = self.around[1]
        name = path.segments[position].name
        if isinstance(above, ast.Placement | ast.Given | ast.Expect) and path is not _value(above):
            return self._from_outside(path, position)
        if self.op is not None:
            return name_in_op(self.op, name)
        if len(path.segments) > 1:
            return self._in_block(self.block, path, position) if self.block else None
        if self._is_size():
            return self._size(name)
        return self._value(name) or self._argument_word(name) or self._size(name)

    def _is_size(self) -> bool:
        """Return whether the name is a dim: in a shape, after `=`, after `in`, before `×`."""
        inner: Syntax = self.around[0]
        for tree in self.around[1:]:
            match tree:
                case ast.Shape() | ast.DimDecl() | ast.MeshDecl() | ast.Axis():
                    return True
                case ast.Port() | ast.Param() | ast.State() if inner is tree.range:
                    return True
                case ast.NodeUse() if inner is tree.repeat:
                    return True
                case ast.Arithmetic() | ast.Operation() | ast.Power() | ast.Negation():
                    inner = tree
                case _:
                    return False
        return False

    def _is_variable(self) -> bool:
        """Return whether the place is in the brackets of `grad`, which name values."""
        node = next((t for t in self.around if isinstance(t, ast.NodeUse | ast.Call)), None)
        if node is None or node.operator.name != "grad":
            return False
        called = self._operator("grad")
        return called is not None and called.kind == "operator"

    def _size(self, name: str) -> Declaration | None:
        if self.op is not None:
            return name_in_op(self.op, name)
        local = self.names.inside(self.block).size(name) if self.block else None
        return local or self.names.size(name)

    def _value(self, name: str) -> Declaration | None:
        if self.block is None:
            return None
        return self.names.inside(self.block).values.get(name) or argument_of(self.block, name)

    def _argument_word(self, name: str) -> Declaration | None:
        """`causal` in `Attention(causal)`."""
        if not isinstance(self.around[1], ast.Argument):
            return None
        called = self._callee(self.around[2])
        tree = called.tree if called else None
        return word_of(tree.own, name) if isinstance(tree, ast.Block) else None

    def _from_outside(self, path: ast.Path, position: int) -> Declaration | None:
        """A value of the block that a plan or an example is of; `dW` is the gradient of W."""
        owners = (tree for tree in self.around if isinstance(tree, ast.Plan | ast.Example))
        owner = next(owners, None)  # none of a line in the block itself
        block = self.names.block(self.module, owner.block.name) if owner else self.block
        return self._in_block(block, path, position) if block else None

    def _in_block(self, block: ast.Block, path: ast.Path, position: int) -> Declaration | None:
        """A segment of a path through the calls of a block: `layers.3.attn.W_Q`."""
        declaration: Declaration | None = None
        inside: ast.Block | None = block
        for place, segment in enumerate(path.segments[: position + 1]):
            if inside is None:
                return None
            if segment.name.isdigit() or segment.name == "*":
                continue
            known = self.names.inside(inside)
            if place == len(path.segments) - 1:
                gradient = (
                    known.values.get(segment.name[1:]) if segment.name.startswith("d") else None
                )
                called = known.calls.get(segment.name)
                declaration = known.values.get(segment.name) or gradient or called
            else:
                declaration = known.calls.get(segment.name)
                inside = self.names.called_block(declaration)
        return declaration


def _value(tree: Syntax) -> Syntax | None:
    return tree.value if isinstance(tree, ast.Given | ast.Expect) else None


# Every name of a project with what it refers to, for references, renaming and highlights.


# A declaration, the same in every program that has its file: what kind of name it is, and the name
# where all files of a program share it, else its place.
Key = tuple[str, str] | tuple[Path | str, int]

_SHARED: Mapping[Kind, str] = {
    "dim": "size",
    "mesh axis": "size",
    "option": "option",
    "plan": "plan",
}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name in a file; `skip` characters before the name itself, as the `d` of a gradient."""

    name: ast.Name
    declaration: Declaration | None
    key: Key | None
    trail: Trail
    skip: int = 0

    @property
    def span(self) -> Span:
        """The place of the name itself."""
        whole = self.name.span
        return Span(whole.source, whole.start + self.skip, whole.end)


class Occurrences:
    """The names of all files of a program, each file looked through when it is asked for."""

    def __init__(self, reading: Reading, names: ProjectNames) -> None:
        self.reading = reading
        self.names = names
        self._by_file: dict[Source, tuple[Occurrence, ...]] = {}

    def of_file(self, module: ast.Module) -> tuple[Occurrence, ...]:
        """The names of one file, in no order."""
        source = module.span.source
        if source not in self._by_file:
            self._by_file[source] = tuple(self._found(module))
        return self._by_file[source]

    def every(self) -> Iterator[Occurrence]:
        """The names of all files."""
        for module in self.names.project.modules:
            yield from self.of_file(module)

    def at(self, module: ast.Module, offset: int) -> Occurrence | None:
        """The name at an offset, or just before it."""
        touching = [
            each
            for each in self.of_file(module)
            if each.name.span.start <= offset <= each.name.span.end
        ]
        return max(touching, key=lambda each: each.name.span.start, default=None)

    def referring(self, key: Key) -> Iterator[Occurrence]:
        """The names that refer to one declaration, itself included."""
        return (each for each in self.every() if each.key == key)

    def path(self, source: Source) -> Place:
        """The path of a file."""
        return self.reading.sources.get(source)

    def find_names(self, names: Set[str]) -> Iterator[Occurrence]:
        """Yield the occurrences of some names in all files."""
        for module in self.names.project.modules:
            yield from self._found(module, names)

    def _found(self, module: ast.Module, only: Set[str] = frozenset()) -> Iterator[Occurrence]:
        for trail in trails(module):
            name = trail[0]
            if isinstance(name, ast.Name) and (not only or name.name in only):
                declaration = self._meant(find(self.names, trail))
                key = self._key(declaration) if declaration else None
                yield Occurrence(
                    name, declaration, key, trail, _prefix_length(name, declaration, trail)
                )

    def _meant(self, declaration: Declaration | None) -> Declaration | None:
        """Resolve a declaration; a call without its own name has the declaration of its block."""
        if declaration is None or declaration.kind != "call":
            return declaration
        node = declaration.tree
        assert isinstance(node, ast.NodeUse | ast.Call)
        module = self.names.module_of(node)
        if call_name(node) is not node.operator or module is None:
            return declaration
        return find(self.names, (node.operator, node, *_around(declaration), module))

    def _key(self, declaration: Declaration) -> Key:
        if declaration.op is not None:
            return "operator", declaration.name
        if declaration.owner is None and declaration.kind in _SHARED:
            return _SHARED[declaration.kind], declaration.name
        span = declaration.span
        assert span is not None
        return self.path(span.source) or span.source.name, span.start


def _around(call: Declaration) -> Sequence[ast.Block]:
    return (call.owner,) if isinstance(call.owner, ast.Block) else ()


def _prefix_length(name: ast.Name, declaration: Declaration | None, trail: Trail) -> int:
    """Return the length of a gradient's prefix: 1 for `dW` if it refers to `W`, else 0."""
    given = len(trail) > 2 and isinstance(trail[2], ast.Placement | ast.Given | ast.Expect)
    return int(given and declaration is not None and name.name == f"d{declaration.name}")


# The declarations of a file as a nested list: an editor's outline.


@dataclass(frozen=True, slots=True)
class OutlineSymbol:
    """A declaration: its name and its place, the whole of it, and its children."""

    kind: Kind
    name: str
    detail: str
    span: Span
    whole: Span
    inside: tuple[OutlineSymbol, ...] = ()


def outline(module: ast.Module) -> tuple[OutlineSymbol, ...]:
    """Everything that a file declares, in file order."""
    declarations = chain(
        (_symbol("dim", dim) for dim in module.dims),
        (_symbol("mesh axis", mesh) for mesh in module.meshes),
        (_symbol("option", option) for option in module.options),
        (_symbol("operator", op) for op in module.ops),
        (_block(block) for block in module.blocks),
        (_plan_symbol(plan) for plan in module.plan_decls),
    )
    return tuple(sorted(declarations, key=lambda symbol: symbol.span.start))


def _block(block: ast.Block) -> OutlineSymbol:
    inside = sorted(_inside(block), key=lambda symbol: symbol.span.start)
    title = block.title.value if block.title else ""
    return OutlineSymbol(
        "block", block.name.span.text, title, block.name.span, block.span, tuple(inside)
    )


def _inside(block: ast.Block) -> Iterator[OutlineSymbol]:
    yield from (_symbol("input", port) for port in block.data)
    yield from (_symbol("argument", own) for own in block.own)
    yield from (_symbol("dim", dim) for dim in block.dims)
    yield from (_symbol("parameter", param) for param in block.params)
    yield from (_symbol("state", state) for state in block.states)
    yield from (_symbol("edge", port) for port in labels(block))


def _plan_symbol(plan: ast.Plan | ast.PlanProduct) -> OutlineSymbol:
    title = plan.title.value if plan.title else ""
    return OutlineSymbol("plan", plan.name.span.text, title, plan.name.span, plan.span)


def _symbol(
    kind: Kind,
    tree: ast.DimDecl
    | ast.MeshDecl
    | ast.OptionDecl
    | ast.OpDef
    | ast.Port
    | ast.Own
    | ast.Param
    | ast.State,
) -> OutlineSymbol:
    """Describe a declaration; its detail is the text after the name."""
    name = tree.name.span
    detail = "" if isinstance(tree, ast.OpDef) else _text_after(tree.span, name)
    return OutlineSymbol(kind, name.text, detail, name, tree.span)


def _text_after(whole: Span, name: Span) -> str:
    return " ".join(whole.source.text[name.end : whole.end].split())


# A name replaced by another one, everywhere and so that every text means what it did.


Edits = dict[Place, list[Span]]
_FIXED = ("word", "file", "axis")  # words are chosen by `--set` too; axes of a map are as they are


class CannotRename(Exception):
    """The reason why a name stays as it is, for the author."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """The places of a name in every file; the new name replaces each."""

    new: str
    edits: Mapping[Place, Sequence[Span]] = field(default_factory=dict["Place", "list[Span]"])

    def apply(self, place: Place, text: str) -> str:
        """Put the new name into the text of a file."""
        for span in sorted(self.edits.get(place, ()), key=_start, reverse=True):
            text = text[: span.start] + self.new + text[span.end :]
        return text


def places(programs: Iterable[Occurrences], key: Key) -> Edits:
    """Where a declaration is named, in all files of some programs: each place once."""
    found: Edits = {}
    for program in programs:
        for each in program.referring(key):
            place = program.path(each.name.span.source)
            spans = found.setdefault(place, [])
            if each.span.start not in map(_start, spans):
                spans.append(each.span)
    return {place: sorted(spans, key=_start) for place, spans in found.items()}


def renameable(found: Occurrence | None) -> Occurrence:
    """The name at a place, if it can be renamed; raises CannotRename."""
    if found is None or found.declaration is None or found.key is None:
        raise CannotRename("there is no name that a file declares")
    declaration = found.declaration
    if declaration.span is None:
        raise CannotRename(f"{found.name.span.text} is an operator of the language")
    if declaration.kind in _FIXED:
        raise CannotRename(f"{found.name.span.text} is a word that callers choose")
    return found


def rename(
    found: Occurrence, programs: Sequence[Occurrences], new: str, known: KnownFiles
) -> Renaming:
    """The edits that give a declaration a new name; raises CannotRename.

    Args:
        found: a place of the name.
        programs: every program that has a file with the name, each with what it uses.
        new: the name to be, as the author types it.
        known: the files that were read for the programs.
    """
    found = renameable(found)
    assert found.key is not None
    assert found.declaration is not None
    _check_name(new)
    if ascii_name(new) != found.declaration.name:
        _check_free(found, programs, ascii_name(new))
    renaming = Renaming(new, places(programs, found.key))
    concerned = frozenset((*_with_gradient(found.declaration.name), *_with_gradient(new)))
    for program in programs:
        _check_meaning(program, renaming, known, concerned)
    return renaming


def _with_gradient(name: str) -> tuple[str, str]:
    return ascii_name(name), f"d{ascii_name(name)}"


def _check_name(new: str) -> None:
    tokens = tokenize(Source("name", new))
    kinds = [token.type for token in tokens.tokens]
    if tokens.problems or kinds != ["NAME", "$END"] or str(tokens.tokens[0]) != new:
        word = (
            f"{new!r} is a word of the language" if new.isalpha() and kinds[1:] == ["$END"] else ""
        )
        raise CannotRename(word or f"{new!r} is no name: letters, digits and _, a letter first")


# ---- taken names ---------------------------------------------------------------------------------


def _check_free(found: Occurrence, programs: Sequence[Occurrences], new: str) -> None:
    """Refuse a name that is already used where the declaration could be seen."""
    assert found.declaration is not None
    declaration = found.declaration
    if declaration.kind in ("operator", "block", "call", "option") and ops.find(new):
        raise CannotRename(f"{new} is an operator of the language")
    owner = declaration.owner
    for program in programs:
        taken = [name for name in _visible(program, owner) if _collides(new, name, owner)]
        if taken:
            raise CannotRename(f"{new} is taken: {_declaration_note(program, taken)}")


def _collides(new: str, name: ast.Name, owner: object) -> bool:
    """Return whether a new name clashes with a name or, in a block, its gradient or primal."""
    if owner is None:
        return new == name.name
    return new in (name.name, f"d{name.name}", name.name.removeprefix("d"))


def _declaration_note(program: Occurrences, taken: Sequence[ast.Name]) -> str:
    """Say where a name in use is declared, or if that is unknown, where it occurs."""
    names = {id(name) for name in taken}
    declared = [
        each.declaration.span
        for module in program.names.project.modules
        for each in program.of_file(module)
        if id(each.name) in names and each.declaration and each.declaration.span
    ]
    span = min(declared or (name.span for name in taken), key=_start)
    verb = "is declared" if declared else "stands"
    return f"{span.text} {verb} in {span.source.name}, line {span.line}"


def _visible(program: Occurrences, owner: object) -> Iterator[ast.Name]:
    """The names beside which a declaration would stand.

    Of a block: its own, those of the file, and those by which others reach into it. Of a file: all.
    """
    for module in program.names.project.modules:
        if owner is None:
            yield from (each.name for each in program.of_file(module))
            continue
        outside = (
            *(decl.name for decl in (*module.dims, *module.meshes, *module.options)),
            *(decl.name for decl in (*module.ops, *module.blocks)),
        )
        yield from outside
        for tree in (*module.plan_decls, *module.examples):
            yield from (part for part in walk(tree) if isinstance(part, ast.Name))
        for block in (*module.blocks, *module.ops):
            for tree in walk(block):
                if isinstance(tree, ast.Argument) and tree.name is not None:
                    yield tree.name
                elif isinstance(tree, ast.Name) and _is_of(owner, block):
                    yield tree


def _is_of(owner: object, block: ast.Block | ast.OpDef) -> bool:
    return (
        isinstance(owner, ast.Block | ast.OpDef)
        and owner.name.name == block.name.name
        and owner.span.text == block.span.text
    )


# ---- meaning -------------------------------------------------------------------------------------


def _check_meaning(
    program: Occurrences, renaming: Renaming, known: KnownFiles, concerned: frozenset[str]
) -> None:
    """Refuse edits after which one of the names that they concern refers to something else."""
    main = program.names.project.main.span.source
    texts = {
        place: renaming.apply(place, source.text)
        for source, place in program.reading.sources.items()
        if isinstance(place, Path)
    }
    place = program.path(main)
    text = renaming.apply(place, main.text)
    reading = read_for_editor(place, Source(main.name, text), texts, known)
    before = len(program.reading.diagnostics)
    if reading.project is None or len(reading.diagnostics) > before:
        raise CannotRename(f"{main.name} could not be read with the new name")
    after = Occurrences(reading, ProjectNames(reading.project))
    there: dict[Key | None, Key | None] = {}
    back: dict[Key | None, Key | None] = {}
    for old, now in zip(program.find_names(concerned), after.find_names(concerned), strict=True):
        if there.setdefault(old.key, now.key) != now.key or back.setdefault(now.key, old.key) != (
            old.key
        ):
            line = old.name.span.line
            raise CannotRename(f"{old.name.span.text} in line {line} would mean something else")


def _start(span: Span) -> int:
    return span.start
