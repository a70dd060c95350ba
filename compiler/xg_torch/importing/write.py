"""A model as the text of an `.xg` file, and every parameter under the name that it has there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError, Source
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ops import table
from xg.syntax.format import format
from xg_torch.importing.block_text import BlockText, File
from xg_torch.importing.blocks import CallRun, ModelBlocks, ModuleInstance, OpenSizes
from xg_torch.importing.dims import name_sizes
from xg_torch.importing.lowering import spell
from xg_torch.importing.names import TakenNames, identifier
from xg_torch.importing.views import Model, ModelStep, Weight, WrittenOperator

SHARES: Final = re.compile(r"x ?/ ?\(?sum\[D\]\(x\)( \+ [-.\de]+\))?( ?\* ?[.\de]+)?")


@dataclass(frozen=True)
class WrittenModel:
    """The text, and of each parameter by its path where its numbers come from."""

    text: str
    weights: Mapping[str, Weight]
    symbols: Mapping[str, str]  # torch's symbols, by their names in the file


def write(model: Model, blocks: ModelBlocks, entry: str, heading: Sequence[str]) -> WrittenModel:
    """The file that says what a model does; raises DiagnosticError."""
    operators = TakenNames(name for op in table().values() for name in (op.glyph, op.name))
    definitions, op_names = _operators(model, operators)
    block_names = {
        instance.definition: operators.new(
            entry if instance is blocks.entry else identifier(instance.kind, "Block")
        )
        for instance in blocks.definitions()
    }
    dims = name_sizes(model, _counts(blocks))
    file = File(model, blocks, dims, op_names, block_names, OpenSizes(blocks, dims))
    bodies: list[str] = []
    for instance in blocks.definitions():
        file.writers[instance.definition] = BlockText(file, instance)
        bodies.append(file.writers[instance.definition].text())
        file.open_sizes.wrote(instance, bodies[-1])
    if file.problems:
        raise DiagnosticError.of(*file.problems)
    declared = ", ".join(f"{name} = {size}" if size else name for name, size in dims.declared)
    head = [*(f"# {line}" for line in heading), *([f"dim {declared}"] if declared else []), ""]
    text = "\n".join([*head, *([*definitions, ""] if definitions else []), *bodies])
    symbols = {symbol: str(dim) for symbol, dim in dims.symbols.items()}
    return WrittenModel(format(Source("imported.xg", text)), dict(_weights(file)), symbols)


def _counts(blocks: ModelBlocks) -> Iterator[int]:
    """How often blocks are repeated."""
    for instance in blocks.instances:
        for item in instance.items:
            if isinstance(item, CallRun) and len(item.instances) > 1:
                yield len(item.instances)


def _operators(model: Model, taken: TakenNames) -> tuple[list[str], dict[str, str]]:
    """The operators that a model defines, and the name of each by its formula."""
    lines: list[str] = []
    names: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for step in model.steps:
        definition: WrittenOperator | None = step.attrs.get("definition")
        key = str(definition or step.attrs.get("formula"))
        if step.operator not in ("op", "defined") or key in names:
            continue
        if definition is None:
            signature, body = _definition(step, model)
            definition = WrittenOperator(_operator_name(step, body), signature, body)
        text = definition.signature + definition.body
        if text not in spelled:
            spelled[text] = taken.new(definition.name)
            lines.append(f"op {spelled[text]}{definition.signature} = {definition.body}")
        names[key] = spelled[text]
    return lines, names


def _weights(file: File) -> Iterator[tuple[str, Weight]]:
    """Every parameter of every instance by its path."""
    waiting: list[tuple[str, ModuleInstance]] = [("", file.blocks.entry)]
    while waiting:
        prefix, instance = waiting.pop(0)
        writer = file.writers[instance.definition]
        for name, weight in writer.parameters(instance):
            yield prefix + name, weight
        for item, name in writer.calls(instance):
            if not item.again:
                for place, each in enumerate(item.instances):
                    number = f"{place}." if len(item.instances) > 1 else ""
                    waiting.append((f"{prefix}{name}.{number}", each))


def _definition(step: ModelStep, model: Model) -> tuple[str, str]:
    """The signature and the body of an operator that a formula becomes."""
    parts, reduced, narrow = step.attrs["formula"]
    needs_axis = any(reduced) or any(narrow)
    wide_names, narrow_names = iter("xyzuvw"), iter("ghkmn")
    data: list[str] = []
    own: list[str] = []
    names: list[str] = []
    for is_small, value in zip(narrow, step.data, strict=True):
        name = next(narrow_names if is_small else wide_names, f"a_{len(names)}")
        names.append(name)
        if is_small:
            (own if value in model.weights else data).append(f"{name} [D]")
        else:
            data.append(f"{name} [.., D]" if needs_axis else name)
    signature = f"({', '.join(data)}{'; ' if own else ''}{', '.join(own)})"
    return signature, spell(parts, names, "D")


def _operator_name(step: ModelStep, body: str) -> str:
    scope = step.stack[-1] if step.stack else None
    if SHARES.fullmatch(body):
        return "Shares"
    if body == "sum[D](x)":
        return "Total"
    if "mean[D]" in body and "sqrt" in body:
        return "Norm" if "- mean[D]" in body else "RMS"
    if scope is not None and not scope.kind.startswith("torch.nn."):
        kind = scope.kind.rpartition(".")[2]
        if any(word in kind for word in ("GELU", "Act", "Norm", "SiLU", "ReLU")):
            return identifier(kind, "Op")
    return "Elementwise"
