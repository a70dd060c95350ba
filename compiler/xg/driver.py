"""From a file to a compiled program: the Python interface of the compiler.

program = xg.compile("mha.xg", block="MHA", sizes={"B": 2})
program.inputs, program.source(), program.render("backward", format="svg")
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Final, Literal, cast
from warnings import warn

from xg.codegen.backend import backends, find, load
from xg.cost.report import report, reports
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, resting_collector
from xg.frontend.project import Project, parse_project, read_project
from xg.frontend.typed import BlockTypers, Settings, type_project
from xg.ir.dim import Dim
from xg.ir.graph import IRProgram
from xg.ir.moves import clashes, differing_orders
from xg.ir.tensor import TensorType, spell_shape
from xg.ir.verify import BrokenProgram
from xg.ir.walk import how_many_params, param_specs, refuse_endless
from xg.packages import service
from xg.passes.pipelines import (
    BLOCKS,
    PARALLEL,
    PLACED,
    SINGLE,
    STEP,
    FusedPipelines,
    History,
    run,
    stage_histories,
)
from xg.sharding.apply_plan import cut_row
from xg.sharding.errors import ManyStages

if TYPE_CHECKING:
    import graphviz

    from xg.cost.report import CostReport, Machine
    from xg.figures import Format, ThemeName
    from xg.figures.model.figure import Figure
    from xg.ir.placement import Schedule
    from xg_runtime.generate import StepModule
    from xg_runtime.module import Module

View = Literal["forward", "backward", "overview"]
HEIGHT: Final = 720  # pixels of a page in a notebook
BACKENDS: Final = tuple(backends())  # first the one that the base install runs


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The type of a tensor: an axis is a number, or a formula if it has no number yet.

    `range` bounds integers: they are 0 … range-1. `placement` says which part of it a rank has,
    ``[D, D_ff/N_T]``, and is None on a single device. No gradient is taken of a frozen one.
    """

    shape: tuple[int | str, ...]
    dtype: Literal["float", "int"]
    placement: str | None = None
    range: int | str | None = None
    frozen: bool = False


