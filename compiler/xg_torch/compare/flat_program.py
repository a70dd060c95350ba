"""Run a diagram without its calls: every edge once, with its array and its gradient.

An operand of a call and the callee's input are one edge here, and so are a result of a call and
the callee's output. The rounds of a loop over an axis are one step that is not looked into.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.graph import Apply, Call, IRProgram, Value
from xg.ir.use import Attrs
from xg.ir.walk import join
from xg.verify.reference.evaluate import Context, evaluate
from xg.verify.reference.interpret import Arrays, Interpreter, Record
from xg.verify.reference.random import drawing_key
from xg_runtime import probe
from xg_runtime.errors import InputError
from xg_runtime.module import Array

if TYPE_CHECKING:
    from torch import Tensor


# Two arrays beside each other: in one shape, and how far apart.


def off(theirs: Array, ours: Array, total: float = 0.0) -> float:
    """How far two arrays are from each other; infinite where only one has a number."""
    finite = np.isfinite(ours)
    if not np.array_equal(finite, np.isfinite(theirs)):
        return float("inf")
    return probe.error(np.where(finite, theirs, 0.0), np.where(finite, ours, 0.0), total)


def in_shape(array: Array, shape: tuple[int, ...]) -> Array | None:
    """An array in another shape: without axes of one, with rows together, or sequence first.

    Or with channels in front of their places, as torch has pictures.
    """
    if array.shape == shape:
        return array
    if array.size != int(np.prod(shape)):
        return None
    squeezed, wanted = ([n for n in each if n != 1] for each in (array.shape, shape))
    if squeezed == wanted or array.shape[-1:] == shape[-1:] == array.shape[1:]:
        return array.reshape(shape)
    if array.ndim == len(shape) > 2 and (array.shape[1], array.shape[0], *array.shape[2:]) == shape:
        return array.swapaxes(0, 1)
    if array.ndim == len(shape) > 2 and (array.shape[0], *array.shape[2:], array.shape[1]) == shape:
        return np.moveaxis(array, 1, -1)
    return None


@dataclass(slots=True, eq=False)
class FlatEdge:
    """An edge of one call: its numbers, the total of its gradient, and what that is summed from.

    `of` are the parameters that it is made from where it is made from nothing else; `param` is set
    where it is one. `parts` are the gradients that its readers send back, with the names of these.
    """

    name: str
    path: str
    line: int
    array: Array
    gradient: Array | None = None
    parts: Sequence[tuple[str, Array]] = ()
    step: FlatStep | None = None
    param: str | None = None
    of: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.name} of line {self.line}" + (f" in {self.path}" if self.path else "")

    @property
    def full_name(self) -> str:
        """Its name with the path of its call: ``layers.0.attn.P``."""
        return join(self.path, self.name)


@dataclass(slots=True, eq=False)
class FlatStep:
    """One use of an operator in one call; `apply` is None for a loop over an axis."""

    record: Record
    apply: Apply | None
    inputs: Sequence[FlatEdge]
    number: int  # in the order of steps
    outputs: list[FlatEdge] = field(default_factory=list[FlatEdge])

    @property
    def operator(self) -> str:
        """The name of its operator; "loop" for a loop."""
        return self.apply.op.name if self.apply else "loop"

    @property
    def glyph(self) -> str:
        """Its operator as files spell it."""
        return self.apply.op.glyph if self.apply else "loop"

    @property
    def attrs(self) -> Attrs:
        """The arguments of its operator."""
        assert self.apply is not None
        return self.apply.attrs

    def run(self, arrays: Sequence[Array], attrs: Attrs | None = None) -> list[Array]:
        """Its results on other operands, or with other arguments."""
        assert self.apply is not None
        apply = replace(self.apply, attrs={**self.apply.attrs, **(attrs or {})})
        body = apply.body(self.record.graph.types)
        drawn = drawing_key(self.record.seed, join(self.record.path, self.apply.place))
        context = Context(self.record.sizes, np.float64, drawn)
        names = (str(expr.name) for expr in body.operands)
        operands = dict(zip(names, arrays, strict=True))
        return evaluate(body.outputs, operands, context)


@dataclass(frozen=True, slots=True)
class FlatProgram:
    """All edges and steps of a run, in the order in which they are made."""

    program: IRProgram
    sizes: Mapping[str, int]
    inputs: Mapping[str, FlatEdge]
    params: Mapping[str, FlatEdge]
    outputs: Mapping[str, FlatEdge]
    edges: Sequence[FlatEdge]
    steps: Sequence[FlatStep]

    @property
    def gradients(self) -> dict[str, Array]:
        """The gradient of every parameter that has one, by path."""
        pairs = ((path, edge.gradient) for path, edge in self.params.items())
        return {path: gradient for path, gradient in pairs if gradient is not None}


def flat_run(
    program: IRProgram, params: Arrays, inputs: Arrays, d_outputs: Arrays, seed: int | None = None
) -> FlatProgram:
    """Run a program forward and backward, and lay its calls open; `seed` draws dropout."""
    interpreter = Interpreter(program, params, seed)
    _, record = interpreter.forward(inputs)
    gradients = interpreter.backward(record, d_outputs)
    return _Opening(program, record, params, gradients).flatten()


class _Opening:
    """The edges and steps of one run, collected call by call."""

    def __init__(
        self, program: IRProgram, record: Record, params: Arrays, gradients: Arrays
    ) -> None:
        self.program, self.record = program, record
        self.edges: list[FlatEdge] = []
        self.steps: list[FlatStep] = []
        self.params = {
            path: FlatEdge(path.rpartition(".")[2], path.rpartition(".")[0], 0, array,
                           gradients.get(path), param=path, of=frozenset([path]))
            for path, array in params.items()
        }  # fmt: skip

    def flatten(self) -> FlatProgram:
        main = self.program.main
        env = {value: self._edge(value, self.record, None) for value in main.inputs}
        inputs = {str(value.name): edge for value, edge in env.items()}
        self._open(self.record, env)
        pairs = zip(main.output_names, main.outputs, strict=True)
        outputs = {name: env[value] for name, value in pairs}
        for name, edge in outputs.items():
            edge.name = name if not edge.path and edge.step is not None else edge.name
        return FlatProgram(
            self.program, self.record.sizes, inputs, self.params, outputs, self.edges, self.steps
        )

    def _open(self, record: Record, env: dict[Value, FlatEdge]) -> None:
        """The steps of one call; `env` has the edges of its inputs, and then of all its values."""
        for value in record.graph.param_values():
            env[value] = self.params[join(record.path, str(value.name))]
            env[value].line = value.span.line
        for state in record.graph.states:
            env[state.past] = self._edge(state.past, record, None)
        for step in record.graph.steps:
            inputs = [env[value] for value in step.inputs]
            if isinstance(step, Call) and step.loop is None:
                env.update(zip(step.outputs, self._rounds(step, record, inputs), strict=True))
                continue
            apply = step if isinstance(step, Apply) else None
            flat = FlatStep(record, apply, inputs, len(self.steps))
            flat.outputs += [self._edge(value, record, flat) for value in step.outputs]
            env.update(zip(step.outputs, flat.outputs, strict=True))
            self.steps.append(flat)

    def _rounds(self, call: Call, record: Record, inputs: list[FlatEdge]) -> list[FlatEdge]:
        """The results of a call, or of a row of calls."""
        outputs = inputs[:1]
        for inner in record.calls[call.saved]:
            env = dict(zip(inner.graph.inputs, inputs, strict=True))
            for value, edge in env.items():
                edge.parts = [*edge.parts, *self._parts(value, inner)]
            self._open(inner, env)
            outputs = [env[value] for value in inner.graph.outputs]
            inputs = [outputs[0], *inputs[1:]] if call.count is not None else inputs
        return outputs

    def _edge(self, value: Value, record: Record, step: FlatStep | None) -> FlatEdge:
        name = value.name or (step.glyph if step else "")
        edge = FlatEdge(name, record.path, value.span.line, record.values[value], step=step)
        if step and step.inputs and all(each.of for each in step.inputs):
            edge.of = frozenset().union(*(each.of for each in step.inputs))
        backward = self.program.backwards.get(record.graph.key)
        if backward is not None and value in backward.totals and record.reverse:
            edge.gradient = record.reverse[backward.totals[value]]
            edge.parts = self._parts(value, record)
        self.edges.append(edge)
        return edge

    def _parts(self, value: Value, record: Record) -> list[tuple[str, Array]]:
        """The gradients that the readers of a value in one call send back."""
        backward = self.program.backwards.get(record.graph.key)
        if backward is None or not record.reverse:
            return []
        parts = _parts_of(backward.steps, backward.of).get(value, ())
        return [
            (f"{origin.op.glyph} of line {origin.span.line}", record.reverse[cotangent])
            for cotangent, origin in parts
            if isinstance(origin, Apply)  # those of a call are those of its own steps
        ]


Parts = Mapping[Value, Sequence[tuple[Value, Apply | Call]]]


def _parts_of(steps: Sequence[Apply | Call], of: Mapping[Value, Value]) -> Parts:
    """The cotangents that each step of a backward pass adds to a forward value's."""
    found: dict[Value, list[tuple[Value, Apply | Call]]] = {}
    for step in steps:
        if step.origin is not None:
            for cotangent in step.outputs:
                if cotangent in of:
                    found.setdefault(of[cotangent], []).append((cotangent, step.origin))
    return found


