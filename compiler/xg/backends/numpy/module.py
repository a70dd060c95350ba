"""A whole generated module: constants, blocks, public functions, operators, randomness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xg.backends.numpy.spelling import NumpySpelling
from xg.backends.numpy.support import closure, source
from xg.emit.backward import backward_function
from xg.emit.forward import Forward, forward_function
from xg.emit.layout import bracketed, indented
from xg.emit.locate import locate
from xg.emit.names import Names, camel, identifier, snake
from xg.emit.plan import Plan, draws_random, shared_params
from xg.emit.spelling import Scope
from xg.emit.starts import table_lines
from xg.emit.statements import Functions
from xg.emit.text import tuple_of
from xg.graph import Call, Graph, Program, Value

HEADER = '''"""{title}: forward and backward pass in NumPy.

Compiled by xg from {file}, block {block}. Change the diagram, not this file.

    forward({inputs}) -> {outputs}
"""

from __future__ import annotations

{math}from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Params = dict[str, Array]
DType = Any
'''

TAKE = '''def take(params: Params, at: str, names: str) -> list[Array]:
    """The named parameters of the call at a path."""
    return [params[f"{at}.{name}" if at else name] for name in names.split()]
'''

ADD = '''def add(grads: Params, name: str, part: Array) -> None:
    """One more part of the gradient of a parameter that is used in several places."""
    grads[name] = grads[name] + part if name in grads else part
'''

INIT = '''
    """Parameters by their names in the diagram, drawn from the seed."""
    params: Params = {{}}
    {starts}
    for name, (shape, start) in starts.items():
        if start == "ones":
            params[name] = np.ones(shape, dtype)
        elif start == "zeros":
            params[name] = np.zeros(shape, dtype)
        else:
            params[name] = normal(seed, name, shape, float(start)).astype(dtype)
    return params
'''

CHECK = '''def check(arrays: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse arrays that are missing or that do not agree on the sizes."""
    for name, shape in shapes.items():
        if name not in arrays:
            raise ValueError(f"{name} {list(shape)} is missing")
        if arrays[name].shape != shape:
            found = list(arrays[name].shape)
            raise ValueError(f"{name} should have shape {list(shape)}, not {found}")
