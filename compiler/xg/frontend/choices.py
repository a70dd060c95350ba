"""Check a file in every choice of options that its blocks distinguish.

A block is typed on its own, independent of its callers. So it is enough that each block has met
every combination of the options that it mentions itself, and of those that decide what its calls
demand of its sizes (`xg.frontend.options`); how else the options of two blocks combine does not
matter. That keeps the work near the product of few words where all combinations would be many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, TypeVar

from xg.diagnostics.diagnostic import MISTAKES_AT_MOST, Diagnostic, DiagnosticError, Fix, Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace, resting_collector
from xg.diagnostics.limits import CheckedOperators, spell_count
from xg.frontend.errors import UntriedChoices
from xg.frontend.options import (
    PRODUCT_AT_MOST,
    Choice,
    Demands,
    choices_of,
    joined,
    mentioned_words,
)
from xg.frontend.project import Project
from xg.frontend.typed import (
    ProjectTyper,
    Settings,
    TypedBlocks,
    TypeMemory,
    concerning,
    named_block,
    read_by,
    refuse_unread,
    takes_own,
    type_project,
    without_wrong_sizes,
)
from xg.frontend.warnings import unused, warnings_of
from xg.ir.content import Recent
from xg.ir.graph import Graph, IRProgram
from xg.passes.resolve.errors import Refused
from xg.passes.resolve.expressions import KnownMentions
from xg.passes.resolve.units import link, unused_axes
from xg.syntax import ast
from xg.syntax.ast import only
from xg.syntax.format import declaration

if TYPE_CHECKING:
    from xg.frontend.plan_in_choices import PlanMemory
    from xg.ir.placement import Plan


# Results that checks of a project share from change to change: an editor's session keeps them.
#
# Blocks, operators and plans whose text is the same as before are the same objects as before, at
# the places they had then; what was found out of them holds. `Adopted` moves errors to the places
# that these texts have now.


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
        self._forget_on_shadowing(project)
        places: list[Place] = []
        modules = {id(module): self._module(module, places) for module in project.modules}
        uses = {key: modules[id(module)] for key, module in project.uses.items()}
        adopted = Project(modules[id(project.main)], project.paths, uses, project.arrays)
        return Adopted(adopted, tuple(places))

    def _forget_on_shadowing(self, project: Project) -> None:
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
    """A project whose unchanged declarations are the earlier objects; `places` locates them."""

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


OPERATORS_AT_LEAST = 25  # that a choice counts: also a small block takes its time

OF_LIMITS = "XG00"  # codes of limits: a program beyond one is not looked into any further


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """All errors of a file, and its blocks in the choices that were met.

    A block is there once for each choice; one with errors may be incomplete.
    """

    diagnostics: tuple[Diagnostic, ...]
    graphs: tuple[Graph, ...] = ()


def check_choices(
    project: Project,
    block: str | None = None,
    settings: Settings | None = None,
    plan: str | None = None,
) -> tuple[Diagnostic, ...]:
    """All errors of a file, or of one block, in any choice that `settings` leave.

    Examples are looked into where no block has an error; their claims are not judged. Every plan
    of the file and of those it uses is checked against all that it reaches; with `plan`, which may
    be a product that no line declares, this one alone.
    """
    return checked(project, block, settings, plan).diagnostics


@resting_collector()
def checked(
    project: Project,
    block: str | None = None,
    settings: Settings | None = None,
    plan: str | None = None,
    memory: CheckMemory | None = None,
) -> Checked:
    """`check_choices` with the blocks that were typed besides the errors.

    With a `memory` of earlier checks only what was changed is checked, and the graphs have the
    places of the texts from which they were made first.
    """
    checker = _Checker(project, settings or {}, memory)
    checker.asked = block
    project = checker.project
    checker.read_plans(plan)
    try:
        if block is None:
            checker.check_file()
        else:
            if block not in [each.name.name for each in project.main.blocks]:
                type_project(project, block, settings)  # which says what is missing
            checker.check([block])
        checker.check_examples(block)
    except DiagnosticError as error:
        checker.add(error.diagnostics)
    if not checker.has_errors:
        checker.add(each.diagnostic() for each in checker.untried_choices(block))
        entry = project.main.blocks and named_block(project, block).span
        for one in checker.programs:
            checker.add(warnings_of(one, is_compiled=one.main.span == entry))
    if block is None and not checker.has_errors:
        files = project.main, project.modules, checker.memory.mentions
        checker.add(each.diagnostic() for each in unused_axes(*files))
        checker.add(each.diagnostic() for each in unused(*files))
    return Checked(checker.diagnostics(), tuple(checker.graphs))


@resting_collector()
def typed_blocks(project: Project, memory: CheckMemory | None = None) -> TypedBlocks:
    """Type the blocks of a file in the choices that `check_project` meets, without plans.

    A block with errors is there without what they concern. With a `memory` only those that have
    changed are typed.
    """
    checker = _partial(project, memory)
    if not checker.graphs:  # no block can be typed where a size of the file is wrong
        try:
            _check_operators(project)
        except DiagnosticError as error:
            if readable := without_wrong_sizes(project, error.diagnostics):
                checker = _partial(readable, memory)
    before = {place.now: place.before for place in checker.adopted.places}
    return TypedBlocks(tuple(checker.graphs), before, checker.numbers)


def _partial(project: Project, memory: CheckMemory | None) -> _Checker:
    """A checker that has typed what it can, without plans."""
    checker = _Checker(project, {}, memory)
    checker.is_partial = checker.memory.types.resolved.keeps_rests = True
    with suppress(DiagnosticError):
        checker.check_file()
    return checker


def choices_to_meet(
    project: Project, settings: Settings | None = None, block: str | None = None
) -> list[tuple[str, Settings]]:
    """Blocks of a file and settings, in which every block meets all options that it distinguishes.

    With `block` this one alone, which may be of a used file. Raises DiagnosticError with all
    errors.
    """
    checker = _Checker(project, settings or {})
    checker.asked = block
    if block is None and not project.main.blocks:
        block = named_block(project, None).name.name
    blocks = [each.name.name for each in reversed(project.main.blocks)]
    checker.check(blocks if block is None else [block])
    if checker.has_errors:
        raise DiagnosticError(checker.diagnostics())
    return [(entry, read_by(project, entry, met)) for entry, met in checker.met]


def _check_operators(project: Project) -> None:
    try:
        link(project.main, project.load, {})
    except Refused as refused:
        raise DiagnosticError.of(*refused.problems) from None


class _Waiting:
    """The choices that a block has yet to meet, in order.

    A choice is found by one of its words, so that settings look at those alone that they may meet.
    """

    def __init__(self, choices: Iterable[Choice]) -> None:
        self.choices = dict(enumerate(choices))
        self.by_word: dict[tuple[str, str | int] | None, list[int]] = {}
        for number, choice in self.choices.items():
            self.by_word.setdefault(next(iter(choice.items()), None), []).append(number)

    def take_first(self) -> Choice:
        """Remove the first choice and return it."""
        return self.choices.pop(next(iter(self.choices)))

    def leave_out(self, settings: Settings) -> None:
        """Remove the choices that these settings meet."""
        met = settings.items()
        for word in (*met, None):
            for number in self.by_word.get(word, ()):
                if number in self.choices and self.choices[number].items() <= met:
                    del self.choices[number]


class _Checker:
    """Types blocks of a project until each has met its combinations.

    Blocks are known by their places: those of two files may have one name.
    """

    def __init__(
        self, project: Project, settings: Settings, memory: CheckMemory | None = None
    ) -> None:
        self.memory = memory or CheckMemory()
        self.adopted = Adopted(project) if memory is None else memory.adopt(project)
        self.project = project = self.adopted.project
        self.settings = settings
        self.asked: str | None = None  # the only block that the user asks for
        self.typer = ProjectTyper(project, self.memory.types)
        self.found: dict[tuple[object, ...], Diagnostic] = {}
        modules = project.modules[::-1]  # importers come after their imports, and win
        self.options = {
            option.name.name: tuple(word.name for word in option.words)
            for module in modules
            for option in module.options
        }
        self.default = {name: words[0] for name, words in self.options.items()}
        self.waiting = {
            block.span: _Waiting(choices_of(block, self.options, settings))
            for module in modules
            for block in module.blocks
        }
        self.demands = Demands.of(modules, self.options, settings)
        self.entries: dict[Span, str] = {}  # a block that reaches each block
        self.own = {each.span: each.name.name for each in project.main.blocks}
        self.apart = {b.span for b in project.main.blocks if takes_own(b, settings)}
        self.met: list[tuple[str, Settings]] = []
        self.typed: list[IRProgram] = []
        self.programs: list[IRProgram] = []  # all that were typed without errors
        self.operators = 0  # typed so far, in all choices
        self.graphs: list[Graph] = []
        self.numbers: dict[str, int] = {}  # of the program's sizes
        self.plans: list[Plan] = []
        self.foreign: set[str] = set()  # plans that come with blocks of used files
        self.is_partial = False  # types what it can, and places nothing

    def check_file(self) -> None:
        """Type every block of the file, and the other blocks of its plans."""
        main = self.project.main
        blocks = [each.name.name for each in reversed(main.blocks)]
        if blocks:
            self.check([*blocks, *self.plan_blocks(blocks)])
        elif main.ops or main.plan_decls or main.examples:
            _check_operators(self.project)
            self.check(self.plan_blocks(()))
        else:
            type_project(self.project, None, self.settings)  # which says what is missing

    def check(self, entries: Sequence[str]) -> None:
        """Type these blocks and what they call, and check every plan against them."""
        try:
            self._type(entries)
        finally:
            self._place()

    def _type(self, entries: Sequence[str]) -> None:
        """Type these blocks, callers first, and with them what they call."""
        for entry in entries:
            block = named_block(self.project, entry).span
            while self.waiting[block].choices and not self.is_hopeless:
                self._meet(entry, self.waiting[block].take_first())
        seen: set[Span] = set()
        while reached := [block for block in self.entries if block not in seen]:  # meeting adds
            seen.update(reached)
            for block in reached:
                for choice in tuple(self.waiting[block].choices.values()):
                    if choice.keys() <= self.options.keys() and not self.is_hopeless:
                        self._meet(self.entries[block], choice)
        self._meet_demands()

    def _meet_demands(self) -> None:
        """Type callers in the choices that decide what their callees demand of them."""
        if self.has_errors or self.is_partial:
            return
        for block, choice in self.demands.unmet():
            if not self.is_hopeless:
                self._meet(self.own.get(block, self.entries[block]), choice)

    def _meet(self, entry: str, choice: Choice) -> None:
        waiting = (tuple(each.choices.values()) for each in self.waiting.values())
        together = joined(choice, waiting, self.options.keys(), len(self.met))
        settings = {**self._settings(entry), **together}
        try:
            typed, mistakes = self.typer.partly(entry, settings, unresolved=self.is_partial)
        except DiagnosticError as error:
            self._note(error.diagnostics)
            return
        graphs = typed.graphs
        self._count(typed)
        self.graphs += graphs.values()
        self.numbers.update(typed.numbers)
        self._note(mistakes)
        if mistakes:
            return
        self.typed.append(typed)
        self.programs.append(typed)
        self.met.append((entry, settings))
        all_settings = {**self.default, **self.settings, **together}
        if self.options.keys() - self.settings.keys() and not self.is_partial:
            self.demands.read(typed, {name: str(all_settings[name]) for name in self.options})
        for block in {graph.span for graph in graphs.values()}:
            self.entries.setdefault(block, entry)
            if block not in self.apart or block == typed.main.span:
                self.waiting[block].leave_out(all_settings)

    def _settings(self, block: str) -> Settings:
        if block == self.asked:
            refuse_unread(self.project, block, self.settings)
            return self.settings
        return concerning(self.project, block, self.settings)

    def _note(self, mistakes: Sequence[Diagnostic]) -> None:
        """Keep errors; an editor that types what it can only asks for the limits among them."""
        limits = (each for each in mistakes if each.code.startswith(OF_LIMITS))
        self.add(limits if self.is_partial else mistakes)

    def _count(self, typed: IRProgram) -> None:
        """Raise DiagnosticError where the choices are too many for their blocks."""
        steps = sum(len(graph.steps) for graph in typed.graphs.values())
        self.operators += max(OPERATORS_AT_LEAST, steps)
        if self.met:
            CheckedOperators.check(self.operators, typed.main.span)

    def untried_choices(self, only: str | None) -> Iterator[UntriedChoices]:
        """The blocks of the file, or one of them, with more combinations than are checked."""
        for block in self.project.main.blocks:
            words = mentioned_words(block, self.options, self.settings)
            words = {**words, **self.demands.words.get(block.span, {})}
            count = prod(map(len, words.values()))
            if only in (None, block.name.name) and count > PRODUCT_AT_MOST:
                many, option = spell_count(count), next(iter(words))
                yield UntriedChoices(block.name.span, block.name.name, many, option)

    def check_examples(self, block: str | None) -> None:
        """Bind the examples of the file, or of one block, if nothing is wrong so far."""
        if self.has_errors or not self.project.main.examples:
            return
        from xg.frontend.examples import bind  # most files have no examples

        for example in self.project.main.examples:
            if block in (None, example.block.name):
                try:
                    bind(self.project, example, self._settings(example.block.name))
                except DiagnosticError as error:
                    self.add(error.diagnostics)

    # ---- plans ----------------------------------------------------------------------------------

    def read_plans(self, plan: str | None) -> None:
        """Resolve the plan that is asked for, or all plans of the file and its used files."""
        modules = self.project.modules
        if plan is None and not any(module.plan_decls for module in modules):
            return
        from xg.frontend.plan_in_choices import find_plan, plans_of  # most files have no plans

        try:
            linker = self.typer.resolver.linker
            if plan is not None:
                self.plans = [find_plan(self.project, plan, self.settings, linker)]
            else:
                self.plans = list(plans_of(self.project, self.settings, linker).values())
                main = self.project.main
                ours = {each.name.name for each in main.plan_decls}
                self.foreign = {each.name for each in self.plans} - ours
        except DiagnosticError as error:
            self.add(error.diagnostics)

    def plan_blocks(self, entries: Sequence[str]) -> list[str]:
        """The blocks of the file's plans that are from other files."""
        blocks = {block.name.name for module in self.project.modules for block in module.blocks}
        taken = blocks & {name.name for use in self.project.main.uses for name in use.names}
        names = dict.fromkeys(
            plan.block.name for plan in only(ast.Plan, self.project.main.plan_decls)
        )
        return [name for name in names if name in taken and name not in entries]

    def _place(self) -> None:
        """Check every plan against the typed programs: together, and where one fails each alone."""
        typed, self.typed = self.typed, []
        by_hand = [program for program in typed if program.is_parallel]
        if self.is_partial or not (self.plans or by_hand):
            return
        from xg.frontend.plan_in_choices import PlanMemory, under  # most files have no plans

        plan_memory = self.memory.plans = self.memory.plans or PlanMemory()
        met = {id(each): met for each, met in zip(self.programs, self.met, strict=True)}
        shared = {id(each): plan_memory.checkable(each, *met[id(each)]) for each in typed}
        failing: list[tuple[Plan | None, list[IRProgram]]] = []
        for plan, programs in (*((plan, typed) for plan in self.plans), (None, by_hand)):
            try:
                plan_memory.check(plan).check([shared[id(each)] for each in programs])
            except DiagnosticError:
                failing.append((plan, programs))
        for program in typed:
            for plan in (plan for plan, programs in failing if program in programs):
                try:
                    plan_memory.check(plan).check([shared[id(program)]])
                except DiagnosticError as error:
                    foreign = plan is not None and plan.name in self.foreign
                    self.add(under(plan, each, foreign=foreign) for each in error.diagnostics)
            if self.is_hopeless:
                return

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that was found, in the order of the files."""
        files = [module.span.source.name for module in self.project.modules]

        def place(diagnostic: Diagnostic) -> tuple[int, int]:
            span = diagnostic.span
            return (files.index(span.source.name), span.start) if span else (-1, 0)

        return tuple(sorted(self.found.values(), key=place))

    def add(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Keep each error once: most are found in more than one choice."""
        for diagnostic in map(self.adopted.at_home, diagnostics):
            place = diagnostic.span.start if diagnostic.span else None
            key = (diagnostic.code, diagnostic.message, diagnostic.file, place)
            self.found.setdefault(key, diagnostic)

    @property
    def has_errors(self) -> bool:
        """Whether anything is wrong, beside what is a warning."""
        return any(each.severity == "error" for each in self.found.values())

    @property
    def is_hopeless(self) -> bool:
        """Return whether a program passed a limit, or more errors would not help."""
        limits = (each for each in self.found.values() if each.code.startswith(OF_LIMITS))
        return len(self.found) >= MISTAKES_AT_MOST or any(limits)
