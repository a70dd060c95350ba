"""Write the program of one rank: its cut arrays, and a body on the parts of them.

A value that every rank has whole but needs only a part of is computed as a part where possible
(positions, repetitions, zeros), else sliced. Indices into a sharded table are shifted by the first
row of their rank.

A rank uses a kernel only if its body is the body of the whole on smaller shapes (`Body.is_same`). A
kernel that counted rows or drew masks by itself would do so for its part, and be silently wrong; so
`count` and `cuts` are attributes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import Body
from xg.ir.collectives import AROUND, MOVES, REDUCTIONS
from xg.ir.collectives.part import shard_slice
from xg.ir.collectives.row_owner import owns_index, to_local_index
from xg.ir.dim import ONE, Dim, product, size, symbol
from xg.ir.graph import Graph, IRProgram, Value
from xg.ir.placement import (
    CONSTANT,
    EVERY,
    INSIDE,
    PARTIAL,
    REPLICATED,
    WHOLE,
    AxisState,
    BlockId,
    Cuts,
    Entry,
    Layout,
    Placement,
    Plan,
    axis_of,
    local_shape,
    ordered_axis,
    shard,
    zigzag_axes,
)
from xg.ir.prim import Attr, Expr, batch_of, const, where
from xg.ir.tensor import Shape, Sizes
from xg.ir.walk import Symbols, param_specs
from xg.sharding.primitive_rules import ELEMENTWISE, Typing, groups

# Find what the entries of a plan reach, and the placement that several give a value.


# The entries of a plan inside the calls of a program.


@dataclass(frozen=True, slots=True)
class Reach:
    """The entries that reach into one call, their paths shortened by the way there.

    Calls with equal reaches are parallel in the same way. `waiting` are the entries of a plan,
    which begin wherever their block is called.
    """

    here: tuple[Entry, ...]
    waiting: tuple[Entry, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.here))

    def __hash__(self) -> int:
        return self._hash  # asked for at every call, and entries are many

    def inside(self, block: BlockId, path: str, *, repeated: bool) -> Reach:
        """Enter a call of a block under the name `path`, `repeated` in a row.

        Entries of plans of that block begin here. A row takes the segment of its rounds too.
        """
        gone = (
            (WHOLE,)
            if entry.memory and entry.path == (path,)
            else _enter_path(entry.path, path, repeated=repeated)
            for entry in self.here
        )
        inside = [
            replace(entry, path=rest) for entry, rest in zip(self.here, gone, strict=True) if rest
        ]
        begun = (entry for entry in self.waiting if entry.block == block)
        return replace(self, here=tuple(dict.fromkeys([*inside, *begun])))

    def of(self, name: str, *, is_param: bool) -> tuple[Entry, ...]:
        """The placements of a value of this block."""
        near = [entry for entry in self.here if entry.path in ((name,), (EVERY,))]
        return placements_of(near, is_param=is_param)


def reach_of(plan: Plan | None, block: BlockId) -> Reach:
    """The entries that apply inside the entry block."""
    entries = plan.entries if plan else ()
    return Reach((), entries).inside(block, "", repeated=False)


def placements_of(entries: Sequence[Entry], *, is_param: bool) -> tuple[Entry, ...]:
    """The placements of a value, from entries that end at its name or at ``*``.

    A name is more specific than the ``*`` of its plan. A parameter of a call that the block reads
    itself (``bert.E``) is placed inside that call.
    """
    named = [entry for entry in entries if entry.path != (EVERY,)]
    plans = {entry.plan for entry in named}
    every = (e for e in entries if is_param and e.path == (EVERY,) and e.plan not in plans)
    return (*named, *every)


def _enter_path(path: Sequence[str], call: str, *, repeated: bool) -> tuple[str, ...]:
    """The rest of a path inside a call; nothing if it leads elsewhere."""
    if tuple(path) == (EVERY,):
        return (EVERY,)
    if tuple(path) in ((WHOLE,), (INSIDE,)):
        return (INSIDE,)
    if path[0] not in (call, EVERY):
        return ()
    below = tuple(path[1:])
    if not repeated or below == (EVERY,):
        return below
    return below[1:] if below[:1] == (EVERY,) else ()


class Misfit(Exception):
    """A layout whose dims do not match the value that it is for."""

    def __init__(self, layout: Layout, shape: Shape) -> None:
        super().__init__(layout, shape)
        self.layout = layout
        self.shape = shape


class Clash(Exception):
    """Two entries that cut one value differently over one mesh axis."""

    def __init__(self, axis: str, first: Entry, second: Entry) -> None:
        super().__init__(axis, first, second)
        self.axis = axis
        self.first = first
        self.second = second


@dataclass(frozen=True, slots=True)
class Placing:
    """The combined placement of several entries: cuts at `rest`, cuts in `use`.

    Mesh axes are in the order in which they cut, the outermost first: those that stay in use come
    before those that are gathered, so that the gathered part is contiguous. A mesh axis of `over`
    that cuts nothing replicates the value; for other axes nothing is said.
    """

    rest: Cuts
    use: Cuts
    over: frozenset[str]


def cut_axes(layout: Layout, shape: Shape, sizes: Sizes) -> dict[str, int]:
    """The axis that each mesh axis cuts of a value of this shape; raises Misfit.

    Of mesh axes that cut the same axis, the program's mesh lists the outermost first.
    """
    count = len(layout.dims)
    fits = count <= len(shape) if layout.open else count == len(shape)
    pairs = list(zip(layout.dims, shape, strict=False))
    if not fits or not all(dim is None or sizes.same(dim, whole) for dim, whole in pairs):
        raise Misfit(layout, shape)
    return layout.axes(len(shape))


def cut_sizes(shape: Shape, cuts: Cuts) -> Iterator[tuple[Dim, tuple[str, ...]]]:
    """Every size that is cut, whole, with the mesh axes that cut it."""
    for axis in sorted(set(cuts.values())):
        yield shape[axis], tuple(name for name in cuts if cuts[name] == axis)


def placing(entries: Iterable[Entry], shape: Shape, sizes: Sizes) -> Placing:
    """The combined placement of a value of this shape; raises Misfit and Clash."""
    said: dict[str, tuple[Entry, int | None, int | None]] = {}
    for entry in entries:
        if entry.rest is None:
            continue
        rest = cut_axes(entry.rest, shape, sizes)
        use = rest if entry.use is None else cut_axes(entry.use, shape, sizes)
        written = dict.fromkeys((*rest, *use, *sorted(entry.over)))  # outermost first
        for axis in (axis for axis in written if axis in entry.over):
            place = rest.get(axis), use.get(axis)
            first, *numbers = said.setdefault(axis, (entry, *place))
            if tuple(numbers) != place:
                raise Clash(axis, first, entry)
    use = {axis: place for axis, (_, _, place) in said.items() if place is not None}
    order = sorted(said, key=lambda axis: axis not in use)
    rest = {axis: place for axis in order if (place := said[axis][1]) is not None}
    return Placing(rest, use, frozenset(said))


# Which axes of a rank program's arrays are cut, and by which mesh axes.


# Axes counted from the end; the outermost cut of one first, with its length where that is padded.
ShardSpec = tuple[tuple[int, str] | tuple[int, str, int], ...]


def cuts(program: IRProgram) -> dict[str, ShardSpec]:
    """The cuts of every parameter (by path), input and output of a program that runs on a mesh."""
    main = program.main
    names = [*((str(value.name), value) for value in main.inputs)]
    names += zip(main.output_names, main.outputs, strict=True)
    found = {name: cuts_of_value(program, main, value, {}) for name, value in names}
    for path, param, graph, symbols in param_specs(program):
        found[path] = cuts_of_value(program, graph, param.value, symbols)
    return found


def cuts_of_value(program: IRProgram, graph: Graph, value: Value, symbols: Symbols) -> ShardSpec:
    """The cuts of one value of a rank's program; the outermost of an axis has its length."""
    placement = graph.placements.get(value, {})
    cuts = placed_cuts(placement, program.mesh, zigzag_axes(program.plan))
    shape = graph.types[value].shape if program.lengths else ()
    known: set[int] = set()
    found: list[tuple[int, str] | tuple[int, str, int]] = []
    for axis, over in cuts:
        parts = [symbol(axis_of(each)) for at, each in cuts if at == axis]
        whole = product((shape[axis].substitute(symbols), *parts)).name if shape else ""
        if whole and whole in program.lengths and axis not in known:
            found.append((axis, over, program.lengths[whole]))
        else:
            found.append((axis, over))
        known.add(axis)
    return tuple(found)


