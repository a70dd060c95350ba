"""Prove derived gradients by differences, and the code of a block by the reference.

Every parameter is drawn at random, away from the ones and zeros that it starts as, and dropout is
on: at γ = 1 and β = 0 a gradient that confuses γ with γ² looks right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.driver import BACKENDS, Program, compile_project
from xg.frontend.project import Project
from xg.frontend.typed import Settings, dims_of
from xg.ir.graph import Apply, IRProgram, Value
from xg.ir.walk import param_specs
from xg.verify.domains import StoppedModule, fitting_inputs, large_ranges, stops
from xg.verify.edge_proof import EdgeProof, try_edges
from xg.verify.proof_sizes import sizes_of_proof
from xg.verify.reference import interpret
from xg.verify.reference.evaluate import Stopped
from xg.verify.reference.interpret import Interpreter, Record
from xg.verify.zeros import (
    ZeroProof,
    claim_of,
    expected_zeros,
    prove_zeros,
    why_zero,
    why_zero_through_calls,
)
from xg_runtime import gradcheck, probe
from xg_runtime.errors import InputError
from xg_runtime.module import Array, Arrays, Module
from xg_runtime.optim import global_norm
from xg_runtime.run import Expected, random_inputs

# Compare each gradient that a program takes in its forward pass with differences of its loss.
#
# The body of a ``grad[x](loss)`` is derived, and every backend computes it. So neither the
# gradients of the program nor a comparison of backends would notice a body that is the gradient of
# something else. Here x moves, and the interpreter computes the steps from x to the loss again.


def inner_rows(
    program: IRProgram, params: Arrays, inputs: Arrays, seed: int
) -> tuple[gradcheck.Row, ...]:
    """A row for each variable of each `grad`; if a graph is called often, of its first call."""
    takers = set(_takers(program))
    if not takers:
        return ()
    _, record = Interpreter(program, params, seed).forward(inputs)
    rows: list[gradcheck.Row] = []
    for run in record.runs():
        if run.graph.key in takers:
            takers.remove(run.graph.key)
            steps = (step for step in run.graph.steps if isinstance(step, Apply))
            inner = (_InnerGradient(program, params, seed, run, s) for s in steps if _is_taken(s))
            rows += (row for each in inner for row in each.rows())
    return tuple(rows)


def takes_gradients(program: IRProgram) -> bool:
    """Whether the forward pass has a `grad`, though nothing outside may have a gradient."""
    return any(True for _ in _takers(program))


def _takers(program: IRProgram) -> Iterator[str]:
    """The keys of the graphs that have a `grad`."""
    return (key for key, graph in program.graphs.items() if any(map(_is_taken, graph.steps)))


def _is_taken(step: object) -> bool:
    return isinstance(step, Apply) and step.op.differentiates > 0


@dataclass(frozen=True, slots=True)
class _InnerGradient:
    """One `grad` in one run of its graph."""

    program: IRProgram
    params: Arrays
    seed: int
    run: Record
    step: Apply

    def rows(self) -> Iterator[gradcheck.Row]:
        """Yield the comparison for each variable; the others follow it, if they depend on it."""
        loss, *others = self.step.inputs
        of = loss.name or "…"
        for value, made in zip(others, self.step.outputs, strict=False):
            found = self._report(loss, value, made)
            yield from (replace(row, name=f"grad[{value.name}]({of})") for row in found.rows)

    def _report(self, loss: Value, variable: Value, made: Value) -> gradcheck.Report:
        start, noted = {"x": self.run.values[variable]}, Stopped()

        def values(arrays: Arrays, stopped: Stopped) -> Mapping[Value, Array]:
            runner = Interpreter(self.program, self.params, self.seed, stopped=stopped)
            return runner.rerun(self.run, {variable: arrays["x"]}, self.step).values

        def function(arrays: Arrays) -> Arrays:
            return {"loss": values(arrays, noted.replayed())[loss]}

        def gradient(arrays: Arrays, d_outputs: Arrays) -> Arrays:
            return {"x": d_outputs["loss"] * values(arrays, noted.replayed())[made]}

        values(start, noted)
        zeros = {} if self.run.values[made].any() else {"x": "zero at this draw"}
        return gradcheck.check(function, gradient, start, zeros=zeros, seed=self.seed)


OTHER_DRAWS: Final = 4


@dataclass(frozen=True)
class Reference:
    """How far generated code is from the interpreter; `first` is the first that differs."""

    outputs: int
    gradients: int
    error: float
    first: str | None


@dataclass(frozen=True)
class GradientProof:
    """The result for one block, its sizes, and its `domain` where inputs around 0 do not fit.

    `zeros` are the gradients that the file expects to be zero, by path. `ties` name the operators
    that have equal operands at all inputs, so that conventions say what their gradient is.
    `edges` are None if they were not asked for.
    """

    program: Program
    sizes: Mapping[str, int]
    gradients: gradcheck.Report
    references: Mapping[str, Reference]
    domain: str = ""
    zeros: Mapping[str, ZeroProof] = field(default_factory=dict[str, ZeroProof])
    edges: EdgeProof | None = None
    ties: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every gradient agrees, and the code of every backend with the interpreter."""
        agree = all(reference.first is None for reference in self.references.values())
        edges = self.edges is None or self.edges.passed
        return self.gradients.passed and agree and edges


