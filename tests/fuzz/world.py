"""State shared by all blocks of a generated program: sizes, options, operators, finished blocks."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random

from fuzz.defined import Defined, define

from xg.ir.dim import ONE, Dim, number, symbol
from xg.ir.tensor import Sizes

# Names of sizes, their numbers and the numbers they get when inputs are resized. Numbers differ, so
# that two sizes are never taken for each other; those from the second on are at least 3.
NAMES = ("B", "S", "T", "D", "K", "V", "C", "P", "S_k", "D_ff", "N_C", "Q", "L_1")
NUMBERS = ((2, 3), (3, 5), (5, 4), (7, 6), (11, 8))
ELEMENTS_AT_MOST = 1_400
AXES_AT_MOST = 5


@dataclass(frozen=True)
class Axis:
    """A size and whether the numbers along it differ from each other at random."""

    dim: Dim
    varies: bool = True


@dataclass(frozen=True)
class Known:
    """A value that a block can mention.

    `dense` says that no row of it is zero by construction; `size` is about how large its numbers
    are. Both keep generated programs where differences can be trusted.
    """

    text: str
    axes: tuple[Axis, ...]
    range: Dim | None = None
    dense: bool = True
    size: float = 1.0

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The sizes alone."""
        return tuple(axis.dim for axis in self.axes)

    def bound(self, sizes: Mapping[str, Dim]) -> Known:
        """The same value of a called block in the sizes of its caller."""
        axes = tuple(replace(axis, dim=axis.dim.substitute(sizes)) for axis in self.axes)
        return replace(self, axes=axes, range=self.range and self.range.substitute(sizes))


@dataclass(frozen=True)
class Signature:
    """A finished block as its callers see it: types of ports in the block's own symbols."""

    name: str
    inputs: tuple[Known, ...]
    outputs: tuple[Known, ...]
    params: tuple[Known, ...]
    numbers: tuple[str, ...]
    words: tuple[tuple[str, tuple[str, ...]], ...]
    layer: bool
    dims: tuple[str, ...]


@dataclass
class World:
    """The program as far as it is written."""

    random: Random
    numbers: dict[str, int]
    resized: dict[str, int]
    definitions: dict[str, Dim]
    literals: dict[str, int] = field(default_factory=dict[str, int])
    options: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    settings: dict[str, str] = field(default_factory=dict[str, str])
    ops: dict[str, Defined] = field(default_factory=dict[str, Defined])
    blocks: list[Signature] = field(default_factory=list[Signature])
    rough_names: bool = True  # values may have names of sizes, operators and of generated code
    aside: Random = field(default_factory=Random)  # for choices that disturb no other program
    short: bool = False  # few lines: nine of ten programs, so that there can be many

    @classmethod
    def random_one(cls, random: Random) -> World:
        """Sizes and operators of a new program."""
        names = random.sample(NAMES, len(NUMBERS))
        world = cls(random, {}, {}, {}, aside=Random(str(random.getstate())))
        for name, (first, second) in zip(names, NUMBERS, strict=True):
            world.numbers[name], world.resized[name] = first, second
        world._define_sizes(names)
        for name in random.sample(("Mix", "SwiGLU", "Warp", "Leaky"), random.choice((0, 1, 1, 2))):
            world.ops[name] = define(random, name)
        world._choose_options()
        world.rough_names, world.short = world.chance(0.3), world.chance(0.9)
        return world

    def _define_sizes(self, names: Sequence[str]) -> None:
        small, *others = names
        if self.chance(0.5):
            self.definitions["E"] = symbol(small) * 2
        if self.chance(0.3):
            self.definitions["M"] = symbol(self.random.choice(others)) + 1
        if self.chance(0.4):
            self.numbers |= {"H": 6, "N_H": 3}
            self.resized |= {"H": 12, "N_H": 2}
            self.definitions["D_h"] = symbol("H") / symbol("N_H")
        if self.chance(0.3):
            self.definitions["F"] = symbol(small) * symbol(self.random.choice(others))

    def _choose_options(self) -> None:
        for name, words in (
            ("act", ("GELU", "ReLU", "SiLU", "tanh", "sigmoid")),
            ("norm", ("pre", "post")),
            ("pos", ("fixed", "learned", "none")),
        ):
            if self.chance(0.3):
                chosen = tuple(self.random.sample(words, min(len(words), 3)))
                self.options[name] = chosen
                self.settings[name] = self.random.choice(chosen)

    @contextmanager
    def local_size(self) -> Generator[str]:
        """Let a block have a size of its own, under a name that the program has for another one."""
        mentioned = {name for dim in self.definitions.values() for name in dim.symbols()}
        names = [name for name in self.numbers if name not in mentioned and name != "N_H"]
        if len(names) < 2 or self.chance(0.7):
            yield ""
            return
        name, other = self.random.sample(names, 2)
        before = self.numbers
        self.numbers = {each: number for each, number in before.items() if each != name}
        self.definitions[name] = self.random.choice((symbol(other) * 2, symbol(other) + 2))
        try:
            yield name
        finally:
            del self.definitions[name]
            self.numbers = {name: before[name], **self.numbers}

    # ---- chance ---------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        """Whether it happens this time."""
        return self.random.random() < probability

    # ---- sizes ----------------------------------------------------------------------------------

    def sizes(self) -> Sizes:
        """The definitions and numbers of the program's symbols."""
        return Sizes(self.definitions, {**self.numbers, **self.literals})

    def dim(self) -> Dim:
        """A size: mostly a symbol, sometimes 1 or an expression."""
        draw = self.random.random()
        if draw < 0.1:
            return ONE
        if draw < 0.3 and self.definitions:
            return self.sizes().expand(self.random.choice(list(self.definitions.values())))
        if draw < 0.35:
            return symbol(self.random.choice(list(self.numbers))) + self.random.choice((1, 2))
        if draw < 0.4:
            return number(self.random.choice((2, 4)))
        return symbol(self.random.choice(list(self.numbers)))

    def shape(self, rank: int) -> tuple[Dim, ...]:
        """Sizes of a tensor that is not too large, the first ones mostly distinct."""
        for _ in range(20):
            shape = tuple(self.dim() for _ in range(rank))
            if self.fits(shape) and (len(set(shape)) == rank or self.chance(0.2)):
                return shape
        return self.shape(max(rank - 1, 0))

    def elements(self, shape: Sequence[Dim]) -> int:
        """How many numbers a tensor has, by the larger of its two sizes."""
        found: list[int] = []
        for numbers in (self.numbers, self.resized):
            total = 1
            for dim in shape:
                total *= dim.evaluate({**numbers, **self.literals})
            found.append(total)
        return max(found)

    def fits(self, shape: Sequence[Dim]) -> bool:
        """Whether a tensor is small enough."""
        return len(shape) <= AXES_AT_MOST and self.elements(shape) <= ELEMENTS_AT_MOST

    def least(self, dim: Dim) -> int:
        """The smaller of a size's two numbers."""
        return min(
            dim.evaluate({**numbers, **self.literals}) for numbers in (self.numbers, self.resized)
        )

    def spell(self, dim: Dim) -> str:
        """A size as text, mostly by its name."""
        return str(self.sizes().fold(dim)) if self.chance(0.85) else str(dim)

    def spell_shape(self, shape: Sequence[Dim], range_: Dim | None = None) -> str:
        """A type as text."""
        text = f"[{', '.join(map(self.spell, shape))}]"
        return text if range_ is None else f"{text} in {self.spell(range_)}"
