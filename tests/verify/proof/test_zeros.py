"""Zero gradients: the reason where there is one, none where there is none."""

from pathlib import Path

import pytest

import xg
from xg.frontend.project import read_project
from xg.verify.gradient_proof import prove
from xg.verify.zeros import why_zero, why_zero_through_calls

HEAD = """\
dim B, S, D = 4
block Net(X [B, S, D]) -> Y [B, S, D] {
    param b [D], c [S], d [D], W [D, D]
"""
CASES = {
    # keys shifted by one vector: every row of scores by one number
    "shift before softmax": ("X -> ⊕<-BC(b) -> T : K [B, D, S]", "X -> •<=K -> SM -> S", "line 5"),
    "under a causal mask": (
        "X -> ⊕<-BC(b) -> T : K [B, D, S]",
        "X -> •<=K -> SM(0.5, causal) -> S",
        "line 5",
    ),
    "queries are not keys": ("X -> ⊕<-BC(b) : K [B, S, D]", "K -> •<=T(X) -> S", None),
    "keys that are scaled": ("X -> ⊙<-BC(b) -> T : K [B, D, S]", "X -> •<=K -> S", None),
    "turned by position": ("X -> ⊕<-BC(b) -> RoPE -> T : K [B, D, S]", "X -> •<=K -> S", None),
    "used elsewhere too": ("X -> ⊕<-BC(b) -> T : K [B, D, S]", "X -> ⊕<-BC(b) -> •<=K -> S", None),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bias_on_keys(case: str, tmp_path: Path) -> None:
    keys, scores, line = CASES[case]
    text = (
        "dim B, S, D = 4\nblock Net(X [B, S, D]) -> Y [B, S, S] {\n    param b [D]\n"
        f"    {keys}\n    {scores} : Y\n}}\n"
    )
    reason = _why(text, "b", tmp_path)
    assert (reason is None) if line is None else (reason is not None and line in reason)


@pytest.mark.parametrize(
    ("chain", "zero"),
    [
        ("X -> ⊕<-BC[s -> b=B, s, d=D](c) -> LN : Y", True),  # a whole row moved: LN centers it
        ("X -> ⊕<-BC[d -> b=B, s=S, d](d) -> LN : Y", False),
        ("X -> ⊕<-BC[s -> b=B, s, d=D](c) -> GELU -> LN : Y", False),
        ("X -> ⊕<-BC[s -> b=B, s, d=D](c) -> scale(2) -> LN : Y", True),
        ("X -> ⊕<-BC[s -> b=B, s, d=D](c) -> ⊕<-X -> S : Y", True),
        ("X -> ⊕<-BC[s -> b=B, s, d=D](c) -> ⊙<-X -> S : Y", False),
        ("X -> ⊕<-BC[s -> b=B, s, d=D](c) -> T -> S -> T : Y", False),  # softmax over S
        ("X -> ⊕<-BC[s -> b=B, s, d=D](c) -> DO(0.5) -> LN : Y", False),
    ],
)
def test_a_shift_of_whole_rows(chain: str, zero: bool, tmp_path: Path) -> None:
    name = "d" if "(d)" in chain else "c"
    size = "D" if name == "d" else "S"
    text = (
        "dim B, S, D = 4\nblock Net(X [B, S, D]) -> Y [B, S, D] {\n"
        f"    param {name} [{size}]\n    {chain}\n}}\n"
    )
    assert (_why(text, name, tmp_path) is not None) == zero


def test_steps_have_no_slope(tmp_path: Path) -> None:
    text = (
        "dim B, D\nop Step(x) = select(x > 0, 1, 0)\n"
        "block Net(X [B, D]) -> Y [B, D] {\n    param b [D]\n"
        "    X -> ⊕<-(b -> BC[d -> b=B, d] -> Step) : Y\n}\n"
    )
    assert _why(text, "b", tmp_path) == "Step in line 5 has no slope"


def test_calls_are_not_looked_into(tmp_path: Path) -> None:
    """A zero made inside a call is not explained, so a gradient of zero fails."""
    text = (
        "dim B, D\nblock Part(X [B, D]) -> Y [B, D] {\n    X -> S : Y\n}\n"
        "block Net(X [B, D]) -> Y [B, D] {\n    param c [B]\n"
        "    X -> ⊕<-BC[b -> b, d=D](c) -> Part : Y\n}\n"
    )
    assert _why(text, "c", tmp_path) is None


MIXER = """
dim B, S = 6, D = 8, D_S = 12, N = 3
block Token(X [B, S, D]) -> Y [B, S, D] {
    param γ [D], W_1 [S, D_S], b_1 [D_S], W_2 [D_S, S], b_2 [S], c [D]
    X -> LN(γ) -> T : H [B, D, S]
      -> •<=W_1 -> ⊕<-BC(b_1) -> GELU -> •<=W_2 -> ⊕<-BC(b_2) -> T -> ⊕<-X -> ⊕<-BC(c) : Y
}
block Channel(X [B, S, D]) -> Y [B, S, D] {
    param γ [D], W [D, D], b [D]
    X -> LN(γ) -> •<=W -> ⊕<-BC(b) -> GELU -> ⊕<-X : Y
}
block Mixer(X [B, S, D]) -> Y [B, S, D] {
    X -> Token -> Channel : Y
}
block Net(X [B, S, D], Z [B, S, D]) -> Y [B, S, D], V [B, S, D] {
    X -> N × Mixer as layers -> LN : Y
    Z -> Channel as last -> scale(2) : V
}
"""


@pytest.mark.parametrize(
    ("name", "zero"),
    [
        ("layers.0.Token.b_2", True),  # one number for a row of D, which every LN centers
        ("layers.2.Token.b_2", True),
        ("layers.1.Token.b_1", False),
        ("layers.1.Token.c", False),
        ("layers.0.Channel.b", False),
        ("last.b", False),
        ("X", False),
    ],
)
def test_a_shift_that_goes_through_calls(name: str, zero: bool, tmp_path: Path) -> None:
    (tmp_path / "net.xg").write_text(MIXER, encoding="utf-8")
    graphs = xg.compile(tmp_path / "net.xg").graphs
    reason = why_zero_through_calls(graphs, name)
    assert (reason is not None and "shifts whole rows" in reason) == zero


def test_a_mixer_is_proven(tmp_path: Path) -> None:
    """The rows of LN are longer than 2, or a shift would be all there is."""
    (tmp_path / "net.xg").write_text(MIXER, encoding="utf-8")
    proof = prove(read_project(tmp_path / "net.xg"), "Net", {"N": 2}, 0, ())
    rows = {row.name: row.verdict for row in proof.gradients.rows}
    assert proof.gradients.passed
    assert {name for name, verdict in rows.items() if verdict == "zero"} == {
        "layers.0.Token.b_2", "layers.1.Token.b_2",
    }  # fmt: skip


TWICE = """
dim B, D = 3
op Less(a [..], b [..]) = a - b
block Part(x [B, D]) -> y [B, D] {
    param b [D]
    x -> ⊙<-BC(b) : y
}
block Net(x, z [B, D]) -> y [B, D] {
    x -> Part as part : u [B, D]
    z -> part         : v [B, D]
    u, v -> Less      : y
}
"""


def test_what_changes_in_two_calls_of_one_block_differs() -> None:
    graphs = xg.compile(source=TWICE).graphs
    assert why_zero_through_calls(graphs, "part.b") is None


LOOP = """
dim B, S, D = 3
block Cell(x, z, q, w, r [B, D]) -> y [B, D], u [B, D] {
    param c [B], b [D]
    state h, k, m, l [B, D] = zeros
    x -> ⊕<-h -> tanh                             : y
    q -> ⊕<-BC[b -> b, d=D](c) -> S -> ⊕<-BC(b)   : u
    m -> ⊕<-w                                     : m_2
    next h = k
    next k = z
    next m = m_2
    next l = r
}
block Net(x, z, q, w, r, a [B, S, D]) -> y [B, S, D], u [B, S, D] {
    x, z, q, w, r -> Cell over S as cell : y, u
}
"""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("z", None),  # by two states, two rounds later
        ("x", None),
        ("cell.b", None),
        ("cell.c", "it shifts whole rows alike, which S in line 7 does not see"),
        ("w", "it is not used"),  # goes round, and comes out nowhere
        ("r", "it is not used"),
        ("a", "it is not used"),
    ],
)
def test_a_change_that_goes_round_a_loop(name: str, reason: str | None) -> None:
    graphs = xg.compile(source=LOOP).graphs
    assert why_zero_through_calls(graphs, name) == reason


