"""Blocks that are one, and calls in a row that are a repetition."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Final, cast

from xg_torch.importing.blocks import Builder, CallRun, ModelBlocks, ModuleInstance
from xg_torch.importing.diagram import Arrangement, Model, ModelStep
from xg_torch.importing.sizes import Size
from xg_torch.importing.views import ModelValue

SIZES: Final = ("length", "contracted", "before", "groups")  # attributes that are sizes


def fold(model: Model) -> ModelBlocks:
    """The blocks of a model."""
    inline: set[str] = set()
    raised: dict[ModelStep, int] = {}
    while True:
        builder = Builder(model, inline, raised)
        entry = builder.build()
        callees = builder.callees_first()
        refused, further_out = builder.refused()
        if not refused and not further_out:
            _identify(callees, model)
            refused = {key for instance in callees for key in _changed(instance)}
        if not refused and not further_out:
            break
        inline |= refused
        raised |= further_out
    for instance in callees:
        _repeat(instance, builder)
    return ModelBlocks(entry, callees)


def _changed(instance: ModuleInstance) -> Iterator[str]:
    """Calls of a module that do something else than its first call did."""
    first: dict[str, int] = {}
    for item in instance.items:
        if isinstance(item, CallRun):
            (called,) = item.instances
            if first.setdefault(called.module, called.definition) != called.definition:
                yield called.key


def _identify(instances: Sequence[ModuleInstance], model: Model) -> None:
    """Give equal instances one definition, and make their sizes equal."""
    module_instances: dict[Hashable, ModuleInstance] = {}
    for number, instance in enumerate(instances):
        signature, _ = _signature(instance, model)
        first = module_instances.setdefault((instance.kind, signature), instance)
        instance.definition = number if first is instance else first.definition
    # Callers compare their callees by definition, so sizes are made equal in a second pass.
    for instance in instances:
        first = next(each for each in instances if each.definition == instance.definition)
        if first is not instance:
            pairs = zip(_signature(first, model)[1], _signature(instance, model)[1], strict=True)
            for one, other in pairs:
                model.sizes.equal(one, other)


def _signature(instance: ModuleInstance, model: Model) -> tuple[Hashable, list[Size]]:
    """The computation of an instance, without weights and outer names; and all its sizes."""
    numbers: dict[ModelValue, int] = {}
    sizes: list[Size] = []
    said: list[Hashable] = []

    def shape(value: ModelValue) -> Hashable:
        sizes.extend(size for size in value.axes if size is not None)
        return tuple(None if size is None else model.sizes.dim(size) for size in value.axes)

    def named(value: ModelValue) -> Hashable:
        weight = model.weights.get(value)
        if weight is not None:
            cut = replace(weight, source=instance.relative(weight.source))
            return ("weight", cut, shape(value))
        return numbers[value]

    for value in instance.inputs:
        numbers[value] = len(numbers)
        bound = model.ranges.get(value)
        said.append((shape(value), value.kind, None if bound is None else model.sizes.dim(bound)))
        sizes.extend([] if bound is None else [bound])
    for item in instance.items:
        if isinstance(item, ModelStep):
            data = tuple(named(value) for value in item.operands)
            attrs = tuple(_attribute(key, item.attrs[key], model, sizes) for key in item.attrs)
            what: Hashable = (item.operator, data, attrs)
        else:
            definitions = tuple(each.definition for each in item.instances)
            what = (item.name, item.again, definitions, tuple(map(named, item.inputs)))
        for value in item.outputs:
            numbers[value] = len(numbers)
        said.append((what, tuple(shape(value) for value in item.outputs)))
    said.append(tuple(numbers[value] for value in instance.outputs))
    return tuple(said), sizes


def _attribute(key: str, value: object, model: Model, sizes: list[Size]) -> Hashable:
    match value:
        case Arrangement():
            sizes.extend(value.sizes)
            dims = tuple(model.sizes.dim(size) for size in value.sizes)
            return (key, value.source, value.target, dims)
        case tuple() if key in SIZES:
            own = cast("tuple[Size, ...]", value)
            sizes.extend(own)
            return (key, tuple(model.sizes.dim(size) for size in own))
        case _:
            return (key, str(value))


def _repeat(instance: ModuleInstance, builder: Builder) -> None:
    """Fold calls of one block in a row, each on what the one before gave, into one."""
    items: list[ModelStep | CallRun] = []
    for item in instance.items:
        last = items[-1] if items else None
        if (
            isinstance(item, CallRun)
            and isinstance(last, CallRun)
            and _follows(instance, last, item, builder)
        ):
            last.instances += item.instances
        else:
            items.append(item)
    for item in items:
        if isinstance(item, CallRun) and len(item.instances) > 1:
            item.name = item.name.rpartition(".")[0] or item.name
    instance.items = items


def _follows(instance: ModuleInstance, run: CallRun, item: CallRun, builder: Builder) -> bool:
    before, after = run.instances[-1], item.instances[0]
    stem, _, first = run.name.rpartition(".")
    name, _, index = item.name.rpartition(".")
    if before.definition != after.definition or run.again or item.again or stem != name:
        return False
    if not stem or not first.isdigit() or index != str(int(first) + len(run.instances)):
        return False
    if len(before.outputs) != 1 or before.outputs[0] in builder.model.outputs:
        return False
    (carry,) = before.outputs
    if after.inputs.count(carry) != 1:
        return False
    place = after.inputs.index(carry)
    if any(
        a is not b
        for i, (a, b) in enumerate(zip(before.inputs, after.inputs, strict=True))
        if i != place
    ):
        return False
    inside = {step for step, chain in builder.home.items() if after in chain}
    if any(user not in inside for user in builder.users.get(carry, [])):
        return False
    return place == 0
