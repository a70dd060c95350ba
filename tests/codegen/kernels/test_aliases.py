"""Modules write into no array that somebody else holds: arguments, results, earlier caches.

A result may be an argument or a view of one, as in torch. So neither a later call nor an optimizer
may write where a module only reads: each form of code runs on arrays that are then compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

import numpy as np
import pytest
import torch
from backends import as_arrays_of, forms_of_code, writing
from numpy.typing import NDArray

import xg
import xg_runtime.ranks as ranks
from xg.codegen.backend import backends
from xg_runtime.optim import SGD, Adam, AdamW, Optimizer

Arrays = dict[str, NDArray[Any]]
jax: Any = import_module("jax")  # its types are partly unknown
TRANSFORMER: Final = Path(__file__).parents[3] / "diagrams" / "models" / "transformer.xg"
# Results that are the argument or a view of it, next to sums that kernels write in place, whose
# operands are such views in both passes.
VIEWS: Final = """dim B, S = 6, D = 4

block Main(X [B, S, D], V [B, S, D], P [B, S*D]) -> A [B, S, D], R [B, S*D], T [B, D, S],
        C [B, 2, D], U [B, 6, S, D], Y [B, S, D], Q [B, S*D], N [B, S, D], Z [B, S, D] {
    param w [D], b [D]

    X -> stop : A
    X -> R : R -> ⊕<-P : Q
    X -> T : T
    X -> slice[S](1, 3) : C
    X -> BC[b, s, d -> b, n=6, s, d] : U
    X -> ⊕<-V -> ⊕<-BC(b) : Y
    X -> DO(0.5) -> LN(w, b) -> GELU : N
    V -> window[S](k=2, stride=2) -> R : [B, S, D] -> ⊕<-X -> GELU : Z
}

mesh N_D = 2

plan DP of Main {
    X, V [B/N_D, S, D]
    P [B/N_D, S*D]
}
"""


def compile_text(text: str, folder: Path, **options: Any) -> xg.Program:  # noqa: ANN401
    file = folder / "aliases.xg"
    file.write_text(text, encoding="utf-8")
    return xg.compile(file, **options)


def maker(backend: str) -> Callable[[Any], Any]:
    """The function that makes an array of a backend of one of NumPy."""
    return jax.numpy.asarray if backend == "jax" else as_arrays_of(backend)


def drawn(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> Arrays:
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(shape) for name, shape in shapes.items()}


def arguments() -> tuple[Arrays, Arrays]:
    """Parameters and inputs of VIEWS."""
    inputs = drawn({"X": (4, 6, 4), "V": (4, 6, 4), "P": (4, 24)})
    return {"w": np.linspace(0.5, 2, 4), "b": np.linspace(-1, 1, 4)}, inputs


class Held:
    """Arrays as somebody else holds them: they can be compared with what they were."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Any, NDArray[Any]]] = []

    def hold(self, arrays: Mapping[str, Any]) -> None:
        """Remember what is in arrays."""
        self.all += [(name, array, whole(array).copy()) for name, array in arrays.items()]

    def check(self) -> None:
        """Compare all with what they were."""
        for name, array, before in self.all:
            assert np.array_equal(whole(array), before), f"{name} was overwritten"


def whole(array: Any) -> NDArray[Any]:  # noqa: ANN401
    return np.asarray(array.tolist(), dtype=str(array.dtype).removeprefix("torch."))


def both_passes(module: ModuleType, *groups: Arrays, own: Callable[[Any], Any]) -> Arrays:
    """Results and gradients of two runs, which have to be the same and to leave all as it was."""
    held, runs = Held(), list[Arrays]()
    given = [{name: own(array.copy()) for name, array in group.items()} for group in groups]
    for group in given:
        held.hold(group)
    params, inputs = given
    for _ in range(2):
        outputs, saved = module.forward(params, inputs, seed=3)
        cotangents = {f"{n}": own(np.cos(whole(array))) for n, array in outputs.items()}
        held.hold(outputs)
        held.hold(cotangents)
        gradients = module.backward(params, saved, cotangents)
        held.hold(gradients)
        found = {**outputs, **{f"d{n}": array for n, array in gradients.items()}}
        runs.append({name: whole(array) for name, array in found.items()})
    held.check()
    for name, array in runs[0].items():
        assert np.array_equal(runs[1][name], array), name
    return runs[0]


def same(found: Arrays, right: Arrays) -> None:
    assert sorted(found) == sorted(right)
    for name, array in right.items():
        np.testing.assert_allclose(found[name], array, 1e-10, 1e-10, err_msg=name)


