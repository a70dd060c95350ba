"""Compare every form of a program of edges, and every witness: all must agree."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any, Protocol, cast

import numpy as np
from backends import forms_of_code
from fuzz.decoding import step_failures
from fuzz.edge_programs import Edge, generate, mentions, smaller
from fuzz.hunt import failure
from fuzz.plans import prove_text
from fuzz.proof import Array, Arrays, Failure, compiled
from fuzz.recorded import Provable
from tier import THOROUGH

from xg.codegen.backend import Backend, backends, load
from xg.diagnostics.diagnostic import Source
from xg.ir.graph import IRProgram
from xg.passes.pipelines import BLOCKS, run
from xg.syntax.parse import parse
from xg.verify.autograd_model import autograd
from xg.verify.edge_point import narrow_shaking, shake_bits, shaking
from xg.verify.reference.evaluate import Stopped
from xg.verify.reference.interpret import Interpreter, bind_sizes, initial
from xg_kernels.pipelines import FUSED, FUSED_BLOCKS

CLOSE = 1e-9
SLOPE = 1e-6
JAX_OF = 4  # so many programs for one that JAX compiles
TIES_OF = 3  # so many programs for one whose numbers are a few, with zeros among them
INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
LEVELS = np.array([-1.5, -1.0, 0.0, 0.0, 0.5, 1.0])  # numbers that meet each other, and kinks
STEPS_OF = 5  # so many programs for one of which steps of generation are derived
PLANS_OF = 4  # so many programs for one that is cut over ranks
NARROW = {"float32": 1e-3, "float16": 0.2}  # types, and how far results in them may be off
TRIALS_AT_MOST = 300
NARROW_RUNS = 8  # in each of which a number near a step falls to either side
SHAKES = 24  # with n places that last bits decide there are 2^n ways
MANY = 6  # results of shaken runs that differ, so that more of them may be there
KINDS = ("value", "gradient")
ROUTES: Counter[str] = Counter()  # comparisons on the same way, on another, and on none found


class Passes(Protocol):
    """Both passes of a program on arrays."""

    def forward(self, params: Arrays, inputs: Arrays) -> tuple[Arrays, Any]: ...
    def backward(self, params: Arrays, saved: Any, d_outputs: Arrays) -> Arrays: ...  # noqa: ANN401


@dataclass(frozen=True)
class Form:
    """A module of a program, and what it is called in messages."""

    name: str
    module: Passes


def prove_edges(edge: Provable, seed: int, *, every: bool = False) -> int:
    """Prove a program; the number of forms that were run. `every` also compiles with JAX.

    The interpreter, torch's autograd and differences say what is right. At ties and kinks a
    gradient is a convention, which is torch's.
    """
    tree = parse(Source("case.xg", str(edge)))
    program = compiled(tree, edge, dead=seed % 2 == 0)
    case = EdgeCase.draw(program, edge.numbers, seed)
    forms = list(written(program, case.sizes, jax=every or seed % JAX_OF == 0))
    draws = [case]
    if every or seed % TIES_OF == 0:
        draws.append(case.tied())
    for draw in draws:
        draw.check_slopes()
        draw.check_witness()
        for form in forms:
            draw.check(form)
    # JAX compiles again for each type, which takes longer than all that other forms do.
    on_arrays = [
        form
        for form in forms
        if not isinstance(form.module, _Model) and (THOROUGH or not form.name.startswith("jax"))
    ]
    for form in on_arrays if every else on_arrays[seed % len(on_arrays) :][:1]:
        for dtype in NARROW:
            check_narrow(form, dtype, case)
    if every or seed % STEPS_OF == 0:
        _check_steps(case)
    if isinstance(edge, Edge) and (every or seed % PLANS_OF == 0):
        prove_text(with_plan(edge, seed), {}, seed)
    return len(forms)


def _check_steps(case: EdgeCase) -> None:
    """Every output that has a step of generation is, in pieces, that of the whole text."""
    counted = replace(case.program, numbers=case.sizes)
    for found in step_failures(counted, case.sizes, case.params, case.exact, case.seed):
        raise Failure("step", found)


def check_narrow(form: Form, dtype: str, case: EdgeCase) -> None:
    """A form computes in a narrow type, about what it should.

    One number on another side of a condition is no failure, so three draws fail before it is one.
    A draw whose routes rounding could change says nothing.
    """
    found = ""
    for draw in range(3):
        drawn = EdgeCase.draw(case.program, case.program.numbers, case.seed + draw)
        if not drawn.keeps_routes(dtype):
            ROUTES["narrow, open"] += 1
            continue
        ROUTES["narrow"] += 1
        found = drawn.narrow(form, dtype)
        if not found:
            return
    if found:
        raise Failure(f"{form.name} {dtype}", found)


def with_plan(edge: Edge, seed: int) -> str:
    """The program with a mesh and a plan of its main block, which cuts some of what it takes."""
    random, main = Random(seed), edge.parts[-1]
    text, lines = str(edge), list[str]()
    for value in (*main.inputs, *main.params):
        named = [n for n, size in enumerate(value.shape) if size.isalpha()]
        if named and mentions(text, value.name) and random.random() < 0.6:
            place = 0 if 0 in named and random.random() < 0.7 else random.choice(named)
            over = random.choice(("N_D", "N_T"))
            cut = [f"{n}/{over}" if k == place else n for k, n in enumerate(value.shape)]
            lines.append(f"    {value.name} [{', '.join(cut)}]\n")
    return f"{text}\nmesh N_D, N_T\n\nplan P of Main {{\n{''.join(lines)}}}\n" if lines else text


def written(program: IRProgram, sizes: Mapping[str, int], *, jax: bool) -> Iterator[Form]:
    """The forms of a program: each backend, with kernels and without; torch's as a Model too."""
    fused = run(FUSED, program).result
    for name, backend in backends().items():
        if name == "jax" and not jax:
            continue
        for kernels in (False, True) if THOROUGH else forms_of_code(name):
            module = _module(backend, fused if kernels else program, kernels=kernels)
            said = f"{name}{' --kernels' if kernels else ''}"
            arrays = cast(Passes, backend.on_arrays(module))
            yield Form(said, arrays)
            if hasattr(module, "Model"):
                yield Form(f"{said} Model", _Model(module, sizes))


