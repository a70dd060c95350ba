"""The names that could come at a place: the grammar says of what kind, the files which there are.

A half-typed text has no tree where it is being typed. So the place is known by the parser's state
and by the tokens before it, and the names by the trees around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xg import ops
from xg.diagnostics.lazy_dataclass import replace
from xg.diagnostics.source import Source, Span
from xg.frontend.project import Project, library_names
from xg.ir.graph import LAST_ROUND
from xg.ir.op import Op, attaching, signature
from xg.ir.plan import SCHEDULES
from xg.syntax import ast
from xg.syntax.recovery import Awaited, awaited
from xg_editor.meaning.called import Called, Formal, called_at, opened
from xg_editor.meaning.completion import (
    Completion,
    in_order_of_use,
    ranked,
    word_of_language,
)
from xg_editor.meaning.declared import Declaration, Kind, ProjectNames
from xg_editor.meaning.in_reach import InReach, declared, named, spelled
from xg_editor.meaning.paragraphs import fence
from xg_editor.meaning.tokens_before import declaring_word, name_behind, node_before, path_before

_STARTS = {"PARAM": ("zeros", "ones", "normal", "uniform"), "STATE": ("zeros", "ones")}
_MEMORY = ("again", "keep", "hold", "ring", "zigzag", "pad")  # behind a line of a plan
_BEHIND = {"schedule": SCHEDULES}


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
    completer = _Completer(project, place, word.start) if project else None
    known = completer.found() if completer else ()
    words = completer.words() if completer else place.words
    found = ranked((*known, *map(word_of_language, words)), word.text)
    if word.source.text.startswith("<", word.end):  # what a snippet would bring is there
        return [replace(each, snippet="") for each in found]
    return found


def called_in(project: Project, place: Span) -> Called | None:
    """The node whose parentheses a place is in, and the argument there."""
    tokens = awaited(place.source, place.start)
    return _Completer(project, tokens, place.start).callee() if tokens else None


class _Completer:
    """The names for one place."""

    def __init__(self, project: Project, place: Awaited, offset: int) -> None:
        self.names = ProjectNames(project)
        self.module = module = project.main
        self.place = place
        self.offset = offset
        self.last = place.before[-1].type if place.before else ""
        self.item = declaring_word(place.before)
        named = {block.name.name: block for block in module.blocks}
        self.block = named.get(name_behind(place.before, self.item, ("BLOCK",)))
        self.own = self.block.own if self.block else ()
        self.reach = InReach(self.names, self.block, offset)
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

    def words(self) -> Iterator[str]:
        """The words of the language that fit and mean something there.

        An operator has no name of its own and runs over no axis, and `if` asks for an option.
        """
        node = node_before(self.place.before)
        for word in self.place.words:
            if node and word in ("as", "over") and self.reach.is_operator(node):
                continue
            if node and word == "if" and not any(self.reach.options()):
                continue
            yield word

    def _by_symbol(self) -> dict[str, Callable[[], Iterator[Completion]]]:
        """The names for each symbol of the grammar; the first that fits decides."""
        return {
            "node": self._nodes,
            "operator": self._nodes,
            "arg": self._arguments,
            "operand": self.reach.values,
            "ports": self._labels,
            "placement": self._targets,
            "marked": self._targets,
            "target": self._targets,
            "segment": self._targets,
            "path": self._expression,
            "axis": self.reach.sizes,
            "words": self._words,
            "names": self._taken,
        }

    def _by_last_token(self) -> Iterator[Completion]:
        """The names behind a word or a sign of which the grammar only says that a name follows."""
        match self.last:
            case "IF":
                yield from self.reach.options()
            case "OVER":
                yield from self.reach.sizes()
            case "OF":
                yield from self.reach.blocks()
            case "NEXT":
                states = self.block.states if self.block else ()
                yield from (named("state", each) for each in states)
            case "FROM":
                yield from (Completion(name, "file") for name in library_names())
            case "EQUAL" | "CROSS" | "STAR" if self.item and self.item.type == "PLAN":
                yield from self.reach.plans()
            case "COMMA" if self.item and self.item.type == "USE":
                yield from self._taken()
            case "RSQB" | "NAME" if self.item and self.item.type == "PLAN":
                yield from map(word_of_language, _BEHIND.get(self.place.before[-1], _MEMORY))
            case _:
                pass

    # ---- values ----------------------------------------------------------------------------------

    def _expression(self) -> Iterator[Completion]:
        """Sizes, arguments and starts; in a document the values of its block."""
        if self.item and self.item.type == "EXAMPLE" and self.last in ("GIVEN", "EXPECT", "DOT"):
            yield from self._targets()
            return
        if self.item and self.item.type == "BLOCK" and self._expects():
            yield from self._gradients()
            return
        if self.item and self.item.type == "OP":
            yield from self._operands()
        yield from map(word_of_language, self._starts())
        yield from (named("argument", own) for own in self.own if self.last != "LSQB")
        if self.block and self.last in ("COMMA", "EQUAL"):
            bracket = opened(self.place.before)
            in_call = bracket is not None and self.place.before[bracket].type == "LPAR"
            yield from self.reach.values() if in_call else ()
        yield from self.reach.sizes()

    def _operands(self) -> Iterator[Completion]:
        """The operands, arguments and definitions of an operator that the file defines."""
        name = name_behind(self.place.before, self.item, ("OP",))
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
        yield from (named("output", port) for port in missing)

    # ---- nodes -----------------------------------------------------------------------------------

    def _nodes(self) -> Iterator[Completion]:
        """Operators, blocks, options that stand for them, and calls made above."""
        yield from self.reach.options()
        yield from self.reach.blocks()
        if self.block:
            for call in self.names.inside(self.block).calls.values():
                node = call.tree
                above = call.span is not None and call.span.start < self.offset
                if isinstance(node, ast.NodeUse) and node.instance and above:
                    detail = f"the same parameters as {node.operator.span.text}"
                    yield Completion(spelled(call), "call", detail)
        for op in self.module.ops:
            yield Completion(op.name.span.text, "operator", op.span.text.split("\n")[0])
        for use in self.module.uses:
            for taken in use.names:
                declaration = self.names.operator(self.module, taken.name)
                if declaration and declaration.kind == "operator":
                    yield declared(declaration)
        known = (_of_language(op) for op in ops.table().values() if not op.derived)
        yield from in_order_of_use(known)

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
        """The names that a node takes in parentheses, and those of its arguments."""
        callee = self.callee()
        if callee is None:  # a function, or a node that is not known: anything
            yield from (named("argument", own) for own in self.own)
            yield from self.reach.values()
            yield from self.reach.sizes()
            return
        active = callee.formals[callee.active] if callee.active is not None else None
        if active is not None:
            yield from self._taken_by(active)
        for formal in callee.formals:
            if active is None or not active.must:  # a word needs no place of its own
                yield from (Completion(word, "word", formal.text) for word in formal.words)
            yield Completion(f"{formal.name}=", "argument", formal.text)

    def _taken_by(self, formal: Formal) -> Iterator[Completion]:
        """The names that an argument takes: parameters for a tensor, numbers and sizes."""
        match formal.takes:
            case "word":
                yield from (Completion(word, "word", formal.text) for word in formal.words)
                same = (own for own in self.own if {w.span.text for w in own.words})
                yield from (named("argument", own) for own in same)
            case "tensor":
                yield from (named("argument", own) for own in self.own if own.shape is not None)
                yield from (v for v in self.reach.values() if v.kind == "parameter")
            case "mesh axis":
                yield from (each for each in self.reach.sizes() if each.kind == "mesh axis")
            case "number" | "size":
                plain = (own for own in self.own if own.shape is None and not own.words)
                yield from (named("argument", own) for own in plain)
                yield from (each for each in self.reach.sizes() if each.kind == "dim")

    def callee(self) -> Called | None:
        """The node whose arguments are being written."""
        return called_at(self.names, self.module, self.block, self.place.before)

    # ---- names of files --------------------------------------------------------------------------

    def _taken(self) -> Iterator[Completion]:
        """The blocks and operators of the file that a `use` names, if it is read already."""
        for use in self.module.uses:
            file = self.names.project.find(use)
            if file is not None and use.span.start <= self.offset <= use.span.end:
                yield from (Completion(tree.name.span.text, "block") for tree in file.blocks)
                yield from (Completion(tree.name.span.text, "operator") for tree in file.ops)

    def _owner(self) -> ast.Block | None:
        """The block that a plan, an example or a note is of."""
        name = name_behind(self.place.before, self.item, ("OF",))
        return self.names.block(self.module, name) if name else self.block

    def _expects(self) -> bool:
        """Whether a line of a block begins with `expect` and its path goes on here."""
        before = [token.type for token in self.place.before]
        path = len(path_before(self.place.before)) * 2
        return before[len(before) - path - 1 :][:1] == ["EXPECT"]

    def _gradients(self) -> Iterator[Completion]:
        """The gradients that a block can expect to be zero, and the calls that have others."""
        inside: ast.Block | None = self.block
        for segment in path_before(self.place.before):
            if inside and not segment.isdigit() and segment != LAST_ROUND:
                inside = self.names.called(self.names.inside(inside).calls.get(segment))
        if inside is None:
            return
        known = self.names.inside(inside)
        kinds = ("input", "parameter") if inside is self.block else ("parameter",)
        for declaration in known.values.values():
            if declaration.kind in kinds and _learns(declaration):
                yield Completion(f"d{spelled(declaration)}", "edge", "gradient")
        for call in known.calls.values():
            if self.names.called(call) is not None:
                yield Completion(spelled(call), "call")

    def _targets(self) -> Iterator[Completion]:
        """The values and calls that a line of a plan or a claim of a document can be about."""
        inside: ast.Block | None = self.of
        if self.item and self.item.type == "PLAN" and self.last in ("LBRACE", "_NL"):
            yield word_of_language("schedule")
        for segment in path_before(self.place.before):
            if inside is None:
                return
            if not segment.isdigit() and segment != "*":
                inside = self.names.called(self.names.inside(inside).calls.get(segment))
        if inside is None:
            return
        known = self.names.inside(inside)
        claims = any(token.type == "EXPECT" for token in self.place.before[-2:])
        yield from map(declared, known.values.values())
        for declaration in known.values.values() if claims else ():
            yield Completion(f"d{spelled(declaration)}", "edge", "gradient")
        for call in known.calls.values():
            if self.names.called(call) is not None:
                yield Completion(spelled(call), "call")


def _learns(declaration: Declaration) -> bool:
    """Whether a value is an input or a parameter that has a gradient."""
    tree = declaration.tree
    return isinstance(tree, ast.Port | ast.Param) and tree.range is None and tree.frozen is None


def _of_language(op: Op) -> Completion:
    text = "\n\n".join([fence(signature(op)), op.meaning])
    return Completion(op.glyph, "operator", signature(op), text, op.name, "", _with_arrow(op))


def _with_arrow(op: Op) -> str:
    """A sign with the arrow that brings its second operand: it does nothing without one."""
    if op.glyph.isalnum() or op.variadic or len(op.data) < 2 or op.data[1].optional:
        return ""
    return op.glyph + attaching(op)
