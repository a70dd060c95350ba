"""Training on this device, on simulated ranks, or as one rank among processes.

Each rank runs `_learn` with its world: the whole of data and options, and its part of everything
else. Only rank 0 writes and prints. A number that is not finite is found by all ranks together, and
is the error of none of them: it travels as a result.
"""

from __future__ import annotations

import hashlib
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import Any, Final, cast

from xg import __version__
from xg.cli.arguments import where
from xg.cli.computing import Ranks, is_on_mesh, is_process_of_many, place_module
from xg.cli.console import Console
from xg.codegen.backend import CPU, find
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.driver import Program
from xg.sharding.local import cuts
from xg.verify.pipeline_proof import link_of, of_rank
from xg_generate.runs import RunConfig, TrainingSetup
from xg_runtime.cells import fits
from xg_runtime.checkpoint import exists
from xg_runtime.config import TrainConfig
from xg_runtime.errors import InputError, NonFiniteError
from xg_runtime.interrupt import Interrupt
from xg_runtime.module import Module
from xg_runtime.ranks import rank, simulate
from xg_runtime.ranks.pipeline import Pipeline, RankStage, StageTraining
from xg_runtime.ranks.world import RankWorld
from xg_runtime.step import Stepper
from xg_runtime.train import Outcome, check_free, train
from xg_runtime.world import SINGLE_DEVICE, World
from xg_train.data import split_of

TASK: Final = f"{Path(__file__).with_name('rank_task.py')}:train"


@dataclass(frozen=True)
class TrainingResult:
    """The end of training, as rank 0 reports it; None if this process is another rank.

    `interrupted` names the signal that ended it. Parameters are whole if a sample is wanted.
    """

    outcome: Outcome | None
    interrupted: str | None


def train_on_ranks(
    what: TrainingSetup, options: Namespace, folder: Path, console: Console
) -> TrainingResult:
    """Train in a folder; raises DiagnosticError and XgRuntimeError."""
    ranks = Ranks.of(what.trained_program, options)
    if what.trained_program.stages and options.sample:
        raise InputError(
            "--sample needs the whole model, and each rank has a stage: leave it out, and "
            "use xg generate on the run"
        )
    if options.pipeline_schedule and not what.trained_program.stages:
        raise InputError(
            "--pipeline-schedule needs a plan with stages, and this plan has none: leave it out"
        )
    _check_turns(what)
    if ranks is None:
        return _result(_train(what, options, folder, console, SINGLE_DEVICE), leads=True)
    if is_on_mesh():
        return _as_rank(what, options, folder, console)
    if ranks.on == "processes" and is_process_of_many():
        return _under_torchrun(what, options, folder, console, ranks)
    if not options.resume:
        check_free(folder, overwrite=options.overwrite)  # before any rank begins
    if ranks.on == "simulated":
        return _on_simulated_ranks(what, options, folder, console, ranks)
    return _on_processes(what, options, folder, ranks)


