"""The lines that run the forward pass of a call, of a row of calls or of one over an axis."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xg.codegen.emit.line_breaks import commented, indented
from xg.codegen.emit.loops import LoopWriter
from xg.codegen.emit.names import identifier
from xg.codegen.emit.recurrence import recurrence
from xg.codegen.emit.sizes import shape_text
from xg.codegen.emit.statements import place_of
from xg.codegen.emit.text import Text
from xg.codegen.emit.writer import PassWriter
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Call, Value
from xg.ir.loop import Loop


def run_call(writer: PassWriter, call: Call, unread: Collection[Value] = ()) -> None:
    """Write a call's lines; its outputs and what it saves get their names, but for those unread."""
    plan, statements = writer.plan, writer.statements
    mentions = tuple(statements.materialize(value).text for value in call.inputs)
    drops = call.rounds is None  # rounds need names for what they give
    outputs = tuple("_" if drops and v in unread else statements.name(v) for v in call.outputs)
    called = identifier(call.path or "rounds")
    saved = writer.names.fresh(f"{called}_saved") if plan.saves else ""
    statements.texts[call.saved] = Text(saved)
    lines = _CallLines(writer, call, mentions, outputs, saved, writer.passed(call))
    if call.loop is not None:
        statements.add(lines.loop(call.loop), (call,))
    else:
        statements.add(lines.once() if call.count is None else lines.row(), (call,))


@dataclass(frozen=True, slots=True)
class _CallLines:
    """The lines of a call: texts of its operands, of its results, and of what else it takes."""

    writer: PassWriter
    call: Call
    mentions: Sequence[str]
    outputs: Sequence[str]
    saved: str
    rest: Sequence[str]

    @property
    def function(self) -> str:
        """The function that is called."""
        return self.writer.plan.functions[self.call.callee]

    @property
    def comment(self) -> str:
        """The shape of the first result, and the place in the file."""
        call, writer = self.call, self.writer
        shape = shape_text(writer.graph.types[call.outputs[0]].shape, writer.scope.sizes)
        return ", ".join([shape, *(["again"] if call.again else []), place_of([call.span])])

    def once(self) -> list[str]:
        """A plain call."""
        targets = ", ".join([*self.outputs, *([self.saved] if self.saved else [])])
        args = [*self._given(), self.writer.below(self.call.path), *self.mentions]
        code = f"{targets} = {self.function}({', '.join([*args, *self.rest, *self._seed()])})"
        return commented(code, self.comment)

    def row(self) -> list[str]:
        """Calls in a row: the first operand goes round."""
        writer, carry = self.writer, self.outputs[0]
        assert self.call.count is not None
        numbers = writer.scope.rounds(self.call.count, self.call.first)
        rounds = f"{self.call.path}.{{i}}"
        path = writer.below(rounds) if writer.path else f'f"{rounds}"'
        args = [*self._given(), path, carry, *self.mentions[1:], *self.rest, *self._seed()]
        one = writer.names.fresh(f"{self.function}_saved") if self.saved else ""
        targets = f"{carry}, {one}" if self.saved else carry
        code = f"{targets} = {self.function}({', '.join(args)})"
        return [
            f"{carry} = {self.mentions[0]}",
            *([f"{self.saved}: list[{self._class()}] = []"] if self.saved else []),
            f"for i in {numbers}:",
            *indented(commented(code, self.comment, 8)),
            *([f"    {self.saved}.append({one})"] if self.saved else []),
        ]

    def loop(self, loop: Loop) -> list[str]:
        """Rounds over an axis, each with a seed of its own."""
        writer, plan = self.writer, self.writer.plan
        if self.call.callee in plan.recurrences:
            saved = (self.saved, self._class()) if self.saved else None
            return recurrence(plan, loop, self.mentions, self.outputs, saved, self.comment)
        seeded = self.call.callee in plan.random
        seed = writer.scope.use("round_seed") if seeded else ""
        plan.operators.support.update(dict.fromkeys(["round_seed"] if seeded else []))

        def one_round(index: str, mentions: Sequence[str]) -> str:
            args = ["params", writer.below(self.call.path), *mentions, *self.rest]
            args += [f"seed={seed}(seed, {index})"] if seeded else []
            return f"{self.function}({', '.join(args)})"

        types, spelling = writer.graph.types, plan.spelling
        lines = LoopWriter(
            self.call, loop, writer.names, types, spelling, writer.scope, self.comment
        )
        saving = (self.saved, self._class(), f"{self.function}_saved") if self.saved else None
        count = writer.scope.size(loop.length).text
        return lines.forward(self.mentions, self.outputs, saving, count, one_round)

    def _given(self) -> list[str]:
        stateful = self.call.callee in self.writer.plan.stateful
        return ["params", *(["cache", "kept"] if stateful else [])]

    def _seed(self) -> list[str]:
        return ["seed=seed"] if self.call.callee in self.writer.plan.random else []

    def _class(self) -> str:
        return self.writer.plan.classes[self.call.callee]