@pytest.mark.parametrize("backend", backends())
def test_passes_leave_arguments_and_results(backend: str, tmp_path: Path) -> None:
    program = compile_text(VIEWS, tmp_path)
    right = both_passes(program.load(), *arguments(), own=np.asarray)
    for kernels in forms_of_code(backend):
        module = program.load(backend, kernels=kernels)
        with jax.enable_x64(True):
            same(both_passes(module, *arguments(), own=maker(backend)), right)


@pytest.mark.parametrize("backend", writing("ranks"))
def test_ranks_leave_arguments_and_results(backend: str, tmp_path: Path) -> None:
    right = both_passes(compile_text(VIEWS, tmp_path).load(), *arguments(), own=np.asarray)
    program = compile_text(VIEWS, tmp_path, plan="DP", mesh={"N_D": 2})
    for kernels in forms_of_code(backend):
        module = program.load(backend, kernels=kernels)

        def rank(module: ModuleType = module) -> Arrays:
            mine = [ranks.local_shards(group, module.cuts()) for group in arguments()]
            return both_passes(module, *mine, own=maker(backend))

        first, second = ranks.simulate({"N_D": 2}, rank)
        together = {n: np.concatenate([first[n], second[n]]) for n in first}
        same({**together, **{n: first[n] for n in ("dw", "db")}}, right)
        for name in ("dw", "db"):
            assert np.array_equal(first[name], second[name])


# ---- steps --------------------------------------------------------------------------------------

STATES: Final = """dim B, S, D = 4

block Cell(x [B, D]) -> y [B, D], z [B, D] {
    state h [B, D]

    h -> stop -> ⊕<-x -> ⊕<-h -> tanh : y
    h -> stop : z
    next h = y
}

block Main(X [B, S, D]) -> Y [B, S, D], Z [B, S, D], W [B, S, D] {
    X -> Cell over S as c : Y, Z
    X -> BC[b, s, d -> b, s, n=3, d] : V [B, S, 3, D]
    X -> window[S](causal, k=3) : U [B, S, 3, D] -> ⊕<-V -> sum[-2] -> ⊕<-X : W
}
"""
DECODERS: Final = {
    "transformer": {"D": 12, "N_H": 3, "N_L": 1, "V": 11, "S_max": 8},
    "states": {},
}


@pytest.mark.parametrize("backend", writing("step"))
@pytest.mark.parametrize("name", DECODERS)
def test_steps_leave_earlier_caches(name: str, backend: str, tmp_path: Path) -> None:
    """Two continuations from one cache, each as if it were the only one."""
    is_text = name == "transformer"
    if is_text:
        program = xg.compile(TRANSFORMER, sizes=DECODERS[name])
        texts = np.random.default_rng(0).integers(0, 11, (2, 2, 5))
    else:
        program = compile_text(STATES, tmp_path)
        texts = np.random.default_rng(0).standard_normal((2, 2, 5, 4))
    texts[1][:, :2] = texts[0][:, :2]
    entry = "ids" if is_text else "X"
    params = program.on_arrays().init(0, np.float64)
    right = [_steps(program.step_on_arrays(), params, text, entry) for text in texts]
    for kernels in forms_of_code(backend):
        module = program.step_on_arrays(backend, kernels=kernels)
        held, found = Held(), list[Arrays]()
        held.hold(params)
        cache = module.empty_cache(params, B=2)
        start, shared = _step(module, params, cache, {entry: texts[0][:, :2]}, held)
        for text in texts:
            middle, after = _step(module, params, shared, {entry: text[:, 2:3]}, held)
            last, _ = _step(module, params, after, {entry: text[:, 3:]}, held)
            found.append({n: np.concatenate([start[n], middle[n], last[n]], 1) for n in start})
        held.check()
        for one, other in zip(found, right, strict=True):
            same(one, other)


def _step(
    module: Any,  # noqa: ANN401
    params: Arrays,
    cache: Any,  # noqa: ANN401
    inputs: Arrays,
    held: Held,
) -> tuple[Arrays, Any]:
    """A step whose arguments and results are held."""
    held.hold(inputs)
    held.hold(cache)
    outputs, after = module.step(params, cache, inputs)
    held.hold(outputs)
    held.hold(after)
    return {name: whole(array) for name, array in outputs.items()}, after


