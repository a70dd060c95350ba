"""A generated program in pieces: written as text, and taken apart again when it fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

WORD = re.compile(r"[^\W\d]\w*")
VALUE = re.compile(r"\w+(\.\w+)*")
CALL = re.compile(r"(?P<name>\w+)(?:\((?P<given>.*)\))?")


@dataclass(frozen=True)
class Port:
    """A name with its type as text: ``X [B, S]``, ``ids [B] in V``."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


@dataclass(frozen=True)
class Param:
    """A parameter; `start` is what it starts as, or nothing."""

    name: str
    type: str
    start: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.type}" + (f" = {self.start}" if self.start else "")


@dataclass(frozen=True)
class Operand:
    """An operand attached to a node; `type` is the type of a new input in its place."""

    text: str
    type: str
    arrow: str = "<-"


@dataclass(frozen=True)
class Step:
    """A node and the edges that leave it.

    `ports` are their types, with names where the label gives some; `shown` puts the shape into the
    label, `guard` keeps the node for one word of an option. `sizes` are those of the called block
    that are others than the caller's of the same names.
    """

    node: str
    ports: tuple[Port, ...]
    attached: tuple[Operand, ...] = ()
    shown: bool = True
    guard: str = ""
    call: str = ""
    sizes: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        operands = "".join(f"{operand.arrow}{operand.text}" for operand in self.attached)
        text = f"-> {self.node}{operands}"
        text += f" if {self.guard}" if self.guard else ""
        text += f" as {self.call}" if self.call else ""
        return text + self.label()

    def label(self) -> str:
        """The label of the edges that leave it."""
        if not any(port.name for port in self.ports):
            return f" : {self.ports[0].type.split(' in ')[0]}" if self.shown else ""
        return " : " + ", ".join(str(port) if self.shown else port.name for port in self.ports)

    @property
    def makes(self) -> tuple[Port, ...]:
        """The values that have a name."""
        return tuple(port for port in self.ports if port.name)


@dataclass(frozen=True)
class Statement:
    """A chain: values in front, then steps; without steps it gives its source another name.

    The call that it is of may stand in `front` of what it takes, if that are names: `F(x) : y`.
    """

    sources: tuple[Operand, ...]
    steps: tuple[Step, ...]
    alias: Port | None = None
    tall: bool = False
    front: bool = False

    def __str__(self) -> str:
        if self.front and (call := self._in_front()):
            return call
        text = ", ".join(source.text for source in self.sources)
        if self.alias:
            text += f" : {self.alias}"
        between = "\n      " if self.tall else " "
        return between.join([text, *map(str, self.steps)])

    def _in_front(self) -> str:
        """The call in front of what it takes; empty where it cannot stand there."""
        match self.steps:
            case (Step(guard="") as step,) if found := CALL.fullmatch(step.node):
                operands = [each.text for each in (*self.sources, *step.attached)]
                given = [*operands, *([found["given"]] if found["given"] else [])]
                name = f" as {step.call}" if step.call else ""
                text = f"{found['name']}({', '.join(given)}){name}{step.label()}"
                return text if all(map(VALUE.fullmatch, operands)) else ""
            case _:
                return ""

    @property
    def makes(self) -> tuple[Port, ...]:
        """The values that have a name from here on."""
        first = (self.alias,) if self.alias else ()
        return (*first, *(port for step in self.steps for port in step.makes))


@dataclass(frozen=True)
class Block:
    """A block; `own` are the arguments behind the semicolon of its signature, `dims` its own."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    params: tuple[Param, ...] = ()
    statements: tuple[Statement, ...] = ()
    own: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()
    title: str = ""

    def __str__(self) -> str:
        own = f"; {', '.join(self.own)}" if self.own else ""
        title = f' "{self.title}"' if self.title else ""
        head = f"block {self.name}{title} ({', '.join(map(str, self.inputs))}{own})"
        lines = [f"dim {dim}" for dim in self.dims]
        lines += [f"param {param}" for param in self.params]
        lines += map(str, self.statements)
        body = "".join(f"    {line}\n" for line in lines)
        return f"{head} -> {', '.join(map(str, self.outputs))} {{\n{body}}}\n"


@dataclass(frozen=True)
class Sketch:
    """A program: the last block is compiled, with `settings`.

    `resized` are other numbers for the sizes that its inputs carry.
    """

    dims: Mapping[str, str]
    blocks: tuple[Block, ...]
    ops: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])
    resized: Mapping[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        dims = [f"{name} = {size}" if size else name for name, size in self.dims.items()]
        parts = [f"dim {', '.join(dims)}\n"] if dims else []
        parts += [f"option {name} = {' | '.join(words)}\n" for name, words in self.options.items()]
        parts += [f"{op}\n" for op in self.ops]
        return "\n".join([*parts, *map(str, self.blocks)])

    @property
    def main(self) -> Block:
        """The block that is compiled."""
        return self.blocks[-1]

    def with_main(self, main: Block) -> Sketch:
        """The same program with another last block."""
        return replace(self, blocks=(*self.blocks[:-1], main))


def words(text: object) -> set[str]:
    """Every name that a text mentions."""
    return set(WORD.findall(str(text)))


def mentions(block: Block) -> Iterator[str]:
    """Every name in the statements of a block, once per mention."""
    for statement in block.statements:
        yield from WORD.findall(str(statement))
