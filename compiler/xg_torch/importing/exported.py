"""A `torch.export` program as plain data: what comes in, the aten calls in order, what goes out."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.dim import ZERO, Dim, DimError, number, product, symbol
from xg_torch.importing.archive import Archive, Array, Damaged, Json

# Sizes as torch writes them, ``Mul(Integer(3), Symbol('s27', positive=True))``, as exact dims.


def read_size(text: str) -> Dim:
    """The dim of a printed expression; raises DimError. Nothing is evaluated.

    >>> str(read_size("Add(Mul(Integer(3), Symbol('s27', integer=True)), Integer(1))"))
    '3*s27 + 1'
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise DimError(f"{text[:60]} is not a size") from None
    values: dict[int, Dim] = {}
    for node in reversed([item for item in ast.walk(tree) if isinstance(item, ast.Call)]):
        values[id(node)] = _value(node, values)
    if id(tree) not in values:
        raise DimError(f"{text[:60]} is not a size")
    return values[id(tree)]


def _value(call: ast.Call, values: dict[int, Dim]) -> Dim:
    """The dim of one call whose parts have theirs."""
    name = call.func.id if isinstance(call.func, ast.Name) else ast.unparse(call.func)
    match name, call.args:
        case "Integer", [ast.Constant(value=int() as value)]:
            return number(value)
        case "Integer", [ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value))]:
            return number(-value)
        case "Symbol", [ast.Constant(value=str() as name)]:
            return symbol(name)
        case "Add", parts:
            return sum((_part(part, values) for part in parts), ZERO)
        case "Mul", parts:
            return product(_part(part, values) for part in parts)
        case "Pow", [base, exponent]:
            power = _part(exponent, values).constant
            if power is not None:
                return _part(base, values) ** power
        case _:
            pass
    raise DimError(f"{name} stands in a size")


def _part(node: ast.expr, values: dict[int, Dim]) -> Dim:
    if id(node) not in values:
        raise DimError("a size has a part that is none")
    return values[id(node)]


FRAME: Final = re.compile(r'File ("[^"\n]*", line \d+)[^\n]*\n([^\n]*)')
INTEGERS = frozenset({1, 2, 3, 4, 5})
BOOL = 12


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor, by its name in the graph."""

    name: str


@dataclass(frozen=True, slots=True)
class DType:
    """An element type, by torch's number."""

    number: int


@dataclass(frozen=True, slots=True)
class Unread:
    """An argument of a kind that no rule here reads."""

    kind: str


# A size is a Dim, also where it is a plain number of a list of sizes.
Argument: TypeAlias = (
    "Ref | DType | Unread | Dim | int | float | bool | str | tuple[Argument, ...] | None"
)


@dataclass(frozen=True, slots=True)
class ModuleScope:
    """One module on the way to a call: `layers.0` of class `Layer`; `key` distinguishes calls."""

    key: str
    path: str
    kind: str


@dataclass(frozen=True, slots=True)
class AtenCall:
    """One aten call; `stack` are the modules around it, the outermost first.

    `trace` are the lines of Python that led to it, as torch notes them.
    """

    target: str
    args: Mapping[str, Argument]
    outputs: tuple[str, ...]
    stack: tuple[ModuleScope, ...]
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Meta:
    """The type of a tensor; a shape of None has a size that is no polynomial."""

    dtype: int
    shape: tuple[Dim, ...] | None


@dataclass(frozen=True, slots=True)
class GraphInput:
    """An input: by `name` in the graph; `target` is its name in the model."""

    kind: Literal["user", "parameter", "constant", "value"]
    name: str
    target: str
    value: Argument = None
    saved: bool = False  # a buffer that the state of the model has
    frozen: bool = False  # a parameter without a gradient


@dataclass(frozen=True)
class Exported:
    """A whole program."""

    entries: tuple[GraphInput, ...]
    calls: tuple[AtenCall, ...]
    outputs: tuple[Argument, ...]
    metas: Mapping[str, Meta]
    limits: Mapping[str, tuple[int, int | None]]  # what each symbol may be
    traced: Mapping[str, int]  # what each symbol was when the model was traced
    arrays: Mapping[str, Array]
    tied: Mapping[str, str]  # other names of a tensor, and the one that it has here


def needed_calls(exported: Exported) -> list[AtenCall]:
    """The calls that outputs depend on, in order; those that change a tensor are all needed."""
    needed = {item.name for item in exported.outputs if isinstance(item, Ref)}
    calls: list[AtenCall] = []
    for call in reversed(exported.calls):
        if needed & set(call.outputs) or changes_in_place(call.target):
            calls.append(call)
            needed |= set(reads(call.args))
    return calls[::-1]


