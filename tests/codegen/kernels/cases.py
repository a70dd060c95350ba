"""Uses of operators that a kernel computes: arrays to give it, and what the bodies make of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from ops.sample import SIZES, Sample
from ops.trial import Trial
from tier import THOROUGH

from xg import ops
from xg.codegen.emit.dialect import Kernels
from xg.codegen.emit.function import OperatorFunction
from xg.diagnostics.diagnostic import Source, Span
from xg.ir.body import Body, topological
from xg.ir.dim import Scalar
from xg.ir.graph import Apply
from xg.ir.op import Op
from xg.ir.prim import RANDOM, Cuts
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs
from xg.verify.reference.evaluate import Context, Mesh, evaluate
from xg.verify.reference.random import key

Array = NDArray[Any]
NOWHERE = Span(Source("none.xg", ""), 0, 0)
SEEDS, PLACE = (None, 5), "somewhere"
RANKS = {"N_D": (1, 2), "N_T": (1, 3)}  # a rank's place along a mesh axis, and the size of the axis


def functions(kernels: Kernels) -> dict[str, Any]:
    """Define everything that the files of kernels define, in one place as a module does."""
    names: dict[str, Any] = {"np": np, "torch": torch, "NDArray": NDArray}
    for text in kernels.support.texts():
        tree = ast.parse(text)
        tree.body = [node for node in tree.body if not _is_of_the_compiler(node)]
        exec(compile(tree, "<kernels>", "exec"), names)
    return names


def _is_of_the_compiler(node: ast.stmt) -> bool:
    """Whether a statement imports something of xg, or is what only modules have."""
    match node:
        case ast.ImportFrom(module=str(module)):
            return module.startswith("xg")
        case ast.AnnAssign(value=ast.Name(id="only_in_modules")):
            return True
        case _:
            return False


@dataclass(frozen=True)
class Case:
    """One use: the kernel's name and function, its operands, and the values of the body."""

    name: str
    kernel: str
    function: OperatorFunction
    arrays: Sequence[Array | None]
    wanted: Sequence[Array | None]
    sizes: Mapping[str, int]
    seed: int | None
    cuts: Cuts  # of the mask that it draws
    spent: Sequence[str]  # operands that it may overwrite

    @property
    def numbers(self) -> list[float | str]:
        """The numbers and words that the kernel takes behind its operands."""
        own = self.function.own
        return [self._number(n) if isinstance(n, Scalar) else n for n in own]

    def _number(self, scalar: Scalar) -> float:
        """A number as generated code has it: whole ones are integers."""
        value = scalar.evaluate(self.sizes)
        return int(value) if value.is_integer() else value

    @property
    def drawn(self) -> tuple[object, ...]:
        """The arguments that follow the numbers if the kernel draws a mask."""
        at = [(axis, *RANKS[over]) for axis, over in self.cuts]
        places = [(axis, (rank,), ranks) for axis, rank, ranks in at]
        return (self.seed, PLACE, *([places] if places else [])) if self.function.random else ()


class Rank:
    """A rank of a mesh that knows its place and cannot communicate."""

    def rank(self, over: str) -> int:
        return RANKS[over][0]

    def size(self, over: str) -> int:
        return RANKS[over][1]


def cases(
    kernels: Kernels, op: Op, sample: Sample, name: str, *, axes_of_one: bool = True
) -> Iterator[Case]:
    """The kernels that fit a use, forward and backward, dropout off and on, sizes of 1.

    A use without masks and random numbers is the same with every seed, so that one is enough.
    Daily axes are 1 with dropout on alone, which leaves out no step.
    """
    ones = [{**SIZES, symbol: 1} for symbol in sample.symbols()] if axes_of_one else []
    for sizes in (SIZES, *ones):
        seeds = SEEDS if THOROUGH or sizes == SIZES else SEEDS[1:]
        for seed in seeds if _has_masks(op, sample) else SEEDS[:1]:
            trial = _trial(op, sample, sizes, seed)
            for attrs in (trial.attrs, *_of_ranks(trial)):
                yield from _forward(kernels, replace(trial, attrs=attrs), seed, name)
                yield from _backward(kernels, replace(trial, attrs=attrs), seed, name)


def _has_masks(op: Op, sample: Sample) -> bool:
    """Whether a use draws numbers, or takes or gives booleans, as all that drops does."""
    given = Trial.make(op, sample, sizes=SIZES)
    outputs = op.body(sample.types, given.attrs).outputs
    drawn = RANDOM | {"dropout_apply"}
    return (
        any(each.dtype == np.bool_ for each in given.arrays.values())
        or any(expr.kind == "bool" for expr in outputs)
        or any(expr.prim in drawn for expr in topological(outputs))
    )


def _trial(op: Op, sample: Sample, sizes: Mapping[str, int], seed: int | None) -> Trial:
    made = Trial.make(op, sample, sizes=sizes)
    attrs = {name: value for name, value in made.attrs.items() if value is not None}
    attrs = {name: None for name in made.attrs if name == "ignore"} | attrs
    drawn = None if seed is None else key(seed, PLACE)
    context = Context(sizes, np.float64, drawn, mesh=cast(Mesh, Rank()))
    return Trial(op, sample, attrs, made.arrays, context)


