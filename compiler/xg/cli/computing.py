"""Given arrays through a program: on this device, or on the ranks of its plan."""

from __future__ import annotations

from argparse import Namespace
from typing import cast

import xg_runtime.ranks as ranks
from xg.cli.backend_argument import where
from xg.cli.input_arrays import InputArrays
from xg.cli.kept_edges import GRADIENT
from xg.cli.kept_edges import kept as kept_of
from xg.cli.placed_module import placed
from xg.cli.ranks import Ranks
from xg.sharding.local import cuts
from xg.verify.reference.evaluate import Mesh
from xg.verify.reference.interpret import Interpreter
from xg_runtime.errors import InputError
from xg_runtime.module import Arrays
from xg_runtime.run import run


def compute(given: InputArrays, options: Namespace) -> tuple[Arrays, Arrays]:
    """Results and the parameters that were used, whole; raises as `run` does, and RankError."""
    ranks = Ranks.of(given.program, options)
    if ranks is not None:
        return _on_ranks(given, options, ranks)
    how, half = where(options), _half(options)
    module = placed(given.program, options.backend, how, kernels=options.kernels, dtype=half)
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
            return kept_of(program.graphs, record, options.keep)
        interpreter.backward(record, given.cotangents)
        return kept_of(program.graphs, record, options.keep, reverse=True)
    if any(name.startswith(GRADIENT) for name in options.keep):
        raise InputError("gradients of edges are kept on one device: leave --plan out")
    where = cuts(program.graphs)

    def on_rank() -> Arrays:
        mine = ranks.local_shards(params, where)
        interpreter = Interpreter(program.graphs, mine, seed, mesh=cast("Mesh", ranks))
        record = interpreter.forward(ranks.local_shards(given.inputs, where))[1]
        return kept_of(program.graphs, record, options.keep)

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
