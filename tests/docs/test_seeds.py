"""Check that each statement of the source texts has a diagram, a figure and a test."""

from dataclasses import replace
from pathlib import Path

import pytest
from docs import seeds
from docs.test_examples import DOCUMENTS
from figures.test_manifest import ENTRIES, Entry

from xg.diagnostics.escape import slug, stems

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).with_name("seeds.toml")
TABLE = seeds.read(DATA.read_text(encoding="utf-8"))


def problems(table: seeds.Table) -> list[str]:
    return seeds.problems(table, ROOT, DOCUMENTS)


def test_every_row_is_proven() -> None:
    assert problems(TABLE) == []


def test_every_figure_that_a_seed_prints_has_a_row() -> None:
    rows = {(row.seed, row.figure) for row in TABLE.rows if row.kind == "figure"}
    printed = [entry for entry in ENTRIES if entry["title"]]
    assert {(entry["seed"], _drawn(entry)) for entry in printed} <= rows
    assert len(printed) > 15


def _drawn(entry: Entry) -> str:
    """The figure of an entry of the manifest, as its file is called."""
    (stem,) = stems(Path(entry["file"]).stem, [entry["block"]]).values()
    plan = entry.get("plan")
    return f"{slug(f'{stem}_{plan}') if plan else stem}.{entry['view']}"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"by": ""}, "nothing shows it"),
        ({"by": "luck"}, "luck is no proof"),
        ({"kind": "poem"}, "poem is no kind"),
        ({"xg": "notation/absent.xg"}, "there is no notation/absent.xg"),
        ({"figure": "attention.sideways"}, "attention.sideways is not in the gallery"),
        ({"figure": "mlp.forward"}, "mlp.forward is no figure of notation/attention.xg"),
        ({"figure": ""}, "a diagram and a figure, or code, should be there"),
        ({"code": "xg"}, "a diagram and a figure, or code, should be there"),
        ({"command": "./xg dance"}, "no document runs ./xg dance"),
    ],
)
def test_a_row_without_a_proof_is_found(change: dict[str, str], problem: str) -> None:
    row = next(row for row in TABLE.rows if row.xg == "notation/attention.xg")
    wrong = seeds.Table((*TABLE.rows, replace(row, **change)), TABLE.proofs)
    assert any(found.endswith(problem) for found in problems(wrong))


@pytest.mark.parametrize(
    "test",
    [
        "tests/figures/test_gallery.py::test_that_is_not_there",
        "tests/figures/test_manifest.py::violations",  # not collected
        "tests/absent.py::test_it",
    ],
)
def test_a_test_that_is_not_there_is_found(test: str) -> None:
    proofs = {**TABLE.proofs, "figure": test}
    assert problems(seeds.Table(TABLE.rows, proofs)) == [f"there is no {test}"]


def test_a_proof_that_no_row_needs_is_found() -> None:
    proofs = {**TABLE.proofs, "idle": TABLE.proofs["figure"]}
    assert problems(seeds.Table(TABLE.rows, proofs)) == ["no row needs idle"]
