"""Run torch's autograd on the generated module, and on the forward graph. Needs torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.body import topological
from xg.ir.dim import Dim, Scalar
from xg.ir.functions import FUNCTIONS
from xg.ir.graph import Apply, Call, Graph, IRProgram
from xg.ir.prim import Expr, batch_of
from xg.ir.walk import join
from xg.verify.reference.interpret import rebind
from xg_runtime.module import Array, Arrays

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false


@dataclass(frozen=True)
class AutogradModel:
    """The `Model` of a module as both passes on arrays.

    `sizes` are those that it may be given, `frozen` the inputs of which no gradient is taken.
    """

    module: ModuleType
    sizes: Mapping[str, int]
    frozen: frozenset[str]

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, tuple[Arrays, int | None]]:
        """Return outputs and what `backward` needs."""
        return self._run_passes(params, inputs, {}, seed)[0], (inputs, seed)

    def backward(
        self, params: Arrays, saved: tuple[Arrays, int | None], d_outputs: Arrays
    ) -> Arrays:
        """Return the gradients that autograd finds."""
        inputs, seed = saved
        return self._run_passes(params, inputs, d_outputs, seed)[1]

    def _run_passes(
        self, params: Arrays, inputs: Arrays, cotangents: Arrays, seed: int | None
    ) -> tuple[Arrays, Arrays]:
        wanted = inspect.signature(self.module.init).parameters
        sizes = {name: n for name, n in self.sizes.items() if name in wanted}
        outputs, gradients = model_gradients(self.module, sizes, params, inputs, cotangents, seed)
        return outputs, {n: each for n, each in gradients.items() if n not in self.frozen}


def model_gradients(
    module: Any,  # noqa: ANN401 - a generated module
    sizes: Mapping[str, int],
    params: Arrays,
    inputs: Arrays,
    cotangents: Arrays,
    seed: int | None,
) -> tuple[Arrays, Arrays]:
    """Outputs, and gradients of parameters and float inputs; without one, zeros."""
    model = module.Model(0, torch.float64, **sizes)
    model.load_state_dict({name: torch.tensor(array) for name, array in params.items()})
    leaves = {name: torch.tensor(array) for name, array in inputs.items()}
    floats = {name: x.requires_grad_() for name, x in leaves.items() if x.is_floating_point()}
    seeded = "seed" in inspect.signature(model.forward).parameters
    arguments = [leaves[name] for name in leaves]
    given = {"seed": torch.tensor(seed)} if seeded and seed is not None else {}
    model.train(seed is not None)
    outputs = model(*arguments, **given)
    parts = [(outputs[name] * torch.tensor(c)).sum() for name, c in cotangents.items()]
    total = torch.stack(parts).sum() if parts else None
    if total is not None and total.requires_grad:
        total.backward()
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    found = {**learned, **floats}
    return (
        {name: output.detach().numpy() for name, output in outputs.items()},
        {name: _gradient(tensor) for name, tensor in found.items()},
    )


def _gradient(tensor: torch.Tensor) -> Array:
    gradient = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
    return np.asarray(gradient.detach().numpy())


# A witness that shares nothing with the compiler's derivatives: the forward graph in torch.
#
# It walks the typed graph primitive by primitive in torch's own functions, and autograd does the
# rest. No backward graph, no interpreter and no generated code take part. Dropout is off. Needs
# torch.


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false


NamedArrays = Mapping[str, np.ndarray[Any, Any]]
Sizes = Mapping[str, int]


def autograd(
    program: IRProgram,
    sizes: Sizes,
    params: NamedArrays,
    inputs: NamedArrays,
    cotangents: NamedArrays,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Outputs and the gradients of all parameters and float inputs, by torch's autograd."""
    leaves = {name: torch.tensor(array) for name, array in {**params, **inputs}.items()}
    floats = {n: x.requires_grad_() for n, x in leaves.items() if x.is_floating_point()}
    graph = program.main
    walk = _TorchWalk(program, {name: leaves[name] for name in params})
    results = walk.run(graph, "", sizes, [leaves[str(value.name)] for value in graph.inputs])
    outputs = dict(zip(graph.output_names, results, strict=True))
    terms = [(outputs[name] * torch.tensor(c)).sum() for name, c in cotangents.items()]
    total = torch.stack(terms).sum() if terms else torch.zeros(())
    if total.requires_grad:
        total.backward()
    gradients = {n: torch.zeros_like(x) if x.grad is None else x.grad for n, x in floats.items()}
    return (
        {name: x.detach().numpy() for name, x in outputs.items()},
        {name: x.numpy() for name, x in gradients.items()},
    )


