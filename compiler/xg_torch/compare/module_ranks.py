"""Run other code on several ranks, and compare it with a diagram under a plan."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from xg.cli.arguments import settings_of
from xg.cli.computing import Ranks, is_process_of_many
from xg.cli.input_arrays import Published, names_for
from xg.codegen.backend import on_processes
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.limits import Processes
from xg.driver import Program, compile_project
from xg.frontend.project import Project
from xg.frontend.typed import Settings, declared_dims, shape_project
from xg.ir.size_checks import carried_sizes
from xg.sharding.local import ShardSpec, cuts
from xg.verify.rank_comparison import window
from xg_runtime import arrays as array_files
from xg_runtime import weights
from xg_runtime.errors import InputError, XgRuntimeError
from xg_runtime.module import Array, Arrays
from xg_runtime.names import Names
from xg_runtime.ranks import number
from xg_runtime.ranks.call import CollectiveFailed, peer_message
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.task import Answer
from xg_runtime.run import spread_params
from xg_torch.compare.comparison import ModuleAgreement
from xg_torch.compare.dumped import (
    GRADIENT,
    RankDumps,
    compare_found,
    compare_ranks,
    compile_plan,
    tensors_of,
)
from xg_torch.compare.foreign_run import (
    HookedRun,
    all_inputs,
    at_all_sizes,
    built,
    called_with,
    config_of,
    cotangents_of,
    failure,
    key_of,
    output_shapes,
    whole,
)
from xg_torch.importing.proof import double_by_default

if TYPE_CHECKING:
    from torch import Tensor, nn


# One rank of code that others wrote: its weights, its part of the inputs, and what it shows.
#
# All ranks tell the first one their weights. It finds the sizes, draws numbers for weights and
# inputs of one device, and every rank takes its part: of inputs as the plan cuts them, of weights
# as the code does.


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false


WRAPPERS: Final = re.compile(r"(_fsdp_wrapped_module|_orig_mod|_checkpoint_wrapped_module)\.")


@dataclass(frozen=True)
class RankCall:
    """The whole numbers of a call, and the mesh axes that cut them; `settings` are its sizes.

    Without `tensors` the module keeps the weights that it has.
    """

    tensors: Arrays
    inputs: Arrays
    cotangents: Arrays
    shapes: Mapping[str, tuple[int, ...]]  # of the diagram's outputs
    cuts: Mapping[str, ShardSpec]
    mesh: Mapping[str, int]
    settings: Settings

    def part(self, name: str, array: Array) -> Array:
        """The part of the running rank."""
        shape, cut = list(array.shape), self.cuts.get(name, ())
        for axis, over, *_ in cut:
            shape[axis] //= Grid(dict(self.mesh)).size(over)
        place = Grid(dict(self.mesh)).coordinates(number())
        return array[window(tuple(shape), cut, place, self.mesh)]


CallFinder = Callable[[Project, Namespace, Sequence[Arrays], dict[str, Any] | None], RankCall]
Shower = Callable[["nn.Module", RankCall, Names | None], Arrays]


def observe_rank(project: Project, options: Namespace) -> Answer:
    """Build the module on this rank, run it, and note what it shows.

    Where no call can be made for its weights, the answer is these, and says so. Raises InputError,
    and CollectiveFailed where another rank is the cause.
    """
    return run_module(project, options, call_for, _tensors_of_rank)


@contextmanager
def failing_together(timeout: float) -> Generator[None]:
    """Tell a failure of another rank, which ends this one's collectives, from one of this rank."""
    try:
        yield
    except (RuntimeError, InputError) as error:
        torchs = error.__cause__ if isinstance(error, InputError) else error
        said = peer_message(torchs, timeout) if isinstance(torchs, RuntimeError) else None
        if said:
            raise CollectiveFailed(f"in the module: {said}") from error
        raise


def run_module(project: Project, options: Namespace, find: CallFinder, shown_by: Shower) -> Answer:
    """Build the module, let the first rank find its call, and note what the module shows then."""
    import torch.distributed as dist

    collective: Any = dist
    with failing_together(options.timeout):
        module = built_on_rank(options.module)
        found, config = weights_of(module), config_of(inner(module))
        everywhere: list[Arrays] = [{} for _ in range(collective.get_world_size())]
        collective.all_gather_object(everywhere, found)
        told: list[RankCall | None] = [None]
        if number() == 0:
            # Who asked meets the error again, and has the place to say it.
            with suppress(DiagnosticError, XgRuntimeError):
                told = [find(project, options, everywhere, config)]
        collective.broadcast_object_list(told)
        (call,) = told
        if call is None:
            return Answer(found, {"refused": True, "config": config})
        set_weights(module, call)
        shown = {**weights_of(module), **shown_by(module, call, names_for(options, project))}
        return Answer(shown, {"settings": list(call.settings.items()), "order": list(shown)})


