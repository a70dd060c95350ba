"""Give hints for a parameter without declaration, and for words in the wrong place of a node."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.dim import Dim, number
from xg.ir.graph import Apply, Value
from xg.ir.op import Op
from xg.ir.tensor import Shape
from xg.ir.use import Tensor
from xg.ops import find
from xg.passes.resolve.errors import BadArgument, Refused, UnknownValue
from xg.passes.resolve.scope import BlockScope
from xg.passes.resolve.size_errors import UnknownSize
from xg.syntax import ast
from xg.syntax.spelling import ascii_name, greek_name

FOLLOWED: Final = 20  # nodes back from a use, in search of a shape
WINDOW: Final = 3  # positions of a kernel


@dataclass(frozen=True, slots=True)
class Beside:
    """A node, its arriving values, and the shapes of the labels after it."""

    scope: BlockScope
    use: ast.NodeUse
    arriving: Sequence[Value]
    targets: Sequence[Shape | None]

    @property
    def shape(self) -> Shape | None:
        """The shape of the first operand, where the text says it."""
        return _shape(self.scope, self.arriving[0]) if self.arriving else None

    @property
    def target(self) -> Shape | None:
        """The shape of the result, where the text says it."""
        return self.targets[0] if len(self.targets) == 1 else None


def suggest_own_param(place: Beside, own: Tensor, refused: Refused) -> Refused:
    """An unknown parameter in parentheses with the line that declares it."""
    shape = tuple(part for word in own.shape for part in _part(place, word))
    if None in shape:
        return refused
    written = f"[{', '.join(map(str, shape))}]" + (f" = {own.start}" if own.start else "")
    return Refused(
        *(_add_declaration(problem, written, is_own=True) for problem in refused.problems)
    )


def suggest_operand_param(place: Beside, op: Op, refused: Refused) -> Refused:
    """An unknown operand with the line that declares it as a parameter."""
    shape, beside = place.shape, [attached.operand for attached in place.use.attachments]
    if not shape or len(beside) != 1 or isinstance(beside[0], ast.Chain):
        return refused
    around = beside[0].operator.name if isinstance(beside[0], ast.Call) else ""
    then = ""
    if op.family == "matmul" and around in ("", "T"):
        sizes = [shape[-1], (place.target or shape)[-1]]
        first, second = reversed(sizes) if around else sizes
        written = f"[{first}, {second}]"
    elif op.family in ("add", "multiply") and around in ("", "BC"):
        written = f"[{shape[-1]}] = {'zeros' if op.family == 'add' else 'ones'}"
        if not around and len(shape) > 1:
            then = f", and write {op.glyph}<-BC({{name}})"
    else:
        return refused
    return Refused(*(_add_declaration(problem, written, then) for problem in refused.problems))


def _add_declaration(
    problem: Problem, written: str, then: str = "", *, is_own: bool = False
) -> Problem:
    if not isinstance(problem, UnknownValue) or problem.declaration:
        return problem
    line = f"param {problem.name} {written}{then.format(name=problem.name)}"
    return replace(problem, declaration=line, is_own=is_own)


def _part(place: Beside, word: str) -> list[Dim | None]:
    """The axes that a word of `Tensor.shape` means; None where the text does not say it."""
    shape, target = place.shape or (None,), place.target or place.shape or (None,)
    axes = place.use.axes
    listed = [axis for axis in axes.source if isinstance(axis, ast.Axis)] if axes else []
    match word:
        case "axis" if listed:
            return [place.scope.reader.dim(ast.Path(listed[0].span, (listed[0].name,)))]
        case "windows":
            return [number(WINDOW)] * len(listed)
        case "range":
            declared = place.arriving[0].declared if place.arriving else None
            return [declared.range if declared else None]
        case "target":
            return [target[-1]]
        case _:
            return [shape[-1]]


def _shape(scope: BlockScope, value: Value, steps: int = FOLLOWED) -> Shape | None:
    """The shape of a value as the text says it, also by nodes that keep it, and by matmuls."""
    if value.declared:
        return value.declared.shape
    made = next((step for step in scope.steps if value in step.outputs), None)
    if not steps or not isinstance(made, Apply) or not made.inputs:
        return None
    first = _shape(scope, made.inputs[0], steps - 1)
    if made.op.keeps_shape:
        return first
    second = _shape(scope, made.inputs[-1], steps - 1)
    if made.op.family == "matmul" and first and second:
        return (*first[:-1], second[-1])
    return None


# Help for what is in the wrong place of a node: in parentheses, or behind `over`.


NORMS: Final = frozenset({"layer_norm", "batch_norm"})


def refuse_padding(scope: BlockScope, use: ast.NodeUse, op: Op) -> None:
    """Refuse the words of torch for the zeros at the ends of an axis, with what says the same."""
    if not any(own.name == "pad" for own in op.own):
        return
    known = {*scope.values, *scope.reader.dims, *scope.reader.numbers}
    for argument in use.arguments:
        word, node = argument.value.span.text, use.operator.name
        if word not in ("same", "valid") or word in known:
            continue
        help = "leave it out: without pad, windows stay within the axis"
        if word == "same":
            help = _same_padding(scope, use, op)
        raise Refused(BadArgument(argument.span, f"{node} has no padding called {word}", (help,)))


def _same_padding(scope: BlockScope, use: ast.NodeUse, op: Op) -> str:
    """The zeros with which an axis keeps its length under the windows of a use."""
    given = {each.name.name if each.name else "": each.value for each in use.arguments}
    first = given.get("K" if op.name == "convolution" else "k")
    if first is None and use.arguments and use.arguments[0].name is None:
        first = use.arguments[0].value
    axes = len(use.axes.source) if use.axes else 1
    dilation = _number(given.get("dilation")) or 1
    widths = {_number(first)}
    if op.name == "convolution":
        kernel = scope.values.get(first.span.text) if first else None
        shape = kernel.declared.shape if kernel and kernel.declared else ()
        widths = {dim.constant for dim in shape[:axes]}
    width = widths.pop() if len(widths) == 1 else None
    front = "`causal` keeps the length with zeros at the front only"
    if width is None:
        return f"a width of 3 keeps the length with `pad=1`, 5 with `pad=2`; {front}"
    if width % 2 == 0:
        return f"{width} is even: {front}"
    both = f"write `pad={dilation * (width - 1) // 2}`, which keeps the length"
    return both if axes > 1 else f"{both}; {front}"


def _number(expr: ast.Expr | None) -> int | None:
    """A whole number as it is written, None of anything else."""
    return expr.value if isinstance(expr, ast.Number) and isinstance(expr.value, int) else None


def names_of(shape: ast.Shape) -> tuple[str, ...]:
    """The sizes that an axis of their own gives."""
    return tuple(dim.name for dim in shape.dims if isinstance(dim, ast.Path))


def number_of_values(place: Beside, op: Op, expr: ast.Expr, refused: Refused) -> Refused:
    """A value in the place of a number, with the operator that takes it."""
    scope, use = place.scope, place.use
    node, axes = use.operator.name, use.axes.span.text if use.axes else "[S]"
    written = expr.span.text

    def instead(name: str) -> str:
        if node in ("pick", "slice"):
            return f"{name} is a value: to take positions by index, write gather{axes}<-{name}"
        value = scope.values[name]
        shape = value.declared.shape if value.declared else ()
        whole = place.shape or place.target
        if node == "scale" and ascii_name(written) == name and _fits(shape, whole):
            operand = greek_name(name) if shape and shape == (whole or shape) else f"BC({written})"
            return f"{greek_name(name)} is a value: write `⊙<-{operand}`"
        told = f"{greek_name(name)} is a value, and a number can only use dims"
        if node in ("scale", "SM"):
            operator = _scaling_operator(place, value, shape, written)
            return f"{told}: {operator}{' in front' * (node == 'SM')}"
        if find(node) is None:
            return f"{told}: {as_operand(op, node, value)}"
        taken = f": if {node} takes it, pass it by an arrow, {node}<-{name}"
        return told + (taken if len(op.data) > 1 else "")

    problems = _instead(refused, instead).problems
    if node in ("pick", "slice"):
        problems = tuple(
            replace(problem, gathered=f"gather{axes}<-{problem.name}")
            if isinstance(problem, UnknownSize) and problem.other == "nothing"
            else problem
            for problem in problems
        )
    return Refused(*problems)


def _scaling_operator(place: Beside, value: Value, shape: Shape, formula: str) -> str:
    """An operator that multiplies by a formula of a value, and its use."""
    name, axes = greek_name(str(value.name)), ", ".join(map(str, shape))
    others = {*re.findall(r"[^\W\d]\w*", formula)} & {*place.scope.reader.dims}
    times = formula if formula == name else "(…)" if others else f"({formula})"
    is_param = value.role == "param"
    operand = ", ".join(("..", *map(str, _from_first(shape, place.shape or place.target))))
    head = f"op Scaled(x [{operand}]{';' if is_param else ','} {name} [{axes}])"
    use = f"-> Scaled({name})" if is_param else f"-> Scaled<-{name}"
    return f"write `{head} = x * {times}`, and `{use}`"


def _fits(shape: Shape, whole: Shape | None) -> bool:
    """Whether these are the last axes of an operand, as far as its axes are known."""
    return whole is None or not shape or whole[-len(shape) :] == shape


def _from_first(shape: Shape, whole: Shape | None) -> Shape:
    """Return the operand's axes, starting at the first of these; only these if it lacks one."""
    if not shape or whole is None or not {*shape} <= {*whole}:
        return shape
    return whole[min(map(whole.index, shape)) :]


