"""Help with writing, through the protocol: completion, fixes, references, renaming, shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from editor.client import Editor, Message
from editor.test_edits import WHOLE
from editor.test_session import GOOD, LAYERS, USER, spot

from xg.diagnostics.diagnostic import Source
from xg.frontend.choices import checked
from xg.frontend.project import read_for_editor


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    editor = Editor(tmp_path_factory.mktemp("authoring"))
    yield editor
    assert editor.quit() == (0, "")


def typed(editor: Editor, name: str, before: str, words: str, behind: str = "\n") -> Any:  # noqa: ANN401 - JSON
    """Everything that is offered behind some words that are typed behind a text."""
    text = before + words + ("\n}\n" if before == HEAD and "}" not in words else behind)
    editor.open(name, text)
    place = (before + words).count("\n"), len((before + words).rpartition("\n")[2])
    found = editor.at("completion", name, *place)
    editor.close(name)
    editor.mistakes(name)
    return found


HEAD = "option act = ReLU | tanh\nplan Q = P\n" + LAYERS.replace("    X -> •<=W : Y\n}\n", "")
OFFERED = {
    "    X -> Re": {"ReLU", "act", "LN", "•"},
    "    X -> •<=": {"X", "W"},
    "    X -> LN(": {"W", "γ=", "eps="},
    "    X -> SM(": {"causal", "mask=", "scale="},
    "    X -> GELU(form = ": {"tanh", "exact"},
    "    state s [B] = ": {"zeros", "ones"},
    "    state s [B] = zeros\n    next ": {"s"},
    "    highlight ": {"X", "W"},
    "    note ": {"X", "W"},
    "    expect ": {"dX", "dW"},
    "    X -> S if ": {"act"},
    "    X -> S if act = ": {"ReLU", "tanh"},
    "    X -> S : H [B, ": {"B", "D"},
    "    X -> S : ": {"Y"},
    "    X -> sum[": {"B", "D"},
    "    X -> sum[B, D] -> grad[": {"X", "W"},
    "    pa": {"param", "X", "W"},
    "    X -> S : Y\n}\nplan P of ": {"Layer"},
    "    X -> S : Y\n}\nplan P of Layer {\n    ": {"X", "W", "Y"},
    "    X -> S : Y\n}\nplan P of Layer {\n    Y [B, D] ": {"again", "keep"},
    "    X -> S : Y\n}\nplan P of Layer {\n    schedule ": {"1F1B", "GPipe"},
    "    X -> S : Y\n}\nplan R = ": {"Q"},
    "    X -> S : Y\n}\nuse GQA from ": {"llama", "mha", "common"},
    "    X -> S : Y\n}\nop Two(x) = 2*x\nop Four(x) = x + ": {"Two"},
    "    X -> S : Y\n}\nblo": {"block", "plan"},
}


@pytest.mark.parametrize("words", OFFERED)
def test_the_names_that_fit_are_offered(editor: Editor, words: str) -> None:
    found = {item["label"] for item in typed(editor, "c.xg", HEAD, words)}
    assert OFFERED[words] - found == set()
    if words.rstrip().endswith(("<=", "if", "of", "from")):
        assert not found & {"LN", "dim", "B"}


def test_an_operator_of_another_file_is_offered_with_its_signature(editor: Editor) -> None:
    (editor.folder / "steps.xg").write_text("op Twice(x) = 2*x\n", "utf-8")
    found = typed(editor, "t.xg", 'use Twice from "steps.xg"\n' + HEAD, "    X -> Tw", "\n}\n")
    assert [(each["label"], each["detail"]) for each in found][:1] == [("Twice", "(x) = 2*x")]


UNCLOSED = "dim D = 4\nblock F(X [D]) -> Y [D] {\n    param W [D, D]\n    X -> •<="


@pytest.mark.parametrize("behind", ["", "W : Y\n\nplan P of F {\n    W [D, D]\n}\n"])
def test_names_are_offered_in_a_block_without_an_end(editor: Editor, behind: str) -> None:
    """The end is written last; the names of the block are there from its head on."""
    found = typed(editor, "u.xg", UNCLOSED, "", behind)
    assert {item["label"] for item in found} == {"X", "W"}


def test_an_operator_is_offered_with_its_signature_and_replaces_the_word(editor: Editor) -> None:
    found = typed(editor, "s.xg", HEAD, "    X -> Re")
    item = next(item for item in found if item["label"] == "ReLU")
    assert item["detail"] == "x -> ReLU : y"
    assert item["textEdit"]["newText"] == "ReLU"
    assert item["textEdit"]["range"]["start"]["character"] == len("    X -> ")


@pytest.mark.parametrize(
    ("word", "first"), [("S", ["S", "SiLU", "SM"]), ("Re", ["ReLU"]), ("re", ["ReLU"])]
)
def test_what_a_word_begins_is_offered_first(editor: Editor, word: str, first: list[str]) -> None:
    """The name that is complete, then names in its case; `RS` is also reduce_scatter."""
    found = typed(editor, "o.xg", HEAD, f"    X -> {word}")
    ordered = sorted(found, key=lambda item: item["sortText"])
    assert [item["label"] for item in ordered][: len(first)] == first


COMPLETE = ("    param b [D] = zeros", "    X -> S : Y", "    X -> ReLU", "    X -> LN(W")


@pytest.mark.parametrize("words", COMPLETE)
def test_nothing_is_offered_for_a_word_that_is_complete(editor: Editor, words: str) -> None:
    """Enter behind it gives a new line, where it would take the word once more."""
    assert typed(editor, "w.xg", HEAD, words) == []


def test_no_space_asks_for_names(editor: Editor) -> None:
    asking = editor.hello["capabilities"]["completionProvider"]["triggerCharacters"]
    assert " " not in asking


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("    X -> S ", {"if"}),
        ("    X -> •<=W ", {"if"}),
        ("    X -> LN(W, eps=1) ", {"if"}),
        ("    X -> act ", {"as", "over", "if"}),
        ("    X -> Other ", {"as", "over", "if"}),
        ("    X -> B × Other(", set[str]()),
        ("    X -> B × Other() ", {"as", "over", "if"}),
    ],
)
def test_behind_a_node_the_words_that_it_takes_are_offered(
    editor: Editor, words: str, offered: set[str]
) -> None:
    other = "block Other(X [B, D]) -> Y [B, D] {\n    X -> S : Y\n}\n"
    text = other + "option act = ReLU | Other\n" + HEAD.split("\n", 1)[1]
    found = typed(editor, "b.xg", text, words, "\n}\n")
    assert {item["label"] for item in found} == offered


def test_without_options_no_if_is_offered(editor: Editor) -> None:
    assert typed(editor, "i.xg", HEAD.split("\n", 1)[1], "    X -> S ", "\n}\n") == []


TAKEN = {  # the arguments of a node, where `p = 0.1` is an argument of the block and W a parameter
    "DO(": ["p", "B", "D", "p=", "scaling="],
    "DO(0.1, ": ["scaled", "unscaled", "p=", "scaling="],
    "LN(": ["W", "γ=", "β=", "eps="],
    "S(": [],
}


@pytest.mark.parametrize("words", TAKEN)
def test_in_parentheses_what_the_argument_takes_is_offered(editor: Editor, words: str) -> None:
    text = HEAD.replace("(X [B, D])", "(X [B, D]; p = 0.1)")
    found = typed(editor, "a.xg", text, f"    X -> {words}", "\n}\n")
    assert [item["label"] for item in found] == TAKEN[words]


def test_a_block_that_calls_this_one_is_not_offered(editor: Editor) -> None:
    ring = "option way = Ring | S\nblock Ring(X [B, D]) -> Y [B, D] {\n    X -> Layer : Y\n}\n"
    more = (
        ring.replace("option way", "option next_way")
        .replace("Layer", "way")
        .replace("Ring(", "Far(")
    )
    offered = typed(editor, "r.xg", ring + more + HEAD, "    X -> ", "\n}\n")
    found = {item["label"] for item in offered}
    assert not found & {"Ring", "Far", "Layer"}


@pytest.mark.parametrize(
    ("word", "name", "found_by"),
    [
        ("softm", "S", "softmax"),
        ("layern", "LN", "layernorm"),
        ("drop", "DO", "dropout"),
        ("linear", "•", "linear"),
        ("matm", "•", "matmul"),
        ("conc", "C", "concat"),
    ],
)
def test_an_operator_is_found_by_the_name_that_others_give_it(
    editor: Editor, word: str, name: str, found_by: str
) -> None:
    first = typed(editor, "f.xg", HEAD, f"    X -> {word}")[0]
    assert (first["label"], first["filterText"]) == (name, found_by)


def test_letters_and_common_names_come_before_signs(editor: Editor) -> None:
    found = [item["label"] for item in typed(editor, "l.xg", HEAD, "    X -> ")]
    operators = found[found.index("LN") :]
    signs = [not label[0].isalpha() for label in operators]
    assert signs == sorted(signs)
    assert operators.index("S") < operators.index("AG")


def test_words_that_begin_declarations_bring_the_rest(tmp_path: Path) -> None:
    editor = Editor(tmp_path, snippets=True)
    for words, text in (("block", "block ${1:Name}("), ("exam", 'example "${1:Numbers}"')):
        item = typed(editor, "s.xg", "", words)[0]
        assert (item["insertTextFormat"], item["kind"]) == (2, 14)
        assert item["textEdit"]["newText"].startswith(text)
    places = re.findall(r"\$\{?(\d)", typed(editor, "s.xg", "", "block")[0]["textEdit"]["newText"])
    assert list(dict.fromkeys(places)) == ["1", "2", "3", "4", "5", "6", "0"]  # as they are read
    assert typed(editor, "p.xg", HEAD, "    par")[0]["label"] == "param"
    assert editor.quit() == (0, "")


def test_a_sign_brings_the_arrow_of_its_second_operand_unless_there_is_one(tmp_path: Path) -> None:
    editor = Editor(tmp_path, snippets=True)
    for word, sign, bare in (("mat", "•<=", "•"), ("ad", "⊕<-", "⊕"), ("mul", "⊙<-", "⊙")):
        for behind, text in (("\n}\n", sign), ("<=W : Y\n}\n", bare)):
            found = typed(editor, "a.xg", HEAD + " ", f"    X -> {word}", behind)
            written = {item["label"]: item["textEdit"]["newText"] for item in found}
            assert (written[bare], written["LN"]) == (text, "LN")
    assert editor.quit() == (0, "")


def test_nothing_is_offered_in_a_comment_or_a_text(editor: Editor) -> None:
    assert typed(editor, "n.xg", HEAD, "    # X -> ") == []
    assert typed(editor, "m.xg", "", 'block F "X ') == []


def test_signature_help_marks_the_argument(editor: Editor) -> None:
    editor.open("sig.xg", HEAD + "    X -> LN(γ, \n}\n")
    line = HEAD.count("\n")
    found = editor.at("signatureHelp", "sig.xg", line, len("    X -> LN(γ, "))
    assert found["signatures"][0]["label"] == "LN(γ?, β?, eps = 1e-05)"
    assert found["activeParameter"] == 1


def test_shapes_that_the_text_does_not_say_are_shown(editor: Editor) -> None:
    assert editor.open("shapes.xg", GOOD) == []
    document = {"textDocument": {"uri": editor.uri("shapes.xg")}, "range": WHOLE}
    for version in (2, 3):  # typed again, and of the blocks that are known
        found = editor.ask("textDocument/inlayHint", document)
        places = [(each["position"]["line"], each["label"]) for each in found]
        assert places == [(6 + version - 2, "[B, D]")]
        editor.type("shapes.xg", "\n" * (version - 1) + GOOD, version)


# ---- names ---------------------------------------------------------------------------------------


def test_references_reach_the_files_that_use_a_block(editor: Editor) -> None:
    for name, text in (("refs/layers.xg", LAYERS), ("refs/user.xg", USER)):
        (editor.folder / name).parent.mkdir(exist_ok=True)
        (editor.folder / name).write_text(text, "utf-8")
    editor.open("refs/layers.xg", LAYERS)
    place = spot(LAYERS, "block |Layer")
    params: Message = {
        "textDocument": {"uri": editor.uri("refs/layers.xg")},
        "position": {"line": place[0], "character": place[1]},
        "context": {"includeDeclaration": True},
    }
    found = editor.ask("textDocument/references", params)
    assert sorted((Path(each["uri"]).name, each["range"]["start"]["line"]) for each in found) == [
        ("layers.xg", 1),
        ("user.xg", 0),
        ("user.xg", 4),
    ]
    params["context"]["includeDeclaration"] = False
    assert len(editor.ask("textDocument/references", params)) == 2


def rename(editor: Editor, name: str, text: str, words: str, new: str) -> Message:
    line, column = spot(text, words)
    place = {"line": line, "character": column}
    params = {"textDocument": {"uri": editor.uri(name)}, "position": place, "newName": new}
    return editor.answer("textDocument/rename", params)


def applied(text: str, edits: list[Message]) -> str:
    """A text after the edits of an answer; columns are units of UTF-16, letters here are one."""
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda edit: edit["range"]["start"]["character"], reverse=True):
        number: int = edit["range"]["start"]["line"]
        start, end = (edit["range"][side]["character"] for side in ("start", "end"))
        lines[number] = lines[number][:start] + edit["newText"] + lines[number][end:]
    return "\n".join(lines)


def test_a_block_is_renamed_in_every_file(editor: Editor) -> None:
    folder = editor.folder / "names"
    folder.mkdir()
    (folder / "layers.xg").write_text(LAYERS, "utf-8")
    (folder / "user.xg").write_text(USER, "utf-8")
    editor.open("names/user.xg", USER)
    changes = rename(editor, "names/user.xg", USER, "-> |Layer", "Stage")["result"]["changes"]
    assert set(changes) == {editor.uri("names/user.xg"), editor.uri("names/layers.xg")}
    texts = {name: folder / name for name in ("layers.xg", "user.xg")}
    for name, path in texts.items():
        path.write_text(applied(path.read_text("utf-8"), changes[editor.uri(f"names/{name}")]))
    user = texts["user.xg"].read_text("utf-8")
    assert "use Stage from" in user
    reading = read_for_editor(texts["user.xg"], Source("user.xg", user), {})
    assert reading.project
    assert not checked(reading.project).diagnostics


MEANT = """\
dim B, D = 4, D_h = 2*D
block F(X [B, D]; p = 0.1) -> Y [B, D_h] {
    param γ [D] = ones, W [D, D_h]
    X -> LN(γ) : H -> DO(p) -> •<=W as out : Y
}
block G(X [B, D]) -> Y [B, D_h] {
    X -> F(p=0.2) as first : Y
}
plan P of G {
    first.W [D, D_h]
}
plan Q = P
example "One" of F {
    given W = [[1]]
    expect dW = [[2]]
}
"""
RENAMED = {
    ("dim B, |D =", "E"): 7,
    ("•<=|W as", "W_o"): 5,
    ("LN(|γ)", "gain"): 2,
    (") : |H ->", "mu"): 1,
    ("|first :", "one"): 2,
    ("F(|p=0.2", "rate"): 3,
    ("plan |P of", "TP"): 2,
    ("block |F(X", "Inner"): 3,
}


@pytest.mark.parametrize(("words", "new"), RENAMED)
def test_a_renamed_text_has_as_many_changes_and_no_new_error(
    editor: Editor, words: str, new: str
) -> None:
    before = [each["code"] for each in editor.open("meant.xg", MEANT)]
    (edits,) = rename(editor, "meant.xg", MEANT, words, new)["result"]["changes"].values()
    assert len(edits) == RENAMED[words, new]
    editor.type("meant.xg", applied(MEANT, edits), 2)
    assert [each["code"] for each in editor.mistakes("meant.xg", 2)] == before
    editor.close("meant.xg")
    editor.mistakes("meant.xg")


@pytest.mark.parametrize(
    ("words", "new", "reason"),
    [
        ("dim B, |D =", "B", "B is taken: B is declared in refused.xg, line 1"),
        ("dim B, |D =", "H", "H is taken: H is declared in refused.xg, line 4"),
        ("dim B, |D =", "W", "W is taken: W is declared in refused.xg, line 3"),
        ("dim B, |D =", "param", "word of the language"),
        ("dim B, |D =", "a b", "no name"),
        ("•<=|W as", "H", "H is taken"),
        ("•<=|W as", "dX", "dX is taken"),
        ("X -> |LN(γ)", "Norm", "operator of the language"),
        ("block |F(X", "LN", "operator of the language"),
    ],
)
def test_a_name_that_is_taken_or_none_is_refused(
    editor: Editor, words: str, new: str, reason: str
) -> None:
    editor.open("refused.xg", MEANT)
    assert reason in rename(editor, "refused.xg", MEANT, words, new)["error"]["message"]
    editor.close("refused.xg")
