"""Payloads: titles and comments that try to get out of every output, names that mean something.

An output with a payload has the structure of the same output with a harmless text. That is shown
by parsing both: no element, no attribute, no statement, no key and no control character is added.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from html.parser import HTMLParser
from random import Random
from xml.etree import ElementTree

from markdown_it import MarkdownIt

from xg.cli import main

FRAGMENTS = (
    *("</title></svg><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "]]>", "-->"),
    *("<!--", "<![CDATA[", "&lt;script&gt;", "&#x41;", "&", "<", ">", "'", "`", "```", "~~~"),
    *("'''", "\\", "\\\\", "\\n", "\\N\\G", "\\u0022", "{0}", "{x!r}", "%s%n", "${x}", "#{x}"),
    *("$(id)", "`id`", ";rm -rf /", "|", "| a | b |", "](javascript:alert(1))", "![x](y)"),
    *(
        "[URL=x]",
        "]; evil [x=y",
        "javascript:alert(1)",
        "\\input{x}",
        "%PDF ) Tj",
        "*/",
        "//",
        "--",
    ),
    *("__import__('os')", "coding: utf-7", "-*- coding: utf-7 -*-", "__proto__", "constructor"),
    *("<?php ?>", "<TABLE>", "<BR/>", "日本語", "🙂", "é", "γ", "x" * 190, " ", "# ", "- ", "1. "),
)
NAMES = (
    *("X", "script", "style", "class", "def", "import", "None", "np", "torch", "self", "γ", "λ"),
    *("constructor", "prototype", "toString", "graph", "node", "edge", "subgraph", "digraph"),
    *("svg", "title", "href", "onload", "print", "exec", "eval", "open", "len", "float", "seed"),
)
TEMPLATE = """\
# {comment}
dim B = 2, D = 3

block Inner "{inner}" (x [B, D]) -> y [B, D] {{
    param W [D, D]
    x -> •<=W -> GELU : y  # {behind}
}}

block {block} "{title}" ({edge} [B, D]) -> Z [B, D], loss [] {{
    {edge} -> Inner : H [B, D] -> S : Z
    Z -> MSE<-{edge} : loss
}}

example "{example}" of {block} {{
    given {edge} = [[1, 2, 3], [4, 5, 6]]
    given Inner.W = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    expect loss = 4 ± 100 "{source}"
    expect loss = 3 ± 100 "{cited}" wrong "{reason}"
}}
"""
SLOTS = ("comment", "inner", "behind", "title", "example", "source", "cited", "reason")
ALIKE = 8  # texts of one output that share their names: their harmless twin is made once


def slots_of(seed: int) -> dict[str, str]:
    """The texts of a seed, one in each slot; names are drawn for some seeds at a time."""
    random = Random(seed)
    texts = {slot: _payload(random) for slot in SLOTS}
    names = Random(seed // (ALIKE * len(COMMANDS)))
    return texts | {"edge": names.choice(NAMES), "block": names.choice(("Net", "numpy", "Math"))}


def _payload(random: Random) -> str:
    return "".join(random.choices(FRAGMENTS, k=random.choice((1, 1, 2, 4))))[:190]


def harmless(slots: Mapping[str, str], but: str = "") -> dict[str, str]:
    """The same names, nothing in the texts `but` one."""
    return {slot: "t" if slot in SLOTS and slot != but else text for slot, text in slots.items()}


# ---- outputs -------------------------------------------------------------------------------------


def output(kind: str, text: str) -> str:
    """The output of the command of a kind for a text."""
    before = sys.stdin, sys.stdout, sys.stderr
    out = io.BytesIO()
    stream = io.TextIOWrapper(out, "utf-8", write_through=True)
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")
    sys.stdout = sys.stderr = stream
    try:
        code = main(COMMANDS[kind])
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
    printed = out.getvalue().decode()
    assert code == 0, f"exit code {code}\n{printed}"
    return printed


COMMANDS: dict[str, list[str]] = {
    "svg": ["build", "-", "-o", "-", "--only", "svg"],
    "tex": ["build", "-", "-o", "-", "--only", "tex"],
    "html": ["show", "-", "--as", "html"],
    "dot": ["show", "-", "--as", "dot"],
    "numpy": ["show", "-", "--as", "numpy", "--whole"],
    "torch": ["show", "-", "--as", "torch", "--whole"],
    "jax": ["show", "-", "--as", "jax", "--whole"],
    "markdown": ["explain", "-"],
    "json": ["cost", "-", "--json"],
    "terminal": ["show", "-", "--as", "cost", "--color", "never"],
    "fmt": ["fmt", "-"],
}


# ---- their structures ----------------------------------------------------------------------------


class _Elements(HTMLParser):
    """Elements with the names of their attributes, and the text of scripts that are no data."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[tuple[str, ...]] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "use":
            assert all(name != "href" or (at or "").startswith("#") for name, at in attrs), attrs
        elif tag in _OF_TYPE:
            self.found[(tag, *(name for name, _ in attrs))] = 1
        else:
            self.found[(tag, *(name for name, _ in attrs))] += 1

    def handle_comment(self, data: str) -> None:
        """A comment ends where its text does: none is written."""
        self.found["comment",] += 1

    def handle_pi(self, data: str) -> None:
        self.found["instruction",] += 1


