"""The sizes chosen for verification."""

from collections.abc import Mapping
from functools import cache
from itertools import combinations
from math import prod
from pathlib import Path

import pytest
from library import varied
from tier import THOROUGH

import xg
from xg.frontend.project import read_project
from xg.verify.gradient_proof import prove
from xg.verify.proof_sizes import (
    LEAST_MEAN,
    LEAST_ROUNDS,
    PRIMES,
    ROUNDS,
    SCALARS_AT_MOST,
    verification_sizes,
)

DIAGRAMS = sorted((Path(__file__).parents[3] / "diagrams").rglob("*.xg"))
TRIED = [path for path in DIAGRAMS if THOROUGH or varied(path)]


def sizes_of(text: str, folder: Path, given: dict[str, int] | None = None) -> dict[str, int]:
    (folder / "net.xg").write_text(text, encoding="utf-8")
    return verification_sizes(xg.compile(folder / "net.xg").graphs, given or {})


@cache
def whole(path: Path) -> tuple[xg.Program, Mapping[str, int]]:
    """A diagram at sizes of its own, and those that are chosen for its verification."""
    program = xg.compile(path)
    return program, verification_sizes(program.graphs, {})


HALVED = {"resnet": 64}  # images whose sides are halved five times: twice that


@pytest.mark.parametrize("path", TRIED, ids=lambda path: path.stem)
def test_every_element_of_every_diagram_can_be_tried(path: Path) -> None:
    """Where the image alone has more, its sides are as short as may be."""
    sizes = whole(path)[1]
    program = xg.compile(path, sizes=sizes)
    specs = {**program.params, **program.inputs}.values()
    shapes = [[int(axis) for axis in spec.shape] for spec in specs if spec.dtype == "float"]
    if path.stem in HALVED:
        assert sizes["H"] == HALVED[path.stem]
    else:
        assert sum(map(prod, shapes)) <= SCALARS_AT_MOST


@pytest.mark.parametrize("path", TRIED, ids=lambda path: path.stem)
def test_axes_that_differ_have_different_lengths(path: Path) -> None:
    """Else an exchange of two axes would not be seen."""
    program, sizes = whole(path)
    for type_ in program.graphs.main.types.values():
        for one, other in combinations(set(type_.shape), 2):
            if one.constant is None or other.constant is None:
                assert one.evaluate(sizes) != other.evaluate(sizes), f"{one} and {other}"


def test_symbols_without_ties_are_different_primes(tmp_path: Path) -> None:
    sizes = sizes_of(
        "dim B, D = 64, E = 3\nblock Net(X [B, D]) -> Y [B, E] {\n"
        "    param W [D, E]\n    X -> •<=W : Y\n}\n",
        tmp_path,
    )
    assert sizes.keys() == {"B", "D", "E"}
    assert len(set(sizes.values())) == 3
    assert all(size in PRIMES for size in sizes.values())


def test_what_divides_does(tmp_path: Path) -> None:
    sizes = sizes_of(
        "dim B, S, D, N_H, D_h = D/N_H, H, P\n"
        "block Net(X [B, S, D], I [B, H]) -> Y [B, S, D], Z [B, H] {\n"
        "    X -> R : Q [B, N_H, S, D_h] -> RoPE -> R : Y\n"
        "    I -> R[b, (h, p=P) -> b, (p, h)] : Z [B, H]\n}\n",
        tmp_path,
    )
    assert sizes["D"] % (2 * sizes["N_H"]) == 0  # RoPE turns pairs
    assert sizes["H"] % sizes["P"] == 0
    assert sizes["H"] > sizes["P"]


def test_bounds_hold_and_rounds_are_few(tmp_path: Path) -> None:
    sizes = sizes_of(
        "dim B, S, S_max, D, N = 100\n"
        "block Part(X [B, S, D]) -> Y [B, S, D] {\n    X -> LN : Y\n}\n"
        "block Net(X [B, S, D]) -> Y [B, S, D] {\n"
        "    param P [S_max, D]\n"
        "    range(S) -> Emb(P) : E [S, D]\n"
        "    X -> ⊕<-BC(E) -> N × Part as parts : Y\n}\n",
        tmp_path,
    )
    assert sizes["S"] <= sizes["S_max"]
    assert sizes["N"] == ROUNDS
    assert sizes["D"] >= LEAST_MEAN


def test_what_is_given_stays(tmp_path: Path) -> None:
    text = (
        "dim B, S, D = 64, N_H = 4, D_h = D/N_H\n"
        "block Net(X [B, S, D]) -> Y [B, S, D] {\n"
        "    X -> R : Q [B, N_H, S, D_h] -> S -> R : Y\n}\n"
    )
    assert sizes_of(text, tmp_path, {"N_H": 4})["D"] % 4 == 0
    fixed = sizes_of(text, tmp_path, {"D": 64})
    assert fixed["D"] == 64
    assert fixed["N_H"] == 4  # no prime divides 64, so the file's own number stays
    several = text.replace("N_H = 4", "N_H").replace("R : Q", "R : W [B, S, N_H, D_h] -> R : Q")
    assert sizes_of(several, tmp_path, {"D": 35})["N_H"] == 5  # it has none: a divisor of 35


