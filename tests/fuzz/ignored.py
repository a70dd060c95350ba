"""Texts with something added, exchanged or said twice: each is refused, warned of, or means more.

A program is changed at every place between two words, so no list of positions can forget one.
``python -m fuzz.ignored`` tries every change of every program.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

from fuzz.operator_programs import operator_programs

from xg.diagnostics.diagnostic import DiagnosticError, Span
from xg.frontend.choices import checked, choices_to_meet
from xg.frontend.examples import bind
from xg.frontend.plan_in_choices import plans_of
from xg.frontend.project import parse_project
from xg.frontend.typed import type_project
from xg.ir.dim import Dim
from xg.passes.ir_text import spell_program

WORD = re.compile(r'#.*|"[^"]*"|->|<-|<=|>=|\.\.|\+/-|[^\W\d]\w*|\d+(?:\.\d+)?(?:e-?\d+)?|\S')
BRACKETS = ("[B]", "[n=2]", "[-2]", "[b -> b]", "[Q_9]")
PARENTHESES = ("(7)", "(zz=7)", "(B)", "(eps=7)", "(causal)", "(-3)")
ITEMS = (", 7", ", zz=7", ", B", "B,", "X_9,", "zz =", ", causal", ", 0.5")
OPERANDS = ("<-X_9", "<=X_9", "<-(X_9 -> tanh)", "X_9,")
WORDS = (
    "as zz",
    "in 3",
    "in B",
    "if act = tanh",
    "2 *",
    "B *",
    '"text"',
    "= 3",
    "= ones",
    "_",
    "over B",
    "reversed",
)
SIGNS = ("..", "- 1", "-", "if", "|tanh", "*", ".a", "-> tanh", ": zz", ": [B]", "/ N_9", "-> [..]")
LINES = (
    "edition 1",
    "option zz = a | b",
    "dim zz",
    "mesh zz",
    "given zz = 1",
    "+/- 1",
    'wrong "x"',
)
FRAGMENTS = (*BRACKETS, *PARENTHESES, *ITEMS, *OPERANDS, *WORDS, *SIGNS, *LINES)
# Other spellings of the same: 0 times a number, an axis of size 1 in a group, the axis that BC or C
# would take, a name for an axis that only brackets have, the true shape of a source, an empty line.
RESTATED = re.compile(
    r"(?:-|\w+ \*) behind .*\((?:0|index=)?|[\d.]+,? .*\(.*|\[(?:B|-2)\] behind .*[CB]C?"
    r"|again: \s*|zz = behind .*(?:BC|fill|normal|uniform|bernoulli)\[.*"
    r"|\[B\] behind .*: y|: \[B\] behind +(?:x|ids)"
    r"|\w+ instead of .*\[[^\]=]*->[^\]]*[ (]\w+"
)

PROGRAMS: Mapping[str, str] = {
    "chain": """
dim B, S, D = 6, D_ff = 4*D
option act = tanh | GELU
block MLP "Title" (X_9 [B, S, D]; p = 0.1) -> Y [B, S, D] {
    param γ [D] = ones, W [D, D_ff], b [D_ff] = normal(0.02), U [D_ff, D]
    X_9 -> LN(γ, eps=1e-3) : H [B, S, D]
        -> •<=W -> ⊕<-BC(b) -> act -> •<=U : Z
        -> DO(p) if act = tanh -> scale(1/sqrt(D)) -> ⊕<-X_9 : Y
}
""",
    "operators": """
dim B, S, D = 6
op RMS(x [.., D]; g [D], eps = 1e-6) = x / sqrt(mean[D](x^2) + eps) * g
op f(x, y; c = 2) = max(u, 0) * c where u = x * tanh(y)
block F(X_9 [B, S, D], m [B, S, S] in 2, ids [S] in D) -> Y [B, S, D], V [B, S] {
    param g [D], E [D, D]
    X_9 -> RMS(g) : H -> f(3)<-X_9 : K
    K -> •<=T(K) -> SM(0.5, causal)<-m -> S[-1] -> •<=X_9 : O
    Emb(ids, E) -> BC[s, d -> b=B, s, d] -> ⊕<-O : N
      -> R[b, s, (n=2, e) -> b, n, s, e] : W [B, 2, S, D/2] -> R : Y
    Y, X_9 -> C[D] : L -> slice[-1](1, D) -> mean[-1] : V
}
""",
    "calls": """
dim B, D = 6, K = 3, N = 2
block Lin(X_9 [B, D]; c = 1, mode = a | b) -> Y [B, K] {
    dim M = 2*K
    param W [D, M], V [M, K]
    X_9 -> •<=W -> scale(c) if mode = a -> •<=V : Y
}
block L(X_9 [B, D], Z [B, D]) -> Y [B, D] {
    X_9 -> ⊕<-Z -> tanh : Y
}
block Net(X_9 [B, D]) -> Y [B, D], U [B, 2*K] {
    X_9 -> N × L<-X_9 as rows : H -> tanh : Y
    Y -> Lin(2, b, K=2*K) as lin : U
}
""",
    "loops": """
dim B, S, D = 6, K = 3
block Cell(x [B, D], w [D, K]; c = 2) -> y [B, K] {
    param U [K, K]
    state h [B, K] = zeros, g [B, K] = 0.5
    x -> •<=w -> ⊕<-(h -> •<=U) -> scale(c) -> ⊕<-g -> tanh : y
    next h = y
    next g = h
}
block Net(X_9 [B, S, D], w [D, K]) -> H [B, S, K], O [B, K] {
    X_9 -> Cell(c=3)<-w over S as forth : F, h_S, g_S
    g_S -> scale(2) : O
    X_9 -> Cell(h=h_S)<-w over S reversed as back : R_2, h_2, g_2
    F -> ⊕<-R_2 : H
}
""",
    "plans": """
