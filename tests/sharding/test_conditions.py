"""Single conditions of placing, each where it alone decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import xg
from xg.cost.communication import sends
from xg.frontend.choices import checked
from xg.frontend.project import read_project
from xg.ir.collectives import all_reduce_max
from xg.ir.dim import symbol
from xg.ir.graph import Apply, Step
from xg.ir.placement import CONSTANT, INVARIANT, LARGEST, PARTIAL, AxisState, shard
from xg.ir.prim import operand
from xg.passes.shard import Unsound, check
from xg.passes.shard.axis_placement import BlockPlacer
from xg.passes.shard.calls import Placing
from xg.sharding.primitive_rules import RULES, IllTyped, PlacedArgument

NET = """\
dim B, D = 12, N_L = 2
mesh N_P = 3, N_D = 2, N_T = 3
option act = tanh | ReLU
option head = tied | own

block F(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> tanh -> •<=W : H [B, D]
      -> tanh : Y
}

block Deep(X [B, D]) -> Y [B, D] {
    X -> F as first -> F as second : Y
}

block Net(X [B, D]) -> Y [B, D], loss [] {
    param E [D, D], V [D, D]
    X -> •<=E -> act -> N_L × Deep as layers : M [B, D]
      -> •<=T(E) if head = tied -> •<=V if head = own : Y
      -> MSE<-X : loss
}

block G(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W : H [B, D]
      -> GELU : Y
}

block Wide(X [B, D]) -> Y [B, D] {
    param W [D, D], b [D]
    X -> •<=W -> ⊕<-BC(b) : Y
}

block Tied(X [B, D]) -> Y [B, D] {
    param E [D, D]
    X -> •<=E -> N_L × F as layers -> •<=E : Y
}

plan Away of Deep {
    first again
}

plan Own of Net {
    V [D, D/N_T]
}

plan Scattered of G {
    W [D/N_T, D]
    H [B/N_T, D] again
}

plan Pipe of Tied {
    layers [N_L/N_P]
}

plan DP of Wide {
    X [B/N_D, D]
}

plan TP of F {
    W [D/N_T, D]
}

plan TP of Wide {
    W [D, D/N_T]
    b [D/N_T]
}

plan Both = DP × TP
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("conditions") / "net.xg"
    path.write_text(NET, encoding="utf-8")
    return path


def test_a_plan_of_another_block_is_of_nothing_here(file: Path) -> None:
    """Neither what it has computed again, nor what it places where this choice has no value."""
    with pytest.raises(xg.DiagnosticError, match="Away"):
        xg.compile(file, block="F", plan="Away")
    with pytest.raises(xg.DiagnosticError, match="Own"):
        xg.compile(file, block="Net", plan="Own")
    assert xg.compile(file, block="Deep", plan="Away").graphs.backwards


def test_a_step_of_a_rank_says_so_once(file: Path) -> None:
    """Also where two mesh axes have made it of a rank, one after the other."""
    graphs = xg.compile(file, block="Wide", plan="Both").graphs.graphs
    said = [
        step.op.description(step.attrs).meaning.count("one rank's part")
        for graph in graphs.values()
        for step in graph.steps
        if isinstance(step, Apply) and step.op.local
    ]
    assert said
    assert set(said) == {1}


def test_what_is_computed_again_has_to_be_where_it_was(file: Path) -> None:
    """A sum is scattered along B, and along D where it is made again."""
    program = xg.compile(file, block="G", plan="Scattered").distributed
    assert program
    check(program)
    backward = program.backwards[program.entry]
    steps = tuple(elsewhere(step) for step in backward.steps)
    assert steps != backward.steps
    backwards = {program.entry: replace(backward, steps=steps)}
    with pytest.raises(Unsound, match=r"RS makes S\(-1\), not S\(-2\), again"):
        check(replace(program, backwards=backwards))


def elsewhere(step: Step) -> Step:
    """The step, where it scatters a sum again, along the other axis."""
    if not isinstance(step, Apply) or step.op.glyph != "RS" or not step.again:
        return step
    return replace(step, attrs={**step.attrs, "target": shard(-1)})


