"""Paths of plans: from a block through its calls to a value, in any choice of options."""

from __future__ import annotations

from collections.abc import Iterator

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.plan import EVERY
from xg.passes.resolve.errors import Refused
from xg.passes.resolve.plan_errors import NoSuchPlace
from xg.passes.resolve.units import Linked, LocatedBlock
from xg.syntax import ast
from xg.syntax.ast import walk


@dataclass(frozen=True, slots=True)
class End:
    """The end of a path: the dims that its blocks have of their own, and what is there."""

    dims: frozenset[str]
    is_param: bool
    is_call: bool = False
    is_input: bool = False  # of every block that the path reaches


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
            steps = self._followed(steps, segment)
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
        is_input = all(any(port.name.name == last.name for port in b.data) for b in blocks)
        return End(dims, is_param, is_input=is_input)

    def _of(self, located: LocatedBlock) -> tuple[list[tuple[str, _Step]], frozenset[str]]:
        """The calls and the values of a block."""
        if located not in self.known:
            calls, values = _calls(self.linked, located), _values(located.block)
            self.known[located] = list(calls), frozenset(values)
        return self.known[located]

    def _followed(self, steps: list[_Step], segment: ast.Name) -> list[_Step]:
        """The blocks behind one more segment."""
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
                for callee in _called(linked, located, part.operator.name):
                    option = part.operator.name in linked.options
                    default = part.operator.name if option else callee.block.name.name
                    name = use.instance.name if use and use.instance else default
                    yield name, _Step(callee, name if use and use.repeat else "")


def _called(linked: Linked, located: LocatedBlock, operator: str) -> list[LocatedBlock]:
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