dim B, D = 6, D_ff = 4*D
mesh N_9 = 2, N_T = 3
block MLP(X_9 [B, D]) -> Y [B, D] {
    param W [D, D_ff], U [D_ff, D]
    X_9 -> •<=W -> GELU -> •<=U : Y
}
plan TP "Tensor" of MLP {
    W [D, D_ff/N_T]
    U [D_ff/N_T, D]
}
plan DP of MLP {
    X_9, Y [B/N_9, D]
}
plan FS of MLP {
    * [_/N_9, ..] -> [..]
    X_9 [B/N_9, D]
}
plan X2 "both" = TP × DP
""",
    "examples": """
dim B = 2
block Mini(x [B]; a = 1) -> y [B], loss [] {
    param X_9 [B] = ones
    x -> ⊙<-X_9 -> scale(a) : y -> sum[B] : loss
}
example "Two numbers" of Mini {
    given x = [0.5, 0.25], X_9 = [2, 4]
    expect y = [1.0, 1.0] "Step 1"
    expect dX_9 = [1.0, 2.0] +/- 1e-3 "Step 2" wrong "a misprint"
}
""",
}


@dataclass(frozen=True)
class Change:
    """A changed text, and what was changed where."""

    text: str
    what: str


def changes(text: str, region: str = "") -> list[Change]:
    """The text with each fragment at each place, each word exchanged, each line twice.

    Only within `region`, a part of the text, where there is one.
    """
    start = text.index(region)
    end = start + len(region or text)
    words = [word for word in WORD.finditer(text) if not word.group().startswith("#")]
    inside = [word for word in words if start <= word.start() < end]
    return [
        *_added(text, inside),
        *_exchanged(text, inside, dict.fromkeys(word.group() for word in words)),
        *([] if region else _said_again(text)),
    ]


def _added(text: str, words: Sequence[re.Match[str]]) -> Iterator[Change]:
    for place in [words[0].start(), *(word.end() for word in words)]:
        for fragment in FRAGMENTS:
            changed = f"{text[:place]} {fragment} {text[place:]}"
            yield Change(changed, f"{fragment} behind {_before(text, place)}")


def _exchanged(
    text: str, words: Sequence[re.Match[str]], others: Mapping[str, None]
) -> Iterator[Change]:
    for word in words:
        for other in others:
            if other != word.group() and _kind(other) == _kind(word.group()):
                changed = text[: word.start()] + other + text[word.end() :]
                yield Change(changed, f"{other} instead of {_before(text, word.end())}")


def _said_again(text: str) -> Iterator[Change]:
    lines = text.splitlines(keepends=True)
    for place, line in enumerate(lines):
        yield Change("".join([*lines[: place + 1], *lines[place:]]), f"again: {line}")


def _before(text: str, place: int) -> str:
    return text[text.rfind("\n", 0, place) + 1 : place]


def _kind(word: str) -> str:
    if word[0].isdigit():
        return "number"
    return "name" if word[0].isalpha() else word


def ignored(text: str, tried: Sequence[Change]) -> list[str]:
    """The changes that are not reported and have no effect."""
    before = meaning(text)
    assert before is not None, text
    return [
        said
        for each in tried
        if (said := _said(each, before)) and not RESTATED.fullmatch(each.what)
    ]


def _said(change: Change, before: str) -> str:
    """The complaint about the answer to a change; nothing if it is well."""
    try:
        return change.what if meaning(change.text) == before else ""
    except Exception as error:  # whatever a wrong program does
        return f"{type(error).__name__}: {error}: {change.what}"


def meaning(text: str) -> str | None:
    """All that a file says, as text; None where it is refused or something is warned of."""
    try:
        project = parse_project(text.encode())
        met = choices_to_meet(project)
        if checked(project).diagnostics:
            return None
        said = [spell_program(type_project(project, block, s)) + str(s) for block, s in met]
        said += [_plain(plan) for plan in plans_of(project, {}).values()]
        said += [_plain(bind(project, example, {})) for example in project.main.examples]
    except DiagnosticError:
        return None
    return "\n".join([*said, _plain(project.main.options), _plain(project.main.dims)])


def _plain(data: object) -> str:
    """Data as text without the places of texts."""
    match data:
        case Span():
            return ""
        case Dim():
            return str(data)
        case tuple() | list():
            return f"[{', '.join(map(_plain, cast('Sequence[Any]', data)))}]"
        case dict():
            items = cast("Mapping[Any, Any]", data).items()
            return "{" + ", ".join(f"{_plain(key)}: {_plain(value)}" for key, value in items) + "}"
        case _ if is_dataclass(data):
            parts = (_plain(getattr(data, each.name)) for each in fields(data) if each.compare)
            return f"{type(data).__name__}({', '.join(parts)})"
        case _:
            return str(data)


def main() -> int:
    """Try every change of every program, print what is ignored; the exit status."""
    texts = [(text, "") for text in PROGRAMS.values()]
    tried, lines = 0, list[str]()
    for text, region in [*texts, *operator_programs()]:
        changed = changes(text, region)
        tried += len(changed)
        lines += ignored(text, changed)
    print(*lines, f"{tried} changes, {len(lines)} ignored", sep="\n")  # noqa: T201
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
