"""Texts that no one would write: programs with tokens or bytes changed, and bombs.

Whatever a text is, reading it ends soon, with diagnostics or with a program that compiles; the
language server says what `xg check` says, and `xg fmt` keeps the meaning.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from random import Random

from fuzz.limit import TooSlow, cpu_limit
from fuzz.plans import with_plan
from fuzz.program import generate
from fuzz.shrink_text import shrink_text

from xg.codegen.backend import backends
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, Source, render
from xg.driver import compile_project
from xg.frontend.choices import CheckMemory, check_choices
from xg.frontend.project import KnownFiles, Project, parse_project
from xg.syntax.format import format
from xg.syntax.parse import parse
from xg_editor.complete import complete, word_before
from xg_editor.explain import explain, hints
from xg_editor.navigation import outline
from xg_editor.session import ReadText, analyze, read_text, type_text
from xg_grammar import literals

ROOT = Path(__file__).parents[1]
SECONDS = 15.0  # of CPU for one text, with all that an editor asks about it
LINES = 30  # of a text that is changed: what is long only takes longer
PROGRAMS = 200  # of the random ones are changed
UNSAVED = "untitled"  # an editor's name of a text without a file
LAID_OUT = 0.5  # of those that can be read are laid out
OPEN = "XG0501"  # the code of a size that nothing numbers
ASKED = 0.35  # of the texts an editor asks about a place
_TOKEN = re.compile(r'"[^"\n]*"|[^\W\d]\w*|\d+(?:\.\d+)?|->|<-|<=|\s+|.', re.DOTALL)
_ODD = (
    *("0", "1", "2^31", "99999999999999999999", "1/0", "-1", "0.1", "1e309", "sqrt(0-1)", "7"),
    *('"', '""', '"\\', "#", "\t", "\r", "\n\n", "\\", "$", "'", ";", "..", "{", "}", "[", "]"),
    *("γ", "Ω", "é", "日本", "\u202e", "\ufeff", "\0", "🙂", "_", "__class__", "None", "x" * 300),
)
_BOMBS: tuple[Callable[[str, int], str], ...] = (
    lambda text, n: text.replace("[", "[" + "(" * n, 1),
    lambda text, n: re.sub(r"(\w+ = \d+)", lambda m: m[0] + "^" + str(n), text, count=1),
    lambda text, n: text.replace(" -> ", " -> ReLU" * n + " -> ", 2),
    lambda text, n: text + "".join(f"\noption o{i} = a | b" for i in range(n)),
    lambda text, n: text.replace("]", ", 2" * n + "]", 1),
    lambda text, n: text.replace("[", "[" + "9" * n + "*", 1),
    lambda text, n: text * n,
    lambda text, n: text.replace("{\n", "{\n" + "    # comment\n" * n, 1),
    lambda text, n: re.sub(r"block (\w+)", lambda m: f"block {m[1]}{'x' * n}", text),
    lambda text, n: text.replace(" -> ", f" -> {n} × ", 2),
)


@cache
def _shipped() -> Sequence[str]:
    folders = (ROOT.parent / "diagrams", ROOT / "programs", ROOT / "frontend" / "errors")
    files = sorted(file for folder in folders for file in folder.rglob("*.xg"))
    texts = [file.read_text(encoding="utf-8") for file in files]
    return [text for text in texts if text.count("\n") <= LINES and "use " not in text]


@cache
def _program(seed: int, *, planned: bool) -> str:
    """The first program from a seed on that is not long."""
    sketch = next(each for each in map(generate, count(seed)) if str(each).count("\n") <= LINES)
    return with_plan(sketch, seed) if planned else str(sketch)


def text_of(seed: int) -> bytes:
    """The text of a seed."""
    random = Random(seed)
    if random.random() < 0.5:
        base = random.choice(_shipped())
    else:
        base = _program(random.randrange(PROGRAMS), planned=random.random() < 0.4)
    draw = random.random()
    if draw < 0.7:
        return _by_token(base, random).encode("utf-8", "surrogatepass")
    if draw < 0.93:
        return _by_byte(base.encode(), random)
    return random.choice(_BOMBS)(base, random.choice((3, 20, 70, 300))).encode()


def _by_token(text: str, random: Random) -> str:
    tokens = _TOKEN.findall(text)
    words = [token for token in tokens if not token.isspace()]
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        place = random.randrange(len(tokens))
        while tokens[place].isspace() and random.random() < 0.9:
            place = random.randrange(len(tokens))
        match random.randrange(6):
            case 0:
                tokens[place] = ""
            case 1:
                tokens[place] = random.choice(words)
            case 2:
                tokens[place] = random.choice((*_ODD, *literals()))
            case 3:
                tokens[place] += " " + random.choice((*words, *literals()))
            case 4:
                other = random.randrange(len(tokens))
                tokens[place], tokens[other] = tokens[other], tokens[place]
            case _:
                end = min(len(tokens), place + random.randint(2, 12))
                tokens[place:end] = tokens[place:end] * random.choice((0, 2))
                if not tokens:
                    return ""
    return "".join(tokens)


def _by_byte(data: bytes, random: Random) -> bytes:
    mutable = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5, 40))):
        place = random.randrange(len(mutable)) if mutable else 0
        match random.randrange(4):
            case 0 if mutable:
                mutable[place] ^= 1 << random.randrange(8)
            case 1:
                mutable[place:place] = bytes([random.randrange(256)])
            case 2:
                del mutable[place : place + random.randint(1, 8)]
            case _:
                if random.random() < 0.1:
                    del mutable[place:]
    return bytes(mutable)


# ---- what holds for every text -----------------------------------------------------------------


def text_failure(data: bytes, seed: int = 0) -> tuple[str, str]:
    """The kind of failure that a text shows, and its message; both empty if all is well."""
    try:
        with cpu_limit(SECONDS):
            _examine(data, Random(seed))
    except TooSlow as slow:
        return "slow", str(slow)
    except AssertionError as failure:
        return f"assert {str(failure).splitlines()[0][:40]}", str(failure)
    except Exception as error:  # whatever a wrong compiler does
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} {Path(frame.filename).name}:{frame.name}"
        return where, "".join(traceback.format_exception(error))
    return "", ""


def _examine(data: bytes, random: Random) -> None:
    project: Project | None = None
    known = KnownFiles()  # the server is given what was read: reading is most of the time
    try:
        project = parse_project(data, UNSAVED, known)
        found = check_choices(project)
    except DiagnosticError as error:
        found = error.diagnostics
    _printable(found)
    if project is not None:
        if random.random() < LAID_OUT:
            _keeps_layout(project.main.span.source)
        if not any(each.severity == "error" for each in found):
            _compiles(project, random, open_={each.code for each in found} >= {OPEN})
    _edited(data, found, known, random)


def _printable(found: Sequence[Diagnostic]) -> None:
    text = render(found, color=False)
    assert "Token(" not in text, f"Lark's words\n{text}"
    assert "object at 0x" not in text, f"Python's words\n{text}"
    odd = [char for char in text if not (char.isprintable() or char == "\n")]
    assert not odd, f"control characters {odd}"
    assert all(re.fullmatch(r"XG\d{4}", each.code) for each in found), "codes"
    assert all(each.message for each in found), "messages"


def _keeps_layout(source: Source) -> None:
    once = Source("case.xg", format(source))
    assert parse(once) == parse(source), f"fmt makes another tree\n{once.text}"
    assert format(once) == once.text, f"fmt is not idempotent\n{once.text}"


def _compiles(project: Project, random: Random, *, open_: bool) -> None:
    """A project that `xg check` accepts compiles in any backend, and has figures.

    Where it warns of an `open_` size it does not compile, and for this reason alone.
    """
    if not project.main.blocks:
        return
    try:
        program = compile_project(project)
    except DiagnosticError as error:
        raise AssertionError(f"checked, but does not compile: {error}") from error
    name, backend = random.choice(list(backends().items()))
    if backend.writes(program.graphs):
        try:
            program.source(name)
        except DiagnosticError as error:
            if not open_ or {each.code for each in error.diagnostics} != {OPEN}:
                raise AssertionError(f"checked, but has no code: {error}") from error
        else:
            assert not open_, "warned of a size without a number, but it compiles"
    program.dot()


def _edited(data: bytes, found: Sequence[Diagnostic], known: KnownFiles, random: Random) -> None:
    """The language server agrees with the command, and answers about any place."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    given, memory = read_text(None, text, {}, known), CheckMemory()
    diagnostics = analyze(given, memory).diagnostics
    theirs, ours = ([each.code for each in part] for part in (diagnostics, found))
    assert theirs == ours or "\r" in text or "\ufeff" in text, f"server: {theirs}, check: {ours}"
    if random.random() < ASKED:
        _asked(given, memory, random)


def _asked(given: ReadText, memory: CheckMemory, random: Random) -> None:
    """The answers about a place."""
    project, length = given.reading.project, len(given.source.text)
    complete(project, word_before(given.source, random.randint(0, length)))
    if project is None:
        return
    outline(project.main)
    blocks = type_text(given, memory)
    list(hints(project.main, blocks, 0, length))
    assert given.names
    offset = random.randint(0, length)
    explain(project, blocks, offset)
    given.names.at(project.main, offset)


def shortest(data: bytes, kind: str, seed: int) -> bytes:
    """A shorter text that fails in the same way; bytes that are not text stay as they are."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data

    def fails(candidate: str) -> bool:
        return text_failure(candidate.encode("utf-8", "surrogatepass"), seed)[0] == kind

    return shrink_text(text, fails).encode("utf-8", "surrogatepass")
