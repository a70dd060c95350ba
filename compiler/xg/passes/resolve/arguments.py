"""Arguments in parentheses: an operator's signature or a block's says what each one is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xg.diagnostics.diagnostic import Problem
from xg.ir.dim import Dim, symbol
from xg.ir.graph import Value
from xg.ir.op import Op
from xg.ir.scalar import Scalar, as_scalar
from xg.ir.tensor import Shape
from xg.ir.use import Length, MeshAxis, Number, Own, Tensor, Word
from xg.passes.resolve.errors import BadArgument, Refused, UnknownValue, UnknownWord
from xg.passes.resolve.instance import BlockInstance
from xg.passes.resolve.misplaced import (
    made_elsewhere,
    number_of_values,
    refuse_padding,
)
from xg.passes.resolve.scope import BlockScope
from xg.passes.resolve.undeclared import Beside, own_declared
from xg.passes.resolve.units import LocatedBlock
from xg.syntax import ast

if TYPE_CHECKING:
    from xg.passes.resolve.argument_helps import Helps


def op_arguments(
    scope: BlockScope,
    use: ast.NodeUse,
    op: Op,
    data: Sequence[Value],
    targets: tuple[Shape | None, ...],
) -> tuple[tuple[Value, ...], dict[str, Any], tuple[str, ...]]:
    """Own tensors as values, other own arguments by name, and the names of absent tensors."""
    refuse_padding(scope, use, op)
    place = Beside(scope, use, data, targets)
    expressions = _given(place, op)
    tensors: list[Value] = []
    absent: list[str] = []
    others: dict[str, Any] = {}
    unknown: list[Problem] = []
    for own in op.own:
        argument = expressions.get(own.name)
        _refuse_option(place, [each for each in op.own if isinstance(each, Word)], own, argument)
        if isinstance(own, Tensor):
            if argument is not None:
                try:
                    tensors.append(_tensor(place, op, own, argument))
                except Refused as refused:
                    if not any(isinstance(each, UnknownValue) for each in refused.problems):
                        raise
                    unknown += own_declared(place, own, refused).problems
            elif own.optional:
                absent.append(own.name)
            else:
                raise Refused(
                    BadArgument(use.span, f"{use.operator.name} needs {own.name} in parentheses")
                )
        else:
            others[own.name] = _own(place, op, own, argument)
    if unknown:
        raise Refused(*unknown)
    return tuple(tensors), others, tuple(absent)


def _given(place: Beside, op: Op) -> dict[str, ast.Expr]:
    """The own arguments of a use by their names."""
    use = place.use
    words = {word: own.name for own in op.own if isinstance(own, Word) for word in own.choices}

    def elsewhere(argument: ast.Argument) -> str:
        return _helps().to_operator(place, op, argument)

    def named(argument: ast.Argument) -> str:
        return _helps().other_argument(place, op, argument)

    if any(argument.value.span.text == "None" for argument in use.arguments):
        _helps().refuse_none(place, op)
    return _matched(use, [own.name for own in op.own], words, elsewhere, named)


def _matched(
    use: ast.NodeUse,
    names: Sequence[str],
    words: Mapping[str, str],
    elsewhere: Callable[[ast.Argument], str],
    named: Callable[[ast.Argument], str],
) -> dict[str, ast.Expr]:
    """Arguments by the name of their parameter.

    A word belongs to the argument that lists it; any other without a name takes the first free
    place. `elsewhere` says where one belongs that no parameter takes, `named` what one of another
    name is here.
    """
    matched: dict[str, ast.Expr] = {}
    node = use.operator.name
    takes = f"{', '.join(names) or 'nothing'} in parentheses"
    for argument in use.arguments:
        if argument.name is not None:
            name = argument.name.name
        else:
            free = (name for name in names if name not in matched)
            name = words.get(argument.value.span.text) or next(free, None)
        if name is None:
            help = tuple(filter(None, (elsewhere(argument),)))
            raise Refused(BadArgument(argument.span, f"{node} takes {takes}", help))
        if name not in names or name in matched:
            wrong = f"is given {name} twice" if name in matched else f"takes {takes}, not {name}"
            help = () if name in matched else tuple(filter(None, (named(argument),)))
            raise Refused(BadArgument(argument.span, f"{node} {wrong}", help))
        matched[name] = argument.value
    return matched


def _helps() -> Helps:
    from xg.passes.resolve.argument_helps import HELPS  # for errors alone

    return HELPS


def _refuse_option(place: Beside, words: Sequence[Word], own: Own, expr: ast.Expr | None) -> None:
    """Refuse an option in the place of a number or a tensor."""
    if isinstance(expr, ast.Path) and place.scope.option(expr.span.text):
        _helps().refuse_option(place, words, own, expr)


def _tensor(place: Beside, op: Op, own: Tensor, expr: ast.Expr) -> Value:
    value = place.scope.path(expr) if isinstance(expr, ast.Path) else None
    if value is not None and value.role == "param":
        return value
    use, help = place.use, _helps().instead_of_tensor(place, op, own, expr)
    if value is None:
        what = f"{own.name} of {use.operator.name} is a parameter"
        raise Refused(BadArgument(expr.span, what, help))
    written = expr.span.text
    what = f"{written} is made by another node: it cannot stand in parentheses"
    help = help or tuple(filter(None, (made_elsewhere(use, op, own, value, written),)))
    raise Refused(BadArgument(expr.span, what, help, value.span))


def _own(place: Beside, op: Op, own: Own, expr: ast.Expr | None) -> Scalar | Dim | str | None:
    scope, use = place.scope, place.use
    match own:
        case Number():
            if expr is not None:
                return _number(place, op, expr)
            if own.default is not None or own.optional:
                return None if own.default is None else as_scalar(own.default)
        case Word():
            return _word(scope, own, expr) if expr is not None else own.choices[0]
        case Length():
            if expr is not None:
                return _length(place, op, expr)
            if own.optional:
                return None
        case MeshAxis():
            if expr is not None:
                return _mesh_axis(scope, expr)
            raise Refused(_axis_missing(scope, use))
        case Tensor():
            pass
    needed = [each.name for each in op.own if isinstance(each, Length) and not each.optional]
    help = (f"all that it needs: {op.glyph}({', '.join(needed)})",) if len(needed) > 1 else ()
    message = f"{use.operator.name} needs {own.name} in parentheses"
    raise Refused(BadArgument(use.span, message, help))


def _length(place: Beside, op: Op, expr: ast.Expr) -> Dim:
    try:
        return place.scope.reader.dim(expr)
    except Refused as refused:
        raise number_of_values(place, op, expr, refused) from None


def _number(place: Beside, op: Op, expr: ast.Expr) -> Scalar:
    try:
        return place.scope.reader.scalar(expr)
    except Refused as refused:
        raise number_of_values(place, op, expr, refused) from None


def _mesh_axis(scope: BlockScope, expr: ast.Expr) -> str:
    if not isinstance(expr, ast.Path) or expr.name not in scope.linked.mesh:
        from xg.passes.resolve.plan_errors import UnknownMesh  # few files have plans

        raise Refused(UnknownMesh(expr.span, expr.span.text, tuple(scope.linked.mesh)))
    return expr.name


def _axis_missing(scope: BlockScope, use: ast.NodeUse) -> BadArgument:
    node = use.operator.name
    axis = next(iter(scope.linked.mesh), "N_T")
    help = f"say over which ranks: {node}({axis})"
    return BadArgument(use.span, f"{node} needs an axis of the mesh in parentheses", (help,))


def _word(scope: BlockScope, own: Word, expr: ast.Expr) -> str:
    word = expr.name if isinstance(expr, ast.Path) else expr.span.text
    option = scope.option(word)
    if option is not None and word not in own.choices:
        word = option[1]
    if word not in own.choices:
        raise Refused(UnknownWord(expr.span, own.name, word, own.choices))
    return word


def block_arguments(
    use: ast.NodeUse, located: LocatedBlock, called: Beside
) -> tuple[BlockInstance, dict[str, Dim]]:
    """The instance that a call asks for, and the symbols that the call gives it.

    `called` is the call with its operands, and with the starts of states that `use` is without.
    Sizes at a call are the caller's, even where the callee has the same names.
    """
    scope, block = called.scope, located.block
    formals = {own.name.name: own for own in block.own}
    sizes, rest = _sizes(scope, use, located)
    trimmed = ast.NodeUse(use.span, use.operator, None, rest, (), None, None, None, None, None)
    listed = {word.name: name for name, own in formals.items() for word in own.words}

    def elsewhere(argument: ast.Argument) -> str:
        return _helps().to_block(called, located, argument)

    expressions = _matched(trimmed, tuple(formals), listed, elsewhere, elsewhere)
    choosing = [Word(name, tuple(w.name for w in own.words)) for name, own in formals.items()]
    words: dict[str, str] = {}
    numbers: dict[str, Scalar] = {}
    for name, own in formals.items():
        if own.words:
            word, expr = next(each for each in choosing if each.name == name), expressions.get(name)
            words[name] = _word(scope, word, expr) if expr else word.choices[0]
        elif name in expressions:
            _refuse_option(called, choosing, Number(name), expressions[name])
            number = scope.reader.scalar(expressions[name])
            numbers[name], apart = _renamed_apart(number, name, located, scope)
            sizes |= apart
        elif own.default is not None:
            numbers[name] = scope.linked.reader().scalar(own.default)
        else:
            raise Refused(BadArgument(use.span, f"{block.name.name} needs {name} in parentheses"))
    return BlockInstance(located, tuple(words.items()), tuple(numbers.items())), sizes


def _sizes(
    scope: BlockScope, use: ast.NodeUse, located: LocatedBlock
) -> tuple[dict[str, Dim], tuple[ast.Argument, ...]]:
    """The sizes that a call gives, and its other arguments."""
    formals = {own.name.name for own in located.block.own}
    declared = scope.linked.dims | {decl.name.name for decl in located.block.dims}
    sizes: dict[str, Dim] = {}
    rest: list[ast.Argument] = []
    for argument in use.arguments:
        name = argument.name.name if argument.name else ""
        if name in formals or name not in declared:
            rest.append(argument)
            continue
        block = located.block.name.name
        if name in sizes:
            raise Refused(BadArgument(argument.span, f"{block} has {name} twice"))
        mentioned = scope.linked.mentioned(located)
        if name not in mentioned:
            takes = ", ".join(mentioned)
            help = (f"its dims are {takes}",) if takes else ()
            raise Refused(BadArgument(argument.span, f"{block} has no dim {name}", help))
        sizes[name] = scope.reader.dim(argument.value)
    return sizes, tuple(rest)


def _renamed_apart(
    number: Scalar, name: str, located: LocatedBlock, scope: BlockScope
) -> tuple[Scalar, dict[str, Dim]]:
    """A number in sizes that are the callee's own, and what these are to the caller."""
    taken = {*scope.linked.dims, *(decl.name.name for decl in located.block.dims)}
    symbols = dict.fromkeys(symbol for dim in number.dims() for symbol in dim.symbols())
    fresh: dict[str, Dim] = {}
    for each in symbols:
        other = f"{name}_{each}"
        while other in taken or other in fresh:
            other += "_"
        fresh[other] = symbol(each)
    renamed = dict(zip(symbols, map(symbol, fresh), strict=True))
    return number.substitute(renamed), fresh
