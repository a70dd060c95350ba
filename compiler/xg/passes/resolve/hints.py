"""Give hints for a parameter without declaration, and for words in the wrong place of a node."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.terminal import similar
from xg.ir.dim import Dim, number
from xg.ir.graph import Apply, Value
from xg.ir.op import Op
from xg.ir.tensor import Shape
from xg.ir.use import LETTERS, Own, Tensor, Word
from xg.ops import find
from xg.passes.resolve.errors import BadArgument, Refused, UnknownValue
from xg.passes.resolve.scope import BlockScope
from xg.passes.resolve.size_errors import UnknownSize
from xg.passes.resolve.units import LocatedBlock
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


# Give hints for arguments that an operator or a block does not take.


KEPT: Final = ("keepdim", "keepdims")  # as torch and NumPy call that a reduced axis becomes 1
_COMPUTED: Final = (
    "a kernel that is computed multiplies windows: window[H, W](k=3, pad=1) -> "
    "R[b, h, p, w, q, c -> b, h, w, (p, q, c)] -> •<=K, with K [9*C, D]"
)


def to_operator(place: Beside, op: Op, argument: ast.Argument) -> str:
    """Where an argument belongs that an operator does not take."""
    scope, use, written = place.scope, place.use, argument.value.span.text
    node = use.operator.name
    if node == "S" and written == "causal":
        return "a mask is a part of SM: write `SM(causal) -> S`"
    option = _option_instead(place, words_of(op), argument)
    meant = option or (_join_operands(place) if op.name == "concat" else _HABITS.get(op.name, ""))
    if meant:
        return meant
    is_axis = written in scope.reader.dims or _read_integer(argument.value) is not None
    if is_axis and op.brackets == "axes" and argument.name is None and use.axes is None:
        return axis_in_brackets(place, argument)
    if find(node) is None:
        return _of_ones_own(place, op, argument)
    takes_more = op.variadic or len(place.arriving) < len(op.data)
    if isinstance(argument.value, ast.Path | ast.Call) and takes_more:
        return f"pass a value from another node by an arrow: {node}<-{written}"
    return ""


def axis_in_brackets(place: Beside, argument: ast.Argument) -> str:
    """The axis that an argument means, as brackets name it; torch counts from the front, too."""
    written, use = argument.value.span.text, place.use
    others = [each.span.text for each in use.arguments if each is not argument and not _kept(each)]
    node, behind = use.operator.name, f"({', '.join(others)})" if others else ""
    if written.isidentifier() or re.fullmatch(r"-\d+", written):
        return f"name the axis in brackets: {node}[{written}]{behind}"
    named, shape = _read_integer(argument.value), place.shape or ()
    if named is not None and -len(shape) <= named < len(shape):
        return f"name the axis in brackets: {node}[{_axis(shape, named)}]{behind}"
    if named is not None and shape:
        return ""  # there is no such axis
    return f"name the axis in brackets, or count from the end: {node}[-1] is the last"


def _kept(argument: ast.Argument) -> bool:
    return argument.name is not None and argument.name.name in KEPT


def refuse_option(place: Beside, words: Sequence[Word], own: Own, expr: ast.Expr | None) -> None:
    """Refuse an option in the place of a number or a tensor, with the argument that it chooses."""
    if isinstance(own, Word) or not isinstance(expr, ast.Path):
        return
    argument = next(each for each in place.use.arguments if each.value is expr)
    help = _option_instead(place, words, argument)
    word = _word_of(place, words, expr)
    if help:
        word = word if "write" in help else None
        what = f"{expr.span.text} is an option, and {own.name} of {place.use.operator.name} is none"
        meant = f"{word.name}={expr.span.text}" if word and argument.name is None else None
        raise Refused(BadArgument(argument.span, what, (help,), meant=meant))


def refuse_none(place: Beside) -> None:
    """Refuse `None` as an argument."""
    nones = [each for each in place.use.arguments if each.value.span.text == "None"]
    if nones and "None" not in place.scope.values:
        help = "leave out an argument that you don't need, and pass later ones by name"
        raise Refused(BadArgument(nones[0].span, "no parameter is called None", (help,)))


def _option_instead(place: Beside, own: Sequence[Word], argument: ast.Argument) -> str:
    """Return a hint if an argument is an option, or else ""."""
    scope, written = place.scope, argument.value.span.text
    known = {*scope.values, *scope.reader.dims, *scope.reader.numbers}
    if written in known or not isinstance(argument.value, ast.Path) or not scope.option(written):
        return ""
    word = _word_of(place, own, argument.value)
    if word is None:
        return (
            f"{written} is an option, and no argument of {place.use.operator.name} takes its words"
        )
    given = {*word.choices} & {each.value.span.text for each in place.use.arguments}
    if given:
        return f"{written} is an option, but {word.name} is already set by `{given.pop()}`"
    return f"pass an option by name: write `{_with(place, argument, f'{word.name}={written}')}`"


def words_of(op: Op) -> list[Word]:
    """The arguments of an operator that are words."""
    return [own for own in op.own if isinstance(own, Word)]


def _word_of(place: Beside, own: Sequence[Word], expr: ast.Path) -> Word | None:
    """The argument that takes words of an option, None where there is no such."""
    words, _ = place.scope.option(expr.span.text) or ((), "")
    return next((each for each in own if {*each.choices} & {*words}), None)


def instead_of_tensor(place: Beside, op: Op, own: Own, expr: ast.Expr) -> tuple[str, ...]:
    """The way to write a number in the place of a parameter, or for a computed kernel."""
    use, written = place.use, expr.span.text
    if not isinstance(expr, ast.Number | ast.Negation):
        return (_COMPUTED,) if op.name == "convolution" else ()
    if op.name == "embedding":
        return (_HABITS["embedding"],)
    if op.name in NORMS:
        argument = next(each for each in use.arguments if each.value is expr)
        given = f"pass numbers by name: write `{_with(place, argument, f'eps={written}')}`"
        plain = f"a norm knows the length itself: write `{op.glyph}`"
        return (plain if _read_integer(expr) is not None else given,)
    if op.name != "convolution" or not isinstance(expr, ast.Number):
        return ()
    if own.name == "K":
        return ("a kernel is a parameter: `param K [3, 3, C, D]`, and `conv[H, W](K)`",)
    return (f"pass numbers by name: `stride={written}`, or `pad={written}`",)


def _with(place: Beside, argument: ast.Argument, written: str) -> str:
    """The use with one argument written otherwise."""
    use = place.use
    arguments = [written if each is argument else each.span.text for each in use.arguments]
    axes = use.axes.span.text if use.axes else ""
    return f"{use.operator.span.text}{axes}({', '.join(arguments)})"


def _read_integer(expr: ast.Expr) -> int | None:
    """A whole number as it is written, negative or not; None of anything else."""
    inner = expr.operand if isinstance(expr, ast.Negation) else expr
    if not isinstance(inner, ast.Number) or not isinstance(inner.value, int):
        return None
    return inner.value if inner is expr else -inner.value


def _axis(shape: Shape, axis: int) -> str:
    name = str(shape[axis])
    return name if name.isidentifier() and shape.count(shape[axis]) == 1 else str(axis - len(shape))


def _of_ones_own(place: Beside, op: Op, argument: ast.Argument) -> str:
    """How an operator of the file takes what its signature does not have."""
    use, written = place.use, argument.value.span.text
    value = place.scope.values.get(written)
    if value is not None:
        return as_operand(op, use.operator.name, value)
    is_number = isinstance(argument.value, ast.Number | ast.Negation)
    if argument.name is not None or not (is_number or written in place.scope.reader.dims):
        return ""
    names = [own.name for own in op.own]
    taken = {*names, *(data.name for data in op.data)}
    free = (letter for letter in "abc" + LETTERS if letter not in taken)
    more = [*names, *(next(free) for _ in use.arguments[len(names) :])]
    head = f"op {op.glyph}({', '.join(data.name for data in op.data)}; {', '.join(more)}) = …"
    return f"declare numbers after a semicolon: `{head}`, or leave out this one"


# ---- single operators ---------------------------------------------------------------------------


_HABITS: Final[Mapping[str, str]] = {  # what operators take in other libraries
    "split": "the shapes of its parts say where it cuts, as in `split : u [B, D], v [B, E]`",
    "transpose": "T swaps the last two axes; a map moves others: `T[b, s, d -> b, d, s]`",
    "slice": "slice takes every position of a range: it has no step",
    "upsample": "use a node for each number, as in `upsample[H](2) -> upsample[W](3)`",
    "broadcast": "name new axes in brackets, `BC[S]`, or give the shape in the label of its edge",
    "embedding": "a table is a parameter: declare it, `param E [V, D]`, and write `Emb(E)`",
    "reshape": "the label sets the shape: write `-> R : NAME [B, S, D]`",
}


def _join_operands(place: Beside) -> str:
    """Operands that arrive by arrows."""
    values: list[ast.Expr] = []
    for each in place.use.arguments:
        items = each.value.items if isinstance(each.value, ast.Array) else (each.value,)
        values += [item for item in items if isinstance(item, ast.Path | ast.Call)]
    axes = place.use.axes.span.text if place.use.axes else ""
    if len(values) + len(place.arriving) < 2 or not values:
        return ""
    written = [*(["…"] * len(place.arriving)), *(value.span.text for value in values)]
    return f"pass operands by arrows: write `{', '.join(written)} -> C{axes}`"


# Help for arguments of another name than those of an operator, and for operands of a block.


AXES: Final = ("axis", "axes", "dims")  # as NumPy and torch call them
_WINDOW: Final = (
    "an op of your own: op Window(a [.., S, T]; w) = select(and(i >= j, w > i - j), a, -inf) "
    "where i = range[S](T - S), j = range[T]"
)
_BY_ARROW: Final = "pass a value from another node by an arrow"
_OTHER: Final = {  # the names of arguments in torch, Keras and JAX, and those that they have here
    "padding": ("pad",), "strides": ("stride",), "dilation_rate": ("dilation",),
    "scale_factor": ("k",), "pool_size": ("k",), "approximate": ("form",),
    "weight": ("gamma", "K", "E"), "bias": ("beta", "b"), "epsilon": ("eps",),
    "running_mean": ("mean",), "running_var": ("variance",), "ignore_index": ("ignore",),
    "std": ("sigma",),
    **dict.fromkeys(("rate", "prob", "probability", "drop", "drop_prob", "dropout"), ("p",)),
}  # fmt: skip


def other_argument(place: Beside, op: Op, argument: ast.Argument) -> str:
    """The argument that has another name in torch, or what says the same here; else nothing."""
    name, names = argument.name.name if argument.name else "", [own.name for own in op.own]
    plain = name.lower()
    if plain in KEPT and op.brackets == "axes":
        return f"leave `{argument.span.text}` out: axes have names, and a reduced one is gone"
    if plain in (*AXES, *KEPT):
        axes = op.brackets == "axes"
        return axis_in_brackets(place, argument) if axes else to_operator(place, op, argument)
    if op.glyph == "SM" and "window" in plain:
        return f"a window is {_WINDOW}, and then -> Window({argument.value.span.text})"
    if plain in ("kernel_size", "kernel", "out_channels", "in_channels") and "K" in names:
        return "the shape of the kernel sets it: param K [3, 3, C, D]"
    if plain in ("kernel_size", "kernel") and "k" in names:
        return "here it is k"
    if plain in ("normalized_shape", "num_features") and op.name in NORMS:
        return f"a norm knows the length itself: leave `{argument.span.text}` out"
    words = (own for own in op.own if isinstance(own, Word) and plain in own.choices)
    if next(words, None):
        return f"a word has no name: write `{plain}`"
    meant = next((each for each in _OTHER.get(plain, ()) if each in names), None)
    own = next((own for own in op.own if own.name == (meant or similar(name, names))), None)
    if own is not None:
        words = f", one of {', '.join(own.choices)}" if isinstance(own, Word) else ""
        return f"here it is {own.name}{words}"
    return to_operator(place, op, argument) if op.glyph == "Emb" else ""


def to_block(place: Beside, located: LocatedBlock, argument: ast.Argument) -> str:
    """Where an argument belongs that a block does not take."""
    scope, block, written = place.scope, located.block, argument.value.span.text
    node = block.name.name
    if argument.name is not None:
        return _to_port(place, block, argument)
    if written in scope.values:
        is_full = len(place.arriving) >= len(block.data)
        start = _to_state(place, block, argument) if is_full else ""
        return start or f"{_BY_ARROW}: {node}<-{written}"
    bound = {dim for port in block.data if port.shape for dim in names_of(port.shape)}
    free = [name for name in scope.linked.mentioned_dims(located) if name not in bound]
    if block.states and isinstance(argument.value, ast.Number | ast.Negation):
        state = block.states[0]
        line = f"state {greek_name(state.name.name)} {state.shape.span.text} = {written}"
        return f"set a number where the state is declared: `{line}`, and write `{node}` without it"
    if not isinstance(argument.value, ast.Path) or written in scope.reader.dims:
        if not free:
            return "its inputs determine all its sizes"
        made = [n for out in block.outputs if out.shape for n in names_of(out.shape)]
        meant = written if written in free else next((n for n in made if n in free), free[-1])
        return f"name the size: {node}({meant}={written})"
    return f"to name a call, write {node} as {written}"


def _to_port(place: Beside, block: ast.Block, argument: ast.Argument) -> str:
    """The call with operands that arrive by arrows, where an argument has the name of one."""
    names = [port.name.name for port in block.data]
    if argument.name is None or argument.name.name not in names:
        return ""
    if len(place.arriving) >= len(names):
        return f"inputs are passed by arrows, as here: leave `{argument.span.text}` out"
    return f"pass inputs by arrows, in their order: `{', '.join(names)} -> {block.name.name}`"


def _to_state(place: Beside, block: ast.Block, argument: ast.Argument) -> str:
    """The argument with the name of the state whose start it is."""
    given = [each.name.name for each in place.use.arguments if each.name]
    free = [state.name.name for state in block.states if state.name.name not in given]
    if not free:
        return ""
    start = f"{greek_name(free[0])}={argument.value.span.text}"
    over = f" {place.use.over.span.text}" if place.use.over else ""
    return f"set the start of a state in the call: write `{_with(place, argument, start)}{over}`"
