"""Names for the values of a backward function: ``dX``, ``d_S``, ``dX_LN``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from xg.codegen.emit.names import identifier, plain
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Apply, Backward, Call, Program, Step, Value
from xg.ir.labels import names_by_label
from xg.ir.placement import is_term


def gradient_names(
    backward: Backward,
    forward_names: Mapping[Value, str],
    program: Program,
    is_function: Callable[[str], bool],
) -> dict[Value, str]:
    """A name for every gradient; equal ones are numbered where they are written.

    The gradient of a labelled value is called after it: ``dX``. One without a label is called after
    the node that gives it: ``d_S``. A part of a sum is called after both: ``dX_LN``. Where several
    nodes have one name, operand or label follow: ``dX_attn_M``, ``d_R_Q``. No name is one of a
    function, if that can be helped.
    """
    labels = names_by_label(backward.forward)
    namer = _GradientNamer(backward, program, labels, forward_names, _forward_values(backward))
    names = {value: f"d{namer.stem(of)}" for value, of in namer.of.items()}
    sums = (step for step in backward.steps if _is_sum(step))
    summed = {value for step in sums for value in step.inputs}
    groups: dict[tuple[str, str], list[tuple[Value, _Producer]]] = {}
    for node, value in namer.outputs():
        term = "_i" if is_term(backward.placements.get(value)) else ""
        of = namer.of.get(value)
        if value.name is not None:
            names[value] = value.name + term
        elif value in summed:
            groups.setdefault((f"d{namer.stem(of)}_{node.name}", term), []).append((value, node))
        elif of is None:  # inside one gradient, written where it is read
            names[value] = f"d_{node.name}{term}"
        elif of.name is not None:
            names[value] = f"d{of.name}{term}"
        else:
            groups.setdefault((f"d_{node.name}", term), []).append((value, node))
    for (stem, term), members in groups.items():
        for value, name in _apart(stem, members, is_function):
            names[value] = name + term
    return names


def sums_with_seeds(backward: Backward) -> dict[Value, Value]:
    """Totals that take over the name of a cotangent which nothing else reads."""
    reads = Counter(value for step in backward.steps for value in step.inputs)
    reads.update(value for value, _ in backward.rows)
    seeds = {seed for seed in backward.cotangents.values() if reads[seed] == 1}
    return {
        step.outputs[0]: value
        for step in backward.steps
        if _is_sum(step) and step.outputs[0].name is not None
        for value in step.inputs
        if value in seeds and value.name == step.outputs[0].name
    }


@dataclass(frozen=True, slots=True)
class _Producer:
    """The node that gives a gradient: its name, which of its operands, the label behind it."""

    name: str
    operand: str
    label: str


@dataclass(slots=True)
class _GradientNamer:
    backward: Backward
    program: Program
    labels: Mapping[Value, str]
    forward_names: Mapping[Value, str]
    of: Mapping[Value, Value]

    def stem(self, value: Value | None) -> str:
        """The name of a forward value."""
        if value is None:
            return "part"
        name = value.name or self.forward_names.get(value) or self.labels.get(value, "part")
        return identifier(plain(name).removesuffix("_#"))

    def outputs(self) -> Iterator[tuple[_Producer, Value]]:
        """Every value that a step gives, with the node."""
        for step in (step for step in self.backward.steps if not step.again):
            for place, value in enumerate(step.outputs):
                yield self._node(step, place, value), value

    def _node(self, step: Step, place: int, value: Value) -> _Producer:
        if isinstance(step, Call):
            ports = [
                port.name or ""
                for port in self.program.graphs[step.callee].inputs
                if self.program.graphs[step.callee].types[port].is_float
            ]
            gradients = len(step.outputs) - len(self.program.backwards[step.callee].rows)
            operand = ports[place] if place < len(ports) == gradients else ""
            behind = step.origin.outputs[0] if step.origin else None
            return _Producer(identifier(step.path), operand, self._label(behind))
        operator = step.op if step.origin is None or _moves(step) else step.origin.op
        glyph = operator.glyph if step.origin or _moves(step) else operator.name
        name = glyph if glyph.isidentifier() and glyph.isascii() else operator.name
        if _is_sum(step):
            name = "sum"
        behind = step.origin.outputs[0] if step.origin else self.of.get(value)
        return _Producer(identifier(name), self._operand(step, place, value), self._label(behind))

    def _operand(self, step: Apply, place: int, value: Value) -> str:
        """The name of the operand whose gradient it is, in its operator."""
        if step.op.name.startswith("gradient of ") and len(step.op.outputs) > 1:
            return step.op.outputs[place].removeprefix("d")
        if step.origin is None:
            return ""
        names = step.origin.op.operand_names(step.origin.attrs)
        of = self.of.get(value)
        pairs = zip(names, step.origin.inputs, strict=False)
        return next((name for name, operand in pairs if operand is of), "")

    def _label(self, value: Value | None) -> str:
        if value is None:
            return ""
        label = value.name or self.labels.get(value, "")
        return identifier(label.removesuffix("_#").removesuffix("_i")) if label else ""


def _forward_values(backward: Backward) -> dict[Value, Value]:
    """The forward value of every gradient, also of a sum of some of its parts."""
    of = dict(backward.of)
    for step in reversed(backward.steps):
        if _is_sum(step) and step.outputs[0] in of:
            of.update({part: of[step.outputs[0]] for part in step.inputs if part not in of})
    return of


def _is_sum(step: Step) -> bool:
    """Whether a step adds up the parts of a gradient."""
    alone = isinstance(step, Apply) and step.origin is None and not step.again
    return alone and len(step.inputs) > 1


def _moves(step: Apply) -> bool:
    return step.op.family == "collective"


def _apart(
    stem: str, members: list[tuple[Value, _Producer]], is_function: Callable[[str], bool]
) -> Iterator[tuple[Value, str]]:
    """Names for all that have one stem, as short as keeps them apart."""
    ways = [
        [stem for _ in members],
        [f"{stem}_{node.operand}".rstrip("_") for _, node in members],
        [f"{stem}_{node.label}".rstrip("_") for _, node in members],
        [f"{stem}_{node.label}_{node.operand}".rstrip("_") for _, node in members],
    ]
    fitting = (way for way in ways if len(set(way)) == len(way) and not any(map(is_function, way)))
    for (value, _), name in zip(members, next(fitting, ways[2]), strict=True):
        yield value, name
