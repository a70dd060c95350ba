"""Expressions of the file as sizes and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xg.dim import Dim, DimError, number, symbol
from xg.passes.resolve.errors import BadSize, NotYet, Refused, UnknownSize
from xg.scalar import FUNCTIONS, Scalar, as_scalar, function
from xg.scalar import size as scalar_size
from xg.syntax import ast
from xg.tensor import Shape, TensorType
from xg.use import REST, Axis, AxisGroup, AxisMap


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads expressions where `dims` are the known symbols and `numbers` the known numbers.

    A division by one of `meshes` shards an axis; that is refused here.
    """

    dims: frozenset[str]
    meshes: frozenset[str]
    numbers: Mapping[str, Scalar]

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
                return self.dim(expr.base) ** power
            case _:
                raise Refused(BadSize(expr.span, f"{expr.span.text} is not a size"))

    def _symbol(self, path: ast.Path) -> Dim:
        if path.name in self.meshes:
            raise Refused(NotYet(path.span, f"a size divided over the mesh axis {path.name}"))
        if path.name not in self.dims:
            raise Refused(UnknownSize(path.span, path.name, tuple(sorted(self.dims))))
        return symbol(path.name)

    def _arithmetic(self, expr: ast.Arithmetic) -> Dim:
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
            except (DimError, ZeroDivisionError) as problem:
                raise Refused(BadSize(operation.span, str(problem))) from None
        return total

    def scalar(self, expr: ast.Expr) -> Scalar:
        """A real number, symbolic in the sizes it mentions."""
        match expr:
            case ast.Number(value=value):
                return as_scalar(value)
            case ast.Path(name=name) if name in self.numbers:
                return self.numbers[name]
            case ast.Path():
                return scalar_size(self._symbol(expr))
            case ast.Call() if expr.operator.name in FUNCTIONS and len(expr.arguments) == 1:
                return function(expr.operator.name, self.scalar(expr.arguments[0].value))
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
                raise Refused(BadSize(expr.span, f"{expr.span.text} is not a number"))

    def shape(self, shape: ast.Shape) -> Shape:
        """The dims of a written shape."""
        dims: list[Dim] = []
        for dim in shape.dims:
            if isinstance(dim, ast.Rest):
                raise Refused(BadSize(dim.span, "`..` stands only in op signatures and plans"))
            dims.append(self.dim(dim))
        return tuple(dims)

    def type(self, shape: ast.Shape, range_: ast.Expr | None) -> TensorType:
        """The type of a port or a parameter."""
        return TensorType(self.shape(shape), self.dim(range_) if range_ else None)

    def axes(self, axes: ast.AxisMap | None) -> AxisMap | None:
        """Brackets behind an operator."""
        if axes is None:
            return None
        source = tuple(self._group(item) for item in axes.source)
        if axes.target is None:
            return AxisMap(source, None)
        return AxisMap(source, tuple(self._group(item) for item in axes.target))

    def _group(self, item: ast.AxisItem) -> AxisGroup:
        items: Iterable[ast.AxisItem] = item.axes if isinstance(item, ast.AxisGroup) else (item,)
        return tuple(self._axis(part) for part in items)

    def _axis(self, item: ast.AxisItem) -> Axis:
        match item:
            case ast.Axis(name=name, size=size):
                return Axis(name.name, self.dim(size) if size else None)
            case ast.UnitAxis():
                return Axis("")
            case _:
                return REST


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
