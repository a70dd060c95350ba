"""Products of three and four plans that no file names, drawn at random and proven.

``python -m verify.proof.products [COUNT] [SEED]`` draws COUNT of three and of four plans of every
shipped model. Those that the compiler refuses are counted; nothing may be wrong or take too long.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, cycle
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.pool import ThreadPool
from random import Random
from time import perf_counter
from typing import Final, Literal, TypeAlias

from frontend.plans.shipped import MODELS, products
from verify.proof.sweep import axes_of_plans, shipped_project

from xg.cli.verification import rank_lines as lines
from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.plan_in_choices import find_plan
from xg.frontend.typed import declared_dims
from xg.verify.plan_proof import RankProof, prove_ranks

SECONDS: Final = 180  # for one product, at most
COUNT: Final = 4  # of three plans and of four, for every model
PIPELINE: Final = "N_PP"
# Sides of an image that is halved five times are 96 and 160 by themselves, and every collective is
# left out once in a run of the whole network.
SIZES: Final[Mapping[str, Mapping[str, int]]] = {
    "models/resnet.xg": {"B": 4, "C_in": 2, "H": 64, "W": 32, "N_C": 6}
    | {"D": 6, "D_1": 24, "D_2": 48, "D_3": 72, "D_4": 96}
    | {"N_1": 1, "N_2": 1, "N_3": 1, "N_4": 1}
}
ROWS: Final = ("N_L", "N_e", "N_d", "L_I", "L_W")  # layers, by the names that files give them
LAYERS: Final = {"models/gemma2.xg": 2}  # of two kinds in turn
Verdict: TypeAlias = Literal["proven", "refused", "WRONG", "TOO LONG"]
FAILED: Final[tuple[Verdict, ...]] = ("WRONG", "TOO LONG")


@dataclass(frozen=True)
class Drawn:
    """A product of plans of a file."""

    file: str
    plan: str

    def __str__(self) -> str:
        """Its file and its plans."""
        return f"{self.file} {self.plan}"


@dataclass(frozen=True)
class Outcome:
    """The end of one proof; `said` is the refusal or what is wrong."""

    drawn: Drawn
    verdict: Verdict
    seconds: float
    said: str = ""


def drawn(file: str, count: int, seed: int) -> Iterator[Drawn]:
    """Products of three plans and of four that the file writes out, at most `count` of each."""
    project = shipped_project(file)
    made = products(project)
    factors = [plan for plan in axes_of_plans(file) if plan not in made]
    for size in (3, 4):
        every = list(combinations(factors, size))
        for chosen in Random(f"{seed} {file} {size}").sample(every, min(count, len(every))):
            yield Drawn(file, " × ".join(chosen))


def proof_of(one: Drawn, *, floats: bool = True) -> tuple[RankProof, Mapping[str, int]]:
    """Prove a product on a small mesh, and return its settings; raises DiagnosticError.

    A row of layers has one where no pipeline cuts it.
    """
    project = shipped_project(one.file)
    axes = find_plan(project, one.plan, {}).mesh
    settings = dict(zip(axes, cycle((2, 3, 2, 2)), strict=False)) | SIZES.get(one.file, {})
    if PIPELINE not in axes:
        rows = declared_dims(project).keys() & ROWS
        settings |= dict.fromkeys(rows, LAYERS.get(one.file, 1))
    proof = prove_ranks(project, MODELS[one.file], one.plan, settings, seed=0, floats=floats)
    return proof, settings


def _say(one: Drawn, end: Connection) -> None:
    """Send the verdict of one product, with a refusal or what is wrong."""
    try:
        proof, settings = proof_of(one)
    except DiagnosticError as error:
        end.send(("refused", str(error)))
    except Exception:
        end.send(("WRONG", traceback.format_exc()))
    else:
        wrong = "\n".join(lines(one.file, settings, proof))
        end.send(("proven", "") if proof.passed else ("WRONG", wrong))


def proven(one: Drawn) -> Outcome:
    """Prove a product in a process of its own, which has to end in time."""
    start = perf_counter()
    fresh = get_context("spawn")  # threads, which JAX has too, do not go on behind a fork
    ours, its = fresh.Pipe()
    process = fresh.Process(target=_say, args=(one, its))
    process.start()
    verdict, said = ours.recv() if ours.poll(SECONDS) else ("TOO LONG", "")
    process.kill()
    process.join()
    return Outcome(one, verdict, perf_counter() - start, said)


def main(count: int = COUNT, seed: int = 0) -> bool:
    """Prove what is drawn, say what came of each, and return whether nothing is wrong."""
    todo = [one for file in MODELS for one in drawn(file, count, seed)]
    verdicts: Counter[Verdict] = Counter()
    with ThreadPool() as pool:
        for found in pool.imap(proven, todo):
            verdicts[found.verdict] += 1
            said = f"{found.drawn}: {found.verdict}, {found.seconds:.1f} s"
            print("\n".join([said, found.said] if found.said else [said]), flush=True)  # noqa: T201
    counted = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items())
    print(f"{len(todo)} products of three and four plans: {counted}")  # noqa: T201
    return not any(verdicts[each] for each in FAILED)


if __name__ == "__main__":
    sys.exit(not main(*map(int, sys.argv[1:])))
