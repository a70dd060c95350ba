"""The picture of the compiler in docs/architecture.md, drawn by the compiler's own figures."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from xg.figures import render
from xg.figures.model.figure import EdgeRole, Figure, FigureEdge, FigureNode, NodeKind
from xg.figures.model.richtext import plain

PICTURE = Path(__file__).parents[2] / "docs" / "pipeline.svg"

STEPS = {
    "parse": ("xg.syntax", "text"),
    "resolve": ("xg.passes.resolve", "ast.Module"),
    "infer": ("xg.passes.infer", "Program of Graphs"),
    "eliminate dead steps": ("xg.passes.rewrites", "a TensorType on every Value"),
    "differentiate": ("xg.passes.differentiate", "only what reaches an output"),
    "emit": ("xg.codegen.emit, xg.codegen.numpy", "a Backward for every Graph"),
}
SIDE = {
    "map": ("xg.figures.views", ""),
    "place and paint": ("xg.figures", "Figure"),
}


def pipeline() -> Figure:
    """The steps of the compiler, and what goes from one to the next."""
    steps = {**STEPS, **SIDE}
    nodes = [
        FigureNode("file", NodeKind.TENSOR, plain("mha.xg")),
        *(
            FigureNode(name, NodeKind.BLOCK, plain(name), plain(module))
            for name, (module, _) in steps.items()
        ),
        FigureNode("code", NodeKind.TENSOR, plain("mha_numpy.py")),
        FigureNode("pictures", NodeKind.TENSOR, plain(".dot .svg .pdf .png")),
    ]
    return Figure(
        title="How xg compiles",
        subtitle="boxes are steps, arrows carry data",
        description="Text becomes a tree, a graph, a typed graph and a differentiated program; "
        "from the program come code and figures.",
        nodes=tuple(nodes),
        edges=(
            *_chain(["file", *STEPS, "code"]),
            FigureEdge("differentiate", "map", role=EdgeRole.BRANCH),
            *_chain([*SIDE, "pictures"]),
        ),
    )


def _chain(names: list[str]) -> list[FigureEdge]:
    carried = {**STEPS, **SIDE}
    return [
        FigureEdge(tail, head, label=plain(carried[head][1] if head in carried else ""))
        for tail, head in pairwise(names)
    ]


def test_the_picture_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    golden(PICTURE, render(pipeline(), "svg", "auto").decode("utf-8"))
