"""Proof that gradients are zero which a block expects to be: `expect dW = 0`.

Floats prove nothing here: a gradient of 1e-17 may be zero or only small. Where the graph itself
stops the change, `zeros` has the reason. Otherwise the backward pass runs on random residues modulo
primes. There a sum over a column of a doubly stochastic matrix is 1 to the last bit, so a gradient
that is zero for every input is exactly zero; any other is zero with a chance of about one in a
billion for each element and each draw. exp and its like are arbitrary functions there: a gradient
that is zero only by a law of theirs, such as exp(a)*exp(b) = exp(a + b), isn't proven.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import LAST_ROUND, MeantZero, Program
from xg.ir.parameters import join, param_specs, sites_with
from xg.verify.reference.modular.random_order import modulo_in_random_order
from xg.verify.reference.modular.residues import PRIMES, Undefined
from xg.verify.reference.modular.run import DRAWS, draw, run
from xg.verify.reference.random import key
from xg.verify.zeros import why_zero_through_calls
from xg_runtime.errors import InputError
from xg_runtime.module import Array

ROUNDS: Final = 4  # of draws for each prime


@dataclass(frozen=True, slots=True)
class ZeroProof:
    """One line of the file, and how it is proven; what contradicts it, if it isn't."""

    meant: MeantZero
    proven_by: str
    otherwise: str = ""


def claim_of(path: str) -> str:
    """Spell the claim about a parameter or an input.

    >>> claim_of("layers.0.W")
    'layers.0.dW = 0'
    """
    calls, dot, name = path.rpartition(".")
    return f"{calls}{dot}d{name} = 0"


def expected_zeros(program: Program) -> dict[str, MeantZero]:
    """Return what the blocks of a program expect, by the paths of parameters and inputs.

    An input of a called block has no gradient here: the block proves its line when it is the one
    that is verified. Raises InputError for a round that a repeat does not have.
    """
    known = {path for path, *_ in param_specs(program)}
    inputs = {str(value.name) for value in program.main.inputs}
    found: dict[str, MeantZero] = {}
    for site in sites_with(program, lambda graph: len(graph.meant_zeros)):
        for meant in site.graph.meant_zeros:
            path = _numbered(known, site.path, meant.path)
            if path in known or (not site.path and path in inputs):
                found.setdefault(path, meant)
            elif "." in meant.path:
                raise InputError(
                    f"line {meant.span.line} expects a gradient of {path}, which does not exist at "
                    f"the sizes of this proof: give the size that says how many rounds there are, "
                    f"or write `{LAST_ROUND}` for the last one"
                )
    return found


def _numbered(known: set[str], site: str, path: str) -> str:
    """A path with the number of each last round in the place of the word."""
    whole = site
    for part in path.split("."):
        beginning = f"{whole}." if whole else ""
        below = (name[len(beginning) :] for name in known if name.startswith(beginning))
        numbers = [int(head) for name in below if (head := name.partition(".")[0]).isdecimal()]
        whole = join(whole, str(max(numbers)) if part == LAST_ROUND and numbers else part)
    return whole


def prove_zeros(
    program: Program, expected: Mapping[str, MeantZero], shared: set[str], seed: int
) -> dict[str, ZeroProof]:
    """Prove each expected zero, by its path."""
    proofs: dict[str, ZeroProof] = {}
    for path, meant in expected.items():
        by_structure = path.rpartition(".")[2] not in shared
        if by_structure and (reason := why_zero_through_calls(program, path)):
            proofs[path] = ZeroProof(meant, f"the graph: {reason}")
    open_ = {path: meant for path, meant in expected.items() if path not in proofs}
    return proofs | _modular(program, open_, seed)


def _modular(
    program: Program, expected: Mapping[str, MeantZero], seed: int
) -> dict[str, ZeroProof]:
    if not expected:
        return {}
    wrong: dict[str, str] = {}
    draws = 0
    try:
        for prime, gradients in _runs(program, seed):
            draws += 1
            for path in expected:
                place = _first(gradients[path])
                if place is not None and path not in wrong:
                    number = int(gradients[path][place])
                    at = f" at {[int(each) for each in place]}" if place else ""
                    wrong[path] = f"it is {number} modulo {prime}{at}"
    except Undefined as error:
        reason = f"it can't be computed modulo a prime: {error}"
        return {path: ZeroProof(meant, "", reason) for path, meant in expected.items()}
    how = f"the modular check, {draws} draws modulo {len(PRIMES)} primes"
    return {
        path: ZeroProof(meant, "" if path in wrong else how, wrong.get(path, ""))
        for path, meant in expected.items()
    }


def _runs(program: Program, seed: int) -> Iterator[tuple[int, Mapping[str, Array]]]:
    """Every draw of every prime, with all gradients; raises Undefined if some draw has none."""
    for prime in PRIMES:
        for number in range(ROUNDS):
            for attempt in range(DRAWS):
                stream = key(seed, f"zero {number} {attempt}")
                arithmetic = modulo_in_random_order(prime, stream)
                given = draw(program, prime, stream)
                try:
                    outcome = run(program, given, arithmetic=arithmetic)
                except Undefined:
                    if attempt == DRAWS - 1:
                        raise
                    continue
                yield prime, outcome.gradients
                break


def _first(gradient: Array) -> tuple[int, ...] | None:
    """The place of the first element that is not zero."""
    places = np.argwhere(gradient != 0)
    return tuple(int(each) for each in places[0]) if len(places) else None
