"""The names that could come at a place: the grammar says of what kind, the files which there are.

A half-typed text has no tree where it is being typed. So the place is known by the parser's state
and by the tokens before it, and the names by the trees around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xg import ops
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Source, Span
from xg.editor.meaning.called import Called, called_at, opened, token_name
from xg.editor.meaning.declared import Declaration, Kind, ProjectNames
from xg.editor.meaning.paragraphs import fence, paragraphs, title_of
from xg.frontend.project import Project, library_names
from xg.ir.op import Op
from xg.ir.plan import SCHEDULES
from xg.ir.signature import signature
from xg.syntax import ast
from xg.syntax.awaited import Awaited, awaited
from xg.syntax.tokens import Token

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
_STARTS = {"PARAM": ("zeros", "ones", "normal", "uniform"), "STATE": ("zeros", "ones")}
_MEMORY = ("again", "keep", "hold", "ring")  # behind a line of a plan
_BEHIND = {"schedule": SCHEDULES}
_ITEMS = {"DIM", "MESH", "OPTION", "OP", "BLOCK", "PLAN", "EXAMPLE", "USE", "EDITION"}


@dataclass(frozen=True, slots=True)
class Completion:
    """A name or word to write: what it is, its detail in one line, more about it as Markdown.

    `also` is another spelling that finds it: • by the name matmul.
    """

    name: str
    kind: Kind | str
    detail: str = ""
    text: str = ""
    also: str = ""


def word_before(source: Source, offset: int) -> Span:
    """The word that is being typed at an offset, as far as it is there."""
    start = offset
    while start and (source.text[start - 1].isalnum() or source.text[start - 1] == "_"):
        start -= 1
    return Span(source, start, offset)


def complete(project: Project | None, word: Span) -> list[Completion]:
    """The names and words that could stand at a span, those that it begins first.

    Args:
        project: the files, as far as they could be read.
        word: from the beginning of the word to the cursor.
    """
    place = awaited(word.source, word.start)
    if place is None:
        return []
    known = _Completer(project, place, word.start).found() if project else ()
    found: dict[str, Completion] = {}
    for each in (*known, *map(_word, place.words)):
        found.setdefault(each.name, each)
    return sorted(found.values(), key=lambda each: _likeness(each, word.text))


def _likeness(found: Completion, typed: str) -> tuple[bool, ...]:
    """The place of a name among others: what is complete, what the word begins, then the rest."""
    name, low = found.name, typed.lower()
    begins = (name.startswith(typed), name.lower().startswith(low), found.also.startswith(low))
    return typed not in (name, found.also), *(not each for each in begins)


def called_in(project: Project, place: Span) -> Called | None:
    """The node whose parentheses a place is in, and the argument there."""
    tokens = awaited(place.source, place.start)
    return _Completer(project, tokens, place.start).callee() if tokens else None


def _word(text: str) -> Completion:
    return Completion(text, "word of the language")


class _Completer:
    """The names for one place."""

    def __init__(self, project: Project, place: Awaited, offset: int) -> None:
        self.names = ProjectNames(project)
        self.module = module = project.main
        self.place = place
        self.offset = offset
        self.last = place.before[-1].type if place.before else ""
        self.item = _item(place.before)
        named = {block.name.name: block for block in module.blocks}
        self.block = named.get(_name_behind(place.before, self.item, ("BLOCK",)))
        self.own = self.block.own if self.block else ()
        self.of = self._owner()

    def found(self) -> Iterator[Completion]:
        """The names that fit; the first of two of one name counts."""
        symbols = self.place.symbols
        if not self.place.fits:
            return
        for symbol, names in self._by_symbol().items():
            if symbol in symbols:
                yield from names()
                return
        yield from self._by_last_token()

    def _by_symbol(self) -> dict[str, Callable[[], Iterator[Completion]]]:
        """The names for each symbol of the grammar; the first that fits decides."""
        return {
            "node": self._nodes,
            "operator": self._nodes,
            "arg": self._arguments,
            "operand": self._values,
            "ports": self._labels,
            "placement": self._targets,
            "marked": self._targets,
            "target": self._targets,
            "segment": self._targets,
            "path": self._expression,
            "axis": self._sizes,
            "words": self._words,
            "names": self._taken,
        }

    def _by_last_token(self) -> Iterator[Completion]:
        """The names behind a word or a sign of which the grammar only says that a name follows."""
        match self.last:
            case "IF":
                yield from self._options()
            case "OVER":
                yield from self._sizes()
            case "OF":
                yield from self._blocks()
            case "NEXT":
                states = self.block.states if self.block else ()
                yield from (_named("state", each) for each in states)
            case "FROM":
                yield from (Completion(name, "file") for name in library_names())
            case "EQUAL" | "CROSS" | "STAR" if self.item and self.item.type == "PLAN":
                yield from self._plans()
            case "COMMA" if self.item and self.item.type == "USE":
                yield from self._taken()
            case "RSQB" | "NAME" if self.item and self.item.type == "PLAN":
                yield from map(_word, _BEHIND.get(self.place.before[-1], _MEMORY))
            case _:
                pass

    # ---- values ----------------------------------------------------------------------------------

    def _values(self) -> Iterator[Completion]:
        """Values that are made above, and operators written in front of what they take."""
        if self.block is None:
            return
        inside = self.names.inside(self.block)
        for declaration in inside.values.values():
            made = declaration.kind in ("input", "parameter", "state")
            span = declaration.span
            if made or (span and span.start < self.offset and declaration.tree in inside.labels):
                yield _declared(declaration)
        shaped = (own for own in self.own if not own.words and own.shape is not None)
        yield from (_named("argument", own) for own in shaped)

    def _expression(self) -> Iterator[Completion]:
        """Sizes, arguments and starts; in a document the values of its block."""
        if self.item and self.item.type == "EXAMPLE" and self.last in ("GIVEN", "EXPECT", "DOT"):
            yield from self._targets()
            return
        if self.item and self.item.type == "OP":
            yield from self._operands()
        yield from map(_word, self._starts())
        yield from (_named("argument", own) for own in self.own if self.last != "LSQB")
        if self.block and self.last in ("COMMA", "EQUAL"):
            bracket = opened(self.place.before)
            in_call = bracket is not None and self.place.before[bracket].type == "LPAR"
            yield from self._values() if in_call else ()
        yield from self._sizes()

    def _operands(self) -> Iterator[Completion]:
        """The operands, arguments and definitions of an operator that the file defines."""
        name = _name_behind(self.place.before, self.item, ("OP",))
        for op in self.module.ops:
            if op.name.name == name:
                kinds: tuple[tuple[Kind, Sequence[ast.Port | ast.Own | ast.Binding]], ...] = (
                    ("input", op.data),
                    ("argument", op.own),
                    ("definition", op.bindings),
                )
                for kind, trees in kinds:
                    yield from (Completion(t.name.span.text, kind, t.span.text) for t in trees)

    def _starts(self) -> Sequence[str]:
        """The words for the start of a parameter or state, or for an argument that has some."""
        if self.last != "EQUAL":
            return ()
        callee = self.callee()
        if callee and callee.active is not None:
            return callee.formals[callee.active].words
        words = [each.type for each in self.place.before if each.type in (*_STARTS, "_NL")]
        return _STARTS.get("".join(words[-1:]), ())

    def _labels(self) -> Iterator[Completion]:
        """The outputs that no chain makes yet."""
        if self.block is None:
            return
        made = {port.name.name for port in self.names.inside(self.block).labels}
        missing = (port for port in self.block.outputs if port.name.name not in made)
        yield from (_named("output", port) for port in missing)

    # ---- nodes -----------------------------------------------------------------------------------

    def _nodes(self) -> Iterator[Completion]:
        """Operators, blocks, options that stand for them, and calls made above."""
        yield from self._options()
        yield from self._blocks()
        if self.block:
            for call in self.names.inside(self.block).calls.values():
                node = call.tree
                above = call.span is not None and call.span.start < self.offset
                if isinstance(node, ast.NodeUse) and node.instance and above:
                    detail = f"the same parameters as {node.operator.span.text}"
                    yield Completion(_spelled(call), "call", detail)
        for op in self.module.ops:
            yield Completion(op.name.span.text, "operator", op.span.text.split("\n")[0])
        for use in self.module.uses:
            for taken in use.names:
                declaration = self.names.operator(self.module, taken.name)
                if declaration and declaration.kind == "operator":
                    yield _declared(declaration)
        yield from (_of_language(op) for op in ops.table().values() if not op.derived)

    def _blocks(self) -> Iterator[Completion]:
        """The blocks of the file and those that it takes, without the one around the place."""
        taken = (name.name for use in self.module.uses for name in use.names)
        for name in (*(block.name.name for block in self.module.blocks), *taken):
            declaration = self.names.operator(self.module, name)
            if declaration and declaration.kind == "block" and declaration.tree is not self.block:
                yield _declared(declaration)

    def _options(self) -> Iterator[Completion]:
        """Options of the block and of the program; in place of a node, those with words for it."""
        yield from (_named("option", own) for own in self.own if own.words)
        for module in self.names.project.modules:
            yield from (_named("option", option) for option in module.options)

    def _words(self) -> Iterator[Completion]:
        """The words of the option in `if norm = pre | …`."""
        before = self.place.before
        guard = next((i for i in range(len(before) - 1, -1, -1) if before[i].type == "IF"), None)
        if guard is None or self.block is None:
            yield from self._nodes() if self.item and self.item.type == "OPTION" else ()
            return
        name = str(before[guard + 1])
        own = next((own for own in self.own if own.name.name == name and own.words), None)
        option = self.names.option(name)
        tree = own or (option.tree if option else None)
        if isinstance(tree, ast.Own | ast.OptionDecl):
            yield from (Completion(word.span.text, "word") for word in tree.words)

    def _arguments(self) -> Iterator[Completion]:
        """Everything that a node takes in parentheses: names, words, values and sizes."""
        callee = self.callee()
        if callee:
            for formal in callee.formals:
                yield from (Completion(word, "word", formal.text) for word in formal.words)
                yield Completion(f"{formal.name}=", "argument", formal.text)
        yield from (_named("argument", own) for own in self.own)
        yield from self._values()
        yield from self._sizes()

    def callee(self) -> Called | None:
        """The node whose arguments are being written."""
        return called_at(self.names, self.module, self.block, self.place.before)

    # ---- names of files --------------------------------------------------------------------------

    def _sizes(self) -> Iterator[Completion]:
        """Dims of the block and of the program; in plans and for collectives the mesh's axes."""
        yield from (_named("dim", dim) for dim in (self.block.dims if self.block else ()))
        for module in self.names.project.modules:
            yield from (_named("dim", dim) for dim in module.dims)
        for module in self.names.project.modules:
            yield from (_named("mesh axis", mesh) for mesh in module.meshes)

    def _plans(self) -> Iterator[Completion]:
        for module in self.names.project.modules:
            yield from (_named("plan", plan) for plan in module.plan_decls)

    def _taken(self) -> Iterator[Completion]:
        """The blocks and operators of the file that a `use` names, if it is read already."""
        for use in self.module.uses:
            file = self.names.project.find(use)
            if file is not None and use.span.start <= self.offset <= use.span.end:
                trees = (*file.blocks, *file.ops)
                yield from (Completion(tree.name.span.text, _kind(tree)) for tree in trees)

    def _owner(self) -> ast.Block | None:
        """The block that a plan, an example or a note is of."""
        name = _name_behind(self.place.before, self.item, ("OF",))
        return self.names.block(self.module, name) if name else self.block

    def _targets(self) -> Iterator[Completion]:
        """The values and calls that a line of a plan or a claim of a document can be about."""
        inside: ast.Block | None = self.of
        if self.item and self.item.type == "PLAN" and self.last in ("LBRACE", "_NL"):
            yield _word("schedule")
        for segment in _path_before(self.place.before):
            if inside is None:
                return
            if not segment.isdigit() and segment != "*":
                call = self.names.inside(inside).calls.get(segment)
                inside = self._called_block(call)
        if inside is None:
            return
        known = self.names.inside(inside)
        claims = any(token.type == "EXPECT" for token in self.place.before[-2:])
        for declaration in known.values.values():
            yield _declared(declaration)
        for declaration in known.values.values() if claims else ():
            yield Completion(f"d{_spelled(declaration)}", "edge", "gradient")
        for call in known.calls.values():
            if self._called_block(call) is not None:
                yield Completion(_spelled(call), "call")

    def _called_block(self, call: Declaration | None) -> ast.Block | None:
        node = call.tree if call else None
        module = self.names.module_of(node) if node else None
        if module is None or not isinstance(node, ast.NodeUse):
            return None
        return self.names.block(module, node.operator.name)