def _check_turns(what: TrainingSetup) -> None:
    """Raise InputError where microbatches do not go round in groups, and a rank has many stages."""
    program = what.trained_program
    if program.stages:
        axis, ranks = next(iter(program.mesh.items()))
        if not fits(ranks, what.parts, len(program.stages) // ranks):
            raise InputError(
                f"--accumulate must be a multiple of {axis} = {ranks} if ranks have several "
                f"stages; found {what.parts}"
            )


def _train(
    what: TrainingSetup,
    options: Namespace,
    folder: Path,
    console: Console,
    world: World,
    stop: Interrupt | None = None,
) -> Outcome | NonFiniteError:
    """Train as one rank of a world; the first writes how the program is compiled."""
    how = where(options)
    modules = [place_module(own, what.backend, how, kernels=what.kernels) for own in _own(what)]
    if world.leads and not options.resume and (options.overwrite or not exists(folder)):
        RunConfig.of(folder, what, options).write(folder)
        what.keep_tokenizer(folder)
    try:
        outcome = train(
            modules[0],
            what.source,
            _config(options, what.loss),
            folder,
            facts=what.facts,
            references=what.references,
            resume="newest" if options.resume else None,
            overwrite=options.overwrite,
            world=world,
            stop=stop,
            split=split_of(what.program.graphs, what.loss, what.source.batched, what.parts),
            frozen=what.program.frozen,
            stages=_stages(what, modules, options),
            stepper=_stepper(what, options.device),
        )
    except NonFiniteError as error:
        place = what.place_of(error.tensor)
        if place and world.leads:
            console.note(f"{error.tensor} is made in {place}")
        return error
    return replace(outcome, params=world.whole(outcome.params)) if options.sample else outcome


def _result(found: Outcome | NonFiniteError, *, leads: bool) -> TrainingResult:
    """The result of training; raises NonFiniteError."""
    if isinstance(found, NonFiniteError):
        raise found
    return TrainingResult(found if leads else None, found.interrupted)


def _world(what: TrainingSetup) -> World:
    """The world of the rank that runs this."""
    programs = [each.graphs for each in _own(what)]
    links = [link_of(graphs.stage) for graphs in programs if graphs.stage]
    held = {name: cut for graphs in programs for name, cut in cuts(graphs).items()}
    plan = programs[0].plan
    return RankWorld(held, plan.name if plan else "", links)


def _own(what: TrainingSetup) -> Sequence[Program]:
    """Return the programs of the rank that runs this; in a pipeline, its stages' programs."""
    program = what.trained_program
    if not program.stages:
        return (program,)
    axis, ranks = next(iter(program.mesh.items()))
    return of_rank(program.stages, rank(axis), ranks)


def _stages(
    what: TrainingSetup, modules: Sequence[Module], options: Namespace
) -> StageTraining | None:
    """The pipeline of the rank that runs this, if it has stages of one."""
    stages = [
        RankStage(module, link_of(own.graphs.stage), {*own.params, *own.inputs})
        for module, own in zip(modules, _own(what), strict=True)
        if own.graphs.stage
    ]
    if not stages:
        return None
    planned = what.trained_program.schedule
    named = options.pipeline_schedule or (planned.name if planned else "1F1B")
    return StageTraining(Pipeline(stages), named)


def _stepper(what: TrainingSetup, device: str) -> type[Stepper]:
    """The kind of stepper: on a device it keeps parameters there; stages of a pipeline do not."""
    if device == CPU or what.trained_program.stages:
        return Stepper
    return cast(type[Stepper], find(what.backend).device_stepper())


def _on_simulated_ranks(
    what: TrainingSetup, options: Namespace, folder: Path, console: Console, ranks: Ranks
) -> TrainingResult:
    """Train on all ranks in this process; signals go to its main thread."""
    with Interrupt() as stop:
        results = simulate(
            ranks.sizes,
            lambda: _train(what, options, folder, console, _world(what), stop),
            timeout=TIMEOUT_MAX,  # on one rank there may be no collective until the end
        )
    return _result(results[0], leads=True)


def _as_rank(
    what: TrainingSetup, options: Namespace, folder: Path, console: Console
) -> TrainingResult:
    """Train as the rank that this process is."""
    world = _world(what)
    result = _train(what, options, folder, console, world)
    return _result(result, leads=world.leads)


def _under_torchrun(
    what: TrainingSetup, options: Namespace, folder: Path, console: Console, ranks: Ranks
) -> TrainingResult:
    """Join the processes that torchrun has started; restarted ones resume."""
    holds_a_run = exists(folder)  # asked before any rank begins one
    with ranks.joined(agreed_facts(what, options)) as mesh:
        if holds_a_run and mesh.again:
            options.resume = True
        elif holds_a_run and not options.resume:
            check_free(folder, overwrite=options.overwrite)
        world = _world(what)
        leads = world.leads
        result = _train(what, options, folder, console, world)
    return _result(result, leads=leads)


def _on_processes(
    what: TrainingSetup, options: Namespace, folder: Path, ranks: Ranks
) -> TrainingResult:
    """Start a process for each rank; each reads its words and the data again."""
    if options.file == "-":
        raise InputError(
            "ranks that are processes read the diagram themselves: name a file instead of -"
        )
    facts = agreed_facts(what, options)
    order: dict[str, Any] = {"words": options.words, "facts": facts}
    told = ranks.do(TASK, order, {}, aloud=True)[0].facts
    if "tensor" in told:
        raise NonFiniteError(told["reason"], told["tensor"], told["step"])
    return TrainingResult(None, told["interrupted"])


def agreed_facts(what: TrainingSetup, options: Namespace) -> dict[str, str]:
    """The facts that processes compare before the first step: a rank's program, and its type."""
    program = what.trained_program
    code = "".join(each.source(options.backend) for each in program.stages or (program,))
    return {
        "program": hashlib.sha256(code.encode()).hexdigest()[:16],
        "plan": options.plan or "",
        "dtype": options.dtype,
        "autocast": options.autocast or "",
        "version": __version__,
    }


def _config(options: Namespace, loss: str) -> TrainConfig:
    """The options of a run, in the words of the runtime."""
    return TrainConfig(
        steps=options.steps,
        rate=options.lr,
        schedule=options.schedule,
        warmup=options.warmup,
        optimizer=options.optimizer,
        momentum=options.momentum,
        weight_decay=options.weight_decay,
        clip=options.clip or None,
        dtype=options.dtype,
        autocast=options.autocast,
        seed=options.seed,
        loss=loss,
        evaluate_every=options.eval,
        checkpoint_every=options.checkpoint,
        checkpoint_format=options.checkpoint_format,
        tensorboard=options.tensorboard,
    )
