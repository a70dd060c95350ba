"""The recipe of the documentation, followed to the letter: it must give a working backend."""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import xg
from xg import Program, codegen
from xg.codegen.backend import load

DOCUMENT = Path(__file__).parents[2] / "docs" / "adding-a-backend.md"
FILES = ("spelling.py", "module.py")


def _blocks(language: str) -> list[str]:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert all(f"`compiler/xg/codegen/scalar/{file}`" in text for file in FILES)
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    (text,) = _blocks("xg")
    file = tmp_path / "neuron.xg"
    file.write_text(text, encoding="utf-8")
    return xg.compile(file)


@pytest.fixture
def source(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    folder = tmp_path / "scalar"
    folder.mkdir()
    for file, text in zip(("__init__.py", *FILES), ("", *_blocks("python")[:2]), strict=True):
        (folder / file).write_text(text, encoding="utf-8")
    monkeypatch.setattr(codegen, "__path__", [*codegen.__path__, str(tmp_path)])
    try:
        yield import_module("xg.codegen.scalar.module").emit(program.graphs)
    finally:
        for name in [name for name in sys.modules if name.startswith("xg.codegen.scalar")]:
            del sys.modules[name]


@pytest.fixture
def module(source: str) -> ModuleType:
    return load(source, "neuron_scalar")


def test_it_writes_what_the_document_shows(source: str) -> None:
    *_, shown = _blocks("python")
    assert shown in source


def test_its_functions_compute_the_program(module: ModuleType) -> None:
    params, x, step = {"w": -0.7, "b": 0.2}, 1.3, 1e-6
    y, saved = module.neuron(params, x)
    gradients: dict[str, float] = {}
    dx = module.d_neuron(params, saved, 1.0, gradients)
    assert y == pytest.approx(-0.71 / (1 + 2.718281828459045**0.71), rel=1e-12)
    for name in params:
        up, down = ({**params, name: params[name] + sign * step} for sign in (1, -1))
        difference = (module.neuron(up, x)[0] - module.neuron(down, x)[0]) / (2 * step)
        assert gradients[name] == pytest.approx(difference, rel=1e-6)
    difference = (module.neuron(params, x + step)[0] - module.neuron(params, x - step)[0]) / 2
    assert dx == pytest.approx(difference / step, rel=1e-6)


def test_it_is_gone_without_its_folder() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("xg.codegen.scalar.module")
