"""Try the step of generation: a text in pieces gives what the whole text gives.

The first piece meets a cache of length 0, so the whole text as one piece is tried too. A step that
keeps nothing is no edge: it does with each position what the whole program does.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from xg.codegen.backend import Form, find
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.driver import Program
from xg.ir.functions import FUNCTIONS as ELEMENTARY
from xg.ir.graph import Apply, Call, IRProgram, Value
from xg.ir.prim import ARITHMETIC, COMPARE, RANDOM, Expr
from xg.verify.edges.point import CLOSE, LEFT, Mismatch, Point, largest
from xg.verify.reference.interpret import BodyCache, Interpreter
from xg_runtime.module import Array, Arrays

if TYPE_CHECKING:
    from xg_runtime.generate import StepModule

STEP: Final = "steps of generation"
FORM: Final[Form] = "step"


# Of these, only a sum over positions or a table of pairs joins different positions.
LOCAL: Final = (ARITHMETIC | COMPARE | RANDOM).union(
    ELEMENTARY,
    ("operand", "const", "neg", "pow", "where", "as_float", "stop", "dropout_apply"),
    ("reshape", "transpose", "broadcast", "contract", "sum", "mean", "max"),
)


def _may_join(program: IRProgram, bodies: BodyCache) -> bool:
    """Whether a result may depend on several positions; what is called may do anything.

    Most blocks without a step are found here, before the package of steps is imported.
    """
    main = program.main
    shapes = [type_.shape for type_ in main.output_types if len(type_.shape) > 1]
    names = {name for shape in shapes for name in shape[-2].symbols()}
    steps = (bodies.of(step, main.types) for step in main.steps if isinstance(step, Apply))
    exprs = [expr for body in steps for expr in body.order]
    return bool(main.calls) or any(_joins(expr, name) for expr in exprs for name in names)


def _joins(expr: Expr, name: str) -> bool:
    """Whether a primitive may join positions along an axis."""
    axes = _count(expr, name)
    before = any(_count(arg, name) for arg in expr.args)
    if expr.prim not in LOCAL:
        return before or axes > 0
    return axes > 1 or (before and axes == 0)


def _count(expr: Expr, name: str) -> int:
    return sum(name in dim.symbols() for dim in expr.shape)


def _remembers(step: IRProgram, key: str) -> bool:
    """Whether an output of a graph depends on a state: one that counts positions is not read."""
    graph = step.graphs[key]
    past: set[Value] = {state.past for state in graph.states}
    for each in graph.steps:
        is_read = not past.isdisjoint(each.inputs)
        if is_read or (isinstance(each, Call) and _remembers(step, each.callee)):
            past.update(each.outputs)
    return not past.isdisjoint(graph.outputs)


@dataclass(frozen=True)
class StepForm:
    """A loaded module of a step, and what it is called in messages."""

    name: str
    module: StepModule

    def run(self, params: Arrays, sizes: Mapping[str, int], pieces: Sequence[Arrays]) -> Arrays:
        """The outputs of all pieces, joined along the positions."""
        made_by = getattr(self.module, "module", self.module)
        free: Mapping[str, object] = inspect.signature(made_by.empty_cache).parameters
        given = {name: size for name, size in sizes.items() if name in free}
        cache = self.module.empty_cache(params, **given)
        found: list[Arrays] = []
        for piece in pieces:
            outputs, cache = self.module.step(params, cache, piece)
            found.append({name: np.array(x) for name, x in outputs.items()})
        return {name: np.concatenate([each[name] for each in found], -2) for name in found[0]}


@dataclass(frozen=True)
class StepTrial:
    """The step of a program: its output and axis of positions, its inputs and the whole result."""

    step: Program
    output: str
    axis: str
    inputs: Arrays
    expected: Array

    @classmethod
    def of(cls, program: Program, base: Point) -> StepTrial | None:
        """Derive the step; None without one, or without the package that derives it."""
        if not _may_join(base.program, base.bodies):
            return None
        try:
            step = program.step()
            if not _remembers(step.graphs, step.graphs.entry):
                return None
            (output,) = step.graphs.main.output_names
            once = program.prologue(output)
        except DiagnosticError:  # no positions, or earlier ones depend on later ones
            return None
        plain = replace(base, seed=None)
        inputs, whole = plain.exact, plain.interpret()[0]
        if once is not None:
            inputs = {**inputs, **Interpreter(once.graphs, base.params).forward(inputs)[0]}
        axis = str(step.graphs.main.output_types[0].shape[-2].name)
        return cls(step, output, axis, inputs, whole[output])

    def forms(self, backends: Sequence[str]) -> Iterator[StepForm]:
        """Every form of the step in these backends; raises DiagnosticError for what has no code."""
        for name in backends:
            backend = find(name)
            if FORM not in backend.forms:
                continue
            for kernels in (False, True) if backend.parts.kernels else (False,):
                module = self.step.load(name, kernels=kernels)
                title = f"{backend.title} with kernels" if kernels else backend.title
                yield StepForm(title, cast("StepModule", backend.step_on_arrays(module)))

    def pieces(self) -> Iterator[tuple[int, ...]]:
        """The lengths of the pieces of a text: one piece, one position and the rest, each alone."""
        length = self.expected.shape[-2]
        ways = (length,), (1, length - 1), (1,) * length
        yield from dict.fromkeys(way for way in ways if 0 not in way and way)

    def check(self, form: StepForm, base: Point, lengths: Sequence[int]) -> Mismatch | None:
        """How the outputs of the pieces differ from those of the whole text."""
        ends = np.cumsum(lengths)
        pieces = [self._cut(end - n, end) for n, end in zip(lengths, ends, strict=True)]
        found = form.run(base.params, base.program.all_numbers, pieces)[self.output]
        wanted = self.expected
        if found.shape != wanted.shape:
            return Mismatch(self.output, f"has shape {list(found.shape)}")
        bound = CLOSE * (np.abs(wanted) + largest(wanted)) + LEFT
        with np.errstate(all="ignore"):
            wrong = ~((found == wanted) | (np.isnan(found) & np.isnan(wanted)))
            wrong &= ~(np.abs(found - wanted) <= bound) | ~np.isfinite(wanted)
        if not wrong.any():
            return None
        place = tuple(int(n) for n in np.argwhere(wrong)[0])
        return Mismatch(self.output, "", place, float(found[place]), float(wanted[place]))

    def _cut(self, start: int, end: int) -> Arrays:
        """The inputs of a step at some positions."""
        main = self.step.graphs.main
        given: dict[str, Array] = {}
        for value in main.inputs:
            array: Any = self.inputs[str(value.name)]
            for place, dim in enumerate(main.types[value].shape):
                if dim.name == self.axis:
                    array = np.take(array, range(start, end), place)
            given[str(value.name)] = array
        return given
