"""A whole program as steps of the legend: every call by its rule, every error reported."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.ir.dim import ZERO, number
from xg_torch.importing import rules_composed as composed
from xg_torch.importing import rules_elementwise as elementwise
from xg_torch.importing import rules_layout as layout
from xg_torch.importing import rules_product as products
from xg_torch.importing import rules_routing as routing
from xg_torch.importing.archive import Array
from xg_torch.importing.errors import NotAnInput, NotSpoken, Unspeakable
from xg_torch.importing.exported import (
    BOOL,
    INTEGERS,
    Argument,
    AtenCall,
    Exported,
    GraphInput,
    Ref,
    base_name,
    changes_in_place,
    needed_calls,
    reads,
    source_line,
)
from xg_torch.importing.fixed import RULES as FIXED
from xg_torch.importing.fixed import (
    Condition,
    Fixed,
    Formula,
    FormulaPart,
    Known,
    Lost,
    Mask,
    Operand,
)
from xg_torch.importing.lowering import Dependent, Lowering, is_narrow
from xg_torch.importing.views import Model, ModelStep, ModelValue, SizeClasses, View, Weight

# Which rule reads which aten call.


Rule = Callable[[Lowering], "Known | tuple[Known, ...]"]

# Tensors that take only the shape of another, and the number that fills them.
FILLS: Final[Mapping[str, int | None]] = {
    "zeros_like": 0,
    "ones_like": 1,
    "full_like": None,
    "new_zeros": 0,
    "new_ones": 1,
    "new_full": None,
}

# Of one number, which the operators of the language call the same.
FUNCTIONS: Final = (
    *("relu", "relu_", "silu", "silu_", "tanh", "sigmoid", "neg", "exp", "log"),
    *("sqrt", "rsqrt", "erf", "sin", "cos", "abs", "sign", "sign_", "floor", "floor_"),
)

RULES: Final[Mapping[str, Rule]] = {
    **composed.RULES,
    "linear": products.linear,
    "addmm": products.addmm,
    **dict.fromkeys(("matmul", "mm", "bmm"), products.matmul),
    "scaled_dot_product_attention": products.attention,
    "embedding": products.embedding,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), routing.convolution),
    **dict.fromkeys(("max_pool1d", "max_pool2d"), routing.pooling("maxpool")),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d"), routing.pooling("meanpool")),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), routing.whole_mean),
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d"), routing.upsample),
    "batch_norm": routing.batch_norm,
    **dict.fromkeys(("add", "add_"), elementwise.add),
    **dict.fromkeys(("mul", "mul_"), elementwise.multiply),
    "sub": elementwise.arithmetic("sub"),
    "rsub": elementwise.arithmetic("sub", swapped=True),
    **dict.fromkeys(("div", "div_"), elementwise.arithmetic("div")),
    "pow": elementwise.power,
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max"), elementwise.clamp),
    **{name: elementwise.function(name.removesuffix("_")) for name in FUNCTIONS},
    "square": elementwise.square,
    **dict.fromkeys(("detach", "detach_"), elementwise.detach),
    "gelu": elementwise.gelu,
    "glu": elementwise.gated_linear_unit,
    **dict.fromkeys(("dropout", "dropout_"), elementwise.dropout),
    **dict.fromkeys(("softmax", "_softmax"), products.softmax),
    "layer_norm": products.layer_norm,
    "rms_norm": products.rms_norm,
    "mean": products.reduction("mean"),
    "sum": products.reduction("sum"),
    "cumsum": products.running_sum,
    "argmax": products.arg_max,
    "one_hot": products.one_hot,
    "cross_entropy_loss": products.cross_entropy,
    "binary_cross_entropy_with_logits": products.binary_cross_entropy,
    "topk": routing.top,
    "cat": layout.concatenate,
    "stack": layout.stack,
    **dict.fromkeys(("chunk", "split", "split_with_sizes", "unbind"), layout.pieces),
    **dict.fromkeys(("masked_fill", "masked_fill_"), elementwise.masked_fill),
    "where": elementwise.where,
    **dict.fromkeys(("__and__", "bitwise_and", "logical_and"), elementwise.both),
    **dict.fromkeys(("__or__", "bitwise_or", "logical_or"), elementwise.either),
    **dict.fromkeys(("bitwise_not", "logical_not"), elementwise.negation),
    "eq": elementwise.compare(lambda b: {0: False, 1: True}.get(int(b))),
    "ne": elementwise.compare(lambda b: {0: True, 1: False}.get(int(b))),
    "gt": elementwise.compare(lambda b: True if b == 0 else None),
    "ge": elementwise.compare(lambda b: True if b == 1 else None),
    "lt": elementwise.compare(lambda b: False if b == 1 else None),
    "le": elementwise.compare(lambda b: False if b == 0 else None),
    **dict.fromkeys(("to", "_to_copy", "type_as"), elementwise.cast),
}


# Gathered arithmetic as a step: a node of the legend where one computes it, else a defined op.


NODES: Final = ("tanh", "sigmoid")  # functions that are nodes of their own


def define_op(lowering: Lowering, formula: Formula) -> View:
    """The step that a formula becomes: a node of the legend if there is one, else a defined op."""
    plain = _plain(lowering, formula)
    if plain is not None:
        return plain
    activation = _activation(formula)
    if activation is not None:
        node, word = activation
        attrs = {"word": word} if node == "GELU" else {}
        return lowering.keep(node, formula.operands[0], **attrs)
    narrow = tuple(is_narrow(view) for view in formula.operands)
    if all(narrow):
        narrow = (False,) * len(narrow)  # vectors among themselves are repeated along nothing
    wide = [view for view, small in zip(formula.operands, narrow, strict=True) if not small]
    reducing = any(formula.reduced) or len(wide) < len(formula.operands)
    main = lowering.isolate_last_axis(wide[0]) if reducing else wide[0]
    if main.repeats:
        main = lowering.materialize(main)
    values = [
        _laid_out(lowering, main, wide[0], view, small=small)
        for view, small in zip(formula.operands, narrow, strict=True)
    ]
    _hint_latent(lowering, main, reducing=any(formula.reduced) and any(narrow))
    last_is_reduced = formula.reduced[-1]
    axes = main.value.axes[:-1] if last_is_reduced else main.value.axes
    value = lowering.emit("op", values, axes, formula=(formula.parts, formula.reduced, narrow))
    if last_is_reduced:
        return View(value, main.base[:-1], (*main.axes[:-1], ()))
    return main.on(value)


def _hint_latent(lowering: Lowering, view: View, *, reducing: bool) -> None:
    """A name for the width of what a norm follows at once: a latent, and nothing hidden."""
    projected = lowering.made_by(view, "•")
    last = view.value.axes[-1] if view.value.axes else None
    if reducing and last is not None and projected and projected.data[1] in lowering.weights:
        lowering.sizes.hint(last, "D_c", 2)


def _laid_out(
    lowering: Lowering, main: View, first: View, view: View, *, small: bool
) -> ModelValue:
    if view is first:
        return main.value
    if small:
        size, own = main.value.axes[-1], view.value.axes[-1]
        if size is None or own is None:
            raise Unspeakable("it multiplies along an axis of length 1")
        lowering.sizes.equal(size, own)
        return view.value
    return lowering.broadcast_together(main, view)[1]


def _plain(lowering: Lowering, formula: Formula) -> View | None:
    """The node of a formula of one part: a product with a number, or a function of its own."""
    if len(formula.parts) != 1:
        return None
    match formula.parts[0]:
        case "mul", (Operand(), float() as c) | (float() as c, Operand()):
            return _emit_scale(lowering, formula.operands[0], c)
        case "div", (Operand(), float() as c):
            return _emit_scale(lowering, formula.operands[0], 1 / c)
        case function, (Operand(),) if function in NODES:
            return lowering.keep(function, formula.operands[0])
        case _:
            return None


def _emit_scale(lowering: Lowering, view: View, c: float) -> View:
    product = lowering.made_by(view, "•")
    contracted = product.attrs.get("contracted", ()) if product is not None else ()
    return lowering.keep("scale", view, c=c, contracted=contracted)


def _activation(formula: Formula) -> tuple[str, str] | None:
    """The node that a function of one number is, if it has the same values as one everywhere."""
    if len(formula.operands) != 1 or any(formula.reduced):
        return None
    if formula.parts in RELU:
        return "ReLU", ""
    if any(function not in FORMULA_FUNCTIONS for function, _ in formula.parts):
        return None
    with np.errstate(all="ignore"):
        array = _values(formula, TRIED)
        for (node, word), function in ACTIVATIONS.items():
            off = np.abs(array - function(TRIED)) / np.maximum(np.abs(TRIED), 1)
            if off.max() <= 1e-13:
                return node, word
    return None


def _values(formula: Formula, x: Array) -> Array:
    """The results of arithmetic of one operand for some numbers."""
    results: list[Array] = []
    for function, terms in formula.parts:
        values: list[Any] = [
            x if isinstance(t, Operand) else results[t.place] if isinstance(t, FormulaPart) else t
            for t in terms
        ]
        results.append(FORMULA_FUNCTIONS[function](*values))
    return results[-1]


def _erf(x: Array) -> Array:
    return np.array([math.erf(each) for each in x])


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _select(a: Array, b: Array, yes: Array, no: Array) -> Array:
    return np.where(a > b, yes, no)


FORMULA_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "neg": np.negative,
    **{name: getattr(np, name) for name in ("exp", "log", "sqrt", "tanh", "sin", "cos", "abs")},
    "rsqrt": _rsqrt,
    "select": _select,
    "erf": _erf,
    "sigmoid": _sigmoid,
}

SPREAD: Final = np.geomspace(1e-12, 1e12, 400)  # on both sides of the bounds that models have
TRIED: Final = np.concatenate([-SPREAD, np.linspace(-9.0, 9.0, 1009), SPREAD])
ACTIVATIONS: Final[Mapping[tuple[str, str], Callable[[Array], Array]]] = {
    ("GELU", ""): lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ("GELU", "exact"): lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    ("SiLU", ""): lambda x: x * _sigmoid(x),
    ("sigmoid", ""): _sigmoid,
    ("tanh", ""): np.tanh,
}
# Choices whose slope at 0 is that of ReLU; that of clamp(min=0) is 1, of max(x, 0) 1/2.
RELU: Final = (
    (("select", (Operand(0), 0.0, Operand(0), 0.0)),),
    (("select_at_least", (0.0, Operand(0), 0.0, Operand(0))),),
)


# Slices that are all of an axis, one behind the other: one `split`.


def split_up(
    steps: Sequence[ModelStep], kept: Sequence[ModelValue], sizes: SizeClasses
) -> list[ModelStep]:
    """The steps with a split in the place of slices that take their operand apart."""
    readers: dict[ModelValue, list[ModelStep]] = {}
    for step in steps:
        for value in step.operands:
            readers.setdefault(value, []).append(step)
    splits: dict[ModelStep, ModelStep] = {}
    gone: set[ModelStep] = set()
    for value, slices in readers.items():
        if value not in kept and _apart(value, slices, sizes):
            ordered = sorted(slices, key=lambda step: step.attrs["start"].constant)
            outputs = tuple(step.outputs[0] for step in ordered)
            first = slices[0]
            splits[first] = ModelStep("split", (value,), outputs, first.stack, (), {"axis": -1})
            gone |= set(slices)
    return list(_replace_steps(steps, splits, gone))


def _replace_steps(
    steps: Sequence[ModelStep], splits: dict[ModelStep, ModelStep], gone: set[ModelStep]
) -> Iterator[ModelStep]:
    for step in steps:
        if step in splits:
            yield splits[step]
        elif step not in gone:
            yield step


def _apart(value: ModelValue, slices: Sequence[ModelStep], sizes: SizeClasses) -> bool:
    """Whether all that reads a value are slices that are all of its last axis, in one module."""
    if len(slices) < 2 or value.axes[-1] is None:
        return False
    if any(step.operator != "slice" or step.attrs["axis"] != -1 for step in slices):
        return False
    if len({step.stack for step in slices}) > 1:
        return False
    cuts = [(step.attrs["start"], step.attrs["stop"]) for step in slices]
    if any(start.constant is None or stop.constant is None for start, stop in cuts):
        return False
    end = ZERO
    for start, stop in sorted(cuts, key=lambda cut: cut[0].constant):
        if start != end:
            return False
        end = stop
    return end == sizes.dim(value.axes[-1])


CASTS: Final = ("to", "_to_copy")  # of element types, which say nothing here
PICTURE: Final = 4  # axes of an input that is no row of features
GROUPED: Final = "model.set_experts_implementation('batched_mm') before the export says the same"
IGNORED: Final = (
    "_assert_tensor_metadata",
    "_assert_scalar",
    "sym_constrain_range",
    "_assert_async",
)


def lower(exported: Exported) -> Model:
    """The steps of a program; raises DiagnosticError with all that cannot be said.

    A fused weight (queries, keys and values in one matrix) is taken apart where only its parts are
    used; where that fails, everything is read again with the matrix whole.
    """
    whole: frozenset[str] = frozenset()
    while True:
        lowering = Lowering(exported, whole, define_op)
        model = _ProgramReader(lowering).model()
        torn = _torn(model, lowering)
        if not torn:
            return model
        whole |= torn


def is_read(target: str) -> bool:
    """Whether some rule reads a call of torch."""
    name = base_name(target)
    known = (*RULES, *layout.RULES, *FIXED, *FILLS, *IGNORED, *layout.MADE, "index", "copy_")
    return not target.startswith("aten.") or name in known or name.removesuffix("_") in known


def _torn(model: Model, lowering: Lowering) -> frozenset[str]:
    """Return the weights whose used parts do not make up the whole."""
    used = {value for step in model.steps for value in step.operands if value in model.weights}
    torn: set[str] = set()
    for name in {model.weights[value].source for value in used}:
        parts = [w for w in (model.weights[v] for v in used) if w.source == name]
        cuts = sorted(
            (w.start, w.stop) for w in parts if w.start is not None and w.stop is not None
        )
        if not cuts:
            continue
        length = lowering.exported.arrays[name].shape[parts[0].axis]
        ends = [0, *(stop for _, stop in cuts)]
        starts = [*(start for start, _ in cuts), length]
        if len(cuts) < len(parts) or ends != starts:
            torn.add(name)
    return frozenset(torn)


class _ProgramReader:
    """Reads one program, and continues after a call that cannot be expressed."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.exported = lowering.exported
        self.problems: list[Problem] = []
        self.inputs: dict[str, ModelValue] = {}

    def model(self) -> Model:
        """All steps that the outputs need."""
        calls = needed_calls(self.exported)
        self.lowering.turned = self._transposable_weights(calls)
        for entry in self.exported.entries:
            if entry.name and entry.kind != "value":
                self._enter(entry, calls)
        for call in calls:
            self._read(call)
        outputs = [self._output(place, each) for place, each in enumerate(self.exported.outputs)]
        self._check_ranges()
        self._hint_outputs([output for output in outputs if output is not None])
        if self.problems:
            raise DiagnosticError.of(*dict.fromkeys(self.problems))
        values = [output for output in outputs if output is not None]
        steps = _alive(self.lowering.in_order(), values)
        steps = split_up(steps, values, self.lowering.sizes)
        used = {value for step in steps for value in step.operands} | set(values)
        inputs = {name: value for name, value in self.inputs.items() if value in used}
        lowering = self.lowering
        for name in (each for each in self.inputs if each not in inputs):
            lowering.notes[f"The model does not read its input {name}; the diagram has none."] = (
                None
            )
        return Model(
            inputs,
            steps,
            values,
            lowering.weights,
            lowering.ranges,
            lowering.sizes,
            tuple(lowering.notes),
            lowering.rounded,
        )

    def _transposable_weights(self, calls: list[AtenCall]) -> frozenset[str]:
        """Parameters that only linear layers, or only experts, read: they are kept as [in, out]."""
        names = {e.name: e.target for e in self.exported.entries if e.kind == "parameter"}
        readers: dict[str, set[tuple[str, str]]] = {}
        for call in calls:
            if base_name(call.target) in CASTS and (read := reads(call.args)):
                names |= {output: names[read[0]] for output in call.outputs if read[0] in names}
                continue
            for key, argument in call.args.items():
                for name in reads({key: argument}):
                    use = base_name(call.target), key
                    readers.setdefault(names.get(name, ""), set()).add(use)
        alone = [{("linear", "weight")}, {("index", "self")}]
        return frozenset(name for name, uses in readers.items() if uses in alone)

    def _enter(self, entry: GraphInput, calls: list[AtenCall]) -> None:
        lowering = self.lowering
        kind, name, target = entry.kind, entry.name, entry.target
        if kind != "user" and target not in self.exported.arrays:
            self.problems.append(NotAnInput(target, "the file does not hold its numbers"))
            lowering.known[name] = Lost()
        elif kind == "parameter":
            lowering.known[name] = View.of(lowering.weight(Weight(target, frozen=entry.frozen)))
        elif kind == "constant":
            array = self.exported.arrays[target]
            lowering.fixed.constant(name, array)
            lowering.known[name] = Fixed(name, tuple(number(n) for n in array.shape))
            if array.dtype.kind == "f":
                lowering.tables[name] = target
            if entry.saved:
                lowering.buffers[name] = target
        else:
            self._user_input(name, calls)

    def _user_input(self, name: str, calls: list[AtenCall]) -> None:
        meta = self.exported.metas[name]
        lowering = self.lowering
        if meta.shape is None:
            self.problems.append(NotAnInput(name, "its shape is no product of sizes"))
            lowering.known[name] = Lost()
            return
        kind = "int" if meta.dtype in INTEGERS or meta.dtype == BOOL else "float"
        sizes = [None if dim.constant == 1 else lowering.sizes.make(dim) for dim in meta.shape]
        if kind == "float" and sizes and sizes[-1] is not None and len(sizes) < PICTURE:
            lowering.sizes.hint(sizes[-1], "D", 3)
        for size, word in zip(sizes, ("B", "S"), strict=False):
            if size is not None and lowering.sizes.dim(size).constant is None:
                lowering.sizes.hint(size, word, 1)
        value = ModelValue(tuple(sizes), kind)
        self.inputs[name] = value
        view = View.of(value)
        if meta.dtype == BOOL:
            lowering.ranges[value] = lowering.sizes.make(number(2))
            lowering.known[name] = Mask((Condition(view),))
        else:
            lowering.known[name] = view

    def _read(self, call: AtenCall) -> None:
        lowering = self.lowering
        lowering.call = call
        lowering.time += 1
        name = base_name(call.target)
        if name in IGNORED:
            return
        try:
            result = self._result(call, name)
        except Dependent:
            result = tuple(Lost() for _ in call.outputs)
        except Unspeakable as problem:
            reason, line = (problem.reason, problem.advice), source_line(call.trace)
            self.problems.append(NotSpoken(call.target, _place(call), *reason, line))
            result = tuple(Lost() for _ in call.outputs)
        results = result if isinstance(result, tuple) else (result,)
        for each in results:
            if isinstance(each, Formula):
                lowering.origins.setdefault(each, (call, lowering.time))
        lowering.known |= dict(zip(call.outputs, results, strict=False))
        if changes_in_place(call.target):
            changed = call.args.get("self", call.args.get("input"))
            if isinstance(changed, Ref):
                lowering.known[changed.name] = results[0]

    def _result(self, call: AtenCall, name: str) -> Known | tuple[Known, ...]:
        lowering = self.lowering
        formulas = [lowering.known.get(each, Lost()) for each in reads(call.args)]
        if any(isinstance(each, Lost) for each in formulas):
            raise Dependent
        routed = routing.route_call(lowering, name, formulas)
        if routed is not None:
            return routed
        fixed = name.removesuffix("_") if name.removesuffix("_") in FIXED else name
        if all(isinstance(each, Fixed) for each in formulas) and fixed in FIXED:
            return self._note_fixed_call(call, fixed)
        special = routing.chosen(lowering, name, formulas) or layout.blank(lowering, name, formulas)
        if special is not None:
            return special
        if name in FILLS:
            shape: tuple[Argument, ...] = tuple(lowering.shape_of_output())
            value = FILLS[name] if FILLS[name] is not None else lowering.argument("fill_value")
            args = {**call.args, "size": shape, "fill_value": value}
            args.pop("self", None)
            lowering.fixed.call(call.outputs[0], "full", args)
            return Fixed(call.outputs[0], lowering.shape_of_output())
        if name in layout.RULES:
            return layout.laid_out(lowering, name)
        if name == "index":
            return layout.index_layout(lowering)
        if name not in RULES:
            grouped = "grouped_mm" in name
            raise Unspeakable("the language has no operator for it", GROUPED if grouped else "")
        return RULES[name](lowering)

    def _note_fixed_call(self, call: AtenCall, rule: str) -> Known:
        (output,) = call.outputs
        name = output if output not in self.lowering.fixed else f"{output}'"
        args = {key: self._fixed_argument(argument) for key, argument in call.args.items()}
        self.lowering.fixed.call(name, rule, args)
        return Fixed(name, self.lowering.shape(output))

    def _fixed_argument(self, argument: Argument) -> Argument:
        """The names of fixed values: one that was changed in place has another."""
        if isinstance(argument, tuple):
            return tuple(self._fixed_argument(item) for item in argument)
        if isinstance(argument, Ref):
            formula = self.lowering.known[argument.name]
            assert isinstance(formula, Fixed)
            return Ref(formula.name)
        return argument

    def _output(self, place: int, argument: Argument) -> ModelValue | None:
        if not isinstance(argument, Ref):
            advice = "return tensors only"
            self.problems.append(NotAnInput(f"output {place + 1}", "it is no tensor", advice))
            return None
        formula = self.lowering.known.get(argument.name, Lost())
        if isinstance(formula, Lost):
            return None
        self.lowering.call = AtenCall("", {}, (), ())
        self.lowering.time += 1
        try:
            return self.lowering.materialize(self.lowering.view(formula)).value
        except Unspeakable as problem:
            self.problems.append(NotAnInput(f"output {place + 1}", problem.reason))
            return None

    def _hint_outputs(self, outputs: list[ModelValue]) -> None:
        """Logits are over the vocabulary, if they are as many; else over classes."""
        sizes = self.lowering.sizes
        words = {sizes.dim(size) for size, hints in sizes.hints.items() if "V" in hints}
        for output in outputs:
            last = output.axes[-1] if output.axes else None
            if last is not None and not sizes.is_part(last):
                sizes.hint(last, "V" if sizes.dim(last) in words else "N_C", 2)

    def _check_ranges(self) -> None:
        for name, value in self.inputs.items():
            used = any(value in step.operands for step in self.lowering.steps)
            if value.kind == "int" and used and value not in self.lowering.ranges:
                why = "its integers index nothing, so their range is unknown"
                self.problems.append(NotAnInput(name, why))


def _place(call: AtenCall) -> str:
    scope = call.stack[-1] if call.stack else None
    if scope is None or not scope.path:
        return "the model"
    return f"{scope.path} ({scope.kind.rpartition('.')[2]})"


def _alive(steps: list[ModelStep], outputs: list[ModelValue]) -> list[ModelStep]:
    """The steps that outputs depend on, in order."""
    needed = set(outputs)
    model_steps: list[ModelStep] = []
    for step in reversed(steps):
        if needed & set(step.outputs):
            model_steps.append(step)
            needed |= set(step.operands)
    return model_steps[::-1]
