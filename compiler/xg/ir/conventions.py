"""Numeric conventions: what an operator gives at an edge, where mathematics leaves a choice.

Operators and functions carry their conventions as data. Tests run each one in every backend and
compare it with torch, `docs/conventions.md` prints them all, and `xg ops NAME` those of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import inf, log, nan
from typing import Any, Final, Literal

from xg.diagnostics.lazy_dataclass import dataclass, field

Edge = Literal[
    "tie",
    "kink",
    "zero",
    "infinity",
    "empty axis",
    "axis of length 1",
    "index outside",
    "half type",
    "integer",
]
Floats = Literal["float64", "float16", "bfloat16"]
Numbers = Any  # a number, or a tuple of Numbers

_LABEL: Final = re.compile(r"(?P<name>\w+) \[(?P<shape>[^]]*)\](?: in (?P<range>.+))?")


@dataclass(frozen=True, slots=True)
class Convention:
    """The value and the gradient of a small program at an edge.

    `rule` says in a sentence what holds. `use` is a formula (``abs(x)``) or a chain of a block
    (``x -> ReLU``), `inputs` and `params` are its arrays by their labels (``x [D]``,
    ``i [K] in 3``), `result` is the label of its value. `gradient` has a row for each float array
    that has one, for the `cotangent`, which is 1 everywhere unless it says otherwise.

    `torch` is the same in torch, as an expression of the inputs; an empty one says that torch has
    no such operator. `differs` says why xg does not do as torch does, and is empty where it does.
    `refused` is a part of the error for inputs that xg refuses, which then have no value. `others`
    are values of forms that differ: under ``jax jit`` no number can be refused.
    """

    edge: Edge
    rule: str
    use: str
    inputs: Mapping[str, Numbers]
    value: Numbers = None
    gradient: Mapping[str, Numbers] = field(default_factory=dict[str, Numbers])
    torch: str = ""
    result: str = ""
    params: Mapping[str, Numbers] = field(default_factory=dict[str, Numbers])
    cotangent: Numbers = None
    differs: str = ""
    refused: str = ""
    others: Mapping[str, Numbers] = field(default_factory=dict[str, Numbers])
    dtype: Floats = "float64"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""
        return tuple(name_of(label) for label in self.inputs)

    @property
    def is_formula(self) -> bool:
        """Whether `use` is the formula of an operator of a file, not a chain."""
        return "->" not in self.use

    @property
    def text(self) -> str:
        """The whole program: one block N with the result y."""
        labels = ", ".join(self.inputs)
        result = self.result or "y" + next(iter(self.inputs)).removeprefix(self.names[0])
        sizes = sorted(set(self._symbols([*self.inputs, *self.params, result])))
        lines = [f"dim {', '.join(sizes)}"] if sizes else []
        made = name_of(result)
        chain = self.use if f": {made}," in self.use else f"{self.use} : {made}"
        if self.is_formula:
            lines.append(f"op F({labels}) = {self.use}")
            first, *others = self.names
            chain = " -> ".join([first, "<-".join(["F", *others])]) + f" : {made}"
        lines.append(f"block N({labels}) -> {result} {{")
        lines += [f"    param {label}" for label in self.params]
        lines += [*(f"    {line}" for line in chain.splitlines()), "}"]
        return "\n".join(lines) + "\n"

    @staticmethod
    def _symbols(labels: list[str]) -> Iterator[str]:
        for label in labels:
            parts = _parts(label)
            yield from re.findall(r"[A-Za-z]\w*", f"{parts['shape']} {parts['range'] or ''}")


def name_of(label: str) -> str:
    """The name in a label: ``x`` of ``x [B, D]``."""
    return str(_parts(label)["name"])


def _parts(label: str) -> dict[str, Any]:
    found = _LABEL.fullmatch(label)
    assert found, label
    return found.groupdict()


def at(
    edge: str,
    rule: str,
    use: str,
    x: Numbers,
    value: Numbers,
    slope: Numbers,
    torch: str = "",
    differs: str = "",
) -> Convention:
    """Return the convention of a function of one `x [D]`."""
    return Convention(
        edge=edge,  # pyright: ignore[reportArgumentType] # one of Edge, which Convention names
        rule=rule,
        use=use,
        inputs={"x [D]": x},
        value=value,
        gradient={"x": slope},
        torch=torch or use,
        differs=differs,
    )


SHARED: Final = "two equal arguments take half of the gradient each, so their order does not matter"
MEANT: Final = "A formula is computed as it is written"

# Of what formulas of a file may call or write, but for the functions of `xg.ir.functions`.
FORMULAS: Final[Mapping[str, tuple[Convention, ...]]] = {
    "abs": (
        at("kink", "the slope at 0 is 0", "abs(x)", (-1.0, 0.0), (1.0, 0.0), (-1.0, 0.0)),
        at("zero", "|0| is +0, so its inverse is +inf", "1 / abs(x)", (0.0, -0.0, 2.0),
            (inf, inf, 0.5), (nan, nan, -0.25), "1 / torch.abs(x)"),
    ),
    "max": (
        Convention("tie", SHARED, "max(x, z)", {"x [D]": (1.0, 2.0), "z [D]": (1.0, 1.0)},
            (1.0, 2.0), {"x": (0.5, 1.0), "z": (0.5, 0.0)}, "torch.maximum(x, z)"),
        at("kink", "max(x, 0) and max(0, x) have slope 1/2 at 0; ReLU has 0", "max(0, x)",
            (0.0, -1.0, 1.0), (0.0, 0.0, 1.0), (0.5, 0.0, 1.0),
            "torch.maximum(torch.zeros_like(x), x)"),
    ),
    "min": (
        Convention("tie", SHARED, "min(x, z)", {"x [D]": (1.0, 2.0), "z [D]": (1.0, 1.0)},
            (1.0, 1.0), {"x": (0.5, 0.0), "z": (0.5, 1.0)}, "torch.minimum(x, z)"),
        Convention("kink", "a clamp has slope 1/2 at its bounds", "min(max(x, -1), 1)",
            {"x [D]": (-1.0, 0.0, 1.0)}, (-1.0, 0.0, 1.0), {"x": (0.5, 1.0, 0.5)},
            "torch.clamp(x, -1, 1)",
            differs="xg has no clamp. Its max and min share a tie, as `torch.maximum` and "
            "`torch.minimum` do; `torch.clamp` has slope 1 at its bounds. For that slope, write "
            "`select(x > 1, 1, select(-1 > x, -1, x))`."),
    ),
    "max[D]": (
        Convention("tie", "equal maxima share the gradient", "max[D](x)",
            {"x [D]": (3.0, 1.0, 3.0)}, 3.0, {"x": (0.5, 0.0, 0.5)}, "x.amax(-1)", "y []"),
        Convention("half type", "65,536 equal numbers share it too: their count does not overflow",
            "max[D](x)", {"x [D]": (1.0,) * 65536}, 1.0, {"x": (2.0**-16,) * 65536}, "",
            "y []", dtype="float16"),
        Convention("empty axis", "an empty axis has no maximum", "max[D](x)",
            {"x [D]": ()}, torch="x.amax(-1)", result="y []", refused="at least one position"),
    ),
    "min[D]": (
        Convention("tie", "equal minima share the gradient", "min[D](x)",
            {"x [D]": (1.0, 3.0, 1.0)}, 1.0, {"x": (0.5, 0.0, 0.5)}, "x.amin(-1)", "y []"),
        Convention("empty axis", "an empty axis has no minimum", "min[D](x)",
            {"x [D]": ()}, torch="x.amin(-1)", result="y []", refused="at least one position"),
    ),
    "sum[D]": (
        Convention("empty axis", "the sum of no numbers is 0", "sum[D](x)", {"x [D]": ()},
            0.0, {"x": ()}, "x.sum(-1)", "y []"),
        Convention("infinity", "the logarithm of a sum of exponentials overflows if it is written "
            "out; shift by the maximum first", "log(sum[D](exp(x)))", {"x [D]": (1000.0, 0.0)},
            inf, {"x": (nan, 0.0)}, "torch.log(torch.exp(x).sum(-1))", "y []"),
        Convention("infinity", "a shifted row of -inf is NaN",
            "max[D](x) + log(sum[D](exp(x - max[D](x))))", {"x [D]": (-inf, -inf)}, nan,
            {"x": (nan, nan)}, "torch.logsumexp(x, -1)", "y []",
            differs=f"{MEANT}, and -inf minus -inf is NaN; `torch.logsumexp` gives -inf."),
        Convention("zero", "the norm of a zero vector has no slope", "sqrt(sum[D](x^2))",
            {"x [D]": (0.0, 0.0)}, 0.0, {"x": (nan, nan)}, "torch.linalg.vector_norm(x)", "y []",
            differs=f"{MEANT}, and 0 times inf is NaN, as for `torch.sqrt`; PyTorch's norm gives "
            "0. Add a small number below the root."),
    ),
    "mean[D]": (
        Convention("empty axis", "the mean of no numbers is NaN", "mean[D](x)", {"x [D]": ()},
            nan, {"x": ()}, "x.mean(-1)", "y []"),
        Convention("axis of length 1", "the variance of one number is 0, as without Bessel's "
            "correction", "mean[D]((x - mean[D](x))^2)", {"x [D]": (3.0,)}, 0.0, {"x": (0.0,)},
            "x.var(-1, correction=0)", "y []"),
        Convention("axis of length 1", "the standard deviation of equal numbers has no slope",
            "sqrt(mean[D]((x - mean[D](x))^2))", {"x [D]": (3.0,)}, 0.0, {"x": (nan,)},
            "x.std(-1, correction=0)", "y []",
            differs=f"{MEANT}, and 0 times inf is NaN; `torch.std` gives 0. Add a small number "
            "below the root, as LN does."),
        Convention("half type", "the mean adds in float32", "mean[D](x)",
            {"x [D]": (30000.0,) * 4}, 30000.0, {"x": (0.25,) * 4}, "x.mean(-1)", "y []",
            dtype="float16"),
    ),
    "power": (
        at("zero", "x^0 is 1 at 0 too, and its slope is 0", "x^0", (0.0, 2.0), (1.0, 1.0),
            (0.0, 0.0), "x**0"),
        at("zero", "0 to a negative power is inf", "x^(-2)", (0.0, 2.0), (inf, 0.25),
            (-inf, -0.25), "x**-2"),
        at("zero", "a negative number only has integer powers", "x^1.5", (-1.0, 0.0, 4.0),
            (nan, 0.0, 8.0), (nan, 0.0, 3.0), "x**1.5"),
        at("zero", "x^0.5 is a root", "x^0.5", (-1.0, 0.0, 4.0), (nan, 0.0, 2.0),
            (nan, inf, 0.25), "x**0.5"),
        Convention("infinity", "-inf has no root, but JAX gives inf", "x^0.5",
            {"x [D]": (-inf, inf)}, (nan, inf), {}, "x**0.5",
            others=dict.fromkeys(("jax", "jax jit"), (inf, inf))),
    ),
    "division": (
        Convention("zero", "0/0 is NaN, anything else over 0 is infinite", "x / z",
            {"x [D]": (0.0, 1.0, -1.0), "z [D]": (0.0, 0.0, 0.0)}, (nan, inf, -inf),
            {"x": (inf, inf, inf), "z": (nan, -inf, inf)}, "x / z"),
        Convention("infinity", "inf/inf is NaN", "x / z",
            {"x [D]": (inf, 1.0), "z [D]": (inf, inf)}, (nan, 0.0),
            {"x": (0.0, 0.0), "z": (nan, 0.0)}, "x / z"),
        Convention("integer", "integers divide as floats", "x * (i / j)",
            {"x [D]": (1.0, 1.0, 1.0), "i [D] in 8": (7, 1, 0), "j [D] in 8": (2, 0, 0)},
            (3.5, inf, nan), {"x": (3.5, inf, nan)}, "x * (i / j)"),
        Convention("half type", "a size above 65,504, the largest float16, divides one exactly",
            "max[D](x) / D", {"x [D]": (4096.0,) * 65536}, 0.0625, {}, "x.amax() / len(x)", "y []",
            dtype="float16"),
    ),
    "product": (
        Convention("infinity", "0 times inf is NaN, in the value and in the gradient", "x * z",
            {"x [D]": (0.0, 2.0), "z [D]": (inf, 0.0)}, (nan, 0.0),
            {"x": (inf, 0.0), "z": (0.0, 2.0)}, "x * z"),
        Convention("integer", "integers stay exact: no narrow type wraps", "x * (i - 1)",
            {"x [D]": (1.0, 2.0), "i [D] in 3": (0, 2)}, (-1.0, 2.0), {"x": (-1.0, 1.0)},
            "x * (i - 1)"),
    ),
    "comparison": (
        at("tie", "a comparison is exact: 0 is not > 0 but >= 0, and -0 equals 0",
            "select(x >= 0, x, 0) - select(x > 0, 0, x)", (0.0, -0.0, 1.0), (0.0, 0.0, 1.0),
            (0.0, 0.0, 1.0), "torch.where(x >= 0, x, 0) - torch.where(x > 0, 0, x)"),
    ),
    "select": (
        at("tie", "the gradient goes to the branch that was taken", "select(x > 1, x, 2*x)",
            (1.0, 2.0), (2.0, 2.0), (2.0, 1.0), "torch.where(x > 1, x, 2 * x)"),
        Convention("zero", "the other branch adds nothing, whatever its numbers are",
            "select(x > 0, 1 / x, 0)", {"x [D]": (0.0, 2.0)}, (0.0, 0.5), {"x": (0.0, -0.25)},
            "torch.where(x > 0, 1 / x, 0)",
            differs="PyTorch multiplies the gradient of the branch that was not taken by 0, and 0 "
            "times inf is NaN."),
    ),
    "equal": (
        at("tie", "NaN equals nothing, and -0 equals 0", "select(equal(x, 0), x, 1)",
            (0.0, -0.0, nan), (0.0, 0.0, 1.0), (1.0, 1.0, 0.0), "torch.where(x == 0, x, 1)"),
    ),
    "sigmoid": (
        at("infinity", "large numbers do not overflow", "sigmoid(x)", (1000.0, -1000.0, 0.0),
            (1.0, 0.0, 0.5), (0.0, 0.0, 0.25), "torch.sigmoid(x)"),
    ),
    "softplus": (
        at("infinity", "large numbers do not overflow, and small results stay exact",
            "softplus(x)", (1000.0, -1000.0, 0.0), (1000.0, 0.0, log(2)), (1.0, 0.0, 0.5),
            "F.softplus(x)"),
    ),
    "logsumexp[D]": (
        Convention("infinity", "numbers of 1,000 do not overflow, and equal ones share the "
            "gradient", "logsumexp[D](x)", {"x [D]": (1000.0, 1000.0, -inf)}, 1000.0 + log(2),
            {"x": (0.5, 0.5, 0.0)}, "torch.logsumexp(x, -1)", "y []"),
    ),
    "argmax[D]": (
        Convention("tie", "ties go to the first element; places have no gradient",
            "x * argmax[D](x)", {"x [D]": (1.0, 3.0, 3.0)}, (1.0, 3.0, 3.0),
            {"x": (1.0, 1.0, 1.0)}, "x * x.argmax(-1)"),
    ),
    "cumsum[D]": (
        Convention("empty axis", "an empty axis gives an empty result", "cumsum[D](x)",
            {"x [D]": ()}, (), {"x": ()}, "x.cumsum(-1)"),
        Convention("half type", "sums are computed in float32, and rounded once",
            "mean[D](cumsum[D](x))", {"x [D]": (2.0,) * 4096}, 4097.0, {},
            "x.cumsum(-1).mean()", "y []", dtype="float16"),
    ),
    "range[D]": (
        Convention("empty axis", "an empty axis gives an empty result", "x * range[D]()",
            {"x [D]": ()}, (), {"x": ()}, "x * torch.arange(0)"),
    ),
}  # fmt: skip