def test_a_loop_with_an_unused_input_is_proven(tmp_path: Path) -> None:
    (tmp_path / "net.xg").write_text(LOOP, encoding="utf-8")
    proof = prove(read_project(tmp_path / "net.xg"), "Net", {"S": 3}, 0, ())
    zero = {row.name for row in proof.gradients.rows if row.verdict == "zero"}
    assert proof.gradients.passed
    assert zero == {"cell.c", "w", "r", "a"}


@pytest.mark.parametrize(
    ("params", "chain", "zero"),
    [
        ("b [D]", "X -> ⊕<-BC(b) -> BN : Y", True),
        ("W [D, D], b, γ, β [D]", "X -> •<=W -> ⊕<-BC(b) -> BN(γ, β) : Y", True),
        ("b [D], γ, β [S, D]", "X -> ⊕<-BC(b) -> BN[B](γ, β) : Y", True),
        # in a run with a seed, as gradients are proven
        ("b, γ, β, μ, v [D]", "X -> ⊕<-BC(b) -> BN(γ, β, μ, v) : Y", True),
        ("b, γ, β [D]", "X -> ⊕<-BC(b) -> GELU -> BN(γ, β) : Y", False),
        ("b, γ, β [D]", "X -> ⊙<-BC(b) -> BN(γ, β) : Y", False),
        (
            "b [D], γ, β [B, D]",
            "X -> •<=T(X) -> •<=X -> ⊙<-X -> ⊕<-BC(b) -> BN[S](γ, β) : Y",
            False,
        ),
        ("b [S], γ, β [D]", "X -> ⊕<-BC[s -> b=B, s, d=D](b) -> BN(γ, β) : Y", False),
    ],
)
def test_a_bias_in_front_of_batch_norm(params: str, chain: str, zero: bool, tmp_path: Path) -> None:
    text = (
        "dim B, S, D = 4\nblock Net(X [B, S, D]) -> Y [B, S, D] {\n"
        f"    param {params}\n    {chain}\n}}\n"
    )
    said = "it shifts whole channels alike, which BN in line 4 does not see"
    assert _why(text, "b", tmp_path) == (said if zero else None)


