"""Describe a place by the text before it: the node being called, its tokens, its declaration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from xg import ops
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.op import signature
from xg.ir.scalar import spell_number
from xg.ir.use import Length, MeshAxis, Number, Own, Tensor, Word
from xg.syntax import ast
from xg.syntax.spelling import GLYPHS, ascii_name, greek_name
from xg.syntax.tokens import Token
from xg_editor.meaning.declared import ProjectNames, paragraphs

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
    """The node whose arguments are being written behind some tokens; None outside of any."""
    bracket = opened(before)
    if bracket is None or bracket == 0 or before[bracket].type != "LPAR":
        return None
    place = bracket - 1
    if before[place].type == "RSQB":  # the axes of `R[b, s -> s, b](…)`
        place = (opened(before[:place]) or 1) - 1
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


def opened(before: Sequence[Token]) -> int | None:
    """Where the innermost bracket is that is open at the end of some tokens."""
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


def name_behind(before: Sequence[Token], item: Token | None, kinds: Sequence[str]) -> str:
    """The name behind a word of the declaration around a place."""
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
    """The operator of the node that ends or goes on at a place; nothing where there is none."""
    index = len(before) - 1
    while index >= 0 and before[index].type != "ARROW":
        if before[index].type in ("RPAR", "RSQB"):
            index = opened(before[:index]) or 0
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
