"""Help for calls in the body of a defined operator that are written as in other languages."""

from __future__ import annotations

from typing import Final

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import replace
from xg.passes.resolve.define.errors import MisplacedComparison, Wrong, WrongArguments
from xg.passes.resolve.define.signature import REST, DefinedSignature
from xg.syntax import ast

LONG: Final = 60  # characters that a line of help repeats
BITS: Final = 2
_KEPT: Final = ("keepdim", "keepdims")
_AXES: Final = ("axis", "axes", "dim", "dims")
_BY_NAME: Final = "axes go by names, and what has one less is repeated along it"


def refuse_habits(call: ast.Call, signature: DefinedSignature) -> None:
    """Raise Wrong for arguments with names, and for the `True` that keeps an axis."""
    for argument in call.arguments:
        name, written = argument.name.name if argument.name else "", argument.span.text
        function = call.operator.name
        help: tuple[str, ...] = ()
        if name in _KEPT or (call.axes is not None and written in ("True", "False")):
            help = (f"leave `{written}` out: {_BY_NAME}",)
        elif name in _AXES and call.axes is None:
            axis = next((axis for axis in signature.axes[::-1] if axis != REST), "")
            operand = signature.data[0].name if signature.data else "x"
            named = "" if axis else f", with `{operand} [.., D]` in the signature"
            given = next((each.span.text for each in call.arguments if each.name is None), "x")
            help = (f"an axis is named in brackets: `{function}[{axis or 'D'}]({given})`{named}",)
        if help or name:
            span = argument.span if help else call.span
            raise Wrong(WrongArguments(span, "arguments in order, without names", help))


def compared(call: ast.Call, signature: DefinedSignature, problem: Problem) -> Problem:
    """A missing comparison with the call as it is with one: integers below 2 are 1 where one is."""
    if not isinstance(problem, MisplacedComparison) or not problem.wanted:
        return problem
    written = problem.span.text
    slot = next((slot for slot in signature.slots if slot.name == written), None)
    bits = {slot.name for slot in signature.slots if slot.range == BITS}
    is_bit = (slot is None and any(f"- {name}" in written for name in bits)) or written in bits
    condition = f"equal({written}, 1)" if is_bit else f"{written} > 0"
    whole = ", ".join(
        condition if argument.value.span == problem.span else argument.span.text
        for argument in call.arguments
    )
    whole = f"{call.operator.name}({whole})"
    return replace(problem, written=whole if len(whole) <= LONG else condition)
