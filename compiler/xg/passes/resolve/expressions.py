"""Expressions of the file as sizes and numbers."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from fractions import Fraction
from typing import Final

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.limits import Beyond
from xg.ir.dim import Dim, DimError, number, symbol
from xg.ir.op import Brackets
from xg.ir.plan import Layout
from xg.ir.scalar import FUNCTIONS, Scalar, ScalarError, as_scalar, function
from xg.ir.scalar import size as scalar_size
from xg.ir.tensor import Shape, TensorType
from xg.ir.use import REST, Axis, AxisGroup, AxisMap
from xg.passes.resolve.errors import Refused
from xg.passes.resolve.size_errors import BadNumber, BadSize, UnknownSize
from xg.syntax import ast

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
                instead = f"sizes are whole numbers: write `{int(value)}`"
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
        if path.name in self.meshes:
            from xg.passes.resolve.plan_errors import MisplacedMesh  # few files have plans

            raise Refused(MisplacedMesh(path.span, path.name))
        if path.name not in self.dims:
            raise Refused(self._unknown(path))
        self.mentions[path.name] = None
        return symbol(path.name)

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
            whole, paths = parted(dim, self.meshes)
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
        """Brackets behind an operator; a new axis without a size has that of its name."""
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
                return Axis(name.name, self.dim(parted(size, self.meshes)[0]) if size else None)
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


def parted(expr: ast.Expr, meshes: Container[str]) -> tuple[ast.Expr, tuple[ast.Path, ...]]:
    """The size that an axis has as a whole, and the mesh axes that cut it, outermost first.

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
