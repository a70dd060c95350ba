"""Modules as blocks: which steps are whose, and what goes into each and out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg_torch.importing.diagram import Model, ModelStep
from xg_torch.importing.exported import ModuleScope
from xg_torch.importing.raising import further_out, in_place
from xg_torch.importing.views import ModelValue

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
    """The entry, and every instance, callees first; those of one definition are one block."""

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
                depths = self._raised(lookups)
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

    def _raised(self, steps: Sequence[ModelStep]) -> dict[ModelStep, int]:
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
        """Every instance behind those that it calls."""
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