def made_elsewhere(use: ast.NodeUse, op: Op, own: Tensor, value: Value, written: str) -> str:
    """How a value that is no parameter arrives, where a parameter is wanted."""
    node = use.operator.name
    if op.glyph == "Emb":
        if value.declared and value.declared.range is not None:
            return f"integers go in, and the table goes in parentheses: `{written} -> Emb(…)`"
        return f"for rows of a computed table, write `{written} -> gather[V]<-ids`"
    if op.name in NORMS:
        return f"computed ones scale and shift after it: `{node} -> ⊙<-BC(…) -> ⊕<-BC(…)`"
    if find(node) is None:
        return as_operand(op, node, value)
    return f"pass it by an arrow: {node}<-{written}" if len(op.data) > 1 else ""


def as_operand(op: Op, node: str, value: Value) -> str:
    """How a defined operator takes a value."""
    shape = "" if value.declared is None else f" [{', '.join(map(str, value.declared.shape))}]"
    taken = [f"{data.name} [{', '.join(data.axes or ('..',))}]" for data in op.data]
    head = ", ".join([*taken, f"{value.name}{shape}"])
    return (
        f"operands go before the `;`, `op {node}({head})`, and are passed: `{node}<-{value.name}`"
    )


def over_values(ports: ast.Block, data: Sequence[Value], refused: Refused) -> Refused:
    """A value or an unknown name as the axis of a loop, with an axis that an operand has."""
    known = [str(dim) for value in data if value.declared for dim in value.declared.shape]
    ends = {name for port in ports.data if port.shape for name in names_of(port.shape)}
    axis = next((name for name in known if name not in ends), "S")
    told = "this must be an axis, and {} is a value: write `over {}`"
    if axis in known:
        refused = Refused(
            *(
                replace(
                    problem,
                    instead=f"{problem.name} is not an axis of the operands: write `over {axis}`",
                )
                if isinstance(problem, UnknownSize) and problem.other == "nothing"
                else problem
                for problem in refused.problems
            )
        )
    return _instead(refused, lambda name: told.format(name, axis))


def _instead(refused: Refused, told: Callable[[str], str]) -> Refused:
    return Refused(
        *(
            replace(problem, instead=told(problem.name))
            if isinstance(problem, UnknownSize) and problem.other == "value"
            else problem
            for problem in refused.problems
        )
    )
