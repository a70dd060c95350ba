"""For which uses of an operator a kernel is: what both tables of kernels ask."""

from __future__ import annotations

from xg.codegen.emit.dialect import Fits
from xg.ir.body import Body
from xg.ir.dim import ONE
from xg.ir.use import Attrs


def word(name: str, said: str) -> Fits:
    """Uses that say a word: ``form`` is ``tanh``."""
    return lambda attrs, body: attrs[name] == said


def one_group(attrs: Attrs, body: Body) -> bool:
    """A convolution that connects all channels."""
    return attrs["groups"] == ONE


def no_ignored(attrs: Attrs, body: Body) -> bool:
    """A loss for which every position counts."""
    return attrs.get("ignore") is None


def no_dropout(attrs: Attrs, body: Body) -> bool:
    """A use that draws nothing."""
    return attrs.get("p") is None


def rows(attrs: Attrs, body: Body) -> bool:
    """``[.., i, k] • [k, j]`` with axes in front."""
    a, b = _letters(body)
    return len(a) > 2 and len(b) == 2 and a[-1] == b[0]


def rows_of_transpose(attrs: Attrs, body: Body) -> bool:
    """``[.., i, k] • [j, k]``, the gradient of that."""
    a, b = _letters(body)
    return len(a) > 2 and len(b) == 2 and a[-1] == b[1]


def over_rows(attrs: Attrs, body: Body) -> bool:
    """``[.., k, i] • [.., k, j]`` summed over all axes but the last: the gradient of a matrix."""
    a, b = _letters(body)
    return len(a) > 2 and a[:-1] == b[:-1] and _spec(body).endswith(f"->{a[-1]}{b[-1]}")


def _letters(body: Body) -> list[str]:
    return _spec(body).split("->")[0].split(",")


def _spec(body: Body) -> str:
    (product,) = body.outputs
    return str(product.attr("spec"))


def last_axis(attrs: Attrs, body: Body) -> bool:
    """Whether a use works along the last axis of its operand."""
    return attrs.get("axis", -1) == -1