def call_for(
    project: Project,
    options: Namespace,
    everywhere: Sequence[Arrays],
    config: dict[str, Any] | None,
) -> RankCall:
    """Find the sizes that the weights of all ranks have, and draw; raises InputError."""
    given = array_files.read(options.inputs) if options.inputs else {}
    planned = Namespace(**{**vars(options), "against": options.module})
    alone = Namespace(**{**vars(planned), "plan": None})
    ranks = RankDumps.of(project, planned, everywhere)
    held, known = _held(ranks, alone, given, config)
    mesh = dict(ranks.mesh)
    program = at_all_sizes(project, alone, held, given, every=max(2, len(everywhere)))
    inputs = all_inputs(program, given, options.seed, len(everywhere))
    settings = {**sizes_of(project, options, held, inputs), **held.settings}
    placed = compile_project(
        project, options.block, {**settings, **dict(options.settings)}, options.plan
    )
    stay = options.as_is or ranks.find_drift(list(known)) is not None  # drawn copies would be equal
    shapes = output_shapes(program)
    return RankCall(
        {} if stay else spread_params(ranks.whole(known), 0),
        inputs,
        cotangents_of(program, list(shapes), options.seed),
        shapes,
        {**known, **cuts(placed.graphs)},
        mesh,
        settings,
    )


def _held(
    ranks: RankDumps, options: Namespace, given: Arrays, config: dict[str, Any] | None
) -> tuple[Published, Mapping[str, ShardSpec]]:
    """The weights of all ranks read for the diagram, and how they are cut; raises InputError."""

    def read(arrays: Arrays) -> Published:
        tensors = tensors_of(ranks.project, options, arrays)
        checkpoint = weights.Weights("the module", tensors, own_config=config)
        return Published.of(ranks.project, options, checkpoint, given)

    return ranks.read_whole(read)


def sizes_of(project: Project, options: Namespace, held: Published, inputs: Arrays) -> Settings:
    """The sizes that weights and inputs have."""
    own, draft = declared_dims(project), shape_project(project, options.block, held.settings)
    shapes = {name: array.shape for name, array in {**inputs, **held.params}.items()}
    return {name: n for name, (n, _) in carried_sizes(draft, shapes).items() if name in own}


# ---- the module ----------------------------------------------------------------------------------


def inner(module: nn.Module) -> nn.Module:
    """The module that a wrapper is around."""
    from torch.nn.parallel import DistributedDataParallel

    return module.module if isinstance(module, DistributedDataParallel) else module


def plain(module: nn.Module, name: str) -> str:
    """A name as it is without wrappers."""
    if inner(module) is not module:
        name = name.removeprefix("module.")
    return WRAPPERS.sub("", name)


def weights_of(module: nn.Module) -> Arrays:
    """The parameters: those that torch shards whole, others as this rank has them."""
    return {plain(module, name): whole(param) for name, param in module.named_parameters()}


def built_on_rank(text: str) -> nn.Module:
    """Build the module of this rank in float64; raises InputError."""
    import torch

    with double_by_default():  # wrappers remember the type that parameters were made with
        module = built(text)
    if any(p.is_floating_point() and p.dtype != torch.float64 for p in module.parameters()):
        if inner(module) is not module:
            raise InputError(
                f"{text} sets the dtype of its parameters, and DistributedDataParallel keeps "
                "it, but xg compares in float64: leave the dtype out"
            )
        module.double()
    return module.eval()


def set_weights(module: nn.Module, call: RankCall) -> None:
    """Give the module this rank's part of the weights."""
    import torch
    from torch.distributed.tensor import DTensor, distribute_tensor

    with torch.no_grad():
        for name, param in module.named_parameters():
            known = plain(module, name)
            if known not in call.tensors:
                continue
            part: Tensor = torch.from_numpy(call.part(known, call.tensors[known]).copy())
            if isinstance(param, DTensor):
                own = distribute_tensor(part, param.device_mesh, param.placements)
                param.to_local().copy_(own.to_local())
            else:
                param.copy_(part)


