"""Every planted error is named at its edge, and the model without one agrees."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from verify.counterpart.planted import BACKWARD, FORWARD, Planted, model

from xg.cli import input_arrays as published
from xg.cli.opening import open_project
from xg.frontend.project import Project
from xg.frontend.typed import Settings
from xg_torch.compare.comparison import TOLERANCE, Counterpart, ModuleAgreement, compare_module

ROOT = Path(__file__).parents[3]
FILE = ROOT / "diagrams" / "models" / "transformer.xg"
NAMES = ROOT / "examples" / "minigpt" / "minigpt.names.toml"


def once(call: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a project, a block, settings and a plan that calls another once for each."""
    found: dict[object, Any] = {}

    def called(project: Project, block: str | None, settings: Settings, *plan: str | None) -> Any:  # noqa: ANN401
        key = (id(project), block, frozenset(settings.items()), plan)
        if key not in found:
            found[key] = call(project, block, settings, *plan)
        return found[key]

    return called


SHAPED, COMPILED = once(published.shape_project), once(published.compile_project)


@cache
def opened() -> Project:
    return open_project(str(FILE))


@pytest.fixture(autouse=True)
def _compiled_once(  # pyright: ignore[reportUnusedFunction]
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let all models that differ in an error alone be compared with one compiled diagram."""
    monkeypatch.setattr(published, "shape_project", SHAPED)
    monkeypatch.setattr(published, "compile_project", COMPILED)


def compared(module: Any, settings: dict[str, str] | None = None) -> ModuleAgreement:  # noqa: ANN401
    chosen = list((settings or {}).items())
    options = Namespace(file=str(FILE), block=None, settings=chosen, names=NAMES, plan=None)
    counterpart = Counterpart.of(opened(), options, module, {}, draw=True)
    return compare_module(counterpart, {}, TOLERANCE)


def test_the_model_without_an_error_agrees() -> None:
    found = compared(model())
    assert found.first is None
    assert found.worst < 1e-13
    assert (found.forward, found.backward, found.gradients) == (46, 42, 36)


@pytest.mark.parametrize(
    ("direction", "planted"),
    [
        *(pytest.param("forward", each, id=name) for name, each in FORWARD.items()),
        *(pytest.param("backward", each, id=name) for name, each in BACKWARD.items()),
    ],
)
def test_an_error_is_named_at_its_edge(direction: str, planted: Planted) -> None:
    module = model()
    planted.plant(module)
    first = compared(module, dict(planted.settings)).first
    assert first is not None
    assert (first.direction, first.name) == (direction, planted.edge)
    assert planted.words in (first.cause or "nothing")
