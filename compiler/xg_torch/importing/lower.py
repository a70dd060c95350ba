"""A whole program as steps of the legend: every call by its rule, every error reported."""

from __future__ import annotations

from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.ir.dim import number
from xg_torch.importing import rules_layout as layout
from xg_torch.importing import rules_routing
from xg_torch.importing.define_op import define_op
from xg_torch.importing.diagram import Model, ModelStep, Weight
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
)
from xg_torch.importing.fixed import Fixed
from xg_torch.importing.fixed_rules import RULES as FIXED
from xg_torch.importing.known import Condition, Formula, Known, Lost, Mask
from xg_torch.importing.lowering import Dependent, Lowering
from xg_torch.importing.rules import FILLS, RULES
from xg_torch.importing.rules_blank import blank
from xg_torch.importing.rules_choice import chosen
from xg_torch.importing.rules_view import indexed, laid_out
from xg_torch.importing.splits import split_up
from xg_torch.importing.views import ModelValue, View

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


def _torn(model: Model, lowering: Lowering) -> frozenset[str]:
    """Weights of which the parts that are used do not make up the whole."""
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
        self.lowering.turned = self._turned(calls)
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

    def _turned(self, calls: list[AtenCall]) -> frozenset[str]:
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
            lowering.known[name] = View.of(lowering.weight(Weight(target)))
        elif kind == "constant":
            array = self.exported.arrays[target]
            lowering.fixed.constant(name, array)
            lowering.known[name] = Fixed(name, tuple(number(n) for n in array.shape))
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
            reason = problem.reason, problem.advice
            self.problems.append(NotSpoken(call.target, _place(call), *reason))
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
        routed = rules_routing.routed(lowering, name, formulas)
        if routed is not None:
            return routed
        fixed = name.removesuffix("_") if name.removesuffix("_") in FIXED else name
        if all(isinstance(each, Fixed) for each in formulas) and fixed in FIXED:
            return self._fixed(call, fixed)
        special = chosen(lowering, name, formulas) or blank(lowering, name, formulas)
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
            return laid_out(lowering, name)
        if name == "index":
            return indexed(lowering)
        if name not in RULES:
            grouped = "grouped_mm" in name
            raise Unspeakable("the language has no operator for it", GROUPED if grouped else "")
        return RULES[name](lowering)

    def _fixed(self, call: AtenCall, rule: str) -> Known:
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
