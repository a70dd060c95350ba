"""A check after an edit, with what the last one remembers, as the language server makes it.

The model is the largest of the gallery: five blocks with 22 choices of options, and 22 plans. Its
check after an edit takes at most 100 ms where numbers or names changed, or a step is new that takes
its operand as it is on ranks. A machine may be twice as slow, so twice that is the limit here;
new steps that have to be placed are checked against a part of a first check, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import process_time

import pytest
from tier import THOROUGH

from xg.diagnostics.lazy_dataclass import resting_collector
from xg.frontend.choices import CheckMemory
from xg.frontend.project import KnownFiles
from xg_editor.session import analyze, read_text

FILE = Path(__file__).parents[2] / "diagrams" / "models" / "transformer.xg"
TEXT = FILE.read_text(encoding="utf-8")
LIMIT = 0.2  # seconds of processor time
OF_FIRST = 0.7  # of a first check; without a memory of blocks it is 1
UNMOVED = 0.5  # the same where nothing has to be placed again
EDITS = 5
Edit = tuple[str, str]  # a part of the text, and what it becomes; {} is another number each time

QUICK: dict[str, Edit] = {
    "a number of Attention": ("SM(1/sqrt(D_h), mask)", "SM(1.{}/sqrt(D_h), mask)"),
    "a default of Attention": ("causal, p = 0.1", "causal, p = 0.{}"),
    "a name in Attention": (" : KT [", " : KT{} ["),
    "a number of Layer": ("      -> ffn -> DO(p)", "      -> ffn -> DO(0.{})"),
    "a name in Layer": (": H [B, S, D]\n    H, H ->", ": H{} [B, S, D]\n    H{}, H{} ->"),
    "an argument in LM": ("Layer(causal)", "Layer(causal, 0.{})"),
    "a name in LM": (" : PE [", " : PE{} ["),
    "a size": (" V = 256", " V = 2{}"),
    "a comment": ("block Layer", "# {}\nblock Layer"),
}
ADDED: dict[str, Edit] = {
    "a step of MLP": ("act : U [", "act -> DO(0.{}) : U ["),
    "a step of GatedMLP": ("(X -> •<=W_up) : U [", "(X -> •<=W_up) -> DO(0.{}) : U ["),
    "a step of Attention": ("⊕<-BC(b_O) ", "⊕<-BC(b_O) -> DO(0.{}) "),
    "a step of Layer": ("-> ffn ", "-> ffn -> DO(0.{}) "),
    "a step of LM": ("ids -> Emb(E)", "ids -> Emb(E) -> DO(0.{})"),
}
PLACED: dict[str, Edit] = {
    "a product in Attention": ("⊕<-BC(b_O) ", "⊕<-BC(b_O) -> •<=W_O "),
    "a norm in Layer": ("-> ffn ", "-> ffn -> LN(γ_2, β_2) "),
    "a norm in LM": ("ids -> Emb(E)", "ids -> Emb(E) -> LN(γ, β)"),
}
# Daily by turns.
AT_ONCE = [*ADDED][:: 1 if THOROUGH else 2]
COMPARED = [*ADDED] if THOROUGH else [*ADDED][1::2]
READ = ("BC(PE)", "•<=KT ")  # where an edge is read that an edit renames


def seconds(text: str, memory: CheckMemory, known: KnownFiles) -> float:
    """Processor time of a check; the server's collector rests meanwhile."""
    with resting_collector():
        began = process_time()
        found = analyze(read_text(FILE, text, {}, known), memory)
        taken = process_time() - began
    assert [each.code for each in found.diagnostics if each.severity == "error"] == []
    return taken


def edited(edit: Edit, number: int) -> str:
    old, new = edit
    assert old in TEXT
    text = TEXT.replace(old, new.replace("{}", str(number)), 1)
    for read in READ:
        name = "".join(filter(str.isalpha, read)).removeprefix("BC")
        if f" : {name}{number} [" in text:
            text = text.replace(read, read.replace(name, f"{name}{number}"))
    return text


def fastest(check: Callable[[int], float], limit: float) -> float:
    """The fastest of some checks: other work on the machine may be the reason for a slow one."""
    least = float("inf")
    for number in range(EDITS):
        least = min(least, check(number))
        if least <= limit:
            break
    return least


@cache
def remembering() -> tuple[CheckMemory, KnownFiles]:
    """The memory of a check of the text, with all imported that a check needs."""
    memory, known = CheckMemory(), KnownFiles()
    seconds(TEXT, memory, known)
    return memory, known


@pytest.mark.parametrize("what", QUICK)
def test_an_edit_that_no_plan_sees_is_checked_at_once(what: str) -> None:
    memory, known = remembering()

    def again(number: int) -> float:
        return seconds(edited(QUICK[what], 20 + 2 * number), memory, known)

    assert fastest(again, LIMIT) <= LIMIT


def test_an_undone_edit_is_checked_at_once() -> None:
    memory, known = remembering()

    def undone(number: int) -> float:
        seconds(edited(ADDED["a step of LM"], 20 + number), memory, known)
        return seconds(TEXT, memory, known)

    assert fastest(undone, LIMIT / 2) <= LIMIT / 2


@cache
def first_and_again(edit: Edit, number: int) -> tuple[float, float]:
    """Each time with another memory, for a second step like the first is no news to a plan."""
    memory, known = CheckMemory(), KnownFiles()
    first = seconds(TEXT, memory, known)
    return first, seconds(edited(edit, 20 + number), memory, known)


@pytest.mark.parametrize("what", AT_ONCE)
def test_a_new_step_is_checked_at_once(what: str) -> None:
    def again(number: int) -> float:
        return first_and_again(ADDED[what], number)[1]

    remembering()
    assert fastest(again, LIMIT) <= LIMIT


@pytest.mark.parametrize("what", [*COMPARED, *PLACED])
def test_a_new_step_costs_less_than_a_first_check(what: str) -> None:
    def ratio(number: int) -> float:
        first, again = first_and_again((ADDED | PLACED)[what], number)
        return again / first

    limit = UNMOVED if what in ADDED else OF_FIRST
    remembering()
    assert fastest(ratio, limit) <= limit