def _module(backend: Backend, program: IRProgram, *, kernels: bool) -> Any:  # noqa: ANN401
    blocks = FUSED_BLOCKS if kernels else BLOCKS
    derived = run(blocks, program).result if backend.pipeline else None
    return load(backend.source(program, derived, kernels=kernels), f"edge_{backend.name}")


class _Model:
    """The `torch.nn.Module` of a module, under autograd."""

    def __init__(self, module: Any, sizes: Mapping[str, int]) -> None:  # noqa: ANN401
        self.module = module
        wanted = inspect.signature(module.init).parameters
        self.sizes = {name: sizes[name] for name in wanted if name in sizes}

    def forward(self, params: Arrays, inputs: Arrays) -> tuple[Arrays, Any]:
        return self._both(params, inputs, {})[0], inputs

    def backward(self, params: Arrays, saved: Arrays, d_outputs: Arrays) -> Arrays:
        return self._both(params, saved, d_outputs)[1]

    def _both(self, params: Arrays, inputs: Arrays, cotangents: Arrays) -> tuple[Arrays, Arrays]:
        from xg.verify.autograd_model import model_gradients  # torch, as in `fuzz.proof`

        return model_gradients(self.module, self.sizes, params, inputs, cotangents, 0)


@dataclass(frozen=True)
class EdgeCase:
    """A program at one draw of its arrays."""

    program: IRProgram
    sizes: Mapping[str, int]
    params: Arrays
    inputs: Arrays
    seed: int

    @classmethod
    def draw(cls, program: IRProgram, numbers: Mapping[str, int], seed: int) -> EdgeCase:
        """Random arrays; integers in any type that holds them, masks sometimes in bool."""
        random = np.random.default_rng(seed)
        graph = program.main
        sizes = graph.sizes.bind(numbers)
        inputs: Arrays = {}
        for value in graph.inputs:
            type_ = graph.types[value]
            shape = tuple(dim.evaluate(sizes) for dim in type_.shape)
            if type_.range is None:
                inputs[str(value.name)] = random.standard_normal(shape)
            else:
                below = type_.range.evaluate(sizes)
                drawn = random.integers(0, below, shape)
                inputs[str(value.name)] = drawn.astype(random.choice(_types_for(below)))
        counted = replace(program, numbers=numbers)
        params = initial(counted, seed)
        return cls(counted, bind_sizes(counted, {**params, **inputs}), params, inputs, seed)

    def tied(self) -> EdgeCase:
        """The same with numbers of a few levels, so that many are equal and many are zero."""
        random = np.random.default_rng(self.seed + 1)

        def level(x: Array) -> Array:
            return random.choice(LEVELS, x.shape) if x.dtype.kind == "f" else x

        inputs = {name: level(x) for name, x in self.inputs.items()}
        params = {name: level(x) for name, x in self.params.items()}
        return replace(self, inputs=inputs, params=params)

    @property
    def exact(self) -> Arrays:
        """The inputs with whole numbers of 64 bits, as the witnesses take them."""
        return {
            name: x if x.dtype.kind == "f" else x.astype(np.int64)
            for name, x in self.inputs.items()
        }

    @cached_property
    def cotangents(self) -> Arrays:
        """A random cotangent of each float output; a third of the programs lack one of several."""
        random = np.random.default_rng(self.seed + 2)
        outputs = self.interpret()[0]
        names = [name for name, x in outputs.items() if x.dtype.kind == "f"]
        if len(names) > 1 and self.seed % 3 == 1:
            names = names[1:]
        return {name: random.standard_normal(outputs[name].shape) for name in names}

    def interpret(self, stopped: Stopped | None = None, moved: Arrays | None = None) -> Any:  # noqa: ANN401
        """A run of the interpreter, and the interpreter."""
        arrays = {**self.params, **self.exact, **(moved or {})}
        params = {name: arrays[name] for name in self.params}
        interpreter = Interpreter(self.program, params, None, stopped=stopped)
        outputs, record = interpreter.forward({name: arrays[name] for name in self.inputs})
        return outputs, record, interpreter

    @cached_property
    def expected(self) -> tuple[Arrays, Arrays]:
        """Outputs and gradients of the interpreter."""
        outputs, record, interpreter = self.interpret()
        return outputs, interpreter.backward(record, self.cotangents)

    def check_witness(self) -> None:
        """The interpreter is right: torch's autograd says the same."""
        outputs, gradients = autograd(
            self.program, self.sizes, self.params, self.exact, self.cotangents
        )
        self.compare("witness", outputs, gradients)

    def compare(self, form: str, outputs: Arrays, gradients: Arrays) -> None:
        """Compare outputs and gradients with the interpreter's.

        Last bits may decide between two experts, or two slopes. Results that differ are therefore
        compared with runs of the interpreter in which everything that rounds is shaken. One of them
        goes the same way, or `ROUTES` counts that none was found and that rounding decides.
        """
        wanted = self.expected
        for kind, found, right in zip(KINDS, (outputs, gradients), wanted, strict=True):
            if set(found) != set(right):
                raise Failure(f"{form} {kind}s", f"{sorted(found)} instead of {sorted(right)}")
        if _difference(form, (outputs, gradients), wanted) is None:
            ROUTES["same"] += 1
            return
        for other in self.shaken:
            if _difference(form, (outputs, gradients), other) is None:
                ROUTES["another"] += 1
                return
        for place, found in enumerate((outputs, gradients)):
            for name, have in found.items():
                seen = [wanted[place][name], *(other[place][name] for other in self.shaken)]
                if not np.all(_is_among(have, np.stack(seen), wanted[place])):
                    detail = (
                        f"{name} is\n{have}\nand on no other way that last bits open\n{seen[0]}"
                    )
                    raise Failure(f"{form} {KINDS[place]}", detail)
        ROUTES["none"] += 1

    @cached_property
    def shaken(self) -> list[tuple[Arrays, Arrays]]:
        """Results of the interpreter with other last bits, on every way that they open."""
        return [self.shake(number) for number in range(SHAKES)]

    def shake(self, number: int) -> tuple[Arrays, Arrays]:
        """Outputs and gradients of one such run."""
        arithmetic = shaking(self.seed + 6, number)
        interpreter = Interpreter(self.program, self.params, arithmetic=arithmetic)
        outputs, record = interpreter.forward(self.exact)
        return outputs, interpreter.backward(record, self.cotangents)

    def check_slopes(self) -> None:
        """Differences along a direction are what the gradients say, at ties and kinks too.

        Stopped and chosen values are held, and equal operands share as the conventions say.
        """
        random = np.random.default_rng(self.seed + 3)
        floats = {n: x for n, x in {**self.params, **self.inputs}.items() if x.dtype.kind == "f"}
        direction = {name: random.standard_normal(x.shape) for name, x in floats.items()}
        gradients = self.expected[1]
        parts = [float(np.sum(gradients[name] * direction[name])) for name in floats]
        stopped = Stopped()
        self.interpret(stopped)
        measured: list[float] = []
        for step in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8):  # norms of ties are steep
            ends = (self._moved(floats, direction, by, stopped) for by in (step, -step))
            above, below = ends
            measured.append((above - below) / (2 * step))
            noise = 1e-15 * (abs(above) + abs(below) + 1) / step
            close = SLOPE * (sum(map(abs, parts)) + 1e-3) + 10 * noise
            if abs(measured[-1] - sum(parts)) <= close:
                return
        raise Failure("slope", f"{sum(parts)} along a direction, measured {measured}")

    def _moved(self, floats: Arrays, direction: Arrays, by: float, stopped: Stopped) -> float:
        arrays = {name: x + by * direction[name] for name, x in floats.items()}
        outputs = self.interpret(stopped.replayed(), arrays)[0]
        return sum(float(np.sum(outputs[name] * c)) for name, c in self.cotangents.items())

    def keeps_routes(self, dtype: str) -> bool:
        """Whether steps, comparisons and the places of the largest stay if a type rounds all."""
        first = self._routes(None, dtype)
        for number in range(NARROW_RUNS):
            others = self._routes(np.random.default_rng((self.seed + 7, number)), dtype)
            if not all(map(_is_same_route, first, others)):
                return False
        return True

    def _routes(self, random: np.random.Generator | None, dtype: str) -> list[Array]:
        """The values at which gradients end in a run, shaken in the last bits of a type."""
        stopped, params, inputs = Stopped(), self.params, self.exact
        if random is None:
            runner = Interpreter(self.program, params, stopped=stopped)
        else:
            params, inputs = (
                {n: shake_bits(random, dtype, x) if x.dtype.kind == "f" else x for n, x in given}
                for given in (params.items(), inputs.items())
            )
            arithmetic = narrow_shaking(random, dtype)
            runner = Interpreter(self.program, params, arithmetic=arithmetic, stopped=stopped)
        runner.forward(inputs)
        return stopped.values

    def narrow(self, form: Form, dtype: str) -> str:
        """How a form in a narrow type is wrong, in its types or by far; a loss may be a float32."""
        params, inputs, cotangents = (
            _cast(each, dtype) for each in (self.params, self.inputs, self.cotangents)
        )
        outputs, saved = form.module.forward(params, inputs)
        outputs = {name: np.array(x) for name, x in outputs.items()}
        gradients = dict(form.module.backward(params, saved, cotangents))
        for wanted, found in zip(self.expected, (outputs, gradients), strict=True):
            for name, x in wanted.items():
                have = np.asarray(found[name])
                if x.dtype.kind == "f" and str(have.dtype) not in (dtype, "float32"):
                    return f"{name} is {have.dtype}"
            whole = {name: np.asarray(found[name]) - x for name, x in wanted.items()}
            if dtype == "float16" and not np.isfinite(_norm(whole)):
                continue  # cubes of integers pass its largest number
            if not _norm(whole) <= NARROW[dtype] * (_norm(wanted) + 1):
                return f"far off:\n{found}\nnot\n{wanted}"
        return ""

    def check(self, form: Form) -> None:
        """A form gives what the interpreter gives, and leaves its arrays as they were."""
        given = {**self.params, **self.inputs, **self.cotangents}
        before = {name: x.copy() for name, x in given.items()}
        outputs, saved = form.module.forward(dict(self.params), dict(self.inputs))
        kept = {name: np.array(x) for name, x in outputs.items()}
        gradients = form.module.backward(dict(self.params), saved, dict(self.cotangents))
        for name, x in given.items():
            if not np.array_equal(x, before[name], equal_nan=True):
                raise Failure(f"{form.name} changes", f"{name} is\n{x}\nnot\n{before[name]}")
        self.compare(form.name, kept, dict(gradients))


