"""Run a program on arrays: on this device, or on the ranks of its plan."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import xg_runtime.ranks as ranks
from xg.cli.arguments import where
from xg.cli.input_arrays import InputArrays
from xg.codegen.backend import find, on_processes
from xg.codegen.emit.module import variables
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.limits import Processes, SimulatedRanks
from xg.diagnostics.terminal import similar
from xg.driver import Program
from xg.ir.labels import place_names
from xg.sharding.local import cuts, cuts_of_value
from xg.verify.reference.evaluate import Mesh
from xg.verify.reference.interpret import Interpreter
from xg_runtime.errors import InputError, RunError
from xg_runtime.generate import StepModule
from xg_runtime.module import Arrays, Module
from xg_runtime.ranks import all_reduce, all_reduce_max, current, gather_shard
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.run_task import Place, run_task
from xg_runtime.ranks.task import Answer, Json, Task
from xg_runtime.ranks.terms import Terms
from xg_runtime.run import run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xg.ir.graph import Backward, IRProgram, Value
    from xg.verify.reference.interpret import Record
    from xg_runtime.ranks.process_mesh import ProcessMesh


# Edges by the names a reader of the figure gives them: `H`, `attn.P`, `layers.0.attn.Q`.


GRADIENT: Final = "d/"  # in front of the name of what it is the gradient of


def kept_values(
    program: IRProgram, record: Record, names: Sequence[str], *, reverse: bool = False
) -> dict[str, NDArray[Any]]:
    """The arrays on these edges in one run of the interpreter; raises InputError.

    ``d/H`` is the gradient of H, which there is where the run was one in `reverse`, too.
    """
    backwards = program.backwards if reverse else None
    calls = record.by_path()
    arrays: dict[str, NDArray[Any]] = {}
    for name in names:
        of_gradient = name.startswith(GRADIENT)
        path, _, edge = name.removeprefix(GRADIENT).rpartition(".")
        if path not in calls:
            raise InputError(f"no call is named {path}{_instead(path, calls)}")
        values = _values_by_name(calls[path], edge, program)
        if edge not in values:
            raise InputError(f"no edge is named {name}{_edge_instead(path, edge, values)}")
        if of_gradient:
            arrays[name] = _gradient(calls[path], values[edge], name, backwards)
        else:
            arrays[name] = _gather_value(calls[path], values[edge], program)
    return arrays


def _values_by_name(run: Record, edge: str, program: IRProgram) -> dict[str, Value]:
    """The values of a run by their names: in the file, or else in code and figures.

    Values that code and figures leave unnamed have the name of what gives them.
    """
    named = sorted((value for value in run.values if value.name), key=lambda v: v.role != "cache")
    names = {str(value.name): value for value in named}  # an edge before a mask called as it is
    if edge in names:
        return names
    places = {name: v for v, name in place_names(run.graph).items() if v in run.values}
    if edge in places:
        return places | names
    of_code = variables(program).get(run.graph.key, {})
    return {name: v for v, name in of_code.items() if v in run.values} | names


def _gradient(
    run: Record, value: Value, name: str, backwards: Mapping[str, Backward] | None
) -> NDArray[Any]:
    """The gradient of a value; raises InputError where none reaches it."""
    if backwards is None:
        raise InputError(
            f"{name} is a gradient, which needs those of the outputs: give them with "
            "--d-outputs G.npz"
        )
    gradient = backwards[run.graph.key].totals.get(value)
    if gradient is None or gradient not in run.reverse:
        raise InputError(
            f"no gradient reaches {name.removeprefix(GRADIENT)}, so {name} cannot be kept: "
            "leave it out"
        )
    return run.reverse[gradient]


def _edge_instead(path: str, edge: str, values: Collection[str]) -> str:
    """The names that an unknown edge may have been: figures show the gradient of H as dH."""
    if edge.startswith("d") and edge[1:] in values:
        return f": the gradient is {GRADIENT}{path + '.' if path else ''}{edge[1:]}"
    return _instead(edge, values)


def _gather_value(run: Record, value: Value, program: IRProgram) -> NDArray[Any]:
    """The array of a value; on a rank gathered from all of them."""
    array, placement = run.values[value], run.graph.placements.get(value)
    if placement is None:
        return array
    for axis, state in placement.items():
        if state.kind in "PM":
            array = (all_reduce if state.kind == "P" else all_reduce_max)(array, axis)
    return gather_shard(array, cuts_of_value(program, run.graph, value, {}))


def _instead(name: str, known: Collection[str]) -> str:
    other = similar(name, known)
    some = ", ".join(sorted(each for each in known if each not in ("", "None"))[:20])
    return f": did you mean {other}?" if other else f": there are {some or 'none'}"


# Where a parallel program runs: on simulated ranks in this process, or on processes.


_TASKS = Path(__file__).with_name("rank_tasks.py")


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of a parallel program; `timeout` in seconds.

    `checked` lets processes compare every collective before it begins. `communicators` are those
    that processes make before they start, None for every one that is possible.
    """

    on: Place
    sizes: Mapping[str, int]
    timeout: float
    checked: bool = False
    device: Literal["cpu", "cuda"] = "cpu"
    communicators: tuple[str, ...] | None = None

    @classmethod
    def of(cls, program: Program, options: Namespace) -> Ranks | None:
        """Return the ranks that a command should use, or None for a program of one device.

        Raises DiagnosticError for more than are allowed, and where torch is missing; InputError
        where `--on` has nothing to be about.
        """
        if not program.mesh:
            if options.on is None:
                return None
            block, plan = program.graphs.main.block, program.graphs.plan
            how = (
                f"{plan.name} divides nothing of {block}"
                if plan
                else f"--plan NAME chooses how {block} is divided"
            )
            raise InputError(f"--on {options.on} is for parallel programs: {how}")
        sizes = program.mesh
        device = "cuda" if getattr(options, "device", "cpu") == "cuda" else "cpu"
        ranks = cls(options.on or "simulated", sizes, options.timeout, device=device)
        if not is_process_of_many():
            limit = Processes if ranks.on == "processes" else SimulatedRanks
            limit.check(Grid(sizes).count, None)
        if ranks.on != "processes":
            return ranks
        on_processes().require()
        kernels = bool(getattr(options, "kernels", False))
        return replace(ranks, communicators=program.communicators(kernels=kernels))

    @property
    def terms(self) -> Terms:
        """How processes work together."""
        return Terms(
            timeout=self.timeout,
            device=self.device,
            checked=self.checked,
            communicators=self.communicators,
        )

    def joined(self, facts: Mapping[str, str]) -> AbstractContextManager[ProcessMesh]:
        """Be the rank that torchrun has made this process; `facts` are the same on all."""
        from xg_runtime.ranks.joining import joined  # needs torch, which one rank does not

        return joined(self.sizes, facts, self.terms)

    def do(
        self, function: str, options: Json, arrays: Arrays, *, aloud: bool = False
    ) -> list[Answer]:
        """Let every rank do a function; return what they answer, in rank order.

        The function is one of `rank_tasks`, or ``FILE:NAME``. `aloud` lets rank 0 print. Raises
        RankError.
        """
        place = function if ":" in function else f"{_TASKS}:{function}"
        task = Task(place, options, arrays)
        return run_task(task, self.sizes, on=self.on, terms=self.terms, aloud=aloud)


