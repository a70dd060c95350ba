"""Suggest what an unknown name likely means: a similar one, or a name that other libraries use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from xg.diagnostics.diagnostic import Fix, Problem, Span
from xg.diagnostics.terminal import CUTOFF, similar
from xg.ir.functions import FUNCTIONS
from xg.ir.op import FOREIGN_NAMES, SAME
from xg.syntax.spelling import ascii_name, greek_name


def nearest(name: str, known: Iterable[str], cutoff: float = CUTOFF) -> tuple[str, ...]:
    """A help line with the most similar known name, or none."""
    other = similar(name, known, cutoff)
    return () if other is None else (f"did you mean {other}?",)


def spelling_fixes(
    span: Span | None, name: str, known: Iterable[str], cutoff: float = CUTOFF
) -> tuple[Fix, ...]:
    """The most similar known name in place of the one at a span, or nothing."""
    if span is None or ascii_name(span.text) != name:
        return ()
    other = similar(name, known, cutoff)
    return () if other is None else (Fix.replace(span, greek_name(other)),)


class UnknownName(Problem):
    """A name that nothing has: the most similar known one may be meant, else its `fix` helps."""

    span: Span | None
    name: str
    known: tuple[str, ...]

    def helps(self) -> tuple[str, ...]:
        """The similar name, or the fix of the kind."""
        return nearest(self.name, self.known) or super().helps()

    def fixes(self) -> tuple[Fix, ...]:
        """The similar name in the place of this one."""
        return spelling_fixes(self.span, self.name, self.known)


# Names that torch, NumPy, Keras and ONNX give an operator, and how it is written here.


_WINDOWS: Final = "windows of an axis are window[S](k=3), their sum is overlap[S]"
_AXES: Final = "to move axes, use T, or a map: T[b, s, d -> b, d, s]"
_PLACES: Final = "positions of an axis are taken by gather[S]<-i, added up by scatter[S]<-i"
_LOSS: Final = "a loss is CE<-t, BCE<-t or MSE<-t"
_PARTS: Final = "parts of an axis are taken by slice[S](0, n), one position by pick[S](0)"
_POOLED: Final = (
    "windows are pooled by maxpool[H, W](k=2) and meanpool[H, W](k=2), whole axes by mean[H, W]"
)
_POSITIONS: Final = "positions are added from sinusoid(S, D) or from Emb(P)"
_CONV: Final = "a convolution is conv[H, W](K, b, pad=1), with param K [3, 3, C, D], b [D]"

_OPERATORS: Final = {  # of each, what is said where it has one of its other names
    "conv": _CONV,
    "window": _WINDOWS, "overlap": _WINDOWS,
    "LN": "a layer norm is LN, or LN(γ, β) with param γ [D] = ones, β [D] = zeros",
    "C": "tensors are joined by C: A -> C<-B : Y [B, S, D], or C[S]<-B",
    "T": _AXES,
    "R": "R makes another shape, that of the label after it: -> R : Y [B, S*D]",
    "BC": "BC repeats along new axes: BC[B](b), or -> BC : Y [B, S, D]",
    "•": "a matrix product is X -> •<=W, or X -> @<=W",
    "⊕": "a sum is X -> ⊕<-Y, or X -> +<-Y",
    "⊙": "an elementwise product is X -> ⊙<-Y, or X -> *<-Y",
    "S": "softmax is S, over the last axis, or S[T]",
    "SM": "a mask is a part of SM: SM(causal) or SM<-M; SM(1/sqrt(D_h), causal) scales, too",
    "ReLU": "a rectifier is ReLU",
    "Emb": "a table is looked up by Emb: ids -> Emb(E), with param E [V, D]",
    "gather": _PLACES, "scatter": _PLACES,
    "topk": "the largest and their places are topk(k), all of an axis in order topk[D](D)",
    "DO": "dropout is DO(p)",
    "CE": _LOSS, "MSE": _LOSS, "BCE": _LOSS,
    "SiLU": "SiLU is also called swish",
    "slice": _PARTS,
    "mean": "mean[S] or sum[S] removes an axis",
    "maxpool": _POOLED, "meanpool": _POOLED,
    "upsample": "upsample[H, W](2) repeats each position",
    "RoPE": "rotary positions are RoPE",
    "sinusoid": _POSITIONS,
    "stop": "stop ends a gradient: -> stop",
    "grad": "a gradient of one number is an edge: grad[x](loss) : dx",
}  # fmt: skip
_HINTS: Final[dict[str, tuple[str, ...]]] = {  # of names that are not one operator's alone
    "a linear layer is •<=W -> ⊕<-BC(b), with param W [D, D_ff], b [D_ff]": (
        "linear", "dense", "fc", "gemm", "addmm", "affine",
    ),
    _CONV: ("conv",),
    "a convolution is conv[S](K, b, pad=1), with param K [3, C, D], b [D]": ("conv1d",),
    "positions go round by C: (X -> slice[S](S - 1, S)), (X -> slice[S](0, S - 1)) -> C[S]": (
        "roll", "shift",
    ),
    _WINDOWS: (
        "extract_image_patches", "convtranspose1d", "convtranspose2d", "conv_transpose2d",
    ),
    "an RMS norm is an op: op rms(x [.., D]; g [D]) = x/sqrt(mean[D](x^2) + 1e-6)*g": (
        "rmsnorm", "rms_norm",
    ),
    "there is no group norm: R splits an axis into groups, LN[C] is a norm over one": (
        "groupnorm", "group_norm",
    ),
    "an instance norm is BN[H, W], over all axes but the batch's and the channels'": (
        "instancenorm", "instancenorm1d", "instancenorm2d", "instance_norm",
    ),
    "a running sum is an op of positions: op upto(x [.., S], j [T] in T) = sum[S](select("
    "j >= range[S], x, 0)), and then -> upto<-range(S)": ("cumsum", "cumulative_sum"),
    "positions go the other way round by an op: op flip(x [.., S], j [T] in T) = sum[S](select("
    "equal(range[S] + j, S - 1), x, 0)), and then -> flip<-range(S)": ("flip", "reverse"),
    "zeros at an end are joined, X -> C[S]<-fill[B, 1, D](0); windows have pad=1": (
        "pad", "zeropad", "zeropad2d", "constantpad1d",
    ),
    "rows with a single 1 are onehot: i -> onehot": ("one_hot",),
    "a hinge is an op: op hinge(x, t) = max(1 - x*t, 0), and then -> hinge<-t": (
        "hinge", "hingeloss", "hinge_loss",
    ),
    "the place of the largest is the second result: -> topk(1) : largest, place": ("argmax",),
    "a tensor of one number is fill[B, D](1)": (
        "ones", "zeros", "full", "ones_like", "zeros_like", "full_like",
    ),
    "a batch norm is BN(γ, β), or BN(γ, β, μ, v) with running statistics": (
        "batchnorm", "batchnorm1d", "batchnorm2d", "batch_norm", "batchnormalization",
    ),
    "attention is •<=KT -> SM(1/sqrt(D_h), causal) -> S -> •<=V": (
        "attention", "multiheadattention", "scaled_dot_product_attention", "sdpa", "mha",
    ),
    _AXES: ("t",),
    "the loss CE<-t takes logits; else: op ln(p) = log(p), and then -> S -> ln": (
        "log_softmax", "logsoftmax",
    ),
    "nothing is needed: an edge goes on to many nodes": ("identity", "noop", "passthrough"),
    "experts are topk(k), dispatch(N_E, N_C)<-e and combine<-slot<-g": (
        "moe", "mixtureofexperts", "route", "router", "experts", "switch",
    ),
    "random numbers are normal[B, S](1), uniform[B, S](0, 1) and bernoulli[B, S](0.5)": (
        "randn", "rand", "randn_like", "rand_like", "gaussian", "noise", "randint",
    ),
    _LOSS: ("l1loss",),
    _PARTS: ("getitem", "index"),
    "split : u [B, D], v [B, D] gives the parts of an axis, as their shapes say": ("chunk",),
    "a node that may be left out has a condition: -> LN if norm = before": ("none",),
    "a chain is its own sequence: X -> F -> G": ("sequential", "compose", "modulelist"),
    "a recurrence is a block with a state, called over an axis: -> Cell over S": (
        "lstm", "gru", "rnn", "scan", "rnncell", "lstmcell", "grucell",
    ),
    "a difference is X -> ⊕<-(Y -> scale(-1)), or an op: op minus(x, y) = x - y": (
        "sub", "subtract", "minus",
    ),
    "a quotient is an op: op over(x, y) = x / y": ("div", "divide", "truediv"),
    _POOLED: ("pool",),
    _POSITIONS: ("positionembedding", "positional_encoding"),
    "figures are drawn by the command: xg build FILE": ("render", "draw", "plot", "show", "graph"),
}  # fmt: skip
_FUNCTIONS: Final[dict[str, str]] = {  # of numbers: they stand in an operator of one's own
    **{name: f"{name}(x)" for name in (*FUNCTIONS, "abs")},
    "pow": "x^2", "square": "x^2", "neg": "-x", "rsqrt": "1/sqrt(x)", "reciprocal": "1/x",
    "clamp": "min(max(x, 0), 1)", "clip": "min(max(x, 0), 1)",
    "max": "max(x, 0)", "min": "min(x, 0)", "maximum": "max(x, y)", "minimum": "min(x, y)",
    "where": "select(x > 0, x, 0)", "logit": "log(x/(1 - x))",
    "ceil": "-floor(-x)", "trunc": "sign(x)*floor(abs(x))", "expm1": "exp(x) - 1",
}  # fmt: skip
_VARIANCE: Final = "mean[D]((x - mean[D](x))^2)"
# These do not overflow at 100, and have the right gradient at 0, where min(x, 0) has 1/2.
_BELOW: Final = "select(x > 0, 0, x)"
ACTIVATIONS: Final[dict[str, str]] = {  # and other functions of one tensor: a line each
    "relu6": "(x) = min(max(x, 0), 6)",
    **dict.fromkeys(("leakyrelu", "leaky_relu"), "(x) = select(x > 0, x, 0.01*x)"),
    "prelu": "(x; a = 0.25) = select(x > 0, x, a*x)",
    "elu": f"(x) = select(x > 0, x, exp({_BELOW}) - 1)",
    "celu": f"(x; a = 1) = select(x > 0, x, a*(exp(({_BELOW})/a) - 1))",
    "selu": f"(x) = 1.0507*select(x > 0, x, 1.67326*(exp({_BELOW}) - 1))",
    **dict.fromkeys(("logsigmoid", "log_sigmoid"), "(x) = -softplus(-x)"),
    "mish": "(x) = x*tanh(softplus(x))",
    "hardtanh": "(x) = min(max(x, -1), 1)",
    "softsign": "(x) = x/(1 + abs(x))",
    "hardsigmoid": "(x) = min(max(x + 3, 0), 6)/6",
    "hardswish": "(x) = x*min(max(x + 3, 0), 6)/6",
    "quickgelu": "(x) = x*sigmoid(1.702*x)",
    "threshold": "(x; a = 0.1) = select(x > a, x, 0)",
    **dict.fromkeys(("lse", "log_sum_exp"), "(x [.., D]) = logsumexp[D](x)"),
    **dict.fromkeys(
        ("normalize", "l2norm", "l2_norm"), "(x [.., D]) = x/sqrt(sum[D](x^2) + 1e-12)"
    ),
    **dict.fromkeys(("var", "variance"), f"(x [.., D]) = {_VARIANCE}"),
    **dict.fromkeys(("std", "stdev", "stddev"), f"(x [.., D]) = sqrt({_VARIANCE} + 1e-12)"),
}
_IN_BODIES: Final[dict[str, str]] = {  # of nodes and of axes: in a body, or in a line of a chain
    **dict.fromkeys(("s", "softmax"), "exp(x - m) / sum[D](exp(x - m)) where m = max[D](x)"),
    **dict.fromkeys(("clamp", "clip"), "max(x, 0), min(x, 1), or both: min(max(x, 0), 1)"),
    "relu": "max(x, 0)", "silu": "x * sigmoid(x)", "gelu": "x * (1 + erf(x / sqrt(2))) / 2",
    "norm": "sqrt(sum[D](x^2))", "arange": "range[D]",
    "detach": "stop(x)", "ln": "log(x)", "log2": "log(x)/log(2)", "log10": "log(x)/log(10)",
}  # fmt: skip
_PLACED: Final[dict[str, str]] = {  # functions of places, which a chain has alone
    **dict.fromkeys(("sort", "argsort"), "-> topk[S](S) : sorted, places, the largest first"),
    "topk": "-> topk[S](1) : largest, place",
    "argmin": "-> scale(-1) -> topk[S](1) : smallest, place",
    **dict.fromkeys(("cat", "concat", "concatenate", "stack"), "a, b -> C"),
    **dict.fromkeys(("gather", "take", "index_select"), "-> gather[S]<-i"),
    **dict.fromkeys(("matmul", "dot", "mm", "bmm"), "-> •<=W"),
}  # fmt: skip
FUNCTIONS_ELSEWHERE: Final = frozenset(
    ("median", "mod", "fmod", "prod", "quantile", "mode", "logaddexp", "logits", "ceil")
)  # that no operator has the value of, and that names of operators are similar to
_ARROWS: Final = {"•": "<=", "⊕": "<-", "⊙": "<-"}
_BY_NAME: Final = {
    **{name: hint for glyph, hint in _OPERATORS.items() for name in FOREIGN_NAMES[glyph]},
    **{name: hint for hint, names in _HINTS.items() for name in names},
}


def meant(name: str, behind: str = "") -> tuple[str, ...]:
    """A help line for the name that another library gives an operator, or none.

    `behind` is the text behind it, where axes and an operand may stand.
    """
    last = name.rpartition(".")[2]
    plain = last.lower()
    if plain in ACTIVATIONS:
        return (f"it is an op of your own: op {last}{ACTIVATIONS[plain]}, and then -> {last}",)
    formula = _FUNCTIONS.get(plain)
    if formula is None:
        return (_BY_NAME[plain],) if plain in _BY_NAME else ()
    axes, other = re.findall(r"^(?:\[([\w, ]+)\])?(?:<-(\w+))?", behind)[0]
    if plain in ("max", "min") and axes:
        return (f"it goes in an op: op f(x [.., {axes}]) = {plain}[{axes}](x), and then -> f",)
    if plain in ("max", "min") and other:
        formula = f"{plain}(x, y)"
    if "y" in formula:
        return (f"it goes in an op: op f(x, y) = {formula}, and then -> f<-{other or 'z'}",)
    each = f"it goes in an op: op f(x) = {formula}, and then -> f"
    over = f"over an axis: op f(x [.., D]) = {plain}[D](x), and then -> f"
    return (each, over) if plain in ("max", "min") else (each,)


def in_a_body(name: str) -> str:
    """The formula that has the value of a function that bodies do not know, "" if none is known."""
    plain = name.lower()
    line = ACTIVATIONS.get(plain, "").partition(" = ")[2]
    return line or _IN_BODIES.get(plain) or _FUNCTIONS.get(plain, "")


def in_a_chain(name: str) -> tuple[str, ...]:
    """A help line for a function that is a node of chains and none of bodies, or none."""
    node = _PLACED.get(name.lower())
    return (f"it is a node of a chain, before or after the op: {node}",) if node else ()


def in_place(span: Span, name: str) -> tuple[Fix, ...]:
    """The operator of the language in place of another name of it, where the rest can stay.

    A second operand comes by the arrow of the operator: `matmul<-W` and `matmul(W)` are `•<=W`.
    Softmax and activations take nothing in parentheses.
    """
    glyph = SAME.get(name.lower())
    if glyph is None:
        return ()
    behind = span.source.text[span.end :]
    text = glyph
    taken = 0
    if glyph in _ARROWS:
        operand = re.match(r"<[-=]|\((\w+)\)", behind)
        if operand is None:
            return ()
        text, taken = glyph + _ARROWS[glyph] + (operand[1] or ""), operand.end()
    elif behind.startswith("(") and glyph not in ("LN", "DO", "Emb"):
        empty = re.match(r"\(\s*\)", behind)
        if empty is None:
            return ()
        taken = empty.end()
    return (Fix.replace(Span(span.source, span.start, span.end + taken), text),)


_SOURCES: Final = {  # of each, its name here and its numbers
    **dict.fromkeys(("normal", "randn", "noise"), ("normal", "1")),
    **dict.fromkeys(("uniform", "rand"), ("uniform", "0, 1")),
    **dict.fromkeys(("fill", "zeros"), ("fill", "0")),
    "ones": ("fill", "1"),
    "bernoulli": ("bernoulli", "0.5"),
}
_BEHIND: Final = re.compile(r" *(?:: *(\w+) *(\[[^\[\]\n]{1,200}\])?|(->))")


def filled(span: Span) -> str:
    """Rewrite `normal : e [B, D]` as a source with its axes in brackets, or return ""."""
    text = span.source.text
    behind, name = _BEHIND.match(text, span.end), span.text
    line = text[text.rfind("\n", 0, span.start) + 1 : span.start]
    if name not in _SOURCES or behind is None or line.strip():
        return ""
    block = text[text.rfind("\nblock", 0, span.start) + 1 : span.start]
    port = re.search(r"\[[^\[\]\n]{1,200}\]", block)
    axes = behind[2] or (port[0] if port else "[B, D]")
    source, numbers = _SOURCES[name]
    rest = "-> …" if behind[3] else f": {behind[1]}"
    return f"{source}{axes}({numbers}) {rest}"
