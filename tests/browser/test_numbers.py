"""Numbers that pages compute: every operator, both passes, every rank, also after a change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import ops.trial
import pytest
from browser.chromium import script, view
from browser.conftest import Open
from browser.elements import node, one, press, step_with, texts
from ops.samples import SAMPLES
from ops.trial import Trial
from pages.explorer.pages import facts, page, program
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys
from tier import THOROUGH

import xg_runtime.ranks as ranks
from xg.driver import Program
from xg.ir.prim import Expr
from xg.ops import table
from xg.sharding.local import cuts
from xg.verify.reference import random as invented
from xg.verify.reference.evaluate import MEANING, Context, evaluate
from xg.verify.reference.interpret import Interpreter, Record, initial
from xg_pages.document import COMPUTING, asset
from xg_pages.explorer.facts import block_uses
from xg_pages.explorer.play import SEED, Tape, TapeSlot, at_small_sizes, first_records, proof_sizes

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
EXACT = 1e-12
RUN = f"""
{asset(COMPUTING[0] + ".js")}
const read = (text) => Number(text.replace("inf", "Infinity"));
const tensor = ([shape, data]) => array(shape, Float64Array.from(data, read));
const given = (operands) => operands.map((x) => [tensor(x)]);
const one = onMesh([{{}}]);
return {{
  names: Object.keys({{ ...PRIMITIVES, ...EXCHANGED }}),
  unknown: arguments[1].filter((name) => !(name in Math)),
  results: arguments[0].map(([body, operands, key]) =>
    computed(prepared(body), given(operands), one, key === null ? undefined : BigInt(key))
      .map(([x]) => [x.shape, [...x.data].map(String)])),
}};
"""


def agree(shown: Sequence[str], true: Array) -> None:
    """Every number to twelve digits; and which of them overflow."""
    numbers = np.asarray([float(each.replace("Infinity", "inf")) for each in shown]).reshape(
        true.shape
    )
    scale = max(1.0, float(np.max(np.abs(true), initial=0, where=np.isfinite(true))))
    np.testing.assert_allclose(numbers, np.asarray(true, float), rtol=EXACT, atol=EXACT * scale)


# ---- operators ----------------------------------------------------------------------------------


def test_every_operator_computes_what_numpy_does(
    driver: Chrome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both passes of every sample; and there is no primitive of which pages know nothing."""
    seen: list[list[object]] = []
    results: list[Array] = []
    names: set[str] = set()

    def watched(
        outputs: Sequence[Expr],
        operands: Mapping[str, Array],
        context: Context,
        order: object = None,
    ) -> list[Array]:
        values = evaluate(outputs, operands, context, cast(Any, order))
        tape = Tape()
        slots = {
            name: TapeSlot(tape, place, x.shape, x.dtype)
            for place, (name, x) in enumerate(operands.items())
        }
        tape.compute(outputs, slots, context)
        (body,) = map(json.loads, tape.bodies)
        names.update(each[0] for each in body[1])
        given = [
            [x.shape, [str(float(each)) for each in x.ravel().tolist()]] for x in operands.values()
        ]
        seen.append([body, given, tape.keys.get(0)])
        results.extend(values)
        return values

    monkeypatch.setattr(ops.trial, "evaluate", watched)
    for glyph, samples in SAMPLES.items():
        for sample in samples:
            trial = Trial.make(table()[glyph], sample)
            trial.outputs()
            trial.gradients()
    view(driver, 800, 600)
    driver.get("about:blank")
    found = script(driver, RUN, seen, sorted(MEANING))
    assert set(found["names"]) <= set(MEANING)
    assert set(found["unknown"]) <= set(found["names"])
    assert len(names) >= 30
    pairs = [pair for each in found["results"] for pair in each]
    for (shape, numbers), true in zip(pairs, results, strict=True):
        assert tuple(shape) == true.shape
        agree(numbers, true)


# ---- programs -----------------------------------------------------------------------------------

