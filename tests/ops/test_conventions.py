"""Operators give at edges what their records state, in every form and beside torch."""

# JAX and torch say too little of their own types:
# pyright: reportUnknownMemberType=false, reportUnnecessaryComparison=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import pytest
from backends import forms_of_code
from ops.sample import Sample
from ops.samples import SAMPLES
from ops.trial import Trial
from tier import THOROUGH

import xg
from xg import ops
from xg.driver import BACKENDS
from xg.ir.body import topological
from xg.ir.conventions import Convention, Edge, name_of
from xg.ir.functions import CONVENTIONS
from xg.ir.op import Op
from xg.ir.prim import Expr
from xg.passes.resolve.define.signature import NAMES
from xg.verify.reference.interpret import Interpreter

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Found = tuple[Array, Arrays]

OPERATORS: Final = {
    glyph: op for glyph, op in ops.table().items() if op.family not in ("collective", "source")
}
RECORDS: Final = {**{glyph: op.conventions for glyph, op in OPERATORS.items()}, **CONVENTIONS}
CASES: Final = [
    pytest.param(each, id=f"{name}-{place}")
    for name, conventions in RECORDS.items()
    for place, each in enumerate(conventions)
]
CLOSE: Final = {"float64": 1e-9, "float16": 2e-3, "bfloat16": 1e-2}
# In the formulas of a file these have signs, or give what the numbers of their arguments are.
SIGNS: Final = {"power", "division", "product", "comparison"}
SMOOTH: Final = {"stop", "float", "and", "or"}


def arrays_of(labels: Mapping[str, Any]) -> Arrays:
    """Arrays by their names; those with a range are integers."""
    return {name_of(label): _array(label, numbers) for label, numbers in labels.items()}


def _array(label: str, numbers: Any) -> Array:  # noqa: ANN401
    """An array of the rank of a label: no numbers are no rows, of 4 positions for each letter."""
    array = np.array(numbers, np.int64 if " in " in label else np.float64)
    axes = re.findall(r"[^][, ]+", label[label.index("[") : label.index("]")])
    if array.ndim == len(axes):
        return array
    return array.reshape([0, *(int(axis) if axis.isdigit() else 4 for axis in axes[1:])])


def forms(convention: Convention) -> Iterator[tuple[str, Callable[[], Found]]]:
    """Every form of code that computes in the type of the convention."""
    program = xg.compile(source=convention.text)
    params, inputs = arrays_of(convention.params), arrays_of(convention.inputs)
    if convention.dtype == "float64":
        yield "interpreter", lambda: _interpret(program, params, inputs, convention)
    for backend in BACKENDS:
        if backend == "jax":
            yield from _forms_of_jax(convention)
        elif (backend, convention.dtype) != ("numpy", "bfloat16"):
            for kernels in forms_of_code(backend):
                module: Any = program.on_arrays(backend, convention.dtype, kernels=kernels)
                form = f"{backend}{' --kernels' if kernels else ''}"
                yield form, lambda module=module: _both(module, params, inputs, convention)


def _forms_of_jax(convention: Convention) -> Iterator[tuple[str, Callable[[], Found]]]:
    """Compiled, and step by step, which only differs in that numbers can be refused."""
    refused_as_shapes = bool(convention.refused) and "jax jit" not in convention.others
    if refused_as_shapes:
        yield "jax jit", lambda: _in_jax([convention], compiled=True)[0]
    else:
        yield "jax jit", lambda: _compiled()[id(convention)]
    if THOROUGH or convention.refused:
        yield "jax", lambda: _in_jax([convention], compiled=False)[0]


def _interpret(program: xg.Program, params: Arrays, inputs: Arrays, of: Convention) -> Found:
    interpreter = Interpreter(program.graphs, params)
    outputs, record = interpreter.forward(inputs)
    ((name, y),) = outputs.items()
    return y, interpreter.backward(record, {name: cotangent(of, y.shape)})


def _both(module: Any, params: Arrays, inputs: Arrays, of: Convention) -> Found:  # noqa: ANN401
    outputs, saved = module.forward(params, inputs)
    ((name, y),) = outputs.items()
    return np.array(y), module.backward(params, saved, {name: cotangent(of, y.shape)})


@cache
def _compiled() -> dict[int, Found]:
    """Compute in JAX every convention whose shapes it takes, in one compiled function."""
    taken = [
        each
        for conventions in RECORDS.values()
        for each in conventions
        if not each.refused or "jax jit" in each.others
    ]
    found = _in_jax(taken, compiled=True)
    return {id(of): each for of, each in zip(taken, found, strict=True)}


def _in_jax(conventions: Sequence[Convention], *, compiled: bool) -> list[Found]:
    import jax
    import jax.numpy as jnp

    modules = [xg.compile(source=each.text).load("jax") for each in conventions]

    def typed(arrays: Arrays, of: Convention) -> dict[str, jax.Array]:
        return {
            name: jnp.asarray(x, of.dtype if x.dtype.kind == "f" else None)
            for name, x in arrays.items()
        }

    def run(arrays: Any) -> Any:  # noqa: ANN401
        results: list[Any] = []
        for of, module, given in zip(conventions, modules, arrays, strict=True):
            outputs, saved = module.forward(*given)
            ((name, y),) = outputs.items()
            d = typed({name: cotangent(of, y.shape)}, of)
            results.append((y, module.backward(given[0], saved, d)))
        return results

    with jax.enable_x64(True):
        given = [
            [typed(arrays_of(each), of) for each in (of.params, of.inputs)] for of in conventions
        ]
        results: list[tuple[Any, dict[str, Any]]] = (jax.jit(run) if compiled else run)(given)
        return [
            (np.asarray(y, np.float64), {n: np.asarray(d, np.float64) for n, d in slopes.items()})
            for y, slopes in results
        ]


