"""An operator: written once, in primitives; shapes, gradient, figure box and code follow from it.

The record below is all there is to an operator. Its *body* gives the shape rule, the value and the
generated code. Its gradient is one of three things, in this order of preference:

`pullback`  for operators that only move or multiply: the gradient as a small term over operators
            (``dA = dY • B⊤``), so that the backward figure shows them as the seed draws them;
`adjoint`   a closed form over the cotangent, the operands, the output and the caches; the backward
            figure shows one node ``dS``, and what the form mentions is what the forward pass saves;
neither     the body is differentiated primitive by primitive into such a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import Body, substitute
from xg.ir.conventions import Convention
from xg.ir.dim import spell_number
from xg.ir.prim import Expr, operand
from xg.ir.primitive_gradients import pullback as derive
from xg.ir.tensor import TensorType
from xg.ir.use import AtMost, Attrs, Data, Length, Misuse, Number, Own, Tensor, Use, Word

Family = Literal[
    "matmul", "add", "multiply", "nonlinear", "layout", "reduce", "source", "loss", "collective"
]


Brackets = Literal["", "axes", "new axes", "map", "new axes or map", "values"]


@dataclass(frozen=True, slots=True)
class Term:
    """A gradient as operators applied to cotangents and operands, by their names.

    ``"d"`` is the cotangent of the one output; of several, ``"d_1"``, ``"d_2"`` …
    """

    op: str
    args: tuple[str | Term, ...]
    attrs: Attrs = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Description:
    """An operator, or one form of it, for people: a sentence, its formula and its gradient's."""

    meaning: str
    formula: str
    gradient: str


Gradient = str | Term
T = TypeVar("T")  # what a gradient is made of: values of a graph, or expressions


def pull_back(
    gradients: Mapping[str, Gradient],
    operands: Mapping[str, T],
    cotangents: Sequence[T],
    wanted: Iterable[str],
    apply: Callable[[Term, Sequence[T]], T],
) -> Iterator[tuple[str, T]]:
    """Yield the gradient of each wanted operand that has one, its terms applied inside out."""
    numbered = {f"d_{number}": each for number, each in enumerate(cotangents, 1)}
    known = {**operands, **numbered, "d": cotangents[0]}

    def make(gradient: Gradient) -> T:  # as deep as the operator's author nested it
        if isinstance(gradient, str):
            return known[gradient]
        return apply(gradient, [make(arg) for arg in gradient.args])

    yield from ((name, make(gradients[name])) for name in wanted if name in gradients)


Forward = Callable[..., Any]  # (*operands, **attrs) -> Expr, or (Expr, caches), or several Exprs