MORE = [
    *(("moe", None, None), ("transformer", "FSDP_TP", None), ("transformer", "Ring", None)),
    ("encoder_decoder", None, None),  # one block at two sizes
]
PAGES = [
    ("mlp", None, None),  # dropout
    ("gru", None, None),  # a loop
    ("vae", None, None),  # random numbers
    ("convnet", None, None),
    ("mlp", "DP × TP", None),
    ("node_i", None, "MLP_sp"),
    ("transformer", "Zigzag", None),
    *(MORE if THOROUGH else []),
    ("mixtral", "EP", None),
]
HELD = """return numbers(arguments[0], arguments[1]).map(
  ({ shape, data }) => (shape ? [shape, [...data].map(String)] : null))"""


def small(name: str, plan: str | None, block: str | None) -> Program:
    """The program that the page runs."""
    one = program(name, plan, block)
    sizes = proof_sizes(one, {})
    found = at_small_sizes(one, {}, sizes, {})
    assert found
    return found


def drawn(program: Program) -> tuple[Arrays, Arrays, Arrays]:
    """Parameters, inputs and cotangents as pages draw them."""
    alone = program.on_one_device.graphs
    params, inputs = initial(alone, SEED), invented.inputs(alone, SEED)
    outputs, _ = Interpreter(alone, params, SEED).forward(inputs)
    return params, inputs, invented.cotangents(outputs, SEED)


def truth(program: Program, arrays: tuple[Arrays, Arrays, Arrays]) -> list[Record]:
    """The reference interpreter's record of every rank, or of the one device."""
    params, inputs, cotangents = arrays
    graphs = program.graphs
    if not graphs.mesh:
        interpreter = Interpreter(graphs, params, SEED)
        _, record = interpreter.forward(inputs)
        interpreter.backward(record, cotangents)
        return [record]
    where = cuts(graphs)

    def rank() -> Record:
        mine = ranks.local_shards(params, where)
        interpreter = Interpreter(graphs, mine, SEED, mesh=cast(Any, ranks))
        _, record = interpreter.forward(ranks.local_shards(inputs, where))
        interpreter.backward(record, ranks.local_shards(cotangents, where))
        return record

    return list(ranks.simulate(graphs.mesh, rank))


def check(driver: Chrome, program: Program, arrays: tuple[Arrays, Arrays, Arrays]) -> int:
    """Every value of every block on every rank."""
    checked = 0
    for rank, record in enumerate(truth(program, arrays)):
        first = first_records(record)
        for use in block_uses(program.graphs):
            values = first[use.graph.key]
            known = values.reverse or values.values
            shown = script(driver, HELD, use.place, rank)
            for value, each in zip(use.values(), shown, strict=True):
                assert (each is None) == (value not in known)
                if each:
                    assert tuple(each[0]) == known[value].shape
                    agree(each[1], np.asarray(known[value], float))
                    checked += 1
    return checked


@pytest.mark.parametrize(("name", "plan", "block"), PAGES)
def test_pages_compute_what_numpy_does_also_after_a_change(
    opened: Open, name: str, plan: str | None, block: str | None
) -> None:
    driver = opened(text=page(name, plan, block))
    one = small(name, plan, block)
    arrays = drawn(one)
    assert check(driver, one, arrays) > 10
    change = "change(arguments[0], arguments[1], 0.7371)"
    main = one.graphs.main
    own = {*main.inputs, *main.param_values()}
    names = [each for each, *_ in facts(page(name, plan, block))["blocks"][0]["values"]]
    for shown, value in zip(names, block_uses(one.graphs)[0].values(), strict=True):
        if value in own and main.types[value].is_float:
            (array,) = (held[str(value.name)] for held in arrays[:2] if str(value.name) in held)
            index = [size - 1 for size in array.shape]
            array[tuple(index)] = 0.7371
            script(driver, change, shown, index)
    assert check(driver, one, arrays) > 10


# ---- by hand ------------------------------------------------------------------------------------


def test_a_number_that_is_typed_changes_both_passes(opened: Open) -> None:
    driver = opened("mlp")
    program_ = small("mlp", None, None)
    arrays = drawn(program_)
    node(driver, step_with("mlp", "H • W_up")).click()
    one(driver, "#tab-numbers").click()
    before = texts(driver, "#numbers figure:first-of-type td")
    box = one(driver, '#numbers [aria-label="W_up, row 2, column 3"]')
    box.click()
    box.send_keys("-2.5")
    arrays[0]["W_up"][1, 2] = -2.5
    check(driver, program_, arrays)
    after = texts(driver, "#numbers figure:first-of-type td")
    assert [
        place % 12
        for place, pair in enumerate(zip(before, after, strict=True))
        if pair[0] != pair[1]
    ] == [2] * 5
    box.send_keys(Keys.ARROW_DOWN)
    assert driver.switch_to.active_element.accessible_name == "W_up, row 3, column 3"
    assert box.get_attribute("value") == "−2.5"
    one(driver, "#again").click()
    assert texts(driver, "#numbers figure:first-of-type td") == before