def _named(kind: Kind, tree: Tree) -> Completion:
    return _declared(Declaration(kind, tree.name.name, tree.name.span, tree))


def _declared(declaration: Declaration) -> Completion:
    text = "\n\n".join(paragraphs(declaration))
    return Completion(_spelled(declaration), declaration.kind, title_of(declaration), text)


def _spelled(declaration: Declaration) -> str:
    return declaration.span.text if declaration.span else declaration.name


def _kind(tree: ast.Block | ast.OpDef) -> Kind:
    return "block" if isinstance(tree, ast.Block) else "operator"


def _of_language(op: Op) -> Completion:
    text = "\n\n".join([fence(signature(op)), op.meaning])
    return Completion(op.glyph, "operator", signature(op), text, also=op.name)


def _item(before: Sequence[Token]) -> Token | None:
    """The word of the declaration that a place is in: `dim` in a block counts as the block's."""
    depth, item = 0, None
    for token in before:
        depth += (token.type == "LBRACE") - (token.type == "RBRACE")
        if token.type in _ITEMS and (depth <= 0 or token.type != "DIM"):
            depth, item = 0, token
    return item


def _name_behind(before: Sequence[Token], item: Token | None, kinds: Sequence[str]) -> str:
    """The name behind a word of the declaration around a place."""
    if item is None:
        return ""
    start = next(i for i, token in enumerate(before) if token is item)
    for word, name in zip(before[start:], before[start + 1 :], strict=False):
        if word.type in kinds:
            return token_name(name)
    return ""


def _path_before(before: Sequence[Token]) -> list[str]:
    """The segments of a path that end in a point: `layers.0.` gives layers and 0."""
    segments: list[str] = []
    index = len(before)
    while index >= 2 and before[index - 1].type == "DOT":
        segments.insert(0, token_name(before[index - 2]))
        index -= 2
    return segments
