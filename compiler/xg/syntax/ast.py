"""Define the tree of an `.xg` file: what is written, and where, before any name is looked up.

Trees are equal when they say the same: spans do not count, and `γ_1` and `gamma_1` are one name.
Nothing nests without a bracket, so no tree is deeper than a small multiple of the nesting limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias, TypeVar, cast, dataclass_transform

from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass

# Trees of any kind: what every part of one has, and how to go through them.


Class = TypeVar("Class")


@dataclass_transform(frozen_default=True, field_specifiers=())
def syntax(kind: type[Class]) -> type[Class]:
    """A frozen dataclass with slots; equality and text come from `Syntax`."""
    return dataclass(frozen=True, slots=True, eq=False, repr=False)(kind)


@syntax
class Syntax:
    """The base of every part of a tree: its place (`span.text` is how it is spelled)."""

    span: Span

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other) if isinstance(other, Syntax) else NotImplemented

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        """All fields but the places, as calls within calls; a loop, because trees are deep."""
        pieces: list[str] = []
        waiting: list[object] = [self]
        while waiting:
            match waiting.pop():
                case str() as piece:
                    pieces.append(piece)
                case Syntax() as tree:
                    values = [getattr(tree, name) for name in tree.__match_args__[1:]]
                    waiting += [")", *_repr_parts(values), f"{type(tree).__name__}("]
                case items:
                    waiting += ["]", *_repr_parts(cast("tuple[object, ...]", items)), "["]
        return "".join(pieces)


def _repr_parts(values: Sequence[object]) -> Iterator[object]:
    """The parts of the `repr` of some values, the last first."""
    for position, value in enumerate(reversed(values)):
        if position:
            yield ", "
        yield value if isinstance(value, Syntax | tuple) else repr(value)


def parts(tree: Syntax) -> Iterator[Syntax]:
    """The trees that a tree is directly made of, in the order of its fields."""
    for name in tree.__match_args__[1:]:
        value: object = getattr(tree, name)
        if isinstance(value, Syntax):
            yield value
        elif isinstance(value, tuple):
            for item in cast("tuple[object, ...]", value):
                if isinstance(item, Syntax):
                    yield item


def only(kind: type[Class], trees: Iterable[Syntax]) -> tuple[Class, ...]:
    """The trees of one kind, in their order."""
    return tuple(tree for tree in trees if isinstance(tree, kind))


def walk(tree: Syntax) -> Iterator[Syntax]:
    """A tree and all trees inside it, each before its parts."""
    waiting = [tree]
    while waiting:
        tree = waiting.pop()
        yield tree
        waiting += parts(tree)


# Trees of the parts of statements: names, numbers, paths, expressions, shapes.


@syntax
class Name(Syntax):
    """`W_Q`, `γ_1`, `•`: a name in ASCII spelling (`gamma_1`), a sign as its glyph."""

    name: str


@syntax
class Text(Syntax):
    """`"Multi-Head Attention"`: a title, a reason, a file's path, without the quotes."""

    value: str


# ---- expressions: sizes, arguments, bodies of operators, numbers of documents --------------------


@syntax
class Number(Syntax):
    """`64`, `0.10`, `1e-5`: an int if without point and exponent; `digits` as written."""

    value: int | float
    digits: str


@syntax
class Path(Syntax):
    """`W_Q`, `bert.E`, `layers.3.attn.W_Q`: a name, or a way through named calls.

    In a plan a segment may be `*`.
    """

    segments: tuple[Name, ...]

    @property
    def name(self) -> str:
        """The segments with dots between them, in ASCII spelling."""
        first, *others = self.segments
        return ".".join((first.name, *(name.name for name in others))) if others else first.name


@syntax
class Wildcard(Syntax):
    """`_`: any dim. Only in the shapes of plans."""


@syntax
class Argument(Syntax):
    """`p`, `eps=1e-12`: one argument, in order when `name` is None."""

    name: Name | None
    value: Expr


@syntax
class Call(Syntax):
    """`T(E)`, `sinusoid(S, D)`, `mean[D](x^2)`, `BC[B, S](b)`: an operator before its operands."""

    operator: Name
    axes: AxisMap | None
    arguments: tuple[Argument, ...]


@syntax
class Array(Syntax):
    """`[[1, 0], [0, 1]]`: numbers of a document."""

    items: tuple[Expr, ...]


@syntax
class Operation(Syntax):
    """`+ b`, `/ c`: one sign and its right operand inside an `Arithmetic`."""

    sign: Literal["+", "-", "*", "/"]
    operand: Expr


@syntax
class Arithmetic(Syntax):
    """`a + b - c` or `a * b / c`: operands of one precedence, applied from left to right.

    Flat, so that a sum of a thousand terms is not a thousand levels deep.
    """

    first: Expr
    rest: tuple[Operation, ...]


@syntax
class Negation(Syntax):
    """`-x`."""

    operand: Expr


