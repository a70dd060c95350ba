"""The numeric conventions of the functions that formulas of a file may call, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from math import e, inf, log, nan
from typing import Final

from xg.ir.op import Convention, Numbers


def _at(
    edge: str,
    rule: str,
    use: str,
    x: Numbers,
    value: Numbers,
    slope: Numbers,
    torch: str = "",
    differs: str = "",
) -> Convention:
    """The convention of a function of one `x [D]`."""
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

FUNCTIONS: Final[Mapping[str, tuple[Convention, ...]]] = {
    "abs": (
        _at("kink", "the slope at 0 is 0", "abs(x)", (-1.0, 0.0), (1.0, 0.0), (-1.0, 0.0)),
        _at("zero", "|0| is +0, so its inverse is +inf", "1 / abs(x)", (0.0, -0.0, 2.0),
            (inf, inf, 0.5), (nan, nan, -0.25), "1 / torch.abs(x)"),
    ),
    "max": (
        Convention("tie", SHARED, "max(x, z)", {"x [D]": (1.0, 2.0), "z [D]": (1.0, 1.0)},
            (1.0, 2.0), {"x": (0.5, 1.0), "z": (0.5, 0.0)}, "torch.maximum(x, z)"),
        _at("kink", "max(x, 0) and max(0, x) have slope 1/2 at 0; ReLU has 0", "max(0, x)",
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
    "sqrt": (
        _at("zero", "the slope at 0 is inf, and a negative number has no root", "sqrt(x)",
            (0.0, -1.0, 4.0), (0.0, nan, 2.0), (inf, nan, 0.25), "torch.sqrt(x)"),
    ),
    "log": (
        _at("zero", "log(0) is -inf, with slope inf, and a negative number has no logarithm",
            "log(x)", (0.0, -1.0, 2.0), (-inf, nan, log(2)), (inf, -1.0, 0.5), "torch.log(x)"),
    ),
    "exp": (
        _at("infinity", "exp overflows to inf and underflows to 0", "exp(x)",
            (1000.0, -1000.0, 1.0), (inf, 0.0, e), (inf, 0.0, e), "torch.exp(x)"),
        Convention("half type", "float16 ends at 65,504, bfloat16 at 3.4e38", "exp(x)",
            {"x [D]": (12.0, -18.0)}, (inf, 0.0), {"x": (inf, 0.0)}, "torch.exp(x)",
            dtype="float16"),
    ),
    "power": (
        _at("zero", "x^0 is 1 at 0 too, and its slope is 0", "x^0", (0.0, 2.0), (1.0, 1.0),
            (0.0, 0.0), "x**0"),
        _at("zero", "0 to a negative power is inf", "x^(-2)", (0.0, 2.0), (inf, 0.25),
            (-inf, -0.25), "x**-2"),
        _at("zero", "a negative number only has integer powers", "x^1.5", (-1.0, 0.0, 4.0),
            (nan, 0.0, 8.0), (nan, 0.0, 3.0), "x**1.5"),
        _at("zero", "x^0.5 is a root", "x^0.5", (-1.0, 0.0, 4.0), (nan, 0.0, 2.0),
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
        _at("tie", "a comparison is exact: 0 is not > 0 but >= 0, and -0 equals 0",
            "select(x >= 0, x, 0) - select(x > 0, 0, x)", (0.0, -0.0, 1.0), (0.0, 0.0, 1.0),
            (0.0, 0.0, 1.0), "torch.where(x >= 0, x, 0) - torch.where(x > 0, 0, x)"),
    ),
    "select": (
        _at("tie", "the gradient goes to the branch that was taken", "select(x > 1, x, 2*x)",
            (1.0, 2.0), (2.0, 2.0), (2.0, 1.0), "torch.where(x > 1, x, 2 * x)"),
        Convention("zero", "the other branch adds nothing, whatever its numbers are",
            "select(x > 0, 1 / x, 0)", {"x [D]": (0.0, 2.0)}, (0.0, 0.5), {"x": (0.0, -0.25)},
            "torch.where(x > 0, 1 / x, 0)",
            differs="PyTorch multiplies the gradient of the branch that was not taken by 0, and 0 "
            "times inf is NaN."),
    ),
    "equal": (
        _at("tie", "NaN equals nothing, and -0 equals 0", "select(equal(x, 0), x, 1)",
            (0.0, -0.0, nan), (0.0, 0.0, 1.0), (1.0, 1.0, 0.0), "torch.where(x == 0, x, 1)"),
    ),
    "sigmoid": (
        _at("infinity", "large numbers do not overflow", "sigmoid(x)", (1000.0, -1000.0, 0.0),
            (1.0, 0.0, 0.5), (0.0, 0.0, 0.25), "torch.sigmoid(x)"),
    ),
    "tanh": (
        _at("infinity", "large numbers do not overflow", "tanh(x)", (1000.0, -inf, 0.0),
            (1.0, -1.0, 0.0), (0.0, 0.0, 1.0), "torch.tanh(x)"),
    ),
    "erf": (
        _at("infinity", "large numbers do not overflow", "erf(x)", (1000.0, -inf, 0.0),
            (1.0, -1.0, 0.0), (0.0, 0.0, 1.1283791670955126), "torch.erf(x)"),
    ),
    "sin": (
        _at("infinity", "infinity has no angle", "sin(x)", (inf, 0.0), (nan, 0.0), (nan, 1.0),
            "torch.sin(x)"),
    ),
    "cos": (
        _at("infinity", "infinity has no angle", "cos(x)", (inf, 0.0), (nan, 1.0), (nan, 0.0),
            "torch.cos(x)"),
    ),
    "log1p": (
        _at("zero", "log1p(-1) is -inf, with slope inf, and small numbers stay exact", "log1p(x)",
            (-1.0, -2.0, 1e-20), (-inf, nan, 1e-20), (inf, -1.0, 1.0), "torch.log1p(x)"),
    ),
    "sign": (
        _at("kink", "the slope is 0 everywhere, and sign(0) is 0", "sign(x)", (-2.0, 0.0, 3.0),
            (-1.0, 0.0, 1.0), (0.0, 0.0, 0.0), "torch.sign(x)"),
        _at("infinity", "NaN has no sign", "sign(x)", (nan, -inf), (nan, -1.0), (0.0, 0.0),
            "torch.sign(x)", differs="`torch.sign` gives 0 for NaN, which hides it."),
    ),
    "floor": (
        _at("kink", "the slope is 0 everywhere", "floor(x)", (-1.5, 2.0, 2.7), (-2.0, 2.0, 2.0),
            (0.0, 0.0, 0.0), "torch.floor(x)"),
    ),
    "round": (
        _at("tie", "halves round to the even number, and the slope is 0 everywhere", "round(x)",
            (0.5, 1.5, -2.5, 2.4), (0.0, 2.0, -2.0, 2.0), (0.0,) * 4, "torch.round(x)"),
    ),
    "softplus": (
        _at("infinity", "large numbers do not overflow, and small results stay exact",
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
