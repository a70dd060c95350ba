"""Plans: from trees to data, by name, products multiplied out."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import cast

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.placement import EVERY, ROUNDS, SCHEDULES, Entry, Layout, Memory, Plan, Schedule
from xg.passes.resolve.errors import Refused
from xg.passes.resolve.expressions import ExpressionReader
from xg.passes.resolve.plan_errors import (
    CircularPlan,
    HoldOfNoParam,
    MemoryOfParam,
    NoSuchPlace,
    PadOfNoParam,
    PlanOfUnknown,
    PlanTwice,
    ScheduleCounts,
    ShapeOfCall,
    UnknownMesh,
    UnknownPlan,
    UnknownSchedule,
    UseOfNoParam,
    ZigzagOfNothing,
)
from xg.passes.resolve.units import Linked, Linker, LocatedBlock, Unit
from xg.syntax import ast
from xg.syntax.ast import walk
from xg.syntax.build import PAD

# Paths of plans: from a block through its calls to a value, in any choice of options.


@dataclass(frozen=True, slots=True)
class End:
    """The end of a path: the dims that its blocks have of their own, and what is there."""

    dims: frozenset[str]
    is_param: bool
    is_call: bool = False


@dataclass(frozen=True, slots=True)
class _Step:
    """A block that a path has reached; in a `row`, the segment of its rounds follows."""

    located: LocatedBlock
    row: str = ""


@dataclass(slots=True)
class Places:
    """The named parts of a program's blocks, each collected once."""

    linked: Linked
    known: dict[LocatedBlock, tuple[list[tuple[str, _Step]], frozenset[str]]] = field(
        default_factory=dict[LocatedBlock, "tuple[list[tuple[str, _Step]], frozenset[str]]"]
    )

    def end_of(self, block: LocatedBlock, path: ast.Path) -> End:
        """Where a path of a plan of `block` leads; raises Refused if nowhere."""
        steps = [_Step(block)]
        *way, last = path.segments
        for segment in way:
            steps = self._follow_segment(steps, segment)
        blocks = [step.located.block for step in steps]
        dims = frozenset(decl.name.name for block in blocks for decl in block.dims)
        if last.name == EVERY:
            return End(dims, is_param=True)
        places = [step.located for step in steps if not step.row]
        calls = [name for place in places for name, _ in self._of(place)[0]]
        is_value = any(last.name in self._of(place)[1] for place in places)
        if last.name in calls and not is_value:
            return End(dims, is_param=False, is_call=True)
        if not is_value:
            names = [name for place in places for name in sorted(self._of(place)[1])]
            raise Refused(_nothing(steps, last, "value", tuple(names)))
        is_param = any(param.name.name == last.name for block in blocks for param in block.params)
        return End(dims, is_param)

    def _of(self, located: LocatedBlock) -> tuple[list[tuple[str, _Step]], frozenset[str]]:
        """The calls and the values of a block."""
        if located not in self.known:
            calls, values = _calls(self.linked, located), _values(located.block)
            self.known[located] = list(calls), frozenset(values)
        return self.known[located]

    def _follow_segment(self, steps: list[_Step], segment: ast.Name) -> list[_Step]:
        """Return the blocks that one more path segment leads to."""
        reached: dict[_Step, None] = {}
        names: list[str] = []
        for step in steps:
            if step.row:
                reached.update({_Step(step.located): None} if segment.name == EVERY else {})
                continue
            for name, callee in self._of(step.located)[0]:
                names.append(name)
                if segment.name in (name, EVERY):
                    reached[callee] = None
        if not reached:
            raise Refused(_nothing(steps, segment, "call", tuple(names)))
        return list(reached)


def reachable(linked: Linked) -> set[LocatedBlock]:
    """The blocks that the main file has or takes, and all that these may call."""
    waiting = list(linked.unit.blocks.values())
    seen = set(waiting)
    while waiting:
        located_blocks = {step.located for _, step in _calls(linked, waiting.pop())} - seen
        seen |= located_blocks
        waiting += located_blocks
    return seen


def _nothing(
    steps: list[_Step], segment: ast.Name, what: str, known: tuple[str, ...]
) -> NoSuchPlace:
    rows = [step.row for step in steps if step.row]
    if rows and len(rows) == len(steps):
        return NoSuchPlace(segment.span, rows[0], segment.name, "round", ())
    block = next(step.located for step in steps if not step.row).block.name.name
    kind = "call" if what == "call" else "value"
    return NoSuchPlace(segment.span, block, segment.name, kind, known)


