"""Read expressions of the file as sizes, numbers and initial values."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.limits import Beyond
from xg.diagnostics.terminal import SLIP, similar
from xg.ir.content import Recent
from xg.ir.dim import (
    FUNCTIONS,
    Dim,
    DimError,
    Scalar,
    ScalarError,
    as_scalar,
    function,
    number,
    symbol,
)
from xg.ir.dim import size as scalar_size
from xg.ir.graph import Start
from xg.ir.op import Brackets
from xg.ir.placement import Layout
from xg.ir.tensor import Shape, TensorType
from xg.ir.use import REST, Axis, AxisGroup, AxisMap
from xg.passes.resolve.errors import BadArgument, Refused
from xg.passes.resolve.size_errors import BadNumber, BadSize, UnknownSize
from xg.syntax import ast
from xg.syntax.ast import Syntax, parts, walk

# The names that a text mentions, in any choice of options.
#
# The place of a name says what it is the name of: a size, a value, or an operator. In parentheses
# only the signature of an operator could tell, so there a name counts as each of them.


COMPUTED: Final = (ast.Arithmetic, ast.Power, ast.Negation, ast.Comparison)  # never a tensor


@dataclass(frozen=True, slots=True)
class Mentions:
    """Names by what their places say that they are; options are among the nodes."""

    sizes: set[str] = field(default_factory=set[str])
    values: set[str] = field(default_factory=set[str])
    nodes: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, *trees: Syntax) -> Mentions:
        """All names that these trees mention."""
        mentions = cls()
        waiting: list[Syntax] = [*trees]
        while waiting:
            tree = waiting.pop()
            mentions._add(tree)
            if isinstance(tree, COMPUTED):
                mentions.sizes.update(name for part in walk(tree) for name in _segments(part))
                continue
            for part in () if isinstance(tree, ast.Path) else parts(tree):
                if _is_value(tree, part):
                    mentions.values.update(_segments(part))
                else:
                    waiting.append(part)
        return mentions

    def _add(self, tree: Syntax) -> None:
        """Add the names of one tree, but not of its parts."""
        match tree:
            case ast.Path():
                self.sizes.update(_segments(tree))
            case ast.Argument():
                named = {tree.name.name} if tree.name else set[str]()
                self.sizes.update(named)
                self.values.update(_segments(tree.value))
                self.nodes.update((*named, *_segments(tree.value)))
            case ast.AxisMap(target=None):
                self.sizes.update(_axis_names(tree))
            case ast.Over():
                self.sizes.add(tree.axis.name)
            case ast.NodeUse() | ast.Call():
                self.nodes.add(tree.operator.name)
                if tree.operator.name == "grad" and tree.axes:
                    self.values.update(_axis_names(tree.axes))
            case ast.Plan(block=block) | ast.Example(block=block):
                self.nodes.add(block.name)
            case ast.Guard():
                self.nodes.add(tree.option.name)
            case ast.OptionDecl() | ast.Own():
                self.nodes.update(word.name for word in tree.words)
            case _:
                pass


@dataclass(slots=True)
class KnownMentions:
    """The mentions of trees, each walked once."""

    known: Recent[int, tuple[Syntax, Mentions]] = field(
        default_factory=Recent["int", "tuple[Syntax, Mentions]"]
    )

    def of(self, *trees: Syntax) -> Mentions:
        """All names that these trees mention."""
        together = Mentions()
        for tree in trees:
            known = self.known.get(id(tree)) or self.known.put(id(tree), (tree, Mentions.of(tree)))
            together.sizes.update(known[1].sizes)
            together.values.update(known[1].values)
            together.nodes.update(known[1].nodes)
        return together


def _segments(tree: Syntax) -> tuple[str, ...]:
    return tuple(part.name for part in tree.segments) if isinstance(tree, ast.Path) else ()


def size_names(block: ast.Block) -> tuple[str, ...]:
    """Every name used as a size, in the order of the text.

    In parentheses a name may be a value's: only the signature of an operator decides.
    """
    mentioned: dict[str, None] = {}
    waiting: list[Syntax] = [block]
    while waiting:
        match waiting.pop():
            case ast.Path() as path:
                mentioned[path.name] = None
            case ast.DimDecl() as decl:
                waiting += [decl.size] if decl.size else []
            case ast.AxisMap(target=None) as listed:
                mentioned.update(dict.fromkeys(_axis_names(listed)))
                waiting += parts(listed)
            case tree:
                others = [part for part in parts(tree) if not _is_value(tree, part)]
                waiting += reversed([part for part in others if not isinstance(part, ast.Guard)])
    return tuple(mentioned)


def _is_value(tree: Syntax, part: Syntax) -> bool:
    """Whether a part of a tree is a value by its place."""
    return isinstance(part, ast.Path) and isinstance(
        tree, ast.Chain | ast.Attachment | ast.Binding | ast.Placement | ast.Given | ast.Expect
    )


def _axis_names(axes: ast.AxisMap) -> Iterator[str]:
    """The axes that a plain list names."""
    for item in axes.source:
        for axis in item.axes if isinstance(item, ast.AxisGroup) else (item,):
            if isinstance(axis, ast.Axis) and axis.size is None:
                yield axis.name.name


LARGE: Final = 10**6  # a number of a fraction that no one would write


@dataclass(frozen=True, slots=True)
class ExpressionReader:
    """Reads expressions where `dims` are the known symbols and `numbers` the known numbers.

    An axis of a shape may be divided by axes of the mesh: that cuts it, and its size is the whole.
    `mentions` collects the symbols that were read; `values` are no sizes, as errors say.
    """

    dims: frozenset[str]
    meshes: frozenset[str]
    numbers: Mapping[str, Scalar]
    mentions: dict[str, None] = field(default_factory=dict[str, None], compare=False)
    values: Collection[str] = field(default=(), compare=False)

    def dim(self, expr: ast.Expr) -> Dim:
        """An exact size."""
        match expr:
            case ast.Number(value=int() as value):
                return number(value)
            case ast.Path():
                return self._symbol(expr)
            case ast.Arithmetic():
                return self._arithmetic(expr)
            case ast.Negation():
                return self.dim(expr.operand) * -1
            case ast.Power(exponent=ast.Number(value=int() as power)):
                return self._power(expr, power)
            case ast.Number(value=value) if float(value).is_integer() and 0 < value < LARGE:
                instead = f"sizes are integers: write `{int(value)}`"
                raise Refused(BadSize(expr.span, f"{expr.span.text} is not a size", instead))
            case _:
                raise Refused(BadSize(expr.span, f"{expr.span.text} is not a size"))

    def _power(self, expr: ast.Power, power: int) -> Dim:
        base = self.dim(expr.base)
        try:
            return base**power
        except Beyond as beyond:
            raise Refused(beyond.limit.at(expr.span)) from None

    def _symbol(self, path: ast.Path | ast.Name) -> Dim:
        name = path.name
        if name in self.meshes:
            from xg.passes.resolve.plan_errors import MisplacedMesh  # few files have plans

            raise Refused(MisplacedMesh(path.span, name))
        if name not in self.dims:
            raise Refused(self._unknown(path))
        self.mentions[name] = None
        return symbol(name)

    def _unknown(self, path: ast.Path | ast.Name) -> UnknownSize:
        known = tuple(sorted(self.dims))
        if path.name in self.values:
            return UnknownSize(path.span, path.name, known, "value")
        other = "number" if path.name in self.numbers else "nothing"
        return UnknownSize(path.span, path.name, known, other)

    def _arithmetic(self, expr: ast.Arithmetic) -> Dim:
        _refuse_decimals(expr)
        total = self.dim(expr.first)
        for operation in expr.rest:
            other = self.dim(operation.operand)
            try:
                match operation.sign:
                    case "+":
                        total = total + other
                    case "-":
                        total = total - other
                    case "*":
                        total = total * other
                    case "/":
                        total = total / other
            except DimError as problem:
                raise Refused(BadSize(operation.span, str(problem))) from None
            except Beyond as beyond:
                raise Refused(beyond.limit.at(expr.span)) from None
        return total

    def scalar(self, expr: ast.Expr) -> Scalar:
        """A real number, symbolic in the sizes it mentions."""
        try:
            return self._scalar(expr)
        except ScalarError as error:
            raise Refused(BadNumber(expr.span, str(error))) from None
        except Beyond as beyond:
            raise Refused(beyond.limit.at(expr.span)) from None

    def _scalar(self, expr: ast.Expr) -> Scalar:
        match expr:
            case ast.Number(value=value):
                return as_scalar(value)
            case ast.Path(name=name) if name in self.numbers:
                return self.numbers[name]
            case ast.Path():
                return scalar_size(self._symbol(expr))
            case ast.Call(axes=None, arguments=(ast.Argument(name=None, value=value),)) if (
                expr.operator.name in FUNCTIONS
            ):
                return function(expr.operator.name, self.scalar(value))
            case ast.Negation():
                return -self.scalar(expr.operand)
            case ast.Power():
                return self.scalar(expr.base) ** self.scalar(expr.exponent)
            case ast.Arithmetic():
                total = self.scalar(expr.first)
                for operation in expr.rest:
                    total = _apply(operation.sign, total, self.scalar(operation.operand))
                return total
            case _:
                raise Refused(BadNumber(expr.span, f"{expr.span.text} is not a number"))

    def shape(self, shape: ast.Shape) -> Shape:
        """The dims of a written shape, of the whole tensor where it is cut."""
        return tuple(dim for dim in self.layout(shape, plan=False).dims if dim is not None)

    def layout(self, shape: ast.Shape, *, plan: bool) -> Layout:
        """The dims of a written shape and the axes that cut them; `_` and `..` only in a `plan`."""
        dims: list[Dim | None] = []
        cuts: list[tuple[str, ...]] = []
        seen: dict[str, ast.Path] = {}
        unknown: list[Problem] = []
        for dim in shape.dims:
            if isinstance(dim, ast.Rest):
                if not plan or dim is not shape.dims[-1]:
                    where = "at the end of a shape" if plan else "in op signatures and plans"
                    raise Refused(BadSize(dim.span, f"`..` stands only {where}"))
                continue
            whole, paths = split_mesh_axes(dim, self.meshes)
            for path in paths:
                first = seen.setdefault(path.name, path)
                if first is not path:
                    from xg.passes.resolve.plan_errors import MeshTwice  # few files have plans

                    raise Refused(MeshTwice(path.span, path.name, first.span))
            try:
                dims.append(None if plan and isinstance(whole, ast.Wildcard) else self.dim(whole))
            except Refused as refused:
                unknown += refused.problems
            cuts.append(tuple(path.name for path in paths))
        if unknown:
            raise Refused(*unknown)
        return Layout(tuple(dims), tuple(cuts), open=len(dims) < len(shape.dims))

    def type(self, shape: ast.Shape, range_: ast.Expr | None) -> TensorType:
        """The type of a port or a parameter."""
        return TensorType(self.shape(shape), self.dim(range_) if range_ else None)

    def axes(self, axes: ast.AxisMap | None, takes: Brackets) -> AxisMap | None:
        """Read the brackets after an operator; a new axis without a size has its name as size."""
        if axes is None:
            return None
        if axes.target is None and "new axes" in takes:
            for item in axes.source:
                if isinstance(item, ast.Axis) and item.size is None:
                    self._symbol(item.name)
        source = tuple(self._group(item) for item in axes.source)
        if axes.target is None:
            listed = (axis.name for group in source for axis in group if axis.size is None)
            self.mentions.update(dict.fromkeys(name for name in listed if name in self.dims))
            return AxisMap(source, None)
        return AxisMap(source, tuple(self._group(item) for item in axes.target))

    def _group(self, item: ast.AxisItem) -> AxisGroup:
        items: Iterable[ast.AxisItem] = item.axes if isinstance(item, ast.AxisGroup) else (item,)
        return tuple(self._axis(part) for part in items)

    def _axis(self, item: ast.AxisItem) -> Axis:
        match item:
            case ast.Axis(name=name, size=size):
                return Axis(
                    name.name, self.dim(split_mesh_axes(size, self.meshes)[0]) if size else None
                )
            case ast.UnitAxis():
                return Axis("")
            case ast.PlaceAxis(place=place):
                return Axis(str(place), place=place)
            case _:
                return REST


def _refuse_decimals(expr: ast.Arithmetic) -> None:
    """Refuse a product with a number like 1.25, with its fraction: ``5*S/4`` for ``1.25*S``."""
    factors = [("*", expr.first), *((part.sign, part.operand) for part in expr.rest)]
    decimals = [each for _, each in factors if _is_decimal(each)]
    if not decimals or any(sign in "+-" for sign, _ in factors):
        return
    number = Fraction(1)
    sides: dict[str, list[str]] = {"*": [], "/": []}
    for sign, factor in factors:
        if _is_decimal(factor):
            number = number * Fraction(factor.span.text) ** (1 if sign == "*" else -1)
        else:
            text = factor.span.text
            sides[sign].append(f"({text})" if isinstance(factor, ast.Arithmetic) else text)
    above, below = (
        [*([str(part)] if part != 1 else []), *texts]
        for part, texts in zip(number.as_integer_ratio(), sides.values(), strict=True)
    )
    under = f"({'*'.join(below)})" if len(below) > 1 else "".join(below)
    written = "/".join(filter(None, ("*".join(above) or "1", under)))
    message = f"{decimals[0].span.text} is not a size"
    exact = f"sizes are exact: write `{written}`" if max(number.as_integer_ratio()) < LARGE else ""
    raise Refused(BadSize(expr.span, message, exact))


def _is_decimal(expr: ast.Expr) -> bool:
    """Whether this is a number with a point, but not 0."""
    return isinstance(expr, ast.Number) and isinstance(expr.value, float) and expr.value > 0


def split_mesh_axes(
    expr: ast.Expr, meshes: Container[str]
) -> tuple[ast.Expr, tuple[ast.Path, ...]]:
    """Split a size into the whole axis and the mesh axes that cut it, outermost first.

    Only the last divisors cut: ``D_ff/N_T``, ``N_H*D_h/(N_G*N_T)``.
    """
    if not isinstance(expr, ast.Arithmetic):
        return expr, ()
    operations = list(expr.rest)
    axes: list[ast.Path] = []
    while (
        operations
        and operations[-1].sign == "/"
        and (mesh_axes := _mesh_axes(operations[-1].operand, meshes))
    ):
        axes[:0] = mesh_axes
        operations.pop()
    whole = ast.Arithmetic(expr.span, expr.first, tuple(operations)) if operations else expr.first
    return whole, tuple(axes)


def _mesh_axes(expr: ast.Expr, meshes: Container[str]) -> list[ast.Path]:
    """The factors of a divisor, if all are mesh axes."""
    factors = [expr]
    if isinstance(expr, ast.Arithmetic):
        factors = [expr.first, *(part.operand for part in expr.rest if part.sign == "*")]
        if len(factors) <= len(expr.rest):
            return []
    paths = [part for part in factors if isinstance(part, ast.Path) and part.name in meshes]
    return paths if len(paths) == len(factors) else []


def _apply(sign: str, left: Scalar, right: Scalar) -> Scalar:
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _:
            return left / right


# The initial value of a parameter.


_NORMAL: Final = ("normal", "randn", "gaussian", "randn_like")


def start(reader: ExpressionReader, expr: ast.Expr) -> Start:
    """The initial value of a parameter: a word, the law that it is drawn from, or a number."""
    match expr:
        case ast.Path(name="ones" | "zeros" as word):
            return word
        case ast.Number(value=0 | 1 as number):
            return "ones" if number else "zeros"
        case ast.Call(
            operator=ast.Name(name="normal"),
            axes=None,
            arguments=(ast.Argument(name=None, value=deviation),),
        ):
            return reader.scalar(deviation)
        case ast.Call(
            operator=ast.Name(name="uniform"),
            axes=None,
            arguments=(
                ast.Argument(name=None, value=low),
                ast.Argument(name=None, value=high),
            ),
        ):
            return reader.scalar(low), reader.scalar(high)
        case ast.Path() | ast.Call(operator=ast.Name(name="normal" | "uniform")) | ast.Array():
            raise Refused(_no_start(expr))
        case _:
            if any(_is_normal(reader, part) for part in walk(expr)):
                raise Refused(_no_start(expr, _drawn(reader, expr)))
            number = reader.scalar(expr)
            return number, number


def _drawn(reader: ExpressionReader, expr: ast.Expr) -> str:
    """The law that a product with a random tensor means, `normal(0.02)` for `0.02*normal`."""
    if not isinstance(expr, ast.Arithmetic) or any(each.sign in "+-" for each in expr.rest):
        return ""
    factors = [("*", expr.first), *((each.sign, each.operand) for each in expr.rest)]
    laws = [
        place
        for place, (sign, each) in enumerate(factors)
        if sign == "*" and _is_normal(reader, each)
    ]
    if len(laws) != 1:
        return ""
    left = [(sign, each) for place, (sign, each) in enumerate(factors) if place != laws[0]]
    law = factors[laws[0]][1]
    if isinstance(law, ast.Call) and law.operator.name == "normal":  # what it has is a deviation
        given = law.arguments[0].value if len(law.arguments) == 1 else None
        if given is None or not isinstance(given, ast.Number | ast.Path):
            return ""
        if given.span.text not in ("1", "1.0"):
            left.append(("*", given))
    left.sort(key=lambda each: each[0] == "/")
    texts = [f"{sign}{_in_product(each)}" for sign, each in left]
    written = "".join(texts)
    return f"normal({written[1:] if written[0] == '*' else f'1{written}'})"


def _is_normal(reader: ExpressionReader, expr: object) -> bool:
    """Whether this is a tensor of normal numbers, as NumPy, torch and JAX call it."""
    if not isinstance(expr, ast.Path | ast.Call):
        return False
    name = expr.operator.name if isinstance(expr, ast.Call) else expr.name
    return name.lower() in _NORMAL and name not in {*reader.dims, *reader.numbers}


def _in_product(expr: ast.Expr) -> str:
    return f"({expr.span.text})" if isinstance(expr, ast.Arithmetic) else expr.span.text


def _no_start(expr: ast.Expr, law: str = "") -> BadArgument:
    written, starts = expr.span.text, "ones, zeros, a number, normal(0.02) or uniform(-0.1, 0.1)"
    slip = similar(written, ("ones", "zeros"), SLIP) if isinstance(expr, ast.Path) else None
    return BadArgument(
        expr.span,
        f"a parameter cannot start as {written}",
        (
            f"the deviation is in parentheses: write `{law}`"
            if law
            else f"it may start as {starts}",
        ),
        meant=law or slip,
    )
