"""Looks for programs that fail, makes each failure small, and prints it as a file."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fuzz.opened import opened
from fuzz.plans import prove_plan
from fuzz.program import generate
from fuzz.proof import Failure, prove
from fuzz.recorded import Provable, as_file
from fuzz.shrink import shrink
from fuzz.sketch import Sketch

from xg.diagnostics.diagnostic import DiagnosticError

RANKS_OF = 20  # so many programs for one with a plan
OPEN_OF, OPEN = 8, 3  # so many programs for one without the numbers that arrays tell
Outcome = tuple[str, str]  # the kind of failure, and its message
Outcomes = Callable[[Sketch], Outcome]


@dataclass(frozen=True)
class Found:
    """A failure: its seed, the smallest program that shows it, and what happened."""

    seed: int
    program: Sketch
    message: str

    def __str__(self) -> str:
        return f"{as_file(self.program, self.seed)}\n{self.message}\n"


def hunt(seeds: Iterable[int]) -> Iterator[Found]:
    """Every seed whose program fails, made small; some without the numbers that arrays tell."""
    for seed in seeds:
        sketch, found = generate(seed), None
        if seed % OPEN_OF == OPEN:
            found = _smallest(
                seed, sketch, lambda case, seed=seed: failure(lambda: opened(case, seed))
            )
            sketch = sketch if found else opened(sketch, seed)
        if not found:
            found = _smallest(
                seed, sketch, lambda case, seed=seed: outcome(case, seed, whole=False)
            )
        if found:
            yield found


def smallest(seed: int, outcome: Outcomes) -> Found | None:
    """The program of a seed made small if an outcome of it is a failure: it stays of one kind."""
    return _smallest(seed, generate(seed), outcome)


def _smallest(seed: int, sketch: Sketch, outcome: Outcomes) -> Found | None:
    kind = outcome(sketch)[0]
    if not kind:
        return None
    small = shrink(sketch, lambda case: outcome(case)[0] == kind)
    return Found(seed, small, outcome(small)[1])


def outcome(sketch: Provable, seed: int, *, whole: bool = True) -> Outcome:
    """As `failure`, of all that is proven of a program; one of twenty is also run on ranks."""

    def all_of_it() -> None:
        prove(sketch, seed, whole=whole)
        if isinstance(sketch, Sketch) and (whole or seed % RANKS_OF == 7):
            prove_plan(sketch, seed)

    return failure(all_of_it)


def failure(check: Callable[[], object]) -> Outcome:
    """The kind of failure that a check shows, and its message; both empty if all is well."""
    try:
        check()
    except Failure as failure:
        return failure.kind, str(failure)
    except DiagnosticError as error:
        first = error.diagnostics[0]
        return f"{first.code} {re.sub('`.*?`|[A-Z]', '', first.message)}", str(error)
    except Exception as error:  # whatever a wrong program does
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.name}"
        return f"{type(error).__name__} {where}", "".join(traceback.format_exception(error))
    return "", ""