def _calls(linked: Linked, located: LocatedBlock) -> Iterator[tuple[str, _Step]]:
    """The calls of a block by name, each with the blocks that some choice calls there."""
    for chain in located.block.chains:
        for part in walk(chain):
            if isinstance(part, ast.NodeUse | ast.Call):
                use = part if isinstance(part, ast.NodeUse) else None
                for callee in _possible_callees(linked, located, part.operator.name):
                    option = part.operator.name in linked.options
                    default = part.operator.name if option else callee.block.name.name
                    name = use.instance.name if use and use.instance else default
                    yield name, _Step(callee, name if use and use.repeat else "")


def _possible_callees(linked: Linked, located: LocatedBlock, operator: str) -> list[LocatedBlock]:
    """The blocks that a node may call."""
    own = {own.name.name: own.words for own in located.block.own if own.words}
    choice = linked.options.get(operator)
    if choice is not None and operator not in own:
        unit, words = choice.unit, choice.words
    else:
        unit, words = located.unit, tuple(w.name for w in own.get(operator, ())) or (operator,)
    return [unit.blocks[word] for word in words if word in unit.blocks]


def _values(block: ast.Block) -> Iterator[str]:
    """Every value that some choice of the block has."""
    yield from (port.name.name for port in (*block.data, *block.outputs))
    yield from (param.name.name for param in block.params)
    for chain in block.chains:
        for part in walk(chain):
            if isinstance(part, ast.Label):
                yield from (port.name.name for port in part.ports)


def resolve_plans(
    linker: Linker,
    settings: Mapping[str, str | int] | None = None,
    names: Sequence[str] | None = None,
) -> dict[str, Plan]:
    """Return every plan of a file and of the files it uses, by name; raises DiagnosticError.

    With `names` only these plans, and what they are products of, need to be right.

    Files that use one name for a plan define one plan; for one block, the importing file's text
    counts. Lines of other files about blocks that this one does not use are left out. `settings`
    number mesh axes; others are not looked at.
    """
    try:
        linked = linker.link({})
        return _Plans(replace(linked, mesh=linker.mesh(settings or {}))).collect(names)
    except Refused as refused:
        raise DiagnosticError.of(*refused.problems) from None


def multiply(plans: Mapping[str, Plan], names: Sequence[str]) -> Plan:
    """The plan of this name, or the product of several; raises DiagnosticError."""
    unknown = [UnknownPlan(None, name, tuple(plans)) for name in names if name not in plans]
    if unknown:
        raise DiagnosticError.of(*unknown)
    if len(names) == 1:
        return plans[names[0]]
    order = list(dict.fromkeys(axis for plan in plans.values() for axis in plan.mesh))
    return _product(" × ".join(names), "", [plans[name] for name in names], order)


def _product(name: str, title: str, factors: Sequence[Plan], order: Iterable[str]) -> Plan:
    entries = dict.fromkeys(entry for plan in factors for entry in plan.entries)
    sizes = {axis: size for plan in factors for axis, size in plan.mesh.items()}
    mesh = {axis: sizes[axis] for axis in order if axis in sizes}
    schedules = dict.fromkeys(schedule for plan in factors for schedule in plan.schedules)
    return Plan(name, title or name, tuple(entries), mesh, tuple(schedules))


