"""The tree of an `.xg` file: what is written, with its place, before any name is looked up.

Trees are equal when they say the same: spans do not count, and `γ_1` and `gamma_1` are one name.
Nothing nests without a bracket, so no tree is deeper than a small multiple of the nesting limit.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from xg.syntax.terms import (
    Argument as Argument,
)
from xg.syntax.terms import (
    Arithmetic as Arithmetic,
)
from xg.syntax.terms import (
    Array as Array,
)
from xg.syntax.terms import (
    Axis as Axis,
)
from xg.syntax.terms import (
    AxisGroup as AxisGroup,
)
from xg.syntax.terms import (
    AxisItem as AxisItem,
)
from xg.syntax.terms import (
    AxisMap as AxisMap,
)
from xg.syntax.terms import (
    Call as Call,
)
from xg.syntax.terms import (
    Comparison as Comparison,
)
from xg.syntax.terms import (
    Expr as Expr,
)
from xg.syntax.terms import (
    Name as Name,
)
from xg.syntax.terms import (
    Negation as Negation,
)
from xg.syntax.terms import (
    Number as Number,
)
from xg.syntax.terms import (
    Operation as Operation,
)
from xg.syntax.terms import (
    Path as Path,
)
from xg.syntax.terms import (
    PlaceAxis as PlaceAxis,
)
from xg.syntax.terms import (
    Power as Power,
)
from xg.syntax.terms import (
    Rest as Rest,
)
from xg.syntax.terms import (
    Shape as Shape,
)
from xg.syntax.terms import (
    Text as Text,
)
from xg.syntax.terms import (
    UnitAxis as UnitAxis,
)
from xg.syntax.terms import (
    Wildcard as Wildcard,
)
from xg.syntax.tree import Syntax, syntax


@syntax
class FrozenWord(Syntax):
    """`frozen` behind an input or a parameter; where it is does not count."""


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
    """`A`, `-> A`: an edge or a call; behind an arrow (`is_node`) the node that makes the edge."""

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
class Example(Syntax):
    """`example "The cat sleeps" of Mini { given … expect … }`."""

    title: Text | None
    block: Name
    givens: tuple[Given, ...]
    expects: tuple[Expect, ...]


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
