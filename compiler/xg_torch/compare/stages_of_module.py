"""One rank of code that others wrote as the stages of a pipeline: each rank builds its own.

The stages run one after the other on a whole batch: each gets the first result of the stage before,
and of the stage behind it the gradient of its own. All that they show together is one run.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from xg.cli.arguments import settings_of
from xg.cli.published import Published, names_for
from xg.driver import Program, compile_project
from xg.frontend.project import Project
from xg_runtime import arrays as array_files
from xg_runtime import random_inputs, weights
from xg_runtime.errors import InputError
from xg_runtime.module import Array, Arrays
from xg_runtime.names import Names
from xg_runtime.ranks import number
from xg_runtime.ranks.task import Answer
from xg_torch.compare.comparison import ModuleAgreement
from xg_torch.compare.dumped import GRADIENT, compare_found, tensors_of
from xg_torch.compare.foreign_call import (
    all_inputs,
    at_all_sizes,
    called_with,
    cotangents_of,
    output_shapes,
)
from xg_torch.compare.foreign_module import failure
from xg_torch.compare.rank_of_module import (
    RankCall,
    answered,
    inner,
    results_on_rank,
    shown_by_run,
    sizes_of,
)
from xg_torch.compare.torch_hooks import HookedRun

if TYPE_CHECKING:
    from torch import nn


def stages_of(project: Project, options: Namespace) -> Program | None:
    """The pipeline of a plan, one stage to a rank; None for a plan without stages.

    Raises InputError for stages that are divided, or several to a rank.
    """
    program = compile_project(project, options.block, settings_of(options), options.plan)
    if not program.stages:
        return None
    ((axis, ranks), *others) = program.mesh.items()
    if others:
        raise InputError(
            f"{options.plan} also divides each stage, along {others[0][0]}: compare the stages "
            f"under the plan of {axis} alone, and what divides them without stages"
        )
    if len(program.stages) != ranks:
        raise InputError(
            f"{options.plan} has {len(program.stages)} stages on {ranks} ranks: --set {axis}="
            f"{len(program.stages)} gives each its own, as a module is one stage"
        )
    return program


def seen_of_stage(project: Project, options: Namespace) -> Answer:
    """Build the module of this rank's stage, run it in its turn, and note what it shows.

    Raises InputError, and CollectiveFailed where another rank is the cause.
    """
    return answered(project, options, call_of_stages, _shown)


def call_of_stages(
    project: Project,
    options: Namespace,
    everywhere: Sequence[Arrays],
    config: dict[str, Any] | None,
) -> RankCall:
    """Find the sizes that the weights of all stages have, and draw; raises InputError."""
    if len(everywhere) > 1 and all(each.keys() == everywhere[0].keys() for each in everywhere):
        raise InputError(
            f"every rank builds the same parameters: {options.plan} is a plan in stages, and the "
            "function returns the stage of its rank"
        )
    given = array_files.read(options.inputs) if options.inputs else {}
    alone = Namespace(**{**vars(options), "against": options.module, "plan": None})
    names, together = names_for(options, project), _together(everywhere)
    tensors = tensors_of(project, alone, together)
    checkpoint = weights.Weights("the module", tensors, own_config=config)
    held = Published.of(project, alone, checkpoint, given)
    program = at_all_sizes(project, alone, held, given)
    inputs, shapes = all_inputs(program, given, options.seed), output_shapes(program)
    drawn = {} if options.as_is else random_inputs.spread_params(together, 0)
    tied = names.tied.items() if names else ()
    drawn |= {
        copy: drawn[original] for copy, original in tied if copy in drawn and original in drawn
    }
    settings = {**sizes_of(project, options, held, inputs), **held.settings}
    d_outputs = cotangents_of(program, list(shapes), options.seed)
    return RankCall(drawn, inputs, d_outputs, shapes, {}, {}, settings)


def compare_stages(
    project: Project, options: Namespace, found: Sequence[Arrays]
) -> ModuleAgreement:
    """Compare all that the stages have shown with the diagram; raises InputError.

    Gradients of what two stages hold, as a table that is tied to the head, are summed.
    """
    names, together = names_for(options, project), _together(found)
    tied = dict(names.tied) if names else {}
    grads = [key for each in found for key in each if key.startswith(GRADIENT)]
    for key in {key for key in grads if grads.count(key) > 1 and key[len(GRADIENT) :] in together}:
        together[key] = sum((each[key] for each in found if key in each), np.zeros(()))
    for copy, original in tied.items():
        d_copy, d_original = GRADIENT + copy, GRADIENT + original
        if d_copy in together and d_original in together:
            together[d_original] = together[d_original] + together[d_copy]
    return compare_found(project, Namespace(**{**vars(options), "plan": None}), together)


def _together(everywhere: Sequence[Arrays]) -> Arrays:
    """The arrays of all ranks; of those that several have the first."""
    return {name: array for each in reversed(everywhere) for name, array in each.items()}


def _passed(stage: int, array: Array | None) -> Array | None:
    """Hand the array of one stage to all, and return it."""
    import torch.distributed as dist

    collective: Any = dist
    box: list[Array | None] = [array]
    collective.broadcast_object_list(box, src=stage)
    return box[0]


def _shown(module: nn.Module, call: RankCall, names: Names | None) -> Arrays:
    """Everything that the stage of this rank gives, forward and backward."""
    import torch
    import torch.distributed as dist

    collective: Any = dist
    mine, count = number(), int(collective.get_world_size())
    torch.manual_seed(0)
    try:
        before: Array | None = None
        for stage in range(mine):
            before = _passed(stage, None)
        given, positional = _given(module, call, names, before)
        run = HookedRun(module, given, positional)
        first = run.found.outputs[0][1] if run.found.outputs else None
        for stage in range(mine, count):
            _passed(stage, first if stage == mine else None)
        back: Array | None = None
        for stage in range(count - 1, mine, -1):
            back = _passed(stage, None)
        results = results_on_rank(call, run) if mine == count - 1 else {}
        cotangents = {p: call.cotangents[n] for n, p in results.items() if n in call.cotangents}
        if back is not None:
            cotangents = {0: back}
        run.backward({p: d.reshape(run.result[p][1].shape) for p, d in cotangents.items()})
        grad = next(iter(given.values())).grad if mine else None
        for stage in range(mine, -1, -1):
            _passed(stage, None if grad is None or stage != mine else grad.numpy())
    except Exception as error:
        raise failure("the module", "fails on the diagram's inputs", error) from error
    return {**shown_by_run(module, call, run, results), **call.inputs}


def _given(
    module: nn.Module, call: RankCall, names: Names | None, before: Array | None
) -> tuple[dict[str, Any], int]:
    """The tensors for a stage: inputs, and behind the first one what the stage before gives."""
    import torch

    if before is None:
        return called_with(inner(module), names, call.inputs)
    first = next(iter(signature(inner(module).forward).parameters))
    tensor = torch.from_numpy(before.copy())
    named = {
        name: torch.from_numpy(call.inputs[name].copy())
        for name in signature(inner(module).forward).parameters
        if name in call.inputs and name != first
    }
    return {first: tensor.requires_grad_(tensor.is_floating_point()), **named}, 1
