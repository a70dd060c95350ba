"""Random models that generate, and errors planted into the derivation of their steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fuzz.generation import prove_generation
from fuzz.hunt import failure

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import Dim
from xg.ir.graph import Apply, State, Value
from xg.ir.prim import Expr
from xg.ir.tensor import Shape
from xg_generate import decode_step
from xg_generate.decode_step import Assembler
from xg_generate.decode_step import operator as retype
from xg_generate.decode_step.block import Kept
from xg_generate.decode_step.operator import PositionSymbols, Whole

MODELS = 20
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("seed", range(MODELS))
def test_pieces_of_a_text_give_what_the_whole_text_gives(seed: int) -> None:
    prove_generation(seed)


def count_that_begins_anew(patch: Patch) -> None:
    counted = retype._build_iota  # pyright: ignore[reportPrivateUsage]

    def anew(expr: Expr, shape: Shape, whole: Whole, positions: PositionSymbols) -> Expr:
        start = expr.attr("start")
        assert isinstance(start, Dim)
        made = counted(expr, shape, whole, positions)
        return replace(made, attrs=(("length", made.shape[0]), ("start", start)))

    patch.setattr(retype, "_build_iota", anew)


def cache_in_front_of_which_new_positions_come(patch: Patch) -> None:
    append = Assembler._append  # pyright: ignore[reportPrivateUsage]

    def swapped(self: Assembler, part: Kept) -> list[Apply]:
        joined, *others = append(self, part)
        return [replace(joined, inputs=joined.inputs[::-1]), *others]

    patch.setattr(Assembler, "_append", swapped)


def recurrence_that_stays_where_it_was(patch: Patch) -> None:
    def stays(name: str, past: Value, last: Value) -> State:
        return State(name, past, past if "." in name else last)

    patch.setattr(decode_step, "State", stays)


@pytest.mark.parametrize(
    "sabotage",
    [
        count_that_begins_anew,
        cache_in_front_of_which_new_positions_come,
        recurrence_that_stays_where_it_was,
    ],
)
def test_a_planted_mistake_is_found(sabotage: Callable[[Patch], None], monkeypatch: Patch) -> None:
    sabotage(monkeypatch)
    assert any(failure(lambda seed=seed: prove_generation(seed))[0] for seed in range(MODELS))
