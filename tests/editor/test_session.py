"""Sessions of an editor with `xg lsp`: its answers while a file is being written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from editor.client import Editor

from xg.passes.resolve.errors import NoBlock

GOOD = """\
# γ is a gain; ⊙ multiplies.
dim B, D = 64

block F "Gain" (X [B, D]) -> Y [B, D] {
    param γ [D] = ones

    X -> ⊙<-BC[B](γ) -> ReLU : H [B, D]
    H -> S                   : Y
}
"""
WRONG = GOOD.replace("-> ReLU : H [B, D]", "-> ReLU : H [B, B]")
LAYERS = """\
dim B, D = 8
block Layer(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W : Y
}
"""
USER = 'use Layer from "layers.xg"\ndim B, D = 4\n' + LAYERS.split("\n", 1)[1].replace(
    "block Layer", "block User"
).replace("•<=W", "•<=W -> Layer")


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """One session for the tests that leave it well; each opens files of its own."""
    editor = Editor(tmp_path_factory.mktemp("session"))
    yield editor
    assert editor.quit() == (0, "")


def spot(text: str, words: str) -> tuple[int, int]:
    """Line and column in UTF-16 units, from 0, of the mark `|` in words that the text has once."""
    before, behind = words.split("|")
    assert text.count(before + behind) == 1
    head = text[: text.index(before + behind) + len(before)]
    line = head.count("\n")
    return line, len(head.rpartition("\n")[2].encode("utf-16-le")) // 2


def place(line: int, start: int, end: int) -> dict[str, dict[str, int]]:
    return {
        "start": {"line": line, "character": start},
        "end": {"line": line, "character": end},
    }


# ---- errors --------------------------------------------------------------------------------------


def test_a_mistake_stands_at_its_place_and_goes_when_it_is_mended(editor: Editor) -> None:
    (mistake,) = editor.open("mistake.xg", WRONG)
    line, column = spot(WRONG, "|H [B, B]")
    assert mistake["range"] == place(line, column, column + len("H [B, B]"))
    assert mistake["code"] == "XG0302"
    assert mistake["severity"] == 1
    assert mistake["source"] == "xg"
    assert "[B, D]" in mistake["message"]
    editor.type("mistake.xg", GOOD, 2)
    assert editor.mistakes("mistake.xg", 2) == []


def test_a_file_that_is_begun_has_a_hint_until_it_has_a_block(editor: Editor) -> None:
    """`xg check` refuses it: the same words, and no error in the editor."""
    found = [editor.open("begun.xg", "")]
    for version, text in enumerate(("# A gate.\n", "# A gate.\ndim B, D = 64\n"), 2):
        editor.type("begun.xg", text, version)
        found.append(editor.mistakes("begun.xg", version))
    for (hint,) in found:
        assert (hint["severity"], hint["code"]) == (4, NoBlock.code)
        assert hint["message"] == "begun.xg has no block of its own to compile"
        assert hint["range"] == place(0, 0, 0)
    (typo,) = editor.open("typo.xg", "dim B\nblok F\n")
    assert typo["severity"] == 1


def test_columns_count_units_of_utf16(editor: Editor) -> None:
    text = GOOD.replace('"Gain"', '"😀 Gain"').replace("-> Y [B, D] {", "-> Y [B, E] {")
    (mistake,) = editor.open("emoji.xg", text)
    line, column = spot(text, "Y [B, |E]")
    assert mistake["range"] == place(line, column, column + 1)
    assert column == len('block F "xx Gain" (X [B, D]) -> Y [B, ')


def test_other_places_are_related_and_remarks_are_in_the_message(editor: Editor) -> None:
    text = "dim B, S, D\nblock F(Q [B, S, D], K [B, S, D]) -> A [B, S, S] {\n    Q -> •<=K : A\n}\n"
    (mistake,) = editor.open("related.xg", text)
    assert mistake["message"].split("\n") == [
        "matmul contracts D with S",
        "first operand [B, S, D] ends in D",
        "help: the second operand fits transposed: <=T(K)",
    ]
    (other,) = mistake["relatedInformation"]
    assert other["message"] == "second operand [B, S, D] has S where D is needed"
    assert other["location"]["uri"] == editor.uri("related.xg")
    assert other["location"]["range"]["start"] == {"line": 1, "character": 21}


def test_plans_are_checked(editor: Editor) -> None:
    text = LAYERS + "mesh N = 2\nplan P of Layer {\n    X [B/N, D]\n    V [D, D]\n}\n"
    (mistake,) = editor.open("plan.xg", text)
    assert mistake["range"] == place(8, 4, 5)
    assert mistake["severity"] == 1


def test_closing_a_text_clears_its_mistakes(editor: Editor) -> None:
    assert editor.open("closed.xg", WRONG)
    editor.close("closed.xg")
    assert editor.mistakes("closed.xg") == []
    assert editor.at("hover", "closed.xg", 1, 1) is None


# ---- several files -------------------------------------------------------------------------------


def test_what_is_wrong_in_a_used_file_stands_at_the_use(editor: Editor) -> None:
    (editor.folder / "one").mkdir()
    (editor.folder / "one" / "layers.xg").write_text(LAYERS.replace("[D, D]", "[D, 3]"), "utf-8")
    (mistake,) = editor.open("one/user.xg", USER)
    assert mistake["range"] == place(0, 15, 26)
    assert mistake["message"].startswith("layers.xg, line 4: ")
    (there,) = mistake["relatedInformation"]
    assert there["location"]["uri"] == editor.uri("one/layers.xg")
    assert there["location"]["range"]["start"] == {"line": 3, "character": 16}


def test_an_unsaved_text_counts_for_the_files_that_use_it(editor: Editor) -> None:
    (editor.folder / "two").mkdir()
    (editor.folder / "two" / "layers.xg").write_text(LAYERS, "utf-8")
    assert editor.open("two/user.xg", USER) == []
    assert editor.open("two/layers.xg", LAYERS) == []
    editor.type("two/layers.xg", LAYERS.replace("[D, D]", "[D, 3]"), 2)
    (own,) = editor.mistakes("two/layers.xg", 2)
    assert own["range"]["start"]["line"] == 3
    wait_for(editor, "two/user.xg", 1)
    editor.close("two/layers.xg")  # unsaved: what is on disk counts again
    wait_for(editor, "two/user.xg", 0)


def test_a_file_that_appears_mends_its_users(editor: Editor) -> None:
    (editor.folder / "three").mkdir()
    (mistake,) = editor.open("three/user.xg", USER)
    assert mistake["code"] == "XG0602"
    (editor.folder / "three" / "layers.xg").write_text(LAYERS, "utf-8")
    changes = [{"uri": editor.uri("three/layers.xg"), "type": 1}]
    editor.tell("workspace/didChangeWatchedFiles", {"changes": changes})
    assert editor.mistakes("three/user.xg") == []


def wait_for(editor: Editor, name: str, count: int) -> None:
    while len(editor.mistakes(name)) != count:
        pass


# ---- what the cursor asks ------------------------------------------------------------------------


def test_hover_says_the_shape_of_the_edge(editor: Editor) -> None:
    assert editor.open("hover.xg", GOOD) == []
    shape = "```xg\n[B, D]\n```\n\nwith D = 64"
    assert editor.hover("hover.xg", *spot(GOOD, "(γ) -|> ReLU")) == shape
    assert editor.hover("hover.xg", *spot(GOOD, "|H -> S")).startswith("```xg\nH [B, D]\n```")
    found = editor.at("hover", "hover.xg", *spot(GOOD, "X -> |⊙<-"))
    assert found["contents"]["kind"] == "markdown"
    assert "elementwise product" in found["contents"]["value"]
    line, column = spot(GOOD, "X -> |⊙<-")
    assert found["range"] == place(line, column, column + 1)
    assert editor.at("hover", "hover.xg", 0, 3) is None


def test_hover_follows_an_unsaved_change(editor: Editor) -> None:
    assert editor.open("edited.xg", GOOD) == []
    text = GOOD.replace("D = 64", "D = 32")
    editor.type("edited.xg", text, 2)
    assert "with D = 32" in editor.hover("edited.xg", *spot(text, "|H -> S"))


def test_definition_leads_into_other_files(editor: Editor) -> None:
    (editor.folder / "four").mkdir()
    (editor.folder / "four" / "layers.xg").write_text(LAYERS, "utf-8")
    assert editor.open("four/user.xg", USER) == []
    found = editor.at("definition", "four/user.xg", *spot(USER, "-> |Layer"))
    assert found == {"uri": editor.uri("four/layers.xg"), "range": place(1, 6, 11)}
    found = editor.at("definition", "four/user.xg", *spot(USER, "•<=|W"))
    assert found == {"uri": editor.uri("four/user.xg"), "range": place(3, 10, 11)}
    assert editor.at("definition", "four/user.xg", *spot(USER, "X -> |•")) is None


def test_the_outline_of_a_file(editor: Editor) -> None:
    assert editor.open("outline.xg", GOOD) == []
    document = {"textDocument": {"uri": editor.uri("outline.xg")}}
    found = editor.ask("textDocument/documentSymbol", document)
    assert [symbol["name"] for symbol in found] == ["B", "D", "F"]
    assert [symbol["name"] for symbol in found[2]["children"]] == ["X", "γ", "H", "Y"]


def test_places_outside_of_the_text_are_its_end(editor: Editor) -> None:
    assert editor.open("outside.xg", GOOD) == []
    for line, column in ((999, 0), (0, 9999), (8, 9999), (999, 9999)):
        assert editor.at("hover", "outside.xg", line, column) is None


# ---- layout --------------------------------------------------------------------------------------


def test_formatting_changes_the_lines_that_xg_fmt_would_change(editor: Editor) -> None:
    assert editor.open("layout.xg", GOOD.replace("H -> S  ", "H->S")) == []
    (edit,) = editor.format("layout.xg") or []
    assert edit["newText"] == GOOD.split("\n")[7] + "\n"
    assert edit["range"] == {
        "start": {"line": 7, "character": 0},
        "end": {"line": 8, "character": 0},
    }
    editor.type("layout.xg", GOOD, 2)
    assert editor.format("layout.xg") == []


def test_a_text_with_mistakes_of_grammar_keeps_its_layout(editor: Editor) -> None:
    assert editor.open("unformatted.xg", GOOD.replace("{", "{ {"))
    assert editor.format("unformatted.xg") is None


def test_foreign_line_ends_are_replaced(editor: Editor) -> None:
    assert editor.open("crlf.xg", GOOD.replace("\n", "\r\n")) == []
    (edit,) = editor.format("crlf.xg") or []
    assert edit["newText"] == GOOD
    assert "H [B, D]" in editor.hover("crlf.xg", *spot(GOOD, "|H -> S"))
