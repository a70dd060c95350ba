"""Write the communication of generated code: calls of the runtime, overlap, deferred sums.

They are the same in every backend: the mesh on which a rank runs knows how to send its tensors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NoReturn, Protocol, TypeVar

from xg.codegen.emit.array_ops import length, scalar
from xg.codegen.emit.spelling import Scope, Spell
from xg.codegen.emit.text import WIDTH, Text, call, dictionary
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.collectives import COLLECTIVES, PRIMITIVES, collective_of
from xg.ir.graph import Apply, Backward, Step, Value
from xg.ir.moves import collective
from xg.ir.placement import RankPrimitive
from xg.ir.prim import Expr

# The type of a collective that was begun, for kernels that send.
#
# Kernels are text of generated modules, which import what they call from `xg_runtime.ranks`; the
# compiler does not.


T = TypeVar("T", covariant=True)


class Handle(Protocol[T]):
    """Describe the handle of a running collective, like the class in `xg_runtime.ranks`."""

    def wait(self) -> T:
        """Return the result; once."""
        ...


def only_in_modules(*_: object) -> NoReturn:
    """Stand for a function of the runtime where a kernel is a file of the compiler."""
    raise RuntimeError("a generated module imports this from xg_runtime.ranks")


MODULE: Final = "xg_runtime.ranks"


def _spell_call(primitive: RankPrimitive) -> Spell:
    """Spell a primitive across ranks as a call: tensor, mesh axis, axes of the tensor, sizes."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        axes = (str(expr.attr(axis)) for axis in primitive.axes)
        sizes = (length(expr, size, scope).text for size in primitive.sizes)
        return call(primitive.name, args[0].text, _over(expr), *axes, *sizes)

    return spell


def _over(expr: Expr) -> str:
    return f'"{expr.attr("over")}"'


def places_of(cuts: object) -> str:
    """Which part of a mask a rank draws; empty for the whole."""
    assert isinstance(cuts, tuple)
    texts = [f'({axis}, "{over}")' for axis, over in cuts]  # pyright: ignore
    return f"mesh_places({', '.join(texts)})" if texts else ""


def keep(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """Draw a dropout mask of the shape of an operand, or a rank's part of it."""
    drawn = [args[0].text, scalar(expr, "p", scope).text, "seed", "place"]
    cuts = places_of(expr.attr("cuts"))
    return call(scope.use("keep_part" if cuts else "keep_mask"), *drawn, *([cuts] if cuts else []))


def mesh_lines(mesh: Mapping[str, int]) -> list[str]:
    """The lines that refuse another mesh than the module's; none for one device."""
    items = [f'"{axis}": {ranks}' for axis, ranks in mesh.items()]
    return dictionary("check_mesh(", items, ")", 4) if items else []


# Functions of the runtime have the names of primitives. Parts that go around are text of kernels.
WORDS: Final[dict[str, Spell]] = {
    name: _spell_call(one) for name, one in PRIMITIVES.items() if not one.goes_around
}
# Of sums, of gathered parameters, and of what is under way.
METHODS: Final = frozenset({"add", "scatter", "finish", "wait", "whole", "wholes"})
FUNCTIONS: Final = (
    frozenset(WORDS)
    | {f"start_{each.name}" for each in COLLECTIVES.values() if each.price}
    | {"check_mesh", "mesh_places", "local_shard", "local_shards", "gather_shards", "global_shape"}
)


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
    """Return whether a character can continue a name."""
    return char == "_" or char.isalnum()


# Sums over ranks that are begun as soon as they can be, and awaited where they are read.


@dataclass(frozen=True, slots=True)
class Overlap:
    """Steps in the order in which they are written; `begun` are those that are only begun there."""

    steps: tuple[Step, ...]
    begun: frozenset[Apply]


def overlap(steps: Sequence[Step], sent: Collection[Apply]) -> Overlap:
    """Put every step of `sent` right after the last step that computes one of its inputs.

    Where nothing is computed between that and its first reader, there is nothing to gain.
    """
    order: list[Step] = [step for step in steps if step not in sent]
    for step in steps:
        if isinstance(step, Apply) and step in sent:
            order.insert(_position_after(order, step.inputs), step)
    begun = {
        step
        for place, step in enumerate(order)
        if isinstance(step, Apply) and step in sent and _gains(order, place, step)
    }
    return Overlap(tuple(order), frozenset(begun))


def _position_after(order: Sequence[Step], values: Collection[Value]) -> int:
    """Return the position after the last step that computes one of the values, or 0."""
    makers = [p for p, step in enumerate(order) if any(v in values for v in step.outputs)]
    return max(makers, default=-1) + 1


def _gains(order: Sequence[Step], place: int, step: Apply) -> bool:
    """Whether something is computed before the result is read."""
    readers = (p for p in range(place + 1, len(order)) if step.outputs[0] in order[p].inputs)
    return next(readers, len(order)) > place + 1


# Gradients whose sum over ranks can be deferred to the end of the backward pass.


@dataclass(frozen=True, slots=True)
class DeferredSum:
    """One rank's term, and the mesh axis over which it is to be summed.

    Of the sum the rank gets its slice along an `axis` of the tensor; all of it where that is None.
    """

    term: Value
    over: str
    axis: int | None = None


def deferred_sums(
    backward: Backward, shared: Collection[tuple[str, str]]
) -> dict[Value, DeferredSum]:
    """The gradients of parameters that are sums over ranks which no step reads.

    For a parameter used in several places (`shared`, by graph and name) the parts are summed first.
    """
    graph = backward.forward
    reads = Counter(v for step in backward.steps for v in step.inputs)
    reads.update(backward.gradients.values())
    makers = {step.outputs[0]: step for step in backward.steps if isinstance(step, Apply)}
    sums: dict[Value, DeferredSum] = {}
    for value in graph.param_values():
        gradient = backward.gradients.get(value)
        if gradient is None or reads[gradient] > 1:
            continue
        if {(graph.key, str(value.name)), (graph.key, "*")} & set(shared):
            continue
        step = makers.get(gradient)
        expr = step and sum_of(step, backward)
        if step and expr:
            axis = next((expr.typed_attr(name, int) for name in PRIMITIVES[expr.prim].axes), None)
            sums[gradient] = DeferredSum(step.inputs[0], str(expr.attr("over")), axis)
    return sums


def sum_of(step: Apply, backward: Backward) -> Expr | None:
    """Return the sum over ranks that a step computes, or None if the step is not such a sum."""
    if collective(step.op) is None:
        return None
    (total,) = step.body(backward.types).outputs
    record = collective_of(total)
    return total if record and record.sums else None
