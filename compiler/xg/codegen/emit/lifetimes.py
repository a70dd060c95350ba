"""Free saved values after their last read, now or in the later part of a backward pass.

Saved ones go at once. A variable goes before what may hold much at the same time: the backward pass
of another block, or a loop. Without that it would stay until its function returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from xg.codegen.emit.text import WIDTH, bracketed, indent_lines
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Backward, Call, IRProgram, Step

ADDED: Final = re.compile(r"_add\(grads, .+, (\w+)\)")
CALL: Final = re.compile(r"^(for|while)\b|\w\(\s*params\b")  # a loop, or the function of a block
FIELD: Final = re.compile(r"(?<=\bsaved\.)\w+")
VARIABLE: Final = re.compile(r"(?<![.\w])\w+")  # not a field, and not part of another name


def free_saved_fields(lines: Sequence[str], fields: Iterable[str]) -> list[str]:
    """Insert ``del saved.X`` after the last statement that reads a field.

    None follows a ``return``, which frees everything.
    """
    statements = _statements(lines)
    mentions = _mentions(statements, FIELD)
    spent: dict[int, list[str]] = {}
    for name in dict.fromkeys(fields):
        if name in mentions:
            spent.setdefault(mentions[name][-1], []).append(f"saved.{name}")
    written: list[str] = []
    for number, statement in enumerate(statements):
        written += statement
        if number in spent and not statement[0].startswith("return "):
            written += _del_lines(spent[number])
    return written


def free_variables(lines: Sequence[str], names: Iterable[str]) -> list[str]:
    """Insert ``del X`` before the first block call that follows the last read of X."""
    statements = _statements(lines)
    mentions = _mentions(statements, VARIABLE)
    order = {name: place for place, name in enumerate(dict.fromkeys(names))}
    ends: dict[int, list[str]] = {}
    for name in order:
        if name in mentions:
            ends.setdefault(mentions[name][-1], []).append(name)
    written: list[str] = []
    spent: list[str] = []  # since the last call
    for number, statement in enumerate(statements):
        if spent and CALL.search("\n".join(statement)):
            written += _del_lines(sorted(spent, key=order.__getitem__))
            spent = []
        written += statement
        spent += ends.get(number, [])
    return written


def add_at_once(lines: Sequence[str]) -> list[str]:
    """Add a gradient right after the statement that computes it, then free its variable."""
    statements = _statements(lines)
    mentions = _mentions(statements, VARIABLE)
    moved: set[int] = set()
    after: dict[int, list[str]] = {}
    for number, statement in enumerate(statements):
        added = ADDED.fullmatch("\n".join(statement))
        if added is None:
            continue
        name = added[1]
        first, *others = mentions[name]
        if len(others) == 1 and statements[first][0].startswith(f"{name} = "):
            moved.add(number)
            after[first] = [*statement, f"del {name}"]
    return [
        line
        for number, statement in enumerate(statements)
        if number not in moved
        for line in (*statement, *after.get(number, ()))
    ]


def free_intermediates(lines: Sequence[str]) -> list[str]:
    """Insert ``del X`` after the last operator line that reads X, if computation follows.

    The last line returns the results; what it does not compute needs no room.
    """
    rest = lines if _computes(lines[-1]) else lines[:-1]
    assigned = dict.fromkeys(line.split(" = ")[0] for line in lines[:-1])
    mentions = _mentions([[line] for line in lines], VARIABLE)
    spent: dict[int, list[str]] = {}
    for name in assigned:
        if name in mentions:
            spent.setdefault(mentions[name][-1], []).append(name)
    written: list[str] = []
    for number, line in enumerate(lines):
        written.append(line)
        if number in spent and number < len(rest) - 1:
            written.append(f"del {', '.join(spent[number])}")
    return written


def _computes(line: str) -> bool:
    """Whether a ``return`` gives more than variables."""
    return not all(name.isidentifier() for name in line.removeprefix("return ").split(", "))


def _statements(lines: Sequence[str]) -> list[list[str]]:
    """Statements of one function with all their lines."""
    statements: list[list[str]] = []
    for line in lines:
        if statements and line[:1] in (" ", ")", "]", "}"):
            statements[-1].append(line)
        else:
            statements.append([line])
    return statements


def _mentions(
    statements: Sequence[Sequence[str]], pattern: re.Pattern[str]
) -> dict[str, list[int]]:
    """Return the numbers of the statements that mention each word of a kind."""
    found: dict[str, list[int]] = {}
    for number, lines in enumerate(statements):
        for word in dict.fromkeys(word for line in lines for word in pattern.findall(line)):
            found.setdefault(word, []).append(number)
    return found


def _del_lines(names: Sequence[str]) -> list[str]:
    line = f"del {', '.join(names)}"
    return [line] if len(line) + 4 <= WIDTH else bracketed("del (", names, ")", 4)


# The part of a backward pass that only gradients of parameters need: a pipeline may run it later.
#
# In a stage the functions of the backward pass first send back what the stage before waits for. The
# rest of each is a function within it, which `_later` calls at once, or leaves in a list.


BACKWARD: Final = "Gradients of all parameters and float inputs by name; no cotangent means zero."
IN_PARTS: Final = (
    '"""The gradients of `backward`: those of inputs, and the others now or later.',
    "",
    "The parts in `later` are called in their order, and fill what was returned. The gradients",
    "of parameters are added to those of `earlier`, which an earlier call has returned.",
    '"""',
)
KIND: Final = "later: list[Any] | None"
EARLIER: Final = "earlier: Params | None"
LATER: Final = "def weights() -> None:"
TAKEN: Final = "_later(later, weights)"


