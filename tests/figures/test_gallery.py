"""Every diagram of the library: checked in all choices, laid out, drawn, its gradients proven."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from library import VARIED, constructs, varied
from models.more_families import EVERY
from tier import THOROUGH

from xg.cli.outputs import Wanted, outputs_of
from xg.cli.verification import by_default
from xg.diagnostics.diagnostic import Source
from xg.driver import BACKENDS
from xg.frontend.choices import check_choices
from xg.frontend.project import library_files, read_project
from xg.syntax.format import format
from xg.verify.gradient_proof import prove
from xg_runtime import gradcheck
from xg_testing import lockfile
from xg_testing.lockfile import read_lock
from xg_testing.proofs import check_file, lock_of

LIBRARY = Path(__file__).parents[2] / "diagrams"
DIAGRAMS = sorted(LIBRARY.rglob("*.xg"))
GALLERY = Path(__file__).parent / "gallery"
DOT = Wanted(kinds=("dot",))
PLANNED = [
    (LIBRARY / "notation" / f"{stem}.xg", plan)
    for stem in ("flow", "mha", "mlp")
    for plan in ("TP", "DP", "DP_TP")
]  # sections 6 to 8 of seed 001
planned = pytest.mark.parametrize(
    ("path", "plan"), PLANNED, ids=lambda one: getattr(one, "stem", one)
)
# Mixtral has the choices of Llama.
CHOSEN = [path for path in DIAGRAMS if THOROUGH or path.stem != "mixtral"]
diagrams = pytest.mark.parametrize("path", DIAGRAMS, ids=lambda path: path.stem)


@cache
def dots(path: Path, plan: str | None) -> Mapping[str, bytes]:
    """The DOT texts of a file's figures, by the names of their files."""
    return outputs_of(read_project(path), replace(DOT, plan=plan)).files


def test_the_gallery_is_there() -> None:
    assert {path.stem for path in DIAGRAMS} >= {
        *("attention", "embedding", "flow", "legend", "mha", "mlp", "output", "transformer"),
        *("cat_sleeps", "encoder_decoder", "ops", "sentiment"),
        *("bert", "gpt2", "llama", "t5", "vit"),
    }


def test_names_tell_diagrams_apart() -> None:
    """`use X from NAME` finds one file of the library, in whatever folder it is."""
    assert sorted(library_files()) == DIAGRAMS
    assert len({path.stem for path in DIAGRAMS}) == len(DIAGRAMS)


@pytest.mark.parametrize("path", CHOSEN, ids=lambda path: path.stem)
def test_it_has_no_mistakes_in_any_choice(path: Path) -> None:
    found = check_choices(read_project(path))
    assert [each for each in found if each.severity == "error"] == []
    assert all("comes with a used file" in each.notes[-1] for each in found)


@diagrams
def test_it_is_laid_out(path: Path) -> None:
    source = Source.from_bytes(path.name, path.read_bytes())
    assert format(source) == source.text


@diagrams
def test_its_figures_are_those_of_the_gallery(
    path: Path, golden: Callable[[Path, str], None]
) -> None:
    """The gallery has what the seeds draw, and two constructs more; locks have all figures."""
    compare(dots(path, None), golden)


@planned
def test_the_figures_of_its_plans_are_those_of_the_gallery(
    path: Path, plan: str, golden: Callable[[Path, str], None]
) -> None:
    compare(dots(path, plan), golden)


def compare(figures: Mapping[str, bytes], golden: Callable[[Path, str], None]) -> None:
    for name, content in figures.items():
        if (GALLERY / name).exists():
            golden(GALLERY / name, content.decode())


