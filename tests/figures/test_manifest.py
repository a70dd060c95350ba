"""The figures of the seeds, checked against `manifest.json`.

The manifest says for every figure which glyphs, tensors and edges it has; the rules below are
those of seed 001, section 4, and hold for all of them. An edge is written `T ⇒ • : K⊤ [B, N_H, D_h,
S]`: its ends as they are labeled, single →, double ⇒ or dashed ⇢, and the tensor that it carries.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, Literal, NotRequired, TypedDict, cast

import pytest
from tier import some

import xg
from xg.driver import Program
from xg.figures.model.figure import EdgeRole, EdgeStyle, Figure, FigureEdge, FigureNode, NodeKind
from xg.figures.model.richtext import RichText, characters, title_text

LIBRARY: Final = Path(__file__).parents[2] / "diagrams"
SECTIONS: Final = {
    "000": ["6", "6"],
    "001": [
        *("4.3", "4.3", "5.1", "5.2.1", "5.2.1", "5.3.1", "5.3.2"),
        *("5.4.1", "5.4.2", "5.5.1", "5.5.2"),
        *("6.1", "6.2.1", "6.2.1", "6.2.2", "6.3.1", "6.3.1", "6.3.2"),
        *("7.1", "7.2", "7.3", "8.1"),
    ],
}
QUIET: Final[dict[NodeKind, Literal["tensors", "saved"]]] = {
    NodeKind.TENSOR: "tensors",
    NodeKind.SAVED: "saved",
}
ARROWS: Final = {EdgeStyle.SINGLE: "→", EdgeStyle.DOUBLE: "⇒", EdgeStyle.DASHED: "⇢"}
INTEGERS: Final = ("ids", "t")  # no gradient flows into them
SCALARS: Final = ("loss", "dloss")  # written without brackets


class Entry(TypedDict):
    """One figure; `title` is what the seed prints (null: nothing), `heading` what we print."""

    seed: str
    section: str
    title: str | None
    heading: str
    file: str
    block: str
    view: Literal["forward", "backward", "overview"]
    plan: NotRequired[str]
    operators: dict[str, dict[str, int]]
    own: list[str]
    tensors: list[str]
    saved: list[str]
    edges: list[str]


def read_manifest() -> list[Entry]:
    manifest = json.loads(Path(__file__).with_name("manifest.json").read_text(encoding="utf-8"))
    return cast("list[Entry]", manifest["figures"])


ENTRIES: Final = read_manifest()


def _id(entry: Entry) -> str:
    return "-".join((entry["file"], entry["view"], entry.get("plan", entry["block"])))


each_figure = pytest.mark.parametrize("entry", ENTRIES, ids=_id)
# Errors are planted in a figure of each pass, with a plan and without, or in all figures.
PLANTED = some(ENTRIES, lambda entry: (entry["view"], "plan" in entry))
each_kind = pytest.mark.parametrize("entry", PLANTED, ids=_id)


def drawn(entry: Entry) -> Figure:
    return compiled(entry["file"], entry["block"], entry.get("plan")).figure(entry["view"])


@cache
def compiled(file: str, block: str, plan: str | None) -> Program:
    return xg.compile(LIBRARY / "notation" / file, block, plan)


def written(text: RichText) -> str:
    return characters(text).replace("^⊤", "⊤")


def named(node: FigureNode) -> str:
    """A tensor's label, or an operator's name without the arguments that the seed does not draw."""
    if node.kind is NodeKind.REDUCE:
        return "sum"
    if node.kind in (NodeKind.NONLINEAR, NodeKind.LAYOUT):
        return written(node.label).partition("(")[0]
    return written(node.label)


def _fan(edge: FigureEdge) -> tuple[str, str]:
    return edge.tail, edge.head.partition(" @")[2]


class Lines:
    """The edges of a figure as the manifest writes them."""

    def __init__(self, figure: Figure) -> None:
        self.nodes = {node.id: node for node in figure.nodes}
        self.labels = {node.id: named(node) for node in figure.nodes}
        self.siblings: dict[tuple[str, str], list[RichText]] = {}  # of a bar, in each column
        for edge in figure.edges:
            if edge.style is not EdgeStyle.DASHED and edge.label:
                self.siblings.setdefault(_fan(edge), []).append(edge.label)

    def carried(self, edge: FigureEdge) -> str:
        """The tensor that an edge carries: its own label, or that of an end or of a sibling.

        The label of a lane only says again what leaves its tensor.
        """
        if edge.style is EdgeStyle.DASHED:
            return written(edge.label)
        own = () if edge.role is EdgeRole.RESIDUAL else edge.label
        ends = [self.nodes[end] for end in (edge.tail, edge.head)]
        tensors = [end.label for end in ends if end.kind in QUIET]
        known = (own, *tensors, edge.text, *self.siblings.get(_fan(edge), ()))
        return written(next((text for text in known if text), ()))

    def line(self, edge: FigureEdge) -> str:
        tail, head = self.labels[edge.tail], self.labels[edge.head]
        tensor, arrow = self.carried(edge), f"{tail} {ARROWS[edge.style]} {head}"
        return arrow if tensor in (tail, head, "") else f"{arrow} : {tensor}"


def violations(figure: Figure, entry: Entry) -> list[str]:
    """Everything in which a drawn figure differs from its entry or breaks the notation."""
    lines = Lines(figure)
    return [
        *_against_entry(figure, entry, lines),
        *_against_rules(figure, entry["view"], lines),
    ]


def _against_entry(figure: Figure, entry: Entry, lines: Lines) -> Iterator[str]:
    heading = characters(title_text(figure.title, figure.subtitle))
    if heading != entry["heading"]:
        yield f"the heading is {heading}"
    quiet = (text for node in figure.nodes for text in (node.detail, *node.lines) if text)
    printed = set(map(written, quiet))
    yield from (f"in a box: {one}" for one in sorted(printed ^ set(entry["own"])))
    glyphs: dict[str, Counter[str]] = {}
    for node in figure.nodes:
        glyphs.setdefault(node.kind.name.lower(), Counter())[named(node)] += 1
    for kind, name in QUIET.items():
        found = set(glyphs.pop(kind.name.lower(), Counter[str]()))
        yield from (f"{name}: {one}" for one in sorted(found.symmetric_difference(entry[name])))
    if glyphs != entry["operators"]:
        yield f"the operators are {glyphs}"
    found_lines, wanted = Counter(map(lines.line, figure.edges)), Counter(entry["edges"])
    yield from (f"missing: {one}" for one in wanted - found_lines)
    yield from (f"not in the manifest: {one}" for one in found_lines - wanted)


def _against_rules(figure: Figure, view: str, lines: Lines) -> Iterator[str]:
    kinds = {node.id: node.kind for node in figure.nodes}
    entering: dict[str, list[FigureEdge]] = {node.id: [] for node in figure.nodes}
    for edge in figure.edges:
        entering[edge.head].append(edge)
        tensor = lines.carried(edge)
        is_scalar = tensor.partition("^")[0] in SCALARS
        is_bare = edge.style is EdgeStyle.DASHED and not tensor  # see _dashes
        if "[" not in tensor and not is_scalar and not is_bare:
            yield f"no shape: {lines.line(edge)}"
        if edge.style is EdgeStyle.DOUBLE and kinds[edge.head] is not NodeKind.MATMUL:
            yield f"double, but not into a matmul: {lines.line(edge)}"
    for node in figure.nodes:
        styles = Counter(e.style for e in entering[node.id] if e.style is not EdgeStyle.DASHED)
        if node.kind is NodeKind.MATMUL and styles != {EdgeStyle.SINGLE: 1, EdgeStyle.DOUBLE: 1}:
            yield f"{node.id} has {styles}"
    if view == "backward":
        yield from _gradients(figure, kinds, lines)
    yield from _dashes(figure, view, lines)


def _gradients(figure: Figure, kinds: dict[str, NodeKind], lines: Lines) -> Iterator[str]:
    """Only gradients flow; dW = X⊤ • dY takes X⊤ by the single and dY by the double edge."""
    labels, above = lines.labels, {edge.head: edge.tail for edge in figure.edges}
    makers = {e.tail for e in figure.edges if labels[e.head].startswith("dW")}
    params = {
        above.get(one, one) if kinds[one] is NodeKind.COMMUNICATION else one for one in makers
    }
    for edge in figure.edges:
        flows = kinds[edge.tail] not in QUIET
        if flows and not lines.carried(edge).startswith(("d", "[")):
            yield f"no leading d: {lines.line(edge)}"
        if edge.head in params and kinds[edge.head] is NodeKind.MATMUL:
            gradient = flows or labels[edge.tail].startswith("d")
            if gradient != (edge.style is EdgeStyle.DOUBLE):
                yield f"X⊤ and dY have changed places: {lines.line(edge)}"
    for node in figure.nodes:
        if node.kind is NodeKind.NONLINEAR and not labels[node.id].startswith("d"):
            yield f"no leading d: {node.id}"


def _dashes(figure: Figure, view: str, lines: Lines) -> Iterator[str]:
    """Dashed arrows run back along every flow edge of an overview and nowhere else.

    They have the name of the gradient, except where the tensor has none, is at an end of them, or
    has the name on another of its edges. Where a tensor goes to several, each may be a term of its
    gradient, which says the tensor's shape alone, and that it is partial where ranks sum it.
    """
    dashed = {(e.head, e.tail): e for e in figure.edges if e.style is EdgeStyle.DASHED}
    flow = {
        (edge.tail, edge.head): edge
        for edge in figure.edges
        if edge.style is not EdgeStyle.DASHED and view == "overview"
        if lines.labels[edge.tail].split()[0].split("^")[0] not in INTEGERS
    }
    yield from (f"dashes: {tail}, {head}" for tail, head in flow.keys() ^ dashed.keys())
    named = {edge.head for edge in dashed.values() if edge.label}
    uses = Counter(edge.value for edge in flow.values())
    for ends, edge in dashed.items():
        tensor = lines.carried(flow[ends]) if ends in flow else ""
        if written(edge.label).startswith("["):
            is_term = ends in flow and uses[flow[ends].value] > 1
            into_sum = lines.labels[edge.head].startswith("AR ")
            wanted = tensor[tensor.find("[") :] + " partial" * into_sum
            if not is_term or written(edge.label) != wanted:
                yield f"not a term: {lines.line(edge)}"
            continue
        is_named = edge.head in named or lines.nodes[edge.head].kind in QUIET
        is_nameless = (tensor.startswith("[") or is_named) and not edge.label
        if not written(edge.label).startswith("d") and not is_nameless:
            yield f"no leading d: {lines.line(edge)}"


def examined(figure: Figure) -> list[tuple[int, FigureEdge]]:
    """The edges that are changed, by place: of ranks, which do the same, those of the first."""
    count = len(figure.columns[0].edges) if figure.columns else len(figure.edges)
    return list(enumerate(figure.edges))[:count]


def test_the_manifest_has_every_figure_of_the_seeds() -> None:
    for seed, sections in SECTIONS.items():
        assert sorted(e["section"] for e in ENTRIES if e["seed"] == seed) == sections
    assert len(ENTRIES) == sum(map(len, SECTIONS.values()))


@each_figure
def test_the_drawn_figure_is_the_seeds(entry: Entry) -> None:
    assert violations(drawn(entry), entry) == []


@each_kind
def test_another_arrow_is_noticed(entry: Entry) -> None:
    figure = drawn(entry)
    for place, edge in examined(figure):
        for style in set(ARROWS) - {edge.style}:
            edges = list(figure.edges)
            edges[place] = replace(edge, style=style)
            assert violations(replace(figure, edges=tuple(edges)), entry), Lines(figure).line(edge)


@each_kind
def test_a_missing_node_is_noticed(entry: Entry) -> None:
    figure = drawn(entry)
    for node in figure.nodes:
        if figure.columns and not node.id.endswith(" @0"):
            continue  # ranks do the same
        nodes = tuple(one for one in figure.nodes if one is not node)
        edges = tuple(one for one in figure.edges if node.id not in (one.tail, one.head))
        assert violations(replace(figure, nodes=nodes, edges=edges), entry), node.id


@each_kind
def test_a_missing_edge_is_noticed(entry: Entry) -> None:
    figure = drawn(entry)
    for _, edge in examined(figure):
        edges = tuple(one for one in figure.edges if one is not edge)
        assert violations(replace(figure, edges=edges), entry), Lines(figure).line(edge)


@each_kind
def test_a_missing_label_is_noticed(entry: Entry) -> None:
    figure = drawn(entry)
    counts = Counter((edge.tail, edge.label) for edge in figure.edges)
    for place, edge in examined(figure):
        is_only = counts[edge.tail, edge.label] == 1  # of several results, all are labeled
        if edge.label and is_only and edge.role is not EdgeRole.RESIDUAL:  # a lane repeats a shape
            edges = list(figure.edges)
            edges[place] = replace(edge, label=())
            assert violations(replace(figure, edges=tuple(edges)), entry), Lines(figure).line(edge)


def test_another_title_is_noticed() -> None:
    assert violations(replace(drawn(ENTRIES[0]), title="Another"), ENTRIES[0])