@dataclass(slots=True)
class _Plans:
    """The plans of a program by name, and what is wrong with them."""

    linked: Linked
    places: Places = field(init=False)
    problems: list[tuple[str, Problem]] = field(default_factory=list[tuple[str, Problem]])
    texts: dict[str, dict[LocatedBlock, tuple[ast.Plan, Unit]]] = field(
        default_factory=dict[str, "dict[LocatedBlock, tuple[ast.Plan, Unit]]"]
    )
    products: dict[str, ast.PlanProduct] = field(default_factory=dict[str, ast.PlanProduct])

    def __post_init__(self) -> None:
        """Look into no block twice."""
        self.places = Places(self.linked)

    def collect(self, wanted: Sequence[str] | None) -> dict[str, Plan]:
        """Collect every plan, the main file's first; raises Refused with all problems.

        With `wanted` all that is wrong with these.
        """
        needed = reachable(self.linked)
        for unit in self.linked.units:  # importers come after their imports, and win
            self._declare(unit, needed)
        plans = {name: self._plan(name, tuple(texts)) for name, texts in self.texts.items()}
        for name in _factors_first(self.products, self.refuse):
            product = self.products[name]
            if self._is_foreign(product) and any(f.name not in plans for f in product.factors):
                continue
            factors = [plans[f.name] for f in product.factors if self._knows(name, f, plans)]
            title = product.title.value if product.title else ""
            plans[name] = _product(name, title, factors, self.linked.mesh)
        concerned = self._closure(wanted)
        problems = [problem for name, problem in self.problems if name in concerned]
        if problems:
            raise Refused(*problems)
        ours = (decl.name.name for decl in self.linked.unit.module.plan_decls)
        names = dict.fromkeys([*ours, *plans])
        return {name: plans[name] for name in names}

    def refuse(self, name: str, problem: Problem) -> None:
        """Note what is wrong with the plan of a name."""
        if (name, problem) not in self.problems:
            self.problems.append((name, problem))

    def _closure(self, wanted: Sequence[str] | None) -> set[str]:
        """The plans that are asked for, with the factors of products; all where none is."""
        if wanted is None:
            return {name for name, _ in self.problems}
        concerned: set[str] = set()
        waiting = list(wanted)
        while waiting:
            name = waiting.pop()
            if name not in concerned:
                concerned.add(name)
                product = self.products.get(name)
                waiting += [factor.name for factor in product.factors] if product else []
        return concerned

    def _is_foreign(self, decl: ast.PlanProduct) -> bool:
        return all(decl is not own for own in self.linked.unit.module.plan_decls)

    def _declare(self, unit: Unit, needed: Container[LocatedBlock]) -> None:
        """Take over what a file declares."""
        seen: dict[tuple[str, str], ast.Plan | ast.PlanProduct] = {}
        for decl in unit.module.plan_decls:
            name, block = decl.name.name, decl.block.name if isinstance(decl, ast.Plan) else ""
            clash = seen.get((name, block)) or seen.get((name, ""))
            if isinstance(decl, ast.PlanProduct):
                clash = next((other for (n, _), other in seen.items() if n == name), None)
            if clash is not None:
                self.refuse(name, PlanTwice(decl.name.span, name, block, clash.name.span))
                continue
            seen[name, block] = decl
            if isinstance(decl, ast.PlanProduct):
                self.texts.pop(name, None)
                self.products[name] = decl
            elif block not in unit.blocks:
                is_operator = unit.operator(block) is not None
                of = PlanOfUnknown(decl.block.span, block, tuple(unit.blocks), is_operator)
                self.refuse(name, of)
            elif unit.blocks[block] in needed:
                self.products.pop(name, None)
                self.texts.setdefault(name, {})[unit.blocks[block]] = (decl, unit)

    def _knows(self, product: str, factor: ast.Name, plans: Mapping[str, Plan]) -> bool:
        if factor.name not in plans and factor.name not in self.products:
            names = tuple(dict.fromkeys([*plans, *self.products]))
            self.refuse(product, UnknownPlan(factor.span, factor.name, names))
        return factor.name in plans

    # ---- one plan -------------------------------------------------------------------------------

    def _plan(self, name: str, blocks: Sequence[LocatedBlock]) -> Plan:
        texts = self.texts[name]
        entries = [entry for block in blocks for entry in self._entries(texts[block][0], block)]
        values = [entry for entry in entries if entry.path[-1] != ROUNDS]
        named = frozenset(axis for entry in values for axis in _entry_axes(entry))
        stages = {axis for entry in entries for axis in _entry_axes(entry)}
        over = named or frozenset(self.linked.mesh)  # without axes, the plan replicates over all
        title = next((text.title.value for text, _ in texts.values() if text.title), name)
        mesh = {axis: size for axis, size in self.linked.mesh.items() if axis in named | stages}
        schedules = tuple(each for block in blocks for each in self._schedules(texts, block))
        entries = [replace(entry, over=over) for entry in entries]
        return Plan(name, title, tuple(entries), mesh, schedules)

    def _entries(self, plan: ast.Plan, block: LocatedBlock) -> Iterator[Entry]:
        """The lines of one text, one entry for each value that a line names."""
        for placement in plan.placements:
            for path in placement.targets:
                try:
                    yield self._entry(plan, block, placement, path)
                except Refused as refused:
                    for problem in refused.problems:
                        self.refuse(plan.name.name, problem)

    def _schedules(
        self, texts: Mapping[LocatedBlock, tuple[ast.Plan, Unit]], block: LocatedBlock
    ) -> Iterator[Schedule]:
        """The orders of stages in one text: a name, microbatches, stages of a rank."""
        plan, _ = texts[block]
        for each in plan.schedules:
            counts = tuple(count.value for count in each.counts)
            if each.name.name not in SCHEDULES:
                self.refuse(plan.name.name, UnknownSchedule(each.name.span, each.name.name))
            elif len(counts) > 2 or not all(isinstance(n, int) and n > 0 for n in counts):
                self.refuse(plan.name.name, ScheduleCounts(each.span))
            else:
                parts, turns = (int(n) for n in (*counts, *(0, 1)[len(counts) :]))
                at = block.unit.number, block.block.name.name
                yield Schedule(at, each.name.name, parts or None, turns, each.span)

    def _entry(
        self, plan: ast.Plan, block: LocatedBlock, placement: ast.Placement, path: ast.Path
    ) -> Entry:
        end = self.places.end_of(block, path)
        if placement.at_rest and end.is_call:
            return self._rounds(plan, block, placement, placement.at_rest, path, end)
        use = self._layout(placement.in_use, end) if placement.in_use else None
        if placement.in_use and not end.is_param:
            raise Refused(UseOfNoParam(placement.in_use.span, path.name))
        rest = self._layout(placement.at_rest, end) if placement.at_rest else None
        if placement.memory and placement.memory.name == "zigzag":
            _check_order(placement.memory, path.name, rest, end)
        pads = placement.memory is not None and placement.memory.name == PAD
        if pads and (not rest or not end.is_param):
            raise Refused(PadOfNoParam(path.span, path.name))
        if placement.memory and end.is_param and not placement.in_use and not pads:
            raise Refused(MemoryOfParam(placement.memory.span, path.name, placement.memory.name))
        if placement.memory and placement.memory.name == "hold" and not placement.in_use:
            raise Refused(HoldOfNoParam(placement.memory.span, path.name))
        return Entry(
            block=(block.unit.number, block.block.name.name),
            path=tuple(segment.name for segment in path.segments),
            rest=rest,
            use=use,
            over=frozenset(),  # known when all texts of the plan are read
            plan=plan.name.name,
            span=path.span,
            memory=None if pads else _memory(placement.memory),
            pads=pads,
        )

    def _rounds(
        self,
        plan: ast.Plan,
        block: LocatedBlock,
        placement: ast.Placement,
        shape: ast.Shape,
        path: ast.Path,
        end: End,
    ) -> Entry:
        """The line that shares the rounds of a row of calls among stages."""
        layout = self._layout(shape, end)
        axes = [axis for cuts in layout.cuts for axis in cuts]
        more = placement.in_use or placement.memory or len(path.segments) > 1
        if more or len(layout.dims) != 1 or layout.open or len(axes) != 1:
            raise Refused(ShapeOfCall(shape.span, path.name, tuple(self.linked.mesh)))
        return Entry(
            block=(block.unit.number, block.block.name.name),
            path=(*(segment.name for segment in path.segments), ROUNDS),
            rest=layout,
            use=None,
            over=frozenset(),
            plan=plan.name.name,
            span=path.span,
        )

    def _layout(self, shape: ast.Shape, end: End) -> Layout:
        mesh = frozenset(self.linked.mesh)
        for dim in shape.dims:
            last = dim.rest[-1] if isinstance(dim, ast.Arithmetic) else None
            if last and last.sign == "/" and isinstance(last.operand, ast.Path):
                divisor = last.operand
                if divisor.name not in mesh | self.linked.dims | end.dims:
                    raise Refused(UnknownMesh(divisor.span, divisor.name, tuple(self.linked.mesh)))
        return ExpressionReader(self.linked.dims | end.dims, mesh, {}).layout(shape, plan=True)


