"""Answers after edits: those of a server that starts with the texts, whatever was typed before.

`python -m editor.test_edits COUNT` compares them after each of many edits, and says how long they
take.
"""

from __future__ import annotations

import random
import re
import statistics
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from editor.client import ROOT, Editor, Message
from editor.test_session import spot
from tier import THOROUGH

TRANSFORMER = ROOT / "diagrams" / "models" / "transformer.xg"
WHOLE = {"start": {"line": 0, "character": 0}, "end": {"line": 999, "character": 0}}
CALLER = """\
use Layer, Attention from "t.xg"
dim B, S, D = 32, N_L = 3

block Stack(X [B, S, D]) -> Y [B, S, D] {
    dim S_k = S
    X -> N_L × Layer(causal) as layers : H
    H, H -> Attention(p = 0.2) -> tanh : Y
}
"""

Times = dict[str, list[float]]  # seconds of each answer, by its method
Place = tuple[int, int]
Edit = Callable[[str, random.Random], str]


def asked(editor: Editor, name: str, places: list[Place], took: Times) -> list[object]:
    """The answers to every kind of question; how long each took goes to `took`.

    Hover is asked for at all places, the others at the first.
    """
    document = {"textDocument": {"uri": editor.uri(name)}}

    def at(place: Place) -> Message:
        return {**document, "position": {"line": place[0], "character": place[1]}}

    here = at(places[0])
    return [
        timed(editor, method, params, took)
        for method, params in (
            ("completion", here),
            *(("hover", at(place)) for place in places),
            ("definition", here),
            ("references", {**here, "context": {"includeDeclaration": True}}),
            ("documentHighlight", here),
            ("prepareRename", here),
            ("rename", {**here, "newName": "renamed_1"}),
            ("signatureHelp", here),
            ("documentSymbol", document),
            ("inlayHint", {**document, "range": WHOLE}),
            ("formatting", {**document, "options": {"tabSize": 4, "insertSpaces": True}}),
        )
    ]


def timed(editor: Editor, method: str, params: Message, took: Times) -> object:
    begin = time.perf_counter()
    answer = editor.answer(f"textDocument/{method}", params)
    took.setdefault(method, []).append(time.perf_counter() - begin)
    return answer.get("result", answer.get("error"))


def fixes(editor: Editor, name: str, mistakes: list[Message], took: Times) -> object:
    """Every quick fix of a text, asked for as editors do: for the errors that they show."""
    context = {"diagnostics": mistakes}
    document = {"textDocument": {"uri": editor.uri(name)}}
    return timed(editor, "codeAction", {**document, "range": WHOLE, "context": context}, took)


# ---- edits ---------------------------------------------------------------------------------------


def characters(text: str, draw: random.Random) -> str:
    """A text with a few characters taken out, doubled or brought from elsewhere."""
    start = draw.randrange(len(text))
    end = min(len(text), start + draw.randrange(1, 9))
    other = draw.randrange(len(text))
    piece = draw.choice(["", text[start:end] * 2, text[other : other + 6], "\n", " -> S "])
    return text[:start] + piece + text[end:]


def in_line(start: str, part: str, other: Callable[[str, random.Random], str]) -> Edit:
    """An edit that writes something else for a part of a line that starts with a word."""

    def edit(text: str, draw: random.Random) -> str:
        lines = text.split("\n")
        places = [
            (index, match.span())
            for index, line in enumerate(lines)
            if re.match(start, line)
            for match in re.finditer(part, line)
        ]
        if places:
            index, (begin, end) = draw.choice(places)
            line = lines[index]
            lines[index] = line[:begin] + other(line[begin:end], draw) + line[end:]
        return "\n".join(lines)

    return edit


def moved_line(text: str, draw: random.Random) -> str:
    """A text with an empty line more, so that all behind it has another place."""
    lines = text.split("\n")
    lines.insert(draw.randrange(len(lines)), "")
    return "\n".join(lines)


def words_turned(words: str, _: random.Random) -> str:
    return " | ".join(reversed(words.split(" | ")))


def new_number(_: str, draw: random.Random) -> str:
    return str(draw.choice([1, 2, 3, 5, 8, 64, 96, 100]))


NUMBERS = in_line(r"\s*(dim|mesh)\b", r"\b\d+\b", new_number)
MEANING: tuple[Edit, ...] = (  # edits of one line that change what is said about others
    NUMBERS,
    NUMBERS,
    in_line("dim", r"= \w[^,]*", lambda _, draw: draw.choice(["", "= 2*D", "= B", "= 7"])),
    in_line("dim", r", \w+ = 4\*D", lambda words, _: f", Q = 2{words}"),
    in_line("option", r"\w+( \| \w+)+", words_turned),
    in_line("option", r"\w+( \| \w+)+", lambda words, _: words.rpartition(" | ")[0]),
    in_line("use", r"\w+(?=,)", lambda _, draw: draw.choice(["LM", "MLP", "Layer", "Nothing"])),
    in_line("use", '".*"', lambda _, draw: draw.choice(['"t.xg"', '"none.xg"', "gpt2"])),
    in_line("block", r"p = 0\.\d", lambda _, draw: f"p = 0.{draw.randrange(1, 9)}"),
    in_line("    param", r"\bzeros|ones\b", lambda _, draw: draw.choice(["zeros", "ones"])),
    moved_line,
)
KINDS: tuple[Edit, ...] = (characters, characters, characters, *MEANING)


