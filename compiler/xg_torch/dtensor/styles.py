"""Find the layers of a placed program, and choose the parallel style of each along a mesh axis.

A layer whose weight is cut in columns or rows has a style of its own, which also takes the input as
it comes and leaves the output as it is wanted. All other moves have their place at the border of a
module (`borders`).
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Literal

from xg.codegen.errors import NoParallelStyle
from xg.diagnostics.diagnostic import DiagnosticError, Span
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.graph import Apply, Call, Graph, IRProgram, Step, Value
from xg.ir.moves import collective
from xg.ir.placement import FAMILY, INVARIANT, AxisState
from xg.ir.walk import join
from xg_runtime import names
from xg_runtime.errors import InputError
from xg_runtime.names import Names

# Find the layers of a placed program, and the modules of torch that hold their parameters.
#
# A matrix with its bias is a linear layer, a table an embedding; any other operator that takes a
# tensor and parameters of one axis is a norm. Any other reader of one is a `loose` use.


# The refusal of what torch cannot say, with the reason and the place.


@dataclass(frozen=True)
class Refusal:
    """The refusal of a plan by its name."""

    plan: str

    def __call__(self, span: Span, reason: str, instead: str) -> DiagnosticError:
        """Return the error to raise."""
        return DiagnosticError.of(NoParallelStyle(span, self.plan, reason, instead))


# The names of the modules of torch that hold the parameters of a diagram.


@dataclass(frozen=True)
class ModuleNames:
    """The module of each parameter, `*` for the number of a layer, and how its code calls it.

    `second` is the module that holds a parameter once more, as a head that is tied to a table;
    `fused` are parameters that share one tensor of their module with others; `keywords` name the
    argument by which the code gives a module its input.
    Without a name a module is called after its parameter, a bias belongs to its matrix.
    """

    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    second: Mapping[str, str] = field(default_factory=dict[str, str])
    fused: frozenset[str] = frozenset()
    keywords: Mapping[str, str] = field(default_factory=dict[str, str])
    is_given: bool = False

    def module(self, param: str) -> str:
        """The module of a parameter."""
        return self.modules[param] if self.is_given else param

    def again(self, param: str) -> str | None:
        """The module that uses a parameter as its second; None where nothing names it."""
        return self.second.get(param)

    def of_call(self, path: str, params: Iterable[str]) -> str | None:
        """The module of a call, whose parameters these are; None where it is no module of its own.

        That is the longest path that leads to all of their modules.
        """
        if not self.is_given:
            return path
        paths = [self.modules[param].split(".")[:-1] for param in params]
        shared: list[str] = []
        for parts in zip(*paths, strict=False):
            if len(set(parts)) > 1:
                break
            shared.append(parts[0])
        return ".".join(shared) or None


LayerKind = Literal["linear", "table", "norm", "loose"]


@dataclass(frozen=True, eq=False)
class Layer:
    """One use of parameters: `weights` are these, by their paths, and `operand` the first as used.

    `data` is what goes in, None where that is no tensor of the graph, and `out` what comes out,
    behind the bias and the sum over ranks. `sums` are the moves that this sum is.
    """

    kind: LayerKind
    weights: tuple[str, ...]
    operand: Value
    step: Apply
    data: Value | None
    out: Value
    sums: tuple[Apply, ...] = ()


@dataclass(frozen=True, eq=False)
class LayerSite:
    """A graph of a placed program where it is called: `path` has `*` for the number of a round."""

    graph: Graph
    path: str

    @cached_property
    def makers(self) -> Mapping[Value, Step]:
        """The step that makes each value."""
        return {value: step for step in self.graph.steps for value in step.outputs}

    def readers(self, value: Value) -> list[Step]:
        """The steps that read a value."""
        return self._readers.get(value, [])

    @cached_property
    def _readers(self) -> Mapping[Value, list[Step]]:
        found: dict[Value, list[Step]] = {}
        for step in self.graph.steps:
            for value in dict.fromkeys(step.inputs):
                found.setdefault(value, []).append(step)
        return found

    def param(self, value: Value) -> Value | None:
        """The parameter that a value is, moved or transposed; None for what is computed."""
        while value.role != "param":
            maker = self.makers.get(value)
            is_same = isinstance(maker, Apply) and (is_move(maker) or maker.op.name == "transpose")
            if not is_same or maker is None:
                return None
            value = maker.inputs[0]
        return value

    def path_of(self, param: Value) -> str:
        """The path of a parameter below the program."""
        return join(self.path, str(param.name))

    @cached_property
    def layers(self) -> list[Layer]:
        """The layers of the graph, in file order."""
        return list(self._layers())

    def _layers(self) -> Iterator[Layer]:
        biases: set[Step] = set()
        for step in self.graph.steps:
            if isinstance(step, Call) or is_move(step) or step.op.name == "transpose":
                continue
            params = {value: param for value in step.inputs if (param := self.param(value))}
            if not params or step in biases:
                continue
            operand, *_ = params
            paths = tuple(self.path_of(param) for param in params.values())
            if step.op.name == "matmul" and list(params) == [step.inputs[1]]:
                yield self._linear(step, operand, paths, biases)
            elif step.op.name == "embedding":
                yield Layer("table", paths, operand, step, step.inputs[0], *self._sum(step))
            elif step.op.name == "broadcast" and self._adds_to_linear(step):
                continue  # found with its matrix
            else:
                data = [value for value in step.inputs if value not in params]
                is_norm = len(data) == 1 and step.op.family not in ("layout", "add", "matmul")
                kind: LayerKind = "norm" if is_norm else "loose"
                into = data[0] if is_norm else None
                yield Layer(kind, paths, operand, step, into, step.outputs[0])

    def _linear(
        self, step: Apply, operand: Value, paths: tuple[str, ...], biases: set[Step]
    ) -> Layer:
        out, sums = self._sum(step)
        added = self._bias(out)
        if added is not None:
            wide, out = added
            biases.add(wide)
            param = self.param(wide.inputs[0])
            assert param is not None
            paths = (*paths, self.path_of(param))
            later, more = self._sum_of(out)
            out, sums = later, (*sums, *more)
        return Layer("linear", paths, operand, step, step.inputs[0], out, sums)

    def _adds_to_linear(self, wide: Apply) -> bool:
        """Whether a parameter that is made as wide as a tensor is added to a product."""
        readers = self.readers(wide.outputs[0])
        (step, *more) = readers or [None]
        if more or not isinstance(step, Apply) or step.op.name != "add":
            return False
        (other,) = [value for value in step.inputs if value is not wide.outputs[0]] or [None]
        while other is not None:
            maker = self.makers.get(other)
            if not isinstance(maker, Apply):
                return False
            if maker.op.name == "matmul":
                return self.param(maker.inputs[1]) is not None
            other = maker.inputs[0] if is_move(maker) else None
        return False

    def _bias(self, product: Value) -> tuple[Apply, Value] | None:
        """The parameter that is added to a product, made as wide, and the sum."""
        readers = self.readers(product)
        if len(readers) != 1 or not isinstance(readers[0], Apply) or readers[0].op.name != "add":
            return None
        for value in readers[0].inputs:
            maker = self.makers.get(value)
            if not isinstance(maker, Apply) or maker.op.name != "broadcast":
                continue
            if self.param(maker.inputs[0]) is not None:
                return maker, readers[0].outputs[0]
        return None

    def _sum(self, step: Apply) -> tuple[Value, tuple[Apply, ...]]:
        return self._sum_of(step.outputs[0])

    def _sum_of(self, value: Value) -> tuple[Value, tuple[Apply, ...]]:
        """The sum over ranks of what is a term, and the moves that make it."""
        sums: list[Apply] = []
        while True:
            moves = [step for step in self.readers(value) if isinstance(step, Apply)]
            if len(self.readers(value)) != 1 or len(moves) != 1 or not is_move(moves[0]):
                return value, tuple(sums)
            if moves[0].attrs["source"].kind != "P":
                return value, tuple(sums)
            sums.append(moves[0])
            value = moves[0].outputs[0]


@dataclass(frozen=True)
class Layers:
    """All layers of a placed program; every call is entered once under each path."""

    program: IRProgram
    sites: list[LayerSite] = field(default_factory=list[LayerSite])

    @classmethod
    def of(cls, program: IRProgram) -> Layers:
        """Walk from the entry to all that it calls."""
        waiting, found = [LayerSite(program.main, "")], list[LayerSite]()
        while waiting:
            site = waiting.pop(0)
            found.append(site)
            waiting += [callee_site(site, call, program) for call in site.graph.named_calls()]
        return cls(program, found)

    @cached_property
    def params(self) -> list[tuple[str, Value, LayerSite]]:
        """The parameters by their paths, each where its block declares it."""
        return [
            (site.path_of(param.value), param.value, site)
            for site in self.sites
            for param in site.graph.params
        ]


def callee_site(site: LayerSite, call: Call, program: IRProgram) -> LayerSite:
    """The graph that a call runs, where it does."""
    path = join(site.path, call.path)
    return LayerSite(program.callee(call), path if call.count is None else f"{path}.*")


def is_move(step: Step) -> bool:
    """Whether a step only changes the placement of a tensor."""
    return isinstance(step, Apply) and step.op.family == FAMILY


def is_cast(step: Step) -> bool:
    """Tell whether a step moves nothing: ranks use what they have in another way."""
    record = collective(step.op) if isinstance(step, Apply) else None
    return record is not None and record.is_free


# The modules of somebody's code by the parameters of a diagram, as a file of names has them.


def module_names(options: Namespace, program: IRProgram) -> ModuleNames:
    """The names of the modules of a program's parameters, as `--map` or the diagram has them.

    Raises FileError, and InputError where a file of names does not fit.
    """
    return ModuleNames() if options.names is None else named_by(names.read(options.names), program)


def named_by(given: Names, program: IRProgram) -> ModuleNames:
    """The names that a file gives; raises InputError for layers that torch cannot find by them."""
    modules: dict[str, str] = {}
    for line in given.lines:
        if "{" in line.tensor:
            raise InputError(
                f"{given.source}: {line.tensor} names some layers only, but patterns of "
                "PyTorch name all of them: write * for the number"
            )
        modules |= dict.fromkeys(line.params, line.tensor.rpartition(".")[0])
    for param, *_ in Layers.of(program).params:
        if param not in modules:
            raise InputError(
                f"{given.source} must name {param} of {program.main.block}: add a line for it"
            )
    held = {line.tensor: line.params for line in given.lines}
    second = {
        held[original][0]: copy.rpartition(".")[0]
        for copy, original in given.tied.items()
        if original in held
    }
    fused = {param for params in held.values() if len(params) > 1 for param in params}
    _refuse_strange(given)
    return ModuleNames(modules, second, frozenset(fused), given.keywords, is_given=True)


def _refuse_strange(given: Names) -> None:
    """Raise InputError for the keyword of what is no module, or that is no name itself."""
    for module, keyword in given.keywords.items():
        if not any(line.tensor.startswith(f"{module}.") for line in given.lines):
            raise InputError(
                f"{given.source}: [keywords] names {module}, but no tensor of the file is in it"
            )
        if not keyword.isidentifier():
            raise InputError(
                f"{given.source}: the keyword of {module} must be the name of an argument; "
                f"found {keyword!r}"
            )


# A placed program along one axis of its mesh, in the words of torch.


@dataclass(frozen=True)
class Style:
    """The call of one style for the modules of a name: its class, and its arguments by name."""

    module: str
    kind: str
    arguments: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Along:
    """The layers of a program, the modules that hold them, and the axis."""

    layers: Layers
    names: ModuleNames
    refusal: Refusal
    axis: str

    def state(self, site: LayerSite, value: Value) -> AxisState:
        """The state of a value on the axis."""
        return site.graph.placements.get(value, {}).get(self.axis, INVARIANT)

    def is_over(self, step: Apply) -> bool:
        """Whether a step moves something along the axis that is no free cast."""
        over: str = step.attrs["over"] if is_move(step) else ""
        return self.axis in over.split("*") and not is_cast(step)

    def layout(self, site: LayerSite, value: Value, state: AxisState | None = None) -> str:
        """The placement of a value, in torch's words."""
        state = state or self.state(site, value)
        if state.kind == "S":
            return f"Shard({len(site.graph.types[value].shape) + state.axis})"
        if not state.is_uniform:
            raise self.refusal(
                value.span,
                f"{value.name or 'a sum'} of {site.graph.block} stays a term of a sum",
                "torch sums where a layer ends",
            )
        return "Replicate()"

    def name(self, layer: Layer) -> str | None:
        """The module of a layer; None for a second use of a parameter that has no module."""
        (path, *_) = layer.weights
        if not self.is_second(layer):
            return self.names.module(path)
        return self.names.again(path)

    def is_second(self, layer: Layer) -> bool:
        """Whether another layer before it has the same weight."""
        uses = [
            each for site in self.layers.sites for each in site.layers
            if each.weights[0] == layer.weights[0]
        ]  # fmt: skip
        return uses[0].step is not layer.step

    def module_of(self, site: LayerSite, call: Call) -> str | None:
        """The module of a call; None where its layers belong to the module around it."""
        inner = callee_site(site, call, self.layers.program).path
        params = [path for path, *_ in self.layers.params if path.startswith(f"{inner}.")]
        path = self.names.of_call(inner, params) if params else None
        beside = [path for path, *_ in self.layers.params if path.startswith(f"{site.path}.")]
        around = self.names.of_call(site.path, beside) if site.path and beside else ""
        if path is None or path == around:
            return None
        return path.removesuffix(".*") if call.count is not None else path

    def inner(self, site: LayerSite, call: Call) -> LayerSite:
        """The site of what a call runs."""
        path = callee_site(site, call, self.layers.program).path
        return next(each for each in self.layers.sites if each.path == path)


