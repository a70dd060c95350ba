"""docs/conventions.md states what operators give at edges; `./dev docs` writes its tables."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from xg import ops
from xg.ir.conventions import Convention, name_of
from xg.ir.functions import CONVENTIONS
from xg.ir.op import Op

PAGE: Final = Path(__file__).parents[2] / "docs" / "conventions.md"
HEAD: Final = """\
# Zeros, ties and other edges

Search words: subgradient, kink, slope of ReLU at 0, equal maxima, NaN, inf, masked row of softmax,
empty axis, index out of range, float16, bfloat16, accumulation.

Almost everywhere a function has one value and one gradient. At a few points there is a choice: the
slope of ReLU at 0, or which of two equal maxima gets the gradient. This page lists what xg does at
these points. Read it when you compare gradients with another library, or when a run gives NaN and
you want to know where it can come from.

xg does what PyTorch does. If PyTorch has several functions, xg follows the plain one: `max(x, z)`
follows `torch.maximum`, and `max[D](x)` follows `torch.amax`. The exceptions come first on this
page, each with its reason.

A test runs the program of each row on every backend, and compares it with plain PyTorch. `xg ops
NAME` prints the rules of one operator.

<!-- ./dev docs writes the tables from the records of the operators. -->
"""
READING: Final = """\
## What holds everywhere

- **NaN stays NaN.** A NaN in an operand that counts is a NaN in the result, so you see it. The
  gradient at NaN is not defined: don't rely on it.
- **0 and -0 are equal.** Which of them a maximum returns depends on the backend. Only `1 / x`
  shows the difference; `abs(0)` is always +0.
- **Half types add in float32.** A sum, mean, product, norm, softmax or loss adds its terms in
  float32 and rounds the result once. So does a gradient that adds over a batch or over equal ids.
  The sum may exceed 65,504, and so may the square of a deviation in a norm.
  All other steps round to the type of their inputs. The exception is float16 in NumPy, which adds
  in float16 along any axis but the last; NumPy has no bfloat16.
- **Large numbers don't overflow** in an operator, unless its row says so. A gate or an argument
  of 0 is an ordinary point of `sigmoid`, `softplus`, SiLU, GLU and SwiGLU.
- **An empty batch gives an empty batch**, and running sums, norms and positions along an empty axis
  are empty.
- **An index outside its axis is an error** that names the array and the number, on every backend.
  In an array of indices, negative numbers do not count from the end. Only code under `jax.jit`
  can't refuse a number; there you get NaN, or the number goes nowhere, but never another row.

## How to read a row

For `x -> ReLU`, x = [-1, 0, 1], the value is [0, 0, 1] and dx = [0, 0, 1]. The gradient is the
one for a cotangent of 1 at each element of the value; another cotangent is written as *dy*. An axis
of 4,096 equal numbers is written as 4,096 × 1. Numbers have five digits, and floats are float64
unless the row names another type.
"""
FUNCTIONS_HEAD: Final = """\
## Functions of formulas

Formulas are the bodies of operators that you define: `op F(x) = abs(x)`. `sign`, `floor` and
`round` have the gradient 0, as in PyTorch. xg has no `mod`, `clamp`, `atan2` or `prod`, so there
are no rules for them.
"""
ABBREVIATED: Final = 8  # numbers from which equal ones are counted
SAID_ONCE: Final = re.compile(  # in READING; `xg ops` prints these rules with their operator
    "large (numbers|gates) do not overflow|.*is an ordinary point|.* gives an empty (result|batch)"
)


def _page() -> str:
    operators = {
        _name(op): op.conventions
        for op in sorted(ops.table().values(), key=lambda op: op.name)
        if op.conventions
    }
    functions = {f"`{name}`": CONVENTIONS[name] for name in sorted(CONVENTIONS)}
    parts = [HEAD, *_exceptions({**operators, **functions}), READING, "## Operators\n"]
    parts += [_table(operators), _smooth(), FUNCTIONS_HEAD, _table(functions)]
    return "\n".join(parts)


def _name(op: Op) -> str:
    return op.name if op.name == op.glyph else f"{op.glyph} ({op.name})"


def _exceptions(records: Mapping[str, tuple[Convention, ...]]) -> Iterator[str]:
    yield "## Where xg differs from PyTorch\n"
    rows = ["| operator | PyTorch | xg | why |", "|---|---|---|---|"]
    for name, conventions in records.items():
        for each in conventions:
            if each.differs:
                cells = (name, f"`{each.torch}`", each.rule, each.differs)
                rows.append(f"| {' | '.join(map(_cell, cells))} |")
    yield "\n".join(rows) + "\n"


def _table(records: Mapping[str, tuple[Convention, ...]]) -> str:
    """A row for each rule, but for rules that the page says once for all operators."""
    rows = ["| operator | edge | rule | program | result |", "|---|---|---|---|---|"]
    for name, conventions in records.items():
        shown = [
            each
            for each in conventions
            if each.edge != "half type" and not SAID_ONCE.fullmatch(each.rule)
        ]
        for place, each in enumerate(shown):
            cells = ("" if place else name, each.edge, each.rule, _program(each), _result(each))
            rows.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(rows) + "\n"


def _program(each: Convention) -> str:
    arrays = {**each.inputs, **each.params}
    given = ", ".join(f"{name_of(label)} = {_numbers(arrays[label])}" for label in arrays)
    kind = "" if each.dtype == "float64" else f"; {each.dtype}"
    return f"`{each.use.replace(chr(10), '; ')}`, {given}{kind}"


def _result(each: Convention) -> str:
    parts: list[str] = []
    if each.refused:
        parts.append("an error")
    else:
        parts.append(_numbers(each.value))
        parts += [f"d{name} = {_numbers(slope)}" for name, slope in each.gradient.items()]
        if each.cotangent is not None:
            parts.append(f"for dy = {_numbers(each.cotangent)}")
    parts += [f"{form}: {_numbers(value)}" for form, value in each.others.items()]
    return "; ".join(parts)


def _numbers(value: Any) -> str:  # noqa: ANN401 - as the records have them
    if not isinstance(value, tuple):
        return _number(value)
    rows: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
    for period in (1, 2):
        if len(rows) > ABBREVIATED and rows == rows[:period] * (len(rows) // period):
            one = ", ".join(map(_numbers, rows[:period]))
            return f"[{len(rows) // period:,} × {one if period == 1 else f'({one})'}]"
    return f"[{', '.join(map(_numbers, rows))}]"


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if value and abs(value) < 1 and math.log2(abs(value)).is_integer() and abs(value) < 1e-3:
        return f"{'-' if value < 0 else ''}2^{math.log2(abs(value)):.0f}"
    return f"{value:.5g}" if abs(value) < 1e5 or math.isinf(value) else f"{value:,.0f}"


def _smooth() -> str:
    without = [
        _name(op)
        for op in sorted(ops.table().values(), key=lambda op: op.name)
        if not op.conventions and op.family not in ("collective", "source")
    ]
    names = f"{', '.join(without[:-1])} and {without[-1]}"
    return f"These operators have no edges: {names}.\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def test_the_page_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, _page())


def test_numbers_are_short() -> None:
    assert _numbers(((1.0,) * 4096, (0.5,))) == "[[4,096 × 1], [0.5]]"
    assert _numbers((0.0, 2.0) * 2048) == "[2,048 × (0, 2)]"
    assert _number(2.0**-11) == "2^-11"
    assert _number(-math.inf) == "-inf"
