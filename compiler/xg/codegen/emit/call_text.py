"""Write calls: one, a row of them, one over an axis in rounds, a recurrence in a kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from xg.codegen.emit.module_plan import ModulePlan, PassWriter
from xg.codegen.emit.names import Names
from xg.codegen.emit.spelling import Scope, Spelling, shape_text
from xg.codegen.emit.text import Text, add_comment, chosen, indent_lines, tuple_of
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Backward, Call, Loop, Value, ports
from xg.ir.labels import identifier
from xg.ir.tensor import TensorType

Round = Callable[[str, Sequence[str]], str]  # the call of a round, given its index and operands


@dataclass(frozen=True, slots=True)
class Row:
    """A result that is stacked: its name, the list of its rounds, one of them, and the axis."""

    result: str
    rounds: str
    one: str
    axis: int  # counted from the left


@dataclass(frozen=True, slots=True)
class LoopWriter:
    """Writes one loop of a function in the words of a `spelling`.

    `note` is the comment of a round behind its shape. If it `frees`, the rows of a result are gone
    once they are stacked. A loop over an axis of length 0 makes no round: its states end as they
    began, and what it stacks is empty.
    """

    call: Call
    loop: Loop
    names: Names
    types: Mapping[Value, TensorType]
    spelling: Spelling
    scope: Scope
    note: str
    frees: bool = False

    def forward(
        self,
        operands: Sequence[str],
        results: Sequence[str],
        saved: tuple[str, str, str] | None,
        count: str,
        call: Round,
    ) -> list[str]:
        """The rounds in order; `saved`: the list of saved values, their class, a name for one."""
        loop, index = self.loop, self.names.fresh("i")
        behind, before = len(results) - loop.states, len(operands) - loop.states
        begun = list(zip(results[behind:], operands[before:], strict=True))
        rows = self._rows(results, loop.outputs)
        names = [self.names.fresh(saved[2])] if saved else []
        texts = (*operands[:before], *results[behind:])
        arguments = zip(texts, self.call.inputs, loop.inputs, strict=True)
        run = call(index, [self._at(*each, index) for each in arguments])
        left = [rows[n].one if n in rows else name for n, name in enumerate(results)]
        order = f"reversed(range({count}))" if loop.reverse else f"range({count})"
        return [
            *(f"{state} = {start}" for state, start in begun),
            *_lists(rows),
            *([f"{saved[0]}: list[{saved[1]}] = []"] if saved else []),
            f"for {index} in {order}:",
            *indent_lines(
                add_comment(f"{', '.join([*left, *names])} = {run}", self._comment(loop.outputs), 8)
            ),
            *_append_lines(rows),
            *([f"    {saved[0]}.append({names[0]})"] if saved else []),
            *self._stack_rows(rows, backwards=loop.reverse),
        ]

    def backward(
        self,
        backward: Backward,
        cotangents: Sequence[str],
        results: Sequence[str],
        saved: str,
        call: Round,
    ) -> list[str]:
        """The rounds in reverse, from what they saved.

        A state goes round as the gradient that the round behind it had. Gradients of
        operands that all rounds share are summed over them; of those taken apart, stacked again.
        """
        index = self.names.fresh("i")
        one = self.names.fresh("round_saved") if self.loop.reverse else f"{saved}[{index}]"
        _, gradients = ports(self.call, backward)
        around = frozenset(number for _, number in self.call.carried)
        axes = [axis for _, axis in gradients]
        rows = self._rows(results, axes)
        shared = {
            name: self.names.fresh(f"{name}_part")
            for number, name in enumerate(results)
            if number not in rows and number not in around
        }
        carried = {place: results[number] for place, number in self.call.carried}
        run = call(index, [one, *self._arriving(backward, cotangents, carried, index)])
        left = [rows[n].one if n in rows else shared.get(x, x) for n, x in enumerate(results)]
        targets = f"{', '.join(left)} = " if left else ""
        rounds = f"{index} in reversed(range(len({saved})))"
        if self.loop.reverse:  # rounds are saved in the order in which they ran
            rounds = f"{index}, {one} in enumerate(reversed({saved}))"
        return [
            *(f"{name} = {cotangents[place]}" for place, name in carried.items()),
            *_lists(rows),
            f"for {rounds}:",
            *indent_lines(add_comment(f"{targets}{run}", self._comment(axes), 8)),
            *(f"    {total} = {total} + {part}" for total, part in shared.items()),
            *_append_lines(rows),
            *self._stack_rows(rows, backwards=not self.loop.reverse),
        ]

    def accumulators(self, backward: Backward) -> list[int]:
        """The results of the backward pass that are sums over the rounds, and begin as zeros."""
        _, gradients = ports(self.call, backward)
        around = {number for _, number in self.call.carried}
        return [n for n, (_, axis) in enumerate(gradients) if axis is None and n not in around]

    def _arriving(
        self,
        backward: Backward,
        cotangents: Sequence[str],
        carried: Mapping[int, str],
        index: str,
    ) -> list[str]:
        """The cotangents of one round: slices, and what goes round; both of one value are added."""
        arriving, _ = ports(self.call, backward)
        terms: dict[Value, list[str]] = {}
        for place, (port, axis) in enumerate(arriving):
            text = self._at(cotangents[place], self.call.inputs[place], axis, index)
            terms.setdefault(port, []).append(carried.get(place, text))
        return [" + ".join(terms[port]) for port in backward.inputs]

    def _comment(self, axes: Sequence[int | None]) -> str:
        """The shape of the first result of one round, and the note."""
        if not self.call.outputs:
            return self.note
        shape = self.types[self.call.outputs[0]].shape
        if axes[0] is not None:
            stacked = len(shape) + axes[0]
            shape = (*shape[:stacked], *shape[stacked + 1 :])
        return ", ".join(filter(None, [shape_text(shape, self.scope.sizes), self.note]))

    def _rows(self, results: Sequence[str], axes: Sequence[int | None]) -> dict[int, Row]:
        """The results that are stacked, by their number."""
        rows: dict[int, Row] = {}
        for number, (name, value, axis) in enumerate(
            zip(results, self.call.outputs, axes, strict=True)
        ):
            if axis is not None:
                lists = self.names.fresh(f"{name}_rows"), self.names.fresh(f"{name}_i")
                rows[number] = Row(name, *lists, len(self.types[value].shape) + axis)
        return rows

    def _at(self, text: str, value: Value, axis: int | None, index: str) -> str:
        """One position of an operand, the whole of one that rounds share."""
        if axis is None:
            return text
        before = ":, " * (len(self.types[value].shape) + axis)
        return f"{Text(text).atom}[{before}{index}]"

    def _stack_rows(self, rows: Mapping[int, Row], *, backwards: bool) -> list[str]:
        """The results put together; rounds that ran `backwards` are turned round."""
        return [
            line
            for number, row in rows.items()
            for line in (
                *self._stack(row, self.call.outputs[number], "[::-1]" * backwards),
                *([f"{row.rounds} = []"] if self.frees else []),
            )
        ]

    def _stack(self, row: Row, value: Value, turn: str) -> list[str]:
        """Return the lines that stack the rounds of a result; there may be no rounds."""
        stack = self.spelling.stack(f"{row.rounds}{turn}", row.axis)
        if self.loop.length.constant is not None:
            return [f"{row.result} = {stack}"]
        type_ = self.types[value]
        shape = tuple_of(self.scope.shape(type_.shape))
        empty = self.spelling.zeros(shape, self.scope, whole=not type_.is_float)
        return chosen(row.result, stack, row.rounds, empty)


def _lists(rows: Mapping[int, Row]) -> list[str]:
    return [f"{row.rounds}: list[Array] = []" for row in rows.values()]


def _append_lines(rows: Mapping[int, Row]) -> list[str]:
    return [f"    {row.rounds}.append({row.one})" for row in rows.values()]


# A loop over a linear recurrence as text: one call of the kernel for all of its rounds.


FIELDS = ("factors", "states", "start")


def recurrence(
    plan: ModulePlan,
    loop: Loop,
    operands: Sequence[str],
    results: Sequence[str],
    saved: tuple[str, str] | None,
    comment: str,
) -> list[str]:
    """All states and the last one; `saved` is a name for what is saved, and its class."""
    plan.operators.support["recurrence"] = None
    states, last = results
    turn = f"reverse={loop.reverse}"
    end = "0" if loop.reverse else "-1"
    lines = add_comment(f"{states} = _recurrence({', '.join([*operands, turn])})", comment)
    if loop.length.constant is None:  # over an axis of length 0 the state ends as it began
        lines += chosen(last, f"{states}[{end}]", f"len({states})", operands[2])
    else:
        lines.append(f"{last} = {states}[{end}]")
    if saved:
        lines.append(f"{saved[0]} = {saved[1]}({operands[0]}, {states}, {operands[2]})")
    return lines


def d_recurrence(
    plan: ModulePlan,
    loop: Loop,
    cotangents: Sequence[str],
    results: Sequence[str],
    saved: str,
    comment: str,
) -> list[str]:
    """The gradients of factors, summands and the first state."""
    plan.operators.support["d_recurrence"] = None
    arguments = [*cotangents, *(f"{saved}.{field}" for field in FIELDS), f"reverse={loop.reverse}"]
    code = f"{', '.join(results)} = _d_recurrence({', '.join(arguments)})"
    return add_comment(code, comment)


# The lines that run the forward pass of a call, of a row of calls or of one over an axis.


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
    def note(self) -> str:
        """A note on a call that runs again for the backward pass."""
        return "again" if self.call.again else ""

    @property
    def comment(self) -> str:
        """The shape of the first result, and the note."""
        shape = self.writer.graph.types[self.call.outputs[0]].shape
        return ", ".join(filter(None, [shape_text(shape, self.writer.scope.sizes), self.note]))

    def once(self) -> list[str]:
        """A plain call."""
        targets = ", ".join([*self.outputs, *([self.saved] if self.saved else [])])
        args = [*self._leading_arguments(), self.writer.below(self.call.path), *self.mentions]
        code = f"{targets} = {self.function}({', '.join([*args, *self.rest, *self._seed()])})"
        return add_comment(code, self.comment)

    def row(self) -> list[str]:
        """Calls in a row: the first operand goes round."""
        writer, carry = self.writer, self.outputs[0]
        assert self.call.count is not None
        numbers = writer.scope.rounds(self.call.count, self.call.first)
        rounds = f"{self.call.path}.{{i}}"
        path = writer.below(rounds) if writer.path else f'f"{rounds}"'
        args = [
            *self._leading_arguments(),
            path,
            carry,
            *self.mentions[1:],
            *self.rest,
            *self._seed(),
        ]
        one = writer.names.fresh(f"{self.function}_saved") if self.saved else ""
        targets = f"{carry}, {one}" if self.saved else carry
        code = f"{targets} = {self.function}({', '.join(args)})"
        return [
            f"{carry} = {self.mentions[0]}",
            *([f"{self.saved}: list[{self._class()}] = []"] if self.saved else []),
            f"for i in {numbers}:",
            *indent_lines(add_comment(code, self.comment, 8)),
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
        lines = LoopWriter(self.call, loop, writer.names, types, spelling, writer.scope, self.note)
        saving = (self.saved, self._class(), f"{self.function}_saved") if self.saved else None
        count = writer.scope.size(loop.length).text
        return lines.forward(self.mentions, self.outputs, saving, count, one_round)

    def _leading_arguments(self) -> list[str]:
        stateful = self.call.callee in self.writer.plan.stateful
        return ["params", *(["cache", "kept"] if stateful else [])]

    def _seed(self) -> list[str]:
        return ["seed=seed"] if self.call.callee in self.writer.plan.random else []

    def _class(self) -> str:
        return self.writer.plan.classes[self.call.callee]
