"""Whatever a file holds, reading it ends soon, with a tree or diagnostics and nothing else."""

from __future__ import annotations

import random

import pytest
from program_files import PROGRAMS
from tier import THOROUGH

from xg.diagnostics.diagnostic import DiagnosticError, Source, render
from xg.diagnostics.limits import SourceBytes
from xg.syntax.format import format
from xg.syntax.parse import parse, parse_partly
from xg.syntax.spelling import FOREIGN, native
from xg.syntax.tokens import tokenize
from xg_grammar import literals

MIB = SourceBytes.maximum
MUCH = MIB if THOROUGH else MIB // 8  # of what takes a second for each MiB
BLANK = b"\n" * (MUCH // 2)  # lines, each of which begins with all that are below it
SIGNS = sorted({*literals(), *FOREIGN})
WORDS = [*SIGNS, *["X", "γ", "1", "2.5", '"t"', "\n", "\n", "# c\n", "é", "$"]]


def told(data: bytes) -> list[str]:
    """The codes of a file's errors; they can be printed, and none has Lark's words."""
    source = Source.from_bytes("hostile.xg", data)
    try:
        parse(source)
    except DiagnosticError as error:
        text = render(error.diagnostics, color=True)
        assert "Token(" not in text
        assert "Unexpected token" not in text
        text.encode()
        assert max(map(len, text.split("\n"))) < 1000
        return [diagnostic.code for diagnostic in error.diagnostics]
    return []


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes(seed: int) -> None:
    rng = random.Random(seed)
    assert any(told(rng.randbytes(rng.randrange(300))) for _ in range(30))


@pytest.mark.parametrize("seed", range(10))
def test_random_words(seed: int) -> None:
    rng = random.Random(seed)
    verdicts = [told(" ".join(rng.choices(WORDS, k=rng.randrange(50))).encode()) for _ in range(40)]
    assert any(verdicts)


@pytest.mark.parametrize("seed", range(10))
def test_programs_with_random_damage(seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(rng.choice(PROGRAMS).read_bytes())
    for _ in range(20):
        at = rng.randrange(len(data))
        data[at : at + rng.randrange(4)] = rng.choice([b"(", b"}", b"\n", b"->", b"if", b" ", b""])
        told(bytes(data))


EVERY_PLACE = """dim B = 2, C = B*(B + 1)
op f(x [B, C]; p = 0.5) = max(x, -1)*x^2/p where k = x > p
block F(X [B, C]) -> Y [B, C] {
    param W [C, C] = 2
    X -> •<=W -> 2 × f(p = 1) as l -> ⊕<-(X -> ⊙<-X) -> mean[B](3), T[b, c -> c, b] : Y [B, C]
}
"""


@pytest.mark.parametrize("sign", SIGNS)
def test_a_sign_in_every_place(sign: str) -> None:
    # each help that looks a sign up meets all that the lexer makes a token of
    tokens = tokenize(Source("hostile.xg", EVERY_PLACE)).tokens
    for token in tokens if THOROUGH else tokens[SIGNS.index(sign) % 6 :: 6]:
        before, behind = EVERY_PLACE[: token.start], EVERY_PLACE[token.end :]
        told(f"{before}{sign}{token}{behind}".encode())
        told(f"{before} {sign} {behind}".encode())


ARITHMETIC = [sign for sign in FOREIGN if native(sign) in ("•", "⊙", "-", "/") and sign != "//"]


@pytest.mark.parametrize("sign", ARITHMETIC)
def test_a_sign_of_elsewhere_gets_the_help_of_our_own(sign: str) -> None:
    def helps(line: str) -> list[tuple[str, ...]]:
        text = f"block F(X [B]) -> Y [B] {{\n    {line}\n}}"
        found = parse_partly(Source("hostile.xg", text)).diagnostics
        return [each.help for each in found if each.code != "XG0104"]

    for line in ("a {} b : Y", "X -> 2 × {}x as l : Y", "X -> f {} y", "X -> f {} a*b"):
        own = helps(line.format(native(sign)))
        assert set(helps(line.format(sign))) <= set(own), line
    assert helps(f"a {sign} b : Y") == helps(f"a {native(sign)} b : Y") != []


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        (b"dim A\x00", {"XG0102"}),
        (b"dim A\rdim B", {"XG0102"}),
        ("\ufeffdim A".encode(), {"XG0102"}),
        ("dim A # \u202e".encode(), {"XG0102"}),
        ('block F "\u200b" (X []) -> Y [] {\n}'.encode(), {"XG0102"}),
        ("dim A".encode("utf-16"), {"XG0101"}),
        ("dim A".encode("utf-16-le"), {"XG0102"}),
        (b"dim \xc3", {"XG0101"}),
        (b"dim A # \xed\xa0\x80", {"XG0101"}),
        ("dim A\u00a0= 3".encode(), {"XG0103"}),
        (b"dim A\r\ndim B\r\n", set[str]()),
        (b"", set[str]()),
    ],
)
def test_characters(data: bytes, codes: set[str]) -> None:
    assert set(told(data)) == codes


