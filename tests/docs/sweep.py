"""Run the scripts of task pages that need more packages: `python -m docs.sweep`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from docs.markdown import Block, blocks

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "how-to"
PAGES = ("hugging-face-trainer.md", "peft.md")
RUN_BY_THE_TESTS = ("renamed.py",)
PACKAGES = ROOT / "build" / "integrations"
VERDICT = re.compile(r'^print\("([^"]+:)"', re.MULTILINE)
LISTED = Path(__file__).with_name("integrations.txt")


def scripts() -> list[Block]:
    """Get the scripts of these pages, without those whose output a page shows."""
    found = [each for page in PAGES for each in blocks((GUIDES / page).read_text("utf-8"))]
    return [each for each in found if each.how == "file" and each.what not in RUN_BY_THE_TESTS]


def install() -> None:
    """Install the packages into a folder of their own, once for each list of them."""
    done = PACKAGES / LISTED.name
    if done.exists() and done.read_bytes() == LISTED.read_bytes():
        return
    shutil.rmtree(PACKAGES, ignore_errors=True)
    options = ("--quiet", "--no-deps", "--no-compile", "--target", str(PACKAGES))
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "-r", str(LISTED)], check=True
    )
    shutil.copy(LISTED, done)


def is_right(script: Block, folder: Path) -> bool:
    """Whether a script ends well, and every verdict that it prints is True."""
    path = folder / script.what
    path.write_text(script.text, encoding="utf-8")
    paths = [ROOT / "compiler", ROOT / "grammar", ROOT / "runtime", PACKAGES]
    ran = subprocess.run(
        [sys.executable, path],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    expected = [f"{words} True" for words in VERDICT.findall(script.text)]
    printed = ran.stdout.splitlines()
    right = ran.returncode == 0 and bool(expected) and all(one in printed for one in expected)
    sys.stdout.write(f"{script.what}: {', '.join(expected)}\n" if right else ran.stdout)
    return right


def main() -> int:
    """Run every script; exit 1 if one fails or says that something is not so."""
    install()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "diagrams").symlink_to(ROOT / "diagrams")
        failed = [script.what for script in scripts() if not is_right(script, folder)]
    sys.stdout.writelines(f"failed: {each}\n" for each in failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
