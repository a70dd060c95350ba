"""The compiled layout engine is kept between processes; where that fails, it is compiled."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import wasmtime

from xg.figures.layout.engines import compiled

ADDER = '(module (func (export "run") (result i32) i32.const 20 i32.const 22 i32.add))'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for entries, empty."""
    monkeypatch.setenv(
        "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", str(tmp_path)
    )
    return tmp_path / "xg"


def run(text: str = ADDER, settings: str = "") -> int:
    """The answer of a module; 42 is right."""
    runtime = wasmtime.Engine()
    module = compiled(runtime, bytes(wasmtime.wat2wasm(text)), settings)
    store = wasmtime.Store(runtime)
    function = wasmtime.Instance(store, module, []).exports(store)["run"]
    assert isinstance(function, wasmtime.Func)
    return int(function(store))


def compilations(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Grows with every module that is compiled."""
    compiled_codes: list[bytes] = []

    make = wasmtime.Module.__init__

    def counting(module: wasmtime.Module, runtime: wasmtime.Engine, code: bytes) -> None:
        compiled_codes.append(code)
        make(module, runtime, code)

    monkeypatch.setattr(wasmtime.Module, "__init__", counting)
    return compiled_codes


def test_the_second_process_does_not_compile(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = compilations(monkeypatch)
    assert [run(), run()] == [42, 42]
    assert len(codes) == 1
    assert len(list(cache.iterdir())) == 1
    assert run(settings="other") == 42
    assert run(ADDER.replace("22", "23")) == 43
    assert len(codes) == len(list(cache.iterdir())) == 3


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "text", "folder", "writable by all"])
def test_a_damaged_entry_is_made_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    run()
    (entry,) = cache.iterdir()
    data = entry.read_bytes()
    match damage:
        case "cut":
            entry.write_bytes(data[:-100])
        case "bit":
            entry.write_bytes(data[:1000] + bytes([data[1000] ^ 1]) + data[1001:])
        case "empty":
            entry.write_bytes(b"")
        case "text":
            entry.write_text("no machine code")
        case "folder":
            entry.unlink()
            entry.mkdir()
        case _:
            entry.chmod(0o666)
    codes = compilations(monkeypatch)
    assert run() == 42
    assert len(codes) == 1
    if damage != "folder":
        assert entry.read_bytes() == data
        assert entry.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("place", ["a file", "read-only", "relative", "no home"])
def test_without_a_folder_it_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if place == "a file":
        (folder / "xg").write_text("")
    if place == "read-only":
        folder.chmod(0o500)
    if place == "no home":
        monkeypatch.setattr(Path, "home", _no_home)
    chosen = folder if place in ("a file", "read-only") else "relative"
    monkeypatch.setenv("XDG_CACHE_HOME", str(chosen))
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(tmp_path)
    assert run() == 42
    assert not (tmp_path / "relative").exists()


def _no_home() -> Path:
    raise RuntimeError("no home")


def test_entries_are_written_at_once(cache: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(run) for _ in range(32)]
    assert {answer.result() for answer in answers} == {42}
    assert [entry.suffix for entry in cache.iterdir()] == [".module"]
    assert list(cache.parent.iterdir()) == [cache]