'''


def emit(program: Program) -> str:
    """The source of the module."""
    return _Module(program).source()


class _Module:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.names = Names(["params", "check"])
        self.saved: dict[str, tuple[Forward, tuple[str, ...]]] = {}
        functions: dict[str, str] = {}
        classes: dict[str, str] = {}
        for key, graph in program.graphs.items():
            functions[key] = self.names.fresh(snake(graph.block))
            self.names.reserve([f"d_{functions[key]}"])
            classes[key] = self.names.fresh(f"{camel(graph.block)}Saved")
        spelling = NumpySpelling()
        self.plan = Plan(
            program=program,
            spelling=spelling,
            operators=Functions(spelling, self.names),
            functions=functions,
            classes=classes,
            random=draws_random(program),
            shared=shared_params(program),
        )

    def source(self) -> str:
        blocks = [list(self._block(key)) for key in self.program.graphs]
        public = [self._table(), self._init(), *self._forward(), self._backward(), CHECK.rstrip()]
        parts = ["\n".join(lines) for block in blocks for lines in block]
        parts += ["\n".join(part) if isinstance(part, list) else part for part in public]
        helpers = [{"take": TAKE, "add": ADD}[name].rstrip() for name in self.plan.helpers]
        operators = [
            "\n".join(_wrapped(function.source(name)))
            for name, function in self.plan.operators.written.items()
        ]
        needed = closure([*self.plan.operators.support, "normal"])
        support = [source(name) for name in needed]
        constants = "\n".join(
            f"{name} = {value}" for name, value in sorted(self.plan.constants.items())
        )
        code = "\n\n\n".join([*parts, *helpers, *operators, *support]) + "\n"
        head = self._header(math="math." in code) + ("\n" + constants + "\n" if constants else "")
        return f"{head}\n\n{code}"

    def _header(self, *, math: bool) -> str:
        graph = self.program.main
        file = graph.span.source.name.rsplit("/", 1)[-1]
        return HEADER.format(
            math="import math\n" if math else "",
            title=_text(graph.title),
            file=_text(file),
            block=graph.block,
            inputs=", ".join(_spelled(graph, value) for value in graph.inputs),
            outputs=", ".join(
                f"{name} {type_}"
                for name, type_ in zip(graph.output_names, graph.output_types, strict=True)
            ),
        )

    # ---- blocks ---------------------------------------------------------------------------------

    def _block(self, key: str) -> Iterator[list[str]]:
        graph, backward = self.program.graphs[key], self.program.backwards[key]
        forward = forward_function(self.plan, graph, backward.saved)
        reverse, lost = backward_function(self.plan, backward, forward)
        if lost:  # sizes that no saved tensor carries are saved themselves
            forward = forward_function(self.plan, graph, backward.saved, lost)
        self.saved[key] = (forward, lost)
        yield self._saved_class(key, forward.fields, lost)
        yield forward.lines
        yield reverse

    def _saved_class(
        self, key: str, fields: Mapping[Value, str], sizes: Sequence[str]
    ) -> list[str]:
        graph = self.program.graphs[key]
        calls = {step.saved: step for step in graph.steps if isinstance(step, Call)}
        lines = [
            f"class {self.plan.classes[key]}(NamedTuple):",
            f'    """What `{self.plan.functions[key]}` keeps for its backward pass."""',
        ]
        if fields or sizes:
            lines.append("")
        for value, name in fields.items():
            if value.role == "saved":
                call = calls[value]
                kind = self.plan.classes[call.callee]
                lines.append(f"    {name}: {kind if call.count is None else f'list[{kind}]'}")
            else:
                optional = " | None" if value.role == "cache" and value.name == "keep" else ""
                lines.append(f"    {name}: Array{optional}  # {_shape(graph, value)}")
        return [*lines, *(f"    {name}: int" for name in sizes)]

    # ---- the public functions -------------------------------------------------------------------

    def _scope(self) -> Scope:
        return Scope(self.program.main.sizes)

    def _table(self) -> list[str]:
        scope = self._scope()
        lines = table_lines(self.program, scope)
        self.table_sizes = tuple(scope.needed)
        arguments = [f"{name}: int" for name in self.table_sizes]
        head = bracketed(
            "def table(",
            ["*", *arguments] if arguments else [],
            ") -> dict[str, tuple[tuple[int, ...], float | str]]:",
        )
        body = [
            '"""Name, shape and start of every parameter: a word, or the deviation of a normal."""',
            "starts: dict[str, tuple[tuple[int, ...], float | str]] = {}",
            *lines,
            "return starts",
        ]
        return [*head, *indented(body)]

    def _init(self) -> list[str]:
        sizes = self.program.main.sizes
        numbers = sizes.bind({})
        given = [f"{name}={name}" for name in self.table_sizes]
        arguments: list[str] = []
        for name in self.table_sizes:
            if name in numbers:
                self.plan.constants[name] = numbers[name]
                arguments.append(f"{name}: int = {name}")
            else:
                arguments.append(f"{name}: int")
        head = bracketed(
            "def init(",
            [
                "seed: int = 0",
                "dtype: DType = np.float32",
                *(["*", *arguments] if arguments else []),
            ],
            ") -> Params:",
        )
        starts = "\n".join(indented(bracketed("starts = table(", given, ")", 4))).strip()
        return [*head, *INIT.format(starts=starts).strip("\n").splitlines()]

    def _forward(self) -> list[list[str]]:
        graph = self.program.main
        scope = self._scope()
        needed = dict.fromkeys(self.table_sizes)
        shapes: list[tuple[str, str]] = []
        for value in graph.inputs:
            texts = scope.shape(graph.types[value].shape)
            shapes.append((f'"{value.name}"', tuple_of(texts) if texts else "()"))
        needed.update(scope.needed)
        sources = [(f'inputs["{v.name}"]', graph.types[v].shape) for v in graph.inputs]
        sources += [(f'params["{p.value.name}"]', graph.types[p.value].shape) for p in graph.params]
        found = locate(needed, sources, graph.sizes, graph.sizes.defaults, graph.span)
        self.plan.constants.update(found.constants)
        given = [f"{name}={name}" for name in self.table_sizes]
        random = graph.key in self.plan.random
        arguments = ["params", *(f'inputs["{value.name}"]' for value in graph.inputs)]
        arguments += ["seed=seed"] if random else []
        results = [identifier(name) for name in graph.output_names]
        call = bracketed(
            f"{', '.join([*results, 'saved'])} = {self.plan.functions[graph.key]}(",
            arguments,
            ")",
            4,
        )
        returned = ", ".join(
            f'"{n}": {r}' for n, r in zip(graph.output_names, results, strict=True)
        )
        body = [
            '"""Outputs by name, and what `backward` needs; without a seed dropout is off."""',
            *found.lines,
            *bracketed("starts = table(", given, ")", 4),
            "shapes = {name: shape for name, (shape, _) in starts.items()}",
            *(f"shapes[{key}] = {shape}" for key, shape in shapes),
            "check({**inputs, **params}, shapes)",
            *call,
            f"return {{{returned}}}, saved",
        ]
        head = bracketed(
            "def forward(",
            ["params: Params", "inputs: Mapping[str, Array]", "*", "seed: int | None = None"],
            f") -> tuple[dict[str, Array], {self.plan.classes[graph.key]}]:",
        )
        return [[*head, *indented(body)]]

    def _backward(self) -> list[str]:
        graph = self.program.main
        backward = self.program.backwards[graph.key]
        scope = self._scope()
        seeds: list[str] = []
        lines: list[str] = []
        for name, value in zip(graph.output_names, graph.outputs, strict=True):
            if value in backward.cotangents and f"d{identifier(name)}" not in seeds:
                seed = f"d{identifier(name)}"
                seeds.append(seed)
                texts = scope.shape(graph.types[value].shape)
                shape = tuple_of(texts) if texts else "()"
                lines += [
                    f'{seed} = d_outputs.get("{name}")',
                    f"if {seed} is None:",
                    f"    {seed} = np.zeros({shape}, dtype)",
                ]
        forward, lost = self.saved[graph.key]
        sources = [
            (f"saved.{forward.fields[value]}", graph.types[value].shape)
            for value in backward.saved
            if value.role != "saved"
        ]
        sources += [(f'params["{p.value.name}"]', graph.types[p.value].shape) for p in graph.params]
        known = {name: f"saved.{name}" for name in lost}
        found = locate(scope.needed, sources, graph.sizes, graph.sizes.defaults, graph.span, known)
        self.plan.constants.update(found.constants)
        results = [value for value in graph.inputs if value in backward.gradients]
        given = [identifier(f"d{value.name}") for value in results]
        call = f"d_{self.plan.functions[graph.key]}("
        head = f"{', '.join(given)} = {call}" if given else call
        body = [
            '"""Gradients of all parameters and float inputs by name; no cotangent means zero."""',
            "dtype = next(iter({**params, **d_outputs}.values())).dtype",
            *found.lines,
            *lines,
            "grads: Params = {}",
            *bracketed(head, ["params", "saved", *seeds, "grads"], ")", 4),
            *(
                f'grads["{value.name}"] = {name}'
                for value, name in zip(results, given, strict=True)
            ),
            "for name, value in params.items():",
            "    grads.setdefault(name, np.zeros_like(value))",
            "return grads",
        ]
        head_lines = bracketed(
            "def backward(",
            [
                "params: Params",
                f"saved: {self.plan.classes[graph.key]}",
                "d_outputs: Mapping[str, Array]",
            ],
            ") -> Params:",
        )
        return [*head_lines, *indented(body)]


def _wrapped(lines: Sequence[str]) -> list[str]:
    """A function whose head may be too long for a line."""
    head, *body = lines
    opening, rest = head.split("(", 1)
    arguments, closing = rest.rsplit(") -> ", 1)
    items = arguments.split(", ")
    return [*bracketed(f"{opening}(", items, f") -> {closing}"), *body]


def _spelled(graph: Graph, value: Value) -> str:
    return f"{value.name} {value.declared}"


def _shape(graph: Graph, value: Value) -> str:
    shape = graph.sizes.fold_shape(graph.types[value].shape)
    return "[" + ", ".join(str(dim) for dim in shape) + "]"


def _text(text: str) -> str:
    cleaned = "".join(char if char.isprintable() else " " for char in text)
    return cleaned.replace("\\", "/").replace('"', "'")
