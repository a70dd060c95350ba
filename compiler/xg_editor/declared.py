"""Find where the files of a project declare a name, and describe it in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from xg import ops
from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass
from xg.frontend.project import Project
from xg.ir.dim import spell_number
from xg.ir.op import Op, signature
from xg.ir.use import Length, MeshAxis, Number, Own, Tensor, Word
from xg.syntax import ast
from xg.syntax.ast import Syntax, walk
from xg.syntax.spelling import GLYPHS, ascii_name, greek_name
from xg.syntax.tokens import Token

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


_Named = (
    ast.Block | ast.OpDef | ast.DimDecl | ast.MeshDecl | ast.OptionDecl | ast.Plan
    | ast.PlanProduct | ast.Own | ast.Port | ast.Binding
)  # fmt: skip


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
            block = _find_declaration("block", origin.blocks, name)
            if found := block or _find_declaration("operator", origin.ops, name):
                return found
            taking = (use for use in origin.uses if any(each.name == name for each in use.names))
            use = next(taking, None)
            origin = self.project.find(use) if use else None
        op = ops.find(name)
        return Declaration("operator", name, op=op) if op else None

    def called_block(self, call: Declaration | None) -> ast.Block | None:
        """Find the block that a call runs."""
        node = call.tree if call else None
        module = self.module_of(node) if node else None
        if module is None or not isinstance(node, ast.NodeUse | ast.Call):
            return None
        return self.block(module, node.operator.name)

    def module_of(self, tree: Syntax) -> ast.Module | None:
        """The file that a tree is from."""
        source = tree.span.source
        modules = self.project.modules
        return next((module for module in modules if module.span.source is source), None)

    def file(self, use: ast.Use) -> Declaration | None:
        """The file that a `use` names, from its beginning."""
        module = self.project.find(use)
        if module is None:
            return None
        source = module.span.source
        return Declaration("file", source.name, Span(source, 0, 0), module)

    def size(self, name: str) -> Declaration | None:
        """A dim or a mesh axis of the program; the file that uses another one wins."""
        for module in self.project.modules:
            dim = _find_declaration("dim", module.dims, name)
            if found := dim or _find_declaration("mesh axis", module.meshes, name):
                return found
        return None

    def option(self, name: str) -> Declaration | None:
        """An option of the program."""
        every = (
            _find_declaration("option", module.options, name) for module in self.project.modules
        )
        return next(filter(None, every), None)

    def plan(self, name: str) -> Declaration | None:
        """A plan of the program, or a product of plans."""
        every = (
            _find_declaration("plan", module.plan_decls, name) for module in self.project.modules
        )
        return next(filter(None, every), None)


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
            called = call_name(node)
            call = Declaration("call", called.name, called.span, node, block)
            self.calls.setdefault(called.name, call)

    def _add(self, kind: Kind, tree: ast.Port | ast.Param | ast.State) -> None:
        name = tree.name.name
        self.values.setdefault(name, Declaration(kind, name, tree.name.span, tree, self.block))

    def size(self, name: str) -> Declaration | None:
        """A dim that the block declares."""
        return _find_declaration("dim", self.block.dims, name, self.block)


def argument_of(owner: ast.Block | ast.OpDef, name: str) -> Declaration | None:
    """The argument right of the semicolon."""
    return _find_declaration("argument", owner.own, name, owner)


def word_of(owned: Sequence[ast.Own], name: str) -> Declaration | None:
    """A word of one of the options that a call takes."""
    for own in owned:
        for word in own.words:
            if word.name == name:
                return Declaration("word", name, word.span, own)
    return None


def name_in_op(op: ast.OpDef, name: str) -> Declaration | None:
    """Find a name of an operator: an operand, an argument, a `where` definition or an axis."""
    named = _find_declaration("input", op.data, name, op) or argument_of(op, name)
    if found := named or _find_declaration("definition", op.bindings, name, op):
        return found
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


def nodes(block: ast.Block) -> list[ast.NodeUse | ast.Call]:
    """List every node in the chains of a block in file order, including nested nodes."""
    trees = (tree for chain in block.chains for tree in walk(chain))
    return sorted((t for t in trees if isinstance(t, ast.NodeUse | ast.Call)), key=_start)


def call_name(node: ast.NodeUse | ast.Call) -> ast.Name:
    """Return the name of a call: its own, or the name of its block if it has no name."""
    own = node.instance if isinstance(node, ast.NodeUse) else None
    return own or node.operator


def _start(tree: Syntax) -> int:
    return tree.span.start


def _find_declaration(
    kind: Kind, trees: Sequence[_Named], name: str, owner: Syntax | None = None
) -> Declaration | None:
    """Find the last tree that declares a name."""
    last = next((tree for tree in reversed(trees) if tree.name.name == name), None)
    return Declaration(kind, name, last.name.span, last, owner) if last else None


# Paragraphs of Markdown about a declaration, shown wherever its name is used.


def paragraphs(what: Declaration) -> Iterator[str]:
    """The paragraphs of a declaration; for a value or a size its place adds more."""
    match what.tree:
        case ast.Block() as block:
            yield from head(block)
        case ast.OptionDecl() | ast.Own() as option if option.words:
            words = " | ".join(word.span.text for word in option.words)
            yield fence(f"{option.name.span.text} = {words}")
            yield f"option; `{option.words[0].span.text}` where nothing is chosen"
        case ast.OpDef() as op if what.kind == "operator":
            yield fence(op.span.text)
            yield "operator of the file; its gradient is derived from the expression"
        case ast.Plan() | ast.PlanProduct() as plan:
            yield from _plan(plan)
        case ast.Module():
            yield f"the file `{what.name}`"
        case Syntax() as tree:
            yield fence(tree.span.text)
            yield f"{what.kind}{of(what.owner)}"
        case None if what.op is not None:
            yield from _operator(what.op)
        case None:
            pass


def title_of(what: Declaration) -> str:
    """A declaration in one line, without its name: the shape of a value, the size of a dim."""
    match what.tree:
        case ast.Block() as block:
            ports = (*block.data, *block.own, *block.outputs)
            text = block.span.source.text
            words = text[block.name.span.end : max((p.span.end for p in ports), default=0)]
        case ast.Plan() | ast.PlanProduct() as plan:
            words = plan.title.value if plan.title else ""
        case ast.NodeUse() | ast.Call() as node:
            words = f"call of {node.operator.span.text}"
        case Syntax() as tree if what.span and tree.span.start <= what.span.end <= tree.span.end:
            words = tree.span.source.text[what.span.end : tree.span.end]
        case _:
            words = ""
    return " ".join(words.split())


def head(block: ast.Block) -> Iterator[str]:
    """The inputs, outputs and parameters of a block."""
    text = block.span.source.text
    ports = (*block.data, *block.own, *block.outputs, block.name)
    yield fence(text[block.span.start : max(tree.span.end for tree in ports)])
    params = (f"`{param.name.span.text} {param.shape.span.text}`" for param in block.params)
    if block.params:
        yield f"parameters: {', '.join(params)}"


def _operator(op: Op) -> Iterator[str]:
    yield f"**{op.glyph}** {op.name}"
    yield fence(signature(op))
    yield op.meaning
    lines = (("formula", op.formula), ("gradient", op.gradient))
    yield "\n".join(f"- {word} `{text}`" for word, text in lines if text)


def _plan(plan: ast.Plan | ast.PlanProduct) -> Iterator[str]:
    if isinstance(plan, ast.Plan):
        yield fence(f"plan {plan.name.span.text} of {plan.block.span.text}")
    else:
        yield fence(plan.span.text)
    if plan.title:
        yield plan.title.value


def numbers(known: Mapping[str, int]) -> Iterator[str]:
    """The lengths that have a number, if there are any."""
    if known:
        lengths = (f"{greek_name(name)} = {value:,}" for name, value in known.items())
        yield f"with {', '.join(lengths)}"


def of(owner: Syntax | None) -> str:
    """Whose a name is."""
    named = isinstance(owner, ast.Block | ast.OpDef)
    return f" of `{owner.name.span.text}`" if named else ""


def fence(text: str) -> str:
    """Code of the language, for an editor to color."""
    return f"```xg\n{text}\n```"


# Describe a place by the text before it: the node being called, its tokens, its declaration.


Takes = Literal["word", "tensor", "number", "size", "mesh axis"]
_OPENS = {"LPAR", "LSQB", "LBRACE"}
_CLOSES = {"RPAR", "RSQB", "RBRACE"}
_TAKES: dict[type[Own], Takes] = {Tensor: "tensor", Number: "number", Length: "size"}


@dataclass(frozen=True, slots=True)
class Formal:
    """One thing that a node takes in parentheses: its name, its text, the words it may be.

    `takes` says of what kind it is; one that `must` be given has no default.
    """

    name: str
    text: str
    words: tuple[str, ...] = ()
    takes: Takes = "number"
    must: bool = False


@dataclass(frozen=True, slots=True)
class Called:
    """A node with an open parenthesis: its signature, and which argument is being written."""

    name: str
    text: str
    formals: tuple[Formal, ...]
    active: int | None


def called_at(
    names: ProjectNames,
    module: ast.Module | None,
    block: ast.Block | None,
    before: Sequence[Token],
) -> Called | None:
    """Find the node whose arguments are being written after some tokens, if there is one."""
    bracket = open_bracket(before)
    if bracket is None or bracket == 0 or before[bracket].type != "LPAR":
        return None
    place = bracket - 1
    if before[place].type == "RSQB":  # the axes of `R[b, s -> s, b](…)`
        place = (open_bracket(before[:place]) or 1) - 1
    name = token_name(before[place])
    found = _formals(names, module, block, name)
    if found is None:
        return None
    text, formals = found
    return Called(name, text, formals, _active(before[bracket + 1 :], formals))


def token_name(token: Token) -> str:
    """The name that a token is, as the language spells it."""
    return GLYPHS.get(token.type) or ascii_name(str(token))


def _formals(
    names: ProjectNames, module: ast.Module | None, block: ast.Block | None, name: str
) -> tuple[str, tuple[Formal, ...]] | None:
    """The signature and the arguments of an operator or a block, or of a call's block."""
    call = names.inside(block).calls.get(name) if block else None
    if call is not None and isinstance(call.tree, ast.NodeUse):
        name = call.tree.operator.name
    declaration = names.operator(module, name) if module else None
    op = ops.find(name) if declaration is None else declaration.op
    if op is not None:
        return f"```xg\n{signature(op)}\n```\n\n{op.meaning}", tuple(map(_of_language, op.own))
    tree = declaration.tree if declaration else None
    if declaration is None or not isinstance(tree, ast.Block | ast.OpDef):
        return None
    return "\n\n".join(paragraphs(declaration)), tuple(map(_of_file, tree.own))


