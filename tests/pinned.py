"""Compare the two packages with an exact release with the files that xg took: pinned.txt.

    python tests/pinned.py          # downloads what this machine installs, checks hashes and files
    python tests/pinned.py --write  # writes pinned.txt again, after another release is in pyproject

One person publishes each of these packages. pip downloads the wheel of this machine and checks its
hash; then every file of the wheel is compared with the installed one. `./dev verify-all` does this.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen
from zipfile import ZipFile

ROOT: Final = Path(__file__).parents[1]
FILE: Final = ROOT / "pinned.txt"
FOLDER: Final = ROOT / "build" / "pinned"
INDEX: Final = "https://pypi.org/simple"
HEAD: Final = """\
# The published files of the two packages that xg needs at one exact release each, by SHA-256.
# One person publishes each of them, so let pip check that a file is still the one that xg took:
#     pip install --require-hashes --no-deps -r pinned.txt
# `python tests/pinned.py --write` takes the hashes of another release from the index of PyPI.
"""


def exact() -> dict[str, str]:
    """The packages that xg needs at one exact release, with it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pairs = (line.partition("==")[::2] for line in project["dependencies"] if "==" in line)
    return dict(pairs)


def pinned() -> dict[str, tuple[str, list[str]]]:
    """The packages of pinned.txt: the release of each, and the hashes of its files."""
    found: dict[str, tuple[str, list[str]]] = {}
    text = FILE.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            named, *hashes = line.split()
            name, release = named.split("==")
            found[name] = release, [each.removeprefix("--hash=sha256:") for each in hashes]
    return found


def written() -> str:
    """The file, with the hashes that the index of PyPI has of every wheel and source archive."""
    lines: list[str] = []
    for name, release in exact().items():
        hashes = sorted(_published(name, release))
        assert hashes, f"the index has no files of {name} {release}"
        lines.append(" \\\n    ".join([f"{name}=={release}", *hashes]))
    return HEAD + "\n".join(lines) + "\n"


def _published(name: str, release: str) -> Iterator[str]:
    kind = {"Accept": "application/vnd.pypi.simple.v1+json"}
    with urlopen(Request(f"{INDEX}/{name}/", headers=kind), timeout=60) as answer:
        files: list[dict[str, Any]] = json.load(answer)["files"]
    for file in files:
        if file["filename"].removesuffix(".tar.gz").split("-")[1] == release:
            yield f"--hash=sha256:{file['hashes']['sha256']}"


def differing(name: str) -> list[str]:
    """The installed files of a package that are not those that its own record has hashes of."""
    package = distribution(name)
    wrong: list[str] = []
    for file in package.files or ():
        if file.hash is not None:
            found = hashlib.new(file.hash.mode, Path(str(file.locate())).read_bytes()).digest()
            if base64.urlsafe_b64encode(found).decode().rstrip("=") != file.hash.value:
                wrong.append(str(file))
    return wrong


def unlike(wheel: Path, name: str) -> list[str]:
    """The files of a wheel that are not installed as they are in it; pip writes RECORD again."""
    package = distribution(name)
    wrong: list[str] = []
    with ZipFile(wheel) as archive:
        for file in archive.namelist():
            if file.endswith(("/", ".dist-info/RECORD")):
                continue
            installed = Path(str(package.locate_file(file)))
            if not installed.is_file() or installed.read_bytes() != archive.read(file):
                wrong.append(file)
    return wrong


def main() -> None:
    """Download, and compare; end with an error if anything differs."""
    if "--write" in sys.argv:
        FILE.write_text(written(), encoding="utf-8")
        return
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*pip, "-r", FILE, "-d", FOLDER, "--only-binary", ":all:"], check=True)
    for name, (release, _) in pinned().items():
        (wheel,) = FOLDER.glob(f"{name.replace('-', '_')}-{release}-*.whl")
        wrong = unlike(wheel, name)
        if wrong:
            sys.exit(f"{wheel.name} and what is installed differ in {', '.join(wrong)}")
        print(f"{wheel.name} is the file that xg took, and is what is installed")  # noqa: T201


if __name__ == "__main__":
    main()
