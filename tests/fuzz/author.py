"""Writes one block: knows its values, names new ones, finds or makes operands that fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from fuzz.sketch import Block, Operand, Param, Port, Statement, Step
from fuzz.world import Axis, Known, Signature, World

from xg.ir.dim import ONE, Dim
from xg.syntax.spelling import ascii_name

# Names of values; many are names of sizes, of operators, or of things in generated code.
VALUES = (
    *("X", "Y", "Z", "H", "U", "O", "A", "G", "Q_1", "K", "V", "S", "T", "R", "C", "B", "D", "E"),
    *("φ", "μ", "λ", "np", "seed", "at", "one", "grads", "saved", "dtype", "i", "len", "float"),
    *("params", "inputs", "math", "print", "forward", "table", "axis", "shape", "d", "part", "sum"),
)
PLAIN = ("X", "Y", "Z", "H", "U", "O", "A", "G", "Q_1", "φ", "μ", "λ")  # only an edge's own
MOVED = ("zeros frozen", "ones frozen")  # how running statistics start
LETTERS = "abcdefghuvwxyz"


@dataclass(frozen=True)
class Move:
    """One more node at the end of a chain.

    `keeps` says that the compiler knows it as one that keeps shapes, `target` that it needs the
    label that follows to know what to make.
    """

    node: str
    result: Known
    attached: tuple[Operand, ...] = ()
    keeps: bool = False
    target: bool = False
    call: str = ""


@dataclass
class Author:
    """One block as far as it is written. `steps` is the catalogue of nodes that chains are of."""

    world: World
    name: str
    steps: Callable[[Author, Known, bool], Move | None]
    inputs: list[Known] = field(default_factory=list[Known])
    values: list[Known] = field(default_factory=list[Known])
    params: list[tuple[Known, str]] = field(default_factory=list[tuple[Known, str]])
    statements: list[Statement] = field(default_factory=list[Statement])
    used: set[str] = field(default_factory=set[str])
    taken: set[str] = field(default_factory=set[str])
    calls: dict[str, tuple[Signature, Mapping[str, Dim]]] = field(
        default_factory=dict[str, tuple[Signature, Mapping[str, Dim]]]
    )
    unnamed: set[str] = field(default_factory=set[str])
    numbers: list[str] = field(default_factory=list[str])
    words: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @property
    def random(self) -> Random:
        """The program's source of chance."""
        return self.world.random

    # ---- names and types ------------------------------------------------------------------------

    def fresh(self, names: Sequence[str]) -> str:
        """A name that no value of this block has."""
        name = self.random.choice(names)
        if names is VALUES and not self.world.rough_names:
            name = PLAIN[VALUES.index(name) % len(PLAIN)]
        number = 1
        while ascii_name(name) in self.taken:
            number += 1
            name = f"{name.split('_')[0]}_{number}"
        self.taken.add(ascii_name(name))
        return name

    def type(self, value: Known) -> str:
        """The type of a value as text."""
        return self.world.spell_shape(value.shape, value.range)

    def operand(self, value: Known, arrow: str = "<-") -> Operand:
        """A value as an operand; from now on it counts as used."""
        self.used.add(value.text)
        return Operand(value.text, self.type(value), arrow)

    # ---- new tensors ----------------------------------------------------------------------------

    def input(
        self, shape: Sequence[Dim], range_: Dim | None = None, names: Sequence[str] = VALUES
    ) -> Known:
        """A new input of the block."""
        axes = tuple(Axis(dim, dim != ONE) for dim in shape)
        value = Known(self.fresh(names), axes, range_)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def param(self, shape: Sequence[Dim], names: Sequence[str] = ("W_1", "V_1")) -> Known:
        """A parameter of this shape: one that is there, one of a call, or a new one."""
        fitting = [p for p, start in self.params if p.shape == tuple(shape) and start not in MOVED]
        fitting += [param for param in self._foreign() if param.shape == tuple(shape)]
        if fitting and self.world.chance(0.35):
            return self.random.choice(fitting)
        size = 1.0 if len(shape) < 2 else 0.6
        axes = tuple(Axis(dim, dim != ONE) for dim in shape)
        value = Known(self.fresh(names), axes, size=size)
        start = self.random.choice(("", "", "ones", "zeros", "normal(0.5)", "normal(1/sqrt(7))"))
        self.params.append((value, start))
        return value

    def statistics(self, shape: Sequence[Dim]) -> list[str]:
        """A running mean and variance, which nothing else reads."""
        axes = tuple(Axis(dim, dim != ONE) for dim in shape)
        made = [Known(self.fresh((name,)), axes) for name in ("μ_1", "v_1")]
        self.params += zip(made, MOVED, strict=True)
        return [value.text for value in made]

    def _foreign(self) -> list[Known]:
        """Parameters of the calls so far, in this block's sizes."""
        return [
            replace(param.bound(binding), text=f"{path}.{param.text}")
            for path, (signature, binding) in self.calls.items()
            for param in signature.params
        ]

    # ---- operands that fit ----------------------------------------------------------------------

    def of_shape(self, shape: Sequence[Dim], range_: Dim | None = None) -> list[Known]:
        """Values of a shape; floats without a range."""
        return [v for v in self.values if v.shape == tuple(shape) and v.range == range_]

    def floats(self) -> list[Known]:
        """Values that gradients flow through."""
        return [value for value in self.values if value.range is None]

    def start(self) -> Known:
        """A value to begin a chain with: mostly one that nothing uses yet."""
        floats = self.floats()
        fresh = [value for value in floats if value.text not in self.used]
        if not floats or (len(self.inputs) < 3 and self.world.chance(0.1)):
            return self.input(self.world.shape(self.random.choice((1, 2, 2, 3, 3, 4, 5))))
        return self.random.choice(fresh if fresh and self.world.chance(0.7) else floats)

    def beside(self, x: Known) -> tuple[Operand, Known]:
        """An operand of the shape of `x`, and what is known of it."""
        for way in self.random.sample(
            (self._found, self._found, self._biased, self._brought, self._branched, self._called), 6
        ):
            answer = way(x)
            if answer is not None:
                return answer
        value = self.input(x.shape)
        return self.operand(value), value

    def _found(self, x: Known) -> tuple[Operand, Known] | None:
        found = self.of_shape(x.shape)
        if not found:
            return None
        value = self.random.choice(found)
        return self.operand(value), value

    def _biased(self, x: Known) -> tuple[Operand, Known] | None:
        """BC of a parameter with the last axes of `x`."""
        rank = self.random.randint(0, min(len(x.axes), 2))
        new, kept = x.axes[: len(x.axes) - rank], x.axes[len(x.axes) - rank :]
        param = self.param([axis.dim for axis in kept], ("b_1", "β_1"))
        still = tuple(Axis(axis.dim, varies=False) for axis in new)
        known = replace(param, axes=(*still, *param.axes), dense=True)
        listed = self._listed(new)
        if listed and self.world.chance(0.4):
            return Operand(f"BC[{listed}]({param.text})", self.type(known)), known
        return Operand(f"BC({param.text})", self.type(known)), known

    def _listed(self, axes: Sequence[Axis]) -> str:
        """Axes by name, as ``BC[B, S]`` takes them; empty where one has no name."""
        names = [self.nameable(axis.dim) for axis in axes]
        return ", ".join(name for name in names if name) if all(names) else ""

    def nameable(self, dim: Dim) -> str | None:
        """The name by which brackets can mention an axis."""
        return self.world.sizes().fold(dim).name

    def _brought(self, x: Known) -> tuple[Operand, Known] | None:
        """Another value, its axes removed and repeated until it has the shape of `x`."""
        for value in self.random.sample(self.floats(), min(len(self.floats()), 4)):
            nodes = self.bring(value, x.shape)
            if nodes:
                self.used.add(value.text)
                text = f"({value.text} -> {' -> '.join(nodes)})"
                axes = tuple(Axis(dim, varies=False) for dim in x.shape)
                known = Known(text, axes, dense=False, size=value.size * 2)
                return Operand(text, self.type(known)), known
        return None

    def _called(self, x: Known) -> tuple[Operand, Known] | None:
        """A call of a block that takes nothing, brought to the shape of `x` if need be."""
        for signature in self.world.blocks:
            if signature.inputs or signature.name in self.unnamed:
                continue
            value, *others = signature.outputs
            nodes = self.bring(value, x.shape)
            if others or value.range is not None or nodes is None or not self.world.chance(0.7):
                continue
            self.unnamed.add(signature.name)
            call = f"{signature.name}()"
            text = f"({call} -> {' -> '.join(nodes)})" if nodes else call
            axes = tuple(Axis(dim, varies=False) for dim in x.shape)
            known = Known(text, axes, dense=False, size=value.size * 2)
            return Operand(text, self.type(known)), known
        return None

    def bring(self, value: Known, shape: Sequence[Dim]) -> list[str] | None:
        """Nodes that reduce and repeat a value to a shape; None if names do not allow it."""
        kept: list[int] = []
        place = 0
        for i, dim in enumerate(value.shape):
            if dim in shape[place:]:
                place += list(shape[place:]).index(dim) + 1
                kept.append(i)
        gone = [axis.dim for i, axis in enumerate(value.axes) if i not in kept]
        names = [self.nameable(dim) for dim in gone]
        if not all(names) or any(value.shape.count(dim) > 1 for dim in gone):
            return None
        nodes = [f"mean[{', '.join(map(str, names))}]"] if gone else []
        left = [value.shape[i] for i in kept]
        if list(shape) != left:
            nodes.append(self._repeat(left, shape))
        return nodes

    def _repeat(self, kept: Sequence[Dim], shape: Sequence[Dim]) -> str:
        """BC with a map that keeps some axes of a shape, greedily from the left."""
        source: list[str] = []
        target: list[str] = []
        for letter, dim in zip(LETTERS, shape, strict=False):
            if len(source) < len(kept) and dim == kept[len(source)]:
                source.append(letter)
                target.append(letter)
            elif dim == ONE and self.world.chance(0.5):
                target.append("1")
            else:
                target.append(f"{letter}={self.world.spell(dim)}")
        if not source:
            listed = self._listed([Axis(dim) for dim in shape])
            return f"BC[{listed}]" if listed else "BC"
        return f"BC[{', '.join(source)} -> {', '.join(target)}]"

    def _branched(self, x: Known) -> tuple[Operand, Known] | None:
        """A branch from `x` or a value like it: ``(H -> •<=W -> GELU)``."""
        found = self.of_shape(x.shape)
        if not found:
            return None
        value = self.random.choice(found)
        current, nodes = replace(value, text=""), list[str]()
        for _ in range(self.random.randint(1, 2)):
            move = self.steps(self, current, True)
            if move and move.result.shape == x.shape and not move.target:
                step = Step(move.node, (Port("", ""),), move.attached, shown=False)
                nodes.append(str(step))
                current = replace(move.result, text="")
        if not nodes:
            return None
        self.used.add(value.text)
        text = f"({value.text} {' '.join(nodes)})"
        return Operand(text, self.type(current)), replace(current, text=text)

    # ---- statements -----------------------------------------------------------------------------

    def chain(self, start: Known, length: int) -> None:
        """A statement of up to `length` nodes from a value on."""
        self.chain_from(self.operand(start), start, length)

    def chain_from(self, source: Operand, start: Known, length: int) -> None:
        """The same from an operand that is no value: a parameter, a table of positions."""
        steps: list[Step] = []
        current, waits = start, False
        for _ in range(length):
            move = self.steps(self, current, waits)
            if move is None:
                continue
            shown = self._append(steps, move, current, waits)
            waits = (waits or move.target) and not shown
            current = replace(self._behind(steps[-1], move, current), text="")
        if steps:
            self.finish([source], steps, current)
        elif not source.type:
            self._named(source, start)

    def _named(self, source: Operand, known: Known) -> None:
        named = replace(known, text=self.fresh(VALUES))
        port = Port(named.text, self.type(named))
        self.statements.append(Statement((source,), (), alias=port))
        self.values.append(named)

    def _append(self, steps: list[Step], move: Move, current: Known, waits: bool) -> bool:
        """Add a node to a chain, sometimes with a label; tell whether its shape is written."""
        shown = self.world.chance(0.6 if move.target or waits else 0.25)
        name = ""
        if shown and self.world.chance(0.4):
            name = self.fresh(VALUES)
        guard = ""
        if move.keeps and " -> " not in move.node:  # a mask stays in front of its softmax
            guard = self._guard()
        port = Port(name, self.type(move.result))
        steps.append(Step(move.node, (port,), move.attached, shown, guard, move.call))
        return shown

    def _guard(self) -> str:
        choices = {**self.world.options, **self.words}
        choices.pop("act", None)
        if not choices or self.world.chance(0.8):
            return ""
        option = self.random.choice(list(choices))
        some = self.random.sample(choices[option], self.random.choice((1, 1, 2)))
        return f"{option} = {' | '.join(some)}"

    def _behind(self, step: Step, move: Move, before: Known) -> Known:
        """The facts known behind a node: if a guard may leave it out, only those true both ways."""
        known = move.result
        if step.guard:
            pairs = zip(known.axes, before.axes, strict=True)
            axes = tuple(Axis(a.dim, a.varies and b.varies) for a, b in pairs)
            dense = known.dense and before.dense
            known = replace(known, axes=axes, dense=dense, size=max(known.size, before.size))
        for port in step.makes:
            self.values.append(replace(known, text=port.name))
        return known

    def finish(self, sources: Sequence[Operand], steps: Sequence[Step], last: Known) -> Known:
        """End a statement with a name for its result."""
        *others, final = steps
        if final.makes:
            named = replace(last, text=final.ports[0].name)
        else:
            named = replace(last, text=self.fresh(VALUES))
            port = Port(named.text, self.type(last))
            final = replace(final, ports=(port,), shown=True)
            self.values.append(named)
        tall = self.world.chance(0.3)
        self.statements.append(Statement(tuple(sources), (*others, final), tall=tall))
        return named

    def alias(self, value: Known) -> None:
        """Another name for a value."""
        self._named(self.operand(value), value)

    # ---- the whole block ------------------------------------------------------------------------

    def block(self, outputs: Sequence[Known]) -> Block:
        """The block with these values as its outputs."""
        own = [f"{name} = 0.4" for name in self.numbers]
        own += [f"{name} = {' | '.join(words)}" for name, words in self.words.items()]
        return Block(
            name=self.name,
            inputs=tuple(Port(v.text, self.type(v)) for v in self.inputs),
            outputs=tuple(Port(v.text, self.type(v)) for v in outputs),
            params=tuple(Param(p.text, self.type(p), start) for p, start in self.params),
            statements=tuple(self.statements),
            own=tuple(own),
        )
