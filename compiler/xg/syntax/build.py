"""Build trees from rules: chains, plans, the statements of blocks, the declarations of a file.

An error that the grammar cannot see is collected here. Where the parser has given something up
after an error, its child is None.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, TypeVar

from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import replace
from xg.syntax import ast
from xg.syntax.ast import Syntax, only
from xg.syntax.build_terms import TermBuilder
from xg.syntax.errors import (
    FrozenElsewhere,
    MissingShape,
    NamelessResult,
    NamesInTheMiddle,
    UnknownMemory,
    WildcardOutsidePlan,
    WrongEdition,
)
from xg.syntax.tokens import Token

# From rules to trees: nodes, their labels, and the chains they make.


class _ChainNode(NamedTuple):
    """A node of a chain before its label is read."""

    span: Span
    operator: ast.Name
    axes: ast.AxisMap | None
    arguments: tuple[ast.Argument, ...]
    attachments: tuple[ast.Attachment, ...]
    over: ast.Over | None
    guard: ast.Guard | None
    instance: ast.Name | None
    repeat: ast.Number | ast.Path | None


class ChainBuilder(TermBuilder):
    """Makes the chains of one source; see `TermBuilder` for how its methods are called."""

    def attach(self, span: Span, arrow: Token, operand: ast.Operand) -> ast.Attachment:
        """`<=W_Q`."""
        return ast.Attachment(span, "<=" if arrow.type == "DOUBLE" else "<-", operand)

    def attached(self, _: Span, *attachments: ast.Attachment) -> tuple[ast.Attachment, ...]:
        """`<-t<-w`."""
        return attachments

    def marked(self, span: Span, arrow: Token | None, name: Token) -> ast.Marked:
        """`-> A`."""
        return ast.Marked(span, self._name(name), arrow is not None)

    def highlight(self, span: Span, *parts: ast.Marked | Token | None) -> ast.Remark:
        """`highlight K, -> A "ours"`."""
        *targets, text = parts
        marked = tuple(each for each in targets if isinstance(each, ast.Marked))
        words = self._text(text) if isinstance(text, Token) else None
        return ast.Remark(span, marked, words, highlights=True)

    def note(self, span: Span, *parts: ast.Marked | Token | None) -> ast.Remark:
        """`note A "one row for each query"`."""
        return replace(self.highlight(span, *parts), highlights=False)

    def guard(self, span: Span, option: Token, words: tuple[ast.Name, ...]) -> ast.Guard:
        """`if norm = pre`."""
        return ast.Guard(span, self._name(option), words)

    def over(self, span: Span, axis: Token, backwards: Token | None) -> ast.Over:
        """`over S reversed`."""
        return ast.Over(span, self._name(axis), backwards is not None)

    def node(
        self,
        span: Span,
        repeat: ast.Number | ast.Path | None,
        operator: Token,
        axes: ast.AxisMap | None,
        args: tuple[ast.Argument, ...] | None,
        attached: tuple[ast.Attachment, ...],
        over: ast.Over | None,
        guard: ast.Guard | None,
        instance: Token | None,
    ) -> _ChainNode:
        """`N × Decoder(p)<-M as decoder`."""
        name = self._name(instance) if instance else None
        operation = self._name(operator)
        return _ChainNode(span, operation, axes, args or (), attached, over, guard, name, repeat)

    def label(self, span: Span, ports: tuple[ast.Port, ...]) -> ast.Label:
        """`: Q [B, S, D]`."""
        return ast.Label(span, ports, None)

    def unnamed(self, span: Span, shape: ast.Shape) -> ast.Label:
        """`: [B, S, D]`."""
        return ast.Label(span, (), shape)

    def step(self, _: Span, node: _ChainNode, label: ast.Label | None) -> ast.NodeUse:
        """`-> LN(γ, β) : H`."""
        return ast.NodeUse(*node, label)

    def named_call(
        self,
        span: Span,
        operator: Token,
        axes: ast.AxisMap | None,
        args: tuple[ast.Argument, ...],
        instance: Token,
    ) -> ast.NodeUse:
        """`Queries(N=N) as more`."""
        called, name = self._name(operator), self._name(instance)
        return ast.NodeUse(span, called, axes, args, (), None, None, name, None, None)

    def sources(self, _: Span, *starts: ast.Start) -> tuple[ast.Start, ...]:
        """`O_1, O_2`."""
        return starts

    def branch(
        self,
        span: Span,
        sources: tuple[ast.Start, ...],
        label: ast.Label | None,
        *steps: ast.NodeUse,
    ) -> ast.Chain:
        """`H -> •<=W_up` in parentheses: its result needs no name."""
        for inner in (label, *(step.label for step in steps[:-1])):
            if inner is not None and len(inner.ports) > 1:
                self.problems.append(NamesInTheMiddle(inner.span))
        return ast.Chain(span, sources, label, steps)

    def chain(
        self,
        span: Span,
        sources: tuple[ast.Start, ...],
        label: ast.Label | None,
        *steps: ast.NodeUse,
    ) -> ast.Chain:
        """`X -> LN(γ, β) : H`."""
        last = steps[-1].label if steps else label
        if last is None:
            self.problems.append(
                _nameless(steps[-1]) if steps else NamelessResult(sources[-1].span)
            )
        elif not last.ports:
            self.problems.append(NamelessResult(last.span))
        if steps:
            return self.branch(span, sources, label, *steps)
        return ast.Chain(span, sources, label, ())


def _may_be_an_edge(name: str) -> bool:
    """Return whether a name is unlikely to name an operator or a block."""
    return not name[0].isupper() or (len(name) == 1 and name not in "CRST")


def _nameless(node: ast.NodeUse) -> NamelessResult:
    """The problem of a chain that ends with a node, which may be what its author calls the edge."""
    name, axes = node.operator.name, node.axes
    if axes is not None and axes.target is None:
        return NamelessResult(node.span, name, axes.span.text)
    if node.instance is not None:
        return NamelessResult(node.span, name, "", node.instance.name)
    bare = node.span.text == name and name.isidentifier() and _may_be_an_edge(name)
    return NamelessResult(node.span, name if bare else "")


# From rules to trees: the plans of a file.


PAD = "pad"
WORDS = ("again", "keep", "hold", "ring", "zigzag", PAD)
SCHEDULE = "schedule"

Items: TypeAlias = "Syntax | tuple[Syntax, ...] | None"


class PlanBuilder(ChainBuilder):
    """Makes the trees of plans; see `TermBuilder` for how its methods are called."""

    def targets(self, _: Span, *targets: Token | ast.Path) -> tuple[ast.Path, ...]:
        """`W_Q, layers.*.W_K`."""
        return tuple(t if isinstance(t, ast.Path) else self.path(_, t) for t in targets)

    def placement(
        self,
        span: Span,
        targets: tuple[ast.Path, ...],
        at_rest: ast.Shape,
        in_use: ast.Shape | None,
        memory: Token | None,
    ) -> ast.Placement:
        """`W_Q, W_K [D, D/N_T]`."""
        while self._wildcards and self._wildcards[-1].start >= span.start:
            self._wildcards.pop()
        word = self._memory(memory) if memory else None
        return ast.Placement(span, targets, at_rest, in_use, word)

    def recomputation(
        self,
        span: Span,
        targets: tuple[ast.Path, ...],
        word: Token,
        counts: tuple[ast.Number, ...] | None,
    ) -> ast.Placement | ast.Schedule:
        """`layers again`, or `schedule 1F1B(8)`."""
        alone = len(targets) == 1 and targets[0].name == SCHEDULE
        if alone and str(word) not in WORDS:
            return ast.Schedule(span, self._name(word), counts or ())
        if counts:
            self.problems.append(UnknownMemory(Span(self._source, word.start, span.end)))
        return ast.Placement(span, targets, None, None, self._memory(word))

    def counts(self, _: Span, *counts: Token) -> tuple[ast.Number, ...]:
        """`(8, 2)`."""
        return tuple(self.number(self._span(count), count) for count in counts)

    def _memory(self, word: Token) -> ast.Name:
        name = self._name(word)
        if name.name not in WORDS:
            self.problems.append(UnknownMemory(name.span))
        return name

    def placements(
        self, _: Span, *placements: ast.Placement | ast.Schedule | None
    ) -> tuple[Syntax, ...]:
        """The lines of a plan."""
        return flat(placements)

    def plan(
        self,
        span: Span,
        name: Token,
        title: Token | None,
        block: Token,
        placements: tuple[Syntax, ...] | None,
    ) -> ast.Plan:
        """`plan TP of MLP { … }`."""
        lines, orders = placements or (), only(ast.Schedule, placements or ())
        names = self._name(name), self._text(title), self._name(block)
        return ast.Plan(span, *names, only(ast.Placement, lines), orders)

    def plan_product(
        self, span: Span, name: Token, title: Token | None, *factors: Token
    ) -> ast.PlanProduct:
        """`plan SP = TP × Stream`."""
        names = tuple(map(self._name, factors))
        return ast.PlanProduct(span, self._name(name), self._text(title), names)


def flat(items: tuple[Items, ...]) -> tuple[Syntax, ...]:
    """One statement may declare several things, or have been given up."""
    flat: list[Syntax] = []
    for item in items:
        if isinstance(item, tuple):
            flat += item
        elif item is not None:
            flat.append(item)
    return tuple(flat)


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
        """Build `D = 64` after `dim` or `mesh`."""
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
        result: ast.Shape | None,
        body: ast.Expr,
        bindings: tuple[ast.Binding, ...] | None,
    ) -> ast.OpDef:
        """`op ReLU(x) = max(x, 0)`."""
        rest = result, body, bindings or ()
        return ast.OpDef(span, self._name(name), data or (), own or (), *rest)

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

    def stored_givens(self, span: Span, file: Token) -> ast.Stored:
        """`given from "numbers.npz"`."""
        return ast.Stored(span, self._string(file), claimed=False, tolerance=None, place=None)

    def stored_expects(
        self, span: Span, file: Token, tolerance: ast.Expr | None, place: Token | None
    ) -> ast.Stored:
        """`expect from "numbers.npz" ± 1e-6 "page 4"`."""
        return ast.Stored(
            span, self._string(file), claimed=True, tolerance=tolerance, place=self._text(place)
        )

    def claims(self, _: Span, *claims: Items) -> tuple[Syntax, ...]:
        """The lines of an example."""
        return flat(claims)

    def example(
        self, span: Span, title: Token | None, block: Token, claims: tuple[Syntax, ...] | None
    ) -> ast.Example:
        """`example "The cat sleeps" of Mini { … }`."""
        return ast.Example(
            span,
            self._text(title),
            self._name(block),
            givens=only(ast.Given, claims or ()),
            expects=only(ast.Expect, claims or ()),
            stored=only(ast.Stored, claims or ()),
        )

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
