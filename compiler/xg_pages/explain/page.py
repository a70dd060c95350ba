"""The content of a page, as data: sections of blocks, steps with their numbers, figures."""

from __future__ import annotations

from collections.abc import Mapping

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.figure import Figure
from xg.verify.examples.claim_check import Array


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