# ---- the run -------------------------------------------------------------------------------------


def _tensors_of_rank(module: nn.Module, call: RankCall, names: Names | None) -> Arrays:
    """Inputs, what modules give, results, and all gradients."""
    import torch

    inputs = {name: call.part(name, array) for name, array in call.inputs.items()}
    torch.manual_seed(0)
    try:
        run = HookedRun(module, *called_with(inner(module), names, inputs))
        results = results_on_rank(call, run)
        run.backward(
            {
                place: call.part(name, call.cotangents[name]).reshape(run.result[place][1].shape)
                for name, place in results.items()
                if name in call.cotangents
            }
        )
    except Exception as error:
        raise failure("the module", "fails on the diagram's inputs", error) from error
    return {**shown_by_run(module, call, run, results), **inputs}


def shown_by_run(
    module: nn.Module, call: RankCall, run: HookedRun, results: Mapping[str, int]
) -> Arrays:
    """The tensors of modules, the diagram's outputs that are results, and all gradients."""
    shown: Arrays = {}
    for event in run.found.events:
        key = key_of(plain(module, event.module), event.kind, event.call)
        shown[key] = event.array
        if event.gradient is not None:
            shown[GRADIENT + key] = event.gradient
    for name, gradient in run.found.gradients.items():
        if gradient is not None:
            shown[GRADIENT + plain(module, name)] = gradient
    for name, place in results.items():
        shown[name] = run.found.outputs[place][1]
        if call.shapes[name] and name in call.cotangents:
            shown[GRADIENT + name] = call.part(name, call.cotangents[name])
    return shown


def results_on_rank(call: RankCall, run: HookedRun) -> dict[str, int]:
    """The place of each of the diagram's outputs among the results, by its name or its shape."""
    sizes = {name: call.part(name, np.empty(shape)).size for name, shape in call.shapes.items()}
    found: dict[str, int] = {}
    for by_name in (True, False):
        for name, size in sizes.items():
            for place, (its, array) in enumerate(run.found.outputs):
                is_free = name not in found and place not in found.values()
                if is_free and (its == name if by_name else array.size == size):
                    found[name] = place
    if not found:
        theirs = ", ".join(str(list(array.shape)) for _, array in run.found.outputs) or "nothing"
        raise InputError(
            f"no result of the module has the size of an output: it returns {theirs}, and the "
            f"diagram has {', '.join(sizes)}"
        )
    return found


# One rank of code that others wrote as the stages of a pipeline: each rank builds its own.
#
# The stages run one after the other on a whole batch: each gets the first result of the stage
# before, and of the stage behind it the gradient of its own. All that they show together is one
# run.


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
            f"{options.plan} also divides each stage, along {others[0][0]}: compare the "
            f"stages under the plan of {axis} only, then the other plan without stages"
        )
    if len(program.stages) != ranks:
        raise InputError(
            f"{options.plan} has {len(program.stages)} stages on {ranks} ranks, and a module "
            f"is one stage: --set {axis}={len(program.stages)} gives each rank one"
        )
    return program


def seen_of_stage(project: Project, options: Namespace) -> Answer:
    """Build the module of this rank's stage, run it in its turn, and note what it shows.

    Raises InputError, and CollectiveFailed where another rank is the cause.
    """
    return run_module(project, options, call_of_stages, _tensors_of_stage)


def call_of_stages(
    project: Project,
    options: Namespace,
    everywhere: Sequence[Arrays],
    config: dict[str, Any] | None,
) -> RankCall:
    """Find the sizes that the weights of all stages have, and draw; raises InputError."""
    if len(everywhere) > 1 and all(each.keys() == everywhere[0].keys() for each in everywhere):
        raise InputError(
            f"every rank built the same parameters, but {options.plan} has stages: the "
            "function must return the stage of its rank"
        )
    given = array_files.read(options.inputs) if options.inputs else {}
    alone = Namespace(**{**vars(options), "against": options.module, "plan": None})
    names, together = names_for(options, project), _together(everywhere)
    tensors = tensors_of(project, alone, together)
    checkpoint = weights.Weights("the module", tensors, own_config=config)
    held = Published.of(project, alone, checkpoint, given)
    program = at_all_sizes(project, alone, held, given)
    inputs, shapes = all_inputs(program, given, options.seed), output_shapes(program)
    drawn = {} if options.as_is else spread_params(together, 0)
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
    """Merge the arrays of all ranks; if several have a name, the first rank's array counts."""
    return {name: array for each in reversed(everywhere) for name, array in each.items()}