def _check_order(word: ast.Name, name: str, rest: Layout | None, end: End) -> None:
    """Refuse an order of ranks for what no mesh axis cuts, or several; raises Refused."""
    axes = [axis for cuts in rest.cuts for axis in cuts] if rest else []
    why = "a parameter is stored in consecutive pieces" if end.is_param else ""
    if len(axes) != 1:
        why = f"this line cuts over {' and '.join(axes)}" if axes else "this line cuts nothing"
    if why:
        raise Refused(ZigzagOfNothing(word.span, name, why))


def _memory(word: ast.Name | None) -> Memory | None:
    if word is None:
        return None
    return cast("Memory", word.name)  # another word was refused where it was read


def _entry_axes(entry: Entry) -> Iterator[str]:
    for layout in (entry.rest, entry.use):
        if layout is not None:
            yield from (axis for cuts in layout.cuts for axis in cuts)


def _factors_first(
    products: Mapping[str, ast.PlanProduct], refuse: Callable[[str, Problem], None]
) -> list[str]:
    """The products in an order where factors come first; a ring is refused and left out."""
    order: list[str] = []
    trail: list[str] = []
    stack = [(name, False) for name in reversed(tuple(products))]
    while stack:
        name, ready = stack.pop()
        if ready:
            order.append(trail.pop())
        elif name in trail:
            ring = trail[trail.index(name) :]
            refuse(name, CircularPlan(tuple((n, products[n].name.span) for n in ring)))
            return order
        elif name not in order and name in products:
            trail.append(name)
            stack.append((name, True))
            stack.extend((factor.name, False) for factor in reversed(products[name].factors))
    return order
