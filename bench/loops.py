"""Loops by kernels: a linear recurrence, and a GRU, against torch in eager mode."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

import xg
from bench.experts import Step, on_numpy, on_torch
from bench.pairs import Ratio, compare

SSM: Final = Path(__file__).with_name("ssm.xg")
GRU: Final = Path(__file__).parents[1] / "diagrams" / "examples" / "gru.xg"
FORMS: Final = (("", 3.0), (", kernels", 1.2))


def measure(pairs: int) -> Iterator[Ratio]:
    """Outputs and gradients of both, in seconds of the CPU; a text of half the length, too."""
    steps = recurrences({"D": 128, "N": 16}, 2, 2048)
    ways = {name: _seconds(steps[name]) for name in ("states", "pieces", "doubling")}
    best = min(ways, key=lambda name: ways[name])
    half = recurrences({"D": 128, "N": 16}, 2, 1024)
    for name in ("xg torch, kernels", "xg NumPy, kernels"):
        for against, other, target in (
            (best, steps[best], 1.0),
            ("half the text", half[name], None),
        ):
            what = f"recurrence: {name}"
            yield compare(what, steps[name], against, other, pairs, target, cpu=True)
    steps = grus({"D": 256, "D_h": 256}, 8, 1024)
    for form, target in FORMS:
        for backend in ("torch", "NumPy"):
            name = f"xg {backend}{form}"
            other = steps["torch.nn.GRU"]
            yield compare(
                f"GRU: {name}", steps[name], "torch.nn.GRU", other, pairs, target, cpu=True
            )


def _seconds(step: Step) -> float:
    return compare("", step, "", step, 1, None, cpu=True).seconds


def recurrences(sizes: Mapping[str, int], batch: int, length: int) -> dict[str, Step]:
    """All that compute a selective state space model, by their names."""
    program = xg.compile(SSM, sizes=sizes)
    steps, start = _generated(program, "Y", batch, length, sizes["D"], kernels=(True,))
    rows, slopes = _drawn((batch, length, sizes["D"])), _drawn((batch, length, sizes["D"]), 1)
    for way in (states, pieces, doubling):
        steps[way.__name__] = on_torch(_by_hand(way, start), rows, slopes)
    return steps


def grus(sizes: Mapping[str, int], batch: int, length: int) -> dict[str, Step]:
    """All that compute a GRU, by their names."""
    import torch

    program = xg.compile(GRU, sizes=sizes)
    steps, start = _generated(program, "H", batch, length, sizes["D"], kernels=(False, True))
    gru: Any = torch.nn.GRU(sizes["D"], sizes["D_h"], batch_first=True)
    with torch.no_grad():
        for place, gate in enumerate("rzn"):
            part = slice(place * sizes["D_h"], (place + 1) * sizes["D_h"])
            gru.weight_ih_l0[part] = start[f"cell.W_{gate}"].T
            gru.weight_hh_l0[part] = start[f"cell.U_{gate}"].T
        gru.bias_ih_l0.zero_()
        gru.bias_hh_l0.zero_()
    rows, slopes = _drawn((batch, length, sizes["D"])), _drawn((batch, length, sizes["D_h"]), 1)

    def of_gru(x: Any) -> dict[str, Any]:  # noqa: ANN401 - a tensor
        return {"Y": gru(x)[0]}

    steps["torch.nn.GRU"] = on_torch(of_gru, rows, slopes, gru.parameters)
    return steps


def _drawn(shape: tuple[int, ...], seed: int = 0) -> Any:  # noqa: ANN401 - an array
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _generated(
    program: xg.Program, output: str, batch: int, length: int, width: int, kernels: tuple[bool, ...]
) -> tuple[dict[str, Step], Any]:
    """Both backends with and without kernels, and the parameters that all begin with."""
    start: Any = program.load("torch").init(0)
    arrays = {name: tensor.numpy() for name, tensor in start.items()}
    rows = _drawn((batch, length, width))
    slopes = _drawn((batch, length, width), 1)
    steps: dict[str, Step] = {}
    for by_hand in kernels:
        name = ", kernels" if by_hand else ""
        model = program.load("torch", kernels=by_hand).Model()
        model.load_state_dict(start)

        def of_output(x: Any, model: Any = model) -> dict[str, Any]:  # noqa: ANN401 - tensors
            return {"Y": model(x)[output]}

        steps[f"xg torch{name}"] = on_torch(of_output, rows, slopes, model.parameters)
        module = program.load("numpy", kernels=by_hand)
        steps[f"xg NumPy{name}"] = on_numpy(module, arrays, rows, slopes, output)
    return steps, start


# ---- by hand ------------------------------------------------------------------------------------

Way = Callable[[Any, Any], Any]  # the states of a recurrence, along the second axis


def _by_hand(way: Way, start: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a module
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, tensor in start.items():
                parameter = torch.nn.Parameter(tensor.clone())
                self.register_parameter(name.removeprefix("cell."), parameter)

        def forward(self, x: Any) -> Any:  # noqa: ANN401 - a tensor
            t = torch.nn.functional.softplus(x @ self.W_t)
            own: Any = self
            a = torch.exp(-t[..., None] * torch.exp(own.A))
            b = (t * x)[..., None] * (x @ self.W_b)[:, :, None]
            h = way(a, b)
            return (h @ (x @ self.W_c)[..., None])[..., 0] + x * self.d

    return Model()


def states(a: Any, b: Any) -> Any:  # noqa: ANN401 - tensors
    """One state after the other."""
    import torch

    h, rows = torch.zeros_like(b[:, 0]), list[Any]()
    for factor, summand in zip(a.unbind(1), b.unbind(1), strict=True):
        h = torch.addcmul(summand, factor, h)
        rows.append(h)
    return torch.stack(rows, 1)


def pieces(a: Any, b: Any) -> Any:  # noqa: ANN401 - tensors
    """Pieces of 32 beside one another."""
    import torch

    batch, length, *rest = b.shape
    a, b = (x.reshape(batch, length // 32, 32, *rest) for x in (a, b))
    h, q, inner, powers = torch.zeros_like(b[:, :, 0]), torch.ones_like(a[:, :, 0]), [], []
    for factor, summand in zip(a.unbind(2), b.unbind(2), strict=True):
        h, q = torch.addcmul(summand, factor, h), q * factor
        inner.append(h)
        powers.append(q)
    g, starts = torch.zeros_like(h[:, 0]), list[Any]()
    for factor, summand in zip(q.unbind(1), h.unbind(1), strict=True):
        starts.append(g)
        g = torch.addcmul(summand, factor, g)
    whole = torch.stack(inner, 2) + torch.stack(powers, 2) * torch.stack(starts, 1)[:, :, None]
    return whole.reshape(batch, length, *rest)


def doubling(a: Any, h: Any) -> Any:  # noqa: ANN401 - tensors
    """Sums over 2 positions, then over 4, 8 and so on."""
    import torch

    n = 1
    while n < h.shape[1]:
        h = torch.cat([h[:, :n], torch.addcmul(h[:, n:], a[:, n:], h[:, :-n])], 1)
        a = torch.cat([a[:, :n], a[:, n:] * a[:, :-n]], 1)
        n *= 2
    return h
