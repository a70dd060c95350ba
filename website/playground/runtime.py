"""The Python runtime of the playground: Pyodide, from its npm package, pinned by a digest.

It is fetched when the site is built and kept in `build/`; where npm or its registry cannot be
reached, the site is built without it, and both the builder and the page say so.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from hashlib import sha512
from io import BytesIO
from pathlib import Path

PACKAGE = "pyodide@314.0.7"
DIGEST = (
    "d18bd7c4485f11da4b7dbfd790cd8114078c44eab488c517d9bcf31fda4eb6dc"
    "8c716930abe1db139bb2b860fcd8b37bcb6abe48dbe2ffa579244b0e943d91d4"
)
NEEDED = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "pyodide-lock.json",
    "python_stdlib.zip",
)
CACHE = Path(__file__).parents[2] / "build" / "fetched"
ARCHIVE = CACHE / f"{PACKAGE.replace('@', '-')}.tgz"
SECONDS = 300


class RuntimeMissing(Exception):
    """The runtime cannot be had; the message says why."""


def runtime(cache: Path = CACHE) -> dict[str, bytes]:
    """The files of the runtime by their names, from the cache or the registry."""
    archive = cache / ARCHIVE.name
    if not _is_ours(archive):
        _fetch(cache)
    if not _is_ours(archive):
        raise RuntimeMissing(f"{archive.name} has another digest than the pinned one")
    with tarfile.open(fileobj=BytesIO(archive.read_bytes())) as members:
        return {name: _content(members, name) for name in NEEDED}


def _is_ours(archive: Path) -> bool:
    return archive.is_file() and sha512(archive.read_bytes()).hexdigest() == DIGEST


def _content(members: tarfile.TarFile, name: str) -> bytes:
    file = members.extractfile(f"package/{name}")
    assert file is not None
    return file.read()


def _fetch(cache: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeMissing("there is no npm on this machine")
    cache.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", PACKAGE, "--silent", "--pack-destination", str(cache)]
    try:
        ran = subprocess.run(
            command, cwd=cache, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeMissing(f"npm took more than {SECONDS} seconds") from error
    if ran.returncode:
        said = [line for line in ran.stderr.splitlines() if line.strip()]
        raise RuntimeMissing(f"npm cannot fetch {PACKAGE}: {said[0] if said else ran.returncode}")
