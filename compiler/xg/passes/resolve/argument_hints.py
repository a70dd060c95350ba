"""Give hints for arguments that an operator or a block does not take."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from xg.diagnostics.terminal import similar
from xg.ir.dim import DimError, number
from xg.ir.op import Op
from xg.ir.tensor import Shape, spell_shape
from xg.ir.use import LETTERS, Own, Word
from xg.ops import find
from xg.passes.resolve.errors import BadArgument, Refused
from xg.passes.resolve.hints import NORMS, Beside, as_operand, names_of
from xg.passes.resolve.units import LocatedBlock
from xg.syntax import ast
from xg.syntax.spelling import greek_name

KEPT: Final = ("keepdim", "keepdims")  # as torch and NumPy call that a reduced axis becomes 1
_NO_STEP: Final = "slice takes every position of a range: it has no step"
_MAP: Final = "to move axes, use T, or a map: T[b, s, d -> b, d, s]"
_KERNEL: Final = ("stride", "pad", "dilation")  # behind the kernel and the bias, as in torch
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
    meant = option or (_OF[op.name](place) if op.name in _OF else "")
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


def kept_axes(place: Beside, argument: ast.Argument) -> str:
    """The way to an axis of 1, which other libraries keep where an axis is reduced."""
    use, shape, out = place.use, place.shape, argument.span.text
    axes = use.axes.span.text if use.axes and use.axes.target is None else ""
    if argument.value.span.text not in ("True", "1") or not axes or shape is None:
        return f"leave `{out}` out: axes have names, and a reduced one is gone"
    gone = axes[1:-1].replace(" ", "").split(",")
    names = [str(dim) for dim in shape]
    places = [names.index(each) if each in names else len(names) + int(each) for each in gone
              if each in names or re.fullmatch(r"-\d+", each)]  # fmt: skip
    kept = ", ".join("1" if i in places else name for i, name in enumerate(names))
    node = f"-> {use.operator.name}{axes}"
    return f"leave `{out}` out: `{node}` is without the axis, `{node} -> R : [{kept}]` keeps a 1"


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


def refuse_none(place: Beside, op: Op) -> None:
    """Refuse `None` as an argument, and suggest the call that leaves it out."""
    given = [each.value.span.text for each in place.use.arguments]
    if "None" not in given or "None" in place.scope.values:
        return
    first, names = given.index("None"), [own.name for own in op.own]
    written = [
        each.span.text if each.name or i < first or i >= len(names) else f"{names[i]}={text}"
        for i, (each, text) in enumerate(zip(place.use.arguments, given, strict=True))
        if text != "None"
    ]
    called = _write_call(place, written)
    span = place.use.arguments[first].span
    help = f"leave out an argument that you don't need: write `{called}`"
    raise Refused(BadArgument(span, "no parameter is called None", (help,)))


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
        return (_table(place),)
    if op.name in NORMS:
        argument = next(each for each in use.arguments if each.value is expr)
        given = f"pass numbers by name: write `{_with(place, argument, f'eps={written}')}`"
        plain = f"a norm knows the length itself: write `{op.glyph}`"
        return (plain if _read_integer(expr) is not None else given,)
    if op.name != "convolution" or not isinstance(expr, ast.Number):
        return ()
    node = f"{op.glyph}{use.axes.span.text if use.axes else '[H, W]'}"
    if own.name == "K":
        size = ", ".join(["3"] * (len(use.axes.source) if use.axes else 2))
        return (f"a kernel is a parameter: `param K [{size}, C, D]`, and `{node}(K)`",)
    first, *rest = (each.span.text for each in use.arguments)
    if len(rest) == 1:
        return (f"pass numbers by name: `{node}({first}, stride={written})`, or `pad={written}`",)
    names = zip(_KERNEL, rest, strict=False)
    listed = ", ".join([first, *(f"{name}={each}" for name, each in names)])
    return (f"pass numbers by name: write `{node}({listed})`",) if rest[0] == written else ()


def _with(place: Beside, argument: ast.Argument, written: str) -> str:
    """The use with one argument written otherwise."""
    arguments = place.use.arguments
    return _write_call(
        place, [written if each is argument else each.span.text for each in arguments]
    )


def _write_call(place: Beside, arguments: Sequence[str]) -> str:
    """The use with these arguments."""
    use = place.use
    axes = use.axes.span.text if use.axes else ""
    behind = f"({', '.join(arguments)})" if arguments else ""
    return f"{use.operator.span.text}{axes}{behind}"


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


def _split(place: Beside) -> str:
    """Parts whose shapes say where they are cut."""
    label = place.use.label
    names = [greek_name(port.name.name) for port in label.ports] if label else []
    names = names if len(names) > 1 else ["u", "v"]
    if len(place.targets) == len(names) and None not in place.targets:
        return f"the shapes of its parts set where it cuts: write `split : {', '.join(names)}`"
    shape = place.shape
    try:
        part = None if not shape else (*shape[:-1], shape[-1] / number(len(names)))
    except DimError:
        part = None
    written = spell_shape(part) if part else "[…]"
    parts = ", ".join(f"{name} {written}" for name in names)
    return f"the shapes of its parts set where it cuts: write `split : {parts}`"


def _transpose(place: Beside) -> str:
    """T alone, or the map that numbers mean."""
    order = [_read_integer(each.value) for each in place.use.arguments]
    if order in ([-1, -2], [-2, -1]):
        return "T exchanges the last two axes: write `T`"
    shape = place.shape
    if not shape or None in order:
        return _MAP
    places = [each % len(shape) for each in order if each is not None and each < len(shape)]
    if len(places) == 2 != len(shape):
        first, second = places
        places = [*range(len(shape))]
        places[first], places[second] = second, first
    if sorted(places) != [*range(len(shape))]:
        return _MAP
    if places == [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]:
        return "T exchanges the last two axes: write `T`"
    letters = _letters(shape)
    moved = ", ".join(letters[each] for each in places)
    return f"to move axes, use a map: write `T[{', '.join(letters)} -> {moved}]`"


def _letters(shape: Shape) -> list[str]:
    """A letter for each axis."""
    letters: list[str] = []
    for dim in shape:
        first = str(dim)[:1].lower()
        fits = first.isascii() and first.isalpha() and first not in letters
        letters.append(first if fits else next(i for i in LETTERS if i not in letters))
    return letters


def _concat(place: Beside) -> str:
    """Operands that arrive by arrows."""
    values: list[ast.Expr] = []
    for each in place.use.arguments:
        items = each.value.items if isinstance(each.value, ast.Array) else (each.value,)
        values += [item for item in items if isinstance(item, ast.Path | ast.Call)]
    written = [value.span.text for value in values]
    if not written:
        return ""
    axes = place.use.axes.span.text if place.use.axes else ""
    if place.arriving:
        return f"pass operands by arrows: write `C{axes}{''.join(f'<-{e}' for e in written)}`"
    if len(written) < 2:
        return ""
    return f"pass operands by arrows: write `{', '.join(written)} -> C{axes}`"


def _slice(place: Beside) -> str:
    """A step that slice has not."""
    use, given = place.use, [each.span.text for each in place.use.arguments]
    step = _read_integer(use.arguments[-1].value) if len(given) == 3 else None
    axes = use.axes.span.text if use.axes else ""
    if step is None or step < 2 or given[0] != "0" or axes[1:-1] != given[1]:
        return _NO_STEP if len(given) == 3 else ""
    return f"{_NO_STEP}; one position in {step} is maxpool{axes}(k=1, stride={step})"


def _upsample(place: Beside) -> str:
    """One upsample for each axis."""
    use, given = place.use, [each.span.text for each in place.use.arguments]
    axes = [each.span.text for each in use.axes.source] if use.axes else []
    if len(axes) != len(given) or len(axes) < 2:
        return ""
    each = " -> ".join(f"upsample[{axis}]({k})" for axis, k in zip(axes, given, strict=True))
    return f"one number applies to all axes: write `{each}`"


def _broadcast(place: Beside) -> str:
    """New axes in brackets, or the shape of the label."""
    sizes = [each.span.text for each in place.use.arguments]
    if place.target is not None:
        return "the shape of its edge sets where it repeats: write `BC`"
    if not {*sizes} <= {*place.scope.reader.dims}:
        return "the shape of its edge sets where it repeats: write `BC : NAME [B, S, D]`"
    return f"name new axes in brackets; they come first: write `BC[{', '.join(sizes)}]`"


def _table(place: Beside) -> str:
    """Suggest declaring a table, if the arguments are the two sizes that other libraries take."""
    sizes = [each.value for each in place.use.arguments]
    dims = place.scope.reader.dims
    are_sizes = all(_read_integer(each) is not None or each.span.text in dims for each in sizes)
    if len(sizes) != 2 or not are_sizes:
        return ""
    name = next(each for each in ("E", "E_1", "E_2") if each not in place.scope.values)
    shape = ", ".join(each.span.text for each in sizes)
    return f"a table is a parameter: declare it, param {name} [{shape}], and write `Emb({name})`"


def _reshape(place: Beside) -> str:
    del place  # it is the same for all
    return "the label sets the shape: write `-> R : NAME [B, S, D]`"


_OF: Final[Mapping[str, Callable[[Beside], str]]] = {
    "split": _split,
    "transpose": _transpose,
    "concat": _concat,
    "slice": _slice,
    "upsample": _upsample,
    "broadcast": _broadcast,
    "embedding": _table,
    "reshape": _reshape,
}


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
        return kept_axes(place, argument)
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
    return _suggest_names(place, op, name) or (
        to_operator(place, op, argument) if op.glyph == "Emb" else ""
    )


def _suggest_names(place: Beside, op: Op, name: str) -> str:
    """Suggest the name that an argument has here, or the whole use if several differ."""
    names, use = [own.name for own in op.own], place.use
    given = [each.name.name if each.name else "" for each in use.arguments]
    meant = {each: _meant(each, names) for each in given if each and each not in names}
    own = next((own for own in op.own if own.name == meant.get(name)), None)
    if own is None:
        return ""
    if len(meant) == 1 or "" in meant.values():
        words = f", one of {', '.join(own.choices)}" if isinstance(own, Word) else ""
        return f"here it is {own.name}{words}"
    written = (
        f"{meant[each]}={argument.value.span.text}" if each in meant else argument.span.text
        for each, argument in zip(given, use.arguments, strict=True)
    )  # fmt: skip
    axes = use.axes.span.text if use.axes else ""
    return (
        f"here they have other names: write `{use.operator.span.text}{axes}({', '.join(written)})`"
    )


def _meant(name: str, names: Sequence[str]) -> str:
    other = next((each for each in _OTHER.get(name.lower(), ()) if each in names), None)
    return other or similar(name, names) or ""


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
    """The call with an operand that arrives by an arrow, where the argument has its name."""
    use, names = place.use, [port.name.name for port in block.data]
    given = {each.name.name: each for each in use.arguments if each.name}
    name = argument.name.name if argument.name else ""
    if name not in names:
        return ""
    if len(place.arriving) >= len(names):
        return f"inputs are passed by arrows, as here: leave `{argument.span.text}` out"
    missing = names[len(place.arriving) :]
    if not {*missing} <= {*given} or any(not _is_operand(given[each].value) for each in missing):
        return f"pass inputs by arrows: {block.name.name}<-…"
    rest = [each.span.text for key, each in given.items() if key not in names]
    over = f" {use.over.span.text}" if use.over else ""
    called = use.operator.span.text + (f"({', '.join(rest)})" if rest else "")
    values = [given[each].value.span.text for each in missing]
    if place.arriving:
        return f"pass inputs by arrows: write `{called}{''.join(f'<-{e}' for e in values)}{over}`"
    return f"pass inputs by arrows: write `{', '.join(values)} -> {called}{over}`"


def _is_operand(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Path | ast.Call)


def _to_state(place: Beside, block: ast.Block, argument: ast.Argument) -> str:
    """The call with the names of its states before their starts."""
    use = place.use
    given = [each.name.name for each in use.arguments if each.name]
    free = iter(state.name.name for state in block.states if state.name.name not in given)
    written: list[str] = []
    for each in use.arguments:
        value = each.value.span.text
        state = next(free, None) if each.name is None and value in place.scope.values else None
        if each is argument and state is None:
            return ""
        written.append(f"{greek_name(state)}={value}" if state else each.span.text)
    over = use.over.span.text if use.over else "over S"
    called = f"{use.operator.span.text}({', '.join(written)}) {over}"
    return f"set the start of a state in the call: write `{called}`"


# Refusals and helps for arguments in the wrong place; imported only where a text has one.
#
# Without errors no text needs the modules behind it, and starting is most of the time of a command.


class Helps(NamedTuple):
    """The refusals and helps of arguments, by what they are for."""

    refuse_none: Callable[[Beside, Op], None]
    refuse_option: Callable[[Beside, Sequence[Word], Own, ast.Expr | None], None]
    to_operator: Callable[[Beside, Op, ast.Argument], str]
    other_argument: Callable[[Beside, Op, ast.Argument], str]
    to_block: Callable[[Beside, LocatedBlock, ast.Argument], str]
    instead_of_tensor: Callable[[Beside, Op, Own, ast.Expr], tuple[str, ...]]


HELPS: Final = Helps(
    refuse_none, refuse_option, to_operator, other_argument, to_block, instead_of_tensor
)
