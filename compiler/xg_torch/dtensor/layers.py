"""Find the layers of a placed program, and the modules of torch that hold their parameters.

A matrix with its bias is a linear layer, a table an embedding; any other operator that takes a
tensor and parameters of one axis is a norm. Any other reader of one is a `loose` use.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Literal

from xg.codegen.errors import NoParallelStyle
from xg.diagnostics.diagnostic import DiagnosticError, Span
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Call, Graph, IRProgram, Step, Value
from xg.ir.moves import collective
from xg.ir.parameters import join
from xg_runtime import names
from xg_runtime.errors import InputError
from xg_runtime.names import Names

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
                f"{given.source}: {line.tensor} counts some layers, and torch's patterns all of "
                "them: *"
            )
        modules |= dict.fromkeys(line.params, line.tensor.rpartition(".")[0])
    for param, *_ in Layers.of(program).params:
        if param not in modules:
            raise InputError(f"{given.source} names {param} of {program.main.block} nowhere")
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
            raise InputError(f"{given.source}: [keywords] names {module}, which holds no tensor")
        if not keyword.isidentifier():
            raise InputError(f"{given.source}: {keyword!r} of {module} is no name of an argument")
