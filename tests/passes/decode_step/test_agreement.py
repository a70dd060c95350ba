"""A step gives what the whole text gives, in pieces of any size, to 1e-12 in float64."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from library import shipped
from passes.decode_step.stepping import (
    LENGTH,
    LIBRARY,
    Stepping,
    entered,
    llama,
    stepping,
    transformer,
    written,
)
from tier import some

import xg
from xg.ir.dim import ONE, ZERO
from xg.ir.graph import Apply
from xg.ir.prim import Expr, as_float, iota, reshape
from xg.passes.ir_text import spell_program

PIECES = ((LENGTH,), (1,) * LENGTH, (3, 4), (2, 1, 4))
EXACT = 1e-12
WORDS = {
    "norm": ("pre", "post"),
    "ffn": ("MLP", "GatedMLP"),
    "act": ("GELU", "ReLU"),
    "pos": ("learned", "sinusoidal", "rope"),
    "head": ("tied", "own"),
}
EVERY = [dict(zip(WORDS, words, strict=True)) for words in product(*WORDS.values())]
FIRST = EVERY[0]


def apart(options: dict[str, str]) -> object:
    """Daily each option with the first of the others, and a variant without any of the first."""
    others = {name: word for name, word in options.items() if word != FIRST[name]}
    return tuple(others.items()) if len(others) < 2 else len(others) == len(WORDS)


VARIANTS = some(EVERY, apart)


def error(one: Stepping, pieces: tuple[int, ...] = (2, 1, 4)) -> float:
    """The largest difference between the output of pieces and that of the whole text."""
    return float(np.abs(one.stepped(pieces) - one.expected()).max())


@pytest.mark.parametrize("options", VARIANTS, ids=lambda options: "-".join(options.values()))
def test_every_variant_of_the_language_model(options: dict[str, str]) -> None:
    assert error(stepping(transformer(**options))) < EXACT


@pytest.mark.parametrize("pieces", PIECES, ids=str)
def test_pieces_of_every_size(pieces: tuple[int, ...]) -> None:
    assert error(stepping(transformer()), pieces) < EXACT
    assert error(stepping(llama()), pieces) < EXACT
    odd = xg.compile(Path(__file__).with_name("odd.xg"))
    assert error(stepping(odd, output="Z"), pieces) < EXACT


@pytest.mark.parametrize("pieces", PIECES, ids=str)
def test_a_loop_goes_on_where_the_step_before_ended(pieces: tuple[int, ...]) -> None:
    recurrent = xg.compile(Path(__file__).with_name("recurrent.xg"))
    assert error(stepping(recurrent), pieces) < EXACT
    assert error(stepping(xg.compile(shipped("gru"))), pieces) < EXACT


def test_a_recurrence_keeps_nothing_that_grows() -> None:
    states = stepping(xg.compile(shipped("gru"))).empty()
    assert {path: array.shape for path, array in states.items()} == {"cell.h": (2, 48)}
    recurrent = stepping(xg.compile(Path(__file__).with_name("recurrent.xg"))).empty()
    loops = {path: array.shape for path, array in recurrent.items() if path.endswith(("h", "h_2"))}
    layers = {f"layers.{i}.cell.h": (2, 6) for i in range(2)}
    assert loops == {**layers, "decay.h": (2, 6), "decay.h_2": (2, 6)}


def test_a_state_that_is_forgotten_is_seen() -> None:
    one = stepping(xg.compile(shipped("gru")))
    _, states = one.one(one.empty(), 0, 3)
    assert np.abs(one.one(states, 3, 5)[0] - one.expected()[:, 3:5]).max() < EXACT
    assert np.abs(one.one(one.empty(), 3, 5)[0] - one.expected()[:, 3:5]).max() > 1e-3


def test_a_decoder_behind_an_encoder() -> None:
    sizes = {"V_e": 13, "V_d": 11, "S_e": 5, "N": 2, "N_H": 3, "D": 12, "D_ff": 14}
    whole = xg.compile(LIBRARY / "models" / "encoder_decoder.xg", "Transformer", sizes=sizes)
    one = stepping(whole, axis="S_d")
    once = whole.prologue()
    assert once is not None
    assert (list(once.inputs), list(once.outputs)) == (["x"], ["M"])
    assert list(one.step.inputs) == ["y", "M"]
    assert {name.split(".")[0] for name in once.params} == {"E_x", "encoder"}
    assert {name.split(".")[0] for name in one.step.params} == {"E_y", "W", "b", "decoder"}
    assert error(one) < EXACT
    inside = stepping(
        xg.compile(LIBRARY / "models" / "encoder_decoder.xg", "Translator", sizes=sizes), "S_d"
    )
    assert list(inside.step.inputs) == ["y", "M"]
    assert error(inside) < EXACT
    wrong = replace(one, given={"M": one.given["M"] * 1.1})
    assert error(wrong) > 1e-3


def test_keys_and_values_of_a_text_that_stays_are_given() -> None:
    attention = xg.compile(LIBRARY / "models" / "transformer.xg", "Attention", sizes={"S_k": 5})
    one = stepping(attention)
    assert list(one.step.inputs) == ["X", "K", "V"]
    assert error(one) < EXACT
    assert transformer().prologue() is None


def test_grouped_queries_keep_the_few_heads() -> None:
    states = {path: array.shape for path, array in stepping(llama()).empty().items()}
    assert states == {
        "ids": (2, 0),
        **{f"layers.{i}.attn.{name}": (2, 2, 0, 4) for i in range(2) for name in ("K", "V")},
    }


def test_a_second_call_by_one_name_has_states_of_its_own() -> None:
    odd = xg.compile(Path(__file__).with_name("odd.xg"))
    states = stepping(odd, output="Z").empty()
    assert sorted(states) == ["H_1", "H_3", "mix.KT", "mix.KT_2", "mix.Y_in", "mix.Y_in_2"]


def test_a_block_of_a_step_has_a_key_of_its_own_and_the_parameters_that_it_reads() -> None:
    odd = xg.compile(Path(__file__).with_name("odd.xg")).step(output="Z").graphs.graphs
    mix = ["W_Q", "W_K", "W_V"]
    read = {key: [str(param.value.name) for param in graph.params] for key, graph in odd.items()}
    assert read == {"Mix": mix, "Mix (2)": mix, "Odd": ["E", "P", "W"]}
    attention = "(mask=causal, p=0.1)"
    assert sorted(transformer().step().graphs.graphs) == [
        f"Attention{attention}",
        "LM",
        f"Layer{attention}",
        "MLP",
    ]


def test_the_loss_and_dropout_are_gone() -> None:
    step = transformer().step()
    text = spell_program(step.graphs)
    assert list(step.inputs) == ["ids"]
    assert "CE(" not in text
    assert "DO(" not in text
    assert set(step.params) == set(transformer().params)


def without_offset(step: Apply) -> Apply:
    """The same operator counting from 0, as if nothing had been there before."""
    if step.op.name != "offset range":
        return step

    def forward(**_: object) -> object:
        body = step.op.forward()
        return [replace(out, attrs=(out.attrs[0], ("start", ZERO))) for out in body]

    return replace(step, op=replace(step.op, forward=forward))


def test_a_wrong_offset_is_seen() -> None:
    one = stepping(transformer())
    main = one.step.graphs.main
    broken = replace(
        main,
        steps=tuple(without_offset(s) if isinstance(s, Apply) else s for s in main.steps),
    )
    graphs = {**one.step.graphs.graphs, main.key: broken}
    wrong = replace(one, step=replace(one.step, graphs=replace(one.step.graphs, graphs=graphs)))
    assert error(one) < EXACT
    assert error(wrong) > 1e-2
    assert error(wrong, (LENGTH,)) < EXACT  # the first step begins at 0


def test_a_forgotten_state_is_seen() -> None:
    one = stepping(llama())
    _, states = one.one(one.empty(), 0, 3)
    right, _ = one.one(states, 3, LENGTH)
    wrong, _ = one.one({**states, "layers.1.attn.V": states["layers.1.attn.V"] * 0}, 3, LENGTH)
    assert np.abs(right - one.expected()[:, 3:]).max() < EXACT
    assert np.abs(wrong - right).max() > 1e-2


def test_the_figure_shows_what_was_before() -> None:
    attention = entered(llama().step(), "GQA")
    dot = attention.dot()
    assert "step" in attention.figure("forward").subtitle
    assert dot.count("past") >= 2


def test_a_step_costs_what_its_cache_is_long() -> None:
    step = llama().step()
    forward = step.cost().total.forward
    numbers = step.graphs.main.sizes.bind(step.graphs.numbers) | {"B": 1, "S": 1}
    at = [forward.evaluate(numbers | {"T": length}) for length in (100, 200, 300)]
    assert at[2] - at[1] == at[1] - at[0]
    whole = llama().cost().total.forward
    again = [whole.evaluate(numbers | {"S": length}) for length in (101, 201, 301)]
    assert again[2] - again[1] > again[1] - again[0]
    assert at[0] * 20 < again[0]


@pytest.mark.parametrize("width", [1, 2, 4])
def test_a_selective_state_space_keeps_as_much_after_any_text(width: int) -> None:
    """The states of the recurrence, and of the convolution in front of it the last positions."""
    sizes = {"V": 13, "D": 6, "N_L": 1, "N": 3, "R": 2, "k": width}
    one = stepping(xg.compile(shipped("mamba"), sizes=sizes))
    shapes = {path.removeprefix("layers.0.mixer."): a.shape for path, a in one.empty().items()}
    assert shapes == {"U": (2, width - 1, 12), "ssm.h": (2, 12, 3)}
    for pieces in PIECES:
        assert error(one, pieces) < EXACT
    _, states = one.one(one.empty(), 0, 3)
    assert {path: array.shape for path, array in states.items()} == {
        path: array.shape for path, array in one.empty().items()
    }
    for path in states if width > 1 else ():
        forgotten = {**states, path: one.empty()[path]}
        assert np.abs(one.one(forgotten, 3, 5)[0] - one.expected()[:, 3:5]).max() > 1e-6


MASKED = """\
dim B, S, D = 6
op Hide(a [.., S, T]) = select({mask}, a, -inf)
    where i = range[S](T - S), j = range[T]
