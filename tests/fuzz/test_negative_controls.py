"""Errors planted into the compiler: random programs must reveal each of them soon."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
from fuzz.hunt import hunt, outcome
from fuzz.program import generate

from xg import ops
from xg.codegen.emit import array_ops
from xg.codegen.emit import function as body
from xg.codegen.emit import module as templates
from xg.codegen.emit.spelling import Scope, SupportFile
from xg.codegen.emit.text import Text
from xg.codegen.numpy import dialect as spelling
from xg.codegen.torch import dialect as torch_spelling
from xg.ir import primitive_gradients
from xg.ir.body import topological
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr, reduce_mean
from xg.ir.primitive_gradients import Cotangent, Cotangents
from xg.ir.use import Attrs
from xg.passes import differentiate
from xg.sharding import primitive_rules
from xg.verify.reference import interpret
from xg_kernels.kernel_tables import NUMPY_KERNELS

PROGRAMS = sorted(range(460), key=lambda seed: seed % 2)  # first those that every backend meets
Patch = pytest.MonkeyPatch


def tanh_without_its_square(patch: Patch) -> None:
    def rule(y: Expr, d: Expr) -> Cotangents:
        return (d * (1.0 - y),)

    patch.setitem(_table(primitive_gradients.RULES), "tanh", rule)


def maximum_that_gives_to_both(patch: Patch) -> None:
    def rule(y: Expr, d: Cotangent) -> Sequence[Cotangent]:
        return d, d

    patch.setitem(_table(primitive_gradients.CHOOSING), "maximum", rule)


def softmax_with_a_mean(patch: Patch) -> None:
    def adjoint(dp: Expr, p: Expr) -> tuple[Expr]:
        return ((dp - reduce_mean(dp * p)) * p,)

    _replace(patch, "S", replace(ops.table()["S"], adjoint=adjoint))


def scale_that_is_forgotten(patch: Patch) -> None:
    def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
        return {"x": "d"}

    _replace(patch, "scale", replace(ops.table()["scale"], pullback=pullback))


def product_with_the_wrong_factor(patch: Patch) -> None:
    def pullback(attrs: Attrs) -> Mapping[str, Gradient]:
        return {"a": Term("⊙", ("d", "a")), "b": Term("⊙", ("d", "a"))}

    _replace(patch, "⊙", replace(ops.table()["⊙"], pullback=pullback))


def mean_of_a_fan_out(patch: Patch) -> None:
    def forward(a: Expr, b: Expr) -> Expr:
        return (a + b) * 0.5

    _add = replace(ops.table()["⊕"], forward=forward)
    patch.setattr(differentiate, "_add", lambda: _add)


def row_whose_rounds_are_one(patch: Patch) -> None:
    join = interpret.join

    def first(path: str, name: str) -> str:
        return join(path, name).replace(".1.", ".0.")

    patch.setattr(interpret, "join", first)


def minus_sign_that_is_lost(patch: Patch) -> None:
    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        return args[0]

    patch.setitem(_table(spelling.WORDS), "neg", spell)


def transposed_operand_that_stays(patch: Patch) -> None:
    def swapped(text: Text, rank: int) -> Text:
        return text

    wrong = array_ops.contraction(swapped, 'np.einsum("{spec}", {a}, {b})')
    patch.setitem(_table(spelling.WORDS), "contract", wrong)


def gradients_that_overwrite_each_other(patch: Patch) -> None:
    kept = "grads[name] + part if name in grads else part"
    assert kept in templates.HELPERS["add"]
    changed = templates.HELPERS["add"].replace(kept, "part")
    patch.setitem(_table(templates.HELPERS), "add", changed)


def statistics_that_stay(patch: Patch) -> None:
    _left_out(patch, spelling.SUPPORT, "toward", " + share * (new - old)")


def dropout_without_its_scale(patch: Patch) -> None:
    _left_out(patch, spelling.SUPPORT, "drop", " * (1 / kept)")


def minus_sign_that_torch_loses(patch: Patch) -> None:
    patch.setitem(_table(torch_spelling.WORDS), "neg", array_ops.bare)


def whole_numbers_that_torch_rounds(patch: Patch) -> None:
    patch.setitem(_table(torch_spelling.WORDS), "as_float", array_ops.bare)


def zeros_that_torch_makes_wide(patch: Patch) -> None:
    def made(scope: Scope) -> str:
        return "dtype=torch.float64"

    patch.setattr(torch_spelling, "_made", made)


def numbers_that_stay_wide(patch: Patch) -> None:
    def types(outputs: Sequence[Expr]) -> dict[int, bool | None]:
        return {id(expr): False for expr in topological(outputs)}

    patch.setattr(body, "element_types", types)


def softmax_whose_kernel_forgets_its_factor(patch: Patch) -> None:
    _left_out(patch, NUMPY_KERNELS.support, "d_softmax", "    dz *= p\n")


def tanh_of_terms_of_a_sum(patch: Patch) -> None:
    patch.setitem(_table(primitive_rules.RULES), "tanh", primitive_rules.RULES["neg"])


def _left_out(patch: Patch, support: SupportFile, name: str, part: str) -> None:
    """Leave a part out of a function that written modules carry."""
    source = SupportFile.source
    assert part in source(support, name)

    def without(file: SupportFile, name: str) -> str:
        return source(file, name).replace(part, "")

    patch.setattr(SupportFile, "source", without)


def _replace(patch: Patch, glyph: str, op: Op) -> None:
    patch.setitem(_table(ops.table()), glyph, op)


Entry = TypeVar("Entry")


def _table(table: Mapping[str, Entry]) -> dict[str, Entry]:
    """A table of the compiler, to be changed for one test."""
    assert isinstance(table, dict)
    return table


SABOTAGE = (
    tanh_without_its_square,
    maximum_that_gives_to_both,
    softmax_with_a_mean,
    scale_that_is_forgotten,
    product_with_the_wrong_factor,
    mean_of_a_fan_out,
    row_whose_rounds_are_one,
    minus_sign_that_is_lost,
    minus_sign_that_torch_loses,
    whole_numbers_that_torch_rounds,
    zeros_that_torch_makes_wide,
    transposed_operand_that_stays,
    gradients_that_overwrite_each_other,
    statistics_that_stay,
    dropout_without_its_scale,
    numbers_that_stay_wide,
)


# Errors that few programs meet, and one that does: it is tried first, then the others.
MET_BY: Mapping[Callable[[Patch], None], int] = {
    maximum_that_gives_to_both: 242,
    row_whose_rounds_are_one: 156,
    gradients_that_overwrite_each_other: 348,
    statistics_that_stay: 112,
}

SOMETIMES = (  # and seeds of programs of which one meets it; few cut the terms of a tanh
    (softmax_whose_kernel_forgets_its_factor, range(1, 800, 8)),
    (tanh_of_terms_of_a_sum, range(45_227, 45_260, 20)),
)


@pytest.mark.parametrize(
    ("sabotage", "seeds"), SOMETIMES, ids=[each.__name__ for each, _ in SOMETIMES]
)
def test_kernels_and_ranks_are_tried(
    sabotage: Callable[[Patch], None], seeds: range, monkeypatch: Patch
) -> None:
    """An error in what few programs meet is found, and made small as any other."""
    sabotage(monkeypatch)
    found = next(hunt(seeds))
    assert sum(len(block.statements) for block in found.program.blocks) <= 6
    assert len(str(found.program)) < len(str(generate(found.seed)))
    monkeypatch.undo()
    assert not [*hunt([found.seed])]  # it is the planted one that was found


@pytest.mark.parametrize("sabotage", SABOTAGE, ids=lambda sabotage: sabotage.__name__)
def test_a_planted_mistake_is_found(sabotage: Callable[[Patch], None], monkeypatch: Patch) -> None:
    sabotage(monkeypatch)
    seeds = sorted(PROGRAMS, key=lambda seed: seed != MET_BY.get(sabotage))
    with np.errstate(all="ignore"):
        assert any(outcome(generate(seed), seed, whole=False)[0] for seed in seeds)


def test_a_failure_is_made_small(monkeypatch: Patch) -> None:
    softmax_with_a_mean(monkeypatch)
    found = next(hunt(PROGRAMS))
    (block,) = found.program.blocks
    assert len(block.statements) <= 2
    assert "-> S" in str(found)
    assert found.message.startswith("slope")
