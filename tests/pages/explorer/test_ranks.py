"""Pages of parallel programs: what ranks send, share and hold in them is what it truly is."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from library import shipped
from pages.explorer.pages import DIAGRAMS, facts, later, page, program, value
from tier import THOROUGH

from xg.cost.communication import WAYS, inside_of, spell_factor
from xg.cost.communication import total as sent_in_all
from xg.cost.cost import cost
from xg.cost.report import report
from xg.diagnostics.diagnostic import DiagnosticError
from xg.driver import compile_project
from xg.frontend.plan_in_choices import plans_of
from xg.frontend.project import read_project
from xg.ir.collectives import BY_GLYPH
from xg_pages.explorer import SIZE_AT_MOST, explore
from xg_pages.explorer.facts import block_uses

PLANNED = [
    ("mlp", "DP × TP", None),
    ("gpt2", "FSDP_TP", None),
    ("gpt2", "SP", None),
    *([("llama", "SP", None), ("transformer", "FSDP_TP", None)] if THOROUGH else []),
    ("node_i", None, "MLP_sp"),
]
planned = pytest.mark.parametrize(("name", "plan", "block"), PLANNED)
MESH = (2, 3, 5)
SIZES = (60, 120, 180, 240, 300, 360, 420, 480)


def numbers(known: Any) -> dict[str, int]:  # noqa: ANN401 - JSON
    """A number for every symbol of a page, each another."""
    mesh = {each["name"]: size for each, size in zip(known["mesh"], MESH, strict=False)}
    names = [each["name"] for each in known["sizes"]]
    return {**mesh, **{name: 7 * size + 60 * i for i, (name, size) in enumerate(_cycled(names))}}


def _cycled(names: list[str]) -> list[tuple[str, int]]:
    return [(name, SIZES[i % len(SIZES)]) for i, name in enumerate(names)]


# ---- costs --------------------------------------------------------------------------------------


@planned
def test_costs_of_a_rank_are_those_of_xg_cost(
    name: str, plan: str | None, block: str | None
) -> None:
    one, known = program(name, plan, block), facts(page(name, plan, block))
    at = numbers(known)
    rows = [s["cost"] for s in known["blocks"][0]["forward"]]
    rows += [row for _, row in known["blocks"][0]["other"]]
    for column, total in enumerate(cost(one.graphs).total.dims()):
        summed = sum(value(known["formulas"][row[column]], at) for row in rows)
        assert summed == value(str(total), at)


@planned
def test_what_is_sent_is_what_xg_cost_says(name: str, plan: str | None, block: str | None) -> None:
    """Of every block: which collectives, how often, and what each sends; the step is the one."""
    one, known = program(name, plan, block), facts(page(name, plan, block))
    assert one.distributed
    at = numbers(known)
    for use in block_uses(one.graphs):
        inner = {**at, **{n: int(value(str(d), at)) for n, d in use.symbols.items()}}
        parts = inside_of(one.distributed, use.graph.key, "float32")
        rows = known["blocks"][use.place]["sent"]
        for row, part in zip(rows, parts, strict=True):
            assert row[:3] == [part.direction, part.glyph, part.over]
            dims = (part.calls, part.payload, part.elements("naive"), part.elements("ring"))
            for place, dim in zip(row[3:7], dims, strict=True):
                assert value(known["formulas"][place], at) == value(str(dim), inner)
            assert row[9:] == [spell_factor(part.kind, part.over, way) for way in WAYS]
            place, number = row[8].split(".")
            view = {"f": "forward", "b": "backward"}[number[0]]
            step = known["blocks"][int(place)][view][int(number[1:])]
            sign, *_ = known["operators"][step["operator"]]
            # A call that the backward pass runs again sends where its forward pass did.
            assert view == part.direction or part.direction == "backward"
            assert sign == row[1] or sign not in BY_GLYPH  # or it sends inside
            assert step.get("line", part.line) == part.line


def test_plans_side_by_side_are_those_of_xg_cost() -> None:
    known = facts(page("mha"))
    at = numbers(known)
    project = read_project(DIAGRAMS / "notation" / "mha.xg")
    assert [plan["name"] for plan in known["plans"]] == ["", *plans_of(project)]
    for plan in known["plans"]:
        one = compile_project(project, None, None, plan["name"] or None)
        found = report(one.graphs, one.distributed)
        flops = found.total.forward + found.total.backward
        sent = [sent_in_all(found.sent, way) for way in ("naive", "ring")]
        wanted = (found.total.parameters, found.memory.total, flops, *sent)
        shown = [value(known["formulas"][place], at) for place in plan["costs"]]
        sizes = one.graphs.main.sizes
        assert shown == [value(str(sizes.expand(dim)), at) for dim in wanted]


# The page of the MLP is one that other tests read.
OF_MLP: list[tuple[str, str, dict[str, int]]] = [("mlp", "DP × TP", {})]
OF_MHA = [("mha", "DP_TP", {"N_H": heads}) for heads in (4, 8)]
MESHES = [(1, 1), (2, 2), (3, 3), (4, 1), (1, 4), (2, 5), (3, 6)]


@pytest.mark.parametrize(("name", "plan", "own"), [*OF_MLP, *(OF_MHA if THOROUGH else [])])
def test_numbers_are_refused_where_the_compiler_refuses_them(
    name: str, plan: str, own: dict[str, int]
) -> None:
    """Every number of ranks along either axis, where thorough with each along the other."""
    known = facts(page(name, plan))
    project = read_project(shipped(name))
    verdicts: set[bool] = set()
    for data, tensor in product(range(1, 5), range(1, 7)) if THOROUGH else MESHES:
        at = {**own, "B": 6, "S": 4, "D": 64, "N_D": data, "N_T": tensor}
        try:
            compile_project(project, None, at, plan)
            allowed = True
        except DiagnosticError:
            allowed = False
        assert allowed == _allowed(known, at), at
        verdicts.add(allowed)
    assert verdicts == {True, False}


def _allowed(known: Any, at: dict[str, int]) -> bool:  # noqa: ANN401 - JSON
    for place, _, over in known["whole"]:
        ranks = int(np.prod([at[axis] for axis in over], dtype=int))
        if (value(known["formulas"][place], at) / ranks).denominator > 1:
            return False
    return True


# ---- numbers of ranks ---------------------------------------------------------------------------


def test_a_slice_says_of_what_it_is_one() -> None:
    known = facts(page("mlp", "DP × TP"))
    values = {name: lies for name, _, *lies in known["blocks"][0]["values"]}
    assert values["W_up"] == [{"N_T": [1, "D_ff"]}]
    assert values["U"] == [{"N_D": [0, "B"], "N_T": [2, "D_ff"]}]
    assert values["U • W_down"] == [{"N_D": [0, "B"], "N_T": "P"}]
    assert values["γ"] == []


def test_a_large_mesh_is_played_on_few_ranks() -> None:
    project = read_project(DIAGRAMS / "notation" / "mlp.xg")
    large = {"N_D": 4, "N_T": 4}
    made = explore(compile_project(project, None, large, "DP_TP"), large).page.decode()
    assert [each["value"] for each in facts(made)["mesh"]] == [4, 4]
    assert len(facts(made)["runs"]) == 4


# ---- pages --------------------------------------------------------------------------------------


@planned
def test_a_page_of_ranks_is_small_and_complete(
    name: str, plan: str | None, block: str | None
) -> None:
    text = page(name, plan, block)
    assert len(text.encode()) <= SIZE_AT_MOST
    known = facts(text)
    assert known["ranks"] == list(program(name, plan, block).graphs.mesh)
    assert len(known["runs"]) == int(np.prod([each["value"] for each in known["mesh"]]))
    drawn = (text + later(text)).count('class="node communication"')
    sent = {row[8] for each in known["blocks"] for row in each["sent"]}
    assert drawn >= len({each for each in sent if ".f" in each}) > 0


def test_a_page_that_is_too_large_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xg_pages.explorer.SIZE_AT_MOST", 10_000)
    (warning,) = explore(program("mlp", "TP"), {}).warnings
    assert "more than 10,000; that of one of its blocks is smaller: --block NAME" in warning
