"""Define how modules in torch are written: what they may mention, words, fixed parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from xg.codegen.emit import array_ops
from xg.codegen.emit.allowlist import IN_FLOAT32, MATH, STANDARD, Allowlist, functions_in, words
from xg.codegen.emit.dialect import RING, Dialect, ring_kernels
from xg.codegen.emit.spelling import Scope, Spell, SupportFile
from xg.codegen.emit.text import Precedence, Text, call, tuple_of
from xg.ir.prim import Expr

# Everything that a generated torch module may mention (see `xg.codegen.emit.allowlist`).


IMPORTS: Final = STANDARD | {
    "from collections.abc import Callable, Iterator, Mapping",
    "from collections.abc import Callable, Mapping",
    "from collections.abc import Iterator, Mapping",
    "from contextlib import AbstractContextManager, nullcontext",
    "from typing import NamedTuple",
    "import torch",
}
FUNCTIONS: Final = functions_in("torch") | words(
    """
    SymInt Tensor abs arange as_tensor autocast autograd broadcast_to cat constant_pad_nd
    convolution device dtype addcmul einsum mul embedding empty empty_like bfloat16 flip float16
    float32 float64 full cuda full_like get_autocast_dtype inf int64 is_autocast_enabled
    is_grad_enabled maximum minimum nn no_grad ones randint sign tensor uint64 version where zeros
    backends compiler log_softmax bmm logaddexp logsumexp native_layer_norm ops promote_types relu
    sigmoid softmax stack zeros_like
    """
)
METHODS: Final = words(
    """
    T _assert_async amax any aten append argsort clamp cummax cumsum detach device double dtype
    expand gather get index_add_ indices is_compiling is_cuda is_floating_point is_meta isdigit item
    items join mT mean msg movedim ndim new_zeros nonzero numel permute reshape roll scatter_
    setdefault shape sort split sum swapaxes to transpose unfold values
    """
)
OF_KERNELS: Final = words(
    """
    _linear_pointwise add_ all as_strided aten bincount contiguous convolution_backward copy_ cpu
    cuda exp_ flip functional get_cpu_capability view
    gelu gelu_backward get_device_properties grad_input is_available is_compiling
    is_contiguous is_cpu hip isfinite itemsize linear major masked_fill narrow new_empty new_full
    mkldnn mul_ scaled_dot_product_attention
    sigmoid_ sigmoid_backward sub_ zero_ tanh_backward _scaled_dot_product_cudnn_attention
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
DECORATORS: Final = frozenset({"torch.no_grad()", "staticmethod", *IN_FLOAT32})
VOCABULARY: Final = Allowlist(
    imports=IMPORTS,
    modules={"torch": FUNCTIONS, "math": MATH},
    methods=METHODS | OF_KERNELS | OF_MODULES,
    decorators=DECORATORS,
    callables=frozenset({"block", "blocks", "compute", "each", "part", "untraced"}),
)


# How torch says each primitive.


AROUND: Final = SupportFile(RING)
SUPPORT: Final = AROUND + SupportFile(Path(__file__).with_name("support.py"))