class _TorchWalk:
    """One run of a program on torch tensors."""

    def __init__(self, program: IRProgram, params: Mapping[str, Tensor]) -> None:
        self.program = program
        self.params = params

    def run(self, graph: Graph, path: str, sizes: Sizes, inputs: list[Tensor]) -> list[Tensor]:
        """Run every step of a graph; give its outputs."""
        values = dict(zip(graph.inputs, inputs, strict=True))
        for value in graph.param_values():
            values[value] = self.params[join(path, str(value.name))]
        for step in graph.steps:
            operands = [values[value] for value in step.inputs]
            if isinstance(step, Apply):
                results = _apply(step, graph, sizes, operands)
            else:
                results = self.call(step, graph, path, sizes, operands)
            values.update(zip(step.outputs, results, strict=True))
        return [values[value] for value in graph.outputs]

    def call(
        self, step: Call, graph: Graph, path: str, sizes: Sizes, inputs: list[Tensor]
    ) -> list[Tensor]:
        """Run a called block once, in a row, or for every position of an axis."""
        callee = self.program.graphs[step.callee]
        inner, base = rebind(step, graph, callee, sizes), join(path, step.path)
        if step.loop:
            return self.loop(step, callee, base, inner, step.loop.length.evaluate(sizes), inputs)
        if step.count is None:
            return self.run(callee, base, inner, inputs)
        results = inputs[:1]
        for turn in range(step.first, step.first + step.count.evaluate(sizes)):
            results = self.run(callee, f"{base}.{turn}", inner, inputs)
            inputs = [results[0], *inputs[1:]]
        return results

    def loop(
        self, step: Call, callee: Graph, base: str, sizes: Sizes, length: int, inputs: list[Tensor]
    ) -> list[Tensor]:
        """Run a block for every position, and stack what the rounds give."""
        loop = step.loop
        assert loop is not None
        order = range(length)[::-1] if loop.reverse else range(length)
        carried, rounds = inputs[len(inputs) - loop.states :], dict[int, list[Tensor]]()
        for position in order:
            taken = [
                x if axis is None else x.select(axis, position)
                for x, axis in zip(inputs, loop.inputs, strict=True)
            ]
            taken[len(taken) - loop.states :] = carried
            rounds[position] = self.run(callee, base, sizes, taken)
            carried = rounds[position][len(rounds[position]) - loop.states :]
        if not rounds:
            return self.no_rounds(step, callee, sizes, carried)
        last = rounds[order[-1]]
        return [
            last[n] if axis is None else torch.stack([rounds[p][n] for p in range(length)], axis)
            for n, axis in enumerate(loop.outputs)
        ]

    def no_rounds(
        self, step: Call, callee: Graph, sizes: Sizes, carried: list[Tensor]
    ) -> list[Tensor]:
        """Results of a loop over nothing: empty stacks, and the states as they began."""
        loop = step.loop
        assert loop is not None
        results: list[Tensor] = []
        for n, (value, axis) in enumerate(zip(callee.outputs, loop.outputs, strict=True)):
            if axis is None:
                results.append(carried[n - len(loop.outputs)])
                continue
            type_ = callee.types[value]
            shape = [dim.evaluate(sizes) for dim in type_.shape]
            shape.insert(len(shape) + 1 + axis, 0)
            dtype = torch.float64 if type_.is_float else torch.int64
            results.append(torch.zeros(shape, dtype=dtype))
        return results


def _apply(step: Apply, graph: Graph, sizes: Sizes, operands: list[Tensor]) -> list[Tensor]:
    if step.op.name in WHOLE:
        return [WHOLE[step.op.name](*operands)]
    body = step.body(graph.types)
    names = (str(each.attr("name")) for each in body.operands)
    given = dict(zip(names, operands, strict=True))
    values: dict[int, Tensor] = {}
    for expr in topological(body.outputs):
        if expr.prim == "operand":
            values[id(expr)] = given[str(expr.attr("name"))]
        else:
            args = [values[id(arg)] for arg in expr.args]
            values[id(expr)] = MEANING[expr.prim](expr, sizes, *args)
    return [values[id(output)] for output in body.outputs]


def _size(dim: object, sizes: Sizes) -> int:
    assert isinstance(dim, Dim)
    return dim.evaluate(sizes)