def is_process_of_many() -> bool:
    """Whether this process is one rank already: started by xg, or by torchrun."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def is_on_mesh() -> bool:
    """Whether a mesh is there for this code: it runs as one of its ranks."""
    try:
        current()
    except RunError:
        return False
    return True


# Generated modules on NumPy arrays, on the device that a command names.


def place_module(
    program: Program,
    backend: str | None,
    where: Mapping[str, str],
    *,
    kernels: bool,
    dtype: str | None = None,
) -> Module:
    """The module of both passes; `where` is what `arguments.where` says."""
    code = program.load(backend, kernels=kernels)
    return cast(Module, find(backend).on_arrays(code, dtype, **where))


def placed_step(
    step: Program, backend: str | None, where: Mapping[str, str], *, kernels: bool
) -> StepModule:
    """The module of the step of a decoder."""
    return cast(
        StepModule, find(backend).step_on_arrays(step.load(backend, kernels=kernels), **where)
    )


def compute(given: InputArrays, options: Namespace) -> tuple[Arrays, Arrays]:
    """Results and the parameters that were used, whole; raises as `run` does, and RankError."""
    ranks = Ranks.of(given.program, options)
    if ranks is not None:
        return _on_ranks(given, options, ranks)
    how, half = where(options), _half(options)
    module = place_module(given.program, options.backend, how, kernels=options.kernels, dtype=half)
    params: Arrays = given.params or module.init(options.seed, given.dtype)
    seed = options.dropout
    results = run(module, params, given.inputs, d_outputs=given.cotangents, seed=seed)
    return results, params


def kept(given: InputArrays, params: Arrays, options: Namespace) -> Arrays:
    """The kept edges, computed by the interpreter, which has them all; from ranks, reassembled."""
    program, seed = given.program, options.dropout
    if not program.mesh:
        interpreter = Interpreter(program.graphs, params, seed)
        record = interpreter.forward(given.inputs)[1]
        if given.cotangents is None:
            return kept_values(program.graphs, record, options.keep)
        interpreter.backward(record, given.cotangents)
        return kept_values(program.graphs, record, options.keep, reverse=True)
    if any(name.startswith(GRADIENT) for name in options.keep):
        raise InputError(
            "xg keeps gradients of edges on one device only: leave out --plan, or keep edges "
            "without d"
        )
    where = cuts(program.graphs)

    def on_rank() -> Arrays:
        mine = ranks.local_shards(params, where)
        interpreter = Interpreter(program.graphs, mine, seed, mesh=cast("Mesh", ranks))
        record = interpreter.forward(ranks.local_shards(given.inputs, where))[1]
        return kept_values(program.graphs, record, options.keep)

    return ranks.simulate(program.graphs.mesh, on_rank)[0]


def _half(options: Namespace) -> str | None:
    return options.dtype if options.dtype == "bfloat16" else None


def _on_ranks(given: InputArrays, options: Namespace, ranks: Ranks) -> tuple[Arrays, Arrays]:
    """`compute` by all ranks together."""
    order = {
        "source": given.program.source(options.backend, kernels=options.kernels),
        "backend": options.backend,
        "half": _half(options),
        "where": where(options),
        "dtype": given.dtype,
        "seed": options.seed,
        "dropout": options.dropout,
        "backward": given.cotangents is not None,
        "keep params": bool(options.keep or options.save_params),
    }
    kinds = {"inputs": given.inputs, "params": given.params, "cotangents": given.cotangents}
    arrays = {
        f"{kind}/{name}": array for kind, of in kinds.items() for name, array in (of or {}).items()
    }
    answer = ranks.do("run", order, arrays)[0]
    results = {name: answer.arrays[name] for name in answer.facts["order"]}  # files sort names
    params = {n.removeprefix("params/"): a for n, a in results.items() if n.startswith("params/")}
    return {name: a for name, a in results.items() if not name.startswith("params/")}, params
