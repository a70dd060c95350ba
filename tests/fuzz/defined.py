"""Operators that a generated program defines: random expressions, smooth nearly everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

# What an operator takes: one tensor of any shape, two of one shape, rows, rows with a parameter,
# rows of which the axis before the last is removed, or two whose last axes form a table.
Form = Literal["each", "pair", "row", "gain", "pool", "outer"]

FORMS: tuple[Form, ...] = ("each", "pair", "row", "gain", "pool", "outer")
SIGNATURES: dict[Form, str] = {
    "each": "(x{number})",
    "pair": "(x, y{number})",
    "row": "(x [.., k]{number})",
    "gain": "(x [.., k]; g [k]{more})",
    "pool": "(x [.., s, k]{number})",
    "outer": "(x [.., s], y [.., k]{number})",
}
OPERANDS: dict[Form, tuple[str, ...]] = {
    "each": ("x",),
    "pair": ("x", "y"),
    "row": ("x",),
    "gain": ("x", "g"),
    "pool": ("x",),
    "outer": ("x", "y"),
}
AXIS: dict[Form, str] = {"row": "x", "gain": "x", "pool": "x", "outer": "y"}
UNARY = (
    "tanh({})",
    "sigmoid({})",
    "erf({})",
    "sin({})",
    "cos({})",
    "sqrt(1 + ({})^2)",
    "log(1 + ({})^2)",
    "exp(-({})^2)",
    "-({})",
    "({})^2 / (2 + ({})^2)",
    "(1 + ({})^2)^-0.5",
    "tanh({})^3",
)
BINARY = (
    "({} + {})",
    "({} - {})",
    "{} * tanh({})",
    "{} / (1 + ({})^2)",
    "max({}, {})",
    "max({}, 0.2)",
    "min({}, {})",
    "select({} > 0.1, {}, {})",
    "select({} >= {}, {}, 0.5)",
)
REDUCTIONS = ("mean[k](@ * {})", "max[k](@ + {})", "min[k](@ - {})", "sum[k](@ + {}) / k")


@dataclass(frozen=True)
class Defined:
    """An operator by its name, its definition and what it takes."""

    name: str
    text: str
    form: Form
    number: bool


def define(random: Random, name: str) -> Defined:
    """A random operator."""
    form = random.choice(FORMS)
    number = random.random() < 0.4
    given = ", c = 0.7" if form == "gain" else "; c = 0.7"
    signature = SIGNATURES[form].format(
        number=given if number else "", more=given if number else ""
    )
    operands = OPERANDS[form]
    leaves = [*operands, "c"] if number else list(operands)
    axis = AXIS.get(form, "")
    parts = ["u", "v"][: random.choice((0, 0, 1, 2))]
    bindings: list[str] = []
    for part in parts:
        bindings.append(f"{part} = {expression(random, leaves, 2, axis)}")
        leaves.append(part)
    body = f"{operands[0]} + {expression(random, leaves, 2, axis)}"
    body += "".join(f" + 0.3 * {leaf}" for leaf in leaves[1:])
    if form == "pool":
        body = f"mean[s]({body})"
    where = f" where {', '.join(bindings)}" if bindings else ""
    return Defined(name, f"op {name}{signature} = {body}{where}", form, number)


def expression(random: Random, leaves: Sequence[str], depth: int, axis: str) -> str:
    """A number that depends on some of the leaves and hardly grows faster than they do.

    `axis` is the operand that has the axis k, where one has.
    """
    if depth == 0:
        return random.choice(leaves) if random.random() < 0.9 else "0.5"
    forms = (*UNARY, *BINARY, *(REDUCTIONS if axis else ()))
    form = random.choice(forms)
    inner = [expression(random, leaves, depth - 1, axis) for _ in range(form.count("{}"))]
    return form.format(*inner).replace("@", axis)
