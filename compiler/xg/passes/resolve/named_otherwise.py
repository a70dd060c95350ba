"""Help for arguments of another name than those of an operator, and for operands of a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.diagnostics.wording import similar
from xg.ir.op import Op
from xg.ir.use import Word
from xg.passes.resolve.in_parentheses import KEPT, axis_in_brackets, kept_axes, to_operator
from xg.passes.resolve.misplaced import NORMS, names_of
from xg.passes.resolve.undeclared import Beside
from xg.passes.resolve.units import LocatedBlock
from xg.syntax import ast
from xg.syntax.spelling import greek_name

AXES: Final = ("axis", "axes", "dims")  # as NumPy and torch call them
_WINDOW: Final = (
    "an op of your own: op Window(a [.., S, T]; w) = select(and(i >= j, w > i - j), a, -inf) "
    "where i = range[S](T - S), j = range[T]"
)
_BY_ARROW: Final = "a value made by another node arrives by an arrow"
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
        return "the shape of the kernel says it: param K [3, 3, C, D]"
    if plain in ("kernel_size", "kernel") and "k" in names:
        return "here it is k"
    if plain in ("normalized_shape", "num_features") and op.name in NORMS:
        return f"a norm finds the length itself: leave `{argument.span.text}` out"
    words = (own for own in op.own if isinstance(own, Word) and plain in own.choices)
    if next(words, None):
        return f"a word stands alone: write `{plain}`"
    return _renamed(place, op, name) or (
        to_operator(place, op, argument) if op.glyph == "Emb" else ""
    )


def _renamed(place: Beside, op: Op, name: str) -> str:
    """The name that an argument has here, with all of them where several have another one."""
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
    free = [name for name in scope.linked.mentioned(located) if name not in bound]
    if block.states and isinstance(argument.value, ast.Number | ast.Negation):
        state = block.states[0]
        line = f"state {greek_name(state.name.name)} {state.shape.span.text} = {written}"
        return f"a number is where the state is declared: `{line}`, and `{node}` without it"
    if not isinstance(argument.value, ast.Path) or written in scope.reader.dims:
        if not free:
            return "its inputs say all its sizes"
        made = [n for out in block.outputs if out.shape for n in names_of(out.shape)]
        meant = written if written in free else next((n for n in made if n in free), free[-1])
        return f"a size has its name before it: {node}({meant}={written})"
    return f"a call is named behind it: {node} as {written}"


def _to_port(place: Beside, block: ast.Block, argument: ast.Argument) -> str:
    """The call with an operand that arrives by an arrow, where the argument has its name."""
    use, names = place.use, [port.name.name for port in block.data]
    given = {each.name.name: each for each in use.arguments if each.name}
    name = argument.name.name if argument.name else ""
    if name not in names:
        return ""
    if len(place.arriving) >= len(names):
        return f"inputs arrive by arrows, as here: leave `{argument.span.text}` out"
    missing = names[len(place.arriving) :]
    if not {*missing} <= {*given} or any(not _is_operand(given[each].value) for each in missing):
        return f"inputs arrive by arrows: {block.name.name}<-…"
    rest = [each.span.text for key, each in given.items() if key not in names]
    over = f" {use.over.span.text}" if use.over else ""
    called = use.operator.span.text + (f"({', '.join(rest)})" if rest else "")
    values = [given[each].value.span.text for each in missing]
    if place.arriving:
        return f"inputs arrive by arrows: write `{called}{''.join(f'<-{e}' for e in values)}{over}`"
    return f"inputs arrive by arrows: write `{', '.join(values)} -> {called}{over}`"


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
    return f"a state starts as the call says: write `{called}`"