# ---- the record ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Op:
    """An operator. The texts at the end are what ``xg ops`` and the documentation print.

    `brackets` says whether a file may name axes behind it, or map them to others; those of `grad`
    name values. An operator that `differentiates` gives the gradients of its first operand, a loss,
    by so many operands after it; the attribute `reads` has the places of those in its body.
    A `derived` operator is one that only the compiler inserts; a `local` one computes on a rank's
    part what on the whole another body does. The body of one that `sums_over_ranks` does so where a
    nonlinear primitive needs the global value, in both passes. One that `is_adjoint` belongs to a
    backward pass, so nothing in its body is differentiated again.
    `limits` refuses numbers that it cannot have: those of a text, and of sizes that have theirs.
    `moves` says of own tensors which cache each approaches in training, by the `momentum`.
    `forward` takes the operands in order (None for an absent one) and the attributes by name;
    `configure` makes these of one use, without it they are the own arguments. `adjoint` takes by
    name what it needs and gives one gradient per declared float operand, None for no gradient.
    `kinks` are the numbers at which that gradient is 0, though the slope of the body is not.
    `conventions` state the value and the gradient at edges, such as ties and empty axes; without
    any it is smooth everywhere.
    `describe` describes one form of it by its attributes, where that says more than the texts here.
    `legend` is what legends of figures say, where the name says too little.
    """

    glyph: str
    name: str
    family: Family
    forward: Forward
    data: tuple[Data, ...] = (Data("x"),)
    own: tuple[Own, ...] = ()
    outputs: tuple[str, ...] = ("y",)
    variadic: bool = False
    keeps_shape: bool = False
    brackets: Brackets = ""
    needs_axes: bool = False  # whether there is no axis to default to
    derived: bool = False
    local: bool = False
    sums_over_ranks: bool = False
    is_adjoint: bool = False
    differentiates: int = 0
    moves: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: Callable[[Mapping[str, float]], Misuse | None] | None = None
    configure: Callable[[Use], Attrs] | None = None
    pullback: Callable[[Attrs], Mapping[str, Gradient]] | None = None
    adjoint: Callable[..., tuple[Expr | None, ...]] | None = None
    kinks: tuple[float, ...] = ()
    conventions: tuple[Convention, ...] = ()
    facts: Callable[[Sequence[TensorType], Attrs], tuple[AtMost, ...]] | None = None
    describe: Callable[[Attrs], Description] | None = None
    meaning: str = ""
    formula: str = ""
    gradient: str = ""
    source: str = ""
    legend: str = ""

    @property
    def words(self) -> str:
        """The words of legends in figures."""
        return self.legend or self.name

    def description(self, attrs: Attrs) -> Description:
        """The operator in the form that it has in a use."""
        if self.describe:
            return self.describe(attrs)
        return Description(self.meaning, self.formula, self.gradient)

    def computing(self, body: Body, data: Sequence[str], own: Sequence[str] = ()) -> Op:
        """Return the operator of one use with another body, to derive its gradient from."""

        def forward(*operands: Expr, **_: object) -> object:
            return body.on(operands)

        return replace(
            self,
            forward=forward,
            data=tuple(Data(name, "any") for name in data),
            own=tuple(Tensor(name) for name in own),
            variadic=False,
            limits=None,
            configure=None,
            pullback=None,
            adjoint=None,
            facts=None,
        )

    def operand_names(self, attrs: Attrs) -> tuple[str, ...]:
        """The operands of a use in order: data, then own tensors; absent ones are left out."""
        if self.variadic:
            return tuple(f"x_{i + 1}" for i in range(attrs["count"]))
        tensors = [own.name for own in self.own if isinstance(own, Tensor)]
        absent = attrs.get("absent", ())
        names = [*(data.name for data in self.data), *tensors]
        return tuple(name for name in names if name not in absent)

    def body(self, types: Sequence[TensorType], attrs: Attrs) -> Body:
        """The computation of a use, on operands of these types."""
        operands = [
            operand(name, type_.shape, "float" if type_.is_float else "int")
            for name, type_ in zip(self.operand_names(attrs), types, strict=True)
        ]
        result = self._trace(operands, attrs)
        if isinstance(result, Expr):
            return Body(tuple(operands), (result,))
        if len(result) == 2 and isinstance(result[1], dict):
            caches = {str(name): expr.named(name) for name, expr in result[1].items()}
            return Body(tuple(operands), (result[0], *caches.values()), tuple(caches))
        return Body(tuple(operands), tuple(result))

    def adjoint_body(self, types: Sequence[TensorType], attrs: Attrs) -> Body:
        """The gradient of every float operand (in order) as a body.

        Its operands are the cotangents ``dy`` of the outputs, then operands, outputs and caches;
        `Body.free` says which of them are needed.
        """
        forward = self.body(types, attrs)
        visible = forward.outputs[: len(forward.outputs) - len(forward.caches)]
        names = self.output_names(len(visible))
        cotangents = [
            operand("d" + name, out.shape) for name, out in zip(names, visible, strict=True)
        ]
        results = [
            operand(name, out.shape, out.kind)
            for name, out in zip([*names, *forward.caches], forward.outputs, strict=True)
        ]
        expressions = [*cotangents, *forward.operands, *results]
        floats = [expr for expr in forward.operands if expr.kind == "float"]
        if self.adjoint:
            gradients = self._call_adjoint(expressions, floats, attrs)
        else:
            derived = derive(visible, cotangents, floats)
            by_output = {
                id(out): result for out, result in zip(forward.outputs, results, strict=True)
            }
            gradients = substitute(derived, by_output)
        outputs = {
            str(expr.name): gradient.named(f"d{expr.name}")
            for expr, gradient in zip(floats, gradients, strict=True)
            if gradient is not None
        }
        return Body(tuple(expressions), tuple(outputs.values()), of=tuple(outputs))

    def adjoint_op(self, types: Sequence[TensorType], attrs: Attrs, wanted: Sequence[str]) -> Op:
        """The operator ``dS`` of the backward figure: the gradients of the wanted operands.

        Its operands are just those that the gradients mention; its outputs are named ``dx``.
        """
        whole = self.adjoint_body(types, attrs)
        chosen = {
            name: out for name, out in zip(whole.of, whole.outputs, strict=True) if name in wanted
        }
        outputs = tuple(chosen.values())
        free = Body(whole.operands, outputs).free()

        def forward(*operands: Expr, **_: object) -> list[Expr]:
            expressions = {id(old): new for old, new in zip(free, operands, strict=True)}
            return [out for out in substitute(outputs, expressions) if out is not None]

        return Op(
            glyph="d" + self.glyph,
            name=f"gradient of {self.name}",
            family=self.family,
            forward=forward,
            data=tuple(Data(str(expr.name), "any") for expr in free),
            outputs=tuple(f"d{name}" for name in chosen),
            sums_over_ranks=self.sums_over_ranks,
            is_adjoint=True,
            describe=lambda _: Description(
                f"gradient of {self.name}", self.description(attrs).gradient, ""
            ),
            meaning=f"gradient of {self.name}",
            formula=self.gradient,
            source=self.source,
        )

    def output_names(self, count: int) -> tuple[str, ...]:
        """Names of the visible outputs; a variadic one numbers them."""
        if count == len(self.outputs):
            return self.outputs
        return tuple(f"y_{i + 1}" for i in range(count))

    def _trace(self, operands: Sequence[Expr], attrs: Attrs) -> Any:  # noqa: ANN401 - see Forward
        if self.variadic:
            return self.forward(*operands, **attrs)
        expressions = {str(expr.name): expr for expr in operands}
        names = [data.name for data in self.data]
        names += [own.name for own in self.own if isinstance(own, Tensor)]
        rest = {key: value for key, value in attrs.items() if key != "absent"}
        return self.forward(*(expressions.get(name) for name in names), **rest)

    def _call_adjoint(
        self, known: Sequence[Expr], floats: Sequence[Expr], attrs: Attrs
    ) -> tuple[Expr | None, ...]:
        """Call `adjoint`, and return one gradient for each declared float that is present."""
        assert self.adjoint
        code = self.adjoint.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        known_by_name: dict[str, Any] = {str(expr.name): expr for expr in known}
        gradients = self.adjoint(
            **{name: known_by_name.get(name, attrs.get(name)) for name in names}
        )
        declared = [data.name for data in self.data if data.kind != "int"]
        declared += [own.name for own in self.own if isinstance(own, Tensor)]
        by_name = dict(zip(declared, gradients, strict=True))
        return tuple(by_name[str(expr.name)] for expr in floats)