def _shape(expr: Expr, sizes: Sizes) -> tuple[int, ...]:
    return tuple(dim.evaluate(sizes) for dim in expr.shape)


def _float(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.to(torch.float64)


def _const(expr: Expr, sizes: Sizes) -> Tensor:
    value = expr.attr("value")
    assert isinstance(value, Scalar)
    number = value.evaluate(sizes)
    whole = expr.kind == "int"
    return torch.tensor(number, dtype=torch.int64 if whole else torch.float64)


def _iota(expr: Expr, sizes: Sizes) -> Tensor:
    start = _size(expr.attr("start"), sizes)
    return torch.arange(start, start + _size(expr.attr("length"), sizes))


def _pow(expr: Expr, sizes: Sizes, x: Tensor) -> Tensor:
    exponent = expr.attr("exponent")
    assert isinstance(exponent, Scalar)
    return _float(x) ** exponent.evaluate(sizes)


def _where(expr: Expr, sizes: Sizes, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    if expr.kind == "float":
        a, b = _float(a), _float(b)
    return torch.where(c.bool(), a, b)


def _reduce(expr: Expr, sizes: Sizes, x: Tensor) -> Tensor:
    axes, keep = expr.axes(), expr.typed_attr("keep", bool)
    if expr.prim == "sum":
        wide = x if x.is_floating_point() else x.to(torch.int64)
        return wide.sum(axes, keepdim=keep) if axes else wide
    x = _float(x)
    return x.mean(axes, keepdim=keep) if expr.prim == "mean" else x.amax(axes, keepdim=keep)


def _contract(expr: Expr, sizes: Sizes, a: Tensor, b: Tensor) -> Tensor:
    return torch.einsum(str(expr.attr("spec")), _float(a), _float(b))


def _cumsum(expr: Expr, sizes: Sizes, x: Tensor) -> Tensor:
    axis = expr.typed_attr("axis", int)
    if expr.attr("backwards"):
        return x.flip(axis).cumsum(axis).flip(axis)
    return x.cumsum(axis)


def _cut(expr: Expr, sizes: Sizes, x: Tensor) -> Tensor:
    axis = expr.typed_attr("axis", int)
    start = _size(expr.attr("start"), sizes)
    return x.narrow(axis, start, _size(expr.shape[axis], sizes))


def _pad(expr: Expr, sizes: Sizes, x: Tensor) -> Tensor:
    axis, start = expr.typed_attr("axis", int), _size(expr.attr("start"), sizes)
    shape = _shape(expr, sizes)
    before, after = list(x.shape), list(x.shape)
    before[axis], after[axis] = start, shape[axis] - start - x.shape[axis]
    zeros = (torch.zeros(each, dtype=x.dtype) for each in (before, after))
    first, last = zeros
    return torch.cat((first, x, last), axis)


def _window(expr: Expr, sizes: Sizes, x: Tensor) -> Tensor:
    axis = expr.typed_attr("axis", int)
    length, count, width, stride, dilation, before = _window_sizes(expr, sizes)
    flat = x.movedim(axis, 0)
    zero = torch.zeros((1, *flat.shape[1:]), dtype=x.dtype)
    flat = torch.cat((flat, zero))
    rows: list[Tensor] = []
    for j in range(count):
        places = [j * stride + i * dilation - before for i in range(width)]
        rows.append(torch.stack([flat[p if 0 <= p < length else length] for p in places]))
    stacked = torch.stack(rows) if rows else torch.zeros((0, width, *flat.shape[1:])).to(x.dtype)
    return stacked.movedim((0, 1), (axis - 1, axis))


def _overlap(expr: Expr, sizes: Sizes, x: Tensor) -> Tensor:
    axis = expr.typed_attr("axis", int)
    length, count, width, stride, dilation, before = _window_sizes(expr, sizes)
    parts = x.movedim((axis - 1, axis), (0, 1))
    rows = [torch.zeros(parts.shape[2:], dtype=x.dtype) for _ in range(length)]
    for j in range(count):
        for i in range(width):
            position = j * stride + i * dilation - before
            if 0 <= position < length:
                rows[position] = rows[position] + parts[j, i]
    summed = torch.stack(rows) if rows else torch.zeros((0, *parts.shape[2:]), dtype=x.dtype)
    return summed.movedim(0, axis)


def _window_sizes(expr: Expr, sizes: Sizes) -> list[int]:
    names = ("length", "count", "width", "stride", "dilation", "before")
    return [_size(expr.attr(name), sizes) for name in names]


def _gather(expr: Expr, sizes: Sizes, table: Tensor, ids: Tensor) -> Tensor:
    return table[_index(ids, batch_of(expr))]


def _index(ids: Tensor, batch: int) -> tuple[Tensor, ...]:
    grids = [
        torch.arange(n).reshape([-1 if at == place else 1 for at in range(ids.ndim)])
        for place, n in enumerate(ids.shape[:batch])
    ]
    return (*grids, ids.to(torch.int64))


def _scatter_add(expr: Expr, sizes: Sizes, updates: Tensor, ids: Tensor) -> Tensor:
    zeros = torch.zeros(_shape(expr, sizes), dtype=updates.dtype)
    return zeros.index_put(_index(ids, batch_of(expr)), updates, accumulate=True)


def _pick(expr: Expr, sizes: Sizes, x: Tensor, ids: Tensor) -> Tensor:
    return x.gather(-1, ids.to(torch.int64)[..., None])[..., 0]


def _place(expr: Expr, sizes: Sizes, values: Tensor, ids: Tensor) -> Tensor:
    zeros = torch.zeros(_shape(expr, sizes), dtype=values.dtype)
    return zeros.scatter(-1, ids.to(torch.int64)[..., None], values[..., None])


def _top(expr: Expr, sizes: Sizes, x: Tensor) -> Tensor:
    order = torch.sort(x.detach(), dim=-1, descending=True, stable=True).indices
    return order[..., : _shape(expr, sizes)[-1]]


def _earlier(expr: Expr, sizes: Sizes, ids: Tensor) -> Tensor:
    same = ids[..., :, None] == ids[..., None, :]
    return torch.tril(same, -1).sum(-1)


def _binary(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def meaning(expr: Expr, sizes: Sizes, a: Tensor, b: Tensor) -> Tensor:
        if expr.kind == "float":
            return function(_float(a), _float(b))
        if a.is_floating_point() != b.is_floating_point():
            return function(_float(a), _float(b))
        wide = [x if x.is_floating_point() else x.to(torch.int64) for x in (a, b)]
        return function(*wide)

    return meaning


def _logic(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda expr, sizes, a, b: function(a.bool(), b.bool())


def _unary(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda expr, sizes, x: function(x)


def _floating(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda expr, sizes, x: function(_float(x))


# Operators whose slope at a kink is their own and not that of their body.
WHOLE: Mapping[str, Callable[..., Tensor]] = {"relu": torch.relu}

MEANING: Mapping[str, Callable[..., Tensor]] = {
    "const": _const,
    "iota": _iota,
    "neg": _unary(lambda x: -(x if x.is_floating_point() else x.to(torch.int64))),
    **{name: _floating(getattr(torch, name)) for name in FUNCTIONS},
    "sign": _floating(lambda x: torch.where(x.isnan(), x, torch.sign(x))),
    "stop": _unary(lambda x: x.detach()),
    "add": _binary(torch.add),
    "sub": _binary(torch.sub),
    "mul": _binary(torch.mul),
    "div": _binary(torch.div),
    "pow": _pow,
    "maximum": _binary(torch.maximum),
    "minimum": _binary(torch.minimum),
    "gt": _binary(torch.gt),
    "ge": _binary(torch.ge),
    "eq": _binary(torch.eq),
    "and": _logic(torch.logical_and),
    "or": _logic(torch.logical_or),
    "where": _where,
    "as_float": _unary(_float),
    "sum": _reduce,
    "mean": _reduce,
    "max": _reduce,
    "cumsum": _cumsum,
    "contract": _contract,
    "reshape": lambda expr, sizes, x: x.reshape(_shape(expr, sizes)),
    "transpose": lambda expr, sizes, x: x.permute(*(axis % x.ndim for axis in expr.axes("order"))),
    "broadcast": lambda expr, sizes, x: x.expand(_shape(expr, sizes)),
    "concat": lambda expr, sizes, *parts: torch.cat(parts, expr.typed_attr("axis", int)),
    "cut": _cut,
    "pad": _pad,
    "window": _window,
    "overlap": _overlap,
    "gather": _gather,
    "scatter_add": _scatter_add,
    "pick": _pick,
    "place": _place,
    "top": _top,
    "earlier": _earlier,
    "dropout_keep": lambda expr, sizes, x: torch.ones_like(x, dtype=torch.bool),
    "dropout_apply": lambda expr, sizes, x, keep: x,
    "draw": lambda expr, sizes, mean: mean,
}
