"""The operators of ONNX in torch: each as the call that `rules` read from a traced model."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.onnx_call import OnnxCall, plain
from xg_torch.importing.onnx_layout import RULES as LAYOUT
from xg_torch.importing.onnx_windows import average_pool, convolution, max_pool, resize

Result = Any  # a tensor, an array of what is known, or a tuple of them
Rule = Callable[[OnnxCall], Result]


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


def _modulo(call: OnnxCall) -> Result:
    call.attribute("fmod")
    return _binary(None, np.mod)(call)


def _quotient(a: Any, b: Any) -> Any:  # noqa: ANN401 - arrays of sizes or of numbers
    whole = all(np.asarray(each).dtype.kind in "iuO" for each in (a, b))
    return a // b if whole else a / b


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


def _softmax(call: OnnxCall) -> Result:
    return torch.softmax(call.x(0), call.attribute("axis", -1))


def _layer_norm(call: OnnxCall) -> Result:
    call.one_output()
    call.expect("stash_type", 1)
    x = call.x(0)
    shape = x.shape[call.attribute("axis", -1) % x.ndim :]
    bias = call.x(2) if call.has(2) else None
    return F.layer_norm(x, shape, call.x(1), bias, call.attribute("epsilon", 1e-5))


def _rms_norm(call: OnnxCall) -> Result:
    call.expect("stash_type", 1)
    x = call.x(0)
    shape = x.shape[call.attribute("axis", -1) % x.ndim :]
    return F.rms_norm(x, list(shape), call.x(1), call.attribute("epsilon", 1e-5))


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


def _gelu(call: OnnxCall) -> Result:
    return F.gelu(call.x(0), approximate=call.attribute("approximate", "none"))


def _global_mean(call: OnnxCall) -> Result:
    x = call.x(0)
    return x.mean(list(range(2, x.ndim)), keepdim=True)


def _swish(call: OnnxCall) -> Result:
    call.expect("alpha", 1.0)
    return F.silu(call.x(0))


RULES: Final[Mapping[str, Rule]] = {
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
    "Gelu": _gelu,
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
    "Softmax": _softmax,
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
    **LAYOUT,
}