def prove(
    project: Project,
    block: str | None,
    settings: Settings,
    seed: int,
    backends: Sequence[str] = BACKENDS[:1],
    *,
    kernels: bool = False,
    edges: bool = False,
) -> GradientProof:
    """Prove one block of a file; raises DiagnosticError, and RunError for a NaN.

    With `kernels` the code compared with differences and interpreter is the fused one. With `edges`
    both are tried at ties, zeros and short axes, and in narrow types.
    """
    draft, program, sizes = _at_proof_sizes(project, block, settings)
    if not (_has_gradients(draft) or takes_gradients(draft.graphs)):
        raise InputError(
            f"{draft.graphs.main.block} has no gradients to prove: no float input or "
            "parameter reaches an output of floats"
        )
    params, inputs, domain = _drawn(program, seed)
    zeros = prove_zeros(program.graphs, expected_zeros(program.graphs), _shared(program), seed)
    report, ties = _differences(program, zeros, seed, kernels=kernels)
    inner = inner_rows(program.graphs, params, inputs, seed)
    report = gradcheck.Report((*report.rows, *inner), seed)
    computed = _computed(program, params, inputs, seed)
    references: dict[str, Reference] = {
        backend: _check_backend(
            program.on_arrays(backend, kernels=kernels), params, inputs, seed, computed
        )
        for backend in backends
    }
    report = _with_open_claims(report, zeros, computed.gradients)
    fixed = draft.graphs.main.sizes.defaults
    tried: EdgeProof | None = None
    if edges:
        large = large_ranges(program.graphs, fixed)
        numbers = {**sizes, **large}
        wide = _at_sizes(project, block, settings, numbers) if large else None
        tried = try_edges(program, sizes, fixed, seed, backends, domain, wide)
    return GradientProof(program, sizes, report, references, domain, zeros, tried, ties)


def sample(
    project: Project, block: str, settings: Settings, seed: int
) -> tuple[Mapping[str, int], Arrays, Arrays]:
    """Run a block once with the sizes of its proof; return sizes, outputs and gradients.

    Raises DiagnosticError. All is float64, from random parameters, inputs and cotangents.
    """
    draft, program, sizes = _at_proof_sizes(project, block, settings)
    params, inputs, _ = _drawn(program, seed)
    if not _has_gradients(draft):
        return sizes, Interpreter(program.graphs, params, seed).forward(inputs)[0], {}
    computed = _computed(program, params, inputs, seed)
    return sizes, computed.outputs, computed.gradients


