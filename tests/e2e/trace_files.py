"""Count what a reader who follows one command enters: files, functions, jumps between files.

`python tests/e2e/trace_files.py build mlp.xg --only svg` runs a command of xg in this process and
prints the three counts, then the files and the busiest jumps. It leaves out what runs
while a module is imported.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType

COMPILER = f"{Path(__file__).resolve().parents[2] / 'compiler'}/"
BUSIEST = 20  # jumps that are printed


@dataclass
class Trace:
    """The calls of one run: of each file, its functions, and from one file to another."""

    calls: Counter[str] = field(default_factory=Counter[str])
    functions: set[CodeType] = field(default_factory=set[CodeType])
    jumps: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    importing: int = 0  # modules whose lines run at this moment, each inside the one before

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call, as `sys.setprofile` reports it."""
        code = frame.f_code
        file = code.co_filename
        if code.co_name == "<module>":
            self.importing += {"call": 1, "return": -1}.get(event, 0)
        if event != "call" or self.importing or not file.startswith(COMPILER):
            return
        self.calls[file] += 1
        self.functions.add(code)
        caller = _caller(frame)
        is_implicit = code.co_name.startswith("__")  # a hash, a comparison: no reader goes there
        if caller is not None and caller != file and not is_implicit:
            self.jumps[caller, file] += 1


def _caller(frame: FrameType) -> str | None:
    """Find the file of the compiler that made a call, past what other libraries run between."""
    above = frame.f_back
    while above is not None and not above.f_code.co_filename.startswith(COMPILER):
        above = above.f_back
    return None if above is None else above.f_code.co_filename


def trace_command(arguments: list[str]) -> Trace:
    """Run a command of xg and count its calls."""
    trace = Trace()
    main = import_module("xg.cli").main
    sys.setprofile(trace)
    try:
        with suppress(SystemExit):
            main(arguments)
    finally:
        sys.setprofile(None)
    return trace


def main() -> None:
    trace = trace_command(sys.argv[1:])
    files = {file.removeprefix(COMPILER): n for file, n in sorted(trace.calls.items())}
    jumps = {
        " -> ".join(file.removeprefix(COMPILER) for file in pair): count
        for pair, count in trace.jumps.most_common(BUSIEST)
    }
    counts = {
        "files": len(files),
        "functions": len(trace.functions),
        "jumps": trace.jumps.total(),
    }
    text = json.dumps({**counts, "entered": files, "busiest": jumps}, indent=1)
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    main()
