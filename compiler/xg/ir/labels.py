"""Names for values that the author gave none: after the operator or the call that made them."""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import has_unsafe_choice, is_inline
from xg.ir.graph import Apply, Call, Graph, IRProgram, Step, Value
from xg.ir.placement import is_term


def value_names(program: IRProgram, key: str) -> dict[Value, str]:
    """Name every value that the steps of a graph give: its label, or what made it and a number.

    One term of a sum is named as in seed 001: ``Z_i``, of which AR makes ``Z``.

    >>> import xg
    >>> text = "dim B\\nblock N(X [B]) -> Y [B] { X -> ReLU -> ReLU -> SiLU -> SiLU : Y }"
    >>> graphs = xg.compile(source=text).graphs
    >>> print(*value_names(graphs, "N").values())
    relu relu_2 silu_1 Y

    """
    return _program_names(program).of(key)


def saved_names(program: IRProgram, key: str) -> dict[Value, str]:
    """Name the values of a graph without a label that its backward pass reads: ``relu_2``.

    Of those that only calls read, the source of a number has no name: where it is read it is said.
    Values that several operators call the same, as the masks of two dropouts, are named after their
    results or their operators: ``Y_keep``, ``dropout_keep_2``.
    """
    if key not in program.backwards:
        return {}
    backward = program.backwards[key]
    graph, read = backward.forward, set(backward.saved)
    in_calls = {value for call in graph.calls for value in read_of(call, program)}
    read |= {value for step in graph.steps if step.inputs for value in step.outputs} & in_calls
    names = value_names(program, key)
    values = [value for step in graph.steps for value in step.outputs if value in read]
    caches = Counter(value.name for value in values if value.role == "cache")
    return {
        value: names[value]
        for value in values
        if value in names and (value.name is None or caches[value.name] > 1)
    }


@dataclass(slots=True)
class _ProgramNames:
    """The names of the values of each graph, made on request.

    A piece of the entry shares values with it, which have the names that they have there:
    `siblings` are the keys of graphs that are made of one block. `functions` are names of the
    module's own.
    """

    graphs: Mapping[str, Graph]
    functions: Collection[str]
    siblings: Mapping[tuple[int, int], Sequence[str]]
    own: dict[str, dict[Value, str]] = field(default_factory=dict[str, dict[Value, str]])
    found: dict[str, dict[Value, str]] = field(default_factory=dict[str, dict[Value, str]])

    def of(self, key: str) -> dict[Value, str]:
        """The names of the values of a graph."""
        if key not in self.found:
            graph = self.graphs[key]
            keys = self.siblings[_place(graph)]
            made = {value: name for each in keys for value, name in self._own(each).items()}
            values = (*self._own(key), *(value for value in graph.inputs if value.name is None))
            self.found[key] = {value: made[value] for value in values if value in made}
        return self.found[key]

    def _own(self, key: str) -> dict[Value, str]:
        if key not in self.own:
            self.own[key] = _names_in(self.graphs[key], self.functions)
        return self.own[key]


@lru_cache(maxsize=4)
def _program_names(program: IRProgram) -> _ProgramNames:
    siblings: dict[tuple[int, int], list[str]] = {}
    for key, graph in program.graphs.items():
        siblings.setdefault(_place(graph), []).append(key)
    functions = {snake(graph.block) for graph in program.graphs.values()}
    return _ProgramNames(program.graphs, functions, siblings)


def _place(graph: Graph) -> tuple[int, int]:
    """Where in the file the block of a graph is."""
    return graph.file, graph.span.start


def _names_in(graph: Graph, functions: Collection[str]) -> dict[Value, str]:
    """The names of the values that steps give; no name of the author's is given to another."""
    namer = _EdgeNamer({*functions, *_written_names(graph)})
    names: dict[Value, str] = {}
    for step in graph.steps:
        caches = [value for value in step.outputs if value.role == "cache"]
        edges = [value for value in step.outputs if value.role != "cache"]
        for value in edges:
            term = "_i" if is_term(graph.placements.get(value)) else ""
            label = value.name and value.name + term
            names[value] = label or namer.name(step, graph, alone=len(edges) == 1)
        if caches:
            stem, number = names[step.outputs[0]], ""
            if edges[0].name is None:
                stem, number = _stem_and_number(stem)
            names.update((v, namer.free(f"{stem}_{v.name}{number}")) for v in caches)
    return names