def _of_file(own: ast.Own) -> Formal:
    words = tuple(word.span.text for word in own.words)
    takes: Takes = "word" if words else "tensor" if own.shape else "number"
    must = own.default is None and not words
    return Formal(own.name.span.text, own.span.text, words, takes, must)


def _of_language(own: Own) -> Formal:
    name = greek_name(own.name)
    match own:
        case Word(_, choices):
            return Formal(name, f"{name} = {' | '.join(choices)}", choices, "word")
        case Number(_, float() as default):
            return Formal(name, f"{name} = {spell_number(default)}")
        case MeshAxis():
            return Formal(name, name, takes="mesh axis", must=True)
        case Tensor() | Number() | Length():
            takes = _TAKES[type(own)]
            text = f"{name}?" if own.optional else name
            return Formal(name, text, takes=takes, must=not own.optional)


def open_bracket(before: Sequence[Token]) -> int | None:
    """Find the innermost bracket that is still open after some tokens."""
    depth = 0
    for index in range(len(before) - 1, -1, -1):
        depth += (before[index].type in _CLOSES) - (before[index].type in _OPENS)
        if depth < 0:
            return index
    return None


def _active(inside: Sequence[Token], formals: Sequence[Formal]) -> int | None:
    """The argument that is being written: by its name, or by the commas before it."""
    depth, commas, start = 0, 0, 0
    for index, token in enumerate(inside):
        depth += (token.type in _OPENS) - (token.type in _CLOSES)
        if token.type == "COMMA" and depth == 0:
            commas, start = commas + 1, index + 1
    given = inside[start : start + 2]
    if len(given) == 2 and given[1].type == "EQUAL":
        names = [ascii_name(formal.name) for formal in formals]
        name = ascii_name(str(given[0]))
        return names.index(name) if name in names else None
    return commas if commas < len(formals) else None


