"""From rules to trees: the statements of blocks and the declarations of a file.

An error that the grammar cannot see is collected here. Where the parser has given something up
after an error, its child is None.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from xg.diagnostics.source import Span
from xg.syntax import ast
from xg.syntax.build_plans import Items, PlanBuilder, flat
from xg.syntax.errors import (
    FrozenElsewhere,
    MissingShape,
    WildcardOutsidePlan,
    WrongEdition,
)
from xg.syntax.tokens import Token
from xg.syntax.tree import Syntax, only

EDITION = 1

Kind = TypeVar("Kind", bound=Syntax)


class _Tensor(NamedTuple):
    """`W_Q [D, D] = ones` in a list of parameters or states."""

    span: Span
    name: ast.Name
    shape: ast.Shape | None
    range: ast.Expr | None
    init: ast.Expr | None
    frozen: ast.FrozenWord | None


class ModuleBuilder(PlanBuilder):
    """Makes the tree of one source; see `TermBuilder` for how its methods are called."""

    # ---- statements of a block -------------------------------------------------------------------

    def tensor(
        self,
        span: Span,
        name: Token,
        shape: ast.Shape | None,
        range: ast.Expr | None,
        init: ast.Expr | None,
        frozen: Token | None,
    ) -> _Tensor:
        """`γ [D] = ones`, `W [D, C] frozen`."""
        return _Tensor(span, self._name(name), shape, range, init, self._frozen(frozen, range))

    def params(self, _: Span, *tensors: _Tensor) -> tuple[ast.Param, ...]:
        """`param W_Q, W_K [D, D]`."""
        self._allow_frozen(tensors)
        return tuple(
            ast.Param(t.span, t.name, self._shape("parameter", t), t.range, t.init, t.frozen)
            for t in _shared(tensors)
        )

    def states(self, _: Span, *tensors: _Tensor) -> tuple[ast.State, ...]:
        """`state K_c, V_c [B, N_KV, T, D_h]`."""
        return tuple(
            ast.State(t.span, t.name, self._shape("state", t), t.range, t.init)
            for t in _shared(tensors)
        )

    def next(self, _: Span, bindings: tuple[ast.Binding, ...]) -> tuple[ast.Binding, ...]:
        """`next K_c = K`."""
        return bindings

    def binding(self, span: Span, name: Token, value: ast.Expr) -> ast.Binding:
        """`μ = mean[D](x)`."""
        return ast.Binding(span, self._name(name), value)

    def bindings(self, _: Span, *bindings: ast.Binding) -> tuple[ast.Binding, ...]:
        """`K_c = K, V_c = V`."""
        return bindings

    def body(self, _: Span, *statements: Items) -> tuple[Syntax, ...]:
        """The statements of a block."""
        return flat(statements)

    # ---- declarations ----------------------------------------------------------------------------

    def edition(self, _: Span, number: Token) -> ast.Number:
        """`edition 1`."""
        edition = self.number(_, number)
        if edition.value != EDITION:
            message = f"this compiler knows edition {EDITION} of the language"
            self.problems.append(WrongEdition(edition.span, message))
        return edition

    def names(self, _: Span, *names: Token) -> tuple[ast.Name, ...]:
        """`Attention, MLP`."""
        return tuple(map(self._name, names))

    def use(self, span: Span, names: tuple[ast.Name, ...], origin: Token) -> ast.Use:
        """`use GQA from llama`."""
        path = self._text(origin) if origin.type == "STRING" else None
        return ast.Use(span, names, path or self._name(origin))

    def size(self, span: Span, name: Token, value: ast.Expr | None) -> ast.DimDecl:
        """`D = 64` behind `dim` or `mesh`."""
        return ast.DimDecl(span, self._name(name), value)

    def dims(self, _: Span, *sizes: ast.DimDecl) -> tuple[ast.DimDecl, ...]:
        """`dim B, D = 64`."""
        return sizes

    def mesh(self, _: Span, *sizes: ast.DimDecl) -> tuple[ast.MeshDecl, ...]:
        """`mesh N_T = 3`."""
        return tuple(ast.MeshDecl(size.span, size.name, size.size) for size in sizes)

    def option(self, span: Span, name: Token, words: tuple[ast.Name, ...]) -> ast.OptionDecl:
        """`norm = pre | post`."""
        return ast.OptionDecl(span, self._name(name), words)

    def options(self, _: Span, *options: ast.OptionDecl) -> tuple[ast.OptionDecl, ...]:
        """`option norm = pre | post, ffn = MLP | GatedMLP`."""
        return options

    def op(
        self,
        span: Span,
        name: Token,
        data: tuple[ast.Port, ...] | None,
        own: tuple[ast.Own, ...] | None,
        body: ast.Expr,
        bindings: tuple[ast.Binding, ...] | None,
    ) -> ast.OpDef:
        """`op ReLU(x) = max(x, 0)`."""
        return ast.OpDef(span, self._name(name), data or (), own or (), body, bindings or ())

    def block(
        self,
        span: Span,
        name: Token,
        title: Token | None,
        data: tuple[ast.Port, ...] | None,
        own: tuple[ast.Own, ...] | None,
        outputs: tuple[ast.Port, ...],
        body: tuple[Syntax, ...] | None,
    ) -> ast.Block:
        """`block MLP(X [B, S, D]) -> Y [B, S, D] { … }`."""
        for what, ports in (("input", data or ()), ("output", outputs)):
            for port in ports:
                self._shape(what, port)
        self._allow_frozen(data or ())
        statements = body or ()
        return ast.Block(
            span,
            self._name(name),
            self._text(title),
            data or (),
            own or (),
            outputs,
            dims=only(ast.DimDecl, statements),
            params=only(ast.Param, statements),
            states=only(ast.State, statements),
            nexts=only(ast.Binding, statements),
            remarks=only(ast.Remark, statements),
            expects=only(ast.Expect, statements),
            chains=only(ast.Chain, statements),
        )

    def given(self, span: Span, target: ast.Path, value: ast.Expr) -> ast.Given:
        """`t = [[1], [0]]`."""
        return ast.Given(span, target, value)

    def givens(self, _: Span, *givens: ast.Given) -> tuple[ast.Given, ...]:
        """`given X = 1, t = 0`."""
        return givens

    def expect(
        self,
        span: Span,
        target: ast.Path,
        value: ast.Expr,
        tolerance: ast.Expr | None,
        place: Token | None,
        wrong: Token | None,
    ) -> ast.Expect:
        """`expect loss = 0.7153 ± 5e-5 "Step 7" wrong "a misprint"`."""
        return ast.Expect(span, target, value, tolerance, self._text(place), self._text(wrong))

    def claims(self, _: Span, *claims: Items) -> tuple[Syntax, ...]:
        """The lines of an example."""
        return flat(claims)

    def example(
        self, span: Span, title: Token | None, block: Token, claims: tuple[Syntax, ...] | None
    ) -> ast.Example:
        """`example "The cat sleeps" of Mini { … }`."""
        givens, expects = only(ast.Given, claims or ()), only(ast.Expect, claims or ())
        return ast.Example(span, self._text(title), self._name(block), givens, expects)

    def start(self, span: Span, *items: Items) -> ast.Module:
        """The whole file."""
        declared = flat(items)
        editions = only(ast.Number, declared)
        message = "the edition stands once, before everything else"
        late = (each.span for each in editions if each is not declared[0])
        self.problems += (WrongEdition(place, message) for place in late)
        self.problems += map(WildcardOutsidePlan, self._wildcards)
        self.problems += map(FrozenElsewhere, self._frozen_words)
        return ast.Module(
            span,
            edition=editions[0] if editions else None,
            uses=only(ast.Use, declared),
            dims=only(ast.DimDecl, declared),
            meshes=only(ast.MeshDecl, declared),
            options=only(ast.OptionDecl, declared),
            ops=only(ast.OpDef, declared),
            blocks=only(ast.Block, declared),
            plan_decls=tuple(
                item for item in declared if isinstance(item, ast.Plan | ast.PlanProduct)
            ),
            examples=only(ast.Example, declared),
        )

    def _shape(self, what: str, declared: _Tensor | ast.Port) -> ast.Shape:
        """The shape; its absence is a problem, and then it is a scalar's."""
        if declared.shape is None:
            self.problems.append(MissingShape(declared.name.span, what))
            return ast.Shape(declared.name.span, ())
        return declared.shape


def _shared(tensors: tuple[_Tensor, ...]) -> list[_Tensor]:
    """The list with shape, range and value of the next one where a name has neither."""
    shared: list[_Tensor] = []
    for tensor in reversed(tensors):
        if shared and not any(tensor[2:]):
            tensor = _Tensor(tensor.span, tensor.name, *shared[-1][2:])
        shared.append(tensor)
    return shared[::-1]
