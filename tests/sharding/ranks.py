"""Whole programs on simulated ranks against one device, by the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import xg_runtime.ranks as ranks
from xg.evaluate import Mesh
from xg.graph import Program, Value
from xg.interpret import Interpreter
from xg.parameters import param_specs
from xg.passes.differentiate import differentiate
from xg.passes.shard import place, rank_program
from xg.placement import INVARIANT, State, Wish, shard

Array = NDArray[Any]
Arrays = dict[str, Array]
Wishes = Mapping[str, Mapping[str, Mapping[str, tuple[int | None, ...] | int | None]]]


def wished(program: Program, mesh: Mapping[str, int], wishes: Wishes) -> Program:
    """The program with wishes by block, value and mesh axis; (rest, use) where these differ."""
    graphs = {}
    for key, graph in program.graphs.items():
        found: dict[Value, dict[str, Wish]] = {}
        names = {str(value.name): value for value in graph.types if value.name}
        for name, by_axis in wishes.get(graph.block, {}).items():
            if name in names:
                found[names[name]] = {axis: _wish(cut) for axis, cut in by_axis.items()}
        graphs[key] = replace(graph, wishes=found)
    return replace(program, graphs=graphs, mesh=mesh)


def _wish(cut: Any) -> Wish:
    if isinstance(cut, tuple):
        rest, use = cut
        return Wish(_state(rest), _state(use))
    return Wish(_state(cut))


def _state(axis: int | None) -> State:
    return INVARIANT if axis is None else shard(axis)


@dataclass
class Parallel:
    """A program on ranks, with what it takes to compare it."""

    whole: Program
    placed: Program
    rank: Program

    @classmethod
    def of(cls, whole: Program, mesh: Mapping[str, int], wishes: Wishes) -> Parallel:
        placed = place(wished(whole, mesh, wishes))
        rank = rank_program(differentiate(placed))
        return cls(differentiate(whole), placed, rank)

    def error(self, params: Arrays, inputs: Arrays, seed: int | None = 3) -> float:
        """The largest difference of outputs and gradients, relative to the gradients' size."""
        one = Interpreter(self.whole, params, seed)
        outputs, record = one.forward(inputs)
        random = np.random.default_rng(5)
        d_outputs = {
            name: random.standard_normal(np.shape(array)) for name, array in outputs.items()
        }
        expected = one.backward(record, d_outputs)
        main = self.rank.main
        out_states = {
            name: main.placements[value]
            for name, value in zip(main.output_names, main.outputs, strict=True)
        }
        param_states = {
            path: graph.placements[param.value]
            for path, param, graph, _ in param_specs(self.placed)
        }
        in_states = {str(v.name): main.placements[v] for v in main.inputs}

        def one_rank() -> tuple[Arrays, Arrays]:
            runner = Interpreter(
                self.rank, self.cut(params, param_states), seed, mesh=cast(Mesh, ranks)
            )
            outs, record = runner.forward(self.cut(inputs, in_states))
            gradients = runner.backward(record, self.cut(d_outputs, out_states))
            return outs, gradients

        results = ranks.simulate(self.rank.mesh, one_rank)
        gradient_states = {**param_states, **in_states}
        worst = 0.0
        for name, array in outputs.items():
            found = self.join([r[0][name] for r in results], out_states[name])
            worst = max(worst, distance(found, array, 1.0))
        scale = float(np.sqrt(sum((g**2).sum() for g in expected.values())))
        assert set(expected) == set(results[0][1])
        for name, array in expected.items():
            found = self.join([r[1][name] for r in results], gradient_states[name])
            worst = max(worst, distance(found, array, scale))
        return worst

    def cut(self, arrays: Arrays, states: Mapping[str, Mapping[str, State]]) -> Arrays:
        """This rank's parts."""
        parts: Arrays = {}
        for name, array in arrays.items():
            for axis in self.rank.mesh:
                state = states[name].get(axis, INVARIANT)
                if state.kind == "S":
                    array = ranks.own(array, axis, state.axis)
            parts[name] = array
        return parts

    def join(self, parts: list[Array], states: Mapping[str, State]) -> Array:
        """The whole of all ranks' parts, checked to agree where they hold the same."""
        shape = tuple(self.rank.mesh.values())
        grid = np.empty(shape, dtype=object)
        for index, part in zip(np.ndindex(shape), parts, strict=True):
            grid[index] = part
        for axis in reversed(self.rank.mesh):
            grid = self._joined(grid, states.get(axis, INVARIANT))
        return grid[()] if isinstance(grid, np.ndarray) and grid.dtype == object else grid

    def _joined(self, grid: Any, state: State) -> Any:
        outer = np.empty(grid.shape[:-1], dtype=object)
        for index in np.ndindex(grid.shape[:-1]):
            parts = list(grid[index])
            if state.kind == "S":
                outer[index] = np.concatenate(parts, state.axis)
            else:
                for part in parts[1:]:
                    assert np.array_equal(parts[0], part), "ranks differ"
                outer[index] = parts[0]
        return outer


def distance(found: Array, expected: Array, scale: float) -> float:
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    size = float(np.linalg.norm(expected)) + 1e-2 * scale
    return float(np.linalg.norm(found - expected)) / (size or 1.0)