def _difference(form: str, found: Sequence[Arrays], wanted: Sequence[Arrays]) -> Failure | None:
    """The first array that differs."""
    for kind, have, want in zip(KINDS, found, wanted, strict=True):
        for name, right in want.items():
            array = np.asarray(have[name])
            if array.shape != right.shape:
                return Failure(f"{form} {kind}", f"{name} is {array.shape}, not {right.shape}")
            if not np.all(_close(array, right, want)):
                return Failure(f"{form} {kind}", f"{name} is\n{array}\nnot\n{right}")
    return None


def _is_among(have: Array, seen: Array, every: Arrays) -> Array:
    """Whether each element is one of those seen, or of so many that it may be between them."""
    equal = np.any([_close(have, each, every) for each in seen], axis=0)
    ways = sum(~np.any(np.isclose(seen[:n], seen[n], 1e-6, 1e-9), axis=0) for n in range(len(seen)))
    slack = 0.1 * (seen.max(axis=0) - seen.min(axis=0))
    between = (have >= seen.min(axis=0) - slack) & (have <= seen.max(axis=0) + slack)
    return equal | ((ways >= MANY) & between)


def _is_same_route(one: Array, other: Array) -> bool:
    """Whether no step is on another side: a float beside a step moves by 1 or 2 there."""
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    return np.allclose(one, other, 0.05, 0.4, equal_nan=True)


