"""The costs that figures print are those that `xg cost` counts, in blocks and in overviews."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pytest
from library import shipped

import xg
from xg.cost.communication import WAYS, Sending, Way, factor, traffic
from xg.figures.model.figure import Figure, FigureNode, NodeKind
from xg.figures.model.richtext import characters
from xg.figures.views import figure
from xg.figures.views.backward import backward_figure
from xg.figures.views.columns import in_usual_order
from xg.figures.views.forward import forward_figure
from xg.figures.views.notation import volume
from xg.ir.dim import Dim, symbol
from xg.ir.graph import IRProgram
from xg.ir.tensor import Sizes

LIBRARY = Path(__file__).parents[2] / "diagrams"
CASES = [
    ("transformer", "LM", "All"),
    ("transformer", "LM", "SP"),
    ("bert", "MLM", "DP"),  # a loss that sends in both passes
    ("bert", "MLM", "VP"),
    ("t5", "T5", "TP"),  # a block that is opened twice
    ("flow", "Flow", "DP_TP"),
]
each_case = pytest.mark.parametrize(("name", "block", "plan"), CASES)
Costs = dict[tuple[str, Way], Fraction]  # by mesh axis

# Both passes send: a part is taken on each rank.
_AGAIN = r"^(?!part ).*, (?!part )(?:[0-9]+ )?[A-Za-z0-9]+ in the backward pass"
_PRICE = r"^(?:[^:]*: )?(naive, ring|naive|ring) "  # maybe behind its passes
_AXIS = re.compile(r"(N_[DT])\b")


def number(text: str, sizes: Sizes) -> Fraction:
    """The value of a formula as it is printed, at sizes that divide nothing."""
    names = set(re.findall(r"[A-Za-z_]\w*", text))
    values = {name: size(name, sizes) for name in names}
    text = re.sub(r"\b(\d+)([A-Za-z(])", r"\1*\2", text)  # 8D
    text = text.replace("−", "-").replace("·", "*").replace("^", "**")
    return Fraction(eval(text, {}, values))


def size(name: str, sizes: Sizes) -> Fraction:
    if name in sizes.definitions:
        return number(str(sizes.definitions[name]), sizes)
    if name.startswith("S"):
        return Fraction(101)  # all sequences are equally long, so that a block has one S
    return Fraction(3 + sum(map(ord, name)))


def printed(node: FigureNode, sizes: Sizes) -> Costs:
    """The costs in a box or a bar, of all that it says is sent."""
    label = characters(node.label)
    match = _AXIS.search(label)
    assert match, label
    lines = [line for quiet in node.lines for line in characters(quiet).split(",  ")]
    found: Costs = defaultdict(Fraction)
    for line in lines:
        words, _, formula = re.sub(_PRICE, r"\1|", line).partition("|")
        for way in WAYS:
            if way in words:
                found[match[1], way] += number(formula, sizes)
    # A bar that tells of both passes prints a cost once that is the same in both.
    twice = re.search(_AGAIN, label) and sum("naive" in line for line in lines) == 1
    return {key: cost * (2 if twice else 1) for key, cost in found.items()}


def boxes(drawn: Figure, sizes: Sizes) -> Costs:
    return added(printed(n, sizes) for n in drawn.nodes if n.kind is NodeKind.COMMUNICATION)


def added(costs: Iterable[Costs]) -> Costs:
    found: Costs = defaultdict(Fraction)
    for one in costs:
        for key, cost in one.items():
            found[key] += cost
    return dict(found)


def counted(sendings: list[Sending], sizes: Sizes) -> Costs:
    def cost(sending: Sending, way: Way) -> Fraction:
        elements: Dim = sending.elements * factor(sending.kind, sending.over, way)
        return number(str(elements), sizes)

    return added({(one.over, way): cost(one, way)} for one in sendings for way in WAYS)


def compiled(name: str, block: str, plan: str) -> tuple[IRProgram, IRProgram]:
    found = xg.compile(shipped(name), block, plan)
    assert found.distributed
    return found.distributed, found.graphs


@each_case
def test_boxes_of_one_rank(name: str, block: str, plan: str) -> None:
    placed, ranks = compiled(name, block, plan)
    for key, graph in ranks.graphs.items():
        own = [one for one in traffic(replace(placed, entry=key)) if one.key == key]
        there = [one for one in own if one.direction == "forward"]
        back = [one for one in own if one.direction == "backward"]
        assert boxes(forward_figure(ranks, graph), graph.sizes) == counted(there, graph.sizes)
        drawn = backward_figure(ranks, ranks.backwards[key])
        assert boxes(drawn, graph.sizes) == counted(back, graph.sizes)


@each_case
def test_bars_of_an_overview(name: str, block: str, plan: str) -> None:
    placed, ranks = compiled(name, block, plan)
    sizes = ranks.main.sizes
    drawn = figure(ranks, "overview", placed=placed)
    found: list[Costs] = []
    for bar in drawn.bars:
        times = Fraction(1)
        for brace in drawn.braces:
            label = characters(brace.label)
            if bar.node.id in brace.nodes and label.startswith("× "):
                times *= number(label.split()[1], sizes)
        cost = printed(bar.node, sizes)
        found.append({key: one * times for key, one in cost.items()})
    assert added(found) == counted(list(traffic(placed)), sizes)


def test_sums_are_in_the_usual_order() -> None:
    d, wide, parts = symbol("D"), symbol("D_ff"), symbol("N_T")
    assert in_usual_order(d * 2 + d * wide * 2 + d * d * 4) == "4D^2 + 2*D*D_ff + 2D"
    assert in_usual_order(d * 3 / parts + d * d / parts + d) == "D^2/N_T + 3*D/N_T + D"


def test_factors_have_one_order() -> None:
    sizes = Sizes()
    d, wide, heads, long, batch = map(symbol, ("D", "D_ff", "N_H", "S_k", "B"))
    assert volume((wide, d), sizes) == volume((d, wide), sizes) == "D*D_ff"
    assert volume((batch, long, heads * wide), sizes) == "B*N_H*S_k*D_ff"
    assert volume((symbol("V"), d), sizes) == in_usual_order(symbol("V") * d) == "D*V"
    assert volume((symbol("S_max"), d), sizes) == in_usual_order(d * symbol("S_max")) == "S_max*D"
    assert volume((batch, symbol("N_P") + 1, d), sizes) == "B*(N_P + 1)*D"
    assert volume((batch, symbol("T"), symbol("C")), sizes) == "B*T*C"  # the author's own order


@pytest.mark.parametrize(("name", "block", "plan"), [("mlp", "MLP", "DP"), ("bert", "MLM", "DP")])
def test_no_figure_has_two_factors_in_both_orders(name: str, block: str, plan: str) -> None:
    program = xg.compile(shipped(name), block, plan)
    for view in ("forward", "backward", "overview"):
        pairs = set(_neighbors(program.figure(view)))
        assert [one for one in pairs if one[::-1] in pairs and one[0] != one[1]] == []
        assert pairs or view == "forward"


def _neighbors(drawn: Figure) -> Iterable[tuple[str, str]]:
    """Every two factors of a cost in a figure, in their order."""
    for node in (*drawn.nodes, *(bar.node for bar in drawn.bars)):
        for line in node.lines if node.kind is NodeKind.COMMUNICATION else ():
            for product in re.findall(r"[A-Z]\w*(?:·[A-Z]\w*)+", characters(line)):
                yield from combinations(product.split("·"), 2)
