"""A check that reuses earlier results reports the same as a check that starts from nothing."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tier import THOROUGH

from xg.diagnostics.diagnostic import Diagnostic, Source
from xg.frontend.choices import Checked, CheckMemory, checked
from xg.frontend.project import Project, read_for_editor
from xg.ir.graph import Graph
from xg.passes.shard import AddedSteps
from xg.passes.shard.axis_placement import BlockPlacer

EDITS = 120 if THOROUGH else 60  # each costs a check without a memory
STEPS = ("DO(0.2)", "DO(0.3)", "GELU", "S", "SM(0.5)", "SM(2)", "T", "MLP", "Mix")
TOKEN = re.compile(r"\w+|\S")

NET = """\
dim B, D = 8, D_ff = 4*D, N_L = 2
mesh N_P = 2, N_D = 2, N_T = 2
option norm = pre | post
option act = GELU | ReLU

# The operator of the file.
op RMS(x [.., D]; g [D]) = x / sqrt(mean[D](x^2)) * g

block Mix(X [B, D]; p = 0.1) -> Y [B, D] {
    param W [D, D], b [D] = zeros
    X -> •<=W -> ⊕<-BC(b) -> DO(p) : Y
}

block MLP(X [B, D]) -> Y [B, D] {
    param W_up [D, D_ff], W_down [D_ff, D]
    X -> •<=W_up -> act : U [B, D_ff]
      -> •<=W_down      : Y
}

block Layer(X [B, D]) -> Y [B, D] {
    param γ [D] = ones
    X -> RMS(γ) if norm = pre : H [B, D]
      -> Mix as mix -> ⊕<-X
      -> RMS(γ) if norm = post : M [B, D]
    M -> MLP -> ⊕<-M : Y
}

block Net(X [B, D], t [B, D]) -> loss [] {
    param V [D, D]
    X -> N_L × Layer as layers -> •<=V : Z [B, D]
      -> MSE<-t : loss
}

plan TP of MLP {
    W_up   [D, D_ff/N_T]
    W_down [D_ff/N_T, D]
}

plan DP "Data parallel" of Net {
    X, t [B/N_D, D]
}

plan FSDP of Net {
    X, t [B/N_D, D]
    *    [_/N_D, ..] -> [..]
}

plan PP of Net {
    layers [N_L/N_P]
}

