"""Training: steps, evaluation, log and checkpoints, until done, interrupted or broken.

    outcome = train(module, source, TrainConfig(steps=300), Path("runs/lm"))
    outcome = train(module, source, TrainConfig(steps=300), Path("runs/lm"), resume="newest")

A run is a folder: `log.jsonl` (`xg_runtime.log`), `checkpoints/` (`xg_runtime.checkpoint`) and
`loss.svg` (`xg_runtime.curve`). Step n is a function of the state after step n - 1, the seed and
n alone: a run that was killed continues to the same losses, bit for bit.

Ranks run the same loop as one device, which is a world of one (`World`): a second loop would drift.
Each rank reads its own data, because a source of batches is a pure function of seed and step.
Decisions to stop are agreed before anybody acts.
"""

import contextlib
import io
import signal
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TextIO

import numpy as np

from xg_runtime import checkpoint, curve, files
from xg_runtime.batches import Source
from xg_runtime.checkpoint import Checkpoint
from xg_runtime.checkpoint.manifest import Json
from xg_runtime.config import TrainConfig, differences, facts_of, optimizer_of, schedule_of
from xg_runtime.errors import CheckpointError, FileError
from xg_runtime.interrupt import Interrupt
from xg_runtime.log import Log, NoLog, Progress, Record, TensorBoardLog
from xg_runtime.module import Arrays, Module
from xg_runtime.step import WHOLE, Accuracy, Split, Stages, Stepper
from xg_runtime.world import SINGLE_DEVICE, World

LOG: Final = "log.jsonl"
CURVE: Final = "loss.svg"


@dataclass(frozen=True)
class Outcome:
    """How a run ended: what was done, in its records, and what it was interrupted by, if it was."""

    folder: Path
    steps: int
    interrupted: str | None
    records: list[Record] = field(repr=False)
    params: Arrays = field(repr=False)
    speed: float  # items per second
    unit: str

    @property
    def losses(self) -> list[float]:
        """The training loss of every step."""
        return [record["loss"] for record in self.records if "loss" in record]

    @property
    def validation(self) -> list[float]:
        """The validation losses in order."""
        return [record["validation"] for record in self.records if "validation" in record]

    @property
    def accuracies(self) -> list[float]:
        """The validation accuracies in order; [] where none was counted."""
        return [record["accuracy"] for record in self.records if "accuracy" in record]


def train(
    module: Module,
    source: Source,
    config: TrainConfig,
    folder: Path,
    *,
    facts: Mapping[str, object] | None = None,
    references: Mapping[str, float] | None = None,
    accuracy: Accuracy | None = None,
    resume: Literal["newest", "previous"] | None = None,
    overwrite: bool = False,
    stream: TextIO | None = None,
    world: World = SINGLE_DEVICE,
    stop: Interrupt | None = None,
    split: Split = WHOLE,
    frozen: Collection[str] = (),
    stages: Stages | None = None,
    stepper: type[Stepper] = Stepper,
) -> Outcome:
    """Train, from the start or from a checkpoint of `folder`, and return how it ended.

    `facts` says what is trained (program, sizes, vocabulary; JSON): a resumed run must find it
    unchanged. `references` are lines across the curve; `accuracy` is counted too. A folder with a
    run is refused unless resumed or to be overwritten. SIGINT and SIGTERM end the run after the
    step; `stop` is for callers that catch them. `split` computes a batch in parts, through the
    `stages` of a pipeline; `frozen` parameters stay. Of a `world` every rank trains its part.
    `stepper` steps. Raises NonFiniteError, CheckpointError, InputError, FileError.
    """
    json = facts_of(config, source, {**(facts or {}), "parts of a batch": split.count})
    check_free(folder, overwrite=overwrite or resume is not None)
    state = _fresh(stages or module, config, json, frozen)
    if resume is not None:
        state = _load_resumable(folder, json, state, world, previous=resume == "previous")
    plain = _stepper(stepper, module, source, config, accuracy, world)
    steps = replace(plain, split=split, frozen=frozen, stages=stages)
    catching = contextlib.nullcontext(stop) if stop else Interrupt()
    with catching as asked, _log(world, folder, config, state.step if resume else -1) as log:
        shown = _progress(stream, state.step, steps, config)
        run = _Run(steps, config, folder, log, shown, references or {}, resume is None)
        return run.go(state, asked)


def check_free(folder: Path, *, overwrite: bool) -> None:
    """Raise FileError for a folder with a run that is neither resumed nor to be overwritten."""
    if checkpoint.exists(folder) and not overwrite:
        raise FileError(f"{folder} holds a run: resume it, or name another folder")


def _log(world: World, folder: Path, config: TrainConfig, keep_until: int) -> Log:
    """The log of a run; what other ranks than the first note goes nowhere."""
    kind = TensorBoardLog if config.tensorboard else Log
    return kind(folder / LOG, keep_until=keep_until) if world.leads else NoLog()