TOWERS = """
dim B, D = 3, E = 4
block Tower(x [B, D]) -> y [B, E] {
    param W [D, E], c, b [E]
    x -> •<=W -> ⊕<-BC(c) -> tanh -> ⊕<-BC(b) : y
}
block Deep(x [B, D]) -> y [B, E] { x -> Tower as head : y }
block Net(x, z, q [B, D]) -> d [], e [B, E] {
    x -> Deep as tower : u
    z -> tower         : v
    u, v -> MSE        : d
    q -> Tower as own  : e
}
block Apart(x, z, q [B, D]) -> d [], e [B, E] {
    x -> Tower as left  : u
    z -> Tower as right : v
    u, v -> MSE         : d
    q -> left           : e
}
"""


@pytest.mark.parametrize(
    ("block", "name", "zero"),
    [
        ("Net", "tower.head.b", True),
        ("Net", "tower.head.c", False),  # tanh lets through as much as each tower has room for
        ("Net", "own.b", False),
        ("Apart", "left.b", False),
        ("Apart", "right.b", False),
    ],
)
def test_a_bias_of_both_towers(block: str, name: str, zero: bool) -> None:
    program = xg.compile(source=TOWERS, block=block).graphs
    said = "it shifts operands of MSE in line 11 equally, which cancels in their difference"
    assert why_zero_through_calls(program, name) == (said if zero else None)


SKIPS = """
dim B, C = 2, S = 3, N = 3, M = 2
block Layer(x [B, C + S]) -> y [B, C + S] {
    param W [C, C], V [C, S]
    x -> split         : h [B, C], skip [B, S]
    h -> tanh          : z
    z -> •<=W -> ⊕<-h  : h_2
    z -> •<=V -> ⊕<-skip : s_2
    h_2, s_2 -> C      : y
}
block Stack(x [B, C + S]) -> y [B, C + S] { x -> N × Layer as layers : y }
block Skips(x [B, C + S]) -> y [B, S] {
    x -> N × Layer as layers -> split : h [B, C], y [B, S]
}
block Stacks(x [B, C + S]) -> y [B, S] {
    x -> M × Stack as stacks -> split : h [B, C], y [B, S]
}
"""


@pytest.mark.parametrize(
    ("block", "name", "zero"),
    [
        ("Skips", "layers.2.W", True),  # what the last layer hands on is not read
        ("Skips", "layers.1.W", False),
        ("Skips", "layers.2.V", False),
        ("Stacks", "stacks.1.layers.2.W", True),
        ("Stacks", "stacks.0.layers.2.W", False),
        ("Stacks", "stacks.1.layers.1.W", False),
    ],
)
def test_the_last_of_layers_of_which_only_skips_are_read(block: str, name: str, zero: bool) -> None:
    program = xg.compile(source=SKIPS, block=block).graphs
    assert (why_zero_through_calls(program, name) == "it is not used") == zero


@pytest.mark.parametrize(
    ("start", "stop", "zero"),
    [("0", "C", True), ("C", "2*C", False), ("C - 1", "C + 1", False), ("2*C", "3*C", True)],
)
def test_a_part_that_is_left_out(start: str, stop: str, zero: bool, tmp_path: Path) -> None:
    text = (
        "dim B, C = 4\nblock Net(x [B, C]) -> Y [B, M] {\n    param W [C, C]\n"
        "    x -> •<=W : h [B, C]\n    h, x -> C : u [B, 2*C]\n    x, u -> C : v [B, 3*C]\n"
        f"    v -> slice[-1]({start}, {stop}) : Y\n}}\n"
    ).replace("[B, M]", f"[B, {stop} - ({start})]")
    said = "it changes a part that slice in line 7 leaves out"
    assert _why(text, "W", tmp_path) == (said if zero else None)


def _why(text: str, name: str, folder: Path) -> str | None:
    (folder / "net.xg").write_text(text, encoding="utf-8")
    graph = xg.compile(folder / "net.xg").graphs.main
    (value,) = (param.value for param in graph.params if param.value.name == name)
    return why_zero(graph, value)