def placed_cuts(
    placement: Placement, mesh: Mapping[str, int], zigzag: Collection[str]
) -> tuple[tuple[int, str], ...]:
    """The cuts of one tensor, in the order of the mesh; `zigzag` are mesh axes in that order."""
    states = [(placement[axis], ordered_axis(axis, zigzag)) for axis in mesh if axis in placement]
    return tuple((state.axis, over) for state, over in states if state.kind == "S")


def localize(
    body: Body, typing: Typing, wanted: Sequence[AxisState], mesh_axis: str, over: str = ""
) -> Body:
    """The body of one rank on a mesh axis, with its outputs in the states that are wanted.

    An output that is the same everywhere may be wanted as a part of it. `over` is the mesh axis
    with the order of its ranks, where they are in zigzag.
    """
    key = tuple(wanted), over or mesh_axis
    if key not in typing.local:
        typing.local[key] = _localize(body, typing, wanted, mesh_axis, over or mesh_axis)
    return typing.local[key]


def _localize(
    body: Body, typing: Typing, wanted: Sequence[AxisState], mesh_axis: str, over: str
) -> Body:
    writer = _LocalBody(typing, mesh_axis, over)
    operands = tuple(writer.operand(expr) for expr in body.operands)
    outputs = tuple(
        writer.get(expr, state) for expr, state in zip(body.outputs, wanted, strict=True)
    )
    return Body(operands, outputs, body.caches, body.of)