# The masks of a diagram's dropout, given to code that others wrote, where it drops.
#
# Code that calls `torch.nn.functional.dropout`, as nn.Dropout does, gets the next mask of the
# diagram that has the shape of its tensor. Code that drops in another way is refused, or found to
# be random.


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false


WITHIN = "scaled_dot_product_attention"


@dataclass(frozen=True, eq=False)
class GivenMask:
    """The mask of one use of dropout: the edge that it makes, the part that goes, what it keeps."""

    edge: FlatEdge
    p: float
    keep: Array

    def __str__(self) -> str:
        return f"{self.edge} {list(self.keep.shape)}"


def masks_of(flat: FlatProgram) -> list[GivenMask]:
    """The masks of a run with a seed, in the order of its steps; raises InputError without any."""
    drops = [step for step in flat.steps if step.operator == "dropout"]
    found = [
        GivenMask(step.outputs[0], p, step.outputs[1].array)
        for step in drops
        if (p := step.attrs["p"].evaluate(step.record.sizes))
    ]
    if not found:
        raise InputError(
            f"--dropout needs a DO in {flat.program.main.block}, and there is none: leave it out"
        )
    return found


@contextmanager
def dropping_by(masks: Sequence[GivenMask]) -> Generator[None]:
    """Let torch drop by these masks, each once, and by another one where none is left.

    A dropout too many or too few then shows in the numbers. Raises InputError for another p, and
    where torch drops inside of attention.
    """
    from torch.nn import functional

    left = list(masks)

    def dropout(
        input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or p == 0:
            return input
        keep = _next(left, tuple(input.shape), p)
        scaled = input.new_tensor(keep) / (1 - p)
        return input.mul_(scaled) if inplace else input * scaled

    def attention(*args: Any, **kwargs: Any) -> Tensor:  # noqa: ANN401 - as torch has it
        if kwargs.get("dropout_p", args[4] if len(args) > 4 else 0):
            raise InputError(
                f"the module drops inside {WITHIN}, where xg cannot set the mask: compare "
                "with dropout_p=0, and without that DO in the diagram"
            )
        return whole(*args, **kwargs)

    whole: Any = getattr(functional, WITHIN)
    inside = mock.patch.object(functional, WITHIN, attention)
    with mock.patch.object(functional, "dropout", dropout), inside:
        yield


def _next(left: list[GivenMask], shape: tuple[int, ...], p: float) -> Array:
    """Take the next mask that fits a tensor, or draw an unrelated one if none is left.

    Raises InputError where the diagram drops another part of all that are left.
    """
    fitting = [mask for mask in left if in_shape(mask.keep, shape) is not None]
    for mask in fitting:
        if abs(mask.p - p) < 1e-12:
            left.remove(mask)
            found = in_shape(mask.keep, shape)
            assert found is not None
            return found
    if fitting:
        first = fitting[0]
        raise InputError(
            f"the diagram drops {first.p:g} of {first}, but the module drops {p:g}: give both "
            "the same probability"
        )
    return np.random.default_rng(0).random(shape) >= p  # it shows, the same in every run