@dataclass(frozen=True)
class Program:
    """A compiled block: `graphs` is the result of the passes, `project` the files it comes from.

    For a parallel program `graphs` is what one rank runs, `distributed` the program on global
    shapes with its moves, `single_device` the same program without moves. `history` has the
    program after every pass. Of a stage `whole` is the program whose pipeline it is part of.
    """

    graphs: IRProgram
    project: Project
    distributed: IRProgram | None = None
    single_device: IRProgram | None = None
    history: History | None = None
    whole: Program | None = None

    @cached_property
    def inputs(self) -> dict[str, TensorSpec]:
        """The tensors that enter by arrows, by their names, in file order."""
        main = self.graphs.main
        return {
            str(value.name): self._spec(main.types[value], frozen=value.frozen)
            for value in main.inputs
        }

    @cached_property
    def outputs(self) -> dict[str, TensorSpec]:
        """The tensors that leave, by their names, in file order."""
        main = self.graphs.main
        pairs = zip(main.output_names, main.outputs, strict=True)
        return {name: self._spec(main.types[value]) for name, value in pairs}

    @cached_property
    def params(self) -> dict[str, TensorSpec]:
        """Every parameter by its path (`layers.3.W_Q`), in file order."""
        return {
            path: self._spec(
                graph.sizes.expand_type(param.type).substitute(symbols), frozen=param.value.frozen
            )
            for path, param, graph, symbols in param_specs(self.graphs)
        }

    @cached_property
    def frozen(self) -> frozenset[str]:
        """The inputs and parameters that get no gradient."""
        specs = {**self.inputs, **self.params}
        return frozenset(name for name, spec in specs.items() if spec.frozen)

    @cached_property
    def on_one_device(self) -> Program:
        """The program on global tensors: what all ranks of a parallel program compute together.

        It is as without a plan, and a program of one device is itself.
        """
        if self.single_device is None:
            return self
        history = run(SINGLE, self.single_device)
        return Program(history.result, self.project, history=history)

    @property
    def mesh(self) -> Mapping[str, int]:
        """The number of ranks along each mesh axis, pipelines first."""
        stage = self.stages[0].graphs.stage if self.stages else self.graphs.stage
        outer = {stage.axis: stage.ranks} if stage else dict[str, int]()
        return {**outer, **self.graphs.mesh}

    @cached_property
    def schedule(self) -> Schedule | None:
        """The order of a pipeline's stages as the plan names it, if it does."""
        row = cut_row(self.single_device) if self.single_device else None
        return row.schedule if row else None

    @cached_property
    def stages(self) -> tuple[Program, ...]:
        """The programs of a pipeline's stages; none where the plan has no pipeline.

        Of N ranks rank r runs stage r, and N + r, 2N + r … where a schedule is interleaved; see
        `xg_runtime.ranks.pipeline`.
        """
        if self.single_device is None or self.graphs.stage is not None:
            return ()
        if cut_row(self.single_device) is None:
            return ()
        return tuple(
            Program(
                history.result,
                self.project,
                distributed=history.after("join"),
                single_device=self.single_device,
                history=history,
                whole=self,
            )
            for history in stage_histories(PLACED, self.single_device)
        )

    def communicators(self, *, kernels: bool = False) -> tuple[str, ...]:
        """The mesh axes, and products of axes, over which ranks call collectives.

        Each rank of a program makes the groups of all of them before it starts, in this order.
        """
        programs = [
            each.fused if kernels else each.graphs for each in self.stages or (self,) if each.mesh
        ]
        made = [each.communicators for each in programs]
        inner = {each: ranks for program in programs for each, ranks in program.mesh.items()}
        outer = [axis for axis, ranks in self.mesh.items() if ranks > 1 and axis not in inner]
        every = (*outer, *(made[0] if made else ()))
        if broken := [*differing_orders(made), *clashes(every, self.mesh)]:
            raise BrokenProgram("\n".join(broken))
        return every

    @resting_collector()
    def source(self, backend: str | None = None, *, kernels: bool = False) -> str:
        """The generated module; with `kernels` fused, and faster than it reads."""
        if self.stages:
            raise DiagnosticError.of(ManyStages(len(self.stages)))
        key = find(backend).name, kernels
        if key not in self._sources:
            graphs = self.fused if kernels else self.graphs
            self._sources[key] = _emitted(graphs, backend, kernels=kernels)
        return self._sources[key]

    @cached_property
    def _sources(self) -> dict[tuple[str, bool], str]:
        """The modules that were written already, by their backend, with kernels or without."""
        return {}

    @cached_property
    def fused(self) -> IRProgram:
        """The graphs with patterns replaced by fused operators: what kernels compute."""
        return self.fused_history.result

    @property
    def fused_history(self) -> History:
        """The graphs after each pass on the way to `fused`."""
        if self.single_device is not None:
            return self._fused_ranks
        fused = _fused()
        return run(fused.block if self.graphs.backwards else fused.step, self.graphs, "single")

    @property
    def fused_distributed(self) -> IRProgram | None:
        """The fused program as `distributed`; fusion may change where moves are needed."""
        return None if self.single_device is None else self._fused_ranks.after("join")

    @cached_property
    def _fused_ranks(self) -> History:
        assert self.single_device is not None
        if self.whole is None or self.graphs.stage is None:
            return run(_fused().rank, self.single_device)
        return self.whole._fused_stages[self.graphs.stage.place]

    @cached_property
    def _fused_stages(self) -> tuple[History, ...]:
        assert self.single_device is not None
        fused = _fused()
        return stage_histories(fused.placed, self.single_device, fused.stage)

    @property
    def views(self) -> tuple[View, ...]:
        """The figures of a block: an overview too if it calls others, or runs on ranks."""
        main = self.graphs.main
        has_backward = bool(self.graphs.backwards[self.graphs.entry].steps)
        has_overview = bool(main.calls) or self.distributed is not None
        return (
            "forward",
            *(("backward",) if has_backward else ()),
            *(("overview",) if has_overview else ()),
        )

    def figure(
        self,
        view: View,
        *,
        legend: bool = False,
        depth: int | None = None,
        compact: bool = False,
    ) -> Figure:
        """One view of the block as a figure that is not drawn yet.

        In an overview of one device calls are opened to a depth, 0 for none. In a `compact`
        backward pass, gradients of parameters are names beside the products that they come from.
        """
        from xg.figures.views import figure  # figures are drawn by few programs

        return figure(
            self.graphs,
            view,
            legend=legend,
            placed=self.distributed,
            depth=depth,
            compact=compact,
        )

    def dot(self, view: View = "forward", *, theme: ThemeName = "light") -> str:
        """A figure as styled DOT text."""
        from xg.figures import dot  # see figure

        return dot(self.figure(view), theme)

    def graphviz(self, view: View = "forward", *, theme: ThemeName = "light") -> graphviz.Source:
        """A figure as the object of the package graphviz: it shows itself, `.pipe`s and `.render`s.

        That package needs an installed Graphviz to draw; `render` does not.
        """
        from graphviz import Source  # for this method only

        name = f"{self.graphs.main.block}.{view}.dot"
        return Source(self.dot(view, theme=theme), filename=name)

    def render(
        self, view: View = "forward", format: Format = "svg", *, theme: ThemeName = "light"
    ) -> bytes:
        """Draw a figure; warn if it lacks something, such as a letter that no font has."""
        from xg.figures import pictures  # see figure

        drawn = pictures(self.figure(view), (format,), theme)
        if drawn.warning:
            warn(drawn.warning, stacklevel=2)
        return drawn.files[format]

    def __repr__(self) -> str:
        head = f"{self.graphs.main.block}({_listed(self.inputs)}) -> {_listed(self.outputs)}"
        return f"<Program {head}, {how_many_params(self.graphs)} parameters>"

    def _repr_svg_(self) -> str:
        """The forward figure for a notebook, light or dark as the page is."""
        return self.render("forward", "svg", theme="auto").decode()

    def explorer(self, height: int = HEIGHT) -> object:
        """The explorer as a page that a notebook shows, `height` pixels high.

        It is in the saved notebook, too, and works there without a kernel.
        """
        return service("explorer")(self, height)

    def load(self, backend: str | None = None, *, kernels: bool = False) -> ModuleType:
        """The generated module, imported, and not entered in `sys.modules`."""
        chosen = find(backend)
        chosen.require()
        refuse_endless(self.graphs)
        source = self.source(chosen.name, kernels=kernels)
        return load(source, f"{self.graphs.main.block}_{chosen.name}")

    def on_arrays(
        self, backend: str | None = None, dtype: str | None = None, *, kernels: bool = False
    ) -> Module:
        """The generated module on NumPy arrays, for any backend; `dtype` may be bfloat16."""
        module = self.load(backend, kernels=kernels)
        return cast("Module", find(backend).on_arrays(module, dtype))

    def step_on_arrays(self, backend: str | None = None, *, kernels: bool = False) -> StepModule:
        """The generated module of `step()` on NumPy arrays, for any backend."""
        module = self.step().load(backend, kernels=kernels)
        return cast("StepModule", find(backend).step_on_arrays(module))

    @resting_collector()
    def step(self, output: str | None = None) -> Program:
        """The same block position by position, with states (a KV cache) for what it must keep.

        It gives one output, by default the first with an axis of positions. Raises DiagnosticError
        where earlier positions depend on later ones.
        """
        return Program(service("step")(self.graphs, output), self.project)

    @resting_collector()
    def prologue(self, output: str | None = None) -> Program | None:
        """The part that runs before the first step, on inputs without positions; None if empty.

        An encoder runs once for a text: its output is an input of the decoder's step.
        """
        graphs: IRProgram | None = service("prologue")(self.graphs, output)
        return graphs and Program(run(STEP, graphs).result, self.project)

    def cost(self, dtype: str = "float32") -> CostReport:
        """Parameters, FLOPs, memory and communication of a rank, per operator and in total."""
        return report(self.graphs, self.distributed, dtype)

    def costs(
        self, dtype: str = "float32", machines: Sequence[Machine] = (), *, brief: bool = False
    ) -> tuple[CostReport, ...]:
        """The cost of a rank of every stage of a pipeline; without one, of a rank."""
        ranks = ((each.graphs, each.distributed) for each in self.stages or (self,))
        return reports(tuple(ranks), dtype, machines, brief=brief)

    def _spec(self, type_: TensorType, *, frozen: bool = False) -> TensorSpec:
        shape = tuple(self._size(dim) for dim in type_.shape)
        bound = self._size(type_.range) if type_.range else None
        sizes = self.graphs.main.sizes
        lies = spell_shape(sizes.fold_shape(type_.shape)) if self.distributed else None
        return TensorSpec(shape, "float" if type_.is_float else "int", lies, bound, frozen)

    def _size(self, dim: Dim) -> int | str:
        sizes = self.graphs.main.sizes
        numbers = sizes.bind(self.graphs.numbers)
        is_known = all(name in numbers for name in dim.symbols())
        return dim.evaluate(numbers) if is_known else str(sizes.fold(dim))


