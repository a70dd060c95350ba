"""The figures of the seeds: what is drawn is held against `diagrams/manifest.json`.

The manifest says for every figure which glyphs, tensors and edges it has; the rules below are
those of seed 001, section 4, and hold for all of them. An edge is written `T ⇒ • : K⊤ [B, N_H, D_h,
S]`: its ends as they are labelled, single →, double ⇒ or dashed ⇢, and the tensor that it carries.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypedDict, cast

import pytest

import xg
from xg.backends.graphviz.figure import EdgeRole, EdgeStyle, Figure, FigureEdge, NodeKind
from xg.backends.graphviz.richtext import RichText, characters, title_text

LIBRARY: Final = Path(__file__).parents[1] / "diagrams"
SECTIONS: Final = {
    "000": ["6", "6"],
    "001": [
        *("4.3", "4.3", "5.1", "5.2.1", "5.2.1", "5.3.1", "5.3.2"),
        *("5.4.1", "5.4.2", "5.5.1", "5.5.2"),
    ],
}
QUIET: Final[dict[NodeKind, Literal["tensors", "saved"]]] = {
    NodeKind.TENSOR: "tensors",
    NodeKind.SAVED: "saved",
}
ARROWS: Final = {EdgeStyle.SINGLE: "→", EdgeStyle.DOUBLE: "⇒", EdgeStyle.DASHED: "⇢"}
INTEGERS: Final = ("ids [B, S]", "t [B, S]")  # no gradient flows into them
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
    operators: dict[str, dict[str, int]]
    own: list[str]
    tensors: list[str]
    saved: list[str]
    edges: list[str]


def read_manifest() -> list[Entry]:
    manifest = json.loads((LIBRARY / "manifest.json").read_text(encoding="utf-8"))
    return cast("list[Entry]", manifest["figures"])


ENTRIES: Final = read_manifest()
each_figure = pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: f"{e['file']}-{e['view']}")


def drawn(entry: Entry) -> Figure:
    return xg.compile(LIBRARY / entry["file"], block=entry["block"]).figure(entry["view"])


def written(text: RichText) -> str:
    return characters(text).replace("^⊤", "⊤")


def carried(figure: Figure, edge: FigureEdge) -> str:
    """What an edge carries: a tensor at an end, its own label, or a sibling from the same node."""
    nodes = {node.id: node for node in figure.nodes}
    ends = [nodes[end] for end in (edge.tail, edge.head)]
    tensors = [end.label for end in ends if end.kind in QUIET]
    siblings = [
        one.label
        for one in figure.edges
        if one.tail == edge.tail and one.style is not EdgeStyle.DASHED
    ]
    known = (edge.label,) if edge.style is EdgeStyle.DASHED else (*tensors, edge.label, *siblings)
    return written(next((text for text in known if text), ()))


def line(figure: Figure, edge: FigureEdge) -> str:
    labels = {node.id: written(node.label) for node in figure.nodes}
    tail, head, tensor = labels[edge.tail], labels[edge.head], carried(figure, edge)
    arrow = f"{tail} {ARROWS[edge.style]} {head}"
    return arrow if tensor in (tail, head) else f"{arrow} : {tensor}"


def violations(figure: Figure, entry: Entry) -> list[str]:
    """Everything in which a drawn figure differs from its entry or breaks the notation."""
    return [*_against_entry(figure, entry), *_against_rules(figure, entry["view"])]


def _against_entry(figure: Figure, entry: Entry) -> Iterator[str]:
    heading = characters(title_text(figure.title, figure.subtitle))
    if heading != entry["heading"]:
        yield f"the heading is {heading}"
    printed = {written(node.detail) for node in figure.nodes if node.detail}
    yield from (f"in a box: {one}" for one in sorted(printed ^ set(entry["own"])))
    glyphs: dict[str, Counter[str]] = {}
    for node in figure.nodes:
        glyphs.setdefault(node.kind.name.lower(), Counter())[written(node.label)] += 1
    for kind, name in QUIET.items():
        found = set(glyphs.pop(kind.name.lower(), Counter[str]()))
        yield from (f"{name}: {one}" for one in sorted(found.symmetric_difference(entry[name])))
    if glyphs != entry["operators"]:
        yield f"the operators are {glyphs}"
    lines, wanted = Counter(line(figure, edge) for edge in figure.edges), Counter(entry["edges"])
    yield from (f"missing: {one}" for one in wanted - lines)
    yield from (f"not in the manifest: {one}" for one in lines - wanted)


def _against_rules(figure: Figure, view: str) -> Iterator[str]:
    kinds = {node.id: node.kind for node in figure.nodes}
    entering = {node.id: [e for e in figure.edges if e.head == node.id] for node in figure.nodes}
    for edge in figure.edges:
        tensor = carried(figure, edge)
        if "[" not in tensor and tensor not in SCALARS:
            yield f"no shape: {line(figure, edge)}"
        if edge.style is EdgeStyle.DOUBLE and kinds[edge.head] is not NodeKind.MATMUL:
            yield f"double, but not into a matmul: {line(figure, edge)}"
    for node in figure.nodes:
        styles = Counter(e.style for e in entering[node.id] if e.style is not EdgeStyle.DASHED)
        if node.kind is NodeKind.MATMUL and styles != {EdgeStyle.SINGLE: 1, EdgeStyle.DOUBLE: 1}:
            yield f"{node.id} has {styles}"
    if view == "backward":
        yield from _gradients(figure, kinds)
    yield from _dashes(figure, view)


def _gradients(figure: Figure, kinds: dict[str, NodeKind]) -> Iterator[str]:
    """What flows is a gradient; dW = X⊤ • dY takes X⊤ by the single and dY by the double edge."""
    labels = {node.id: written(node.label) for node in figure.nodes}
    params = {e.head: e.tail for e in figure.edges if labels[e.head].startswith("dW")}
    for edge in figure.edges:
        flows = kinds[edge.tail] not in QUIET
        if flows and not carried(figure, edge).startswith(("d", "[")):
            yield f"no leading d: {line(figure, edge)}"
        if edge.head in params.values() and kinds[edge.head] is NodeKind.MATMUL:
            gradient = flows or labels[edge.tail].startswith("d")
            if gradient != (edge.style is EdgeStyle.DOUBLE):
                yield f"X⊤ and dY have changed places: {line(figure, edge)}"
    for node in figure.nodes:
        if node.kind is NodeKind.NONLINEAR and not labels[node.id].startswith("d"):
            yield f"no leading d: {node.id}"


def _dashes(figure: Figure, view: str) -> Iterator[str]:
    """Dashed arrows run back along every flow edge of an overview and nowhere else."""
    labels = {node.id: written(node.label) for node in figure.nodes}
    dashed = {(e.head, e.tail): e for e in figure.edges if e.style is EdgeStyle.DASHED}
    flow = {
        (edge.tail, edge.head)
        for edge in figure.edges
        if edge.role is EdgeRole.MAIN and edge.style is not EdgeStyle.DASHED
        if view == "overview" and labels[edge.tail] not in INTEGERS
    }
    yield from (f"dashes: {tail}, {head}" for tail, head in flow ^ dashed.keys())
    for edge in dashed.values():
        if not written(edge.label).startswith("d"):
            yield f"no leading d: {line(figure, edge)}"


def test_the_manifest_has_every_figure_of_the_seeds() -> None:
    for seed, sections in SECTIONS.items():
        assert sorted(e["section"] for e in ENTRIES if e["seed"] == seed) == sections
    assert len(ENTRIES) == sum(map(len, SECTIONS.values()))


@each_figure
def test_the_drawn_figure_is_the_seeds(entry: Entry) -> None:
    assert violations(drawn(entry), entry) == []


@each_figure
def test_another_arrow_is_noticed(entry: Entry) -> None:
    figure = drawn(entry)
    for place, edge in enumerate(figure.edges):
        for style in set(EdgeStyle) - {edge.style}:
            edges = list(figure.edges)
            edges[place] = replace(edge, style=style)
            assert violations(replace(figure, edges=tuple(edges)), entry), line(figure, edge)


@each_figure
def test_a_missing_node_is_noticed(entry: Entry) -> None:
    figure = drawn(entry)
    for node in figure.nodes:
        nodes = tuple(one for one in figure.nodes if one is not node)
        edges = tuple(one for one in figure.edges if node.id not in (one.tail, one.head))
        assert violations(replace(figure, nodes=nodes, edges=edges), entry), node.id


@each_figure
def test_a_missing_edge_is_noticed(entry: Entry) -> None:
    figure = drawn(entry)
    for edge in figure.edges:
        edges = tuple(one for one in figure.edges if one is not edge)
        assert violations(replace(figure, edges=edges), entry), line(figure, edge)


@each_figure
def test_a_missing_label_is_noticed(entry: Entry) -> None:
    figure = drawn(entry)
    for place, edge in enumerate(figure.edges):
        if edge.label and edge.role is not EdgeRole.RESIDUAL:  # a lane repeats a shape
            edges = list(figure.edges)
            edges[place] = replace(edge, label=())
            assert violations(replace(figure, edges=tuple(edges)), entry), line(figure, edge)


def test_another_title_is_noticed() -> None:
    assert violations(replace(drawn(ENTRIES[0]), title="Another"), ENTRIES[0])
