"""The language server survives anything that is typed or sent, and exits as it should."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from editor.client import PATHS, ROOT, Editor
from editor.test_session import GOOD, WRONG, spot


def test_a_file_typed_key_by_key(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    editor.open("typed.xg", "")
    for version, end in enumerate(range(len(GOOD) + 1), 2):
        editor.type("typed.xg", GOOD[:end], version)
        if end % 9 == 0:
            editor.at("hover", "typed.xg", GOOD[:end].count("\n"), 6)
            editor.at("definition", "typed.xg", 3, 8)
    assert editor.mistakes("typed.xg", len(GOOD) + 2) == []
    assert editor.quit() == (0, "")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-32"])
def test_columns_are_counted_as_the_client_wants(tmp_path: Path, encoding: str) -> None:
    editor = Editor(tmp_path, [encoding], related=False)
    assert editor.hello["capabilities"]["positionEncoding"] == encoding
    (mistake,) = editor.open("f.xg", WRONG)
    line = WRONG.split("\n")[6]
    before = line[: line.index("H [B, B]")]
    assert len(before.encode()) > len(before)
    width = len(before.encode()) if encoding == "utf-8" else len(before)
    assert mistake["range"]["start"]["character"] == width
    assert "relatedInformation" not in mistake
    assert editor.quit()[0] == 0


def test_rubbish_is_answered_and_survived(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    assert editor.answer("textDocument/unheardOf", {})["error"]["code"] == -32601
    editor.send({"id": "wrong", "method": "textDocument/hover", "params": {"textDocument": 3}})
    editor.send_bytes(b"Content-Length: 9\r\n\r\n{not json")
    editor.tell("textDocument/didChange", {"textDocument": {"uri": editor.uri("never opened.xg")}})
    for name, text in (
        ("half.xg", "dim \ud800D"),
        ("zero.xg", "\0\r\rdim D\r"),
        ("deep.xg", "(" * 999),
    ):
        assert editor.open(name, text)
    untitled = {"uri": "untitled:Untitled-1", "languageId": "xg", "version": 1, "text": WRONG}
    editor.tell("textDocument/didOpen", {"textDocument": untitled})
    found = editor.wait(lambda message: message.get("params", {}).get("uri") == untitled["uri"])
    assert len(found["params"]["diagnostics"]) == 1
    assert editor.open("good.xg", GOOD) == []
    assert "H [B, D]" in editor.hover("good.xg", *spot(GOOD, "|H -> S"))
    assert editor.quit() == (0, "")


@pytest.mark.parametrize(
    ("message", "identity", "code"),
    [
        (b"{not json", None, -32700),
        (b"[" * 100_000, None, -32700),
        (b"\xff\xfe", None, -32700),
        (b"[1, 2]", None, -32600),
        (b"3", None, -32600),
        (b'{"id": 7, "method": "textDocument/hover", "params": {}}', 7, -32600),
        (b'{"jsonrpc": "1.0", "id": 8, "method": "shutdown"}', 8, -32600),
        (
            b'{"jsonrpc": "2.0", "id": 9, "method": "textDocument/hover", "params": {"a": 3}}',
            9,
            -32602,
        ),
        (b'{"jsonrpc": "2.0", "id": "a", "method": ["no text"]}', "a", -32603),
    ],
)
def test_a_malformed_request_is_answered(
    tmp_path: Path, message: bytes, identity: int | str | None, code: int
) -> None:
    editor = Editor(tmp_path)
    editor.send_bytes(b"Content-Length: %d\r\n\r\n" % len(message) + message)
    found = editor.wait(lambda each: "error" in each)
    assert (found["id"], found["error"]["code"]) == (identity, code)
    assert editor.open("good.xg", GOOD) == []
    assert editor.quit() == (0, "")


def test_leaving_without_a_goodbye_is_an_error(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    editor.tell("exit")
    assert editor.end() == (1, "")
    editor = Editor(tmp_path)
    assert editor.end() == (1, "")


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    editor.process.send_signal(signal.SIGINT)
    assert editor.end() == (-signal.SIGINT, "")


def test_pygls_is_imported_by_nobody_else() -> None:
    code = "import sys; from xg.cli import main; main(['check', 'diagrams/notation/mlp.xg']); "
    code += "sys.exit('pygls' in sys.modules or 'asyncio' in sys.modules)"
    subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=ROOT, check=True, env={"PYTHONPATH": PATHS}
    )