def test_the_invisible_characters_are_those_of_unicode() -> None:
    import re
    import sys
    import unicodedata

    from xg.syntax.tokens import INVISIBLE

    refused = re.compile(f"[{INVISIBLE}]")
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert bool(refused.match(character)) == (character not in "\n\t"), hex(code)
    for character in "aγ•⊕é注ｗ\u0301—…🙂":
        assert not refused.match(character)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"(" * 100_000, "XG0126"),
        (b"dim A = " + b"(" * 100_000, "XG0002"),
        (b"dim A = " + b"-" * 100_000, "XG0104"),
        (b"dim A = " + b"- " * 100_000, "XG0123"),
        (b"dim A = " + b"2^" * 100_000 + b"1", "XG0122"),
        (b"block A(X []) -> Y [] {\n" * 10_000, "XG0114"),
        (b"example of X {\n given x = " + b"[1,\n" * 10_000, "XG0002"),
        (b"a" * MIB, "XG0126"),
        (b"dim " + b"a" * (MIB - 4), "XG0009"),
        (b"dim a = " + b"9" * (MIB - 8), "XG0010"),
        (b"#" * (MIB + 1), "XG0001"),
        (b") " * (MUCH // 2), "XG0113"),
        (b"} " * (MUCH // 2), "XG0113"),
        (b'"' * MUCH, "XG0110"),
        (b"$ " * (MUCH // 2), "XG0103"),
        ("é".encode() * (MIB // 2), "XG0105"),
        (b"dim " + b"a b " * (MUCH // 4 - 1), "XG0115"),
        (b"dim\n" * (MUCH // 4), "XG0110"),
        (b"option " + b"a" * (MUCH - 14) + b" = b, c", "XG0009"),
        (BLANK + b"block A(X []) -> Y [] {\n X -> LN if a : Y\n}", "XG0146"),
        (BLANK + b"block A(X []) -> Y [] {\n X -> /2 : Y\n}", "XG0146"),
        (b"block A(X []) -> Y [] {\n" + BLANK + b" h = X\n}", "XG0119"),
        (b"block A(X []) -> Y [] {\n h = X\n" + BLANK + b"}", "XG0119"),
    ],
)
def test_large(data: bytes, code: str) -> None:
    assert told(data)[0] == code


@pytest.mark.parametrize(
    "data",
    [
        b"dim A = " + b"1+" * 50_000 + b"1",
        b"dim A = " + b"a." * 50_000 + b"a",
        b"dim A = 1\n" * 20_000,
        b"\n" * MIB,
    ],
)
def test_large_and_right(data: bytes) -> None:
    assert told(data) == []


def test_a_file_with_mistakes_is_not_formatted() -> None:
    with pytest.raises(DiagnosticError):
        format(Source("a.xg", "dim A B"))
