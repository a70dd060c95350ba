"""Scores with a number for each bucket of distances, as T5 has them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from importing.agreement import compare
from importing.families import Family
from importing.sweep import outcome_of
from models.witness import quietly
from tier import THOROUGH, some
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

import xg
from xg.driver import compile_project
from xg.frontend.project import parse_project
from xg_torch.importing.recognize import Buckets

Rule = Callable[[Tensor], Tensor]


def rule(count: int, far: int, *, past: bool, kind: torch.dtype = torch.float32) -> Rule:
    """T5's buckets, written as its first code has them."""

    def buckets(ahead: Tensor) -> Tensor:
        own = count if past else count // 2
        first = 0 if past else (ahead > 0).long() * own
        distance = -torch.minimum(ahead, torch.zeros_like(ahead)) if past else ahead.abs()
        exact = own // 2
        log = torch.log(distance.to(kind) / exact) / math.log(far / exact)
        beyond = exact + (log * (own - exact)).long()
        beyond = torch.minimum(beyond, torch.full_like(beyond, own - 1))
        return first + torch.where(distance < exact, distance, beyond)

    return buckets


class Biased(nn.Module):
    """Attention with a bias by distance; `stored` is how long its table of buckets is, if it is."""

    table: Tensor | None

    def __init__(self, count: int, of: Rule, stored: int = 0, form: str = "sdpa") -> None:
        super().__init__()
        self.of, self.form = of, form
        self.bias = nn.Embedding(count, 3)
        self.qkv = nn.Linear(6, 18)
        self.register_buffer("table", of(self.ahead(stored)) if stored else None)

    @staticmethod
    def ahead(length: int) -> Tensor:
        return torch.arange(length)[None] - torch.arange(length)[:, None]

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        table = self.of(self.ahead(x.shape[1])) if self.table is None else self.table
        bias = self.bias(table).permute(2, 0, 1)[None]
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, 3, 2).permute(2, 0, 3, 1, 4)
        if self.form == "sdpa":
            shown = torch.where(keep[:, None, None] > 0, bias, torch.finfo(bias.dtype).min)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=shown, scale=0.5)
        else:
            scores = q @ k.transpose(2, 3) + bias
            hidden = keep[:, None, None] == 0
            y = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v
        return y.transpose(1, 2).flatten(2)


def example(length: int) -> tuple[Tensor, Tensor]:
    keep = torch.ones(2, length, dtype=torch.long)
    keep[1, -2:] = 0
    return torch.randn(2, length, 6).double(), keep


def agree(model: nn.Module, *lengths: int) -> str:
    """The text of an imported model, after it was compared at these lengths."""
    torch.manual_seed(3)
    model = model.double()
    made = xg.trace(model, *example(7))
    for length in lengths:
        outputs, gradients = compare(model, made, example(length), dict(made.params))
        assert outputs < 1e-10
        assert gradients < 1e-8
    return made.text


CONFIGURATIONS = [(32, 128, False), (32, 128, True), (8, 20, False), (6, 9, True), (9, 33, False)]


EVERY = [(*each, form) for form in ("sdpa", "eager") for each in CONFIGURATIONS]
FORMS = some([*EVERY[::2], *EVERY[1::2]], lambda each: each[:3])  # daily a form each, by turns


@pytest.mark.parametrize(("count", "far", "past", "form"), FORMS)
def test_buckets_are_recognized_and_right_beyond_the_last(
    count: int, far: int, past: bool, form: str
) -> None:
    text = agree(Biased(count, rule(count, far, past=past), form=form), 5, far + 9)
    assert f"N_B = {count}" in text
    assert f"S_far = {far}" in text
    assert f"buckets(S, S, N_B, S_far{', past' * past}) -> Emb(R_bias)" in text
    assert re.search(r"⊕<-\w+ -> SM<-M -> S ", text)  # the mask behind the bias


@pytest.mark.parametrize("past", [False, True])
def test_a_stored_table_of_buckets_is_recognized(past: bool) -> None:
    """There any distance will do that gives the same numbers."""
    model = Biased(8, rule(8, 20, past=past), stored=25).double()
    made = xg.trace(model, *example(25))
    assert f"buckets(25, 25, N_B, S_far{', past' * past})" in made.text
    assert made.proof.worst < 1e-8


