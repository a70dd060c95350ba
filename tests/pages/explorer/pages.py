"""Explorer pages of the library, and their contents."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from math import prod
from pathlib import Path
from typing import Any
from zlib import decompress

from library import shipped

from xg.driver import Program, compile_project
from xg.frontend.project import parse_project, read_project
from xg_pages.explorer import explore

DIAGRAMS = Path(__file__).parents[3] / "diagrams"

HOSTILE_TITLE = "</script><script>document.title='broken'</script><img src=x onerror=alert(1)>"
HOSTILE = f"""\
dim B, D = 4
block F "{HOSTILE_TITLE}" (X [B, D]) -> Y [B, D] {{
    param W [D, D]
    X -> •<=W : H
      -> S    : Y
}}
"""
LARGE = """\
block F(X [4096, 40960]) -> Y [4096, 40960] {
    X -> GELU : H
    H -> •<=T(X) -> •<=X : Y
}
"""
TIGHT = """\
dim S, S_max = 8
block F(x [S] in S_max) -> y [S, 4] {
    param E [S_max, 4]
    range(S) -> Emb(E) : y
}
"""


@cache
def program(name: str, plan: str | None = None, block: str | None = None) -> Program:
    """A diagram of the library, its last block or another, under a plan."""
    return compile_project(read_project(shipped(name)), block, None, plan)


@cache
def page(name: str, plan: str | None = None, block: str | None = None) -> str:
    """Its page."""
    return explore(program(name, plan, block), {}).page.decode("utf-8")


def page_of(text: str) -> str:
    """The page of a file that is written down here."""
    return explore(compile_project(parse_project(text.encode())), {}).page.decode("utf-8")


def facts(text: str) -> Any:  # noqa: ANN401 - JSON
    """The facts that the script of a page reads."""
    found = re.search(r'<script type="application/json" id="facts">(.*?)</script>', text, re.DOTALL)
    assert found
    known = json.loads(found[1])
    return {**known, "formulas": unpacked(known["formulas"])}


def later(text: str) -> str:
    """The markup that the script of a page adds: all figures but the first, and the code."""
    return decompress(b64decode(facts(text)["markup"])).decode("utf-8")


def tape(known: Any) -> Any:  # noqa: ANN401 - JSON
    """The program that a page computes numbers with."""
    return unpacked(known["tape"])


def unpacked(text: str) -> Any:  # noqa: ANN401 - JSON
    """Data that was compressed for a page."""
    return json.loads(decompress(b64decode(text)))


def value(formula: str, numbers: Mapping[str, int]) -> Fraction:
    """The value of a formula as pages have them: sums of terms such as ``3*B*S^2/(2*N_T)``."""
    terms = formula.replace(" - ", " + -").split(" + ")
    return sum((_term(term, numbers) for term in terms), Fraction(0))


def _term(term: str, numbers: Mapping[str, int]) -> Fraction:
    above, _, below = term.removeprefix("-").partition("/")
    sign = -1 if term.startswith("-") else 1
    return sign * _product(above, numbers) / _product(below.strip("()") or "1", numbers)


def _product(text: str, numbers: Mapping[str, int]) -> Fraction:
    pairs = (factor.partition("^") for factor in text.split("*"))
    powers = ((name, int(power or 1)) for name, _, power in pairs)
    return prod(
        (Fraction(numbers[n] if n in numbers else int(n)) ** power for n, power in powers),
        start=Fraction(1),
    )