class TorchSpelling:
    """The backend's words (see `xg.codegen.emit.spelling.Spelling`)."""

    name = "torch"
    seed = "Seed"
    empty = "torch.zeros(0, dtype=torch.float64)"  # as in NumPy
    saved_size = ""
    quiet = ""
    wide = "in_float32"
    rounds_sizes = False

    def primitive(self, expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        """The text of one primitive."""
        return WORDS[expr.prim](expr, args, scope)

    def cast(self, text: Text, scope: Scope) -> Text:
        """Integers or float64 as floats of the function's type."""
        source = text.atom.removesuffix(DOUBLE)
        return Text(f"{source}.to({scope.float_type()})")

    def zeros(self, shape: str, scope: Scope, *, whole: bool = False) -> str:
        """Zeros of the function's type, where its tensors are; `whole` ones are integers."""
        if whole:
            return f"torch.zeros({shape}, dtype=torch.int64, device={scope.place()})"
        return f"torch.zeros({shape}, {_made(scope)})"

    def no_room(self, shape: str, scope: Scope) -> str:
        """One zero, repeated."""
        return f"torch.zeros((), {_made(scope)}).expand({shape})"

    def stack(self, rows: str, axis: int) -> str:
        """A list of tensors, stacked along a new axis."""
        return f"torch.stack({rows}, dim={axis})"

    def support(self, function: str) -> str:
        """The source of a support function."""
        return SUPPORT.source(function)


DOUBLE: Final = ".double()"  # whole numbers become float64 as in NumPy, not torch's default


def _made(scope: Scope) -> str:
    """The arguments of a new tensor: its type and its device."""
    return f"dtype={scope.float_type()}, device={scope.place()}"


def _double(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    return Text(f"{args[0].atom}{DOUBLE}")


def _extreme(function: str, bound: str) -> Spell:
    """The larger or smaller of two; beside a number torch has a word of its own."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        texts = [arg.text for arg in args]
        plain = [array_ops.is_plain(arg) for arg in expr.args]
        if all(plain):
            texts[0] = _tensor(texts[0])
        if any(plain):
            number, other = (1, 0) if plain[1] else (0, 1)
            operand = Text(texts[other]) if all(plain) else args[other]
            return Text(f"{operand.atom}.clamp({bound}={texts[number]})")
        return call(f"torch.{function}", *texts)

    return spell


def _comparison(symbol: str) -> Spell:
    spell = array_ops.sign(symbol, Precedence.COMPARE)

    def of_tensors(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        plain = all(map(array_ops.is_plain, expr.args))
        return spell(expr, [Text(_tensor(args[0].text)), args[1]] if plain else args, scope)

    return of_tensors


def _where(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    texts = [arg.text for arg in args]
    if expr.kind == "float" and all(map(array_ops.is_plain, expr.args[1:])):
        texts[1] = _tensor(texts[1])
    return call("torch.where", *texts)


def _tensor(number: str) -> str:
    """A number where torch needs a tensor; by itself it would take its own default type."""
    return f"torch.tensor({number}, dtype=torch.float64)"


def _broadcast(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    shape = tuple_of(scope.shape(expr.shape))
    if array_ops.is_plain(expr.args[0]):
        whole = f"dtype=torch.int64, device={scope.place()}"
        kind = whole if expr.kind == "int" else _made(scope)
        if args[0].text == "0":
            return Text(f"torch.zeros({shape}, {kind})")
        return call("torch.full", shape, args[0].text, kind)
    return Text(f"{args[0].atom}.expand({', '.join(scope.shape(expr.shape)) or '()'})")


SWAPPED: Final = array_ops.swap_last_axes("mT")
WORDS: Final[Mapping[str, Spell]] = {
    **array_ops.ON_ARRAYS,
    **array_ops.WORDS,
    "const": array_ops.constant("torch.inf"),
    "iota": array_ops.arange("torch.arange", lambda scope: [f"device={scope.place()}"]),
    **array_ops.elementary("torch"),
    "sub_at": array_ops.support("sub_at"),
    "stop": array_ops.method("detach"),
    "maximum": array_ops.absolute("torch.abs", _extreme("maximum", "min")),
    "minimum": _extreme("minimum", "max"),
    "gt": _comparison(">"),
    "ge": _comparison(">="),
    "eq": _comparison("=="),
    "where": _where,
    "as_float": _double,
    "sum": array_ops.reduction("sum", "dim", "keepdim"),
    "mean": array_ops.reduction("mean", "dim", "keepdim"),
    "max": array_ops.reduction("amax", "dim", "keepdim"),
    "cumsum": array_ops.running_sum("torch"),
    "contract": array_ops.contraction(SWAPPED, 'torch.einsum("{spec}", {a}, {b})'),
    "transpose": array_ops.transposition(SWAPPED, "transpose", "permute"),
    "broadcast": _broadcast,
    "concat": array_ops.concatenation("torch.cat", "dim"),
    "dropout_keep": array_ops.keep,
}


HEADER = """\
{standard}

import torch
{ranks}"""

EMPTY = '''
    """Make an empty cache: no positions yet{batch}."""
    like = next(iter(params.values()), torch.zeros(0))
    {states}
    cache: Params = {{}}
    for name, (shape, kind) in {table}.items():
        dtype = torch.int64 if kind == "int" else like.dtype
        cache[name] = torch.zeros(shape, dtype=dtype, device=like.device)
    return cache
'''

KEEPING = """
# A large tensor, freed at once: from now on glibc keeps the memory of tensors that are
# freed. Else it would give it back to the system and get it again, page by page, in
# every step on a CPU.
torch.empty(2**23 - 2**11, device="cpu")
"""

TORCH: Final = Dialect(
    spelling=TorchSpelling(),
    support=SUPPORT,
    vocabulary=VOCABULARY,
    library="torch",
    title="torch",
    header=HEADER,
    aliases={
        "Array": "torch.Tensor",
        "Params": "dict[str, Array]",
        "DType": "torch.dtype",
        "Device": "torch.device | str | None",
        "Seed": "int | torch.Tensor | None",
    },
    ones="torch.ones(shape, dtype=dtype, device=device)",
    zeros="torch.zeros(shape, dtype=dtype, device=device)",
    converted=".to(device, dtype)",
    types=("dtype: DType = torch.float32", "device: Device = None"),
    like={"dtype": "dtype", "device": "device"},
    empty=EMPTY,
    state="cache[name].to(floats)",
    decorator="@torch.no_grad()",
    always=ring_kernels(AROUND, SUPPORT),
    prelude=KEEPING,
    ready="by_columns",
)


# Functions around `Model` that are the same in all modules.


SETTING: Final = '''    def __setattr__(self, name: str, value: Any) -> None:
        """Set what torch means: some names are those of a parameter and of something else."""
        if isinstance(value, torch.nn.Parameter) and name in self._parameters:
            self._parameters[name] = value
        elif name == "training":
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)
'''

SHAPES: Final = '''def _shapes(block: torch.nn.Module) -> str:
    """Names and shapes of the parameters that are the block's own, for its `repr`."""
    own = block.named_parameters(recurse=False, remove_duplicate=False)
    return ", ".join([f"{name} {list(weight.shape)}" for name, weight in own])
'''

WEIGHTS: Final = '''def _weights(block: Any, at: str) -> Params:
    """The parameters of a block by their names in the model, parametrized or not."""
    named = block.named_parameters(recurse=False, remove_duplicate=False)
    weights: Params = {f"{at}.{name}": weight for name, weight in named}
    for name, part in block._modules.items():
        if isinstance(part, torch.nn.ModuleDict):  # of parametrizations
            weights |= {f"{at}.{own}": each() for own, each in part.items()}
        elif isinstance(part, torch.nn.ModuleList):
            weights |= _weights(part, f"{at}.{name}")
        elif part is not None:
            weights |= _inside(part, f"{at}.{name}")
    return weights


def _inside(part: torch.nn.Module, at: str) -> Params:
    """The parameters of a block, or of one in a module of others such as PEFT's.

    That may set them for the length of a call: they are read in one, which computes
    nothing.
    """
    if "_at" in part.__dict__:
        return _weights(part, at)
    blocks = [each for each in part.modules() if "_at" in each.__dict__]
    if not blocks:
        raise ValueError(f"{at} is to be a block of this file, or a module around it")
    weights: Params = {}

    def read(*_: Any) -> None:
        weights.update(_weights(blocks[0], at))

    own = blocks[0].__dict__.pop("forward", None)
    blocks[0].forward = read
    try:
        part(None)
    finally:
        blocks[0].__dict__.pop("forward")
        if own is not None:
            blocks[0].forward = own
    return weights
'''

PATHS: Final = '''def _paths(params: Params, at: str) -> list[str]:
    """The paths of the blocks in a row: `layers.0`, `layers.1` and so on."""
    below = [name[len(at) + 1 :] for name in params if name.startswith(f"{at}.")]
    return [f"{at}.{i}" for i in dict.fromkeys([name.split(".")[0] for name in below])]
'''

_REMEMBER: Final = """{head}
    tensors = [*params.values(), *inputs]
    ctx.names, ctx.inputs = tuple(params), len(inputs)
    ctx.kept = {kept}
    ctx.save_for_backward(*tensors{rest}){results}
    device = tensors[0].device.type if tensors else "cpu"
    enabled = torch.is_autocast_enabled(device)
    ctx.autocast = (device, torch.get_autocast_dtype(device), enabled)
"""

_HEAD: Final = '''def _remember(ctx: Any, params: Params, inputs: list[Array], saved: Any) -> None:
    """Hand autograd what the backward pass needs; it frees tensors after their use."""'''

_HEAD_OF_SEVERAL: Final = '''def _remember(
    ctx: Any, params: Params, inputs: list[Array], saved: Any, *results: Array
) -> None:
    """Hand autograd what the backward pass needs: it frees every tensor after its use.

    Of several results some may have no cotangent: torch is not to make zeros for them.
    """'''

_RESULTS: Final = """
    if results:
        ctx.set_materialize_grads(False)
        ctx.results = [(y.shape, y.dtype, y.device) for y in results]"""

SETTLE: Final = '''def _settle(params: Params, moved: Params) -> None:
    """Running statistics in the place of earlier ones, which no backward pass reads."""
    for name, weight in params.items():
        if moved[name] is not weight:
            weight.data.copy_(moved[name])
'''

ARRIVED: Final = '''def _arrived(ctx: Any, *cotangents: Array | None) -> list[Array]:
    """The cotangent of each result: one zero, repeated, where nothing depends on it."""
    arrived: list[Array] = []
    for dy, (shape, dtype, device) in zip(cotangents, ctx.results, strict=True):
        if dy is None:
            dy = torch.zeros((), dtype=dtype, device=device).expand(shape)
        arrived.append(dy)
    return arrived
'''

AS_BEFORE: Final = '''def _as_before(ctx: Any) -> AbstractContextManager[Any]:
    """The autocast state of the forward pass, entered again where it has changed."""
    device, dtype, enabled = ctx.autocast
    if enabled or torch.is_autocast_enabled(device):
        return torch.autocast(device, dtype, enabled)
    return nullcontext()
'''

KEPT: Final = '''class _Kept(NamedTuple):
    """Saved values without their tensors: class, names of the tensors, all the rest."""

    kind: Any
    names: list[str]
    rest: dict[str, Any]
'''

_RECALL: Final = '''def _recall(ctx: Any) -> tuple[Params, list[Array], Any]:
    """{what}"""
    tensors = iter(ctx.saved_tensors){clear}
    params = {name: next(tensors) for name in ctx.names}
    inputs = [next(tensors) for _ in range(ctx.inputs)]
    return params, inputs, {saved}
'''

_CLEAR: Final = """
    if not torch.compiler.is_compiling():
        ctx.maybe_clear_saved_tensors()"""

_PACKED: Final = '''def _packed(saved: Any, tensors: list[Array]) -> Any:
    """Saved values without their tensors, which are appended to a list."""
    if saved is None or isinstance(saved, int | torch.SymInt):
        return saved
    if isinstance(saved, list):
        return [_packed(part, tensors) for part in saved]
    names: list[str] = []
    rest: dict[str, Any] = {}
    for name, part in {fields}:
        if isinstance(part, torch.Tensor):
            names.append(name)
            tensors.append(part)
        else:
            rest[name] = part
    rest = {name: _packed(part, tensors) for name, part in rest.items()}
    return _Kept(saved.__class__, names, rest)
'''

UNPACKED: Final = '''def _unpacked(kept: Any, tensors: Iterator[Array]) -> Any:
    """Saved values with their tensors again."""
    if isinstance(kept, _Kept):
        fields: dict[str, Any] = {name: next(tensors) for name in kept.names}
        for name, part in kept.rest.items():
            fields[name] = _unpacked(part, tensors)
        return kept.kind(**fields)
    if isinstance(kept, list):
        return [_unpacked(part, tensors) for part in kept]
    return kept
'''


def around(releases: bool, several: bool, *, flat: bool = False) -> list[str]:
    """The code around a model whose blocks save records that are freed in parts, or else tuples.

    `several` is whether any has more than one result; `flat` records have nothing but tensors.
    """
    what = "Parameters, inputs and saved values"
    if releases:
        what += "; the backward pass alone keeps them now."
    else:
        what += ", as the forward pass had them."
    remember = (
        _REMEMBER.replace("{head}", _HEAD_OF_SEVERAL if several else _HEAD)
        .replace("{kept}", "saved.__class__" if flat else "_packed(saved, tensors)")
        .replace("{rest}", ", *saved" if flat else "")
        .replace("{results}", _RESULTS if several else "")
    )
    recall = (
        _RECALL.replace("{what}", what)
        .replace("{clear}", _CLEAR if releases else "")
        .replace("{saved}", "ctx.kept(*tensors)" if flat else "_unpacked(ctx.kept, tensors)")
    )
    if flat:
        return [remember, recall, *([ARRIVED] if several else []), AS_BEFORE]
    of_object = "[(name, saved.__dict__[name]) for name in saved._fields]"
    packed = _PACKED.replace("{fields}", of_object if releases else "saved._asdict().items()")
    arrived = [ARRIVED] if several else []
    return [remember, recall, *arrived, AS_BEFORE, KEPT, packed, UNPACKED]