def _listed(tensors: Mapping[str, TensorSpec]) -> str:
    return ", ".join(f"{name} [{', '.join(map(str, t.shape))}]" for name, t in tensors.items())


def compile(
    path: str | os.PathLike[str] | None = None,
    block: str | None = None,
    plan: str | None = None,
    sizes: Mapping[str, int] | None = None,
    mesh: Mapping[str, int] | None = None,
    options: Mapping[str, str] | None = None,
    *,
    source: str | None = None,
) -> Program:
    """Compile a block of a file, or of a text given as `source`, by default the last one.

    `plan` is the name of a parallel plan of the file, or several with `×` between them; `mesh`
    numbers mesh axes, `sizes` dims, `options` chooses words. Raises DiagnosticError with all that
    is wrong with the block and the names in plans, and nothing else for a bad file; `xg check` also
    looks at other blocks, options and plans. A text uses files as if it were in the working folder.
    """
    settings = {**(sizes or {}), **(options or {}), **(mesh or {})}
    if (path is None) == (source is None):
        raise TypeError("compile() takes a path, or a text as source")
    if path is not None:
        project = read_project(path)
    else:
        text = (source or "").encode("utf-8", "surrogateescape")
        project = parse_project(text, "<source>")
    program = compile_project(project, block, settings, plan)
    if plan is None and project.main.plan_decls:
        from xg.frontend.plan_in_choices import plans_of  # most programs have no plan

        plans_of(project, settings)  # raises for names that there are not
    return program


