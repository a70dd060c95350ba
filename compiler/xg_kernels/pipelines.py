"""Define the passes of `--kernels`, and the sequences that contain them."""

from __future__ import annotations

from typing import Final

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.graph import IRProgram
from xg.ir.verify import Reuse
from xg.passes.pipelines import BLOCKS, DIFFERENTIATE, PAD, PLACED, RANK, FusedPipelines, Pass
from xg_kernels.collect import collect
from xg_kernels.fuse import fuse
from xg_kernels.grouped_attention import group
from xg_kernels.hoist import hoist
from xg_kernels.share import prepare, share

# Values that the step that reads them may write into, recorded for kernels that work in place.


def reuse(program: IRProgram) -> IRProgram:
    """The program whose graphs name these values; it runs after every pass that adds a reader."""
    graphs = {
        key: replace(graph, reusable=Reuse.of(program, graph).values())
        for key, graph in program.graphs.items()
    }
    backwards = {
        key: replace(backward, forward=graphs[key], reusable=Reuse.of(program, backward).values())
        for key, backward in program.backwards.items()
    }
    return replace(program, graphs=graphs, backwards=backwards)


HOIST: Final = Pass("hoist", "takes what needs no state out of loops, for --kernels", hoist)
FUSE: Final = Pass("fuse", "replaces patterns by the operators of --kernels", fuse)
GROUP: Final = Pass(
    "group", "lets query heads read the keys and values that they share, in a step", group
)
SHARE: Final = Pass(
    "share", "computes once in a step what depends on sizes alone, for --kernels", share
)
PREPARE: Final = Pass(
    "prepare", "sets apart what depends on parameters alone, in a step with --kernels", prepare
)
COLLECT: Final = Pass(
    "collect", "multiplies once behind a loop for the gradients of parameters", collect
)
REUSE: Final = Pass(
    "reuse", "records which arrays kernels may write into: each its own, read once", reuse
)

FUSED: Final = (HOIST, FUSE, DIFFERENTIATE, COLLECT, REUSE)
FUSED_STEP: Final = (HOIST, FUSE, GROUP, SHARE, PREPARE, REUSE)
FUSED_RANK: Final = (PAD, FUSE, *RANK, REUSE)
FUSED_BLOCKS: Final = (*BLOCKS, COLLECT, REUSE)
FUSED_PASSES: Final = (HOIST, FUSE, GROUP, SHARE, PREPARE, COLLECT, REUSE)


def pipelines() -> FusedPipelines:
    """Return the sequences of passes that the compiler runs for `--kernels`."""
    return FusedPipelines(
        block=FUSED,
        step=FUSED_STEP,
        rank=FUSED_RANK,
        placed=(FUSE, *PLACED),
        stage=(REUSE,),
        outlined=FUSED_BLOCKS,
    )
