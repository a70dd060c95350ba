"""The cotangents that a backward pass reads: gradients do not flow through others.

A call takes those of all outputs of its block, of which the block may use no more than some: that
of a number of dropped tokens leads nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from xg.ir.graph import Backward, Call, Program, Step, Value


def read_cotangents(program: Program) -> Mapping[str, frozenset[Value]]:
    """Return the cotangents that each backward pass reads, or gives as a gradient, by its key."""
    found: dict[str, frozenset[Value]] = {}

    def reads(key: str) -> frozenset[Value]:
        if key not in found:
            backward = program.backwards[key]
            taken = {value for step in backward.steps for value in taken_by(step)}
            found[key] = frozenset({*taken, *backward.gradients.values()})
        return found[key]

    def taken_by(step: Step) -> Iterator[Value]:
        if not isinstance(step, Call) or step.loop is not None:
            yield from step.inputs
        else:
            callee, read = program.backwards[step.callee], reads(step.callee)
            yield from passed(step.inputs, callee, read)

    for key in program.backwards:
        reads(key)
    return found


def passed(given: Sequence[Value], callee: Backward, read: Collection[Value]) -> list[Value]:
    """Return what a call gives for the cotangents that its block reads, and all that follows them.

    The calls of ranks are given forward values too, behind the cotangents.
    """
    taken = [value for value, one in zip(given, callee.inputs, strict=False) if one in read]
    return [*taken, *given[len(callee.inputs) :]]