def test_a_cell_shows_the_row_and_the_column_that_made_it(opened: Open) -> None:
    driver = opened("mlp")
    node(driver, step_with("mlp", "H • W_up")).click()
    one(driver, "#tab-numbers").click()
    cell = one(driver, "#numbers figure tr:nth-of-type(2) td:nth-of-type(3)")
    cell.click()
    marked = """const at = (cell) => [cell.parentNode.rowIndex, cell.cellIndex];
        return [...document.querySelectorAll("#numbers figure")].map(
        (figure) => [...figure.querySelectorAll(".source")].map(at))"""
    assert script(driver, marked) == [[], [[1, 0], [1, 1], [1, 2]], [[0, 2], [1, 2], [2, 2]]]
    press(driver, Keys.ARROW_RIGHT)
    assert script(driver, marked)[2] == [[0, 3], [1, 3], [2, 3]]
    press(driver, Keys.TAB)
    assert not script(driver, marked)[1]


def test_every_matrix_of_a_tensor_can_be_seen(opened: Open) -> None:
    driver = opened("mlp")
    one(driver, "#tab-numbers").click()
    first = texts(driver, "#numbers figure:first-of-type input")
    title = '[aria-label="X, row 1, column 1"]'
    before = one(driver, title).get_attribute("value")
    one(driver, '[aria-label="Next matrix of X"]').click()
    assert one(driver, "#numbers .matrix").text == "matrix 2 of 2"
    assert one(driver, title).get_attribute("value") != before
    assert len(texts(driver, "#numbers figure:first-of-type input")) == len(first) == 15


@pytest.mark.parametrize(
    ("name", "box", "typed", "said"),
    [
        ("mlp", "X, row 1, column 2", "1e", "X takes numbers, not 1e"),
        ("embedding", "ids, row 1, column 1", "11", "ids takes whole numbers from 0 to 10, not 11"),
    ],
)
def test_what_is_no_number_is_refused(
    opened: Open, name: str, box: str, typed: str, said: str
) -> None:
    driver = opened(name)
    one(driver, "#tab-numbers").click()
    cell = one(driver, f'#numbers [aria-label="{box}"]')
    cell.click()
    cell.send_keys(typed)
    assert one(driver, "#wrong").text == said
    assert cell.get_attribute("aria-invalid") == "true"
    cell.send_keys(Keys.TAB)
    assert one(driver, "#wrong").text == ""
    assert cell.get_attribute("value") == typed[0]  # the last that was a number


def test_a_rank_changes_its_part_of_the_whole(opened: Open) -> None:
    """Ranks that hold the same part compute with the new number too."""
    driver = opened(text=page("mlp", "DP × TP"))
    program_ = small("mlp", "DP × TP", None)
    arrays = drawn(program_)
    one(driver, '#axes input[name="rank-N_T"][value="1"]').click()
    one(driver, "#tab-numbers").click()
    box = one(driver, '#numbers [aria-label="W_up, row 1, column 2"]')
    box.click()
    box.send_keys("3")
    arrays[0]["W_up"][0, 7] = 3
    check(driver, program_, arrays)


COUNTED = """
const { from } = Float64Array;
globalThis.made = 0;
Float64Array.from = (...all) => { globalThis.made += 1; return from.apply(Float64Array, all); };
"""


def test_a_part_is_numbered_once_and_not_for_every_cell(opened: Open) -> None:
    """The tables of a cut parameter ask of every cell where it is in the whole."""
    driver = opened(text=page("mlp", "DP × TP"))
    one(driver, "#tab-numbers").click()
    cells = driver.find_elements("css selector", '#numbers [aria-label^="W_up, row"]')
    script(driver, COUNTED)
    for tab in ("code", "numbers") * 2:
        one(driver, f"#tab-{tab}").click()
    assert cells
    assert script(driver, "return globalThis.made") == 0