@dataclass(slots=True)
class _LocalBody:
    typing: Typing
    mesh_axis: str
    over: str
    made: dict[tuple[int, AxisState], Expr] = field(
        default_factory=dict[tuple[int, AxisState], Expr]
    )

    def operand(self, expr: Expr) -> Expr:
        """An operand under its part's shape."""
        state = self.typing.of(expr)
        part = replace(expr, shape=local_shape(expr.shape, state, self.mesh_axis))
        self.made[id(expr), state] = part
        return part

    def get(self, root: Expr, wanted: AxisState) -> Expr:
        """An expression in a state, made without recursion: it may be deep."""
        stack = [(root, self._key(root, wanted))]
        while stack:
            expr, state = stack[-1]
            if (id(expr), state) in self.made:
                stack.pop()
                continue
            needs = [(arg, self._key(arg, s)) for arg, s in self._needs(expr, state)]
            open_ = [need for need in needs if (id(need[0]), need[1]) not in self.made]
            if open_:
                stack += open_
                continue
            args = [self.made[id(arg), s] for arg, s in needs]
            self.made[id(expr), state] = self._make(expr, state, args)
            stack.pop()
        return self.made[id(root), self._key(root, wanted)]

    def _key(self, expr: Expr, wanted: AxisState) -> AxisState:
        """The expression to compute: a part only if one is asked of something whole."""
        own = self.typing.of(expr)
        return wanted if own.is_uniform and wanted.kind == "S" else own

    # ---- what an expression needs of its arguments ----------------------------------------------

    def _needs(self, expr: Expr, state: AxisState) -> list[tuple[Expr, AxisState]]:
        own = self.typing.before(expr)
        if state.kind == "S" and own.is_uniform:
            return self._needs_of_part(expr, state)
        return [
            (arg, self._argument_state(expr, arg, place)) for place, arg in enumerate(expr.args)
        ]

    def _argument_state(self, expr: Expr, arg: Expr, place: int) -> AxisState:
        """The state that an argument needs next to the others."""
        own = self.typing.of(arg)
        if not own.is_uniform:
            return own
        axis = self._cut_of(expr, place)
        return own if axis is None or not _has(arg, axis) else shard(axis)

    def _cut_of(self, expr: Expr, place: int) -> int | None:
        """Along which of its axes an argument is cut, going by the others; None for none."""
        states = [self.typing.of(arg) for arg in expr.args]
        cuts = [(p, s.axis) for p, s in enumerate(states) if s.kind == "S"]
        if not cuts:
            return None
        other, axis = cuts[0]
        if expr.prim in ELEMENTWISE or expr.prim == "dropout_apply":
            return axis
        if expr.prim == "concat":
            return axis
        if expr.prim == "contract":
            letters = str(expr.attr("spec")).split("->")[0].split(",")
            letter = letters[other][axis]
            mine = letters[place]
            return mine.index(letter) - len(mine) if letter in mine else None
        if expr.prim == "pick":
            if states[0] == shard(-1):
                return None
            return axis + 1 if place == 1 else axis - 1
        if expr.prim == "place":
            return axis
        if expr.prim == "scatter_add":
            inner = expr.args[0].rank - expr.args[1].rank
            if other == 0:
                return axis + inner if axis < -inner else None
            return axis - inner
        if expr.prim == "gather":
            shared = axis + expr.args[other].rank
            return shared - expr.args[place].rank if shared < batch_of(expr) else None
        return None

    def _needs_of_part(self, expr: Expr, state: AxisState) -> list[tuple[Expr, AxisState]]:
        """The parts of arguments that suffice to compute a part of a whole value."""
        axis = state.axis
        if expr.prim in ELEMENTWISE:
            return [(arg, self._part_of(arg, axis)) for arg in expr.args]
        if expr.prim == "broadcast":
            return [(expr.args[0], self._part_of(expr.args[0], axis))]
        rows = _scattered_rows(expr, axis)
        if rows is not None:
            return [(expr.args[0], shard(rows))]
        return [(arg, self.typing.of(arg)) for arg in expr.args]

    def _part_of(self, arg: Expr, axis: int) -> AxisState:
        return shard(axis) if _has(arg, axis) else self.typing.of(arg)

    # ---- making it ------------------------------------------------------------------------------

    def _make(self, expr: Expr, state: AxisState, args: list[Expr]) -> Expr:
        before = self.typing.before(expr)
        if state.kind == "S" and before.is_uniform:
            return self._part(expr, state, args)
        expression = self._whole_or_part(expr, before, args)
        if id(expr) in self.typing.collected:
            expression = self._collect_parts(expression, before, state)
        return (
            expression.named(expr.name)
            if expr.name and expression.prim != "operand"
            else expression
        )

    def _collect_parts(self, part: Expr, before: AxisState, state: AxisState) -> Expr:
        """Reduce the parts of all ranks; give the whole, or the part that this rank reads."""
        whole = REDUCTIONS[before.kind].local(part, self.mesh_axis, before, CONSTANT)
        return shard_slice(whole, self.over, state.axis) if state.kind == "S" else whole

    def _part(self, expr: Expr, state: AxisState, args: list[Expr]) -> Expr:
        shape = local_shape(expr.shape, state, self.mesh_axis)
        if expr.prim in ELEMENTWISE or expr.prim == "broadcast":
            return replace(expr, args=tuple(args), shape=shape)
        if _scattered_rows(expr, state.axis) is not None:
            return replace(expr, args=tuple(args), shape=shape)
        if expr.prim == "operand":
            return shard_slice(self.made[id(expr), self.typing.of(expr)], self.over, state.axis)
        whole = replace(expr, args=tuple(args))
        if expr.prim == "place" and state.axis == -1:
            return self._place_values(expr, args, shape)
        if expr.prim == "scatter_add" and state.axis == batch_of(expr) - expr.rank:
            return self._scatter_rows(expr, args, shape)
        return shard_slice(whole, self.over, state.axis)

    def _whole_or_part(self, expr: Expr, state: AxisState, args: list[Expr]) -> Expr:
        shape = local_shape(expr.shape, state, self.mesh_axis)
        states = [self.typing.of(arg) for arg in expr.args]
        match expr.prim:
            case "gather" if states[0] == shard(_rows(expr)) and states[1].kind != "S":
                return self._gather_rows(expr, args)
            case "pick" if states[0] == shard(-1):
                return self._pick_elements(expr, args)
            case "mean" if state == PARTIAL and states[0].kind == "S":
                return self._mean(expr, args)
            case prim if prim in AROUND and _exchanges(states[0], state):
                target = REPLICATED if state == CONSTANT else state
                move = MOVES[states[0].kind, target.kind]
                return move.local(args[0], self.over, states[0], target)
            case "dropout_keep" if state.kind == "S":
                return replace(expr, args=tuple(args), shape=shape, attrs=self._drawn(expr, state))
            case _:
                return replace(expr, args=tuple(args), shape=shape)

    def _drawn(self, expr: Expr, state: AxisState) -> tuple[tuple[str, Attr], ...]:
        """The attributes of a mask that is drawn in part."""
        cuts: Any = expr.attr("cuts")
        return (*expr.attrs[:-1], ("cuts", (*cuts, (state.axis, self.over))))

    def _mean(self, expr: Expr, args: list[Expr]) -> Expr:
        """The sum over the part, divided by the whole length."""
        x = expr.args[0]
        count = product(x.shape[axis] for axis in expr.axes())
        total = replace(expr, prim="sum", args=tuple(args), shape=expr.shape)
        return Expr("div", (total, const(size(count))), expr.shape)

    def _gather_rows(self, expr: Expr, args: list[Expr]) -> Expr:
        """Rows where this rank holds them, else zeros."""
        table, ids = args
        held, inside = self._ids(ids, table.shape[_rows(expr)])
        rows = replace(expr, args=(table, inside))
        return where(_under(held, rows), rows, 0.0)

    def _pick_elements(self, expr: Expr, args: list[Expr]) -> Expr:
        x, ids = args
        held, inside = self._ids(ids, x.shape[-1])
        return where(held, replace(expr, args=(x, inside)), 0.0)

    def _place_values(self, expr: Expr, args: list[Expr], shape: Shape) -> Expr:
        values, ids = args
        held, inside = self._ids(ids, shape[-1])
        attrs = (("length", shape[-1]),)
        return replace(expr, args=(where(held, values, 0.0), inside), shape=shape, attrs=attrs)

    def _scatter_rows(self, expr: Expr, args: list[Expr], shape: Shape) -> Expr:
        updates, ids = args
        rows = shape[batch_of(expr)]
        held, inside = self._ids(ids, rows)
        expression = where(_under(held, updates), updates, 0.0)
        attrs = (("rows", rows), *expr.attrs[1:])
        return replace(expr, args=(expression, inside), shape=shape, attrs=attrs)

    def _ids(self, ids: Expr, rows: Dim) -> tuple[Expr, Expr]:
        """Which ids fall into this rank's rows, and where; 0 for those that do not."""
        return owns_index(ids, self.over, rows), to_local_index(ids, self.over, rows)