def _of_ranks(trial: Trial) -> Iterator[Attrs]:
    """The attributes of a use on a rank: a mean counts the rows of all ranks, masks are cut."""
    if trial.attrs.get("reduction") == "mean" and "count" in trial.attrs:
        yield {**trial.attrs, "count": trial.attrs["count"] * 3.0}
    body = trial.op.body(trial.sample.types, trial.attrs)
    for expr in topological(body.outputs):
        if expr.prim == "dropout_keep":
            yield {**trial.attrs, "cuts": ((-expr.rank, "N_D"), (-1, "N_T"))}
            yield {**trial.attrs, "cuts": ((-1, "N_T"), (-1, "N_D"))}


def _forward(kernels: Kernels, trial: Trial, seed: int | None, name: str) -> Iterator[Case]:
    body = trial.op.body(trial.sample.types, trial.attrs)
    step = Apply(trial.op, (), (), trial.attrs, NOWHERE)
    yield from _case(kernels, step, body, trial.arrays, trial.context, seed, name)
    if body.caches:  # in a step of generation no backward pass needs them
        alone = replace(body, outputs=body.outputs[: -len(body.caches)], caches=())
        yield from _case(kernels, step, alone, trial.arrays, trial.context, seed, name)


def _backward(kernels: Kernels, trial: Trial, seed: int | None, name: str) -> Iterator[Case]:
    op, types = trial.op, trial.sample.types
    floats = [operand for operand, type_ in trial.sample.operands.items() if type_.is_float]
    if op.pullback:
        yield from _terms(kernels, trial, seed, name)
        return
    if not floats:
        return
    forward = Apply(op, (), (), trial.attrs, NOWHERE)
    derived = op.adjoint_op(types, trial.attrs, floats)
    known = {**trial.arrays, **trial.outputs(), **trial.cotangents}
    made = {**dict(zip(trial.sample.operands, types, strict=True)), **_made(trial)}
    body = derived.body([made[data.name] for data in derived.data], {})
    step = Apply(derived, (), (), {}, NOWHERE, origin=forward)
    arrays = {data.name: known[data.name] for data in derived.data}
    yield from _case(kernels, step, body, arrays, trial.context, seed, f"gradient of {name}")


def _terms(kernels: Kernels, trial: Trial, seed: int | None, name: str) -> Iterator[Case]:
    """The gradients of an operator that gives them as uses of others, those of one use each."""
    assert trial.op.pullback
    for term in trial.op.pullback(trial.attrs).values():
        if isinstance(term, str) or not all(isinstance(arg, str) for arg in term.args):
            continue
        op = ops.table()[term.op]
        types = {
            **dict(zip(trial.sample.operands, trial.sample.types, strict=True)),
            **_made(trial),
        }
        known = {**trial.arrays, **trial.cotangents}
        args = [f"d{trial.op.outputs[0]}" if arg == "d" else str(arg) for arg in term.args]
        if not all(arg in known for arg in args):
            continue
        body = op.body([types[arg] for arg in args], term.attrs)
        arrays = {str(expr.name): known[arg] for expr, arg in zip(body.operands, args, strict=True)}
        step = Apply(op, (), (), term.attrs, NOWHERE)
        yield from _case(kernels, step, body, arrays, trial.context, seed, f"gradient of {name}")


def _made(trial: Trial) -> dict[str, TensorType]:
    """The types of outputs, caches and cotangents."""
    body = trial.op.body(trial.sample.types, trial.attrs)
    names = list(trial.outputs())
    made = {n: TensorType(e.shape) for n, e in zip(names, body.outputs, strict=True)}
    return made | {f"d{name}": type_ for name, type_ in made.items()}


def _case(
    kernels: Kernels,
    step: Apply,
    body: Body,
    arrays: Mapping[str, Array | None],
    context: Context,
    seed: int | None,
    name: str,
) -> Iterator[Case]:
    ways: list[list[str]] = [[], *([str(expr.name)] for expr in body.operands)]
    found = [(spent, kernels.find(step, body, spent)) for spent in ways]
    if not any(kernel for _, kernel in found):
        return
    wanted: list[Array | None] = list(evaluate(body.outputs, arrays, context))  # type: ignore[arg-type]
    wanted = [None if a is not None and a.dtype == np.bool_ and seed is None else a for a in wanted]
    for spent, kernel in found:
        if kernel is not None:
            yield _found(kernel, step, spent, body, arrays, wanted, context, seed, name)


def _found(
    found: tuple[str, OperatorFunction],
    step: Apply,
    spent: Sequence[str],
    body: Body,
    arrays: Mapping[str, Array | None],
    wanted: Sequence[Array | None],
    context: Context,
    seed: int | None,
    name: str,
) -> Case:
    kernel, function = found
    given: list[Array | None] = [arrays[str(expr.name)] for expr in body.operands]
    for place in function.absent:
        given.insert(place, None)
    if seed is None:  # a mask of all ones is None in generated code
        given = [None if a is not None and a.dtype == np.bool_ else a for a in given]
    cuts = step.attrs["cuts"] if function.cuts else ()
    return Case(name, kernel, function, given, wanted, context.sizes, seed, cuts, spent)