@syntax
class Power(Syntax):
    """`P^2`."""

    base: Expr
    exponent: Expr


@syntax
class Comparison(Syntax):
    """`x > 0`, `x >= 0`."""

    sign: Literal[">", ">="]
    left: Expr
    right: Expr


Expr: TypeAlias = (
    Number | Path | Wildcard | Call | Array | Arithmetic | Negation | Power | Comparison
)


# ---- shapes and axes -----------------------------------------------------------------------------


@syntax
class Rest(Syntax):
    """`..`: any number of axes."""


@syntax
class Shape(Syntax):
    """`[B, S, D/N_T]`, `[.., D]`, `[]` (a scalar)."""

    dims: tuple[Expr | Rest, ...]


@syntax
class Axis(Syntax):
    """`b`, `g=N_H/N_KV`: an axis in brackets after an operator, with its size if it is new."""

    name: Name
    size: Expr | None


@syntax
class UnitAxis(Syntax):
    """`1`: an axis of size 1."""


@syntax
class PlaceAxis(Syntax):
    """`-2`: an axis of the operand counted from the end, as -1 is the last one."""

    place: int


@syntax
class AxisGroup(Syntax):
    """`(h, p=P)`: axes that are one axis of the tensor."""

    axes: tuple[Axis | UnitAxis | PlaceAxis | Rest, ...]


AxisItem: TypeAlias = Axis | UnitAxis | PlaceAxis | Rest | AxisGroup


@syntax
class AxisMap(Syntax):
    """`[b, (h, d) -> b, h, d]`; a plain list such as `[B, S]` has no `target`."""

    source: tuple[AxisItem, ...]
    target: tuple[AxisItem, ...] | None


# ---- declared names ------------------------------------------------------------------------------
# A name without shape and value has taken shape, range and value from the next one:
# `W_Q, W_K [D, D]` declares two names with [D, D].


@syntax
class FrozenWord(Syntax):
    """`frozen` after an input or a parameter; its place does not count."""


@syntax
class Port(Syntax):
    """`X [B, S, D]`, `ids [B, S] in V`: a value that comes in, goes out or gets its name.

    `frozen` is where the word is: no gradient is taken of the input.
    """

    name: Name
    shape: Shape | None
    range: Expr | None
    frozen: FrozenWord | None = None


@syntax
class Own(Syntax):
    """`γ [D]`, `eps = 1e-5`, `mask = none | causal`: what a node is made of (right of `;`).

    `words` are the choices of an option (the first is the default); then `default` is None.
    """

    name: Name
    shape: Shape | None
    default: Expr | None
    words: tuple[Name, ...]


@syntax
class Param(Syntax):
    """`γ [D] = ones`, `W [D, C] frozen`: one parameter of a block.

    Without `init` it starts as the usual random one; `frozen` is where the word is: it learns
    nothing.
    """

    name: Name
    shape: Shape
    range: Expr | None
    init: Expr | None
    frozen: FrozenWord | None = None


@syntax
class State(Syntax):
    """`state K_c [B, N_KV, T, D_h]`: one tensor of a call that changes between steps."""

    name: Name
    shape: Shape
    range: Expr | None
    init: Expr | None


@syntax
class Binding(Syntax):
    """`μ = mean[D](x)`, `K_c = K`: a name and what it is."""

    name: Name
    value: Expr


@syntax
class Marked(Syntax):
    """`A`, `-> A`: an edge or a call; after an arrow (`is_node`) the node that makes the edge."""

    name: Name
    is_node: bool


@syntax
class Remark(Syntax):
    """`highlight K, -> A "ours"`, `note A "one row for each query"`: how figures show a place."""

    targets: tuple[Marked, ...]
    text: Text | None
    highlights: bool


# ---- chains --------------------------------------------------------------------------------------


@syntax
class Attachment(Syntax):
    """`<=W_Q`, `<-BC(b)`, `<-(H -> •<=W)`: an operand that enters beside the chain."""

    arrow: Literal["<-", "<="]
    operand: Operand


@syntax
class Guard(Syntax):
    """`if norm = pre`, `if pos = learned | rope`: the node is there only for these choices."""

    option: Name
    words: tuple[Name, ...]


@syntax
class Over(Syntax):
    """`over S`, `over T reversed`: a call for each position of an axis, the last one first."""

    axis: Name
    reversed: bool


@syntax
class Label(Syntax):
    """`: H [B, S, D]`, `: g [N, k], e [N, k] in N_E`, `: [B, S, D]`: the edge that leaves the node.

    `shape` belongs to an edge without a name; then `ports` is empty.
    """

    ports: tuple[Port, ...]
    shape: Shape | None