# Facts about a place from the tokens before it: the declaration, the node, the path there.


_ITEMS = {"DIM", "MESH", "OPTION", "OP", "BLOCK", "PLAN", "EXAMPLE", "USE", "EDITION"}


def declaring_word(before: Sequence[Token]) -> Token | None:
    """The word of the declaration that a place is in: `dim` in a block counts as the block's."""
    depth, item = 0, None
    for token in before:
        depth += (token.type == "LBRACE") - (token.type == "RBRACE")
        if token.type in _ITEMS and (depth <= 0 or token.type != "DIM"):
            depth, item = 0, token
    return item


def name_after(before: Sequence[Token], item: Token | None, kinds: Sequence[str]) -> str:
    """Return the name after one of these words in the declaration around a place."""
    if item is None:
        return ""
    start = next(i for i, token in enumerate(before) if token is item)
    for word, name in zip(before[start:], before[start + 1 :], strict=False):
        if word.type in kinds:
            return token_name(name)
    return ""


def path_before(before: Sequence[Token]) -> list[str]:
    """The segments of a path that end in a point: `layers.0.` gives layers and 0."""
    segments: list[str] = []
    index = len(before)
    while index >= 2 and before[index - 1].type == "DOT":
        segments.insert(0, token_name(before[index - 2]))
        index -= 2
    return segments


def node_before(before: Sequence[Token]) -> str:
    """Return the operator of the node at the end of some tokens; empty if there is no node."""
    index = len(before) - 1
    while index >= 0 and before[index].type != "ARROW":
        if before[index].type in ("RPAR", "RSQB"):
            index = open_bracket(before[:index]) or 0
        elif before[index].type in ("LPAR", "LSQB", "LBRACE", "COLON"):
            return ""
        index -= 1
    if index < 0:
        return ""
    behind = before[index + 1 :]
    if len(behind) > 2 and behind[1].type in ("CROSS", "STAR"):  # `N × Layer`
        behind = behind[2:]
    is_name = bool(behind) and (behind[0].type == "NAME" or behind[0].type in GLYPHS)
    return token_name(behind[0]) if is_name else ""
