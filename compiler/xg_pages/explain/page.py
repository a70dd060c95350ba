"""Hold the content of a page as data: its words, equations and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.diagnostics.terminal import counted
from xg.figures.model.figure import Figure
from xg.figures.views.notation import Notation, swaps_operand_axes
from xg.ir.graph import Apply, Backward, Graph, IRProgram, Step, Value
from xg.ir.walk import is_loss
from xg.verify.claim_check import Array
from xg_pages.explorer.facts import Equations
from xg_runtime.errors import InputError

if TYPE_CHECKING:
    from xg.ir.dim import Dim
    from xg_runtime.tokens import Tokenizer, Vocabulary


@dataclass(frozen=True, slots=True)
class ShownTensor:
    """A tensor that is shown: its name (empty if it has none), its type as written, its numbers.

    `rows` and `columns` are the words that these are about. `wrong` says which numbers are not
    what the program gives, of a tensor that a document prints.
    """

    name: str
    type: str
    array: Array
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    wrong: Array | None = None


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """One step. `number` counts through the page; `takes` and `goes_to` are other steps.

    `node` is its id in the figure, empty if it is no node. `line` is that of the file, 0 for a sum
    of gradients, which has no line. `why` is a sentence about its purpose. `worked` is its first
    number, worked out; `remarks` are sentences about it. `product` are the operands and the result
    of a matrix product, `printed` what a document says that the result is.
    """

    number: int
    equation: str
    operator: str
    formula: str
    line: int
    source: str
    tensors: tuple[ShownTensor, ...]
    takes: tuple[int, ...]
    goes_to: tuple[int, ...]
    node: str
    why: str = ""
    worked: str = ""
    product: tuple[ShownTensor, ...] = ()
    printed: tuple[ShownTensor, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExplainedPass:
    """The steps of one pass of a block, and its figure. `begins` is what it starts from."""

    figure: Figure
    begins: tuple[ShownTensor, ...]
    steps: tuple[ExplainedStep, ...]


@dataclass(frozen=True, slots=True)
class ExplainedBlock:
    """One block; `path` is the call whose numbers are shown, empty for the block itself."""

    title: str
    path: str
    source: str
    forward: ExplainedPass
    backward: ExplainedPass | None


@dataclass(frozen=True, slots=True)
class Update:
    """A parameter before a step, its gradient, and it after the step; the loss before and after.

    `norm` is that of all gradients, which are scaled down to norm 1 where they are `clipped`.
    """

    shown: tuple[ShownTensor, ShownTensor, ShownTensor]
    worked: str
    rate: float
    norm: float
    clipped: bool
    loss: str
    losses: tuple[float, float]


@dataclass(frozen=True, slots=True)
class ExplainedPage:
    """A whole page. `seed` is None where the numbers are an example's; `off`: nothing is drawn.

    `invented` is a sentence on numbers that the file has otherwise.
    """

    title: str
    example: str
    file: str
    block: str
    sizes: Mapping[str, int]
    seed: int | None
    off: str
    invented: str
    sections: tuple[ExplainedBlock, ...]
    update: Update | None = None


# The words of a text beside the rows and columns that are about them.


BLANK: Final = "␣"  # a token of blanks alone would not be seen


@dataclass(frozen=True, slots=True)
class TextTokens:
    """A text in pieces: the words, their ids, and how many ids there are.

    `known` are the words of all ids, where these are few.
    """

    words: tuple[str, ...]
    ids: tuple[int, ...]
    kinds: int
    known: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, vocabulary: Vocabulary | Tokenizer | None) -> TextTokens:
        """The tokens of a vocabulary; without one words between blanks, numbered as they come."""
        if vocabulary is None:
            words = text.split()
            known = list(dict.fromkeys(words))
            return cls(tuple(words), tuple(map(known.index, words)), len(known), tuple(known))
        ids = [int(each) for each in vocabulary.encode(text.encode())]
        pieces = (vocabulary.decode(np.array([each])) for each in ids)
        shown = (piece.strip() or BLANK for piece in pieces)
        return cls(tuple(shown), tuple(ids), vocabulary.size)


@dataclass(frozen=True, slots=True)
class Read:
    """A block that reads tokens: along `axis` of its first input, as integers or as rows.

    `ids` are the integers that go in, `targets` those that should come out, each one later.
    """

    first: Value
    axis: Dim
    ids: Value | None
    targets: Value | None

    @classmethod
    def of(cls, graph: Graph) -> Read:
        """The inputs of a block that tokens are for. InputError: it has no such."""
        integers = [v for v in graph.inputs if graph.types[v].range and graph.types[v].shape]
        right = {step.inputs[1] for step in graph.steps if is_loss(step)}
        first = next((v for v in integers if v not in right), next(iter(graph.inputs), None))
        if first is None or (first not in integers and len(graph.types[first].shape) < 2):
            raise InputError(f"{graph.block} takes no tokens: leave out --text")
        shape = graph.types[first].shape
        if first not in integers:
            return cls(first, shape[-2], None, None)
        alike = (v for v in integers if v in right and graph.types[v] == graph.types[first])
        return cls(first, shape[-1], first, next(alike, None))

    def length(self, tokens: TextTokens) -> int:
        """How many positions there are: the last token is only a target where there are targets."""
        return len(tokens.words) - (self.targets is not None)

    def sizes(self, graph: Graph, tokens: TextTokens) -> Mapping[str, int]:
        """The sizes that the tokens ask for."""
        if self.ids is None:
            return {self.axis.name: self.length(tokens)} if self.axis.name else {}
        type_ = graph.types[self.ids]
        wanted = {dim.name: 1 for dim in type_.shape[:-1]}
        wanted |= {self.axis.name: self.length(tokens)}
        wanted |= {type_.range.name: tokens.kinds} if type_.range else {}
        return {name: size for name, size in wanted.items() if name}

    def inputs(
        self, graph: Graph, tokens: TextTokens, sizes: Mapping[str, int]
    ) -> dict[str, Array]:
        """The integers that the block takes."""
        given: dict[str, Array] = {}
        for value, start in ((self.ids, 0), (self.targets, 1)):
            if value is not None:
                shape = [dim.evaluate(sizes) for dim in graph.types[value].shape]
                ids = np.array(tokens.ids[start : start + shape[-1]])
                given[str(value.name)] = np.broadcast_to(ids, shape).copy()
        return given

    def check(self, graph: Graph, tokens: TextTokens, sizes: Mapping[str, int]) -> None:
        """InputError: the block has another number of positions, or too few kinds of tokens."""
        there, wanted = self.axis.evaluate(sizes), self.length(tokens)
        axis = graph.sizes.fold(self.axis)
        if there != wanted:
            said = counted(len(tokens.words), "token")
            more = ", the last as a target" if self.targets else ""
            raise InputError(
                f"the text has {said}{more}, so {axis} must be {wanted}; found {there}"
            )
        range_ = graph.types[self.first].range
        if range_ and range_.evaluate(sizes) <= max(tokens.ids, default=0):
            held = range_.evaluate(sizes)
            raise InputError(
                f"the text has the token {max(tokens.ids)}, but {range_} = {held}: tokens "
                "must be smaller"
            )


def label_axes(page: ExplainedPage, axes: Mapping[str, tuple[str, ...]]) -> ExplainedPage:
    """Label rows and columns with the words of their axes, which are looked up by name."""

    def tensor(one: ShownTensor) -> ShownTensor:
        dims = one.type[1:].partition("]")[0].split(", ") if one.array.ndim else []
        names = [axes.get(dim, ()) for dim in dims]
        fits = one.array.shape[-len(names) :] if names else ()
        names = [n if len(n) == size else () for n, size in zip(names, fits, strict=True)]
        rows = names[-2] if len(names) > 1 else ()
        return replace(one, rows=rows, columns=names[-1] if names else ())

    def tensors(every: Sequence[ShownTensor]) -> tuple[ShownTensor, ...]:
        return tuple(map(tensor, every))

    def steps(one: ExplainedPass) -> ExplainedPass:
        told = (
            replace(
                step,
                tensors=tensors(step.tensors),
                product=tensors(step.product),
                printed=tensors(step.printed),
            )
            for step in one.steps
        )
        return replace(one, begins=tensors(one.begins), steps=tuple(told))

    def section(one: ExplainedBlock) -> ExplainedBlock:
        back = steps(one.backward) if one.backward else None
        return replace(one, forward=steps(one.forward), backward=back)

    return replace(page, sections=tuple(map(section, page.sections)))


# Write the equations, products and sentences that every form of a page shares.


# Steps as equations that distinguish parts of a gradient from the whole: `dX = dX′ ⊕ dX″`.


PRIMES: Final = ("′", "″", "‴")


@dataclass(slots=True)
class BlockNaming:
    """Names and equations of one block."""

    equations: Equations

    @classmethod
    def of(cls, program: IRProgram, backward: Backward) -> BlockNaming:
        """The naming of the steps of a block."""
        notation = Notation.of(backward.forward, backward)
        return cls(_WithParts(program, notation, {}, parts=parts(backward)))

    def equation(self, step: Step) -> str:
        """The equation of a step; those before it have been written. Two transposes cancel."""
        return self.equations.write(step).replace("⊤⊤", "")

    def name(self, value: Value) -> str:
        """The name of a value; empty for one without a name."""
        return self.equations.name(value)

    def operand(self, value: Value) -> str:
        """A value as an operand of a product."""
        return self.equations.text(value, factor=True)

    def dims(self, value: Value) -> list[str]:
        """A value's shape as the file would write it."""
        return self.equations.notation.dims(value)