@dataclass(frozen=True, slots=True)
class TwoParts:
    """The steps of a backward pass: those that a cotangent of an input needs, and the rest."""

    first: tuple[Step, ...]
    rest: tuple[Step, ...]

    @classmethod
    def of(cls, steps: Sequence[Step], backward: Backward) -> TwoParts:
        """Calls are among the first: their functions have two parts of their own."""
        inputs = [v for v in backward.forward.inputs if v in backward.gradients]
        needed = {backward.gradients[value] for value in inputs}
        needed |= {value for value, _ in backward.rows}
        first: set[Step] = set()
        for step in reversed(steps):
            if isinstance(step, Call) or any(value in needed for value in step.outputs):
                first.add(step)
                needed.update(step.inputs)
        return cls(
            tuple(step for step in steps if step in first),
            tuple(step for step in steps if step not in first),
        )


def is_in_parts(program: IRProgram) -> bool:
    """Return whether backward functions can leave a part for later: true for pipeline stages."""
    return program.stage is not None


def weights_function(lines: Sequence[str]) -> list[str]:
    """The lines as a function within the backward function, which is called or left for later."""
    return ["", LATER, *indent_lines(lines), "", TAKEN] if lines else []


def freeing(lines: Sequence[str], fields: Sequence[str]) -> list[str]:
    """The lines with those that free what was saved: within the later part what that part reads."""
    if TAKEN not in lines:
        return free_saved_fields(lines, fields)
    start, end = lines.index(LATER), lines.index(TAKEN)
    inner = [line[4:] for line in lines[start + 1 : end] if line]
    words = set(re.findall(r"\bsaved\.(\w+)", "\n".join(inner)))
    early = free_saved_fields(lines[: start - 1], [name for name in fields if name not in words])
    inner = free_saved_fields(add_at_once(inner), [name for name in fields if name in words])
    late = weights_function(inner)
    return [*early, *late, *lines[end + 1 :]]


def whole_backward(saved_class: str) -> list[str]:
    """The public function that takes the backward pass of a stage at once."""
    arguments = ["params: Params", f"saved: {saved_class}", "d_outputs: Mapping[str, Array]"]
    body = [f'"""{BACKWARD}"""', "return backward_in_parts(params, saved, d_outputs, None)"]
    return [*bracketed("def backward(", arguments, ") -> Params:"), *indent_lines(body)]


# The public backward functions of a module that frees saved values as soon as it has read them.
#
# They keep no other reference to what was saved: values that the caller keeps stay, the others go
# as the pass goes. A decorator would keep them, with all its arguments, until the pass has ended.


_OWN: Final = '"""The gradients of `backward`; frees the fields of `saved` that it has read."""'


@dataclass(frozen=True, slots=True)
class Releasing:
    """The class of saved values, the lines that check arguments, and the decorator of functions."""

    saved_class: str
    checks: Sequence[str]
    decorator: str

    def functions(self, body: Sequence[str], *, in_parts: bool) -> list[list[str]]:
        """The public functions, and the private one with this body."""
        doc, nothing = [f'"""{BACKWARD}"""'], ["None", "None"] if in_parts else []
        whole = self._public("backward", doc, [], nothing)
        more = [KIND, f"{EARLIER} = None"]
        parts = self._public("backward_in_parts", IN_PARTS, more, ["later", "earlier"])
        head = self._head("_gradients", [KIND, EARLIER] if in_parts else [])
        own = [*head, *indent_lines([_OWN, *body])]
        return [*([parts] if in_parts else []), whole, own]

    def _head(self, name: str, more: Sequence[str]) -> list[str]:
        arguments = ["params: Params", f"saved: {self.saved_class}"]
        arguments += ["d_outputs: Mapping[str, Array]", *more]
        return bracketed(f"def {name}(", arguments, ") -> Params:")

    def _public(
        self, name: str, doc: Sequence[str], more: Sequence[str], last: Sequence[str]
    ) -> list[str]:
        call = f"return _gradients({', '.join(['params', 'saved', 'd_outputs', *last])})"
        body = [
            *doc,
            *self.checks,
            "saved = _copy(saved)  # alone it keeps what the caller does not",
            *([f"with {self.decorator.removeprefix('@')}:"] if self.decorator else []),
            *(indent_lines([call]) if self.decorator else [call]),
        ]
        return [*self._head(name, more), *indent_lines(body)]