plan Both = DP × TP
plan All = FSDP × TP
"""

SHADOWED = """\
dim B = 4, D = 8, K = {outer}
mesh N_T = 2
block Own(X [B, D]) -> Y [B, D] {{
    dim K = {inner}
    param V [D, K], U [K, D]
    X -> •<=V -> •<=U : Y
}}
block Other(X [B, D]) -> Y [B, D] {{
    param V [D, K], U [K, D]
    X -> •<=V -> •<=U : Y
}}
plan TP of Own {{
    V [D, K/N_T]
    U [K/N_T, D]
}}
plan TP of Other {{
    V [D, K/N_T]
    U [K/N_T, D]
}}
"""


def said(found: Checked) -> list[tuple[object, ...]]:
    return [_said(diagnostic) for diagnostic in found.diagnostics]


def _said(each: Diagnostic) -> tuple[object, ...]:
    places = [
        (label.span.source.name, label.span.start, label.span.end, label.text, label.primary)
        for label in each.labels
    ]
    return each.code, each.message, places, each.notes, each.help, each.severity


def edited(text: str, chance: random.Random) -> str:
    """A text with a small change: often one that parses, and often one that means something."""
    tokens = list(TOKEN.finditer(text))
    one, other = chance.choice(tokens), chance.choice(tokens)
    lines = text.splitlines(keepends=True)
    line = chance.randrange(len(lines))
    match chance.randrange(6):
        case 0:  # another word
            return text[: one.start()] + other[0] + text[one.end() :]
        case 1:
            return text[: one.start()] + text[one.end() :]
        case 2:  # the same, elsewhere
            return text[: one.start()] + " " * chance.randrange(1, 4) + text[one.start() :]
        case 3:
            return "".join([*lines[:line], "# moved\n", *lines[line:]])
        case 4:
            return "".join([*lines[:line], *lines[line + 1 :]])
        case _:
            number = chance.choice([each for each in tokens if each[0].isdigit()])
            digit = str(chance.randrange(9))
            return text[: number.start()] + digit + text[number.end() :]


def compare(text: str, edits: int, seed: int, memory: CheckMemory) -> tuple[int, int]:
    """How many edited texts were checked, and how many of them have errors."""
    chance = random.Random(seed)
    current, judged, wrong = text, 0, 0
    for _ in range(edits):
        current = edited(current, chance)
        reading = read_for_editor(None, Source("net.xg", current), {})
        if reading.project is None or reading.diagnostics:
            current = text
            continue
        fresh = said(checked(reading.project))
        assert said(checked(reading.project, memory=memory)) == fresh, current
        judged, wrong = judged + 1, wrong + bool(fresh)
        if fresh and chance.random() < 0.7:
            current = text
    return judged, wrong


def test_random_edits_are_answered_as_by_a_fresh_check() -> None:
    judged, wrong = compare(NET, EDITS, 1, CheckMemory())
    assert judged > EDITS // 3
    assert judged // 10 < wrong < judged


def test_steps_that_come_and_go_are_answered_as_by_a_fresh_check() -> None:
    """Also where callers see that a block is another, and where a plan does not fit any more."""
    chance, memory, wrong = random.Random(7), CheckMemory(), list[bool]()
    texts = [NET]
    for _ in range(EDITS // 2):
        base = chance.choice(texts)
        place = chance.choice([each.start() for each in re.finditer(r" +(?=: | -> |-> )", base)])
        text = f"{base[:place]} -> {chance.choice(STEPS)}{base[place:]}"
        project = read_for_editor(None, Source("net.xg", text), {}).project
        if project is None:
            continue
        fresh = said(checked(project))
        assert said(checked(project, memory=memory)) == fresh, text
        wrong.append(bool(fresh))
        if not fresh:
            texts = [*texts[-3:], text]
    assert len(wrong) // 5 < sum(wrong) < len(wrong)


def check_again(before: str, now: str) -> list[tuple[object, ...]]:
    """All that is said of a text by a check that knows an earlier one."""
    memory = CheckMemory()
    checked(project_of(before), memory=memory)
    return said(checked(project_of(now), memory=memory))


def project_of(text: str) -> Project:
    project = read_for_editor(None, Source("net.xg", text), {}).project
    assert project
    return project


def test_a_step_that_moves_nothing_is_not_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    def place(self: BlockPlacer) -> None:
        blocks.append(self.graph.block)

    blocks: list[str] = []
    text = NET.replace("DO(p) : Y", "DO(p) -> GELU : Y")
    memory = CheckMemory()
    checked(project_of(NET), memory=memory)
    monkeypatch.setattr(BlockPlacer, "run", place)
    assert said(checked(project_of(text), memory=memory)) == []
    assert blocks == []


def test_a_step_that_cannot_stay_where_it_is_added_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shares of a sum along an axis that ranks share; an unmoved step would be no error."""
    before = NET.replace("block Mix", "op Share(x [.., D_ff]) = x / sum[D_ff](x)\n\nblock Mix")
    now = before.replace("act : U", "act -> Share : U")
    found = check_again(before, now)
    assert found == said(checked(project_of(now))) != []

    def fits(*_: object) -> bool:
        return True

    def alone(_: AddedSteps, placed: Graph, *__: object) -> Graph:
        return replace(placed, steps=())

    monkeypatch.setattr(AddedSteps, "fits", fits)
    monkeypatch.setattr(AddedSteps, "as_graph", alone)
    assert check_again(before, now) == []