def parts(backward: Backward) -> dict[Value, str]:
    """The marks of cotangents that are only part of a sum."""
    marks: dict[Value, str] = {}
    counts: dict[Value, int] = {}
    for part, primal in backward.of.items():
        if backward.totals.get(primal) is not part:
            counts[primal] = counts.get(primal, 0) + 1
            number = counts[primal]
            marks[part] = PRIMES[number - 1] if number <= len(PRIMES) else f"⁽{number}⁾"
    return marks


@dataclass(slots=True)
class _WithParts(Equations):
    """Equations that mark the parts of sums."""

    parts: Mapping[Value, str] = field(default_factory=dict[Value, str])

    def name(self, value: Value) -> str:
        """The name of a value, with its mark."""
        named = Equations.name(self, value)
        return f"{named}{self.parts.get(value, '')}" if named else ""


# A matrix product as three matrices: a row, the column that it meets, and the number they make.


SIGNS: Final = ("", "•", "=")  # before each of the three
FRAMES: Final = ("row", "column", "cell")  # the parts that the first number concerns


def product_of(
    step: Apply, naming: BlockNaming, values: Mapping[Value, Array]
) -> tuple[ShownTensor, ...]:
    """The operands as the equation writes them, and the result; empty where it is no product.

    Axes that are summed together become one, as in ``[D_ff, B·S] • [B·S, D]``.
    """
    if step.op.name != "matmul":
        return ()
    letters, result = str(step.attrs["spec"]).split("->")
    operands = letters.split(",")
    summed = [letter for letter in operands[0] if letter not in result]
    shown: list[ShownTensor] = []
    for place, (own, value) in enumerate(zip(operands, step.inputs, strict=True)):
        kept = [[letter] for letter in result if letter in own]
        kept.insert(len(kept) - place, summed)
        axes = [[own.index(letter) for letter in group] for group in kept]
        dims = naming.dims(value)
        type_ = ", ".join("·".join(dims[axis] for axis in group) for group in axes)
        array = values[value]
        lengths = [prod(array.shape[axis] for axis in group) for group in axes]
        moved = array.transpose([axis for group in axes for axis in group]).reshape(lengths)
        mark = "⊤" if swaps_operand_axes(step, place) else ""
        name = f"{naming.operand(value)}{mark}".replace("⊤⊤", "")
        shown.append(ShownTensor(name, f"[{type_}]", moved))
    (made,) = step.outputs
    name, type_ = naming.name(made), ", ".join(naming.dims(made))
    return (*shown, ShownTensor(name, f"[{type_}]", values[made]))


