"""Checking tries enough choices of options that no error escapes."""

from itertools import product
from pathlib import Path

import pytest
from program_files import PROGRAMS

import xg
from xg.frontend.blocks import concerning, uncalled
from xg.frontend.choices import check_choices, choices_to_meet
from xg.frontend.project import parse_project, read_project

ROOT = Path(__file__).parents[2]
MODEL = read_project(ROOT / "diagrams" / "models" / "transformer.xg")


def test_every_block_meets_all_that_it_can_tell_apart() -> None:
    layers: set[tuple[object, ...]] = set()
    heads: set[tuple[object, ...]] = set()
    for entry, settings in choices_to_meet(MODEL):
        chosen = {"norm": "pre", "ffn": "MLP", "pos": "learned", "head": "tied", **settings}
        if entry in ("LM", "Layer"):
            layers.add((chosen["norm"], chosen["ffn"]))
        if entry == "LM":
            heads.add((chosen["norm"], chosen["pos"], chosen["head"]))
    assert layers == set(product(("pre", "post"), ("MLP", "GatedMLP")))
    places = ("learned", "sinusoidal", "rope")
    assert heads == set(product(("pre", "post"), places, ("tied", "own")))


def test_far_fewer_than_all_combinations() -> None:
    assert len(choices_to_meet(MODEL)) < 2 * 2 * 2 * 3 * 2


@pytest.mark.parametrize("words", list(product(("a1", "a2"), ("b1", "b2"))))
def test_a_mistake_of_any_one_combination_is_found(words: tuple[str, str], tmp_path: Path) -> None:
    """The error needs two options of one block at once."""
    one, other = words
    (tmp_path / "net.xg").write_text(
        "dim B, D\noption a = a1 | a2\noption b = b1 | b2\n"
        "block Net(X [B, D]) -> Y [B, D] {\n"
        f"    X -> sum[D] if a = {one} -> BC[b -> b, d=D] if a = {one} -> ReLU : M [B, D]\n"
        f"    M -> T if a = {one} -> T if b = {other} -> T if a = {one} : Y\n}}\n"
    )
    project = read_project(tmp_path / "net.xg")
    assert check_choices(project)
    wrong = 0
    for a, b in product(("a1", "a2"), ("b1", "b2")):
        try:
            xg.compile(tmp_path / "net.xg", options={"a": a, "b": b})
        except xg.DiagnosticError:
            wrong += 1
    assert 0 < wrong < 4


def test_blocks_that_nobody_calls() -> None:
    assert uncalled(MODEL.main) == ("LM",)  # GatedMLP is a word of an option
    flow = read_project(ROOT / "diagrams" / "notation" / "flow.xg")
    assert uncalled(flow.main) == ("Flow",)


def test_settings_go_to_the_block_that_knows_them() -> None:
    settings = {"mask": "causal", "norm": "post", "p": 0, "nonsense": 1}
    assert concerning(MODEL, "Attention", settings).keys() == {"mask", "norm", "p", "nonsense"}
    assert concerning(MODEL, "LM", settings).keys() == {"norm", "nonsense"}


DIVIDED = """\
dim B, D = 8, N = 0, K = D/N
mesh N_T = 2
block F(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W : Y
}
plan TP of F {
    W [D, D/N_T]
}
"""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "nothing uses the dim K"),
        ({"W [D, D]": "W [D, K]", "Y [B, D]": "Y [B, K]"}, "D/N divides by zero"),
        ({"[D, D/N_T]": "[D, K/N_T]"}, "W is [D, D], but the plan says [D, K/N_T]"),
        ({"N_T = 2": "N_T = 0"}, "N_T cannot be 0"),
    ],
)
def test_a_size_divided_by_zero_is_an_error_where_it_is_used(
    changes: dict[str, str], said: str
) -> None:
    text = DIVIDED
    for before, after in changes.items():
        text = text.replace(before, after)
    assert said in "\n".join(each.message for each in check_choices(parse_project(text.encode())))


# What this edition does not compile yet, and what it says of it.
LATER = {
    "09_decode": "the state K_c is [B, N_KV, T, D_h], but becomes [B, N_KV, T + 1, D_h]",
    "10_moe": "is called Route",
}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_of_the_language_is_right_at_its_own_numbers(path: Path) -> None:
    told = [each.message for each in check_choices(read_project(path))]
    assert bool(told) == (path.stem in LATER)
    assert LATER.get(path.stem, "") in "".join(told[:1])


def test_blocks_that_only_another_choice_of_a_used_file_reaches_are_met(tmp_path: Path) -> None:
    """Q is reached where f is Q, and has choices of its own then."""
    (tmp_path / "used.xg").write_text(
        "dim B, D = 4\noption f = P | Q\noption g = tanh | T\n"
        "block P(X [B, D]) -> Y [B, D] {\n    X -> tanh : Y\n}\n"
        "block Q(X [B, D]) -> Y [B, D] {\n    X -> g : Y\n}\n"
        "block A(X [B, D]) -> Y [B, D] {\n    X -> f : Y\n}\n"
    )
    (tmp_path / "net.xg").write_text(
        'use A from "used.xg"\ndim B, D = 4\nblock Net(X [B, D]) -> Y [B, D] {\n    X -> A : Y\n}\n'
    )
    (found,) = check_choices(read_project(tmp_path / "net.xg"))
    assert found.message == "T cannot make [B, D] from [B, D] by reordering axes"
