"""Files made to exhaust the machine are refused by a limit, or read in linear time."""

from __future__ import annotations

from collections.abc import Iterable
from time import process_time

import pytest
from tier import THOROUGH

from xg.diagnostics import limits
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.limits import Limit
from xg.frontend.choices import CheckMemory, check_choices
from xg.frontend.project import parse_project
from xg.ir.dim import symbol
from xg.passes.resolve.units import refuse_cycles
from xg_editor.session import read_text, type_text

SECONDS = 6  # of CPU for one file; what was quadratic took minutes
PART = 1 if THOROUGH else 2  # of what is long
NAMES = [f"A{i}" for i in range(300)]
IDENTITY = "block F0(x [S, S]{}) -> y [S, S] {{\n    x -> {} : y\n}}\n"


def codes(text: str, block: str | None = None) -> set[str]:
    """The codes of the errors in a file, all of them with a place."""
    start = process_time()
    try:
        found = check_choices(parse_project(text.encode()), block)
    except DiagnosticError as error:
        found = error.diagnostics
    assert process_time() - start < SECONDS
    assert all(each.span for each in found)
    return {each.code for each in found if each.severity == "error"}


def blocks(first: str, bodies: Iterable[str], own: str = "") -> str:
    """Blocks F0, F1, …; `first` is what F0 does."""
    rest = (
        f"block F{i}(x [S, S]{own}) -> y [S, S] {{\n    x -> {body} : y\n}}\n"
        for i, body in enumerate(bodies, 1)
    )
    return "dim S, D\n" + IDENTITY.format(own, first) + "".join(rest)


def of_size(size: str) -> str:
    return f"dim S, T, U\nblock F(x [{size}]) -> y [{size}] {{\n    x -> ReLU : y\n}}\n"


HOSTILE: dict[type[Limit], list[str]] = {
    limits.SourceBytes: ["#" * (limits.SourceBytes.maximum + 1)],
    limits.Nesting: [of_size("(" * 65 + "S" + ")" * 65)],
    limits.Rank: [
        of_size(", ".join("S" * 9)),
        "dim S\nblock F(x [S], z [S, S, S, S, S, S, S, S]) -> y [S] {\n"
        "    z -> BC[a, b, c, d, e, f, g, h -> a, b, c, d, e, f, g, h, i=S] : w\n"
        "    x -> ReLU : y\n}\n",
    ],
    limits.DimSize: [
        of_size("2^31"),
        of_size("S").replace("dim S", "dim S = 2^31"),
        of_size(f"{'9' * 40}"),
    ],
    limits.LabelLength: [of_size("S").replace("F", "F" * 201)],
    limits.NumberDigits: [of_size("9" * 41), of_size(f"{'9' * 40}^200"), of_size("1/7^99*S*7^99")],
    limits.DimTerms: [
        of_size("(S+T+U)^30"),
        of_size("S").replace("dim S", "dim A = (S+T+U)^20\ndim B = A^2\ndim S"),
        "dim S, T, U, K\nblock G(x [S]) -> y [S, K^20] {\n"
        "    x -> BC[s -> s, k=K^20] : y\n}\n"
        "block F(x [S]) -> y [S, S^20] {\n    x -> G(K=S+T+U+1) : y\n}\n",
        f"dim {', '.join(NAMES)}\nblock F(x [{'+'.join(NAMES)}]) -> y [A0] {{\n    x : y\n}}\n",
    ],
    limits.SizeFactors: [
        of_size("S^1000000000"),
        of_size("(S^60)*(S*T)^3"),
        of_size("1/S^65"),
        blocks("ReLU", [f"F{i}(D=D*D)" for i in range(9)])
        .replace("-> ReLU", "-> •<=W -> •<=V", 1)
        .replace("{\n", "{\n    param W [S, D], V [D, S]\n", 1),
    ],
    limits.NumberParts: [
        blocks("SM(s)", [f"F{i}(s=(s+sqrt(S))*s)" for i in range(40)], "; s = 1"),
        blocks("SM(s)", [f"F{i}(s=s*sqrt(S)+1)" for i in range(300)], "; s = 1"),
    ],
    limits.ExpandedOperators: [blocks("ReLU", [f"F{i} as a -> F{i} as b" for i in range(22)])],
    limits.Blocks: [blocks("ReLU", ["ReLU"] * limits.Blocks.maximum)],
    limits.CheckedOperators: [
        "dim S\n"
        + "".join(f"option o{i} = on | off\n" for i in range(1000))
        + "block F(x [S]) -> y [S] {\n    x"
        + "".join(f" -> ReLU if o{i} = on" for i in range(1000))
        + " -> tanh : y\n}\n"
    ],
}
ELSEWHERE = {  # limit: the test that passes it
    limits.Files: "tests/frontend/project/test_files.py",
    limits.FigureNodes: "tests/figures/test_layout.py",
    limits.LayoutSeconds: "tests/figures/test_layout.py",
    limits.LayoutMebibytes: "tests/figures/test_layout.py",
    limits.ListedRounds: "tests/cli/test_endless_repeats.py",
    limits.Executions: "tests/cli/test_endless_repeats.py",
    limits.Processes: "tests/cli/test_ranks_command.py",
    limits.SimulatedRanks: "tests/cli/test_ranks_command.py",
}


def test_every_limit_has_a_hostile_file() -> None:
    assert {*HOSTILE, *ELSEWHERE} == set(Limit.__subclasses__())


