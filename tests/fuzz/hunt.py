"""Looks for programs that fail, makes each failure small, and prints it as a file."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fuzz.program import generate
from fuzz.proof import Failure, prove
from fuzz.recorded import Provable, as_file
from fuzz.shrink import shrink
from fuzz.sketch import Sketch

from xg.diagnostics.diagnostic import DiagnosticError


@dataclass(frozen=True)
class Found:
    """A failure: its seed, the smallest program that shows it, and what happened."""

    seed: int
    program: Sketch
    message: str

    def __str__(self) -> str:
        return f"{as_file(self.program, self.seed)}\n{self.message}\n"


def hunt(seeds: Iterable[int]) -> Iterator[Found]:
    """Every seed whose program fails, made small."""
    for seed in seeds:
        sketch = generate(seed)
        kind = outcome(sketch, seed, whole=False)[0]
        if kind:
            small = shrink(sketch, lambda case: outcome(case, seed, whole=False)[0] == kind)  # noqa: B023
            yield Found(seed, small, outcome(small, seed, whole=False)[1])


def outcome(sketch: Provable, seed: int, *, whole: bool = True) -> tuple[str, str]:
    """The kind of failure that a program shows, and its message; both empty if all is well."""
    try:
        prove(sketch, seed, whole=whole)
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