OTHERS: list[tuple[str, Rule]] = [
    ("clipped", lambda ahead: torch.minimum(ahead.abs(), torch.full_like(ahead, 7))),
    ("later ones first", lambda ahead: rule(8, 20, past=False)(-ahead)),
    ("another slope", lambda ahead: rule(8, 20, past=False)(3 * ahead)),
    ("one distance off", lambda ahead: rule(8, 20, past=True)(ahead + (ahead == -14))),
]


STORED = [(*other, stored) for stored in (0, 25) for other in OTHERS]
# Daily each function in one form, by turns.
REFUSED = some([*STORED[::2], *reversed(STORED)], lambda each: each[0])


@pytest.mark.parametrize(
    ("of", "stored"), [each[1:] for each in REFUSED], ids=[f"{n}-{s}" for n, _, s in REFUSED]
)
def test_other_functions_of_distances_are_refused(of: Rule, stored: int) -> None:
    model = Biased(8, of, stored).double()
    with pytest.raises(xg.DiagnosticError) as error:
        xg.trace(model, *example(25))  # with fixed sizes it may have shorter distances alone
    reason = "its indices are constants other than positions or buckets of distances"
    assert reason in str(error.value)


def test_the_buckets_that_are_looked_for_are_the_language_s() -> None:
    ahead = Biased.ahead(150).numpy()
    for past in (False, True):
        for count, far in ((32, 128), (8, 20), (5, 11), (16, 100), (4, 3)):
            word = ", past" if past else ""
            text = (
                f"dim S = 150, N = {count}, D = 2\nblock Net() -> Y [S, S, D] {{\n"
                "    param E [N, D]\n"
                f"    buckets(S, S, N, {far}{word}) -> Emb(E) : Y\n}}\n"
            )
            module = compile_project(parse_project(text.encode())).load()
            rows = np.repeat(np.arange(count, dtype=np.float64)[:, None], 2, 1)
            outputs, _ = module.forward({"E": rows}, {})
            assert (outputs["Y"][..., 0] == Buckets(count, far, past).of(ahead)).all()


def t5(kind: str, **config: Any) -> Any:  # noqa: ANN401 - a model of transformers
    sizes = {"vocab_size": 99, "d_model": 24, "d_kv": 6, "d_ff": 36, "num_heads": 4}
    transformers: Any = import_module("transformers")
    with quietly():
        torch.manual_seed(0)
        return getattr(transformers, kind)(
            transformers.T5Config(**sizes, decoder_start_token_id=0, num_layers=2, **config)
        )


def test_all_layers_of_t5_are_one_block_and_share_a_table() -> None:
    """Traced as a user has it: with its cache, its fused attention and float32."""
    model = t5("T5ForConditionalGeneration").eval()
    ids, keep = torch.arange(3, 17).reshape(2, 7), torch.ones(2, 7, dtype=torch.long)
    made = xg.trace(model, input_ids=ids, attention_mask=keep, decoder_input_ids=ids[:, :5])
    assert made.proof.worst < 1e-8
    assert re.search(r"buckets\(S, S, N_B, S_far\) -> Emb\(R_bias\) -> T\[.*\] : bias", made.text)
    assert re.search(r"buckets\(S_2, S_2, N_B, S_far, past\) -> Emb\(R_bias\)", made.text)
    assert made.text.count("R_bias [N_B, N_H]") == 2
    assert made.text.count("-> N_L × T5Block") == 2
    assert "N_H=N_H" in made.text  # cross-attention has no table that would say it
    assert made.sources["decoder.R_bias"].source.endswith("relative_attention_bias.weight")
    assert model.config.use_cache
    assert model.decoder.config.use_cache


VARIANTS = [
    Family("T5ForConditionalGeneration", "seq2seq", {"feed_forward_proj": "gated-gelu"}),
    Family("T5EncoderModel", "text", {"relative_attention_num_buckets": 8, "num_hidden_layers": 1}),
    Family("T5EncoderModel", "text", {"relative_attention_max_distance": 20, "head_dim": 5}),
    Family("UMT5EncoderModel", "text"),  # a table in each layer
]


@pytest.mark.parametrize(
    "family",
    VARIANTS if THOROUGH else VARIANTS[3:],
    ids=lambda each: f"{each.model}-{[*each.config]}",
)
def test_variants_of_t5_are_imported(family: Family) -> None:
    assert outcome_of(family) == ("agrees", "")
