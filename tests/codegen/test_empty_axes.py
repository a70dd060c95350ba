"""Axes of length 0: every form agrees with torch's autograd, or names the axis that it refuses."""

from __future__ import annotations

import re

import pytest
from fuzz.edge_proof import EdgeCase, Form, compiled, prove_edges, written
from fuzz.operator_programs import operator_programs
from fuzz.test_structural_zeros import Case
from ops.sample import SIZES
from tier import THOROUGH

from xg.diagnostics.source import Source
from xg.ir.graph import Apply, IRProgram
from xg.ir.known_sizes import carried_symbols
from xg.syntax.parse import parse

HEAD = "dim B, D = 2, K = 3\n\nblock Cell(x [D], f [D]) -> y [{y}] {{\n"
MAIN = """}}

block Main(Z [B, D], F [B, D]{start}) -> Y [B, {y}]{last} {{
    Z -> tanh -> Cell{given}<-F over B{order} as c : Y{named}
}}
"""


def loop(*lines: str, y: str = "D", state: bool = True, order: str = "") -> str:
    """A loop over B; one that goes from the end begins with a state of the caller's."""
    start = ", h0 [D]" if order else ""
    main = MAIN.format(
        start=start,
        y=y,
        last=", h_last [D]" if state else "",
        given="(h=h0)" if order else "",
        order=order,
        named=", h_last" if state else "",
    )
    return HEAD.format(y=y) + "".join(f"    {line}\n" for line in lines) + main


WEIGHTS = ("param w [D], W [K, D]", "state h [D]")
LOOPS = {
    "no state": loop("param w [D]", "x -> ⊙<-w -> ⊕<-f -> tanh : y", state=False),
    "a state": loop("param w [D]", "state h [D]", "h -> ⊕<-x -> ⊙<-w : y", "next h = y"),
    "a state that begins as the caller says": loop(
        *WEIGHTS,
        "h -> ⊙<-f -> ⊕<-x -> ⊙<-w -> tanh : h2",
        "h2 -> BC : a [K, D]",
        "a -> ⊙<-W : y",
        "next h = h2",
        y="K, D",
        order=" reversed",
    ),
    "a linear recurrence": loop(
        "state h [D]", "f -> sigmoid -> ⊙<-h -> ⊕<-x : y", "next h = y", order=" reversed"
    ),
    "a gradient that stops": loop(
        "state h [D]", "h -> stop -> ⊕<-x -> ⊙<-f : y", "next h = y", order=" reversed"
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_of_no_rounds_ends_as_it_began(name: str) -> None:
    """Its stacks are empty, its gradient is that of the last state, its weights get zeros."""
    prove_edges(Case(LOOPS[name], {"B": 0}), seed=0, every=True)
    prove_edges(Case(LOOPS[name], {"B": 1}), seed=3, every=THOROUGH)


USES = list(operator_programs())
REFUSED = re.compile(r" = 0: |is more than .*: |: it is at least 1")


# NumPy warns of a mean of nothing, and gives the NaN that torch gives.
@pytest.mark.filterwarnings(
    "ignore:Mean of empty slice", "ignore:invalid value", "ignore:divide by zero"
)
@pytest.mark.parametrize("text", [text for text, _ in USES], ids=[use for _, use in USES])
def test_an_operator_agrees_with_torch_or_names_the_empty_axis(text: str) -> None:
    """Each axis of its operands in turn."""
    program = compiled(parse(Source("case.xg", text)), Case(text, {}), dead=False)
    forms = [form for form in written(program, {}, jax=THOROUGH) if "Model" not in form.name]
    numbers = {name: SIZES[name] for name in ("B", *program.main.sizes.defaults)}
    for name in axes_of_data(program):
        case = EdgeCase.draw(program, {**numbers, name: 0}, 0)
        found = {refusal(case, form) for form in forms}
        if found == {""}:
            case.check_witness()
            for form in forms:
                case.check(form)
        else:
            assert len(found) == 1, found
            assert all(map(REFUSED.search, found)), found


def refusal(case: EdgeCase, form: Form) -> str:
    """The message with which a form refuses the arrays, if it does."""
    try:
        form.module.forward(dict(case.params), dict(case.inputs))
    except ValueError as error:
        return str(error)
    return ""


def axes_of_data(program: IRProgram) -> list[str]:
    """The sizes that only inputs have; integers have a range, and a model its widths."""
    main = program.main
    own = {name for v in main.inputs for d in main.types[v].shape for name in d.symbols()}
    ranges = {name for t in main.types.values() if t.range for name in t.range.symbols()}
    widths = {name for p in main.params for d in p.type.shape for name in d.symbols()}
    for step in main.steps:
        if isinstance(step, Apply) and step.op.glyph in ("•", "RoPE"):  # matrices, and halves
            ends = [main.types[value].shape[-1] for value in step.inputs]
            widths |= {name for dim in ends for name in dim.symbols()}
    return sorted((own & carried_symbols(main)) - ranges - widths)
