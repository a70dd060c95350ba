"""Quick fixes, through the protocol: each fixes its error, at the place that the text has now."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from editor.client import Editor, Message


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    editor = Editor(tmp_path_factory.mktemp("fixes"))
    yield editor
    assert editor.quit() == (0, "")


BLOCK = "dim B, D = 4\nblock F(X [B, D]) -> Y [B, D] {\n    "
WIDE = "block F(X [B, D]) -> Y [B, E] {\n    "
FIXED = {  # a text with one error: a part of the title of a fix
    BLOCK + "XX -> S : Y\n}\n": "`X`",
    BLOCK + "X -> RLU : Y\n}\n": "`ReLU`",
    BLOCK + "param W [D, D]\n    X -> S : Y\n}\n": "leave W out",
    BLOCK + "X -> S : H [B, B]\n    H -> S : Y\n}\n": "`[B, D]`",
    BLOCK + "X -> S : H -> S : U\n    H -> S : Y\n}\n": "leave U out",
    BLOCK + "X --> S : Y\n}\n": "`->`",
    BLOCK + "X > S : Y\n}\n": "`->`",
    BLOCK + "X -> S > ReLU : Y\n}\n": "`->`",
    BLOCK + "X -> S : YY\n}\n": "`Y`",
    BLOCK + "param W [D, D] = zero\n    X -> •<=W : Y\n}\n": "`zeros`",
    BLOCK + "X -> S : Y;\n}\n": "semicolon",
    BLOCK + "param W: [D, D]\n    X -> •<=W : Y\n}\n": "colon",
    BLOCK + "X -> S : Y // why\n}\n": "comment",
    "option act = ReLU | tanh\n" + BLOCK + "X -> S if act = ReLUU : Y\n}\n": "`ReLU`",
    "option act = ReLU | tanh\n" + BLOCK + "X -> S if actt = ReLU -> act : Y\n}\n": "`act`",
    "dim E\n" + BLOCK + "X -> S : Y\n}\n": "leave E out",
    BLOCK + "X -> S : Y\n}\nplan P of F {\n    X [B/N, D]\n}\n": "mesh N = 2",
    "mesh N = 2\n"
    + BLOCK
    + "X -> S : Y\n}\nplan P of F {\n    X [B/N, D], Y [B/N, D]\n}\n": "a line",
    BLOCK + "X -> softmax : Y\n}\n": "`S`",
    BLOCK + "X -> relu : Y\n}\n": "`ReLU`",
    BLOCK + "X -> Dropout(0.1) : Y\n}\n": "`DO`",
    BLOCK + "X -> LayerNorm : Y\n}\n": "`LN`",
    BLOCK + "param W [D, D]\n    X -> matmul<=W : Y\n}\n": "`•<=`",
    BLOCK + "param W [D, D]\n    X -> matmul<-W : Y\n}\n": "`•<=`",
    BLOCK + "param W [D, D]\n    X -> matmul(W) : Y\n}\n": "`•<=W`",
    "dim B, D, E\n" + WIDE + "param W [E, D]\n    X -> •<=W : Y\n}\n": "`T(W)`",
    BLOCK + "param b [D]\n    X -> ⊕<-b : Y\n}\n": "`BC(b)`",
}


@pytest.mark.parametrize("text", FIXED)
def test_a_fix_mends_its_error_and_makes_no_other(editor: Editor, text: str) -> None:
    (mistake,) = editor.open("fix.xg", text)
    params = {
        "textDocument": {"uri": editor.uri("fix.xg")},
        "range": mistake["range"],
        "context": {"diagnostics": [mistake]},
    }
    actions = editor.ask("textDocument/codeAction", params)
    action = next(each for each in actions if FIXED[text] in each["title"])
    (edits,) = action["edit"]["changes"].values()
    mended = applied_lines(text, edits)
    editor.type("fix.xg", mended, 2)
    assert editor.mistakes("fix.xg", 2) == [], mended
    editor.close("fix.xg")
    editor.mistakes("fix.xg")


def declared(editor: Editor, name: str, text: str, version: int | None = None) -> str:
    """A text with the dim declared that an error of it misses."""
    mistake = (editor.mistakes(name, version) if version else editor.open(name, text))[0]
    where = {"textDocument": {"uri": editor.uri(name)}, "range": mistake["range"]}
    found = editor.ask("textDocument/codeAction", {**where, "context": {"diagnostics": [mistake]}})
    action = next(each for each in found if "declare it" in each["title"])
    return applied_lines(text, action["edit"]["changes"][editor.uri(name)])


MISSING = "block F(X [B, M]) -> Y [B, M] {\n    X -> S : Y\n}\n"
DECLARED = {  # the head of a text, and the head with M
    "dim B, D = 4  # sizes\n\n": "dim B, D = 4, M  # sizes\n\n",
    "dim B,  # sizes\n    D = 4\n": "dim B,  # sizes\n    D = 4, M\n",
    "dim B\ndim D = 4\n": "dim B\ndim D = 4, M\n",
}


@pytest.mark.parametrize("head", DECLARED)
def test_a_missing_dim_is_declared_in_the_last_line_of_dims(editor: Editor, head: str) -> None:
    more = "block G(X [B, D]) -> Y [B, D] {\n    X -> S : Y\n}\n"
    assert declared(editor, "d.xg", head + MISSING + more) == DECLARED[head] + MISSING + more
    editor.close("d.xg")
    editor.mistakes("d.xg")


def test_a_missing_dim_is_declared_behind_other_heads(editor: Editor) -> None:
    head = "option act = S | ReLU  # one\n"
    text = head + MISSING.replace("[B, M]", "[M]").replace("S :", "act :")
    assert declared(editor, "o.xg", text) == text.replace(head, head + "dim M\n")
    bare = MISSING.replace("[B, M]", "[M]")
    assert declared(editor, "n.xg", bare) == f"dim M\n\n{bare}"


def test_a_missing_dim_is_declared_in_the_text_as_it_is_now(editor: Editor) -> None:
    """The block is known from the text before, in which the line of dims was shorter."""
    text = "dim B\n" + MISSING
    assert declared(editor, "now.xg", text) == "dim B, M\n" + MISSING
    longer = (
        "dim B, Other = 4  # of nothing\n"
        + MISSING
        + MISSING.replace("F(", "G(").replace("M]", "Other]")
    )
    editor.type("now.xg", longer, 2)
    mended = declared(editor, "now.xg", longer, 2)
    assert mended.startswith("dim B, Other = 4, M  # of nothing\n")


def applied_lines(text: str, edits: list[Message]) -> str:
    """One edit, which may be of several lines."""
    (edit,) = edits
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    spots: list[dict[str, int]] = [edit["range"][side] for side in ("start", "end")]
    start, end = [starts[spot["line"]] + spot["character"] for spot in spots]
    return text[:start] + edit["newText"] + text[end:]
