"""From rules to trees: the plans of a file."""

from __future__ import annotations

from typing import TypeAlias

from xg.diagnostics.source import Span
from xg.syntax import ast
from xg.syntax.build_chains import ChainBuilder
from xg.syntax.errors import UnknownMemory
from xg.syntax.tokens import Token
from xg.syntax.tree import Syntax, only

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
