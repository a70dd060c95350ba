"""Texts that no one would write are read to the end, and those that are accepted compile."""

from __future__ import annotations

import pytest
from fuzz import texts
from fuzz.shrink_text import shrink_text
from fuzz.texts import text_failure, text_of
from tier import THOROUGH

TEXTS = 4_000 if THOROUGH else 200
CHUNK = 100


@pytest.mark.parametrize("start", range(0, TEXTS, CHUNK))
def test_changed_texts(start: int) -> None:
    tried = ((seed, text_failure(text_of(seed), seed)) for seed in range(start, start + CHUNK))
    failures = [f"seed {seed}: {message}" for seed, (kind, message) in tried if kind]
    assert not failures, "\n".join(failures)


def test_a_text_is_made_as_short_as_its_failure() -> None:
    text = "dim B = 3\n\nblock Main(x [B]) -> y [B] {\n    x -> tanh : y\n}\n"
    assert shrink_text(text, lambda shorter: "tanh" in shorter and "[" in shorter) == "[tanh"


def test_failures_of_every_sort_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controls: an endless loop, an error of Python, a layout that changes the program."""
    text = b"dim B = 3\nblock Main(x [B]) -> y [B] {\n    x -> tanh : y\n}\n"
    assert text_failure(text) == ("", "")

    def endless(*_: object) -> None:
        while True:
            pass

    def wrong(*_: object) -> str:
        return "dim B = 4\n"

    def broken(*_: object) -> None:
        raise KeyError

    monkeypatch.setattr(texts, "SECONDS", 0.2)
    monkeypatch.setattr(texts, "LAID_OUT", 1.0)
    for replacement, kind in ((endless, "slow"), (wrong, "assert fmt"), (broken, "KeyError")):
        monkeypatch.setattr(texts, "format", replacement)
        assert text_failure(text)[0].startswith(kind)


def test_a_name_that_a_repair_put_in_is_asked_about() -> None:
    text = b"block Net()->loss{}\nexample of Net{given ids=1,example=0 E=[]}"
    assert text_failure(text, 21947) == ("", "")


@pytest.mark.parametrize(
    ("text", "seed"),
    [
        ("block Attention(X[]M[)->Y \n    X->⊕<-M Y}", 2793),
        ("op h(x[..)=x*dim", 3593),
        (
            "dim B D\nblock F(x[B D)->y\n    x->tanh y\nblock A(x[B D)->[]\n    F(x)as f->y}",
            54308,
        ),
        ("dim from,D=param,N_H", 44785),
        ("dim D\nblock F(x[)->y\n    param W[-1 D]\n    x->•<=W y}", 46182),
        (
            "dim B,S,D\nblock Cell(x[B D)->y\n    state h=zeros\n    x->tanh y\n    next h=y\n"
            "block Net(X[B S D)->[]\n    X->Cell over S\n    X",
            162185,
        ),
        ("block A(X[)->[]\n    param E\n    X->Emb(E)\n    X", 377387),
    ],
)
def test_a_head_that_is_repaired_is_typed(text: str, seed: int) -> None:
    """Outputs without shapes, a name that a repair left empty, matrices and tables of no rows."""
    assert text_failure(text.encode(), seed) == ("", "")