APART = """dim B, D = 8, N_L = 12, N_0 = 1, N_1 = N_L - N_0
block Layer(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W : Y
}
block Net(X [B, D]) -> Y [B, D] {
    X -> N_0 × Layer as first -> N_1 × Layer as rest : Y
}
"""


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ({}, (2, 2)),
        ({"N_0": 3}, (3, 2)),
        ({"N_0": 0}, (0, 2)),
        ({"N_L": 7}, (2, 5)),
        ({"N_L": 3}, (1, 2)),
        ({"N_L": 2}, (1, 1)),
        ({"N_L": 1}, (1, 0)),  # as the file has it: of its one layer N_0 is one
    ],
)
def test_what_is_left_of_repetitions_is_tried_too(
    given: dict[str, int], counts: tuple[int, int], tmp_path: Path
) -> None:
    sizes = {**sizes_of(APART, tmp_path, given), **given}
    assert (sizes["N_0"], sizes["N_L"] - sizes["N_0"]) == counts


@pytest.mark.parametrize(
    ("written", "counts"),
    [("N_L = 12, N_0 = 0", (0, 2)), ("N_L = 4, N_0 = 4", (2, 0)), ("N_L = 0, N_0 = 0", (0, 0))],
)
def test_no_rounds_in_the_file_are_none_in_the_proof(
    written: str, counts: tuple[int, int], tmp_path: Path
) -> None:
    sizes = sizes_of(APART.replace("N_L = 12, N_0 = 1", written), tmp_path)
    assert (sizes["N_0"], sizes["N_L"] - sizes["N_0"]) == counts
    proof = prove(read_project(tmp_path / "net.xg"), None, {}, 0)
    assert proof.passed
    paths = [f"{name}.{n}" for name, count in zip("ab", counts, strict=True) for n in range(count)]
    assert len(proof.gradients.rows) == 1 + len(paths)


def test_a_loop_goes_far_enough_for_all_that_is_done_between_rounds() -> None:
    """All that RWKV takes off a weight between rounds first shows in the third."""
    path = next(path for path in DIAGRAMS if path.stem == "rwkv")
    assert verification_sizes(xg.compile(path).graphs, {})["S"] >= LEAST_ROUNDS


def test_a_length_that_is_set_leaves_the_others_small() -> None:
    """With one position a loop is too short and axes of length 1 are equal: it stays so."""
    path = next(path for path in DIAGRAMS if path.stem == "mamba2")
    program = xg.compile(path)
    free = verification_sizes(program.graphs, {})
    short = verification_sizes(program.graphs, {"S": 1})
    assert short["S"] == 1
    assert max(short.values()) <= 2 * max(free.values())


NUMBERS = {
    "e = D/2": ("", "scale(e)"),
    "1/(D - 3)": ("", "scale(1/(D - 3))"),
    "sqrt(D - 4)": ("", "scale(sqrt(D - 4))"),
    "G(d=D/2)": ("block G(X [B, D]) -> Y [B, D] { dim d\n X -> scale(d) : Y }\n", "G(d=D/2)"),
    "5*N = D": ("block G(X [B, 5*N]) -> Y [B, 5*N] { X -> tanh : Y }\n", "G"),
    "M × G": ("block G(X [B, D]) -> Y [B, D] { X -> tanh : Y }\n", "M × G"),
    "N alone": ("", "scale(N)"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_are_used_have_values(name: str, tmp_path: Path) -> None:
    """A size that is no axis is whole as well, and no number is divided by zero."""
    block, chain = NUMBERS[name]
    dims = "dim B, D = 8, N, L = 6, M = L/3, e = D/2\n"
    text = f"{dims}{block}block Net(X [B, D]) -> Y [B, D] {{ X -> {chain} : Y }}\n"
    (tmp_path / "net.xg").write_text(text, encoding="utf-8")
    assert prove(read_project(tmp_path / "net.xg"), "Net", {}, 0).passed


def test_a_size_that_no_axis_has_keeps_its_number(tmp_path: Path) -> None:
    text = "dim B, N = 9\nblock Net(X [B]) -> Y [B] { X -> scale(1/sqrt(N)) : Y }\n"
    assert sizes_of(text, tmp_path).keys() == {"B"}


DEAD = """\
dim B, V, S_max = 40
block G(X [B, V]) -> Y [B, V] {
    param P [S_max, V]
    range(B) -> Emb(P) : E [B, V]
    X -> ⊕<-E : Y
}
block F(X [B, V]) -> Y [B, V] {
    X -> G(S_max=S_max) as g : Y
    X, X -> C[B] : Z [2*B, V]
    Z -> G(S_max=S_max, B=2*B) as unread : U
}
"""


def test_what_no_output_needs_bounds_sizes_too(tmp_path: Path) -> None:
    """The file is refused for B = 5 and S_max = 7, also where no output needs the second call."""
    path = tmp_path / "dead.xg"
    path.write_text(DEAD, encoding="utf-8")
    proof = prove(read_project(path), "F", {}, 0)
    assert 2 * proof.sizes["B"] <= proof.sizes["S_max"]
    whole = verification_sizes(xg.compile(path, block="F").graphs, {})
    assert 2 * whole["B"] > whole["S_max"]  # without it nothing would say so
