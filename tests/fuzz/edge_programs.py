"""Random programs of what is rare: where a gradient ends, and where an axis or a number is special.

They have stops, dead lines, states that nothing reads, repeats that carry nothing, loops in
repeats, windows that overlap in front of what kernels do in place, masks and integers, ties, and
axes of length 0 and 1. `Edge.tags` says which of these a program has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from fuzz.edge_statements import SEVERAL

Shape = tuple[str, ...]

OPERATORS = {
    "Abs": "op Abs(x) = abs(x)",
    "Cap": "op Cap(x) = max(0, min(x, 1))",
    "Floor": "op Floor(x) = max(x, 0)",
    "Larger": "op Larger(a, b) = max(a, b)",
    "Chosen": "op Chosen(a, b) = select(a > b + 0.3, a, b*2)",  # equal operands aren't at the jump
    "Above": "op Above(h) = h > 0",
    "Gate": "op Gate(m [..] in 2, x [..]) = float(m)*x + x",
    "Both": "op Both(m [..] in 2, x [..]) = select(equal(m, 1), x, 2*x)",
    "Off": "op Off(k [..] in N, x [..]) = x*(k - 2)",
    "Square": "op Square(k [..] in N, x [..]) = x + k*k",
    "Less": "op Less(k [..] in N, x [..]) = x*float(3 - k*k*k)",
    "Top": "op Top(x [.., D]) = max[D](x)",
    "Through": "op Through(x, y) = x + stop(y - x)",
    "Even": "op Even(x) = (x*x)^2",
    "Sign": "op Sign(x) = sign(x)*x",
    "Part": "op Part(x) = x - floor(2*x)/2",
    "Whole": "op Whole(x) = round(x)*x + stop(round(x) - x)",
    "Log": "op Log(x) = log1p(abs(x))",
    "Decay": "op Decay(x [.., S, D]) = x * 0.9^range[S]",
    "Runs": "op Runs(x [.., S, D]) = max(cumsum[S](x), x)",
    "Best": "op Best(x [.., D]) = float(argmax[D](x)) * max[D](x) + logsumexp[D](x)",
    "Apart": "op Apart(x [B, S, D], y [B, T, D]) -> [B, T, S] = Warm(sum[D](abs(x - y)), 2)\n"
    "op Warm(x; b = 1) = x*sigmoid(b - x)",
}
NEW = {
    "Sign": "sign",
    "Part": "floor",
    "Whole": "round",
    "Log": "log1p",
    "softplus": "softplus",
}
INTEGERS = ("Off", "Square", "Less")
KINKED = ("Abs", "Cap", "Floor")
UNARY = ("tanh", "ReLU", "sigmoid", "GELU", "SiLU", "scale(-1.5)", "stop", *KINKED, *NEW, *NEW)
BINARY = ("⊕", "⊕", "⊙", "Larger", "Chosen", "Through", "GLU")


@dataclass(frozen=True)
class Value:
    """A name of a block with its type; `range` is that of integers."""

    name: str
    shape: Shape
    range: str = ""

    def __str__(self) -> str:
        below = f" in {self.range}" if self.range else ""
        return f"{self.name} [{', '.join(self.shape)}]{below}"


@dataclass(frozen=True)
class Line:
    """A statement and the values that it makes."""

    text: str
    makes: tuple[Value, ...]

    def __str__(self) -> str:
        return f"{self.text} : {', '.join(map(str, self.makes))}"


@dataclass(frozen=True)
class Part:
    """A block of a program; `states` are pairs of a declaration and what is `next`."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    params: tuple[Value, ...] = ()
    states: tuple[tuple[Value, str], ...] = ()
    lines: tuple[Line, ...] = ()

    def __str__(self) -> str:
        said = "\n".join([*map(str, self.lines), *(following for _, following in self.states)])
        text = [f"    param {param}" for param in self.params if mentions(said, param.name)]
        text += [f"    state {state}" for state, _ in self.states]
        text += [f"    {line}" for line in self.lines]
        text += [f"    next {state.name} = {following}" for state, following in self.states]
        head = f"({', '.join(map(str, self.inputs))}) -> {', '.join(map(str, self.outputs))}"
        return f"block {self.name}{head} {{\n" + "".join(f"{line}\n" for line in text) + "}\n"