def heading(page: ExplainedPage) -> str:
    """The subject of the page."""
    return f"{page.title}: {page.example}" if page.example else page.title


def origin(page: ExplainedPage) -> str:
    """Where its numbers are from."""
    sizes = ", ".join(f"{name} = {size}" for name, size in page.sizes.items())
    at = f" at {sizes}" if sizes else ""
    if page.seed is None:
        return (
            f"The block {page.block} of {page.file}{at}, with the numbers that its example gives."
        )
    drawn = f"The block {page.block} of {page.file}{at}, with numbers drawn from seed {page.seed}."
    return f"{drawn} {page.invented}".rstrip()


def promise(page: ExplainedPage) -> str:
    """How the numbers are made."""
    source_note = (
        "Nothing below is typed in: every number is computed in float64 from those that are given, "
        "and every gradient is derived from the diagram."
    )
    return f"{source_note} {page.off}".rstrip()


def name(section: ExplainedBlock) -> str:
    """A section's title, and whose numbers it shows."""
    return f"{section.title} (as {section.path})" if section.path else section.title


def begins(view: str, section: ExplainedBlock) -> str:
    """The inputs of a pass."""
    if view == "forward":
        return "What goes in"
    several = len(section.backward.begins) != 1 if section.backward else True
    return "The gradients that come in" if several else "The gradient that comes in"