def _at_proof_sizes(
    project: Project, block: str | None, settings: Settings
) -> tuple[Program, Program, Mapping[str, int]]:
    """Compile a block as the file has it and at the sizes of a proof, for one device."""
    compiled = compile_project(project, block, settings)
    sizes_given = {name: value for name, value in settings.items() if isinstance(value, int)}
    sizes = sizes_of_proof(compiled, sizes_given)
    numbers = {name: n for name, n in sizes.items() if name in dims_of(project, block)}
    program = compile_project(project, block, {**settings, **numbers}).on_one_device
    return compiled.on_one_device, program, sizes


def _has_gradients(program: Program) -> bool:
    return any(backward.gradients for backward in program.graphs.backwards.values())


def _at_sizes(
    project: Project, block: str | None, settings: Settings, sizes: Mapping[str, int]
) -> Program | None:
    """Compile a block at some sizes; None if it can't have them."""
    numbers = {name: n for name, n in sizes.items() if name in dims_of(project, block)}
    try:
        return compile_project(project, block, {**settings, **numbers}).on_one_device
    except DiagnosticError:
        return None


def _with_open_claims(
    report: gradcheck.Report, zeros: Mapping[str, ZeroProof], gradients: Arrays
) -> gradcheck.Report:
    """Fail the gradients that are expected to be zero without a proof, and show a value."""

    def judge(row: gradcheck.Row) -> gradcheck.Row:
        proof = zeros.get(row.name)
        if proof is None or proof.proven_by:
            return row
        reason = f"{claim_of(row.name)} (line {proof.meant.span.line}) is not proven: "
        value = gradients[row.name]
        if row.verdict == "ok":
            place = np.unravel_index(np.argmax(np.abs(value)), value.shape)
            at = f" at {[int(each) for each in place]}" if place else ""
            reason = f"{claim_of(row.name)} (line {proof.meant.span.line}) is false: "
            reason += f"it is {value[place]:.6g}{at}"
        else:
            reason += proof.otherwise
        return replace(row, verdict="failed", reason=reason)

    return gradcheck.Report(tuple(map(judge, report.rows)), report.seed)


def _drawn(program: Program, seed: int) -> tuple[Arrays, Arrays, str]:
    """Parameters, and inputs of a domain that fits."""
    params = interpret.initial(program.graphs, seed)
    drawn = random_inputs(_input_shapes(program), {}, seed)
    return params, *fitting_inputs(program.graphs, params, drawn, seed)


def _input_shapes(program: Program) -> dict[str, Expected]:
    """The shapes of random inputs: every axis has its number here."""
    specs = program.inputs.items()
    return {name: Expected(spec.shape, below=_as_integer(spec.range)) for name, spec in specs}


def _as_integer(size: int | str | None) -> int | None:
    assert not isinstance(size, str)
    return size


def _differences(
    program: Program, meant: Mapping[str, ZeroProof], seed: int, *, kernels: bool
) -> tuple[gradcheck.Report, tuple[str, ...]]:
    """The derived gradients against differences, and the ties at the draw.

    One that is zero by chance, as behind a rectifier that lets nothing of this draw through, is
    compared at other draws: a gradient that is forgotten is zero there, too.
    """
    report, ties = _differences_at(program, meant, seed, kernels=kernels)
    for other in range(seed + 1, seed + OTHER_DRAWS + 1):
        missing = {row.name for row in report.rows if row.reason == gradcheck.UNEXPLAINED}
        if not missing:
            break
        again, _ = _differences_at(program, meant, other, kernels=kernels)
        found = {row.name: row for row in again.rows if row.name in missing}
        report = gradcheck.Report(tuple(found.get(row.name, row) for row in report.rows), seed)
    return report, ties