# How a use of an operator is written.


def signature(op: Op) -> str:
    """A use as the language writes it: ``x -> LN(gamma?, beta?, eps = 1e-05) : y``.

    It has brackets if the operator doesn't work without them: ``x -> mean[D, …] : y``.
    """
    data = [f"{each.name}{'?' if each.optional else ''}" for each in op.data]
    own = ", ".join(map(_spell_own, op.own))
    attached = "" if op.variadic else "".join(f"{attaching(op)}{name}" for name in data[1:])
    first = "x_1, x_2, …" if op.variadic else "".join(data[:1])
    brackets = "[D, …]" if op.needs_axes else "[x, …]" if op.brackets == "values" else ""
    node = f"{op.glyph}{brackets}" + (f"({own})" if own else "")
    chain = f"{first} -> {node}{attached}" if first else node
    return f"{chain} : {', '.join(op.outputs) or '…'}"


def attaching(op: Op) -> str:
    """The arrow that brings an operand to a node from beside the chain."""
    return "<=" if op.family == "matmul" else "<-"


def _spell_own(own: Own) -> str:
    match own:
        case Word():
            return f"{own.name} = {' | '.join(own.choices)}"
        case Number(default=float() as default):
            return f"{own.name} = {spell_number(default)}"
        case Number(optional=True) | Tensor(optional=True) | Length(optional=True):
            return f"{own.name}?"
        case _:
            return own.name


