"""An editor as far as the protocol goes: it starts `xg lsp` and talks to it over its streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import IO, Any

ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join(str(ROOT / name) for name in ("compiler", "runtime", "grammar"))
PATIENCE = 30  # seconds; an answer takes milliseconds

Message = dict[str, Any]


class Editor:
    """One session: requests, notifications, and the diagnostics that were last published."""

    def __init__(
        self,
        folder: Path,
        encodings: Sequence[str] = (),
        *,
        related: bool = True,
        snippets: bool = False,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-W", "error", "-m", "xg", "lsp", "--stdio"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": PATHS},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.folder = folder
        self.said: Queue[Message | None] = Queue()
        self.aside: list[Message] = []  # what came while something else was awaited
        self.count = 0
        self.reader = Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self.reader.start()
        self.hello = self._greet(encodings, related, snippets)

    def _greet(self, encodings: Sequence[str], related: bool, snippets: bool) -> Message:
        """Say what the editor can do; what the server can."""
        publishing = {"publishDiagnostics": {"relatedInformation": related}}
        completing = {"completion": {"completionItem": {"snippetSupport": snippets}}}
        able: Message = {"textDocument": {**publishing, **completing}}
        if encodings:
            able["general"] = {"positionEncodings": list(encodings)}
        params = {"processId": None, "rootUri": self.folder.as_uri(), "capabilities": able}
        hello: Message = self.ask("initialize", params)
        self.tell("initialized", {})
        return hello

    # ---- the protocol ----------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """A message in its frame."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def ask(self, method: str, params: object = None) -> Any:  # noqa: ANN401 - JSON
        """The result of a request; fails with the answer if that is an error."""
        answer = self.answer(method, params)
        assert "error" not in answer, answer
        return answer["result"]

    def answer(self, method: str, params: object = None) -> Message:
        """The whole answer to a request."""
        self.count += 1
        wanted = self.count
        self.send({"id": wanted, "method": method, "params": params})
        return self.wait(lambda message: message.get("id") == wanted)

    def tell(self, method: str, params: object = None) -> None:
        """A notification."""
        self.send({"method": method, "params": params})

    def wait(self, wanted: Callable[[Message], bool]) -> Message:
        """The first message that is wanted; the others are kept for later calls."""
        for message in self.aside:
            if wanted(message):
                self.aside.remove(message)
                return message
        while True:
            message = self.said.get(timeout=PATIENCE)
            assert message is not None, "the server has ended"
            if wanted(message):
                return message
            self.aside.append(message)

    def _read(self, stream: IO[bytes]) -> None:
        while line := stream.readline():
            length = int(line.removeprefix(b"Content-Length: ")) if b"Length" in line else None
            if length is not None:
                while stream.readline().strip():
                    pass
                self.said.put(json.loads(stream.read(length)))
        self.said.put(None)

    # ---- what people do --------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> list[Message]:
        """Open a text, which need not be on disk; return the diagnostics published for it."""
        document = {"uri": self.uri(name), "languageId": "xg", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        return self.mistakes(name, 1)

    def type(self, name: str, text: str, version: int) -> None:
        """Change the whole text."""
        document = {"uri": self.uri(name), "version": version}
        self.tell(
            "textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]}
        )

    def close(self, name: str) -> None:
        self.tell("textDocument/didClose", {"textDocument": {"uri": self.uri(name)}})

    def mistakes(self, name: str, version: int | None = None) -> list[Message]:
        """The next diagnostics that are published for a text, of a version if one is given."""

        def wanted(message: Message) -> bool:
            params: Message = message.get("params", {})
            ours = message.get("method") == "textDocument/publishDiagnostics"
            right = version is None or params.get("version") == version
            return ours and right and params["uri"] == self.uri(name)

        return self.wait(wanted)["params"]["diagnostics"]

    def at(self, method: str, name: str, line: int, column: int) -> Any:  # noqa: ANN401 - JSON
        """The answer about a place, counted from 0."""
        place = {"line": line, "character": column}
        params = {"textDocument": {"uri": self.uri(name)}, "position": place}
        return self.ask(f"textDocument/{method}", params)

    def hover(self, name: str, line: int, column: int) -> str:
        found = self.at("hover", name, line, column)
        return found["contents"]["value"] if found else ""

    def format(self, name: str) -> list[Message] | None:
        options: Mapping[str, object] = {"tabSize": 8, "insertSpaces": False}
        params = {"textDocument": {"uri": self.uri(name)}, "options": options}
        return self.ask("textDocument/formatting", params)

    def quit(self) -> tuple[int, str]:
        """Shut down as the protocol requires; return the exit code and the text on stderr."""
        self.ask("shutdown")
        self.tell("exit")
        return self.end()

    def end(self) -> tuple[int, str]:
        """Close the streams, and wait for the end."""
        assert self.process.stdin
        assert self.process.stderr
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        said = self.process.stderr.read().decode()
        self.reader.join(PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        return code, said