_HELD = ("textLength", "lengthAdjust")
_OF_TYPE = ("tspan", "text", "i", "b", "sub", "sup")  # as many as a text needs


def _html(text: str) -> object:
    parser = _Elements()
    parser.feed(text)
    return parser.found


def _svg(text: str) -> object:
    tree = ElementTree.fromstring(text)
    # A text of one letter needs no fixed length.
    elements = (
        (part.tag, tuple(name for name in part.attrib if name not in _HELD)) for part in tree.iter()
    )
    return set(elements), len(list(tree.iter("{http://www.w3.org/2000/svg}g")))


def _tex(text: str) -> object:
    """Kinds of commands, those that make letters left out, and drawn elements; braces close."""
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    drawn = [line for line in lines if line.startswith(("\\path", "\\node"))]
    commands: Counter[str] = Counter()
    for line in lines:
        if line in drawn:
            bare = re.sub(r"\\[\\{}]", "", line)
            assert bare.count("{") == bare.count("}"), line
            assert not re.search(r"(?<!\\)[%#&]", line), line
        else:
            commands.update(re.findall(r"\\[a-zA-Z]+", line))
    inside = {word for line in drawn for word in re.findall(r"\\[a-zA-Z]+", line)}
    assert not inside & {"\\input", "\\def", "\\csname", "\\write", "\\end", "\\begin"}
    return commands, len(drawn)


def _python(text: str) -> object:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def _dot(text: str) -> object:
    """Names of attributes, and braces, outside of strings; labels in angle brackets are XML."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', _without_labels(text))
    assert '"' not in bare.replace('""', ""), "a quote is open"
    return Counter(re.findall(r"\b[a-zA-Z]+(?==)|[{}]", bare))


def _without_labels(text: str) -> str:
    """DOT without its labels in angle brackets, each of which is XML."""
    parts: list[str] = []
    end = 0
    for match in re.finditer(r"=<", text):
        if match.start() < end:
            continue
        depth, place = 1, match.end()
        while depth:
            depth += (text[place] == "<") - (text[place] == ">")
            place += 1
        label = text[match.end() : place - 1].replace("&nbsp;", "&#160;")
        ElementTree.fromstring(f"<x>{label}</x>")
        parts.append(text[end : match.start()])
        end = place
    return "=LABEL".join([*parts, text[end:]])


def _markdown(text: str) -> object:
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    inner = [child for token in tokens for child in token.children or ()]
    kinds = Counter(token.type for token in (*tokens, *inner))
    return {kind: number for kind, number in kinds.items() if kind not in _OF_TEXT}


_OF_TEXT = ("text", "softbreak", "text_special")


def _json(text: str) -> object:
    return _shape(json.loads(text))


def _shape(value: object) -> object:
    match value:
        case dict():
            pairs: dict[str, object] = value  # pyright: ignore
            return {key: _shape(part) for key, part in pairs.items()}
        case list():
            parts: list[object] = value  # pyright: ignore
            return [_shape(part) for part in parts]
        case _:
            return type(value).__name__


def _terminal(text: str) -> object:
    odd = {char for char in text if not (char.isprintable() or char == "\n")}
    assert not odd, f"control characters {odd}"
    return text.count("\n")


def _fmt(text: str) -> object:
    return re.sub(r'"[^"\n]*"|#[^\n]*', "", text)


STRUCTURES: dict[str, Callable[[str], object]] = {
    "svg": _svg,
    "tex": _tex,
    "html": _html,
    "dot": _dot,
    "numpy": _python,
    "torch": _python,
    "jax": _python,
    "markdown": _markdown,
    "json": _json,
    "terminal": _terminal,
    "fmt": _fmt,
}


@cache
def _expected(kind: str, text: str) -> object:
    return STRUCTURES[kind](output(kind, text))


def payload_failure(seed: int, kind: str | None = None) -> tuple[str, str]:
    """The text of a seed, and what one of its outputs lets out; empty if all is well.

    The text of a failure has one payload, if one of its own shows it.
    """
    slots = slots_of(seed)
    kind = kind or list(COMMANDS)[seed % len(COMMANDS)]
    text, message = _lets_out(slots, slots, kind)
    if message:
        alone = (_lets_out(harmless(slots, slot), slots, kind) for slot in SLOTS)
        text, message = next((each for each in alone if each[1]), (text, message))
    return text, message


def _lets_out(filled: Mapping[str, str], slots: Mapping[str, str], kind: str) -> tuple[str, str]:
    text = TEMPLATE.format(**filled)
    try:
        structure = STRUCTURES[kind](output(kind, text))
        expected = _expected(kind, TEMPLATE.format(**harmless(slots)))
    except (AssertionError, SyntaxError, ValueError, ElementTree.ParseError) as error:
        return text, f"{kind}: {type(error).__name__} {error}"
    if structure != expected:
        return text, f"{kind}: {_difference(structure, expected)}"
    return text, ""


def _difference(structure: object, expected: object) -> str:
    if isinstance(structure, dict) and isinstance(expected, dict):
        pairs: list[tuple[object, object]] = list(structure.items())  # pyright: ignore
        new = [pair for pair in pairs if pair not in expected.items()]  # pyright: ignore
        return f"new or gone: {new[:6]}"
    return f"{structure!s:.400} instead of {expected!s:.400}"
