"""Results that checks of a project share from change to change: an editor's session keeps them.

Blocks, operators and plans whose text is the same as before are the same objects as before, at the
places they had then; what was found out of them holds. `Adopted` moves errors to the places that
these texts have now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from xg.diagnostics.diagnostic import Diagnostic, Fix
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.diagnostics.source import Span
from xg.frontend.project import Project
from xg.frontend.typed import TypeMemory
from xg.ir.recent import Recent
from xg.passes.resolve.mentions import KnownMentions
from xg.syntax import ast
from xg.syntax.declare import declaration

if TYPE_CHECKING:
    from xg.frontend.plan_in_choices import PlanMemory

Decl = TypeVar("Decl", ast.Block, ast.OpDef, ast.Plan | ast.PlanProduct)
Text = tuple[str, int, str]  # the name of a file, the column where a declaration begins, its text


@dataclass(slots=True)
class CheckMemory:
    """Declarations by their text, and what was typed and placed of them."""

    types: TypeMemory = field(default_factory=TypeMemory)
    plans: PlanMemory | None = None
    shadowed: tuple[str, ...] = ()
    mentions: KnownMentions = field(default_factory=KnownMentions)
    blocks: Recent[Text, ast.Block] = field(default_factory=Recent[Text, ast.Block])
    ops: Recent[Text, ast.OpDef] = field(default_factory=Recent[Text, ast.OpDef])
    plan_decls: Recent[Text, ast.Plan | ast.PlanProduct] = field(
        default_factory=Recent["Text", "ast.Plan | ast.PlanProduct"]
    )

    def adopt(self, project: Project) -> Adopted:
        """A project made of known declarations, as far as it has any. Begins a round."""
        self._next_round()
        self._forget_shadowed(project)
        places: list[Place] = []
        modules = {id(module): self._module(module, places) for module in project.modules}
        uses = {key: modules[id(module)] for key, module in project.uses.items()}
        adopted = Project(modules[id(project.main)], project.paths, uses)
        return Adopted(adopted, tuple(places))

    def _forget_shadowed(self, project: Project) -> None:
        """Forget everything where a dim that a block declares again has another number.

        A graph keeps the program's numbers of the text that it was made from, and where a dim has
        two meanings `Program.numbers` cannot replace them.
        """
        blocks = [block for module in project.modules for block in module.blocks]
        own = {dim.name.name for block in blocks for dim in block.dims}
        dims = [dim for module in project.modules for dim in module.dims]
        shadowed = tuple(dim.span.text for dim in dims if dim.name.name in own)
        if shadowed != self.shadowed:
            self.types, self.plans, self.shadowed = TypeMemory(), None, shadowed

    def _next_round(self) -> None:
        self.types.next_round()
        self.mentions.known.next_round()
        self.blocks.next_round()
        self.ops.next_round()
        self.plan_decls.next_round()
        if self.plans is not None:
            self.plans.next_round()

    def _module(self, module: ast.Module, places: list[Place]) -> ast.Module:
        return replace(
            module,
            blocks=tuple(_known(module.blocks, self.blocks, places)),
            ops=tuple(_known(module.ops, self.ops, places)),
            plan_decls=tuple(_known(module.plan_decls, self.plan_decls, places)),
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a declaration was, and where it is now."""

    before: Span
    now: Span

    def holds(self, span: Span) -> bool:
        """Whether a span is a part of the declaration as it was."""
        before = self.before
        inside = before.start <= span.start and span.end <= before.end
        return inside and span.source is before.source

    def moved(self, span: Span) -> Span:
        """Where a part of the declaration is now."""
        by = self.now.start - self.before.start
        return Span(self.now.source, span.start + by, span.end + by)


@dataclass(frozen=True, slots=True)
class Adopted:
    """A project in which unchanged declarations are those of before; `places` has those."""

    project: Project
    places: tuple[Place, ...] = ()

    def at_home(self, diagnostic: Diagnostic) -> Diagnostic:
        """An error at the places that the text has now."""
        labels = tuple(replace(each, span=self._now(each.span)) for each in diagnostic.labels)
        span = next((label.span for label in labels if label.primary), None)
        fixes = tuple(self._fix(fix, span) for fix in diagnostic.fixes)
        return replace(diagnostic, labels=labels, fixes=fixes)

    def _fix(self, fix: Fix, span: Span | None) -> Fix:
        if fix.declares and span is not None:
            return declaration(span, *fix.declares)
        return replace(fix, edits=tuple((self._now(span), text) for span, text in fix.edits))

    def _now(self, span: Span) -> Span:
        place = next((place for place in self.places if place.holds(span)), None)
        return span if place is None else place.moved(span)


def _known(decls: Iterable[Decl], known: Recent[Text, Decl], places: list[Place]) -> Iterator[Decl]:
    """The declarations, each as it was before if its text is the same; none of them twice."""
    seen: set[Text] = set()
    for decl in decls:
        text = decl.span.source.name, decl.span.column, decl.span.text
        before = None if text in seen else known.get(text)
        if before is None:
            yield decl if text in seen else known.put(text, decl)
        else:
            places.append(Place(before.span, decl.span))
            yield before
        seen.add(text)
