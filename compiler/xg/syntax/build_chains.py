"""From rules to trees: nodes, their labels, and the chains they make."""

from __future__ import annotations

from typing import NamedTuple

from xg.diagnostics.lazy_dataclass import replace
from xg.diagnostics.source import Span
from xg.syntax import ast
from xg.syntax.build_terms import TermBuilder
from xg.syntax.errors import NamelessResult, NamesInTheMiddle
from xg.syntax.tokens import Token


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
    """Whether a name is hardly that of an operator or block."""
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
