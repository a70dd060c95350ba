"""Put numbers on every edge of a program, and update its parameters by one step of learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.driver import compile_project
from xg.frontend.examples.binding import BoundExample, Claim
from xg.frontend.project import Project
from xg.frontend.typed import Settings, dims_of
from xg.ir.graph import IRProgram
from xg.ir.parameters import frozen_paths, loss_of
from xg.verify.examples.claim_check import Array, Recomputation, judge
from xg.verify.proof_sizes import sizes_of_proof
from xg.verify.reference import random as invented
from xg.verify.reference.interpret import Edge, Interpreter, Record, initial
from xg_pages.explain.numbers import number
from xg_pages.explain.page import Read, ShownTensor, TextTokens, Update
from xg_pages.explorer.play import is_small
from xg_runtime.errors import InputError
from xg_runtime.norm import clip, global_norm
from xg_runtime.optim import AdamW

# One step of learning with the gradients of a page: a parameter worked out, and the new loss.


RATE: Final = 3e-3  # that of `xg train`, as are the optimizer and the limit
LIMIT: Final = 1.0


def update_of(
    interpreter: Interpreter,
    inputs: Mapping[str, Array],
    loss: str,
    before: float,
    gradients: Mapping[str, Array],
) -> Update | None:
    """The first step of AdamW at the full rate of `xg train`, without its warm-up.

    None where nothing learns.
    """
    program = interpreter.program
    frozen = frozen_paths(program)
    learning = {path: np.array(x) for path, x in interpreter.params.items() if path not in frozen}
    norm = global_norm({path: gradients[path] for path in learning})
    if not learning or not np.isfinite(norm):
        return None
    scaled = clip({path: gradients[path] for path in learning}, norm, LIMIT)
    optimizer = AdamW()
    optimizer.update(learning, scaled, optimizer.slots(learning), RATE, 0)
    after = Interpreter(program, {**interpreter.params, **learning}, traces=interpreter.traces)
    with np.errstate(all="ignore"):
        outputs, _ = after.forward(inputs)
    moving = (path for path in learning if learning[path].size and scaled[path].flat[0])
    path = next(moving, next(iter(learning)))
    old, new = interpreter.params[path], learning[path]
    shown = (
        ShownTensor(path, "", old),
        ShownTensor(f"d{path}", "", gradients[path]),
        ShownTensor(path, "", new),
    )
    worked = _worked(old, float(scaled[path].flat[0]), optimizer, new) if new.size else ""
    return Update(shown, worked, RATE, norm, norm > LIMIT, loss, (before, float(outputs[loss])))


def _worked(old: Array, gradient: float, rule: AdamW, new: Array) -> str:
    """The first entry: before the first step both moments are zero, so they are dθ and dθ²."""
    theta, g, rate = number(float(old.flat[0])), number(gradient), number(RATE)
    theta = f"({theta})" if theta.startswith("-") and old.ndim >= 2 else theta
    kept = f"{theta}·(1 - {rate}·{number(rule.weight_decay)})" if old.ndim >= 2 else theta
    g = f"({g})" if g.startswith("-") else g
    moved = f"{rate}·{g}/(sqrt({g}^2) + {number(rule.epsilon)})"
    return f"{kept} - {moved} = {float(new.flat[0]):.6g}"


@dataclass(frozen=True, slots=True)
class Said:
    """The numbers that a document prints for an edge, and which of them are right."""

    claim: Claim
    printed: Array
    holds: Array


@dataclass(frozen=True, slots=True)
class Bound:
    """A program after both passes. `seed` is None where the numbers are those of an example.

    `given` are the cotangents that the backward pass began with. `said` is what the example claims.
    `update` is there where a loss is. `axes` are the words along axes of these names. `written` are
    the numbers that the file gives to sizes, where others are taken.
    """

    program: IRProgram
    title: str
    record: Record
    given: Mapping[str, Array]
    seed: int | None
    said: Mapping[Edge, tuple[Said, ...]] = field(default_factory=dict[Edge, tuple[Said, ...]])
    update: Update | None = None
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    written: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def sizes(self) -> Mapping[str, int]:
        """The numbers of all sizes."""
        return self.record.sizes


def of_example(document: BoundExample, tokens: TextTokens | None = None) -> Bound:
    """The numbers of an example; where it has no loss, drawn cotangents go backward."""
    recomputation = Recomputation(document)
    run = recomputation.run()
    loss = loss_of(document.program.main)
    arrays = invented.cotangents(run.outputs, 0, None if loss is None else [loss])
    with np.errstate(all="ignore"):
        gradients = run.interpreter.backward(run.record, arrays)
    update = _update(run.interpreter, recomputation.inputs, run.outputs, gradients)
    said: dict[Edge, tuple[Said, ...]] = {}
    for each in judge(document):
        edge = recomputation.edge(each.claim.target)
        one = Said(each.claim, each.printed, each.from_givens.holds)
        said[edge] = (*said.get(edge, ()), one)
    read = Read.of(document.program.main) if tokens else None
    bound = Bound(document.program, document.title, run.record, arrays, None, said, update)
    return _with_words(bound, read, tokens)


def _with_words(bound: Bound, read: Read | None, tokens: TextTokens | None) -> Bound:
    """The numbers with the tokens that they are about; raises InputError where they do not fit."""
    if read is None or tokens is None:
        return bound
    read.check(bound.program.main, tokens, bound.sizes)
    words = tokens.words[: read.length(tokens)]
    graph = bound.program.main
    axes = {str(graph.sizes.fold(read.axis)): words}
    if tokens.known and (range_ := graph.types[read.first].range):
        axes[str(graph.sizes.fold(range_))] = tokens.known
    return replace(bound, axes=axes)


def of_block(
    project: Project,
    block: str | None,
    settings: Settings,
    seed: int,
    tokens: TextTokens | None = None,
) -> Bound | None:
    """Drawn numbers at the small sizes of a proof, for tokens where there are; DiagnosticError.

    None where the file itself asks for sizes too large to follow. Raises InputError for a block
    that is written for one of several ranks.
    """
    compiled = compile_project(project, block, settings)
    draft = compiled.graphs
    _refuse_ranks(draft)
    read = Read.of(draft.main) if tokens else None
    asked = read.sizes(draft.main, tokens) if read and tokens else dict[str, int]()
    fitting: Settings = {n: size for n, size in asked.items() if n in dims_of(project, block)}
    own = {**fitting, **settings}
    set_ = {name: value for name, value in own.items() if isinstance(value, int)}
    sizes = sizes_of_proof(compiled, set_)
    numbers = {name: n for name, n in sizes.items() if name in dims_of(project, block)}
    program = compile_project(project, block, {**own, **numbers}).graphs
    if not is_small(program):
        return None
    interpreter = Interpreter(program, initial(program, seed))
    given = invented.inputs(program, seed)
    if tokens:
        read = Read.of(program.main)
        read.check(program.main, tokens, sizes)
        given |= read.inputs(program.main, tokens, sizes)
    with np.errstate(all="ignore"):
        outputs, record = interpreter.forward(given)
        loss = loss_of(program.main)
        arrays = invented.cotangents(outputs, seed, None if loss is None else [loss])
        gradients = interpreter.backward(record, arrays)
    update = _update(interpreter, given, outputs, gradients)
    written = {n: size for n, size in draft.main.sizes.defaults.items() if n in sizes}
    bound = Bound(program, "", record, arrays, seed, update=update, written=written)
    return _with_words(bound, read, tokens)


def _refuse_ranks(program: IRProgram) -> None:
    if program.is_parallel:
        said = "computes one rank's part, and a page is about one device"
        raise InputError(f"{program.main.block} {said}: `xg serve` shows the numbers of all ranks")


def _update(
    interpreter: Interpreter,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    gradients: Mapping[str, Array],
) -> Update | None:
    """The step that the gradients of a loss allow."""
    loss = loss_of(interpreter.program.main)
    if loss is None or not np.isfinite(outputs[loss]):
        return None
    return update_of(interpreter, inputs, loss, float(outputs[loss]), gradients)
