"""The cotangents that a backward pass reads: gradients do not flow through others.

A call takes those of all outputs of its block, of which the block may use no more than some: that
of a number of dropped tokens leads nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xg.ir.graph import Call, Program, Step, Value

Read = Mapping[str, Collection[Value]]  # the cotangents that a backward pass reads, by its key


def read_cotangents(program: Program) -> Read:
    """Return the cotangents that each backward pass reads, or gives as a gradient."""
    found: dict[str, frozenset[Value]] = {}
    for key, backward in program.backwards.items():  # callees first
        read = set(backward.gradients.values())
        for step in reversed(backward.steps):
            if leads_on(step, read):
                read.update(taken_by(step, program, found))
        found[key] = frozenset(read)
    return found


def leads_on(step: Step, read: Collection[Value]) -> bool:
    """Return whether something reads what a step makes: not zeros for an output without a gradient.

    A call may make gradients of parameters alone, which are no outputs of it.
    """
    return isinstance(step, Call) or any(value in read for value in step.outputs)


def taken_by(step: Step, program: Program, read: Read) -> Sequence[Value]:
    """Return the inputs of a step of a backward pass that lead on: of a call those that are read.

    A block that is computed again is called with values of the forward pass, and a loop has states:
    they take all.
    """
    if not isinstance(step, Call) or step.loop is not None or step.origin is None:
        return step.inputs
    pairs = zip(step.inputs, program.backwards[step.callee].inputs, strict=True)
    return [value for value, cotangent in pairs if cotangent in read[step.callee]]
