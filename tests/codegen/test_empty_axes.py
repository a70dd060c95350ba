"""Axes of length 0: every form agrees with torch's autograd, or names the axis that it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest
import torch
from fuzz.edge_proof import EdgeCase, Form, compiled, prove_edges, written
from fuzz.operator_programs import operator_programs
from fuzz.test_structural_zeros import Case
from ops.sample import SIZES
from tier import THOROUGH

import xg
from xg.diagnostics.diagnostic import Source
from xg.ir.graph import IRProgram
from xg.ir.size_checks import carried_symbols
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
REFUSED = re.compile(r"^\w+ = 0: |is more than .*: |: it is at least 1")


# NumPy warns of a mean of nothing, and gives the NaN that torch gives.
@pytest.mark.filterwarnings(
    "ignore:Mean of empty slice", "ignore:invalid value", "ignore:divide by zero"
)
@pytest.mark.parametrize("text", [text for text, _ in USES], ids=[use for _, use in USES])
def test_an_operator_agrees_with_torch_or_names_the_empty_axis(text: str) -> None:
    """Each axis of its operands in turn; of a parameter none is empty."""
    program = compiled(parse(Source("case.xg", text)), Case(text, {}), dead=False)
    forms = [form for form in written(program, {}, jax=THOROUGH) if "Model" not in form.name]
    numbers = {name: SIZES[name] for name in ("B", *program.main.sizes.defaults)}
    for name in axes_of(program):
        case = EdgeCase.draw(program, {**numbers, name: 0}, 0)
        found = {refusal(case.interpret), *(refusal(partial(run, case, form)) for form in forms)}
        if found == {""}:
            case.check_witness()
            for form in forms:
                case.check(form)
        else:
            assert len(found) == 1, found
            assert all(map(REFUSED.search, found)), found


def run(case: EdgeCase, form: Form) -> None:
    form.module.forward(dict(case.params), dict(case.inputs))


def refusal(run: Callable[[], object]) -> str:
    """The message with which arrays are refused, if they are."""
    try:
        run()
    except ValueError as error:
        return str(error)
    return ""


def axes_of(program: IRProgram) -> list[str]:
    """The sizes of arrays that no integers are below."""
    main = program.main
    values = (*main.inputs, *(param.value for param in main.params))
    own = {name for v in values for d in main.types[v].shape for name in d.symbols()}
    ranges = {name for t in main.types.values() if t.range for name in t.range.symbols()}
    return sorted((own & carried_symbols(main)) - ranges)


WINDOWS = {
    "window": ("x [B, S, D]", "", "window[S](k=3)", "[B, S - 2, 3, D]"),
    "convolution": ("x [B, S, D]", "param K [3, D, D]", "conv[S](K=K)", "[B, S - 2, D]"),
    "largest": ("x [B, S, D]", "", "maxpool[S](k=3, stride=1)", "[B, S - 2, D]"),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_longer_than_its_axis_is_refused_by_the_axis(name: str) -> None:
    """By the module's functions and by torch's Model, before a library sees it."""
    given, param, use, result = WINDOWS[name]
    text = f"dim B, S, D = 2\nblock F({given}) -> y {result} {{\n{param}\nx -> {use} : y\n}}\n"
    program = compiled(parse(Source("case.xg", text)), Case(text, {}), dead=False)
    case = EdgeCase.draw(program, {"B": 2, "S": 3, "D": 2}, 0)
    short = {"x": case.inputs["x"][:, :2]}
    for form in written(program, case.sizes, jax=True):
        case.check(form)
        with pytest.raises(ValueError, match=r"^S - 2 = 0: it is at least 1"):
            form.module.forward(dict(case.params), dict(short))


MODEL = """\
dim B, S, D
block F(x [B, S, D]) -> y [B, S, D] {
    param P [S_max, D]
    dim S_max = 4
    P -> slice[S_max](start=0, stop=S) -> BC : p [B, S, D]
    x -> ⊕<-p : y
}
"""


@pytest.mark.parametrize("kernels", [False, True])
def test_a_model_refuses_more_positions_than_it_has(kernels: bool) -> None:
    module = xg.compile(source=MODEL).load("torch", kernels=kernels)
    model = module.Model(0, D=2)
    assert model(torch.ones(1, 4, 2))["y"].shape == (1, 4, 2)
    with pytest.raises(ValueError, match="S = 5 is more than S_max = 4: slice takes a stretch"):
        model(torch.ones(1, 5, 2))
    with pytest.raises(ValueError, match="D = 0: a parameter needs at least one element"):
        module.Model(0, D=0)