def base_name(target: str) -> str:
    """``aten.add.Tensor`` is `add`."""
    parts = target.split(".")
    return parts[1] if len(parts) > 2 and parts[0] == "aten" else target


def source_line(trace: str) -> str:
    """The last line of Python that led to a call and is not torch's own: `m.py, line 3: f(x)`."""
    found = ""
    for frame, code in FRAME.findall(trace):
        place = re.match(r'"(.*)", line (\d+)', frame)
        if place is not None and "/torch/" not in place[1].replace("\\", "/"):
            file = place[1].replace("\\", "/").rpartition("/")[2]
            found = f"{file}, line {place[2]}: {code.strip()}"
    return found


def changes_in_place(target: str) -> bool:
    """Whether a call writes into its first operand: ``add_``."""
    name = base_name(target)
    return name.endswith("_") and not name.startswith("__")


def reads(args: Mapping[str, Argument]) -> list[str]:
    """The tensors that a call reads, in order."""
    return [
        item.name
        for argument in args.values()
        for item in (argument if isinstance(argument, tuple) else (argument,))
        if isinstance(item, Ref)
    ]


def clamp_size(limits: tuple[int, int | None], size: int) -> int:
    """A size, or the nearest one that is within limits."""
    low, high = limits
    return max(low, size if high is None else min(high, size))


def read_graph(archive: Archive) -> Exported:
    """The program of an archive; raises Damaged."""
    try:
        return _GraphReader(archive).program()
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise Damaged(f"its graph is damaged ({type(error).__name__}: {error})") from None


Placed = tuple[
    Json, Mapping[str, str], tuple[ModuleScope, ...]
]  # a node, names outside, modules around