@pytest.mark.parametrize("state", [shard(-1), shard(-2), LARGEST, INVARIANT, CONSTANT])
def test_a_maximum_over_another_axis_says_nothing_of_this_one(state: AxisState) -> None:
    x = operand("x", (symbol("B"), symbol("D")))
    rule = RULES[all_reduce_max.PRIMITIVE.name]
    assert rule(all_reduce_max.PRIMITIVE(x, "N_T"), [PlacedArgument(x, state)]) == state


def test_a_maximum_over_another_axis_takes_no_term_of_a_sum() -> None:
    x = operand("x", (symbol("B"), symbol("D")))
    with pytest.raises(IllTyped):
        RULES[all_reduce_max.PRIMITIVE.name](
            all_reduce_max.PRIMITIVE(x, "N_T"), [PlacedArgument(x, PARTIAL)]
        )


def test_what_two_stages_hold_goes_to_the_first_and_back(file: Path) -> None:
    stages = xg.compile(file, block="Tied", plan="Pipe", sizes={"N_L": 3}).stages
    placed = [stage.distributed for stage in stages]
    shared = [
        [(each.source, each.target) for each in sends(one) if not each.repeats]
        for one in placed
        if one
    ]
    assert shared == [[(0, 2)], [], [(2, 0)]]


def test_a_block_is_placed_once_for_all_choices(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of F, Deep and Net, on the mesh of a plan, only Net differs from choice to choice."""
    placed: list[str] = []
    run = BlockPlacer.run

    def noted(placer: BlockPlacer) -> Placing:
        placed.append(placer.graph.block)
        return run(placer)

    monkeypatch.setattr(BlockPlacer, "run", noted)
    found = checked(read_project(file), "Net", {}, "TP")
    assert not found.diagnostics
    assert (placed.count("F"), placed.count("Deep")) == (1, 1)


FAR = """\
dim B, S = 4, D = 4
mesh N_T = 2
block Net(X [B, S, D]) -> Y [B, S, D] {
    param W [D, D], b [D]
    X -> •<=W -> ⊕<-BC(b) -> tanh -> DO(0.1) : Y
}
plan SP of Net {
    X [B, S, D/N_T]
    W [D/N_T, D]
    Y [B, S/N_T, D]
}
"""


def test_a_placement_is_asked_for_through_several_elementwise_steps(tmp_path: Path) -> None:
    """The sum is scattered where it is made, and no rank has the whole of it."""
    (tmp_path / "far.xg").write_text(FAR, encoding="utf-8")
    program = xg.compile(tmp_path / "far.xg", plan="SP").distributed
    assert program
    made = [step.op.glyph for step in program.main.steps if isinstance(step, Apply)]
    assert made == ["•", "RS", "cast", "BC", "⊕", "tanh", "DO"]


MADE_AGAIN = """\
dim F = 8, E = 4
mesh {mesh}

block Main(x [F, 2]) -> y [2, F, E] {{
    param γ [E]
    x -> BC[f, d -> e=E, f, d] : p [E, F, 2]
    p -> T[e, f, d -> d, f, e] -> ⊙<-BC(γ) : y
}}

plan P of Main {{
    γ [E/N_T]
    p [E, F/N_D, 2]
}}
"""


@pytest.mark.parametrize("mesh", ["N_D = 2, N_T = 2", "N_T = 2, N_D = 2"])
def test_a_value_that_is_made_in_parts_is_where_its_line_says(mesh: str, tmp_path: Path) -> None:
    """N_T has p made in parts, in the place of the whole, whose line for N_D holds for them."""
    file = tmp_path / "again.xg"
    file.write_text(MADE_AGAIN.format(mesh=mesh), encoding="utf-8")
    ranks = xg.compile(file, plan="P").distributed
    assert ranks
    found = [p for p, _ in ranks.main.placements.items() if p.name == "p"]
    assert [ranks.main.placements[p] for p in found] == [{"N_D": shard(-2), "N_T": shard(-3)}]