GRADIENTS_ADD: Final = "Several steps take this value; the gradients that they send back add up."
THROUGH: Final = r"^(The chain rule through step )(\d+)"  # how such a reason begins


def chain_rule(number: int) -> str:
    """The beginning of the reason of a step of the backward pass."""
    return f"The chain rule through step {number}" if number else "The chain rule"


def aside(meaning: str) -> str:
    """An operator's meaning inside a sentence."""
    return f": {meaning}" if meaning else ""


def rule(gradient: str) -> str:
    """An operator's gradient inside a sentence, where it is a formula."""
    return f", where {gradient}" if " = " in gradient else ""


def sentence(text: str) -> str:
    """A meaning as a sentence.

    >>> sentence("matrix product")
    'Matrix product.'
    """
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def neighbors(step: ExplainedStep, steps: ExplainedPass) -> str:
    """The neighbors of a step: the steps it takes from and those that take its result."""
    own = {each.number for each in steps.steps}
    takes = _step_list([number for number in step.takes if number in own])
    saved = _step_list([number for number in step.takes if number not in own])
    parts = [f"takes what {takes} made" if takes else ""]
    parts.append(f"takes what {saved} saved" if saved else "")
    goes_to = _step_list(list(step.goes_to))
    parts.append(f"goes to {goes_to}" if goes_to else "leaves the block")
    return ", ".join(filter(None, parts))


def _step_list(numbers: list[int]) -> str:
    """``step 3``, ``steps 3 and 5``."""
    if not numbers:
        return ""
    *others, last = map(str, numbers)
    return f"steps {', '.join(others)} and {last}" if others else f"step {last}"


UPDATE: Final = "One step of learning"
UPDATE_SIGNS: Final = ("", "with", "→")


def rule_of(update: Update) -> str:
    """The optimizer, and the gradients that it gets."""
    clipped = (
        f" The gradients together have norm {update.norm:.4g}, so all are scaled down to norm 1."
        if update.clipped
        else ""
    )
    return (
        "The first step of AdamW, the optimizer of xg train, at its full rate η = "
        f"{update.rate:g}: θ becomes θ·(1 - η·0.01) - η·dθ/(sqrt(dθ²) + ε); biases, scales and "
        f"shifts do not shrink.{clipped}"
    )


def losses(update: Update) -> str:
    """The loss before and after, both computed."""
    before, after = (f"{loss:.8g}" for loss in update.losses)
    return f"All parameters changed like this, {update.loss} goes from {before} to {after}."
