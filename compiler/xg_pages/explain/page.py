"""Hold the content of a page as data, with the words of a text beside rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.wording import counted
from xg.figures.model.figure import Figure
from xg.ir.graph import Graph, Value
from xg.ir.parameters import is_loss
from xg.verify.examples.claim_check import Array
from xg_runtime.errors import InputError

if TYPE_CHECKING:
    from xg.ir.dim import Dim
    from xg_runtime.tokenizer import Tokenizer
    from xg_runtime.tokens import Vocabulary


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
            raise InputError(f"{graph.block} takes no tokens: --text is for blocks that do")
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
            raise InputError(f"the text has {said}{more}: {axis} = {there} must be {wanted}")
        range_ = graph.types[self.first].range
        if range_ and range_.evaluate(sizes) <= max(tokens.ids, default=0):
            held = range_.evaluate(sizes)
            raise InputError(f"the text has token {max(tokens.ids)}, and {range_} = {held}")


def labelled(page: ExplainedPage, axes: Mapping[str, tuple[str, ...]]) -> ExplainedPage:
    """A page with the words of its axes, by their names, beside rows and above columns."""

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
