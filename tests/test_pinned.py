"""pinned.txt is of the releases that xg needs, and what is installed is what was packed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from pinned import differing, exact, pinned, unlike


def test_every_exact_release_has_hashes() -> None:
    found = pinned()
    assert {name: release for name, (release, _) in found.items()} == exact()
    for name, (_, hashes) in found.items():
        assert len(hashes) == len({*hashes}) > 1, name  # a wheel and the sources, at least
        assert all(len(each) == 64 and int(each, 16) for each in hashes), name
        assert hashes == sorted(hashes)


@pytest.mark.parametrize("name", exact())
def test_installed_files_have_the_hashes_of_their_record(name: str) -> None:
    assert differing(name) == []


def test_a_changed_file_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "small"
    package.mkdir(parents=True)
    (package / "__init__.py").write_bytes(b"x = 1\n")
    record = tmp_path / "site" / "small-1.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Name: small\nVersion: 1\n")
    shown = "nia_NpkRxFwkPGhBR7I_yeHc_PJX0pmhxjIBam_NM_Q"
    (record / "RECORD").write_text(f"small/__init__.py,sha256={shown},6\n")
    wheel = tmp_path / "small-1-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for file in ("small/__init__.py", "small-1.dist-info/METADATA"):
            archive.write(tmp_path / "site" / file, file)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    assert (differing("small"), unlike(wheel, "small")) == ([], [])
    (package / "__init__.py").write_bytes(b"x = 2\n")
    assert (differing("small"), unlike(wheel, "small")) == (["small/__init__.py"],) * 2
    shutil.rmtree(package)
    assert unlike(wheel, "small") == ["small/__init__.py"]