@diagrams
def test_it_means_what_its_lock_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its edges, numbers, collectives and texts; `./xg lock diagrams/*/*.xg` accepts changes.

    To compile a file under each of its plans takes most of the time: daily the diagrams that have
    every construct are.
    """
    if not (THOROUGH or varied(path)):
        lock = read_lock(lock_of(path))
        assert lock is not None
        blocks = {name: block for (file, name), block in lock.blocks.items() if file == path.name}
        plans = {name: block.plans for name, block in blocks.items()}
        monkeypatch.setattr(lockfile, "_plans", lambda project: plans)  # pyright: ignore
    with np.errstate(all="ignore"):
        changes = [line for each in check_file(path) if not each.passed for line in each.lines()]
    assert changes == []


def owner(figure: Path) -> Path:
    """The diagram that a figure of the gallery is of: its name begins with the file's."""
    name = figure.name.partition(".")[0]
    return max(
        (path for path in DIAGRAMS if f"{name}_".startswith(f"{path.stem}_")),
        key=lambda path: len(path.stem),
    )


@diagrams
def test_no_figure_is_left_over(path: Path) -> None:
    plans = [None, *(plan for planned, plan in PLANNED if planned == path)]
    made = {GALLERY / name for plan in plans for name in dots(path, plan)}
    assert {figure for figure in GALLERY.iterdir() if owner(figure) == path} <= made


# JAX compiles each program for seconds. A small one has what ResNet, T5 and ViT alone have; of what
# diagrams are made of, JAX misses what only the dearest have, and what is of ranks alone.
AS_LARGE = Path(__file__).with_name("as_large_models.xg")
DEAREST = {"mamba", "node_i", "resnet", "rwkv", "t5", "transformer", "vit"}
FOR_JAX = {*VARIED, "embedding", "lstm", AS_LARGE.stem} - DEAREST
NOT_FOR_JAX = {"stop", "uniform"}
OF_RANKS = {"AG", "AR", "RS", "PlanProduct", "Wildcard"}

# Gradients of the other models are compared with those of a published library in tests/models.
PUBLISHED = {family.diagram for family in EVERY.values()} - VARIED | {"resnet"}
PROVEN = [path for path in DIAGRAMS if THOROUGH or path.stem not in PUBLISHED]


def in_turn(path: Path) -> tuple[str, str]:
    """The backend of the base install, and one of the others."""
    first, *others = (each for each in BACKENDS if each != "jax")
    is_for_jax = path.stem in FOR_JAX
    return first, "jax" if is_for_jax else others[DIAGRAMS.index(path) % len(others)]


def test_every_backend_has_a_turn_with_what_diagrams_are_made_of() -> None:
    tried = [*PROVEN, AS_LARGE]
    assert {backend for path in tried for backend in in_turn(path)} == set(BACKENDS)
    every = {one for path in DIAGRAMS for one in constructs(path)}
    assert every <= {one for path in tried for one in constructs(path)}
    of_jax = {one for path in tried if "jax" in in_turn(path) for one in constructs(path)}
    assert every - of_jax == NOT_FOR_JAX | OF_RANKS


# A bias that the layers of T5 share is summed over those of the encoder.
FEWER = {"t5": {"N_d": 1}}


@pytest.mark.parametrize("path", [*PROVEN, AS_LARGE], ids=lambda path: path.stem)
def test_its_gradients_are_proven(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each gradient a direction is compared; all elements where thorough.

    Of the notation's figures an element is, too: it says that directions are drawn rightly. Numpy
    computes every diagram, and the other backends take turns, where they do not all.
    """
    backends = BACKENDS if THOROUGH else in_turn(path)
    if not THOROUGH:
        monkeypatch.setattr(gradcheck, "EVERY_ELEMENT_UP_TO", 0)
        monkeypatch.setattr(gradcheck, "COORDINATES", int(path.parent.name == "notation"))
        monkeypatch.setattr(gradcheck, "DIRECTIONS", 1)
    project = read_project(path)
    for block, settings in by_default(project, {} if THOROUGH else FEWER.get(path.stem, {})):
        proof = prove(project, block, settings, seed=0, backends=backends)
        assert proof.gradients.passed, proof.gradients.rows
        assert list(proof.references) == list(backends)
        assert all(reference.first is None for reference in proof.references.values())
