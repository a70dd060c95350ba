"""Offer the names that can come at a place: the grammar says which kind, the files which names.

A half-typed text has no tree where it is being typed. So the place is known by the parser's state
and by the tokens before it, and the names by the trees around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from xg import ops
from xg.diagnostics.diagnostic import Source, Span
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.frontend.project import Project, usable_names
from xg.ir.graph import LAST_ROUND
from xg.ir.op import Op, attaching, foreign_names, signature
from xg.ir.placement import SCHEDULES
from xg.syntax import ast
from xg.syntax.recovery import Awaited, expectation_at
from xg_editor.declared import (
    Called,
    Declaration,
    Formal,
    Kind,
    ProjectNames,
    called_at,
    declaring_word,
    fence,
    name_after,
    node_before,
    open_bracket,
    paragraphs,
    path_before,
    title_of,
)

# The offers for a place, and their order: names, words of the language, and their snippets.


_SNIPPETS = {  # of words that begin a declaration, as editors expand them
    "block": "block ${1:Name}(${2:X} [${3:B, S, D}]) -> ${4:Y} [${5:$3}] {\n"
    "    param ${6:W [D, D]}\n\n    ${2:X} -> $0 : ${4:Y}\n}",
    "param": "param ${1:W} [${2:D, D}]",
    "example": 'example "${1:Numbers}" of ${2:Block} {\n    given ${3:X} = $4\n'
    "    expect ${5:Y} = $0\n}",
}
_COMMON = (
    *("LN", "S", "ReLU", "GELU", "SiLU", "DO", "R", "T", "C", "BC"),
    *("SM", "Emb", "CE", "mean", "sum", "tanh", "sigmoid", "scale"),
)


@dataclass(frozen=True, slots=True)
class Completion:
    """A name or word to write: what it is, its detail in one line, more about it as Markdown.

    `also` is another spelling that finds it: • by the name matmul; `found_by` is the one that has
    found it. `snippet` is what an editor that has places to fill in writes instead.
    """

    name: str
    kind: Kind | str
    detail: str = ""
    text: str = ""
    also: str = ""
    found_by: str = ""
    snippet: str = ""


def word_of_language(text: str) -> Completion:
    """A word of the language, with what it begins."""
    return Completion(text, "word of the language", snippet=_SNIPPETS.get(text, ""))


def rank_completions(found: Iterable[Completion], typed: str) -> list[Completion]:
    """Return the names in the order to offer them, each once; empty if the word is complete.

    The name that is complete comes first, then those that the word begins, then operators with
    another name that it begins, then the rest. A word that is one of the names and begins no other
    is complete: what would replace it is itself.
    """
    names: dict[str, Completion] = {}
    for each in found:
        names.setdefault(each.name, each)
    own = names.get(typed)
    if own and not own.snippet and not any(_continues(each, typed) for each in names.values()):
        return []
    spelled = (one for each in names.values() for one in _spellings(each, typed))
    return sorted(spelled, key=lambda each: _likeness(each, typed))


def in_order_of_use(operators: Iterable[Completion]) -> list[Completion]:
    """Operators as they are looked for: common ones first, signs last."""
    places = {name: place for place, name in enumerate(_COMMON)}
    last = len(places)

    def place(each: Completion) -> tuple[bool, int]:
        return not each.name.isalnum(), places.get(each.name, last)

    return sorted(operators, key=place)


def _continues(found: Completion, typed: str) -> bool:
    """Return whether a name begins with a word and is longer."""
    return found.name != typed and found.name.lower().startswith(typed.lower())


def _spellings(found: Completion, typed: str) -> Iterator[Completion]:
    """A name, and an operator by another name of it that a word begins: S for softm."""
    low = typed.lower()
    others = foreign_names(found.name, found.also) if found.kind == "operator" and low else ()
    fitting = (name for name in others if name.startswith(low) and name != found.name.lower())
    other = next((name for name in fitting if name), None)
    if other is None or found.name.lower().startswith(low):
        yield found
    if other is not None:
        yield replace(found, found_by=other)


def _likeness(found: Completion, typed: str) -> tuple[bool, ...]:
    """The place of a name among others: what is complete, what the word begins, then the rest."""
    name, other = found.name, found.found_by
    begins = (name.startswith(typed), name.lower().startswith(typed.lower()))
    by_name = (not each or bool(other) for each in begins)
    return bool(other) or typed != name, *by_name, not other


# The names that a place can reach, whatever the grammar wants there.


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
        """Yield the values that are defined above the offset, and the arguments with a shape."""
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
        called_blocks = reachable_blocks(self.names, self.module, called.tree)
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
    """Offer the name that a tree declares."""
    return declared(Declaration(kind, tree.name.name, tree.name.span, tree))


def declared(declaration: Declaration) -> Completion:
    """Offer a declaration by its name."""
    text = "\n\n".join(paragraphs(declaration))
    return Completion(written_name(declaration), declaration.kind, title_of(declaration), text)


def written_name(declaration: Declaration) -> str:
    """Return the name of a declaration as its file writes it."""
    return declaration.span.text if declaration.span else declaration.name


def reachable_blocks(
    names: ProjectNames, module: ast.Module, start: ast.Block
) -> Iterator[ast.Block]:
    """Yield a block and every block that it calls, directly or not, each once."""
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
    place = expectation_at(word.source, word.start)
    if place is None:
        return []
    completer = _Completer(project, place, word.start) if project else None
    known = completer.found() if completer else ()
    words = completer.words() if completer else place.words
    found = rank_completions((*known, *map(word_of_language, words)), word.text)
    if word.source.text.startswith("<", word.end):  # what a snippet would bring is there
        return [replace(each, snippet="") for each in found]
    return found


def called_in(project: Project, place: Span) -> Called | None:
    """The node whose parentheses a place is in, and the argument there."""
    tokens = expectation_at(place.source, place.start)
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
        self.block = named.get(name_after(place.before, self.item, ("BLOCK",)))
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
            "axis": self._bracketed,
            "words": self._words,
            "names": self._importable_names,
        }

    def _by_last_token(self) -> Iterator[Completion]:
        """Yield names by the last token, if the grammar only says that some name follows it."""
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
                yield from (Completion(name, "file") for name in usable_names())
            case "EQUAL" | "CROSS" | "STAR" if self.item and self.item.type == "PLAN":
                yield from self.reach.plans()
            case "COMMA" if self.item and self.item.type == "USE":
                yield from self._importable_names()
            case "RSQB" | "NAME" if self.item and self.item.type == "PLAN":
                yield from map(word_of_language, _BEHIND.get(self.place.before[-1], _MEMORY))
            case _:
                pass

    # ---- values ----------------------------------------------------------------------------------

    def _bracketed(self) -> Iterator[Completion]:
        """Yield sizes or the axes of a node; in the brackets of `grad`, yield values."""
        bracket = open_bracket(self.place.before)
        node = self.place.before[bracket - 1] if bracket else ""
        is_grad = node == "grad" and self.reach.is_operator("grad")
        yield from self.reach.values() if is_grad else self.reach.sizes()

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
            own = name_after(self.place.before, self.item, ("OP",))
            yield from (op for op in self._ops() if op.name != own)
        yield from map(word_of_language, self._starts())
        yield from (named("argument", own) for own in self.own if self.last != "LSQB")
        if self.block and self.last in ("COMMA", "EQUAL"):
            bracket = open_bracket(self.place.before)
            in_call = bracket is not None and self.place.before[bracket].type == "LPAR"
            yield from self.reach.values() if in_call else ()
        yield from self.reach.sizes()

    def _operands(self) -> Iterator[Completion]:
        """The operands, arguments and definitions of an operator that the file defines."""
        name = name_after(self.place.before, self.item, ("OP",))
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
                    yield Completion(written_name(call), "call", detail)
        yield from self._ops()
        known = (_of_language(op) for op in ops.table().values() if not op.derived)
        yield from in_order_of_use(known)

    def _ops(self) -> Iterator[Completion]:
        """Yield the operators that the file defines or takes from another one."""
        for op in self.module.ops:
            yield Completion(op.name.span.text, "operator", op.span.text.split("\n")[0])
        for use in self.module.uses:
            for taken in use.names:
                declaration = self.names.operator(self.module, taken.name)
                if declaration and declaration.kind == "operator":
                    yield declared(declaration)

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
        """Yield what fits as an argument of the node, then the names of its arguments."""
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

    def _importable_names(self) -> Iterator[Completion]:
        """Yield the blocks and operators of the file that a `use` names, if it has been read."""
        for use in self.module.uses:
            file = self.names.project.find(use)
            if file is not None and use.span.start <= self.offset <= use.span.end:
                yield from (Completion(tree.name.span.text, "block") for tree in file.blocks)
                yield from (Completion(tree.name.span.text, "operator") for tree in file.ops)

    def _owner(self) -> ast.Block | None:
        """The block that a plan, an example or a note is of."""
        name = name_after(self.place.before, self.item, ("OF",))
        return self.names.block(self.module, name) if name else self.block

    def _expects(self) -> bool:
        """Return whether a line begins with `expect` and its path continues here."""
        before = [token.type for token in self.place.before]
        path = len(path_before(self.place.before)) * 2
        return before[len(before) - path - 1 :][:1] == ["EXPECT"]

    def _gradients(self) -> Iterator[Completion]:
        """The gradients that a block can expect to be zero, and the calls that have others."""
        inside: ast.Block | None = self.block
        for segment in path_before(self.place.before):
            if inside and not segment.isdigit() and segment != LAST_ROUND:
                inside = self.names.called_block(self.names.inside(inside).calls.get(segment))
        if inside is None:
            return
        known = self.names.inside(inside)
        kinds = ("input", "parameter") if inside is self.block else ("parameter",)
        for declaration in known.values.values():
            if declaration.kind in kinds and _learns(declaration):
                yield Completion(f"d{written_name(declaration)}", "edge", "gradient")
        for call in known.calls.values():
            if self.names.called_block(call) is not None:
                yield Completion(written_name(call), "call")

    def _targets(self) -> Iterator[Completion]:
        """The values and calls that a line of a plan or a claim of a document can be about."""
        inside: ast.Block | None = self.of
        if self.item and self.item.type == "PLAN" and self.last in ("LBRACE", "_NL"):
            yield word_of_language("schedule")
        for segment in path_before(self.place.before):
            if inside is None:
                return
            if not segment.isdigit() and segment != "*":
                inside = self.names.called_block(self.names.inside(inside).calls.get(segment))
        if inside is None:
            return
        known = self.names.inside(inside)
        claims = any(token.type == "EXPECT" for token in self.place.before[-2:])
        yield from map(declared, known.values.values())
        for declaration in known.values.values() if claims else ():
            yield Completion(f"d{written_name(declaration)}", "edge", "gradient")
        for call in known.calls.values():
            if self.names.called_block(call) is not None:
                yield Completion(written_name(call), "call")


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