def _differences_at(
    program: Program, meant: Mapping[str, ZeroProof], seed: int, *, kernels: bool
) -> tuple[gradcheck.Report, tuple[str, ...]]:
    """Compare gradients at one draw; look inside calls only for a reason that is missing."""
    params, inputs, _ = _drawn(program, seed)
    module = program.on_arrays(kernels=kernels)
    if stops(program.graphs):
        module = StoppedModule.at(program.graphs, module, params, inputs, seed)
    zeros = dict(_zeros(program))
    for name, proof in meant.items():
        if proof.proven_by:
            zeros[name] = f"{claim_of(name)}: meant, proven by {proof.proven_by}"
    while True:
        report = gradcheck.check_module(
            module,
            params,
            inputs,
            zeros=zeros,
            frozen=program.frozen,
            dropout=seed,
            seed=seed,
        )
        missing = [row.name for row in report.rows if row.reason == gradcheck.UNEXPLAINED]
        reasons = {name: reason for name in missing if (reason := _behind_calls(program, name))}
        if not reasons:
            return report, module.ties if isinstance(module, StoppedModule) else ()
        zeros |= reasons


def _behind_calls(program: Program, name: str) -> str | None:
    """Why the gradient of a parameter or an input is zero, looked for in all that is called."""
    if name.rpartition(".")[2] in _shared(program):
        return None
    return why_zero_through_calls(program.graphs, name)


def _shared(program: Program) -> set[str]:
    """The last names of parameters that other blocks use too."""
    foreign = (value for graph in program.graphs.graphs.values() for value in graph.foreign)
    return {str(value.name).rpartition(".")[2] for value in foreign}


def _zeros(program: Program) -> Iterator[tuple[str, str]]:
    """Gradients that must be zero, with the reason."""
    main = program.graphs.main
    for value in main.inputs:
        reason = why_zero(main, value) if main.types[value].is_float else None
        if reason:
            yield str(value.name), reason
    shared = _shared(program)
    reasons: dict[tuple[str, str], str | None] = {}
    for path, param, graph, _ in param_specs(program.graphs):
        name = str(param.value.name)
        if name not in shared:
            key = (graph.key, name)
            reasons[key] = reasons[key] if key in reasons else why_zero(graph, param.value)
            if reason := reasons[key]:
                yield path, reason


class _Computed(NamedTuple):
    """The run of the interpreter that code is compared with, and the cotangents that it got."""

    outputs: Arrays
    gradients: Arrays
    cotangents: Arrays


def _computed(program: Program, params: Arrays, inputs: Arrays, seed: int) -> _Computed:
    reference = Interpreter(program.graphs, params, seed)
    outputs, record = reference.forward(inputs)
    draw = np.random.default_rng(seed)
    cotangents = {
        name: draw.standard_normal(array.shape)
        for name, array in outputs.items()
        if np.issubdtype(array.dtype, np.floating)
    }
    return _Computed(outputs, reference.backward(record, cotangents), cotangents)


def _check_backend(
    module: Module, params: Arrays, inputs: Arrays, seed: int, computed: _Computed
) -> Reference:
    """Run code on the interpreter's arrays, with the same dropout and cotangents."""
    outputs, saved = module.forward(params, inputs, seed=seed)
    gradients = module.backward(params, saved, computed.cotangents)
    errors = {
        **_errors(outputs, computed.outputs),
        **{f"d{name}": error for name, error in _errors(gradients, computed.gradients).items()},
    }
    wrong = [name for name, error in errors.items() if not error <= probe.SAME_PROGRAM]
    first = wrong[0] if wrong else None
    counts = len(computed.outputs), len(computed.gradients)
    return Reference(*counts, max(errors.values()), first)


def _errors(found: Arrays, expected: Arrays) -> dict[str, float]:
    """How far each array is off, as the contract measures; infinity where one is missing."""
    finite = {name: np.isfinite(array) for name, array in expected.items()}
    total = global_norm({name: np.where(finite[name], expected[name], 0.0) for name in expected})
    errors = {name: float("inf") for name in found if name not in expected}
    for name, want in expected.items():
        have, where = found.get(name), finite[name]
        fits = have is not None and have.shape == want.shape
        if have is not None and fits and np.array_equal(where, np.isfinite(have)):
            errors[name] = probe.error(have[where], want[where], total)
        else:
            errors[name] = float("inf")
    return errors