# The names that other libraries give the operators of the language, in small letters.


FOREIGN_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "•": (
        "matmul", "mm", "bmm", "dot", "einsum", "mul_mat", "inner",
        "linear", "dense", "fc", "gemm", "addmm", "affine",
    ),
    "⊕": ("add", "plus", "residual", "skip"),
    "⊙": ("mul", "multiply", "hadamard", "times"),
    "S": ("softmax",),
    "ReLU": ("relu", "rectifier"),
    "SiLU": ("swish",),
    "LN": ("layernorm", "layernormalization", "layer_norm", "norm"),
    "DO": ("dropout", "dropout1d", "dropout2d"),
    "SM": ("mask", "masked_fill", "tril", "triu"),
    "Emb": ("embedding", "embed", "embeddings", "lookup"),
    "C": ("cat", "concat", "concatenate", "hstack", "vstack", "stack", "append"),
    "T": ("transpose", "permute", "swapaxes", "moveaxis"),
    "R": ("reshape", "view", "flatten", "rearrange", "unsqueeze", "squeeze", "unflatten"),
    "BC": ("expand", "repeat", "tile", "broadcast", "broadcast_to", "repeat_interleave"),
    "CE": ("crossentropy", "crossentropyloss", "cross_entropy", "nll_loss", "nllloss", "loss"),
    "MSE": ("mseloss", "mse_loss"),
    "BCE": ("bceloss", "bcewithlogitsloss"),
    "RoPE": ("rotary", "rotaryembedding", "apply_rotary_pos_emb"),
    "conv": ("conv1d", "conv2d", "conv3d", "convolution"),
    "window": ("unfold", "im2col", "sliding_window_view"),
    "overlap": ("fold", "col2im"),
    "maxpool": ("maxpool1d", "maxpool2d", "max_pool2d"),
    "meanpool": ("avgpool", "avgpool2d", "averagepooling2d", "avg_pool2d"),
    "mean": ("globalaveragepooling2d", "adaptiveavgpool2d", "average"),
    "upsample": ("interpolate", "upsampling2d", "resize"),
    "gather": ("index_select", "take", "take_along_axis", "take_along_dim"),
    "scatter": ("index_add", "scatter_add", "segment_sum"),
    "topk": ("top_k", "argsort", "sort", "kthvalue"),
    "sinusoid": ("positionalencoding", "positional_encoding", "posenc"),
    "slice": ("narrow", "crop", "cut", "select"),
    "grad": ("autograd", "derivative", "jacobian", "vjp"),
    "stop": ("detach", "stop_gradient", "stopgradient", "no_grad", "sg"),
}  # fmt: skip

# Names of exactly one operator, which can stand in their place as they are.
SAME: Final[Mapping[str, str]] = {
    **dict.fromkeys(("softmax",), "S"),
    **dict.fromkeys(("relu", "rectifier"), "ReLU"),
    **dict.fromkeys(("layernorm", "layernormalization", "layer_norm"), "LN"),
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d"), "DO"),
    **dict.fromkeys(("matmul", "mm", "bmm", "dot"), "•"),
    **dict.fromkeys(("add", "plus"), "⊕"),
    **dict.fromkeys(("mul", "multiply", "hadamard"), "⊙"),
    **dict.fromkeys(("cat", "concat", "concatenate"), "C"),
    "swish": "SiLU",
    "embedding": "Emb",
    "rotary": "RoPE",
}


def foreign_names(glyph: str, name: str) -> Iterator[str]:
    """Yield the names by which people look for an operator; `name` is the language's own."""
    yield from dict.fromkeys((name, *FOREIGN_NAMES.get(glyph, ())))
