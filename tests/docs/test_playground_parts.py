"""The parts of the compiler that are sent with the playground's memory: those that a page asks for.

A list names what is left out. Here a page asks for everything, in a process without NumPy.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from tier import THOROUGH
from website.playground.build import PACKAGES, playground_files
from website.playground.snapshot import PREFIXES, USED, is_sent

ASKING = """
import json, sys, tempfile
sys.modules["numpy"] = sys.modules["torch"] = None
opened = set()
sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == "open" else None)
from website.playground import answer as page
import os
os.chdir(tempfile.mkdtemp())
def read():
    files = {str(m.__file__) for m in list(sys.modules.values()) if getattr(m, "__file__", None)}
    return files | opened
def ask(do, **more):
    return json.loads(page.answer(json.dumps({"do": do, **about, **more})))
first, *texts = json.loads(sys.argv[1])
every, seen = sys.argv[2:] == ["every plan"], set()
about = {"name": "mha", "text": first}  # as before the memory is kept
for view in ("forward", "backward"):
    ask("draw", view=view)
for do in ("check", "format"):
    ask(do, text=first)
kept = read()
for text in texts:
    about = {"name": "net", "text": text}
    plans = ask("draw", view="forward").get("plans", [])
    for plan in ["", *(plan for plan in plans[:1] if every or plan not in seen)]:
        seen.add(plan)
        for view in ask("draw", view="forward", plan=plan).get("views", []):
            ask("draw", view=view, plan=plan)
        while "plans" in ask("deepen", view="explorer", plan=plan):
            pass
    for each in (text, text.replace("-> ", "-> RR -> ", 1), text[:len(text) // 2]):
        for do in ("check", "format"):
            ask(do, text=each)
        ask("complete", text=each, at=len(each) // 2)
print(json.dumps(sorted(read() - kept)))
"""


@pytest.fixture(scope="module")
def members() -> set[str]:
    """The files of the compiler by their names in the archive of the page."""
    with ZipFile(BytesIO(playground_files()["playground/compiler.zip"])) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def asked_for(members: set[str]) -> set[str]:
    """The files that a page reads behind its memory, for every view of some programs.

    Daily each plan is drawn of the first program that has it, and larger programs, which read the
    same files, are left out.
    """
    larger = ("notation/flow", "examples/moe") if THOROUGH else ()
    shown = ("notation/mha", "notation/mlp", "examples/lstm", *larger)
    texts = [Path(f"diagrams/{name}.xg").read_text(encoding="utf-8") for name in shown]
    command = [sys.executable, "-c", ASKING, json.dumps(texts), *["every plan"][: int(THOROUGH)]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    read: list[str] = json.loads(done.stdout)
    name = re.compile(rf"(?:^|/)((?:{'|'.join(PACKAGES)})/.+)$")
    found = (match[1] for path in read if (match := name.search(path.replace("\\", "/"))))
    return {each for each in found if each in members}


def test_what_a_page_asks_for_is_sent(asked_for: set[str]) -> None:
    assert "xg/verify/reference/evaluate.py" in asked_for
    assert sorted(name for name in asked_for if not is_sent(name)) == []


def test_every_part_that_is_left_out_is_there(members: set[str]) -> None:
    """A name that no file has any more says nothing, and a reader would believe it."""
    for prefix in PREFIXES:
        assert any(name.startswith(prefix) for name in members), prefix


def test_nothing_is_sent_that_needs_numpy(members: set[str], asked_for: set[str]) -> None:
    with ZipFile(BytesIO(playground_files()["playground/compiler.zip"])) as archive:
        for name in members - asked_for:
            is_code = name.startswith("xg") and name.endswith(".py")
            if is_code and not name.startswith("xg/codegen/") and not USED.fullmatch(name):
                text = archive.read(name).decode()
                needs = re.search(r"^(?:import|from) numpy\b", text, re.MULTILINE)
                assert not (needs and is_sent(name)), name