class _GraphReader:
    """Reads the graph, and the graphs inside it in the place of the calls that run them."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.metas: dict[str, Meta] = {}
        self.sizes: dict[str, Dim | None] = {}
        self.traced: dict[str, int] = {}
        self.trained: set[str] = set()  # values that have a gradient by themselves

    def program(self) -> Exported:
        module = self.archive.program["graph_module"]
        graph: Json = module["graph"]
        self._take(graph, {})
        signature = module["signature"]
        ranges = self.archive.program["range_constraints"]
        return Exported(
            entries=tuple(self._entries(signature["input_specs"])),
            calls=tuple(self._calls(graph)),
            outputs=tuple(self._outputs(signature["output_specs"])),
            metas=self.metas,
            limits={
                name: (int(limit["min_val"] or 0), limit["max_val"])
                for name, limit in ranges.items()
            },
            traced=self.traced,
            arrays=self.archive.arrays,
            tied=self.archive.tied,
        )

    def _take(self, graph: Json, renamed: Mapping[str, str]) -> None:
        """Note the shapes and sizes of a graph, under the names that its values have outside."""
        for name, meta in graph["tensor_values"].items():
            shape = [self._size(size) for size in meta["sizes"]]
            whole = tuple(dim for dim in shape if dim is not None)
            dims = whole if len(whole) == len(shape) else None
            self.metas.setdefault(renamed.get(name, name), Meta(int(meta["dtype"]), dims))
            if meta.get("requires_grad", True):
                self.trained.add(name)
        for name, size in graph["sym_int_values"].items():
            self.sizes[renamed.get(name, name)] = self._size(size)

    def _size(self, size: Json) -> Dim | None:
        """A size; a symbol's number at the time of tracing is noted."""
        dim = _size(size)
        hint = size["as_expr"].get("hint") if "as_expr" in size else None
        if dim is not None and dim.name is not None and hint and "as_int" in hint:
            self.traced.setdefault(dim.name, int(hint["as_int"]))
        return dim

    def _entries(self, specs: Sequence[Json]) -> Iterator[GraphInput]:
        for spec in specs:
            ((kind, what),) = spec.items()
            if kind == "user_input":
                argument = _argument(what["arg"], self.sizes, {})
                yield GraphInput("user", argument.name if isinstance(argument, Ref) else "", "")
            elif kind == "parameter":
                target, name = what["parameter_name"], what["arg"]["name"]
                target = self.archive.tied.get(target, target)
                yield GraphInput("parameter", name, target, frozen=name not in self.trained)
            elif kind == "buffer":
                saved = bool(what.get("persistent", False))
                yield GraphInput("constant", what["arg"]["name"], what["buffer_name"], saved=saved)
            elif kind == "tensor_constant":
                yield GraphInput("constant", what["arg"]["name"], what["tensor_constant_name"])
            elif kind == "constant_input":
                ((_, value),) = what["value"].items()
                yield GraphInput(
                    "value", what["name"], "", None if "as_none" in what["value"] else value
                )
            else:
                raise Damaged(f"an input of kind {kind} has no place in a diagram")

    def _outputs(self, specs: Sequence[Json]) -> Iterator[Argument]:
        for spec in specs:
            ((kind, what),) = spec.items()
            if kind == "buffer_mutation":
                raise Damaged(
                    f"the model changes its buffer {what['buffer_name']} as it runs; "
                    "export it in eval mode"
                )
            if kind not in ("user_output", "loss_output"):
                raise Damaged(f"an output of kind {kind} has no place in a diagram")
            arg: Json = what["arg"] if kind == "user_output" else {"as_tensor": what["arg"]}
            yield _argument(arg, self.sizes, {})

    def _calls(self, graph: Json) -> Iterator[AtenCall]:
        """The calls in order; a stack of iterators, because graphs nest."""
        first: list[Placed] = [(node, {}, ()) for node in graph["nodes"]]
        waiting: list[Iterator[Placed]] = [iter(first)]
        while waiting:
            placed = next(waiting[-1], None)
            if placed is None:
                waiting.pop()
                continue
            node, renamed, outer = placed
            inner = _inner_graph(node)
            if inner is None:
                yield from self._call(node, renamed, outer)
            else:
                waiting.append(self._inline_calls(node, inner, renamed, outer))

    def _call(
        self, node: Json, renamed: Mapping[str, str], outer: tuple[ModuleScope, ...]
    ) -> Iterator[AtenCall]:
        names = [name for output in node["outputs"] for name in _names(output)]
        if node["outputs"] and not names:
            return  # sizes are known already, by their own names
        args = {
            str(item["name"] or place): _argument(item["arg"], self.sizes, renamed)
            for place, item in enumerate(node["inputs"])
        }
        stack = _stack(node["metadata"].get("nn_module_stack", "")) or outer
        target = str(node["target"]).removeprefix("torch.ops.")
        trace = str(node["metadata"].get("stack_trace") or "")
        yield AtenCall(target, args, tuple(renamed.get(name, name) for name in names), stack, trace)

    def _inline_calls(
        self, node: Json, graph: Json, renamed: Mapping[str, str], outer: tuple[ModuleScope, ...]
    ) -> Iterator[Placed]:
        """The calls of a graph that only switches gradients or autocasting, with outer names.

        Without gradients, `detach` of each result says so.
        """
        outputs = [name for output in node["outputs"] for name in _names(output)]
        prefix = f"{node['name'] or outputs[0]}."
        inside = [name for output in graph["outputs"] for name in _names(output)]
        operands = [
            _argument(item["arg"], self.sizes, renamed)
            for item in node["inputs"]
            if "as_graph" not in item["arg"]
        ]
        formals = [name for item in graph["inputs"] for name in _names(item)]
        own: dict[str, str] = {name: prefix + name for name in graph["tensor_values"]}
        passed = [operand.name for operand in operands if isinstance(operand, Ref)]
        own |= dict(zip(reversed(formals), reversed(passed), strict=False))
        results = [(name, renamed.get(out, out)) for name, out in zip(inside, outputs, strict=True)]
        stops = _stops_gradients(node)
        if not stops:
            own |= {name: out for name, out in results if name not in formals}
        self._take(graph, own)
        stack = _stack(node["metadata"].get("nn_module_stack", "")) or outer
        yield from ((each, own, stack) for each in graph["nodes"])
        for name, out in results:
            if stops or name in formals:
                target = "alias" if name in formals else "detach"
                yield _unary_call(target, graph["nodes"]), {"x": own[name], "y": out}, stack


def _inner_graph(node: Json) -> Json | None:
    """The graph of a call that runs it once and changes no number."""
    if str(node["target"]).rpartition(".")[2] not in (
        "wrap_with_set_grad_enabled",
        "wrap_with_autocast",
    ):
        return None
    graphs = [
        item["arg"]["as_graph"]["graph"] for item in node["inputs"] if "as_graph" in item["arg"]
    ]
    return graphs[0] if graphs else None


def _stops_gradients(node: Json) -> bool:
    """Whether the graph of a call runs without gradients: `torch.no_grad`."""
    switch = node["inputs"][0]["arg"]
    return str(node["target"]).endswith("set_grad_enabled") and switch.get("as_bool") is False


def _unary_call(target: str, nodes: Sequence[Json]) -> Json:
    """A node that calls `target` with x for y, at the place of the last node before it."""
    return {
        "target": f"torch.ops.aten.{target}.default",
        "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}}],
        "outputs": [{"as_tensor": {"name": "y"}}],
        "metadata": nodes[-1]["metadata"] if nodes else {},
    }


def _names(argument: Json) -> list[str]:
    """The tensors that an output of a node is."""
    ((kind, value),) = argument.items()
    match kind:
        case "as_tensor":
            return [value["name"]]
        case "as_tensors":
            return [item["name"] for item in value]
        case "as_optional_tensor":
            return _names(value) if "as_tensor" in value else []
        case _:
            return []