op Turned(a [.., T, S]) = select({mask}, a, -inf)
    where i = range[S](T - S), j = range[T]
block Net(X [B, S, D]) -> Y [B, S, D] {{
    param W_K [D, D]
    X -> •<=W_K : K [B, S, D]
    {scores} : A [B, S, S]
      -> S -> •<=X : Y
}}
"""
ROWS, COLUMNS = "X -> •<=T(K) -> Hide", "K -> •<=T(X) -> Turned -> T"


@pytest.mark.parametrize("scores", [ROWS, COLUMNS])
@pytest.mark.parametrize("mask", ["i >= j", "i - 1 >= j - 1", "1 + i >= 1 + j", "i - 1 >= j"])
def test_a_mask_of_positions_may_be_shifted_and_turned(mask: str, scores: str) -> None:
    assert error(stepping(written(MASKED.format(mask=mask, scores=scores)))) < EXACT


def test_a_mask_that_counts_down_is_not_followed() -> None:
    later = written(MASKED.format(mask="5 - i >= 5 - j", scores=ROWS))
    with pytest.raises(xg.DiagnosticError, match="over all positions"):
        stepping(later)


PASSED_ON = """\
dim B, S, D = 6
block Weigh(A [B, S, S], X [B, S, D]) -> Y [B, S, D] {
    A -> S -> •<=X : Y
}
block Net(X [B, S, D]) -> Y [B, S, D] {
    X -> •<=T(X) -> SM(1, causal) : A [B, S, S]
    A, X -> Weigh : Y
}
"""


def test_a_mask_is_known_in_the_block_that_scores_are_given_to() -> None:
    assert error(stepping(written(PASSED_ON))) < EXACT


SAME_LENGTHS = """\
dim B, S, S_k, D = 6, N = 2
block Fold(X [B, S, D]) -> Y [B, S, D] {
    param W [D, D]
    X -> •<=W -> tanh : Y
}
block Layer(X [B, S, D], M [B, S_k, D]) -> Y [B, S, D] {
    X -> •<=T(M) -> SM(1, causal) -> S -> •<=M : H [B, S, D]
      -> N × Fold as folds -> Fold as last     : Y
}
block Net(X [B, S, D]) -> Y [B, S, D] {
    X, X -> Layer as layer : Y
}
"""


def test_calls_stay_as_many_where_two_lengths_are_one() -> None:
    one = stepping(written(SAME_LENGTHS, "Net"))
    assert error(one) < EXACT
    assert sorted(one.step.params) == [
        *(f"layer.folds.{i}.W" for i in range(2)),
        "layer.last.W",
    ]


MEAN_OF_HEADS = """\
dim B, S, D = 6, N_H = 2
block Net(X [B, S, D], Q [B, N_H, S, D]) -> Y [B, S, D] {
    X -> BC[b, s, d -> b, n=N_H, s, d]                     : K [B, N_H, S, D]
    Q -> •<=T(K) -> SM(1, causal) -> S -> mean[N_H] -> •<=X : Y
}
"""


def test_what_is_hidden_stays_so_in_a_mean_of_heads() -> None:
    assert error(stepping(written(MEAN_OF_HEADS))) < EXACT


LENT = """\
dim B, S_e = 5, S, D = 6
block Encoder(x [B, S_e, D]) -> M [B, S_e, D] {
    param E [D, D]
    x -> •<=E -> tanh : M
}
block Two(X [B, S, D]) -> Y [B, S, D], Z [B, S, D] {
    param F, G, H [D, D]
    X -> •<=F : Y
    X -> •<=G : Z
}
block Net(x [B, S_e, D], X [B, S, D], t [B, S, D]) -> Y [B, S, D], loss [] {
    x -> Encoder as encoder                                          : M
    X -> Two as two                                                  : U, V
    U -> •<=T(M) -> S -> •<=M -> •<=T(encoder.E) -> •<=T(two.F)      : Y
    U -> •<=T(two.G) -> ⊕<-V -> MSE<-t                               : loss
}
"""


def test_parameters_are_lent_where_a_step_reads_them() -> None:
    """Of a call that is made before the first step, too; not for a loss that is left out."""
    one = stepping(written(LENT.replace(", H", ""), "Net"))
    assert error(one) < EXACT
    assert sorted(one.step.params) == ["two.F"]


def test_what_dropout_leaves_has_the_name_of_its_result() -> None:
    text = MASKED.format(mask="i >= j", scores=f"{ROWS} -> DO(0.1)").replace(
        "X : Y", "X -> DO(0.1) : Y"
    )
    step = spell_program(written(text).step().graphs)
    assert "  A [B, S, S + T] = " in step
    assert "  Y [B, S, D] = " in step


SHORT = """\
dim S, D = 6
block Net(X [S, D]) -> Y [S, D] {
    param K [3, D, D]
    X -> conv[S](K, causal) : Y
}
"""


def by_positions(step: Apply) -> Apply:
    """A convolution whose rows are multiplied by their positions, too."""

    def forward(*operands: Expr, **attrs: object) -> Expr:
        y = step.op.forward(*operands, **attrs)
        assert isinstance(y, Expr)
        return y * as_float(reshape(iota(y.shape[0]), (y.shape[0], ONE)))

    return replace(step, op=replace(step.op, forward=forward))


def test_windows_keep_the_last_positions_unless_these_are_counted() -> None:
    plain = written(SHORT)
    one = stepping(plain)
    assert {path: array.shape for path, array in one.empty().items()} == {"X": (2, 6)}
    assert error(one) < EXACT
    main = plain.graphs.main
    steps = tuple(by_positions(step) for step in main.steps if isinstance(step, Apply))
    graphs = {main.key: replace(main, steps=steps)}
    counted = stepping(replace(plain, graphs=replace(plain.graphs, graphs=graphs)))
    assert {path: array.shape for path, array in counted.empty().items()} == {"X": (0, 6)}
    assert error(counted) < EXACT