def _exchanges(source: AxisState, target: AxisState) -> bool:
    """Tell whether ranks exchange parts: a slice becomes the whole, or terms become a slice."""
    if source.kind == "S":
        return target in (REPLICATED, CONSTANT)
    return source == PARTIAL and target.kind == "S"


def _rows(expr: Expr) -> int:
    """The axis of a table that ids point along, counted from the end."""
    return batch_of(expr) - expr.args[0].rank


def _scattered_rows(expr: Expr, axis: int) -> int | None:
    """The axis of summed rows that a view splits, if `axis` is its first part; None elsewhere.

    A rank then sums its own rows only. Other views are made whole, which costs nothing.
    """
    if expr.prim != "reshape" or expr.args[0].prim != "scatter_add":
        return None
    (sums,) = expr.args
    rows = batch_of(sums) - sums.rank
    splits = any(
        group.source == (rows + sums.rank,) and group.target[0] == axis + expr.rank
        for group in groups(sums.shape, expr.shape)
    )
    return rows if splits else None


def _has(arg: Expr, axis: int) -> bool:
    return -axis <= arg.rank and arg.shape[axis] != ONE


def _under(mask: Expr, x: Expr) -> Expr:
    """Append axes of size 1 to a mask, so that it has as many axes as `x`."""
    shape = (*mask.shape, *(ONE for _ in range(x.rank - mask.rank)))
    return mask if shape == mask.shape else Expr("reshape", (mask,), shape, "bool")