# Moves between layers: each has its place at the border of a module, or is refused.
#
# A layer whose weight is cut in columns takes its input as it comes. Else a style prepares the
# input of the module that alone reads what is moved, or the output of the one that makes it.


@dataclass(frozen=True)
class Borders:
    """Collect the styles for inputs, and for outputs, which follow the layers' own styles.

    `taken` is how the input of a layer comes, where that is not how it is used; `given` how its
    output is wanted, where that is not what its graph makes of it.
    """

    along: Along
    inputs: list[Style] = field(default_factory=list[Style])
    outputs: list[Style] = field(default_factory=list[Style])
    taken: dict[Layer, AxisState] = field(default_factory=dict[Layer, AxisState])
    given: dict[Layer, AxisState] = field(default_factory=dict[Layer, AxisState])

    def place(self, site: LayerSite, move: Apply) -> None:
        """Find the module at whose border something is moved."""
        (value,), (result,) = move.inputs, move.outputs
        source, target = move.attrs["source"], move.attrs["target"]
        if source.kind == "P" and not site.graph.types[value].shape:
            return  # of the loss, which is summed as its terms are made
        readers = site.readers(result)
        if site.param(value) is not None:
            raise self.along.refusal(
                value.span,
                f"{site.path_of(value)} rests in other pieces than it is used in",
                "only over an axis of rows, by fully_shard",
            )
        style = self._prepared_input(site, readers, result, source, target)
        column = None if style else self._column(site, readers, result)
        if self._is_sum_of_call(site, value, target):
            pass
        elif style is not None:
            self.inputs.append(style)
        elif column is not None:
            self.taken[column] = source
        else:
            self.prepare_output(site, value, source, target)

    def _is_sum_of_call(self, site: LayerSite, value: Value, target: AxisState) -> bool:
        """Whether a move sums what the last layer of a call gives, which then gives the sum."""
        call = site.makers.get(value)
        if not isinstance(call, Call) or call.loop or len(site.readers(value)) != 1:
            return False
        there = self.along.inner(site, call)
        own = there.graph.outputs[call.outputs.index(value)]
        layer = next((layer for layer in there.layers if layer.out is own), None)
        if layer is None or self.along.state(there, own).kind != "P" or there.readers(own):
            return False
        self.given[layer] = target
        return True

    def _prepared_input(
        self,
        site: LayerSite,
        readers: list[Apply | Call],
        value: Value,
        source: AxisState,
        target: AxisState,
    ) -> Style | None:
        """The style of the call that alone reads a value that was moved, if it is a module."""
        if len(readers) != 1 or not isinstance(readers[0], Call) or readers[0].loop:
            return None
        call = readers[0]
        path = self.along.module_of(site, call)
        given = list(dict.fromkeys(call.inputs))
        if path is None or given != [value]:
            return None
        is_row = call.count is not None
        keyword = self.along.names.keywords.get(f"{path}.*" if is_row else path)
        comes, wanted = (self.along.layout(site, value, state) for state in (source, target))
        layouts = {"input_layouts": comes, "desired_input_layouts": wanted}
        if keyword is not None:
            layouts = {
                "input_kwarg_layouts": f'{{"{keyword}": {comes}}}',
                "desired_input_kwarg_layouts": f'{{"{keyword}": {wanted}}}',
            }
        layouts["use_local_output"] = "True"
        return Style(f"{path}.0" if is_row else path, "PrepareModuleInput", layouts)

    def _column(self, site: LayerSite, readers: list[Apply | Call], value: Value) -> Layer | None:
        """The layer that alone reads a value, here or in a call, if it is cut in columns."""
        if len(readers) != 1:
            return None
        (reader,) = readers
        if isinstance(reader, Call):
            if reader.count is not None or reader.loop or reader.inputs.count(value) != 1:
                return None
            there = self.along.inner(site, reader)
            own = there.graph.inputs[reader.inputs.index(value)]
            return self._column(there, there.readers(own), own)
        for layer in site.layers:
            is_column = layer.kind == "linear" and self.along.state(site, layer.operand).axis == -1
            if layer.step is reader and is_column and self.along.name(layer) is not None:
                return layer
        return None

    def prepare_output(
        self,
        site: LayerSite,
        value: Value,
        source: AxisState,
        target: AxisState,
        reader: Apply | None = None,
    ) -> None:
        """Let the layer that makes a value give it as all want it; raises DiagnosticError.

        Readers want it moved, but for the one that is named, which wants it so in torch.
        """
        made = value
        maker = site.makers.get(made)
        if isinstance(maker, Apply) and maker.op.name == "broadcast":
            made = maker.inputs[0]
        layer = next((layer for layer in site.layers if layer.out is made), None)
        alone = all(
            step is reader
            or (isinstance(step, Apply) and is_move(step) and step.attrs["target"] == target)
            for step in site.readers(value)
        )
        module = None if layer is None else self.along.name(layer)
        if layer is None or module is None or not alone or layer.kind == "loose":
            name = value.name or "a value"
            raise self.along.refusal(
                value.span,
                f"{name} of {site.graph.block} is moved inside of a module, from {source} to "
                f"{target} of {self.along.axis}",
                "a style prepares what a module takes and gives",
            )
        layouts = {
            "output_layouts": self.along.layout(site, made, source),
            "desired_output_layouts": self.along.layout(site, made, target),
        }
        self.outputs.append(Style(module, "PrepareModuleOutput", layouts))