@resting_collector()
def compile_project(
    project: Project,
    block: str | None = None,
    settings: Settings | None = None,
    plan: str | None = None,
    typers: BlockTypers | None = None,
) -> Program:
    """Compile a block of a file that was read already; with `typers`, one of several blocks."""
    return compile_typed(type_project(project, block, settings, plan, typers), project)


@resting_collector()
def compile_typed(typed: IRProgram, project: Project) -> Program:
    """Compile what was typed, and placed by a plan, already."""
    history = run(PARALLEL if typed.is_parallel else SINGLE, typed)
    if not typed.is_parallel:
        return Program(history.result, project, history=history)
    return Program(
        history.result,
        project,
        distributed=history.after("join"),
        single_device=history.after("eliminate-dead"),
        history=history,
    )


def _fused() -> FusedPipelines:
    """The passes for `--kernels`; raises DiagnosticError without the package of kernels."""
    return service("pipelines")()


def _emitted(graphs: IRProgram, name: str | None, *, kernels: bool) -> str:
    """The program as a module of a backend."""
    backend = find(name)
    # The step of a decoder saves nothing; ranks differentiate their whole pass at once.
    saves = bool(graphs.backwards) and not graphs.mesh and graphs.stage is None
    derives = saves and "outlined" in backend.pipeline
    outlined = _fused().outlined if kernels else BLOCKS
    derived = run(outlined, graphs).result if derives else None
    return backend.source(graphs, derived, kernels=kernels)