@dataclass(frozen=True)
class Edge:
    """A program, the numbers of its sizes, and what it has."""

    parts: tuple[Part, ...]
    numbers: dict[str, int]
    seed: int
    tags: frozenset[str] = frozenset()
    settings: dict[str, str] = field(default_factory=dict[str, str])
    resized: dict[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        blocks = "\n".join(map(str, self.parts))
        ops = [text for name, text in OPERATORS.items() if mentions(blocks, name)]
        dims = [n if n == "B" else f"{n} = {size}" for n, size in self.numbers.items()]
        return "\n".join([f"dim {', '.join(dims)}\n", *ops, "", blocks])


def mentions(text: str, name: str) -> bool:
    """Whether a text has a name."""
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None


def generate(seed: int) -> Edge:
    """The program of a seed."""
    return _World(Random(seed)).program(seed)


class _World:
    """The sizes, the finished blocks and the tags of a program."""

    def __init__(self, random: Random) -> None:
        self.random = random
        sizes = {"S": (1, 2, 3, 4, 6), "D": (1, 2, 3), "N": (2, 4, 7, 200), "R": (1, 2, 3)}
        self.numbers = {"B": random.choice((0, 1, 1, 2, 3))}
        self.numbers |= {name: random.choice(each) for name, each in sizes.items()}
        self.formulas: dict[str, int] = {}
        self.parts: list[Part] = []
        self.tags: set[str] = set()

    def program(self, seed: int) -> Edge:
        """Some layers and cells, and a block that calls them."""
        for number in range(self.random.choice((0, 1, 1, 2, 2, 3))):
            kind = self.random.choice((Author.layer, Author.cell))
            author = Author(self)
            self.parts.append(
                kind(author, f"{'Layer' if kind is Author.layer else 'Cell'}{number}")
            )
        self.parts.append(Author(self).main())
        if self.numbers["B"] < 2 or self.numbers["S"] < 2 or self.numbers["D"] < 2:
            self.tags.add("length 0" if not self.numbers["B"] else "length 1")
        return Edge(tuple(self.parts), self.numbers, seed, frozenset(self.tags))

    def length(self, size: str) -> int:
        """The number of a size."""
        known = self.numbers | self.formulas
        return known[size] if size in known else int(size)

    def formula(self, text: str, size: int) -> str:
        """Note the number of a size that is written as a formula."""
        self.formulas[text] = size
        return text


class Author:
    """One block as far as it is written."""

    def __init__(self, world: _World) -> None:
        self.world, self.random = world, world.random
        self.inputs: list[Value] = []
        self.values: list[Value] = []
        self.params: list[Value] = []
        self.states: list[tuple[Value, str]] = []
        self.lines: list[Line] = []
        self.count = 0

    # ---- blocks ---------------------------------------------------------------------------------

    def main(self) -> Part:
        """The block that is compiled; it calls all others."""
        rank3 = ("B", "S", "D")
        self.input(rank3)
        if self.random.random() < 0.4:
            self.input(self.random.choice((rank3, ("B", "D"), ("S", "D"))))
        if self.random.random() < 0.3:
            self.input(rank3, "N", "integers")
        if self.random.random() < 0.3:
            self.input(rank3, "2", "masks")
        self.write(self.random.randint(1, 4))
        for part in self.world.parts:
            self.call(part)
            self.write(self.random.randint(0, 2))
        floats = [v for line in self.lines for v in line.makes if not v.range]
        if not floats:
            self.unary()
            floats = [self.lines[-1].makes[0]]
        chosen = self.random.sample(floats, min(len(floats), self.random.choice((1, 1, 2, 3))))
        if floats[-1] not in chosen and self.random.random() < 0.7:
            chosen.append(floats[-1])
        return self.part("Main", tuple(chosen))

    def layer(self, name: str) -> Part:
        """A block for a repeat: its first result has the type of its first operand."""
        x = self.input(self.random.choice((("B", "D"), ("B", "S", "D"))))
        if self.random.random() < 0.6:
            self.input(x.shape)
        self.write(self.random.randint(0, 2))
        if self.world.parts and self.random.random() < 0.5:
            self.call(self.random.choice(self.world.parts))
        found = [v for v in self.values if v.shape == x.shape and not v.range]
        first, how = self.random.choice(found), self.random.random()
        if how < 0.35:
            first = self.add(f"{first.name} -> stop", x.shape, "stops")
            self.world.tags.add("repeats that carry no gradient")
        second = self.random.choice([v for v in found if v != first] or found)
        arrow = self.random.choice(("⊕", "⊙", "Larger", "Chosen"))
        if how > 0.9:
            self.world.tags.add("repeats that carry nothing")
            y = self.add(f"{second.name} -> tanh", x.shape)
        elif arrow in ("Larger", "Chosen"):
            y = self.add(f"{arrow}({first.name}, {second.name}) -> tanh", x.shape)
        else:
            y = self.add(f"{first.name} -> {arrow}<-{second.name} -> tanh", x.shape)
        return self.part(name, (y,))

    def cell(self, name: str) -> Part:
        """A block for a loop over S or B, with states that are read in some way or in none."""
        x = self.input(self.random.choice((("B", "D"), ("D",), ("S", "D"))))
        if self.random.random() < 0.4:
            self.input(x.shape)
        for number in range(self.random.choice((0, 1, 1, 2))):
            state = Value(f"h{number}", x.shape)
            self.states.append((state, ""))
            way = self.random.choice(("all", "all", "stop", "mask", "dead", "none"))
            if way == "all":
                self.values.append(state)
                self.add(f"{state.name} -> ⊕<-{x.name} -> tanh", x.shape)
            elif way == "stop":
                self.add(f"{state.name} -> stop -> ⊕<-{x.name}", x.shape, "stops")
            elif way == "mask":
                m = self.add(f"{state.name} -> Above", x.shape, "masks", "2")
                self.add(f"Gate({m.name}, {x.name})", x.shape)
            elif way == "dead":
                self.lines.append(Line(f"{state.name} -> tanh", (Value(self.name(), x.shape),)))
            if way != "all":
                self.world.tags.add(f"states read by {'stop' if way == 'stop' else way}")
        self.write(self.random.randint(1, 2))
        if self.world.parts and self.random.random() < 0.35:
            self.call(self.random.choice(self.world.parts))
        found = [v for v in self.values if v.shape == x.shape and not v.range]
        for place, (state, _) in enumerate(self.states):
            self.states[place] = (state, self.random.choice(found).name)
        y = self.add(f"{found[-1].name} -> ⊕<-{self.random.choice(found).name} -> tanh", x.shape)
        return self.part(name, (y,))

    def part(self, name: str, outputs: tuple[Value, ...]) -> Part:
        """The finished block."""
        used = "".join(f"{line.text}\n" for line in self.lines)
        used += " ".join([*(value.name for value in outputs), *(n for _, n in self.states)])
        for line in self.lines:
            if not any(mentions(used, value.name) for value in line.makes):
                self.world.tags.add("dead lines")
        inputs = tuple(v for v in self.inputs if mentions(used, v.name)) or tuple(self.inputs[:1])
        inputs = tuple(self.inputs) if name != "Main" else inputs
        contents = tuple(self.params), tuple(self.states), tuple(self.lines)
        return Part(name, inputs, outputs, *contents)

    # ---- statements -----------------------------------------------------------------------------

    def name(self) -> str:
        """A new name."""
        self.count += 1
        return f"v{self.count}"

    def input(self, shape: Shape, range_: str = "", tag: str = "") -> Value:
        """A new input."""
        value = Value(self.name(), shape, range_)
        self.inputs.append(value)
        self.values.append(value)
        self.world.tags.update({tag} - {""})
        return value

    def may_be_param(self, shape: Shape) -> bool:
        """Whether a parameter can have this shape: one without elements is refused."""
        return all(map(self.world.length, shape))

    def param(self, shape: Shape) -> Value:
        """A new parameter, which no line but one reads."""
        self.params.append(Value(f"w{len(self.params)}", shape))
        return self.params[-1]

    def add(self, text: str, shape: Shape, tag: str = "", range_: str = "") -> Value:
        """A new line with one result."""
        value = Value(self.name(), shape, range_)
        self.lines.append(Line(text, (value,)))
        self.values.append(value)
        self.world.tags.update({tag} - {""})
        return value

    def several(self, text: str, *types: tuple[Shape, str]) -> list[Value]:
        """Write a line with several results, which have shapes and ranges."""
        made = [Value(self.name(), shape, range_) for shape, range_ in types]
        self.lines.append(Line(text, tuple(made)))
        self.values.extend(made)
        return made

    def target(self, shape: Shape, range_: str) -> Value:
        """Find integers of a shape and a range, or take them as an input."""
        found = [v for v in self.values if v.shape == shape and v.range == range_]
        return self.random.choice(found) if found else self.input(shape, range_, "integers")

    def floats(self, least: int = 1) -> list[Value]:
        """The values that are no integers, of at least so many axes."""
        return [v for v in self.values if not v.range and len(v.shape) >= least]

    def some(self, least: int = 1) -> Value | None:
        """One of them, the newer ones more often."""
        found = self.floats(least)
        return self.random.choice([*found, *found[-3:]]) if found else None

    def write(self, count: int) -> None:
        """Write some lines, a few of them dead."""
        kinds: Sequence[Callable[[], object]] = (
            *(self.unary, self.unary, self.binary, self.binary, self.bias),
            *(self.window, self.window, self.view, self.reduced, self.product, self.masked),
            *(self.integers, self.integers, self.lookup, self.pooled, self.convolved),
            *(partial(each, self) for each in SEVERAL),
        )
        for _ in range(count):
            self.random.choice(kinds)()
        if self.random.random() < 0.25:
            x = self.some()
            if x:
                step = self.random.choice(("tanh", "stop", "scale(3)"))
                self.lines.append(Line(f"{x.name} -> {step}", (Value(self.name(), x.shape),)))

    def unary(self) -> None:
        """A function of each number."""
        if x := self.some():
            step = self.random.choice(UNARY)
            tag = "stops" if step == "stop" else "ties" if step in KINKED else ""
            tag = NEW.get(step, tag)
            self.add(f"{x.name} -> {step}", x.shape, tag)

    def binary(self) -> None:
        """A function of two values, sometimes of one twice."""
        if x := self.some():
            others = [v for v in self.floats() if v.shape == x.shape]
            y, step = self.random.choice(others), self.random.choice(BINARY)
            tag = "ties" if step in ("Larger", "Chosen") and x == y else ""
            if step in ("⊕", "⊙", "GLU"):
                self.add(f"{x.name} -> {step}<-{y.name}", x.shape, tag)
            else:
                self.add(f"{step}({x.name}, {y.name})", x.shape, tag)

    def bias(self) -> None:
        """A parameter that is added to what may be a view."""
        if x := self.some(2):
            shape = x.shape[self.random.randrange(1, len(x.shape)) :]
            sign = self.random.choice("⊕⊙⊕")
            if self.may_be_param(shape):
                self.add(f"{x.name} -> {sign}<-BC({self.param(shape).name})", x.shape)

    def window(self) -> None:
        """Windows of an axis, a kernel behind them, and sometimes their sum."""
        found = [v for v in self.floats(2) if v.shape[-2:] == ("S", "D") and len(v.shape) < 4]
        if not found:
            return
        x, length = self.random.choice(found), self.world.length("S")
        k, stride = self.random.choice((1, 2, 3)), self.random.choice((1, 1, 2))
        pad, dilation = self.random.choice((0, 0, 1, 2)), self.random.choice((1, 1, 2))
        reach = (k - 1) * dilation + 1
        if length + 2 * pad < reach or (length + 2 * pad - reach) % stride:
            return
        count = (length + 2 * pad - reach) // stride + 1
        given = f"stride={stride}, pad={pad}, dilation={dilation}"
        shape = (*x.shape[:-2], str(count), str(k), "D")
        y = self.add(f"{x.name} -> window[S](k={k}, {given})", shape, "windows")
        y = self.after_view(y)
        if self.random.random() < 0.6:
            axis = "-3"
            self.add(f"{y.name} -> overlap[{axis}]({given})", x.shape, "overlaps")

    def view(self) -> None:
        """Write another view of the same numbers, then an addition that a kernel does in place."""
        x = self.some(2)
        if not x:
            return
        how = self.random.choice(("T", "BC", "slice", "split", "R"))
        *front, before, last = x.shape
        if how == "T" and before not in front and last not in front:
            y = self.add(f"{x.name} -> T", (*front, last, before), "views")
        elif how == "BC" and len(x.shape) < 4:
            y = self.add(f"{x.name} -> BC", ("2", *x.shape), "views")
        elif how == "R" and len(x.shape) == 2 and self.world.length(before):
            y = self.add(f"{x.name} -> R", (before, "1", last), "views")
        elif how in ("slice", "split") and self.world.length("D") > 1 and last == "D" != before:
            y = self.add(f"{x.name} -> slice[D](0, 1)", (*front, before, "1"), "views")
        else:
            return
        self.after_view(y)

    def after_view(self, x: Value) -> Value:
        """Something that a kernel may do in place."""
        how = self.random.choice(("bias", "bias", "self", "tanh", "ReLU", "S", "LN", "none"))
        if how == "bias" and self.may_be_param(x.shape[1:]):
            w = self.param(x.shape[1:])
            return self.add(f"{x.name} -> ⊕<-BC({w.name})", x.shape, "adds after views")
        if how in ("self", "bias"):
            return self.add(f"{x.name} -> ⊕<-{x.name}", x.shape, "adds after views")
        if how == "none" or (how == "LN" and x.shape[-1] == "1"):
            return x
        return self.add(f"{x.name} -> {how}", x.shape)

    def reduced(self) -> None:
        """A sum, mean or maximum over an axis."""
        if x := self.some(2):
            how = self.random.choice(("sum", "mean", "Top"))
            if how == "Top" and x.shape[-1] == "D":
                self.add(f"{x.name} -> Top", x.shape[:-1], "ties")
            elif how != "Top":
                axis = self.random.choice([n for n in x.shape if n.isalpha()] or [""])
                empty = how == "mean" and axis and not self.world.length(axis)
                if axis and x.shape.count(axis) == 1 and not empty:
                    left = tuple(n for n in x.shape if n != axis)
                    self.add(f"{x.name} -> {how}[{axis}]", left)

    def product(self) -> None:
        """A matrix product with a parameter, or a normalization."""
        if x := self.some(2):
            if self.random.random() < 0.4 and x.shape[-1] == "D":
                self.add(f"{x.name} -> {self.random.choice(('S', 'LN'))}", x.shape)
            elif x.shape[-1] == "D":
                self.add(f"{x.name} -> •<={self.param(('D', 'D')).name}", x.shape)

    def masked(self) -> None:
        """A mask, made or taken, that chooses."""
        x = self.some()
        masks = [v for v in self.values if v.range == "2" and x and v.shape == x.shape]
        if x:
            m = self.random.choice(masks) if masks else None
            m = m or self.add(f"{x.name} -> Above", x.shape, "masks", "2")
            self.add(f"{self.random.choice(('Gate', 'Both'))}({m.name}, {x.name})", x.shape)

    def integers(self) -> None:
        """Arithmetic of integers, which stay exact."""
        whole = [v for v in self.values if v.range == "N"]
        for k in whole[:1]:
            for x in [v for v in self.floats() if v.shape == k.shape][-1:]:
                step = self.random.choice(INTEGERS)
                self.add(f"{step}({k.name}, {x.name}) -> scale(0.001)", x.shape, "integers")

    def lookup(self) -> None:
        """Rows of a table."""
        whole = [v for v in self.values if v.range and len(v.shape) < 4]
        if whole:
            ids = self.random.choice(whole)
            table = self.param((ids.range, "D"))
            self.add(f"{ids.name} -> Emb({table.name})", (*ids.shape, "D"), "lookups")

    def pooled(self) -> None:
        """Maxima or means of windows."""
        found = [v for v in self.floats(2) if v.shape[-2:] == ("S", "D") and len(v.shape) == 3]
        k = self.random.choice((1, 2, 3))
        if found and self.world.length("S") % k == 0 and self.world.length("S"):
            x, how = self.random.choice(found), self.random.choice(("maxpool", "meanpool"))
            count = str(self.world.length("S") // k)
            self.add(f"{x.name} -> {how}[S](k={k})", (*x.shape[:-2], count, "D"), "windows")

    def convolved(self) -> None:
        """A convolution that keeps the length."""
        found = [v for v in self.floats(3) if v.shape == ("B", "S", "D")]
        if found:
            x, kernel = self.random.choice(found), self.param(("3", "D", "D"))
            self.add(f"{x.name} -> conv[S]({kernel.name}, pad=1)", x.shape, "windows")

    # ---- calls ----------------------------------------------------------------------------------

    def call(self, part: Part) -> None:
        """Call a block once, in a row, or over an axis."""
        first = part.inputs[0]
        if part.name.startswith("Cell"):
            self.looped(part)
            return
        operands = [self.operand(each.shape, each.range) for each in part.inputs]
        if None in operands:
            return
        count = self.random.choice(("", "0 × ", "1 × ", "2 × ", "3 × ", "3 × "))
        rest = "".join(f"<-{each.name}" for each in operands[1:] if each)
        name = f"c{len(self.lines)}"
        head = operands[0]
        assert head is not None
        text = f"{head.name} -> {count}{part.name}{rest} as {name}"
        nested = "repeats" if count else "calls"
        self.add(text, first.shape, nested)

    def operand(self, shape: Shape, range_: str = "") -> Value | None:
        """A value of this shape and range."""
        found = [v for v in self.values if v.shape == shape and v.range == range_]
        return self.random.choice(found) if found else None

    def looped(self, part: Part) -> None:
        """Call a block over an axis that its operand lacks."""
        first = part.inputs[0].shape
        axes = [n for n in ("S", "B") if n not in first]
        if first == ("D",):
            axes = ["S"]
        axis = self.random.choice(axes)
        if part.states and self.random.random() < 0.4:
            self.rounds(part)
            return
        shape = ("B", "S", "D") if {"B", "S"} <= {axis, *first} else (axis, *first)
        others = [v.shape for v in part.inputs[1:]]
        taken = [shape, *(self.random.choice((shape, o)) if o == first else o for o in others)]
        pairs = zip(taken, part.inputs, strict=True)
        operands = [v for each, port in pairs if (v := self.operand(each, port.range))]
        if len(operands) < len(taken):
            return
        self.loop(part, operands, axis, shape)
        if not self.world.length(axis):
            self.world.tags.add("loops over nothing")

    def rounds(self, part: Part) -> None:
        """Call a block with a state a number of times, over an axis that no operand has."""
        operands = [v for port in part.inputs if (v := self.operand(port.shape, port.range))]
        if len(operands) == len(part.inputs):
            self.loop(part, operands, "R", ("R", *part.inputs[0].shape))
            self.world.tags.add("numbers of rounds")

    def loop(self, part: Part, operands: Sequence[Value], axis: str, shape: Shape) -> None:
        """Write a loop, in either order, whose states may begin at values."""
        starts = {state.name: self.operand(state.shape) for state, _ in part.states}
        begins = [f"{n}={v.name}" for n, v in starts.items() if v and self.random.random() < 0.3]
        begin = f"({', '.join(begins)})" if begins else ""
        order = self.random.choice(("", "", " reversed"))
        made = [Value(self.name(), shape)]
        made += [Value(self.name(), state.shape) for state, _ in part.states]
        head = ", ".join(v.name for v in operands)
        text = f"{head} -> {part.name}{begin} over {axis}{order} as c{len(self.lines)}"
        self.world.tags.update({"reversed loops"} if order else set())
        self.world.tags.update({"states that begin at values"} if begin else set())
        self.lines.append(Line(text, tuple(made)))
        self.values.extend(made)
        self.world.tags.add("loops")


# ---- smaller programs ----------------------------------------------------------------------------


def smaller(edge: Edge) -> Iterator[Edge]:
    """Programs with one piece less."""
    for place in range(len(edge.parts) - 1):
        name = edge.parts[place].name
        if not any(mentions(str(part), name) for part in edge.parts[place + 1 :]):
            yield replace(edge, parts=edge.parts[:place] + edge.parts[place + 1 :])
    for place, part in enumerate(edge.parts):
        for less in _smaller_parts(part, main=place == len(edge.parts) - 1):
            yield replace(edge, parts=(*edge.parts[:place], less, *edge.parts[place + 1 :]))
    for name, size in edge.numbers.items():
        for other in range(1, size):
            yield replace(edge, numbers={**edge.numbers, name: other})


def _smaller_parts(part: Part, *, main: bool) -> Iterator[Part]:
    if main and len(part.outputs) > 1:
        for output in part.outputs:
            yield replace(part, outputs=tuple(v for v in part.outputs if v != output))
    for place in range(len(part.lines) - 1, -1, -1):
        line = part.lines[place]
        rest = (*part.lines[:place], *part.lines[place + 1 :])
        less = replace(part, lines=rest)
        earlier = [*part.inputs, *(v for each in part.lines[:place] for v in each.makes)]
        stand_in = {
            value: next((v for v in earlier if _type(v) == _type(value)), None)
            for value in line.makes
        }
        if all(stand_in.values()) or not any(_used(less, v) for v in line.makes):
            yield _renamed(less, {v.name: s.name for v, s in stand_in.items() if s})
        if main and len(line.makes) <= 2:
            kept = tuple(v for v in less.outputs if v not in line.makes)
            new = tuple(v for v in line.makes if _used(replace(less, outputs=()), v))
            if kept:
                yield replace(less, outputs=kept, inputs=(*less.inputs, *new))
        pieces = line.text.split(" -> ")
        for cut in range(1, len(pieces) - 1):
            text = " -> ".join(pieces[:cut] + pieces[cut + 1 :])
            lines = (*part.lines[:place], replace(line, text=text), *part.lines[place + 1 :])
            yield replace(part, lines=lines)
        if "3 ×" in line.text:
            lines = list(part.lines)
            lines[place] = replace(line, text=line.text.replace("3 ×", "2 ×"))
            yield replace(part, lines=tuple(lines))
    if main:
        unused = [v for v in part.inputs if not _used(replace(part, inputs=()), v)]
        for value in unused:
            yield replace(part, inputs=tuple(v for v in part.inputs if v != value))


def _type(value: Value) -> tuple[Shape, str]:
    return value.shape, value.range


def _used(part: Part, value: Value) -> bool:
    text = " ".join([*(line.text for line in part.lines), *(n for _, n in part.states)])
    return mentions(text, value.name) or value in part.outputs


def _renamed(part: Part, names: dict[str, str]) -> Part:
    def text(of: str) -> str:
        for old, new in names.items():
            of = re.sub(rf"(?<![\w.]){old}(?!\w)", new, of)
        return of

    made = {v.name: v for line in part.lines for v in line.makes}
    made |= {v.name: v for v in part.inputs}
    outputs = tuple(made.get(names.get(v.name, v.name), v) for v in part.outputs)
    return replace(
        part,
        lines=tuple(replace(line, text=text(line.text)) for line in part.lines),
        states=tuple((state, text(following)) for state, following in part.states),
        outputs=tuple(dict.fromkeys(outputs)),
    )
