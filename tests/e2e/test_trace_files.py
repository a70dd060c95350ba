"""A reader who follows one line through the compiler enters few files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).with_name("trace_files.py")

NORM = """\
dim B, D
block F(X [B, D]) -> H [B, D] {
    param γ [D], β [D]
    X -> LN(γ, β) : H
}
"""
TENSOR_PARALLEL = """\
dim B = 2, D = 4, H = 6
mesh N_T = 2
block FFN(X [B, D]) -> Y [B, D] {
    param W_up [D, H], W_down [H, D]
    X -> •<=W_up -> ReLU -> •<=W_down : Y
}
plan TP of FFN {
    W_up   [D, H/N_T]
    W_down [H/N_T, D]
}
"""


@pytest.mark.parametrize(
    ("text", "command", "shows", "files", "jumps"),
    [
        # From `X -> LN(γ, β) : H` to the label in its SVG.
        (NORM, "build a.xg -o a.svg", ">H</", 81, 1_310),
        # From `plan TP` to the all-reduce.
        (TENSOR_PARALLEL, "show a.xg --plan TP --as ir", "all_reduce", 75, 2_350),
    ],
    ids=["label", "all-reduce"],
)
def test_one_line_is_followed_through_few_files(
    tmp_path: Path, text: str, command: str, shows: str, files: int, jumps: int
) -> None:
    (tmp_path / "a.xg").write_text(text, encoding="utf-8")
    tool = [sys.executable, str(TOOL), *command.split()]
    own = {k: v for k, v in os.environ.items() if k != "XG_VERIFY"}  # as users run it
    run = subprocess.run(tool, cwd=tmp_path, env=own, capture_output=True, text=True, check=True)
    shown = [run.stdout, *(file.read_text(encoding="utf-8") for file in tmp_path.glob("*.svg"))]
    assert any(shows in text for text in shown)
    trace = json.loads(run.stderr)
    assert trace["files"] <= files, sorted(trace["entered"])
    assert trace["jumps"] <= jumps, trace["busiest"]
