"""Modules as blocks: which steps are whose, and what goes into each and out of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final, Protocol, TypeVar, cast

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg_torch.importing.exported import ModuleScope
from xg_torch.importing.views import Arrangement, Dims, Model, ModelStep, ModelValue, Size

# Steps that no input reaches, written around all modules that read them: T5's bias of scores.


class HasKey(Protocol):
    """A module by its key."""

    key: str


M = TypeVar("M", bound=HasKey)


def further_out(
    steps: Sequence[ModelStep], home: Mapping[ModelStep, tuple[M, ...]]
) -> dict[ModelStep, int]:
    """How many modules stay around steps that others than their own module read.

    Layers that share a table are then equal, also the first, which computed it.
    """
    homes = dict(home)
    readers: dict[ModelValue, list[ModelStep]] = {}
    for step in steps:
        for value in step.operands:
            readers.setdefault(value, []).append(step)
    depths: dict[ModelStep, int] = {}
    for step in reversed(list(_of_no_input(steps))):
        users = [user for value in step.outputs for user in readers.get(value, ())]
        shared = _shared([homes[step], *(homes[user] for user in users)])
        if len(shared) < len(homes[step]) and shared:
            homes[step] = shared
            keys = {instance.key for instance in shared}
            around = [i + 1 for i, scope in enumerate(step.stack) if scope.key in keys]
            depths[step] = max(around, default=0)
    return depths


def _shared(chains: Sequence[tuple[M, ...]]) -> tuple[M, ...]:
    """The modules around all."""
    same = takewhile(lambda each: all(x is each[0] for x in each), zip(*chains, strict=False))
    return tuple(first for first, *_ in same)


def _of_no_input(steps: Iterable[ModelStep]) -> Iterable[ModelStep]:
    """The steps that begin with a source, such as `buckets`."""
    made: set[ModelValue] = set()
    for step in steps:
        if all(value in made for value in step.data):
            made.update(step.outputs)
            yield step


def in_place(steps: Sequence[ModelStep], raised: Mapping[ModelStep, int]) -> list[ModelStep]:
    """Order the steps, with raised ones moved before the module that they were in."""
    alone = {step for step in _of_no_input(steps) if step in raised}
    first: dict[tuple[str, ...], int] = {}
    for place, step in enumerate(steps):
        for depth in range(len(step.stack) + 1):
            first.setdefault(tuple(scope.key for scope in step.stack[:depth]), place)

    def place_of(item: tuple[int, ModelStep]) -> tuple[int, bool]:
        place, step = item
        if step not in alone:
            return place, True
        return first[tuple(scope.key for scope in step.stack[: raised[step] + 1])], False

    return [step for _, step in sorted(enumerate(steps), key=place_of)]


FEWEST: Final = 3  # a module of fewer nodes is written where it is used; layouts do not count
UNSEEN: Final = frozenset(
    {"R", "T", "BC", "range", "sinusoid", "buckets", "slice", "split", "pick"}
)
SPLIT: Final = ("Transformer", "MultiheadAttention")  # the modules of torch.nn that are blocks


@dataclass(eq=False)
class ModuleInstance:
    """One module with its steps; `path` is where names inside it begin."""

    key: str
    path: str
    kind: str
    items: list[ModelStep | CallRun] = field(default_factory=list["ModelStep | CallRun"])
    inputs: list[ModelValue] = field(default_factory=list[ModelValue])
    outputs: list[ModelValue] = field(default_factory=list[ModelValue])
    definition: int = -1  # instances of one definition are one block

    @property
    def module(self) -> str:
        """The module that all calls share."""
        return self.key.partition("@")[0]

    def relative(self, path: str) -> str:
        """A path as seen from here."""
        return path[len(self.path) + 1 :] if path.startswith(f"{self.path}.") else path


@dataclass(eq=False)
class CallRun:
    """A call, or several in a row of one block, each on what the one before it gave.

    `again` is the call that has its parameters, where the module was called before.
    """

    name: str
    instances: list[ModuleInstance]
    again: bool = False

    @property
    def inputs(self) -> list[ModelValue]:
        """The inputs of the first round."""
        return self.instances[0].inputs

    @property
    def outputs(self) -> list[ModelValue]:
        """The outputs of the last round."""
        return self.instances[-1].outputs


@dataclass(frozen=True)
class ModelBlocks:
    """Hold the entry and all instances, callees first; one definition is one block."""

    entry: ModuleInstance
    instances: Sequence[ModuleInstance]

    def definitions(self) -> Iterator[ModuleInstance]:
        """One instance of each block, callees first."""
        seen: set[int] = set()
        for instance in self.instances:
            if instance.definition not in seen:
                seen.add(instance.definition)
                yield instance


class Builder:
    """Groups steps by their modules."""

    def __init__(self, model: Model, inline: set[str], raised: Mapping[ModelStep, int]) -> None:
        self.model = model
        self.inline = inline  # modules that are no blocks
        self.raised = raised  # steps that move further out, and how many modules are around them
        self.steps = in_place(model.steps, raised)
        self.producers = {value: step for step in self.steps for value in step.outputs}
        self.users: dict[ModelValue, list[ModelStep]] = {}
        for step in self.steps:
            for value in dict.fromkeys(step.operands):
                self.users.setdefault(value, []).append(step)
        self.home: dict[ModelStep, tuple[ModuleInstance, ...]] = {}
        self.depth: list[tuple[int, ModuleInstance]] = []
        self.split_keys: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.nodes: Counter[str] = Counter()
        self.parametric: set[str] = set()
        self.places = {step: place for place, step in enumerate(self.steps)}
        for step in self.steps:
            for scope in self._stack(step):
                self.counts[scope.key] += 1
                self.nodes[scope.key] += step.operator not in UNSEEN
                if any(value in model.weights for value in step.operands):
                    self.parametric.add(scope.key)

    def _stack(self, step: ModelStep) -> tuple[ModuleScope, ...]:
        """The modules around a step."""
        return step.stack[: self.raised.get(step)]

    def build(self) -> ModuleInstance:
        """The entry with everything below it."""
        steps = list(self.steps)
        root = steps[0].stack[0] if steps and steps[0].stack else ModuleScope("", "", "Model")
        entry = ModuleInstance(root.key, root.path, _class(root.kind))
        waiting: list[tuple[ModuleInstance, list[ModelStep], tuple[ModuleInstance, ...]]] = [
            (entry, steps, ())
        ]
        while waiting:
            instance, own, outer = waiting.pop()
            chain = (*outer, instance)
            self.depth.append((len(chain), instance))
            instance.path = self._base(own, instance.path)
            groups: dict[str, list[ModelStep]] = {}
            before: ModelStep | None = None
            for step in own:
                previous, before = before, step
                scope = self._child(step, chain, len(own))
                if scope is None:
                    self.home[step] = chain
                    instance.items.append(step)
                    continue
                if scope.key in groups and groups[scope.key][-1] is not previous:
                    self.split_keys.add(scope.key)
                if scope.key not in groups:
                    child = ModuleInstance(scope.key, scope.path, _class(scope.kind))
                    runs = [item for item in instance.items if isinstance(item, CallRun)]
                    again = any(run.instances[0].module == child.module for run in runs)
                    instance.items.append(CallRun(instance.relative(scope.path), [child], again))
                    groups[scope.key] = []
                    waiting.append((child, groups[scope.key], chain))
                groups[scope.key].append(step)
        for _, instance in sorted(self.depth, key=lambda item: -item[0]):
            self._ports(instance)
        return entry

    def _base(self, steps: Iterable[ModelStep], path: str) -> str:
        """The deepest module that has all of some steps: names begin there."""
        shared: Sequence[ModuleScope] | None = None
        for step in steps:
            stack = self._stack(step)
            shared = stack if shared is None else _common(shared, stack)
        paths = [scope.path for scope in shared or () if _is_module(scope)]
        return max([path, *paths], key=len)

    def _child(
        self, step: ModelStep, chain: tuple[ModuleInstance, ...], total: int
    ) -> ModuleScope | None:
        """The module below an instance that a step belongs to as a block."""
        keys = {instance.key for instance in chain}
        stack = self._stack(step)
        place = max((i for i, s in enumerate(stack) if s.key in keys), default=-1)
        for scope in stack[place + 1 :]:
            if self._is_block(scope) and self.counts[scope.key] < total:
                return scope
        return None

    def _is_block(self, scope: ModuleScope) -> bool:
        return (
            _is_module(scope)
            and scope.key not in self.inline
            and scope.path not in self.inline
            and scope.key in self.parametric
            and self.nodes[scope.key] >= FEWEST
        )

    def _ports(self, instance: ModuleInstance) -> None:
        """The values that an instance reads from outside, and its own that others read."""
        inside = {step for step, chain in self.home.items() if instance in chain}
        produced = [value for step in self.steps if step in inside for value in step.outputs]
        values = set(produced)
        read = [v for step in self.steps if step in inside for v in step.operands]
        instance.inputs = [
            value
            for value in dict.fromkeys(read)
            if value not in values and value not in self.model.weights
        ]
        final = set(self.model.outputs)
        instance.outputs = [
            value
            for value in produced
            if value in final or any(user not in inside for user in self.users.get(value, []))
        ]

    def refused(self) -> tuple[set[str], dict[ModelStep, int]]:
        """Modules that cannot be blocks, and steps that must move further out.

        A module is torn apart, or others read weights of it in ways that the language lacks: names
        reach into a call, never up, sideways, or two calls deep. A table that two modules read
        sideways is read where both are called.
        """
        names = set(self.split_keys)
        raised = further_out(self.steps, self.home)
        for value in self.model.weights:
            users = self.users.get(value, [])
            owner = max((self.home[step] for step in users), key=len, default=())
            aside = [step for step in users if not _reaches(self.home[step], owner)]
            if aside:
                lookups = [step for step in users if not self._is_above(step, aside)]
                depths = self._lookup_depths(lookups)
                raised |= depths
                if not depths:
                    names |= self._apart([self.home[step] for step in users])
                continue
            for step in users:
                early = self.places[step] < self._begin(owner)
                names |= {each.key for each in owner[len(self.home[step]) + (not early) :]}
        return names, raised

    def _begin(self, owner: Sequence[ModuleInstance]) -> int:
        """The place of the first step of an instance."""
        return min(self.places[step] for step, chain in self.home.items() if owner[-1] in chain)

    def _apart(self, chains: Sequence[Sequence[ModuleInstance]]) -> set[str]:
        """The modules below the innermost that all chains share."""
        paths = [modules(chain) for chain in chains]
        shared = set(paths[0]).intersection(*paths[1:])
        return {each.key for chain in chains for each in chain if each.module not in shared}

    def _is_above(self, step: ModelStep, others: Sequence[ModelStep]) -> bool:
        """Whether a step is in a module around all of the others."""
        chain = self.home[step]
        return all(
            len(self.home[other]) > len(chain) and _reaches(chain, self.home[other])
            for other in others
        )

    def _lookup_depths(self, steps: Sequence[ModelStep]) -> dict[ModelStep, int]:
        """How many modules stay around lookups where all of them are called; empty if they cannot.

        The tables that they look up must exist already.
        """
        chains = [self.home[step] for step in steps]
        shared = [
            first for first, *rest in zip(*chains, strict=False) if all(x is first for x in rest)
        ]
        inside = {s for s, chain in self.home.items() if chain[: len(shared)] == tuple(shared)}
        if not shared or any(
            step.operator != "Emb" or self.producers.get(step.data[0]) in inside for step in steps
        ):
            return {}
        keys = {instance.key for instance in shared}
        return {
            step: max((i + 1 for i, s in enumerate(step.stack) if s.key in keys), default=0)
            for step in steps
        }

    def owner(self, value: ModelValue) -> ModuleInstance:
        """The instance that declares a parameter: the innermost that reads it."""
        return max((self.home[step] for step in self.users[value]), key=len)[-1]

    def callees_first(self) -> list[ModuleInstance]:
        """Return all instances, each after the instances that it calls."""
        return [each for _, each in sorted(self.depth, key=lambda item: -item[0])]


def _reaches(chain: Sequence[ModuleInstance], owner: Sequence[ModuleInstance]) -> bool:
    """Whether a block is around another, or is it."""
    return modules(chain) == modules(owner)[: len(chain)]


def modules(chain: Sequence[ModuleInstance]) -> list[str]:
    """The modules of instances: two calls of one have the same."""
    return [each.module for each in chain]


def _class(kind: str) -> str:
    return kind.rpartition(".")[2]


def _is_module(scope: ModuleScope) -> bool:
    """Whether a module can be a block: not the ready-made ones that are one node."""
    if scope.kind.startswith("torch.nn."):
        return _class(scope.kind).startswith(SPLIT)
    return True


def _common(one: Sequence[ModuleScope], other: Sequence[ModuleScope]) -> Sequence[ModuleScope]:
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return [scope for scope, _ in same]


# Blocks that are one, and calls in a row that are a repetition.


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
            refused = {key for instance in callees for key in _differing_calls(instance)}
        if not refused and not further_out:
            break
        inline |= refused
        raised |= further_out
    for instance in callees:
        _repeat(instance, builder)
    return ModelBlocks(entry, callees)


def _differing_calls(instance: ModuleInstance) -> Iterator[str]:
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


# Sizes that a call has to say: those that the inputs of the called block do not give.


SIZE: Final = re.compile(r"[^\W\d]\w*")
SAID: Final = re.compile(r"\[[^\]]*\]|=\w+")  # a shape or an arrangement, and what a call gives


class OpenSizes:
    """Sizes of blocks by their definitions; blocks are written before those that call them."""

    def __init__(self, blocks: ModelBlocks, dims: Dims) -> None:
        self.dims = dims
        self.around = self._around(blocks.entry)
        self._mentioned: dict[int, Sequence[str]] = {}
        self._products: dict[int, Sequence[str]] = {}

    def given(self, caller: ModuleInstance, callee: ModuleInstance) -> str:
        """The sizes that a call has to say, as it says them.

        One that only products of the callee's inputs show, if the caller has it; and one that its
        text mentions, if inputs around it give another than the program's.
        """
        known = {*self._axes(caller), *self._in_products(caller)}
        around = self._axes(caller) | self.around[caller.definition]
        names = [name for name in self._in_products(callee) if name in known]
        names += [name for name in self._mentioned[callee.definition] if name in around]
        said = ", ".join(f"{name}={name}" for name in dict.fromkeys(names))
        return f"({said})" if said else ""

    def wrote(self, block: ModuleInstance, text: str) -> None:
        """Note the sizes that a block mentions, with those from which they follow."""
        formulas = dict(self.dims.declared)
        waiting = [name for said in SAID.findall(text) for name in SIZE.findall(said)]
        names: dict[str, None] = {}
        while waiting:
            name = waiting.pop()
            if name in formulas and name not in names:
                names[name] = None
                waiting += SIZE.findall(formulas[name])
        axes = self._axes(block)
        self._mentioned[block.definition] = [name for name in names if name not in axes]

    def _around(self, entry: ModuleInstance) -> Mapping[int, frozenset[str]]:
        """The sizes that inputs of the blocks around each block give."""
        around: dict[int, frozenset[str]] = {}
        waiting = [(entry, frozenset[str]())]
        while waiting:
            instance, names = waiting.pop()
            before = around.get(instance.definition, frozenset())
            around[instance.definition] = before | names
            own = names | self._axes(instance)
            waiting += [(each, own) for run in _calls(instance) for each in run.instances]
        return around

    def _axes(self, block: ModuleInstance) -> frozenset[str]:
        """The sizes that are axes of inputs, which give them a number."""
        return frozenset(str(self.dims[size]) for value in block.inputs for size in value.axes)

    def _in_products(self, block: ModuleInstance) -> Sequence[str]:
        """Return the sizes that a block's inputs, or its calls' inputs, show only in products."""
        found = self._products
        if block.definition not in found:
            shapes = [self.dims.shape(value) for value in block.inputs]
            names = [name for shape in shapes for name in SIZE.findall(shape)]
            for run in _calls(block):
                names += self._in_products(run.instances[0])
            axes = self._axes(block)
            found[block.definition] = [n for n in dict.fromkeys(names) if n not in axes]
        return found[block.definition]


def _calls(block: ModuleInstance) -> Iterator[CallRun]:
    return (item for item in block.items if isinstance(item, CallRun))
