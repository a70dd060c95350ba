"""Every diagram that comes along: checked in all choices, laid out, its gradients proven."""

from pathlib import Path

import pytest

from xg.choices import check_choices
from xg.cli.proving import prove
from xg.cli.verify import by_default
from xg.project import read_project
from xg.source import Source
from xg.syntax.format import format

DIAGRAMS = sorted((Path(__file__).parent.parent / "diagrams").glob("*.xg"))
diagrams = pytest.mark.parametrize("path", DIAGRAMS, ids=lambda path: path.stem)


def test_the_gallery_is_there() -> None:
    assert {path.stem for path in DIAGRAMS} >= {
        *("attention", "embedding", "flow", "legend", "mha", "mlp", "output", "transformer"),
        *("bert", "cat_sleeps", "encoder_decoder", "llama", "ops", "sentiment", "vit"),
    }


@diagrams
def test_it_has_no_mistakes_in_any_choice(path: Path) -> None:
    assert check_choices(read_project(path)) == ()


@diagrams
def test_it_is_laid_out(path: Path) -> None:
    source = Source.from_bytes(path.name, path.read_bytes())
    assert format(source) == source.text


@diagrams
def test_its_gradients_are_proven(path: Path) -> None:
    project = read_project(path)
    for block, settings in by_default(project, {}):
        proof = prove(project, block, settings, seed=0)
        assert proof.gradients.passed, proof.gradients.rows
        assert proof.reference.first is None
