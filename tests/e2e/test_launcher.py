"""`./xg` in a checkout: whose environment it makes again, and whose it leaves alone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
# In place of Python: makes environments without pip, whose python says which program it runs.
PYTHON = """\
#!/bin/sh
for last; do :; done
case $* in
    "-m venv --clear "*) rm -rf -- "$last"/* ;;
esac
case $* in
    "-m venv "*) mkdir -p "$last/bin" && cp "$0" "$last/bin/python" ;;
esac
echo "ran $last"
"""


def checkout(folder: Path) -> Path:
    folder.mkdir()
    for name in ("xg", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def xg(folder: Path) -> str:
    python = folder.parent / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    variables = {"PYTHON": str(python), "PATH": "/usr/bin:/bin"}
    words = ["./xg", "--version"]
    done = subprocess.run(words, env=variables, cwd=folder, check=True, capture_output=True)
    return done.stdout.decode()


def test_an_environment_is_made_once_and_kept(tmp_path: Path) -> None:
    here = checkout(tmp_path / "here")
    assert "ran --version" in xg(here)
    own = here / ".venv" / "of-the-user"
    own.touch()
    (here / "pyproject.toml").write_text("[project]\n")
    xg(here)
    assert own.exists()


def test_the_environment_of_a_copied_checkout_is_made_again(tmp_path: Path) -> None:
    here = checkout(tmp_path / "here")
    xg(here)
    (here / ".venv" / "stale").touch()
    here.rename(tmp_path / "there")
    xg(tmp_path / "there")
    assert not (tmp_path / "there" / ".venv" / "stale").exists()


def test_the_environment_that_a_link_leads_to_is_left_alone(tmp_path: Path) -> None:
    here, other = checkout(tmp_path / "here"), checkout(tmp_path / "other")
    xg(other)
    (other / ".venv" / "package").touch()
    (here / ".venv").symlink_to(other / ".venv")
    assert "ran --version" in xg(here)
    assert (other / ".venv" / "package").exists()
    assert not (here / ".venv").is_symlink()
