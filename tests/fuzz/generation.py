"""Random models that generate: positions meet in attention, windows, counts and recurrences.

Of the programs of `fuzz.program` few have a step of generation that keeps more than it returns.
"""

from __future__ import annotations

from random import Random

import numpy as np
from fuzz.decoding import step_failures
from fuzz.proof import Failure

from xg.driver import compile_project
from xg.frontend.project import parse_project
from xg.verify.reference.interpret import initial

SIZES = {"B": 2, "S": 7, "D": 4, "N_H": 2, "D_h": 4, "V": 11}
OPS = """\
dim B, S, D, N_H, D_h, V
op near(a [.., S, T]; w) = select(and(i >= j, w > i - j), a, -inf)
    where i = range[S](T - S), j = range[T]
op fading(a [.., S, T]) = select(i >= j, a - 0.3 * (i - j), -inf)
    where i = range[S](T - S), j = range[T]
"""
HEADS = """\
    X -> LN -> •<=W_Q -> R : Q [B, S, N_H, D_h] -> T : Q_0 [B, N_H, S, D_h]{turned} : Q_h
    X -> •<=W_K -> R : K [B, S, N_H, D_h] -> T : K_0 [B, N_H, S, D_h]{turned} : K_h
    X -> •<=W_V -> R : V [B, S, N_H, D_h] -> T : V_h [B, N_H, S, D_h]
    Q_h -> •<=T(K_h) -> {masked} -> S -> •<=V_h -> T : O [B, S, N_H, D_h]
      -> R : P [B, S, N_H*D_h] -> •<=W_O -> ⊕<-X : Y
"""
HEAD_PARAMS = "    param W_Q, W_K, W_V [D, N_H*D_h], W_O [N_H*D_h, D]\n"
CELLS = (
    "    state h [B, D] = zeros\n    param W, U [D, D]\n"
    "    x -> •<=W -> ⊕<-(h -> •<=U) -> tanh : y\n    next h = y\n",
    "    state h [B, D] = zeros\n    param W, U [D, D]\n"
    "    x -> •<=W -> sigmoid : a\n    a -> ⊙<-h -> ⊕<-(x -> •<=U) : y\n    next h = y\n",
    "    state h, m [B, D] = zeros\n    param W [D, D]\n"
    "    x -> ⊕<-(m -> scale(0.5)) -> •<=W -> ⊕<-h -> tanh : y\n"
    "    next h = x\n    next m = y\n",
)


def generation_program(seed: int) -> str:
    """A model of one to three layers; each mixes positions in its own way."""
    random = Random(f"generation {seed}")
    blocks, calls = "", "X"
    for layer in range(random.randint(1, 3)):
        kind = random.choice((_attention, _attention, _window, _loop, _count))
        blocks += kind(random, f"L_{layer}")
        calls += f" -> L_{layer}"
    return f"{OPS}{blocks}block Main(X [B, S, D]) -> Y [B, S, D] {{\n    {calls} : Y\n}}\n"


def prove_generation(seed: int) -> None:
    """Pieces of a text give what the whole text gives."""
    program = compile_project(parse_project(generation_program(seed).encode()), None, SIZES)
    random = np.random.default_rng(seed)
    inputs = {"X": random.standard_normal([SIZES[name] for name in ("B", "S", "D")])}
    sizes, params = program.graphs.main.sizes.bind(SIZES), initial(program.graphs, seed)
    for found in step_failures(program.graphs, sizes, params, inputs, seed, derived=True):
        raise Failure("step", found)


def _attention(random: Random, name: str) -> str:
    masks = ("SM(1/2, causal)", "SM(1/2) -> near(3)", "SM(1/2) -> fading")
    turned = random.choice((" -> tanh", " -> RoPE"))
    heads = HEADS.format(turned=turned, masked=random.choice(masks))
    return _block(name, HEAD_PARAMS + heads)


def _window(random: Random, name: str) -> str:
    k, dilation = random.choice(((2, 1), (3, 1), (2, 2), (3, 2)))
    conv = f"conv[S](K, causal, dilation={dilation})"
    return _block(name, f"    param K [{k}, D, D]\n    X -> {conv} -> tanh -> ⊕<-X : Y\n")


def _loop(random: Random, name: str) -> str:
    inner = f"block {name}_c(x [B, D]) -> y [B, D] {{\n{random.choice(CELLS)}}}\n"
    return inner + _block(name, f"    X -> {name}_c over S -> ⊕<-X : Y\n")


def _count(random: Random, name: str) -> str:
    first = random.choice((0, 1, 2))
    table = (
        f"    param E [V, D]\n    range({first}, S + {first}) -> Emb(E) -> BC[B] : e [B, S, D]\n"
    )
    return _block(name, f"{table}    X -> ⊕<-e -> tanh : Y\n")


def _block(name: str, lines: str) -> str:
    return f"block {name}(X [B, S, D]) -> Y [B, S, D] {{\n{lines}}}\n"