@syntax
class NodeUse(Syntax):
    """`N_L × Layer(causal)<-M if x = y as layers : Y`: one node of a chain and its edge's label.

    The operator is a name or a glyph: `•` for `@`, `⊕` for `+`, `⊙` for `*`.
    """

    operator: Name
    axes: AxisMap | None
    arguments: tuple[Argument, ...]
    attachments: tuple[Attachment, ...]
    over: Over | None
    guard: Guard | None
    instance: Name | None
    repeat: Number | Path | None
    label: Label | None


@syntax
class Chain(Syntax):
    """`Q -> •<=KT : A -> S : P`; its last edge has a name, unless it is an operand in parentheses.

    `label` names what the sources give where no node follows at once: `T(E) : E_T`.
    """

    sources: tuple[Start, ...]
    label: Label | None
    steps: tuple[NodeUse, ...]


Operand: TypeAlias = Path | Call | Chain
Start: TypeAlias = Operand | NodeUse  # a node is a call with a name


# ---- declarations of a file ----------------------------------------------------------------------


@syntax
class Use(Syntax):
    """`use Attention, MLP from "layers.xg"`, `use GQA from llama` (the shipped library)."""

    names: tuple[Name, ...]
    origin: Text | Name


@syntax
class DimDecl(Syntax):
    """`dim B`, `D_h = D/N_H`: one symbol for a length."""

    name: Name
    size: Expr | None


@syntax
class MeshDecl(Syntax):
    """`mesh N_T = 3`: one axis of the mesh of ranks."""

    name: Name
    size: Expr | None


@syntax
class OptionDecl(Syntax):
    """`option norm = pre | post`: words to choose from; the first is the default."""

    name: Name
    words: tuple[Name, ...]


@syntax
class OpDef(Syntax):
    """`op LN(x [.., D]; γ [D], eps = 1e-5) = (x - μ) / sqrt(v + eps) where μ = mean[D](x), …`."""

    name: Name
    data: tuple[Port, ...]
    own: tuple[Own, ...]
    result: Shape | None
    body: Expr
    bindings: tuple[Binding, ...]


@syntax
class Block(Syntax):
    """`block MHA "Title" (X [B, S, D]; p = 0.1) -> Y [B, S, D] { … }`; lists in file order."""

    name: Name
    title: Text | None
    data: tuple[Port, ...]
    own: tuple[Own, ...]
    outputs: tuple[Port, ...]
    dims: tuple[DimDecl, ...]
    params: tuple[Param, ...]
    states: tuple[State, ...]
    nexts: tuple[Binding, ...]
    remarks: tuple[Remark, ...]
    expects: tuple[Expect, ...]
    chains: tuple[Chain, ...]


@syntax
class Placement(Syntax):
    """`* [_/N_D, ..] -> [..] again`, `W, b keep`: places at rest and in use, and the memory."""

    targets: tuple[Path, ...]
    at_rest: Shape | None
    in_use: Shape | None
    memory: Name | None


@syntax
class Schedule(Syntax):
    """`schedule 1F1B(8, 2)`: an order of a pipeline, its microbatches, the stages of a rank."""

    name: Name
    counts: tuple[Number, ...]


@syntax
class Plan(Syntax):
    """`plan TP "Megatron" of MLP { … }`."""

    name: Name
    title: Text | None
    block: Name
    placements: tuple[Placement, ...]
    schedules: tuple[Schedule, ...]


@syntax
class PlanProduct(Syntax):
    """`plan SP "Sequence parallel" = TP × Stream`."""

    name: Name
    title: Text | None
    factors: tuple[Name, ...]


@syntax
class Given(Syntax):
    """`given W_2 = [[0.4], [0.3], [0.2]]`, `given layers.0.W_up = …`: a value of a document."""

    target: Path
    value: Expr


@syntax
class Expect(Syntax):
    """`expect dW_1 = [[0.1]] ± 5e-5 "Step 8" wrong "a misprint"`: one claim of a document.

    In a block it is `expect dW = 0 "why"`: the gradient of W is meant to be zero.
    """

    target: Path
    value: Expr
    tolerance: Expr | None
    place: Text | None
    wrong: Text | None


@syntax
class Stored(Syntax):
    """`given from "numbers.npz"`, `expect from "numbers.npz" ± 1e-6 "page 4"`: arrays of a file."""

    file: Text
    claimed: bool
    tolerance: Expr | None
    place: Text | None


@syntax
class Example(Syntax):
    """`example "The cat sleeps" of Mini { given … expect … }`."""

    title: Text | None
    block: Name
    givens: tuple[Given, ...]
    expects: tuple[Expect, ...]
    stored: tuple[Stored, ...]


@syntax
class Module(Syntax):
    """A whole file; each list in the file's order."""

    edition: Number | None
    uses: tuple[Use, ...]
    dims: tuple[DimDecl, ...]
    meshes: tuple[MeshDecl, ...]
    options: tuple[OptionDecl, ...]
    ops: tuple[OpDef, ...]
    blocks: tuple[Block, ...]
    plan_decls: tuple[Plan | PlanProduct, ...]
    examples: tuple[Example, ...]