def some_place(text: str, draw: random.Random) -> Place:
    """A place in a text, mostly at a node or a name of a chain."""
    lines = text.split("\n")
    chains = [index for index, line in enumerate(lines) if "->" in line]
    line = draw.choice(chains) if chains and draw.random() < 0.7 else draw.randrange(len(lines))
    starts = [match.start() for match in re.finditer(r"->|\w+", lines[line])]
    free = draw.randrange(len(lines[line]) + 1)
    return line, draw.choice(starts) if starts and draw.random() < 0.7 else free


# ---- comparisons ---------------------------------------------------------------------------------


def resident(editor: Editor) -> int:
    """KiB of memory that a server has."""
    status = Path(f"/proc/{editor.process.pid}/status").read_text("utf-8")
    return next(int(line.split()[1]) for line in status.split("\n") if line.startswith("VmRSS"))


def run_edits(
    folder: Path, count: int, seed: int, every: int, kinds: tuple[Edit, ...] = KINDS
) -> Times:
    """Answers after random edits, compared with those of a server that starts with the texts.

    Two texts are open, of which one uses the other; questions are about the edited one, and
    sometimes about the other.
    """
    draw = random.Random(seed)
    originals = {"t.xg": TRANSFORMER.read_text("utf-8"), "u.xg": CALLER}
    texts, editor, took = dict(originals), Editor(folder), Times()
    memory: list[int] = []
    for name, text in texts.items():
        editor.open(name, text)
        asked(editor, name, [(5, 10)], {})  # warm: operators are imported once
    for version in range(2, count + 2):
        name = "u.xg" if draw.random() < 0.2 else "t.xg"
        if draw.random() < 0.3:
            texts[name] = originals[name]
        texts[name] = draw.choice(kinds)(texts[name], draw)
        editor.type(name, texts[name], version)
        spots = {each: [some_place(text, draw) for _ in range(6)] for each, text in texts.items()}
        about = list(texts) if version % every == 0 else [name]
        answers = [asked(editor, each, spots[each], took) for each in about]
        mistakes = editor.mistakes(name, version)
        answers.append([mistakes, fixes(editor, name, mistakes, took)])
        if version in (count // 2, count + 1):
            memory.append(resident(editor))
        if version % every == 0:
            assert answers == fresh(folder, name, texts, spots), (seed, version, name, spots)
    assert editor.quit()[0] == 0
    # Tables fill at first: of 500 edits the second half adds a fifth, without bounds two sevenths.
    assert count < 100 or memory[1] < 1.2 * memory[0], memory
    return took


def fresh(
    folder: Path, name: str, texts: dict[str, str], spots: dict[str, list[Place]]
) -> list[object]:
    """The same answers of a server that has seen nothing but these texts."""
    editor = Editor(folder)
    others = [each for each in texts if each != name]
    for each in others:
        editor.open(each, texts[each])
    found = editor.open(name, texts[name])  # it knows the others
    answers: list[object] = [asked(editor, each, spots[each], {}) for each in texts]
    answers.append([found, fixes(editor, name, found, {})])
    assert editor.quit()[0] == 0
    return answers


def test_answers_after_edits_are_those_of_a_fresh_server(tmp_path: Path) -> None:
    took = run_edits(tmp_path, count=12 if THOROUGH else 3, seed=1, every=6 if THOROUGH else 3)
    assert statistics.median(chain(*took.values())) < 0.5  # of a busy machine; a sweep is stricter


def test_answers_after_edits_of_numbers_options_and_uses_are(tmp_path: Path) -> None:
    run_edits(
        tmp_path, count=9 if THOROUGH else 2, seed=7, every=3 if THOROUGH else 2, kinds=MEANING
    )


SIZES = """\
dim B, K = 3
block F(X [B, K]) -> Y [B, K] {
    X -> tanh -> ReLU : Y
}
"""


def test_a_number_of_a_dim_is_new_wherever_it_is_said(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    places = [spot(SIZES, words) for words in ("|tanh", "tanh |->", "|Y\n}", "F(|X")]
    for number, place in enumerate(places):
        name = f"k{number}.xg"
        editor.open(name, SIZES)
        assert "with K = 3" in editor.hover(name, *place)
        editor.type(name, SIZES.replace("K = 3", "K = 5"), 2)
        assert "with K = 5" in editor.hover(name, *place)
    assert editor.quit()[0] == 0


def report(took: Times) -> bool:
    """Print how long answers took; whether that is little enough."""
    fine = True
    for method, seconds in {**took, "all": [*chain(*took.values())]}.items():
        centiles = [1000 * each for each in statistics.quantiles(seconds, n=20)]
        fine = fine and centiles[9] <= 50 and centiles[18] <= 150
        line = f"{method}: {len(seconds)} answers, median {centiles[9]:.0f} ms"
        print(f"{line}, 95th percentile {centiles[18]:.0f} ms")  # noqa: T201
    return fine


if __name__ == "__main__":
    import sys
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        times = run_edits(Path(folder), int(sys.argv[1]), seed=0, every=1)
    sys.exit(0 if report(times) else 1)
