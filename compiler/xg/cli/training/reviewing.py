"""Reviews for a diagram that judges them: their words, the vectors of these, and their labels."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Final

from xg.cli.arguments import settings_of
from xg.cli.training.setup import LEXICON, Lesson
from xg.cli.training.task import ReviewTask, loss_of, review_task
from xg.driver import Program, compile_project
from xg.frontend.project import Project
from xg.frontend.project.lookup import library
from xg.frontend.typed import Settings, declared_dims
from xg.ir.dim import Dim
from xg_runtime import lexicon, reviews
from xg_runtime.accuracy import Accuracy
from xg_runtime.errors import InputError
from xg_runtime.lexicon import Lexicon
from xg_runtime.review_batches import ReviewSource
from xg_runtime.reviews import Reviews, split

SHIPPED: Final = "reviews.txt"  # in the library
CHANCE: Final = "always the same"


def of_reviews(project: Project, options: Namespace, folder: Path) -> Lesson:
    """A block that judges reviews, by default those that come along."""
    if options.sample:
        raise InputError("a model that judges writes no sample: xg classify asks it")
    program, settings = _program(project, options)
    task = judging(program)
    found = reviews.load(options.data or library() / "examples" / SHIPPED)
    length, width = sizes(program, task)
    words = _lexicon(found, width, folder, resumed=options.resume)
    source = ReviewSource(
        found,
        words,
        length,
        batch_size=options.batch,
        target=(1,) * len(task.truth_axes),
        inputs=(task.vectors, task.truth),
        dtype=options.dtype,
        seed=options.seed,
    )
    held = split(found)[1]
    accuracy = Accuracy(task.said, task.truth, threshold(task), {CHANCE: held.majority})
    return Lesson(
        program,
        source,
        loss_of(program.graphs, options.loss),
        settings,
        options.backend,
        options.kernels,
        {"label entropy": found.entropy},
        judging=(words, accuracy),
    )


def judging(program: Program) -> ReviewTask:
    """The task of a block that judges reviews; raises InputError for any other."""
    task = review_task(program.graphs)
    if task is None:
        raise InputError(f"{program.graphs.main.block} does not judge reviews")
    return task


def threshold(task: ReviewTask) -> float:
    """Above what an output is a yes."""
    return 0.0 if task.is_logit else 0.5


def sizes(program: Program, task: ReviewTask) -> tuple[int, int]:
    """How many words a review has, and how many numbers a word; raises InputError."""
    numbers = program.graphs.main.sizes.bind(program.graphs.numbers)
    return _number(task.length, numbers, "words"), _number(task.width, numbers, "numbers of a word")


def _number(dim: Dim, numbers: dict[str, int], what: str) -> int:
    if not all(name in numbers for name in dim.symbols()):
        raise InputError(f"nothing says how many {what} there are: --set {dim}=N does")
    return dim.evaluate(numbers)


def _program(project: Project, options: Namespace) -> tuple[Program, Settings]:
    """The program, of as many words as `--seq` says."""
    settings = settings_of(options)
    program = compile_project(project, options.block, settings)
    length = judging(program).length.name
    if options.seq and length in declared_dims(project):
        settings = {length: options.seq, **settings}
        program = compile_project(project, options.block, settings)
    return program, settings


def _lexicon(found: Reviews, width: int, folder: Path, *, resumed: bool) -> Lexicon:
    """The words of the reviews to train on; a run that goes on has its own."""
    path = folder / LEXICON
    if resumed and path.exists():
        return lexicon.read(path)
    return lexicon.lexicon_of(split(found)[0].texts, width)