def _close(have: Array, want: Array, every: Arrays) -> Array:
    scale = 1e-2 * max((float(np.abs(x).max(initial=0)) for x in every.values()), default=0)
    with np.errstate(all="ignore"):
        return np.isclose(have, want, CLOSE, CLOSE * (1 + scale), equal_nan=True)


def _norm(arrays: Arrays) -> float:
    return sum(float(np.sum(np.square(x, dtype=np.float64))) for x in arrays.values()) ** 0.5


def _types_for(below: int) -> list[str]:
    """Every type that holds the integers below a number, and bool for masks."""
    fitting = [name for name in INTEGERS if np.iinfo(name).max >= below - 1]
    return ["bool", *fitting] if below == 2 else fitting


def _cast(arrays: Arrays, dtype: str) -> Arrays:
    return {n: x.astype(dtype) if x.dtype.kind == "f" else x for n, x in arrays.items()}


def edge_failure(seed: int, *, every: bool = False) -> tuple[Edge, str] | None:
    """The smallest program found that fails as that of a seed does, and how."""
    edge = generate(seed)

    def outcome(case: Edge) -> tuple[str, str]:
        with np.errstate(all="ignore"):
            return failure(lambda: prove_edges(case, seed, every=every))

    kind, message = outcome(edge)
    if not kind:
        return None
    trials, progress = 0, True
    while progress and trials < TRIALS_AT_MOST:
        progress = False
        for candidate in smaller(edge):
            trials += 1
            found, said = outcome(candidate)
            if found == kind:
                edge, message, progress = candidate, said, True
                break
            if trials >= TRIALS_AT_MOST:
                break
    return edge, message
