"""Define every pipeline of passes; no other module puts passes in order.

The picture of docs/architecture.md shows them. `run(PARALLEL, typed)` gives the program after each.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import IRProgram
from xg.ir.verify import BrokenProgram, verify
from xg.passes.differentiate import differentiate, recompute
from xg.passes.rewrites import apart, drop_mesh, eliminate_dead, joint, outline, split_stages
from xg.passes.ring import ring
from xg.passes.shard import annotate, check, join, localize, place
from xg.passes.shard.annotate import lend
from xg.sharding.apply_plan import with_mesh
from xg.sharding.divisibility import pad

# Passes as values, and the one place where passes follow each other.
#
# A pass takes a program and returns another; a pipeline is a tuple of passes.


VERIFY = "XG_VERIFY"  # the variable that has every pass verified


@dataclass(frozen=True, slots=True)
class Pass:
    """A named step of compilation. `says` completes the sentence "This pass …"."""

    name: str
    says: str
    run: Callable[[IRProgram], IRProgram]


@dataclass(frozen=True, slots=True)
class History:
    """The programs of one compilation: the first, and one after each pass."""

    stages: tuple[tuple[str, IRProgram], ...]

    def __repr__(self) -> str:
        return f"<History: {', '.join(name for name, _ in self.stages)}>"

    @property
    def result(self) -> IRProgram:
        """The program after the last pass."""
        return self.stages[-1][1]

    def after(self, name: str) -> IRProgram:
        """The program after the last pass of that name; KeyError if none ran."""
        return dict(self.stages)[name]

    def run_passes(self, pipeline: tuple[Pass, ...]) -> History:
        """Run further passes and return the longer history; verify the program after each.

        Raises BrokenProgram, naming the pass, where `XG_VERIFY` is set and a program breaks a rule
        of the IR.
        """
        stages = [*self.stages]
        verified: IRProgram | None = None
        for each in pipeline:
            program = each.run(stages[-1][1])
            if os.environ.get(VERIFY):
                _verify(program, each.name, verified)
                verified = program
            stages.append((each.name, program))
        return History(tuple(stages))


def run(pipeline: tuple[Pass, ...], program: IRProgram, start: str = "infer") -> History:
    """Run the passes of a pipeline; `start` names the program that it begins with."""
    return History(((start, program),)).run_passes(pipeline)


def _verify(program: IRProgram, name: str, verified: IRProgram | None) -> None:
    try:
        verify(program, verified)
    except BrokenProgram as broken:
        raise BrokenProgram(f"after the pass {name}:\n{broken}") from None


DROP_MESH: Final = Pass("drop-mesh", "leaves out plan, mesh and written collectives", drop_mesh)
NUMBER_MESH: Final = Pass("number-mesh", "gives every mesh axis its number of ranks", with_mesh)
ELIMINATE_DEAD: Final = Pass(
    "eliminate-dead", "leaves out steps and graphs that no output needs", eliminate_dead
)
PAD: Final = Pass("pad", "fills sizes with zeros that ranks cannot share, as a plan says", pad)
LEND: Final = Pass("lend", "gives loops the parameters of what they call, once for all", lend)
ANNOTATE: Final = Pass("annotate", "writes what a plan asks for on the values it reaches", annotate)
RING: Final = Pass("ring", "lets keys and values go round ranks, where a plan says so", ring)
PLACE: Final = Pass("place", "places every value on the mesh and inserts the collectives", place)
DIFFERENTIATE: Final = Pass("differentiate", "derives the backward graphs", differentiate)
RECOMPUTE: Final = Pass(
    "recompute", "runs forward steps again in backward passes, as a plan says", recompute
)
CHECK: Final = Pass("check", "types every step once more; gradients must be dual", check)
JOIN: Final = Pass("join", "sends over several mesh axes at once what each would send", join)
LOCALIZE: Final = Pass("localize", "writes the program of one rank", localize)
OUTLINE: Final = Pass("outline", "makes the entry a sequence of calls", outline)

SINGLE: Final = (DROP_MESH, ELIMINATE_DEAD, DIFFERENTIATE)
# One device with the operators that ranks have, to be compared where exp has no properties.
SINGLE_AROUND: Final = (ELIMINATE_DEAD, ANNOTATE, RING, *SINGLE)
PLACED: Final = (ELIMINATE_DEAD, PAD, LEND, ANNOTATE, RING, PLACE)
AFTER_PLACE: Final = (DIFFERENTIATE, RECOMPUTE, CHECK, JOIN, LOCALIZE)
RANK: Final = (*PLACED, *AFTER_PLACE)
PARALLEL: Final = (NUMBER_MESH, *RANK)
STEP: Final = (ELIMINATE_DEAD, DIFFERENTIATE)  # what a decoder computes before its steps
BLOCKS: Final = (OUTLINE, DIFFERENTIATE)  # what an `nn.Module` runs under autograd
EVERY_PASS: Final = (
    *(DROP_MESH, NUMBER_MESH, ELIMINATE_DEAD, PAD, LEND, ANNOTATE, RING, PLACE),
    *(DIFFERENTIATE, RECOMPUTE, CHECK, JOIN, LOCALIZE, OUTLINE),
)


@dataclass(frozen=True, slots=True)
class FusedPipelines:
    """The sequences of passes for `--kernels`, which the package of kernels provides.

    `block` is for a program on one device, `step` for a step of a decoder, `rank` for the ranks of
    a plan. A pipeline is `placed` as a whole, and then each `stage` by itself. `outlined` gives
    the blocks that an `nn.Module` runs under autograd.
    """

    block: tuple[Pass, ...]
    step: tuple[Pass, ...]
    rank: tuple[Pass, ...]
    placed: tuple[Pass, ...]
    stage: tuple[Pass, ...]
    outlined: tuple[Pass, ...]


def stage_histories(
    pipeline: tuple[Pass, ...], single_device: IRProgram, last: tuple[Pass, ...] = ()
) -> tuple[History, ...]:
    """The program of every stage after each pass.

    `pipeline` ends with the whole one placed; the `last` passes run on each stage's local program.
    """
    split = split_stages(run(pipeline, single_device).result)
    derived = run((*AFTER_PLACE, *last), joint(split), "place")
    passes = [(name, tuple(apart(each, split))) for name, each in derived.stages]
    return tuple(
        History(tuple((name, stages[place]) for name, stages in passes))
        for place in range(len(split))
    )
