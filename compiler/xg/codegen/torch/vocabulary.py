"""Everything that a generated torch module may mention (see `xg.codegen.emit.allowlist`)."""

from __future__ import annotations

from typing import Final

from xg.codegen.emit.allowlist import MATH, STANDARD, Allowlist
from xg.codegen.emit.mentions import words

IMPORTS: Final = STANDARD | {
    "from collections.abc import Iterator, Mapping",
    "from contextlib import AbstractContextManager, nullcontext",
    "from typing import NamedTuple",
    "import torch",
}
FUNCTIONS: Final = words(
    """
    SymInt Tensor abs arange as_tensor autocast autograd cat constant_pad_nd convolution cos device
    dtype
    addcmul einsum mul embedding empty empty_like erf exp float32 float64 full cuda full_like
    get_autocast_dtype inf int64 is_autocast_enabled is_grad_enabled log maximum minimum nn no_grad
    ones randint sin sqrt tanh tensor uint64 version where zeros backends compiler log_softmax
    bmm logaddexp logsumexp native_layer_norm ops promote_types relu sigmoid softmax stack
    zeros_like
    """
)
METHODS: Final = words(
    """
    T _assert_async amax any aten append argsort clamp cummax detach device double dtype expand
    gather get index_add_ indices is_compiling is_cuda is_floating_point is_meta isdigit item
    items join mT mean msg movedim ndim new_zeros nonzero numel permute reshape roll scatter_
    setdefault shape sort split sum to transpose unfold values
    """
)
OF_KERNELS: Final = words(
    """
    _linear_pointwise add_ all as_strided aten bincount contiguous convolution_backward copy_ cpu
    cuda exp_ flip functional get_cpu_capability view
    gelu gelu_backward get_device_properties grad_input is_available is_compiling
    is_contiguous is_cpu hip isfinite itemsize linear major masked_fill narrow new_empty new_full
    mkldnn mul_ scaled_dot_product_attention
    sigmoid_ sigmoid_backward sub_ tanh_backward _scaled_dot_product_cudnn_attention
    _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention
    _scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention
    _scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu
    _softmax_backward_data _scaled_dot_product_flash_attention_for_cpu_backward
    native_layer_norm_backward scatter_add silu silu_backward squeeze stride tolist unbind unsqueeze
    """
)
OF_MODULES: Final = words(
    """
    __class__ __dict__ __init__ __setattr__ _asdict _at _fields _modules _parameters at apply
    autocast data disable extra_repr fromkeys inputs join kept kind seed sizes
    maybe_clear_saved_tensors named_parameters names parameters rest results save_for_backward
    saved_tensors set_materialize_grads startswith training type update modules forward pop Function
    Module ModuleDict ModuleList Parameter
    """
)
DECORATORS: Final = frozenset({"torch.no_grad()", "staticmethod"})
VOCABULARY: Final = Allowlist(
    imports=IMPORTS,
    modules={"torch": FUNCTIONS, "math": MATH},
    methods=METHODS | OF_KERNELS | OF_MODULES,
    decorators=DECORATORS,
    callables=frozenset({"block", "blocks", "each", "part", "untraced"}),
)