def _size(size: Json) -> Dim | None:
    ((kind, value),) = size.items()
    if kind == "as_int":
        return number(int(value))
    try:
        return read_size(value["expr_str"])
    except DimError:
        return None


def _argument(
    argument: Json, sizes: Mapping[str, Dim | None], renamed: Mapping[str, str]
) -> Argument:
    ((kind, value),) = argument.items()
    match kind:
        case "as_none":
            return None
        case "as_tensor":
            return Ref(renamed.get(value["name"], value["name"]))
        case "as_tensors":
            return tuple(Ref(renamed.get(item["name"], item["name"])) for item in value)
        case "as_optional_tensor":
            return _argument(value, sizes, renamed)
        case "as_optional_tensors":
            return tuple(_argument(item, sizes, renamed) for item in value)
        case "as_int" | "as_float" | "as_bool" | "as_string":
            return value if kind != "as_float" else float(value)
        case "as_ints" | "as_floats" | "as_bools" | "as_strings":
            return tuple(value)
        case "as_sym_int":
            return (
                _argument(value, sizes, renamed)
                if "as_int" in value
                else (sizes.get(value["as_name"]) or Unread("a size that is no polynomial"))
            )
        case "as_sym_ints":
            return tuple(_argument({"as_sym_int": item}, sizes, renamed) for item in value)
        case "as_scalar_type":
            return DType(int(value))
        case _:
            return Unread(kind)


def _stack(text: str) -> tuple[ModuleScope, ...]:
    """``L__self__h.0,h.0,models.Block;…``: the modules around a call."""
    scopes: list[ModuleScope] = []
    for part in text.split(";"):
        pieces = part.split(",")
        if len(pieces) == 3 and not pieces[0].startswith("_empty_nn_module_stack"):
            key, path, kind = pieces
            scopes.append(ModuleScope(key, path, kind))
    return tuple(scopes)


# A program that was read, under other names: of sizes, values and weights.


def _map_arguments(
    args: Mapping[str, Argument], change: Callable[[Argument], Argument]
) -> dict[str, Argument]:
    """Change the arguments of a call, and the items of those that are lists."""
    return {
        name: tuple(map(change, arg)) if isinstance(arg, tuple) else change(arg)
        for name, arg in args.items()
    }


def with_equal_sizes(exported: Exported) -> Exported:
    """The program where symbols of one number are one symbol: more is the same, less is free."""
    first: dict[int, str] = {}
    same: dict[str, Dim] = {}
    for name in sorted(exported.limits, key=lambda each: (len(each), each)):
        traced = exported.traced.get(name)
        if traced is not None and first.setdefault(traced, name) != name:
            same[name] = symbol(first[traced])
    limits = {name: each for name, each in exported.limits.items() if name not in same}
    for name, dim in same.items():
        (low, high), (its, top) = limits[str(dim)], exported.limits[name]
        least = top if high is None else high if top is None else min(high, top)
        limits[str(dim)] = (max(low, its), least)

    def substitute_sizes(argument: Argument) -> Argument:
        return argument.substitute(same) if isinstance(argument, Dim) else argument

    metas = {
        name: Meta(
            meta.dtype,
            None if meta.shape is None else tuple(dim.substitute(same) for dim in meta.shape),
        )
        for name, meta in exported.metas.items()
    }
    calls = tuple(
        replace(call, args=_map_arguments(call.args, substitute_sizes)) for call in exported.calls
    )
    traced = {name: size for name, size in exported.traced.items() if name not in same}
    return replace(exported, metas=metas, calls=calls, limits=limits, traced=traced)


def with_names(
    exported: Exported,
    values: Mapping[str, str],
    weights: Mapping[str, str],
    stack: Callable[[tuple[ModuleScope, ...]], tuple[ModuleScope, ...]],
) -> Exported:
    """The program with other names for values and for weights, and other modules around calls."""

    def rename(argument: Argument) -> Argument:
        known = values.get(argument.name) if isinstance(argument, Ref) else None
        return argument if known is None else Ref(known)

    return replace(
        exported,
        entries=tuple(
            replace(
                each,
                name=values.get(each.name, each.name),
                target=weights.get(each.target, each.target),
            )
            for each in exported.entries
        ),
        calls=tuple(
            replace(call, args=_map_arguments(call.args, rename), stack=stack(call.stack))
            for call in exported.calls
        ),
        outputs=tuple(map(rename, exported.outputs)),
        metas={values.get(name, name): meta for name, meta in exported.metas.items()},
        arrays={weights.get(name, name): array for name, array in exported.arrays.items()},
        tied={weights.get(k, k): weights.get(v, v) for k, v in exported.tied.items()},
    )