def _broadcast(stage: int, array: Array | None) -> Array | None:
    """Hand the array of one stage to all, and return it."""
    import torch.distributed as dist

    collective: Any = dist
    box: list[Array | None] = [array]
    collective.broadcast_object_list(box, src=stage)
    return box[0]


def _tensors_of_stage(module: nn.Module, call: RankCall, names: Names | None) -> Arrays:
    """Everything that the stage of this rank gives, forward and backward."""
    import torch
    import torch.distributed as dist

    collective: Any = dist
    mine, count = number(), int(collective.get_world_size())
    torch.manual_seed(0)
    try:
        before: Array | None = None
        for stage in range(mine):
            before = _broadcast(stage, None)
        given, positional = _stage_inputs(module, call, names, before)
        run = HookedRun(module, given, positional)
        first = run.found.outputs[0][1] if run.found.outputs else None
        for stage in range(mine, count):
            _broadcast(stage, first if stage == mine else None)
        back: Array | None = None
        for stage in range(count - 1, mine, -1):
            back = _broadcast(stage, None)
        results = results_on_rank(call, run) if mine == count - 1 else {}
        cotangents = {p: call.cotangents[n] for n, p in results.items() if n in call.cotangents}
        if back is not None:
            cotangents = {0: back}
        run.backward({p: d.reshape(run.result[p][1].shape) for p, d in cotangents.items()})
        grad = next(iter(given.values())).grad if mine else None
        for stage in range(mine, -1, -1):
            _broadcast(stage, None if grad is None or stage != mine else grad.numpy())
    except Exception as error:
        raise failure("the module", "fails on the diagram's inputs", error) from error
    return {**shown_by_run(module, call, run, results), **call.inputs}


def _stage_inputs(
    module: nn.Module, call: RankCall, names: Names | None, before: Array | None
) -> tuple[dict[str, Any], int]:
    """Return a stage's arguments: its inputs, after the result of the stage before, if any."""
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


TASK: Final = f"{Path(__file__).with_name('rank_task.py')}:compare"


def compare_module_on_ranks(project: Project, options: Namespace) -> ModuleAgreement | None:
    """Run the module on every rank of the plan, and compare; None on ranks but the first.

    Raises InputError, DiagnosticError, RankError.
    """
    if options.file == "-":
        raise InputError(
            "ranks that are processes read the diagram themselves: name a file instead of -"
        )
    sizes = (stages_of(project, options) or compile_plan(project, options)).mesh
    on_processes().require()
    ranks = Ranks("processes", sizes, options.timeout)
    if not is_process_of_many():
        Processes.check(Grid(dict(sizes)).count, None)
        return _compare_answers(project, options, ranks.do(TASK, {"words": options.words}, {}))
    with ranks.joined({"plan": options.plan}):
        answers = _gather_answers(project, options)
    return _compare_answers(project, options, answers) if answers else None


def _gather_answers(project: Project, options: Namespace) -> list[Answer]:
    """The answers of all ranks, on the first of them."""
    import torch.distributed as dist

    collective: Any = dist
    in_stages = stages_of(project, options) is not None
    answer = seen_of_stage(project, options) if in_stages else observe_rank(project, options)
    answers: list[Any] | None = None
    if collective.get_rank() == 0:
        answers = [None] * collective.get_world_size()
    collective.gather_object(answer, answers)
    return answers or []


def _compare_answers(
    project: Project, options: Namespace, answers: Sequence[Answer]
) -> ModuleAgreement:
    found, facts = [answer.arrays for answer in answers], answers[0].facts
    in_stages = stages_of(project, options) is not None
    if "refused" in facts:
        (call_of_stages if in_stages else call_for)(project, options, found, facts["config"])
        raise AssertionError("no call could be made on the ranks")
    # In the order of their code, which a file of arrays does not keep.
    orders = [answer.facts["order"] for answer in answers]
    pairs = zip(found, orders, strict=True)
    found = [{name: arrays[name] for name in order if name in arrays} for arrays, order in pairs]
    own = [*map(tuple, facts["settings"]), *options.settings]
    known = Namespace(**{**vars(options), "settings": own, "against": options.module})
    return (compare_stages if in_stages else compare_ranks)(project, known, found)