@dataclass(frozen=True)
class Styles:
    """Hold the styles to apply first, the ones to apply after, and how to compute the loss.

    `cut` are sizes of which a rank has a part, `of_loss` the modules whose output a loss reads cut.
    """

    axis: str
    first: list[Style] = field(default_factory=list[Style])
    behind: list[Style] = field(default_factory=list[Style])
    tied: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])
    cut: dict[str, None] = field(default_factory=dict[str, None])
    of_loss: list[str] = field(default_factory=list[str])


def styles_along(along: Along) -> Styles:
    """Return the styles; raises DiagnosticError for what torch has no call for."""
    borders, sums = Borders(along), set[Apply]()
    sites = along.layers.sites
    for site in sites:
        for layer in site.layers:
            sums.update(layer.sums)
            _check(along, site, layer)
    for site in sites:
        for step in site.graph.steps:
            if isinstance(step, Apply) and along.is_over(step) and step not in sums:
                borders.place(site, step)
    found = Styles(along.axis, borders.inputs, borders.outputs)
    finder = _LayerStyles(along, borders, found)
    for site in sites:
        for layer in site.layers:
            finder.add(site, layer)
        _note_sizes(along, site, found)
    return found


def _check(along: Along, site: LayerSite, layer: Layer) -> None:
    """Raise DiagnosticError for parameters that no style divides as the plan does."""
    (path, *others) = layer.weights
    for other in others:
        if along.names.module(other) not in (along.names.module(path), other):
            raise along.refusal(
                layer.step.span,
                f"{other} is not in the module of {path}",
                "one nn.Linear has a matrix and its bias",
            )
    states = [along.state(site, value) for value in layer.step.inputs + layer.step.outputs]
    weight = along.state(site, layer.operand)
    if layer.kind in ("norm", "loose") and weight.kind == "S":
        raise along.refusal(
            layer.step.span,
            f"{path} is cut along {along.axis}, and belongs to no linear layer and no table",
            "torch cuts the columns or rows of nn.Linear and nn.Embedding",
        )
    if layer.kind == "loose" and any(not state.is_uniform for state in states):
        raise along.refusal(
            layer.step.span,
            f"{path} meets a tensor that is cut along {along.axis} outside of a layer",
            "torch divides what modules compute",
        )
    if weight.kind == "S" and along.name(layer) is None:
        raise along.refusal(
            layer.step.span,
            f"{path} is used twice, and the second use belongs to no module",
            'name it in the file of names: [tied] "head.weight" = …, with --map',
        )