CHOSEN = """\
dim B, D = 8
mesh N_T = 2
option ffn = One | Two
op Share(x [.., D]) = x / sum[D](x)
block One(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> Share : Y
}
block Two(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> tanh : H -> GELU : Y
}
block Net(X [B, D]) -> Y [B, D] {
    X -> ffn as f : Y
}
plan TP of Net {
    f.H [B, D/N_T]
}
"""


def test_a_step_whose_result_gets_a_name_of_the_plan_is_placed() -> None:
    """The plan's line is about another choice until a step of this one is called so."""
    now = CHOSEN.replace("-> Share", "-> GELU : H -> Share")
    assert check_again(CHOSEN, CHOSEN) == []
    assert check_again(CHOSEN, now) == said(checked(project_of(now))) != []


@pytest.mark.parametrize(
    ("old", "new"),
    [("dim B", "# One line more.\ndim B"), (" D = 8", " D = 16"), ("N_T = 2", "N_T = 4")],
    ids=["the same text", "a size", "a mesh axis"],
)
def test_an_edit_is_answered_by_what_it_changes_alone(old: str, new: str) -> None:
    """A memory answers the same text, or one with other numbers, without placing a block again."""
    memory = CheckMemory()
    project = read_for_editor(None, Source("net.xg", NET), {}).project
    assert project
    checked(project, memory=memory)
    assert memory.plans
    blocks = memory.plans.contents.blocks
    before = blocks.count, len(memory.types.typed.known), len(blocks.before)
    again = read_for_editor(None, Source("net.xg", NET.replace(old, new, 1)), {}).project
    assert again
    assert not checked(again, memory=memory).diagnostics
    assert (blocks.count, len(memory.types.typed.known), len(blocks.before)) == before


def test_stages_that_do_not_share_a_row_any_more_are_reported() -> None:
    memory = CheckMemory()
    for stages, errors in ((2, 0), (7, 1), (2, 0)):
        text = NET.replace("N_P = 2", f"N_P = {stages}")
        project = read_for_editor(None, Source("net.xg", text), {}).project
        assert project
        assert len(checked(project, memory=memory).diagnostics) == errors


def test_a_dim_that_a_block_declares_again_has_two_numbers() -> None:
    """A change of one is not taken for a change of the other."""
    memory, wrong = CheckMemory(), list[int]()
    for outer, inner in ((4, 6), (5, 6), (4, 5), (5, 5), (4, 6)):
        text = SHADOWED.format(outer=outer, inner=inner)
        project = read_for_editor(None, Source("net.xg", text), {}).project
        assert project
        fresh = said(checked(project))
        assert said(checked(project, memory=memory)) == fresh, (outer, inner)
        wrong.append(len(fresh))
    assert wrong == [0, 1, 1, 2, 0]


def test_a_memory_stays_small() -> None:
    memory = CheckMemory()
    sizes: list[int] = []
    for number in range(40):
        text = NET.replace("p = 0.1", f"p = 0.{number + 1:02}")
        project = read_for_editor(None, Source("net.xg", text), {}).project
        assert project
        checked(project, memory=memory)
        assert memory.plans
        blocks = memory.plans.contents.blocks
        sizes.append(len(memory.types.typed.known) + len(blocks.before) + len(memory.blocks))
    assert max(sizes[20:]) <= max(sizes[:20]), sizes


def test_a_file_that_uses_others_is_remembered_too(tmp_path: Path) -> None:
    memory = CheckMemory()
    (tmp_path / "layer.xg").write_text(NET, encoding="utf-8")
    for size in (64, 64, 33, 32):
        text = f'use Layer, MLP from "layer.xg"\ndim D = {size}\n'
        text += "plan TP of MLP { W_up [D, D_ff/N_T] }\n"
        text += "block Main(X [B, D]) -> Y [B, D] {\n    X -> Layer -> MLP : Y\n}\n"
        reading = read_for_editor(tmp_path / "main.xg", Source("main.xg", text), {})
        assert reading.project
        assert not reading.diagnostics
        assert said(checked(reading.project, memory=memory)) == said(checked(reading.project))
