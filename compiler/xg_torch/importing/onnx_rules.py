"""The operators of ONNX in torch: each as the call that `rules` read from a traced model."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from xg_torch.importing.archive import Array
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.onnx_model import OnnxNode, unround

if TYPE_CHECKING:
    from torch import Tensor


# One call of an ONNX operator: its operands as tensors of torch, or as numbers that are known.


# Sizes and constants are NumPy's, of objects where a size is free; everything else is a tensor.
Value: TypeAlias = "Tensor | Array"
ENDLESS: Final = 2**31 - 1  # a slice that ends here or beyond has no end


class OnnxCall:
    """A node with its operands; `producers` are the nodes that made them."""

    def __init__(
        self, node: OnnxNode, args: Sequence[Value | None], producers: Sequence[OnnxNode | None]
    ) -> None:
        self.node, self.args, self.producers = node, args, producers
        self.read: set[str] = set()

    def has(self, place: int) -> bool:
        """Whether an operand is there."""
        return place < len(self.args) and self.args[place] is not None

    def known(self, *places: int) -> bool:
        """Whether operands are sizes or constants."""
        return all(isinstance(self.args[place], np.ndarray) for place in places)

    def x(self, place: int) -> Tensor:
        """An operand as a tensor."""
        if not self.has(place):
            raise Unspeakable(f"its operand {place + 1} is missing")
        return as_tensor(self.args[place])

    def number_or_x(self, place: int) -> Any:  # noqa: ANN401 - a number or a tensor
        """An operand as a plain number if it is one, else as a tensor."""
        value = self.args[place]
        others = [each for each in self.args if each is not value and each is not None]
        least = min((each.ndim for each in others), default=0)
        if isinstance(value, np.ndarray) and value.size == 1 and value.ndim <= least:
            return plain(value)
        return self.x(place)

    def host(self, place: int) -> Array:
        """An operand that must be known without running the model."""
        value = self.args[place] if self.has(place) else None
        if not isinstance(value, np.ndarray):
            raise Unspeakable("its sizes or axes depend on the numbers of an input")
        return value

    def ints(self, place: int) -> list[Any]:
        """Sizes or axes; free ones are torch's symbols."""
        return [each if _is_symbol(each) else int(each) for each in self.host(place).reshape(-1)]

    def attribute(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - of any kind
        """An attribute of the node."""
        self.read.add(name)
        return self.node.attributes.get(name, default)

    def axes(self, place: int) -> list[int] | None:
        """Axes as an operand, or in older operator sets as an attribute; None where left out."""
        noted = self.attribute("axes")
        if noted is not None:
            return [int(each) for each in noted]
        return self.ints(place) if self.has(place) else None

    def expect(self, name: str, *allowed: object) -> None:
        """Refuse a node whose attribute is other than the language can say; raises Unspeakable."""
        found = self.attribute(name, allowed[0])
        if found not in allowed:
            raise Unspeakable(f"its {name} is {found}")

    def one_output(self) -> None:
        """Refuse further results; raises Unspeakable."""
        if len([name for name in self.node.outputs if name]) > 1:
            raise Unspeakable("more than its first result is used")


def as_tensor(value: Value | None) -> Tensor:
    """A tensor; raises Unspeakable for a free size, which is no number of the model."""
    if not isinstance(value, np.ndarray):
        assert value is not None
        return value
    if value.dtype == object:
        if any(_is_symbol(each) for each in value.reshape(-1)):
            raise Unspeakable("it computes with a free size as with a number")
        value = value.astype(np.int64)
    return torch.tensor(value)


def plain(value: Array) -> Any:  # noqa: ANN401 - a number of Python, or a size
    """The one number of an array; one that was rounded to float32 as it was before."""
    (item,) = value.reshape(-1)
    if value.dtype == np.float32:
        return unround(float(item))
    return item.item() if isinstance(item, np.generic) else item


def _is_symbol(value: object) -> bool:
    return not isinstance(value, int | float | np.generic)


# Layouts, sizes and positions of ONNX in torch; what depends on sizes alone is computed here.


Result = Any  # a tensor, an array of what is known, or a tuple of them
Rule = Callable[[OnnxCall], Result]


def _constant_of_shape(call: OnnxCall) -> Result:
    value = call.attribute("value")
    from onnx import numpy_helper

    filled = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    shape = call.ints(0)
    if all(isinstance(each, int) for each in shape) and filled.dtype.kind in "iu":
        return np.full(shape, filled.reshape(-1)[0])
    return torch.full(shape, filled.reshape(-1)[0].item(), dtype=torch.tensor(filled).dtype)


def _shape(call: OnnxCall) -> Result:
    given = call.args[0]
    assert given is not None
    sizes = list(given.shape)[call.attribute("start", 0) : call.attribute("end")]
    return _objects(sizes)


def _objects(items: list[Any]) -> Any:  # noqa: ANN401 - an array of sizes
    array = np.empty(len(items), object)
    array[:] = items
    return array if any(not isinstance(each, int) for each in items) else array.astype(np.int64)


def _gather(call: OnnxCall) -> Result:
    axis = call.attribute("axis", 0)
    if call.known(0, 1):
        return np.asarray(np.take(call.host(0), call.host(1).astype(np.int64), axis))
    data = call.x(0)
    axis %= data.ndim
    if call.known(1):
        indices = call.host(1).astype(np.int64)
        if indices.ndim == 0:
            return data.select(axis, int(indices))
        length = data.shape[axis]
        first = int(indices.reshape(-1)[0]) if indices.size else 0
        if indices.ndim == 1 and np.array_equal(indices, first + np.arange(len(indices))):
            if first < 0:
                first += length
            return data.narrow(axis, first, len(indices))
    if data.ndim == 2 and axis == 0 and not call.known(0):
        return F.embedding(call.x(1), data)
    raise Unspeakable("it gathers other than rows of a matrix, or positions in a row")


def _reshape(call: OnnxCall) -> Result:
    shape, zero = call.ints(1), call.attribute("allowzero", 0)
    if call.known(0):
        return call.host(0).reshape([int(each) for each in shape])
    x = call.x(0)
    if not zero:
        shape = [x.shape[i] if _is(each, 0) else each for i, each in enumerate(shape)]
    return x.reshape(shape)


def _is(size: object, number: int) -> bool:
    return isinstance(size, int) and size == number


def _squeeze(call: OnnxCall) -> Result:
    axes = call.axes(1)
    if call.known(0):
        return np.squeeze(call.host(0), None if axes is None else tuple(axes))
    x = call.x(0)
    axes = [i for i, n in enumerate(x.shape) if _is(n, 1)] if axes is None else axes
    for axis in sorted((each % x.ndim for each in axes), reverse=True):
        x = x.squeeze(axis)
    return x


def _unsqueeze(call: OnnxCall) -> Result:
    axes = call.axes(1) or []
    if call.known(0):
        return np.expand_dims(call.host(0), tuple(axes))
    x = call.x(0)
    for axis in sorted(each % (x.ndim + len(axes)) for each in axes):
        x = x.unsqueeze(axis)
    return x


def _transpose(call: OnnxCall) -> Result:
    perm = call.attribute("perm")
    if call.known(0):
        return np.transpose(call.host(0), perm)
    x = call.x(0)
    return x.permute(list(range(x.ndim))[::-1] if perm is None else perm)


def _concat(call: OnnxCall) -> Result:
    axis = call.attribute("axis")
    if call.known(*range(len(call.args))):
        return np.concatenate([call.host(i) for i in range(len(call.args))], axis)
    return torch.cat([call.x(i) for i in range(len(call.args))], axis)


def _slice(call: OnnxCall) -> Result:
    starts, ends = call.ints(1), call.ints(2)
    rank = np.ndim(call.host(0)) if call.known(0) else call.x(0).ndim
    axes = call.ints(3) if call.has(3) else list(range(len(starts)))
    steps = call.ints(4) if call.has(4) else [1] * len(starts)
    if any(not isinstance(step, int) or step < 1 for step in steps):
        raise Unspeakable("it takes positions from behind")
    cut: list[slice] = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        stop = None if isinstance(end, int) and end >= ENDLESS else end
        cut[axis] = slice(start, stop, step)
    return call.host(0)[tuple(cut)] if call.known(0) else call.x(0)[tuple(cut)]


def _split(call: OnnxCall) -> Result:
    x, axis = call.x(0), call.attribute("axis", 0)
    lengths = call.ints(1) if call.has(1) else None
    if lengths is None:
        count = call.attribute("num_outputs", len(call.node.outputs))
        each = -(-x.shape[axis] // count)
        return tuple(torch.split(x, each, axis))
    return tuple(torch.split(x, lengths, axis))


def _expand(call: OnnxCall) -> Result:
    shape = call.ints(1)
    x = call.x(0)
    own = [1] * (len(shape) - x.ndim) + list(x.shape)
    shape = [1] * (len(own) - len(shape)) + shape
    return x.expand([mine if _is(its, 1) else its for mine, its in zip(own, shape, strict=True)])


def _range(call: OnnxCall) -> Result:
    start, stop, step = (call.host(i).reshape(-1)[0] for i in range(3))
    ends = [each.item() if isinstance(each, np.generic) else each for each in (start, stop, step)]
    return torch.arange(*ends)


def _trilu(call: OnnxCall) -> Result:
    diagonal = call.ints(1)[0] if call.has(1) else 0
    upper = call.attribute("upper", 1)
    return (torch.triu if upper else torch.tril)(call.x(0), diagonal)


def _flatten(call: OnnxCall) -> Result:
    x = call.x(0)
    axis = call.attribute("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _size(call: OnnxCall) -> Result:
    given = call.args[0]
    assert given is not None
    return np.asarray(math.prod(given.shape), dtype=object)


# Windows of ONNX in torch: convolution, pooling, and repeated positions.


def _padding(call: OnnxCall, count: int) -> list[int]:
    """The zeros at both ends of each axis; raises Unspeakable where the ends differ."""
    word = call.attribute("auto_pad", "NOTSET")
    if word == "VALID":
        return [0] * count
    if word != "NOTSET":
        raise Unspeakable(f"its padding follows from its input (auto_pad={word})")
    pads = call.attribute("pads", [0] * 2 * count)
    if pads[:count] != pads[count:]:
        raise Unspeakable("its padding is not the same at both ends of an axis")
    return pads[:count]


def convolution(call: OnnxCall) -> Result:
    """A convolution along one axis, two or three."""
    x, kernel = call.x(0), call.x(1)
    count = kernel.ndim - 2
    if count not in (1, 2, 3):
        raise Unspeakable(f"it is a convolution along {count} axes")
    call.attribute("kernel_shape")
    return (F.conv1d, F.conv2d, F.conv3d)[count - 1](
        x,
        kernel,
        call.x(2) if call.has(2) else None,
        call.attribute("strides", [1] * count),
        _padding(call, count),
        call.attribute("dilations", [1] * count),
        call.attribute("group", 1),
    )


def _pool(
    call: OnnxCall,
    functions: Sequence[Callable[..., Any]],
    *more: Any,  # noqa: ANN401 - as torch's functions have it
    **named: Any,  # noqa: ANN401
) -> Result:
    """Windows along one axis or two; `more` follows the padding of torch's function."""
    k = call.attribute("kernel_shape")
    if len(k) not in (1, 2):
        raise Unspeakable(f"it pools along {len(k)} axes")
    strides, padding = call.attribute("strides", [1] * len(k)), _padding(call, len(k))
    ceil = bool(call.attribute("ceil_mode", 0))
    function = functions[len(k) - 1]
    return function(call.x(0), k, strides, padding, *more, ceil_mode=ceil, **named)


def max_pool(call: OnnxCall) -> Result:
    """The largest of each window."""
    call.one_output()
    call.attribute("storage_order")
    dilations = call.attribute("dilations", 1)
    return _pool(call, (F.max_pool1d, F.max_pool2d), dilations)


def average_pool(call: OnnxCall) -> Result:
    """The mean of each window."""
    if set(call.attribute("dilations", [1])) != {1}:
        raise Unspeakable(f"its dilations is {call.attribute('dilations')}")
    padded = bool(call.attribute("count_include_pad", 0))
    return _pool(call, (F.avg_pool1d, F.avg_pool2d), count_include_pad=padded)


def resize(call: OnnxCall) -> Result:
    """Each position repeated as often as a number says."""
    call.expect("mode", "nearest")
    call.expect("coordinate_transformation_mode", "asymmetric", "half_pixel")
    call.attribute("nearest_mode")
    for name in ("antialias", "axes", "keep_aspect_ratio_policy"):
        if call.attribute(name):
            raise Unspeakable(f"its {name} is {call.attribute(name)}")
    for name in ("cubic_coeff_a", "exclude_outside", "extrapolation_value"):
        call.attribute(name)
    x = call.x(0)
    if not call.has(2) or not call.host(2).size:
        raise Unspeakable("it is resized to a size, not by a number")
    scales = call.host(2)
    times = [int(each) for each in scales]
    if x.ndim not in (3, 4) or not np.array_equal(times, scales) or times[:2] != [1, 1]:
        raise Unspeakable("it does not repeat each position a whole number of times")
    return F.interpolate(x, scale_factor=[float(each) for each in times[2:]], mode="nearest")


def _binary(compute: Callable[[Any, Any], Any] | None, own: Callable[[Any, Any], Any]) -> Rule:
    """Two operands: sizes are computed here, tensors by torch, or not without `compute`."""

    def rule(call: OnnxCall) -> Result:
        if call.known(0, 1):
            return np.asarray(own(call.host(0), call.host(1)))
        if compute is None:
            raise Unspeakable("it computes with more than sizes")
        a, b = call.number_or_x(0), call.number_or_x(1)
        if not isinstance(a, torch.Tensor):
            a = torch.full((), a, dtype=b.dtype)
        return compute(a, b)

    return rule


def _unary(compute: Callable[[Any], Any], own: Callable[[Any], Any] | None = None) -> Rule:
    def rule(call: OnnxCall) -> Result:
        if own is not None and call.known(0) and call.host(0).dtype != object:
            return np.asarray(own(call.host(0)))
        return compute(call.x(0))

    return rule


def _quotient(a: Any, b: Any) -> Any:  # noqa: ANN401 - arrays of sizes or of numbers
    whole = all(np.asarray(each).dtype.kind in "iuO" for each in (a, b))
    return a // b if whole else a / b


def _modulo(call: OnnxCall) -> Result:
    call.attribute("fmod")
    return _binary(None, np.mod)(call)


def _divide(a: Any, b: Any) -> Any:  # noqa: ANN401 - tensors and numbers
    if not a.is_floating_point():
        raise Unspeakable("it divides integers")
    return a / b


def _cast(call: OnnxCall) -> Result:
    from onnx import helper

    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(call.attribute("to")))
    call.attribute("saturate")
    if dtype.kind not in "fiub":
        raise Unspeakable(f"it casts to {dtype}")
    if call.known(0):
        array = call.host(0)
        return array if array.dtype == object and dtype.kind in "iu" else array.astype(dtype)
    x = call.x(0)
    kind = torch.from_numpy(np.zeros(0, dtype)).dtype
    if x.is_floating_point() and dtype.kind in "iu":
        raise Unspeakable("it rounds numbers to integers")
    return x.to(kind)


def _where(call: OnnxCall) -> Result:
    if call.known(0, 1, 2):
        return np.where(call.host(0), call.host(1), call.host(2))
    asked, source = call.producers[0], call.producers[2]
    if (
        asked is not None
        and source is not None
        and (asked.operator, source.operator) == ("IsNaN", "Softmax")
        and asked.inputs[0] == call.node.inputs[2]
        and call.known(1)
        and not np.any(call.host(1))
    ):
        return call.x(2)  # a row that is wholly masked: the language gives zeros by itself
    return torch.where(call.x(0), call.x(1), call.x(2))


def _product(call: OnnxCall) -> Result:
    """A product; a third operand is the number that both others were multiplied by."""
    product = torch.matmul(call.x(0), call.x(1))
    return product * plain(call.host(2)) if len(call.args) > 2 else product


def _gemm(call: OnnxCall) -> Result:
    a, b = call.x(0), call.x(1)
    if call.attribute("transA", 0):
        a = a.t()
    turned = call.attribute("transB", 0)
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    bias = call.x(2) if call.has(2) else None
    vector = bias is not None and bias.ndim == 1 and bias.shape[0] == b.shape[0 if turned else 1]
    if alpha == 1 and beta == 1 and (bias is None or vector):
        if turned:
            return F.linear(a, b, bias)
        return torch.matmul(a, b) if bias is None else torch.matmul(a, b) + bias
    product = torch.matmul(a, b.t() if turned else b)
    product = product if alpha == 1 else product * alpha
    if bias is None or beta == 0:
        return product
    return product + (bias if beta == 1 else bias * beta)


def _layer_norm(call: OnnxCall) -> Result:
    call.one_output()
    bias = call.x(2) if call.has(2) else None
    return F.layer_norm(call.x(0), _normed(call), call.x(1), bias, call.attribute("epsilon", 1e-5))


def _rms_norm(call: OnnxCall) -> Result:
    return F.rms_norm(call.x(0), _normed(call), call.x(1), call.attribute("epsilon", 1e-5))


def _normed(call: OnnxCall) -> list[int]:
    """The lengths of the axes that a norm is over."""
    call.expect("stash_type", 1)
    x = call.x(0)
    return list(x.shape[call.attribute("axis", -1) % x.ndim :])


def _batch_norm(call: OnnxCall) -> Result:
    call.expect("training_mode", 0)
    call.attribute("momentum")
    x, scale, bias, mean, variance = (call.x(i) for i in range(5))
    epsilon = call.attribute("epsilon", 1e-5)
    return F.batch_norm(x, mean, variance, scale, bias, training=False, eps=epsilon)


def _clip(call: OnnxCall) -> Result:
    low, high = (call.number_or_x(i) if call.has(i) else None for i in (1, 2))
    return torch.clamp(call.x(0), low, high)


def _reduce(compute: Callable[..., Any], known: Callable[..., Any] | None = None) -> Rule:
    def rule(call: OnnxCall) -> Result:
        axes, keep = call.axes(1), bool(call.attribute("keepdims", 1))
        same = bool(call.attribute("noop_with_empty_axes", 0)) and not axes
        if call.known(0) and known is not None:
            places = tuple(axes) if axes else None
            return np.asarray(known(call.host(0), axis=places, keepdims=keep))
        x = call.x(0)
        return x if same else compute(x, axes or list(range(x.ndim)), keepdim=keep)

    return rule


def _top(call: OnnxCall) -> Result:
    call.attribute("sorted")
    call.expect("largest", 1)
    (k,) = call.ints(1)
    return tuple(torch.topk(call.x(0), k, call.attribute("axis", -1)))


def _pow(call: OnnxCall) -> Result:
    if not call.known(1) or call.host(1).size != 1:
        raise Unspeakable("its exponent is no plain number")
    if call.known(0):
        return np.power(call.host(0), call.host(1))
    x = call.x(0)
    if not x.is_floating_point():
        raise Unspeakable("it is a power of integers")
    return torch.pow(x, float(call.host(1).reshape(-1)[0]))


def _dropout(call: OnnxCall) -> Result:
    call.one_output()
    call.attribute("seed")
    if call.has(2) and (not call.known(2) or call.host(2).any()):
        raise Unspeakable("it drops in evaluation too")
    return call.x(0)


def _attention(call: OnnxCall) -> Result:
    call.one_output()
    call.expect("softcap", 0.0)
    call.expect("qk_matmul_output_mode", 0)
    call.attribute("softmax_precision")
    if len([each for each in call.args if each is not None]) > 3 + call.has(3):
        raise Unspeakable("it reads keys and values of earlier calls")
    q, k, v = (call.x(i) for i in range(3))
    heads = call.attribute("q_num_heads", 0), call.attribute("kv_num_heads", 0)
    flat = q.ndim == 3
    if flat:
        q = q.unflatten(-1, (heads[0], -1)).transpose(1, 2)
        k, v = (each.unflatten(-1, (heads[1], -1)).transpose(1, 2) for each in (k, v))
    causal = bool(call.attribute("is_causal", 0))
    mask = call.x(3) if call.has(3) else None
    if causal and mask is not None:
        raise Unspeakable("it has a mask and is causal")
    out = F.scaled_dot_product_attention(
        q,
        k,
        v,
        mask,
        is_causal=causal,
        scale=call.attribute("scale"),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return out.transpose(1, 2).flatten(2) if flat else out


def _sum(call: OnnxCall) -> Result:
    total = call.x(0)
    for place in range(1, len(call.args)):
        total = total + call.x(place)
    return total


def _global_mean(call: OnnxCall) -> Result:
    x = call.x(0)
    return x.mean(list(range(2, x.ndim)), keepdim=True)


def _swish(call: OnnxCall) -> Result:
    call.expect("alpha", 1.0)
    return F.silu(call.x(0))


ONNX_RULES: Final[Mapping[str, Rule]] = {
    "Add": _binary(operator.add, operator.add),
    "Sub": _binary(operator.sub, operator.sub),
    "Mul": _binary(operator.mul, operator.mul),
    "Div": _binary(_divide, _quotient),
    "Pow": _pow,
    "Sum": _sum,
    **{
        name: _unary(compute, own)
        for name, compute, own in (
            ("Relu", torch.relu, None),
            ("Sigmoid", torch.sigmoid, None),
            ("Tanh", torch.tanh, None),
            ("Erf", torch.erf, None),
            ("Exp", torch.exp, None),
            ("Log", torch.log, None),
            ("Neg", torch.neg, np.negative),
            ("Sqrt", torch.sqrt, np.sqrt),
            ("Sin", torch.sin, None),
            ("Cos", torch.cos, None),
            ("Not", torch.logical_not, np.logical_not),
            ("IsNaN", torch.isnan, None),
            ("Reciprocal", lambda x: torch.full((), 1.0, dtype=x.dtype) / x, np.reciprocal),
        )
    },
    "Mod": _modulo,
    "Min": _binary(None, np.minimum),
    "Max": _binary(None, np.maximum),
    "Identity": lambda call: call.args[0],
    "Dropout": _dropout,
    "Clip": _clip,
    "Gelu": lambda call: F.gelu(call.x(0), approximate=call.attribute("approximate", "none")),
    "Swish": _swish,
    "Equal": _binary(torch.eq, np.equal),
    "Greater": _binary(torch.gt, np.greater),
    "GreaterOrEqual": _binary(torch.ge, np.greater_equal),
    "Less": _binary(torch.lt, np.less),
    "LessOrEqual": _binary(torch.le, np.less_equal),
    "And": _binary(torch.logical_and, np.logical_and),
    "Or": _binary(torch.logical_or, np.logical_or),
    "Where": _where,
    "MatMul": _product,
    "Linear": lambda call: F.linear(call.x(0), call.x(1)),
    "Gemm": _gemm,
    "Attention": _attention,
    "Softmax": lambda call: torch.softmax(call.x(0), call.attribute("axis", -1)),
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
    "BatchNormalization": _batch_norm,
    "ReduceMean": _reduce(torch.mean),
    "ReduceSum": _reduce(torch.sum, np.sum),
    "ReduceProd": _reduce(torch.prod, np.prod),
    "TopK": _top,
    "Conv": convolution,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": _global_mean,
    "Resize": resize,
    "Cast": _cast,
    "Gather": _gather,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Expand": _expand,
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Shape": _shape,
    "Size": _size,
    "Range": _range,
    "ConstantOfShape": _constant_of_shape,
    "Trilu": _trilu,
}
