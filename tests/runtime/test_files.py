import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from xg_runtime import files
from xg_runtime.errors import FileError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_with_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "one" / "below" / "another"
    files.write(folder / "b.txt", b"new")
    assert (folder / "b.txt").read_bytes() == b"new"
    assert names(folder) == ["b.txt"]


def test_a_set_replaces_what_was_there(tmp_path: Path) -> None:
    files.write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    files.write_files({tmp_path / "a": b"3", tmp_path / "b": b"4"})
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"3", b"4"]
    assert names(tmp_path) == ["a", "b"]


def test_one_failing_rename_undoes_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(tmp_path / "a", b"old")
    replace = Path.replace

    def fail_at_c(path: Path, target: Path) -> Path:
        if target.name == "c" and ".xg-new" in path.name:
            raise OSError(28, "No space left on device", str(target))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", fail_at_c)
    with pytest.raises(FileError, match=r"cannot write .*/c: no space left on device"):
        files.write_files({tmp_path / name: b"new" for name in "abc"})
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_the_old_file_has_a_second_name_and_no_copy(tmp_path: Path) -> None:
    path = tmp_path / "a"
    files.write(path, b"old")
    files._keep_old(path)  # pyright: ignore[reportPrivateUsage]
    assert files.temporary_path(path, "old").samefile(path)


def test_what_another_process_removes_first_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = files.temporary_path(tmp_path / "a", "new", 1)
    left.write_bytes(b"half")

    def gone(pid: int) -> bool:
        left.unlink()
        return False

    monkeypatch.setattr(files, "_alive", gone)
    files.remove_leftovers(tmp_path)
    assert names(tmp_path) == []


def test_where_nobody_can_ask_a_process_is_taken_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "name", "nt")
    assert files._alive(2**22 + 1)  # pyright: ignore[reportPrivateUsage]


def test_without_hard_links_the_old_file_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: Path, target: Path) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    files.write(tmp_path / "a", b"old")
    files.write(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


def test_a_foreign_file_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"mine")
    with pytest.raises(FileError, match="xg did not make it"):
        files.write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"}, ours=lambda path: False)
    assert names(tmp_path) == ["b"]
    assert (tmp_path / "b").read_bytes() == b"mine"


def test_a_file_that_is_ours_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"xg 1")
    files.write_files({tmp_path / "a": b"xg 2"}, ours=lambda path: path.read_bytes()[:2] == b"xg")
    assert (tmp_path / "a").read_bytes() == b"xg 2"


def test_a_folder_or_device_is_not_replaced(tmp_path: Path) -> None:
    for path in (tmp_path, Path(os.devnull)):
        with pytest.raises(FileError, match="not an ordinary file"):
            files.write(path, b"")


def test_a_link_is_replaced_and_what_it_points_to_is_not(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    files.write(tmp_path / "link", b"new")
    assert (tmp_path / "target").read_bytes() == b"old"
    assert not (tmp_path / "link").is_symlink()


def test_errors_name_file_and_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileError, match=r"cannot read .*/none: no such file or directory"):
        files.read(tmp_path / "none")
    with pytest.raises(FileError, match=r"cannot write .*/file"):
        files.write(tmp_path / "file" / "below", b"")


def test_a_full_disk_is_told_with_the_name_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match=r"^cannot write .*/a\.txt: no space left on device$"):
        files.write(tmp_path / "a.txt", b"1")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EIO, "Input/output error"), "cannot read: input/output error"),
        (OSError("gone"), "cannot read: gone"),
    ],
)
def test_an_error_without_a_name_or_a_number(error: OSError, said: str) -> None:
    with pytest.raises(FileError, match=f"^{said}$"), files.file_errors("read"):
        raise error


def test_an_error_message_is_one_printable_line() -> None:
    assert str(FileError("a\x1b[31m\nb\u202e é")) == r"a\x1b[31m\nb\u202e é"


WRITE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from xg_runtime import files
real = os.fsync
def fsync(descriptor):
    real(descriptor)
    os.kill(os.getpid(), signal.SIGKILL)
os.fsync = fsync
files.write(Path(sys.argv[1]), b"new" * 100000)
"""


def test_a_kill_leaves_the_old_file_and_the_next_write_tidies_up(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    target = tmp_path / "a"
    files.write(target, b"old")
    command = [sys.executable, "-c", WRITE_AND_DIE, str(target)]
    killed = subprocess.run(command, check=False, env=environment)
    assert killed.returncode == -signal.SIGKILL
    assert target.read_bytes() == b"old"
    assert len(names(tmp_path)) == 2  # the leftover: this test would see nothing otherwise
    files.write(tmp_path / "b", b"")
    assert names(tmp_path) == ["a", "b"]


def test_what_an_earlier_process_of_this_number_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / f".a.{os.getpid()}.xg-new").write_bytes(b"torn")
    folder = tmp_path / f".b.{os.getpid()}.xg-old"
    folder.mkdir()
    (folder / "file").write_bytes(b"")
    files.write(tmp_path / "a", b"new")
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"new"


def test_what_another_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    busy = [tmp_path / f".a.{number}.xg-new" for number in (os.getppid(), 10**30)]
    for path in busy:  # the second is a number of no system that we know
        path.write_bytes(b"")
    files.write(tmp_path / "b", b"")
    assert all(path.exists() for path in busy)


def test_folders_are_flushed_as_their_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[bool] = []
    sync = os.fsync

    def seen(descriptor: int) -> None:
        folders.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    files.write_files({tmp_path / "run" / name: b"1" for name in "ab"})
    assert folders == [False, False, True]
