"""Text that tries to get out of a label, and a figure that carries it everywhere."""

from xg.figures.model.figure import (
    EdgeRole,
    EdgeStyle,
    Figure,
    FigureEdge,
    FigureGroup,
    FigureNode,
    NodeKind,
)
from xg.figures.model.richtext import StyledRun, plain

HOSTILE = (
    '"',
    "\\",
    '\\" onload="alert(1)',
    "]]>",
    "</title></svg><script>alert(1)</script>",
    "<TABLE HREF='javascript:alert(1)'>",
    "javascript:alert(1)",
    "]; evil [URL=x",
    "a\nb\r\nc\td",
    "\x00\x1b[31m\u202egnp\u2028\ud800\ufeff",
    "&amp;&#x41;<>'",
    "\\N\\G\\l",
    "%PDF ) Tj (endstream endobj",
    "-->*/}}",
    "日本語 العربية 🙂",
    "x" * 10_000,
)


def hostile_figure(text: str) -> Figure:
    """Return a figure with `text` as every name, label, title and description."""
    node_id = text + "1"
    run = StyledRun(text, bold=True, sub=text, sup=text)
    nodes = (
        FigureNode(text, NodeKind.TENSOR, (run,), title=text),
        FigureNode(node_id, NodeKind.NONLINEAR, (run,), detail=(run,), title=text),
        FigureNode("dot", NodeKind.MATMUL, title=text),
        FigureNode("w", NodeKind.TENSOR, plain(text)),
        FigureNode("end", NodeKind.TENSOR, (run,)),
    )
    edges = (
        FigureEdge(text, node_id, label=(run,)),
        FigureEdge(node_id, "dot"),
        FigureEdge("w", "dot", EdgeStyle.DOUBLE, EdgeRole.SIDE),
        FigureEdge("dot", "end", label=plain(text)),
    )
    group = FigureGroup(text, (run,), (node_id, "dot", "w"))
    return Figure(text, text, text, nodes, edges, (group,))