def _progress(stream: TextIO | None, first: int, stepper: Stepper, config: TrainConfig) -> Progress:
    """The display of a run; only the first rank shows anything."""
    shown = stream or sys.stderr if stepper.world.leads else io.StringIO()
    source = stepper.source
    return Progress(shown, first, config.steps, source.items, source.unit)


@dataclass(frozen=True)
class _Run:
    """The loop and what it writes to."""

    stepper: Stepper
    config: TrainConfig
    folder: Path
    log: Log
    progress: Progress
    references: Mapping[str, float]
    is_new: bool  # not resumed

    def go(self, state: Checkpoint, asked: Interrupt) -> Outcome:
        """Train, and draw the curve, also of a run that breaks."""
        try:
            state, requested = self._steps(state, asked)
        finally:
            self.progress.close()
            if self.stepper.world.leads:
                accuracy = self.stepper.accuracy
                chances = accuracy.chances if accuracy else None
                drawn = curve.draw(self.log.records, self.references, chances)
                files.write(self.folder / CURVE, drawn.encode())
        speed, unit = self.progress.speed(state.step), self.stepper.source.unit
        records = self.log.records
        return Outcome(self.folder, state.step, requested, records, state.params, speed, unit)

    def _steps(self, state: Checkpoint, asked: Interrupt) -> tuple[Checkpoint, str | None]:
        """Step until the end or a request to stop; return the last state, which is saved."""
        if self.is_new:
            self._evaluate(state)
            self._save(state)
        saved = state.step
        requested = None
        while state.step < self.config.steps and not (requested := self._stop_signal(asked)):
            record = self.stepper.step(state.params, state.slots, state.step)
            state = replace(state, step=state.step + 1)
            self.log.add(record)
            if self._due(state.step, self.config.evaluate_every):
                self._evaluate(state)
            if self._due(state.step, self.config.checkpoint_every):
                saved = self._save(state)
            self.progress.show(state.step, record["loss"])
        if saved != state.step:
            self._save(state)
        return state, requested

    def _stop_signal(self, asked: Interrupt) -> str | None:
        """The signal that any rank was asked by to stop: all stop before the same step."""
        number = signal.Signals[asked.requested].value if asked.requested else 0
        agreed = self.stepper.world.max_over_ranks(number)
        return signal.Signals(agreed).name if agreed else None

    def _due(self, step: int, every: int) -> bool:
        return every > 0 and (step % every == 0 or step == self.config.steps)

    def _evaluate(self, state: Checkpoint) -> None:
        if self.config.evaluate_every == 0:
            return
        record = self.stepper.evaluate(state.params, state.step)
        if record is not None:
            self.log.add(record)
            self.progress.validation = record["validation"]
            self.progress.accuracy = record.get("accuracy")
            self.progress.evaluated = state.step

    def _save(self, state: Checkpoint) -> int:
        """Write a checkpoint, never one newer than the log on disk; return its step."""
        self.log.sync()
        self.stepper.settle()
        self.stepper.world.save(self.folder, state, self.config.checkpoint_format)
        return state.step


def _stepper(
    kind: type[Stepper],
    module: Module,
    source: Source,
    config: TrainConfig,
    accuracy: Accuracy | None,
    world: World,
) -> Stepper:
    return kind(
        module=module,
        source=source,
        optimizer=optimizer_of(config),
        schedule=schedule_of(config),
        loss=config.loss,
        limit=config.clip,
        seed=config.seed,
        accuracy=accuracy,
        world=world,
        dtype=config.dtype,
    )


def _fresh(
    module: Module | Stages, config: TrainConfig, facts: Json, frozen: Collection[str]
) -> Checkpoint:
    """Return the state before the first step; its arrays are its own, to be changed in place."""
    arrays = module.init(config.seed, np.dtype(config.dtype))
    params = {name: np.array(array, order="C") for name, array in arrays.items()}
    learning = {name: array for name, array in params.items() if name not in frozen}
    return Checkpoint(0, params, optimizer_of(config).slots(learning), facts)


def _load_resumable(
    folder: Path, facts: Json, fresh: Checkpoint, world: World, *, previous: bool
) -> Checkpoint:
    """Return the state in `folder`, if it is of this run; raises CheckpointError."""
    held = world.load(folder, previous=previous)
    names = differences(held.facts, facts)
    if names:
        raise CheckpointError(f"cannot resume {folder}: {'; '.join(names)}")
    if _layout(held) != _layout(fresh):
        raise CheckpointError(f"cannot resume {folder}: the program's parameters have changed")
    return held


def _layout(state: Checkpoint) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and type of every array."""
    arrays = state.params | state.slots
    return {name: (array.shape, array.dtype.str) for name, array in arrays.items()}
