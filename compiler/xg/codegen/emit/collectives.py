"""Communication in generated code: the calls of the runtime that it imports.

They are the same in every backend: the mesh on which a rank runs knows how to send its tensors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xg.codegen.emit.array_ops import length, scalar
from xg.codegen.emit.line_breaks import dictionary
from xg.codegen.emit.spelling import Scope, Spell
from xg.codegen.emit.text import WIDTH, Text, call
from xg.ir.prim import Expr

MODULE: Final = "xg_runtime.ranks"


def _sent(name: str, *axes: str) -> Spell:
    """A collective, or a rank's view of a whole: tensor, mesh axis, axes."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        return call(name, args[0].text, _over(expr), *(str(expr.attr(axis)) for axis in axes))

    return spell


def _of_rows(name: str) -> Spell:
    """A function of ids and the number of rows of a rank."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        return call(name, args[0].text, _over(expr), length(expr, "rows", scope).text)

    return spell


def _over(expr: Expr) -> str:
    return f'"{expr.attr("over")}"'


def places_of(cuts: object) -> str:
    """Which part of a mask a rank draws; empty for the whole."""
    assert isinstance(cuts, tuple)
    texts = [f'({axis}, "{over}")' for axis, over in cuts]  # pyright: ignore
    return f"mesh_places({', '.join(texts)})" if texts else ""


def keep(operand: Callable[[Text], str]) -> Spell:
    """Draw a dropout mask; `operand` says what the support function takes its shape from."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        drawn = [operand(args[0]), scalar(expr, "p", scope).text, "seed", "place"]
        cuts = places_of(expr.attr("cuts"))
        return call(
            scope.use("keep_part" if cuts else "keep_mask"), *drawn, *([cuts] if cuts else [])
        )

    return spell


def mesh_lines(mesh: Mapping[str, int]) -> list[str]:
    """The lines that refuse another mesh than the module's; none for one device."""
    items = [f'"{axis}": {ranks}' for axis, ranks in mesh.items()]
    return dictionary("check_mesh(", items, ")", 4) if items else []


WORDS: Final[dict[str, Spell]] = {
    "all_reduce": _sent("all_reduce"),
    "all_reduce_max": _sent("all_reduce_max"),
    "all_gather": _sent("all_gather", "axis"),
    "reduce_scatter": _sent("reduce_scatter", "axis"),
    "all_to_all": _sent("all_to_all", "cut", "joined"),
    "shard_slice": _sent("shard_slice", "axis"),
    "pad_from_shard": _sent("pad_from_shard", "axis"),
    "first_rank_only": _sent("first_rank_only"),
    "owns_index": _of_rows("owns_index"),
    "to_local_index": _of_rows("to_local_index"),
}
# Of sums, of gathered parameters, and of what is under way.
METHODS: Final = frozenset({"add", "scatter", "finish", "wait", "whole", "wholes"})
FUNCTIONS: Final = frozenset(WORDS) | {
    "start_all_reduce", "start_shift", "check_mesh", "mesh_places", "local_shard", "local_shards",
    "gather_shards", "global_shape",
}  # fmt: skip


_CLASSES: Final = ("Cuts", "Gathered", "Handle", "Held", "Mesh", "Sums")


def imports(code: str) -> str:
    """The import of the runtime functions that the code calls; empty if it calls none."""
    possible = [name for name in (*FUNCTIONS, *_CLASSES) if name in code]
    if not possible:
        return ""
    code = re.sub(r'(?m)^\s*(#.*|""".*)$', "", code)
    named = [name for name in possible if _is_used(name, code)]
    if not named:
        return ""
    line = f"from {MODULE} import {', '.join(sorted(named))}"
    if len(line) <= WIDTH:
        return f"{line}\n"
    items = "".join(f"    {name},\n" for name in sorted(named))
    return f"from {MODULE} import (\n{items})\n"


def _is_used(name: str, code: str) -> bool:
    """Whether code mentions a class, or calls a function that is no method.

    A pattern would look at every letter; this looks at every place that has the name.
    """
    is_class = name in _CLASSES
    wanted = name if is_class else f"{name}("
    at = code.find(wanted)
    while at >= 0:
        before, behind = code[max(at - 1, 0) : at], code[at + len(name) : at + len(name) + 1]
        if not _goes_on(before) and (not _goes_on(behind) if is_class else before != "."):
            return True
        at = code.find(wanted, at + 1)
    return False


def _goes_on(char: str) -> bool:
    """Whether a name goes on with a character."""
    return char == "_" or char.isalnum()