@pytest.mark.parametrize("limit", HOSTILE, ids=lambda limit: limit.__name__)
def test_a_hostile_file_is_refused(limit: type[Limit], monkeypatch: pytest.MonkeyPatch) -> None:
    if limit is limits.CheckedOperators:
        monkeypatch.setattr(limit, "maximum", 10_000)  # one in ten, to save the time
    for text in HOSTILE[limit]:
        assert codes(text) == {limit.code}, text[:200]


def test_instances_asked_for_by_numbers_are_counted_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits.ExpandedOperators, "maximum", 5_000)
    text = blocks(
        "SM(s)", [f"F{i}(s=s*2) as a -> F{i}(s=s*2+1) as b" for i in range(22)], "; s = 1"
    )
    assert codes(text) == {limits.ExpandedOperators.code}


def test_exactly_the_limit_of_operators_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.ExpandedOperators, "maximum", 2**6)
    twice = [f"F{i} as a -> F{i} as b" for i in range(6)]
    assert codes(blocks("ReLU", twice)) == set()
    assert codes(blocks("ReLU", [*twice, "F6 -> ReLU"])) == {limits.ExpandedOperators.code}


@pytest.mark.parametrize(
    "text",
    [
        blocks("ReLU" + " -> ReLU" * (8_000 // PART), []),
        blocks("ReLU -> ReLU : x1\n    x1 -> ReLU", [f"F{i}" for i in range(1_900 // PART)]),
        blocks("ReLU", ["ReLU"] * (1_900 // PART)),
        "dim S\nblock F(x [S]) -> "
        + ", ".join(f"y{i} [S]" for i in range(3_000 // PART))
        + " {\n"
        + "".join(f"    x -> ReLU : y{i}\n" for i in range(3_000 // PART))
        + "}\n",
    ],
    ids=["chain", "blocks in a chain", "blocks side by side", "outputs"],
)
def test_long_files_take_linear_time(text: str) -> None:
    assert codes(text) == set()


def test_dims_in_a_long_chain_take_linear_time() -> None:
    start = process_time()
    refuse_cycles({f"N{i}": symbol(f"N{i + 1}") for i in range(50_000)}, {})
    assert process_time() - start < SECONDS


def test_no_instance_is_left_out() -> None:
    """A size that does not divide is found behind any number of blocks."""
    many = " -> ".join(f"M(K={i + 1}) as m{i}" for i in range(1_100))
    text = (
        "dim B, K, D\n"
        "block M(x [B, B]) -> y [B, B] {\n    param W [B, K], V [K, B]\n"
        "    x -> •<=W -> •<=V : y\n}\n"
        "block Bad(x [B, D]) -> y [B, 7, D/7] {\n    x -> R : y\n}\n"
        "block Mid(x [B, D]) -> y [B, 7, D/7] {\n    x -> Bad : y\n}\n"
        f"block Main(x [B, B], z [B, 64]) -> y [B, B], w [B, 7, 64/7] {{\n    x -> {many} : y\n"
        "    z -> Mid : w\n}\n"
    )
    assert codes(text, "Main") == {"XG0401"}


@pytest.mark.parametrize(
    "number", ["2^100000", "1/0", "sqrt(0-1)", "log(0)", "(0-1)^0.5", "exp(100000)", "1e308*10"]
)
def test_numbers_without_a_finite_value(number: str) -> None:
    assert codes(blocks(f"SM({number})", [])) == {"XG0224"}


@pytest.mark.parametrize("number", ["sqrt(S-10)", "1/(S-4)", "log(S-S)", "exp(S^9)"])
def test_numbers_without_a_value_for_these_sizes(number: str) -> None:
    assert codes(blocks(f"SM({number})", [])) == set()
    assert codes(blocks(f"SM({number})", []).replace("dim S", "dim S = 4")) == {"XG0405"}


def test_no_layout_is_looked_for_of_more_axes_than_a_shape_may_have() -> None:
    """An editor types what it can of a file in which `xg check` stops at the shape."""
    text = "dim B\nblock F(X [B{}]) -> Y [B, 4, 8] {{\n    X -> R : Y\n}}\n".format(", 2" * 22)
    assert codes(text) == {limits.Rank.code}
    start = process_time()
    type_text(read_text(None, text, {}), CheckMemory())
    assert process_time() - start < SECONDS


MANY = 2_500  # a quarter of what took half a minute
DECLARATIONS: dict[str, str] = {
    "parameters": "dim D = 4\nblock F(x [D]) -> y [D] {\n"
    + "".join(f"    param w{i} [D]\n" for i in range(4 * MANY))
    + "    x -> ReLU : y\n}\n",
    "options": "dim S = 4\n"
    + "".join(f"option o{i} = on | off\n" for i in range(4 * MANY))
    + "block F(x [S]) -> y [S] {\n    x -> tanh : y\n}\n",
    "words": "dim S = 4\n"
    + "".join(
        f"option o{j} = " + " | ".join(f"a{j}_{i}" for i in range(500)) + "\n" for j in range(5)
    )
    + "block F(x [S]) -> y [S] {\n    x"
    + "".join(f" -> ReLU if o{j} = a{j}_1" for j in range(5))
    + " -> tanh : y\n}\n",
}


@pytest.mark.parametrize("kind", DECLARATIONS)
def test_many_declarations_take_linear_time(kind: str) -> None:
    """No message makes xg search the whole text, or all choices, for each declaration."""
    start = process_time()
    codes(DECLARATIONS[kind])
    assert process_time() - start < 2