@dataclass(frozen=True)
class _LayerStyles:
    """The styles of layers, added to what is found."""

    along: Along
    borders: Borders
    found: Styles

    def add(self, site: LayerSite, layer: Layer) -> None:
        """Add the style of a layer, if it needs one."""
        weight, data = self.along.state(site, layer.operand), layer.data
        if layer.kind == "loose" or data is None:
            return
        coming = self.borders.taken.get(layer, self.along.state(site, data))
        if weight.kind != "S":
            self._whole_weight(site, layer, data)
            return
        name = self.along.name(layer)
        assert name is not None
        if layer.weights[0] in self.along.names.fused:
            raise self.along.refusal(
                layer.step.span,
                f"{name} holds more than {layer.weights[0]}, and would be cut across all of it",
                "a layer for each of them",
            )
        is_column, is_table = weight.axis == -1, layer.kind == "table"
        arguments: dict[str, str] = {}
        if is_table or coming.is_uniform != is_column or (coming.kind == "S" and coming.axis != -1):
            arguments["input_layouts"] = self.along.layout(site, data, coming)
        made = self.borders.given.get(layer, self.along.state(site, layer.out))
        out = self.along.layout(site, layer.out, made)
        if made.is_uniform if is_column else made.kind == "S":
            arguments["output_layouts"] = out
        if self._is_into_loss(site, layer):
            arguments["use_local_output"] = "False"
            self.found.of_loss.append(name)
        kind = "ColwiseParallel" if is_column else "RowwiseParallel"
        self.found.first.append(Style(name, kind, arguments))
        if self.along.is_second(layer):
            self.found.tied[name] = self.along.names.module(layer.weights[0])

    def _whole_weight(self, site: LayerSite, layer: Layer, data: Value) -> None:
        """The style of a layer whose weight is whole: none, unless its input is cut."""
        state = self.along.state(site, data)
        if state.is_uniform:
            return
        name, shape = self.along.name(layer), site.graph.types[data].shape
        if layer.kind == "norm" and state.axis != -1 and name is not None:
            place = {} if len(shape) + state.axis == 1 else {
                "sequence_dim": str(len(shape) + state.axis)
            }  # fmt: skip
            style = Style(name, "SequenceParallel", {**place, "use_local_output": "True"})
            self.found.first.append(style)
        elif layer.kind == "linear" and self._is_into_loss(site, layer) and state.axis != -1:
            self.borders.prepare_output(site, data, state, INVARIANT, layer.step)
            self.found.notes.append(
                f"{data.name or 'a value'} is whole, where the plan leaves it cut: torch has no "
                "loss of logits that are cut by positions"
            )
        else:
            raise self.along.refusal(
                layer.step.span,
                f"{layer.weights[0]} is whole, and its input cut along {self.along.axis}",
                "a linear layer of torch has its columns or rows cut",
            )

    def _is_into_loss(self, site: LayerSite, layer: Layer) -> bool:
        """Whether a loss reads what a layer makes, cut."""
        readers = [step for step in site.readers(layer.out) if isinstance(step, Apply)]
        is_cut = self.along.state(site, layer.out).kind == "S"
        return is_cut and any(step.op.family == "loss" for step in readers)


def _note_sizes(along: Along, site: LayerSite, found: Styles) -> None:
    """Note which sizes a rank has a part of, of what is computed between layers."""
    for step in site.graph.steps:
        if isinstance(step, Apply) and step.op.name == "reshape":
            (value, *_) = step.outputs
            state = along.state(site, value)
            if state.kind == "S":
                found.cut[f"{site.graph.shape(value)[state.axis]}/{along.axis}"] = None
