"""A campaign tries cases in processes of its own, writes what fails, and goes on where it ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
# In a process of its own: workers are forked, and tests have threads.
SCRIPT = """\
import sys
from pathlib import Path

from fuzz.campaign import run
from fuzz.kinds import KINDS, Failed, Kind

def every_third(seed):
    return None if seed % 3 else Failed(f"case {seed}".encode(), f"{seed} is a multiple of 3")

KINDS["odd"] = Kind("odd", "every third seed fails", 9, every_third)
folder = Path(sys.argv[1])
print(run("odd", range(4), None, folder, resume=True, jobs=2))
print(run("odd", range(10), None, folder, resume=True, jobs=2))
print(run("faults", range(7, 9), None, folder, resume=False, jobs=1))
"""


def test_a_campaign_is_resumed_and_its_workers_may_have_children(tmp_path: Path) -> None:
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
    )
    assert done.stdout.split() == ["2", "2", "0"]
    assert json.loads((tmp_path / "next.json").read_text(encoding="utf-8")) == {"odd": 10}
    assert (tmp_path / "odd_3.xg").read_text(encoding="utf-8") == "case 3"
    assert {path.stem for path in tmp_path.glob("*.txt")} == {f"odd_{n}" for n in (0, 3, 6, 9)}