def _steps(
    module: Any,  # noqa: ANN401
    params: Arrays,
    text: NDArray[Any],
    entry: str,
) -> Arrays:
    """All positions, one after the other."""
    cache, every = module.empty_cache(params, B=2), list[Arrays]()
    for at in range(text.shape[1]):
        outputs, cache = module.step(params, cache, {entry: text[:, at : at + 1]})
        every.append({name: np.array(array) for name, array in outputs.items()})
    return {n: np.concatenate([each[n] for each in every], 1) for n in every[0]}


# ---- arrays that the caller gives away or shares ------------------------------------------------


def test_jax_may_reuse_the_buffers_of_arguments(tmp_path: Path) -> None:
    """A donated argument that is also a result: XLA copies where it has to."""
    program = compile_text(VIEWS, tmp_path)
    module, (params, inputs) = program.load("jax"), arguments()
    expected = both_passes(program.load(), params, inputs, own=np.asarray)
    with jax.enable_x64(True), warnings.catch_warnings():
        own = jax.numpy.asarray
        cotangents = {n: np.cos(array) for n, array in expected.items() if n[0] != "d"}
        jitted = jax.jit(module.forward, donate_argnums=1)
        backward = jax.jit(module.backward, donate_argnums=(1, 2))
        warnings.filterwarnings("ignore", "Some donated buffers were not usable")
        held = {name: own(array) for name, array in params.items()}
        for _ in range(2):
            arrays = {name: own(array) for name, array in inputs.items()}
            outputs, saved = jitted(held, arrays, seed=3)
            kept = {name: np.array(array) for name, array in outputs.items()}
            given = {name: own(array) for name, array in cotangents.items()}
            copied = jax.tree.map(jax.numpy.copy, saved)
            gradients = backward(held, copied, given)
            found = {**kept, **{f"d{n}": np.array(array) for n, array in gradients.items()}}
            same(found, expected)


TIED: Final = """dim B, S, V = 7, D = 4

block Net(ids [B, S] in V, t [B, S] in V) -> loss [], W [D, V], E2 [V, D] {
    param E [V, D]

    ids -> Emb(E) -> GELU -> •<=T(E) -> CE<-t : loss
    E -> T : W
    E -> stop : E2
}
"""
RULES: Final = {
    "sgd": SGD(0.9),
    "adam": Adam(),
    "adamw": AdamW(weight_decay=0.1),
}


@pytest.mark.parametrize("rule", RULES)
def test_an_optimizer_moves_a_slice_of_a_larger_array(rule: str, tmp_path: Path) -> None:
    """Parameters are views of one array, as those of a file; the tied one is read in two forms."""
    program = compile_text(TIED, tmp_path)
    ids = np.random.default_rng(0).integers(0, 7, (2, 2, 3))
    inputs = {"ids": ids[0], "t": ids[1]}
    losses: list[list[float]] = []
    start = program.on_arrays().init(0, np.float64)["E"]
    for backend in backends():
        for kernels in forms_of_code(backend):
            every = np.full((9, 4), 7.0)
            every[1:8] = start
            losses.append(_train(program.on_arrays(backend, kernels=kernels), every, inputs, rule))
            assert (every[0] == 7).all()
            assert (every[8] == 7).all()
    for other in losses[1:]:
        np.testing.assert_allclose(other, losses[0], 1e-5)
    assert losses[0][-1] < losses[0][0]


def _train(module: Any, every: NDArray[Any], inputs: Arrays, rule: str) -> list[float]:  # noqa: ANN401
    """Losses of four steps, whose results and gradients stay as they are."""
    optimizer: Optimizer = cast(Optimizer, RULES[rule])
    params = {"E": every[1:8]}
    slots, losses = optimizer.slots(params), list[float]()
    for step in range(4):
        outputs, saved = module.forward(params, inputs)
        losses.append(float(outputs["loss"]))
        gradients = module.backward(params, saved, {"loss": np.ones_like(outputs["loss"])})
        held = Held()
        held.hold(gradients)
        held.hold(inputs)
        optimizer.update(params, gradients, slots, 0.05, step)
        held.check()
    return losses


@pytest.mark.parametrize("kernels", [False, True])
def test_autograd_refuses_what_was_written_since(kernels: bool, tmp_path: Path) -> None:
    """Of a model of torch, parameters, inputs and results that the backward pass reads."""
    text = """dim B, D = 4

block Main(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> tanh : Y
}
"""
    model = compile_text(text, tmp_path).load("torch", kernels=kernels).Model().double()
    for written in ("weight", "input", "result"):
        x = torch.ones(2, 4, dtype=torch.float64)
        y: torch.Tensor = model(x)["Y"]
        with torch.no_grad():
            {"weight": next(model.parameters()), "input": x, "result": y}[written].add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.backward(y.sum())
