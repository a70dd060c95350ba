"""The files of a program: what `use` may reach, and what it may not."""

import os
from pathlib import Path

import pytest

import xg
from xg.diagnostics.limits import Files
from xg.frontend import project
from xg.frontend.project import read_project

PART = "dim B\nblock Part(X [B]) -> Y [B] {\n    X -> ReLU : Y\n}\n"
WHOLE = "use Part from {}\n\ndim B\nblock Whole(X [B]) -> Y [B] {{\n    X -> Part : Y\n}}\n"


def whole(folder: Path, origin: str) -> Path:
    """A file that uses another one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "whole.xg").write_text(WHOLE.format(origin))
    return folder / "whole.xg"


def refused(path: Path) -> str:
    with pytest.raises(xg.DiagnosticError) as caught:
        xg.compile(path)
    return str(caught.value)


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "part.xg").write_text(PART)
    program = xg.compile(whole(tmp_path, '"parts/part.xg"'))
    assert list(program.graphs.graphs) == ["Part", "Whole"]
    assert [path.name for path in program.project.paths] == ["whole.xg", "part.xg"]


def test_a_bare_name_is_the_shipped_library(tmp_path: Path) -> None:
    (tmp_path / "model.xg").write_text(
        "use GQA from llama\n\ndim B, S, D = 8, N_H = 4, N_KV = 2, D_h = 2\n"
        "block Model(X [B, S, D]) -> Y [B, S, D] {\n    X -> GQA : Y\n}\n"
    )
    assert "GQA.W_K" in xg.compile(tmp_path / "model.xg").params


def test_a_bare_name_that_the_library_lacks(tmp_path: Path) -> None:
    said = refused(whole(tmp_path, "part"))
    assert "the library has no part.xg" in said
    assert "mha" in said
    assert 'put the name of your own file in quotes: "part.xg"' in said


def test_the_project_reaches_up_to_its_mark(tmp_path: Path) -> None:
    (tmp_path / "part.xg").write_text(PART)
    path = whole(tmp_path / "deep" / "er", '"../../part.xg"')
    assert "is outside the project" in refused(path)
    (tmp_path / "pyproject.toml").write_text("")
    assert xg.compile(path)


def test_a_file_of_the_library_is_parsed_once(tmp_path: Path) -> None:
    path = tmp_path / "model.xg"
    path.write_text("use GQA from llama\n\n" + PART)
    first, second = (read_project(path) for _ in range(2))
    assert first.modules[0] is not second.modules[0]
    assert first.modules[1] is second.modules[1]


def test_a_file_of_the_library_that_changed_is_parsed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "library", lambda: tmp_path)
    path = tmp_path / "part.xg"
    names: list[str] = []
    for text in (PART, PART.replace("Part", "Other")):
        path.write_text(text)
        names.append(read_project(path).main.blocks[0].name.name)
    assert names == ["Part", "Other"]


@pytest.mark.parametrize("origin", ['"/etc/hostname"', '"..\\part.xg"', '"../../../etc/hostname"'])
def test_paths_out_of_the_project(tmp_path: Path, origin: str) -> None:
    assert "is outside the project" in refused(whole(tmp_path, origin))


def test_links_are_followed_before_they_are_judged(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "part.xg").write_text(PART)
    path = whole(tmp_path / "inside", '"part.xg"')
    (tmp_path / "inside" / "part.xg").symlink_to(tmp_path / "outside" / "part.xg")
    assert "is outside the project" in refused(path)
    (tmp_path / "inside" / "part.xg").unlink()
    (tmp_path / "inside" / "real.xg").write_text(PART)
    (tmp_path / "inside" / "part.xg").symlink_to("real.xg")
    assert xg.compile(path)


def test_a_ring_of_links(tmp_path: Path) -> None:
    path = whole(tmp_path, '"part.xg"')
    (tmp_path / "part.xg").symlink_to("other.xg")
    (tmp_path / "other.xg").symlink_to("part.xg")
    assert 'cannot read "part.xg"' in refused(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = whole(tmp_path, '"part.xg"')
    assert "there is no such file" in refused(path)
    (tmp_path / "part.xg").mkdir()
    assert "it is a folder" in refused(path)
    (tmp_path / "part.xg").rmdir()
    os.mkfifo(tmp_path / "part.xg")
    assert "it is not an ordinary file" in refused(path)
    assert refused(tmp_path / "nothing.xg").startswith("error[XG0601]: cannot read")
    assert "it is a folder" in refused(tmp_path)


def test_rings_of_files(tmp_path: Path) -> None:
    path = whole(tmp_path, '"part.xg"')
    (tmp_path / "part.xg").write_text('use Whole from "whole.xg"\n' + PART)
    said = refused(path)
    assert "files use each other in a cycle: whole.xg → part.xg → whole.xg" in said
    assert "part.xg:1:16" in said
    (tmp_path / "part.xg").write_text('use Part from "part.xg"\n' + PART)
    assert "in a cycle: part.xg → part.xg" in refused(path)


def test_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    path = whole(tmp_path, '"part.xg"')
    (tmp_path / "part.xg").write_text("block (\n")
    path.write_text('use Other from "gone.xg"\n' + path.read_text())
    said = refused(path)
    assert 'cannot read "gone.xg"' in said
    assert "part.xg:1" in said


def test_a_file_that_two_others_use_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "part.xg").write_text(PART)
    for name in ("a", "b"):
        (tmp_path / f"{name}.xg").write_text(
            f'use Part from "part.xg"\ndim B\nblock {name.upper()}_block(X [B]) -> Y [B] {{\n'
            "    X -> Part : Y\n}\n"
        )
    (tmp_path / "both.xg").write_text(
        'use A_block from "a.xg"\nuse B_block from "b.xg"\ndim B\n'
        "block Both(X [B]) -> Y [B] {\n    X -> A_block -> B_block : Y\n}\n"
    )
    project = read_project(tmp_path / "both.xg")
    assert [path.name for path in project.paths] == ["both.xg", "a.xg", "b.xg", "part.xg"]
    assert len(project.modules) == 4


@pytest.mark.parametrize(("count", "fits"), [(Files.maximum, True), (Files.maximum + 1, False)])
def test_so_many_files(tmp_path: Path, count: int, fits: bool) -> None:
    (tmp_path / f"f{count - 1}.xg").write_text(PART)
    for i in range(count - 1):
        text = f'use Part from "f{i + 1}.xg"\n' + PART.replace("Part(", f"Own_{i}(")
        (tmp_path / f"f{i}.xg").write_text(text)
    if fits:
        assert len(read_project(tmp_path / "f0.xg").paths) == count
    else:
        assert f"this program has {count} files; at most" in refused(tmp_path / "f0.xg")


def test_a_file_that_is_too_long(tmp_path: Path) -> None:
    (tmp_path / "long.xg").write_bytes(b"# " + b"x" * 2**21)
    assert "this file has 2,097,154 bytes; at most 1,048,576" in refused(tmp_path / "long.xg")
    path = whole(tmp_path, '"long.xg"')
    assert "long.xg:1:1" in refused(path)