def cotangent(convention: Convention, shape: tuple[int, ...]) -> Array:
    """The stated cotangent of the result; ones if there is none."""
    stated = 1.0 if convention.cotangent is None else convention.cotangent
    return np.broadcast_to(np.asarray(stated, np.float64), shape).copy()


def beside(convention: Convention) -> Found:
    """Value and gradient of the expression of torch."""
    import torch

    kind = getattr(torch, convention.dtype)
    arrays = {**arrays_of(convention.inputs), **arrays_of(convention.params)}
    given = {
        name: torch.tensor(x).to(kind) if x.dtype.kind == "f" else torch.tensor(x)
        for name, x in arrays.items()
    }
    floats = {name: x.requires_grad_() for name, x in given.items() if x.is_floating_point()}
    names = {"torch": torch, "F": torch.nn.functional, "math": math}
    y = eval(convention.torch, names, given)  # the text of a record
    slopes = torch.autograd.grad(
        y,
        list(floats.values()),
        torch.tensor(cotangent(convention, tuple(y.shape))).to(y.dtype),
        allow_unused=True,
    )
    gradients = {
        name: np.zeros(x.shape) if slope is None else slope.double().numpy()
        for (name, x), slope in zip(floats.items(), slopes, strict=True)
    }
    return y.detach().double().numpy(), gradients


def mismatch(found: Found, value: Any, gradient: Mapping[str, Any], close: float) -> str:  # noqa: ANN401
    """Where a value or a gradient is another than the one stated; "" where nothing is."""
    y, slopes = found
    with np.errstate(all="ignore"):
        if not _same(y, value, close):
            return f"the value is {y}, not {value}"
        for name, expected in gradient.items():
            if not _same(slopes[name], expected, close):
                return f"the gradient of {name} is {slopes[name]}, not {expected}"
    return ""


def _same(found: Array, expected: Any, close: float) -> bool:  # noqa: ANN401
    have, want = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if have.shape != want.shape:
        return have.size + want.size == 0
    return bool(np.allclose(have, want, close, close, equal_nan=True))


@pytest.mark.parametrize("convention", CASES)
def test_every_form_does_as_stated(convention: Convention) -> None:
    close = CLOSE[convention.dtype]
    for form, run in forms(convention):
        value = convention.others.get(form, convention.value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, of the mean of nothing
            empty = convention.edge == "empty axis"
            if convention.refused and form == "interpreter" and not empty:
                continue  # modules check the indices that arrive
            if convention.refused and form not in convention.others:
                with pytest.raises((ValueError, IndexError), match=convention.refused):
                    run()
                continue
            found = run()
        stated: Mapping[str, Any] = {} if form in convention.others else convention.gradient
        assert not (wrong := mismatch(found, value, stated, close)), f"{form}: {wrong}"


@pytest.mark.parametrize("convention", CASES)
def test_torch_differs_where_that_is_stated(convention: Convention) -> None:
    if not convention.torch:
        return
    if convention.refused and not convention.differs:
        with pytest.raises((RuntimeError, IndexError)):
            beside(convention)
        return
    close = CLOSE[convention.dtype]
    try:
        wrong = mismatch(beside(convention), convention.value, convention.gradient, close)
    except (RuntimeError, ValueError) as refusal:
        wrong = str(refusal)
    assert bool(wrong) == bool(convention.differs), wrong


def test_every_function_of_formulas_has_conventions() -> None:
    assert {*CONVENTIONS} == {*NAMES, *SIGNS} - SMOOTH


# The body of `grad` is composed of those of other operators, whose conventions hold.
STATED = [op for op in OPERATORS.values() if op.glyph != "grad"]


@pytest.mark.parametrize("op", STATED, ids=[op.glyph for op in STATED])
def test_every_edge_of_an_operator_has_a_convention(op: Op) -> None:
    stated = {convention.edge for convention in op.conventions}
    for sample in SAMPLES[op.glyph]:
        for edges in _edges(op, sample):
            assert edges & stated, f"{op.glyph} says nothing of {' or '.join(sorted(edges))}"


def _edges(op: Op, sample: Sample) -> Iterator[set[Edge]]:
    """The edges that the body of a use and its derivatives have, as sets of which one is stated."""
    varying: set[int] = set()  # what depends on floats, and integers that a user gives
    for expr in topological(Trial.make(op, sample).body.outputs):
        if expr.prim == "operand" or any(id(arg) in varying for arg in expr.args):
            varying.add(id(expr))
            yield from _edges_of(expr, varying)


def _edges_of(expr: Expr, varying: set[int]) -> Iterator[set[Edge]]:
    match expr.prim:
        case "where":
            if id(expr.args[0]) in varying and _depends_on_floats(expr.args[0]):
                yield {"tie", "kink"}
        case "maximum" | "minimum" | "max" | "top":
            yield {"tie", "kink"}
        case "log" | "log1p" | "sqrt":
            yield {"zero", "infinity"}
        case "div" if _depends_on_floats(expr.args[1]):
            yield {"zero", "infinity", "axis of length 1"}
        case "sum" | "mean" | "cumsum" | "contract" if expr.kind == "float" and _depends_on_floats(
            expr
        ):
            yield {"empty axis"}
            yield {"half type"}
        case "overlap" if _depends_on_floats(expr):
            yield {"half type"}
        case "gather" | "pick" | "scatter_add" | "place" if not _depends_on_floats(expr.args[1]):
            yield {"index outside"}
        case _:
            pass


def _depends_on_floats(expr: Expr) -> bool:
    return any(e.prim == "operand" and e.kind == "float" for e in topological([expr]))