def _stem_and_number(name: str) -> tuple[str, str]:
    """``relu`` and ``_2`` of ``relu_2``; the first has no number."""
    stem, _, digits = name.rpartition("_")
    if not stem or not digits.isdecimal():
        return name, ""
    return stem, "" if digits == "1" else f"_{digits}"


def _written_names(graph: Graph) -> Iterator[str]:
    """Find the names that no edge may take: labels, parameters, outputs and sizes."""
    yield from (identifier(name) for name, _ in graph.names())
    yield from (identifier(str(value.name)) for value in graph.foreign)
    yield from graph.output_names
    yield from (*graph.sizes.defaults, *graph.sizes.definitions)
    dims = {dim for type_ in graph.types.values() for dim in type_.shape}
    yield from (name for dim in dims for name in dim.symbols())


@dataclass(slots=True)
class _EdgeNamer:
    """Gives out names that are not `taken`."""

    taken: set[str]
    counts: Counter[str] = field(default_factory=Counter[str])

    def name(self, step: Step, graph: Graph, *, alone: bool) -> str:
        """A name for the next result without a label of a step.

        The number is that of the node among the unlabeled ones of its operator. The first has
        none, unless code has a function of that name: the function `softmax` makes `softmax_1`.
        The result of a call `attn` is `attn_out`, because the call saves its values as `attn`.
        """
        if isinstance(step, Call):
            stem, number, is_plain = identifier(f"{step.path}_out".lstrip("_")), 0, True
        else:
            stem = snake(step.op.name)
            glyph, _, digits = step.place.rpartition("_")
            number = int(digits) if alone and glyph == step.op.glyph and digits.isdecimal() else 0
            is_plain = not hasattr(builtins, stem) and _is_written_in_place(step, graph)
        self.counts[stem] = number = number or self.counts[stem] + 1
        return self.free(stem if is_plain and number == 1 else f"{stem}_{number}")

    def free(self, name: str) -> str:
        """The name, or its stem with the next number that is free."""
        stem, _, digits = name.rpartition("_")
        stem, number = (stem, int(digits)) if stem and digits.isdecimal() else (name, 1)
        while name in self.taken:
            number += 1
            name = f"{stem}_{number}"
        self.taken.add(name)
        return name


def _is_written_in_place(step: Apply, graph: Graph) -> bool:
    """Whether code has an expression for a step, not a call of the operator's function."""
    if step.parts:
        return False  # a kernel may compute what is fused
    body = step.body(graph.types)
    return is_inline(body) and not has_unsafe_choice(body)


def identifier(text: str) -> str:
    """A Python identifier made of a diagram's name: ``bert.E`` is ``bert_E``."""
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return cleaned if cleaned and not cleaned[0].isdigit() else f"_{cleaned}"


def snake(name: str) -> str:
    """A function's name from a block's: ``GatedMLP`` is ``gated_mlp``, ``layer norm`` too."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z].)|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return identifier(re.sub(r"[\s\-]+", "_", spaced)).lower()


def read_of(call: Call, program: IRProgram) -> list[Value]:
    """Return which of the values that a call takes its backward pass reads, in calls of it too."""
    return _used_inputs(call, program, _read(program))


@lru_cache(maxsize=4)
def _read(program: IRProgram) -> Mapping[str, frozenset[Value]]:
    """The values of each graph that its backward pass reads, callees first."""
    found: dict[str, frozenset[Value]] = {}
    for key in program.graphs:
        if key in program.backwards:
            backward = program.backwards[key]
            inside = [
                v for call in backward.forward.calls for v in _used_inputs(call, program, found)
            ]
            found[key] = frozenset([*backward.saved, *inside])
    return found


def _used_inputs(
    call: Call, program: IRProgram, read: Mapping[str, frozenset[Value]]
) -> list[Value]:
    """Return the inputs of a call that its callee reads; empty if that is not known."""
    if call.callee not in read:
        return []
    taken = zip(program.backwards[call.callee].forward.inputs, call.inputs, strict=False)
    return list(dict.fromkeys(value for port, value in taken if port in read[call.callee]))


def place_names(graph: Graph) -> dict[Value, str]:
    """The results of steps after what gives them: ``SiLU_1``, ``attn``, of a second one ``attn'``.

    So an edge is called that no label names, and no variable of the code.
    """
    names: dict[Value, str] = {}
    for step in graph.steps:
        if isinstance(step, Call):
            place, values = step.path, list(step.outputs)
        else:
            place, values = step.place, [v for v in step.outputs if v.role != "cache"]
        names.update((value, f"{place}{chr(39) * n}") for n, value in enumerate(values))
    return names
