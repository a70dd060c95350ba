"""Write a model as the text of an `.xg` file, block by block, with its parameters' names there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError, Problem, Source
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import Dim
from xg.ops import table
from xg.syntax.format import format
from xg.syntax.spelling import ascii_name
from xg_torch.importing.blocks import CallRun, ModelBlocks, ModuleInstance, OpenSizes
from xg_torch.importing.errors import NotSpoken, Unspeakable
from xg_torch.importing.lowering import spell
from xg_torch.importing.names import (
    Node,
    Roles,
    TakenNames,
    edge_name,
    identifier,
    node_text,
    of_distances,
    parameter_name,
    source_text,
    spreads_in_front,
)
from xg_torch.importing.views import (
    Dims,
    Model,
    ModelStep,
    ModelValue,
    Weight,
    WrittenOperator,
    name_sizes,
)

# One block as text: the names in it, its parameters, its chains.


# The steps of one block as chains: what flows, what is attached, where a line ends.


SWAPPED = frozenset({"⊕", "⊙"})  # either operand may flow
LAID_OUT = frozenset({"R", "T", "BC", "RoPE"})
ENDS = frozenset(
    {"S", "GELU", "ReLU", "SiLU", "SwiGLU", "GLU", "Emb", "conv", "maxpool", "meanpool", "scatter"}
)
SOURCES = frozenset({"range", "sinusoid", "buckets"})


@dataclass(frozen=True)
class Link:
    """A node of a chain: what it is, which operand flows in, whether its edge is labeled."""

    node: Node
    flows: int
    labeled: bool


class Chains:
    """The connections between the nodes of a block."""

    def __init__(self, instance: ModuleInstance, model: Model) -> None:
        self.instance = instance
        self.weights = model.weights
        self.sizes = model.sizes
        self.nodes = list(instance.items)
        self.users: dict[ModelValue, list[Node]] = {}
        for node in self.nodes:
            for value in operands(node):
                self.users.setdefault(value, []).append(node)
        self.kept = set(instance.outputs)
        self.inside = self._inside()
        self.producer = {value: node for node in self.nodes for value in node.outputs}
        self.inline = {node for node in self.nodes if self._is_inline(node)}

    def single(self, value: ModelValue) -> Node | None:
        """The one node that reads a value; None if there are several, or it goes out."""
        users = self.users.get(value, [])
        return users[0] if len(users) == 1 and value not in self.kept else None

    def _inside(self) -> dict[ModelValue, CallRun]:
        """Return the call that has each parameter inside; other readers come after that call."""
        runs: dict[ModelValue, CallRun] = {}
        for run in self.nodes:
            waiting: list[ModelStep | CallRun] = [run] if isinstance(run, CallRun) else []
            while waiting:
                item = waiting.pop()
                if isinstance(item, CallRun):
                    waiting += [inner for each in item.instances for inner in each.items]
                    continue
                assert isinstance(run, CallRun)
                for value in item.operands:
                    if value in self.weights:
                        runs.setdefault(value, run)
        return runs

    def _is_inline(self, node: Node) -> bool:
        """Whether a node is written inside another: BC(b), T(E), range(S), sinusoid(S, D)."""
        if not isinstance(node, ModelStep) or len(node.outputs) != 1:
            return False
        user = self.single(node.outputs[0])
        if user is None:
            return False
        if node.operator in SOURCES:
            return True
        place = operands(user).index(node.outputs[0])
        attached = place > 0 and isinstance(user, ModelStep)
        if node.operator == "T":
            return attached and node.data[0] in self.weights and len(node.data[0].axes) == 2
        if node.operator != "BC" or not attached or not isinstance(user, ModelStep):
            return False
        if user.operator in ("C", "•"):
            return False  # which lay nothing out beside another
        inner = self.producer.get(node.data[0])
        turned = isinstance(inner, ModelStep) and inner.operator in ("T", "BC")
        return not turned and spreads_in_front(node)

    def lines(self) -> list[list[Link]]:
        """Every chain, in an order in which everything is there before it is read."""
        done: set[Node] = set(self.inline)
        links: list[list[Link]] = []
        while len(done) < len(self.nodes):
            ready = [node for node in self.nodes if node not in done and self._ready(node, done)]
            drafts = [self._chain(node, done) for node in ready]
            free = [chain for chain, blocked in drafts if not blocked]
            chain = free[0] if free else drafts[-1][0]
            links.append(chain)
            done |= {link.node for link in chain}
        return links

    def _ready(self, node: Node, done: set[Node]) -> bool:
        """Whether all that a node reads is there."""
        waiting = list(operands(node))
        while waiting:
            value = waiting.pop()
            if value in self.inside and self.inside[value] not in done:
                return False
            producer = self.producer.get(value)
            if producer is None:
                continue
            if producer in self.inline:
                waiting += operands(producer)
            elif producer not in done:
                return False
        return True

    def _chain(self, first: Node, done: set[Node]) -> tuple[list[Link], bool]:
        """The chain that begins with a node; whether it stops at a node that is not ready."""
        done = set(done)
        node, flows = first, self._first_operand(first)
        links: list[Link] = []
        while True:
            done.add(node)
            following = self._next(node, links)
            blocked = following is not None and not self._ready(following[0], done)
            if following is None or blocked:
                links.append(Link(node, flows, labeled=True))
                return links, blocked
            links.append(Link(node, flows, labeled=self._has_label(node)))
            node, flows = following

    def _has_label(self, node: Node) -> bool:
        """Whether an edge has its shape: where a reader needs it, and where C needs it."""
        if not isinstance(node, ModelStep):
            return False
        if node.operator == "C":
            return len({self._lengths(value) for value in node.data}) == 1
        if of_distances(self.producer, node.outputs[0]):
            return False  # the T behind it says its axes
        return node.operator in LAID_OUT - {"RoPE"} or node.operator in ENDS

    def _lengths(self, value: ModelValue) -> tuple[Dim | None, ...]:
        return tuple(None if size is None else self.sizes.dim(size) for size in value.axes)

    def _first_operand(self, node: Node) -> int:
        if isinstance(node, ModelStep) and node.operator in SWAPPED:
            return 1 if self.producer.get(node.data[0]) in self.inline else 0
        if isinstance(node, ModelStep) and node.operator == "op":
            return node.attrs["formula"][2].index(False)
        return 0

    def _next(self, node: Node, links: list[Link]) -> tuple[Node, int] | None:
        """The node that continues a chain, and the operand that flows into it."""
        if len(node.outputs) != 1:
            return None
        (value,) = node.outputs
        user = self.single(value)
        if user is None or user in self.inline:
            return None
        place = operands(user).index(value)
        swapped = isinstance(user, ModelStep) and user.operator in SWAPPED and place == 1
        if not swapped and not _is_first(user, place):
            return None
        if isinstance(user, ModelStep):
            if user.operator == "C" or operands(user).count(value) > 1:
                return None
            products = user.operator == "•" and user.data[1] not in self.weights
            turned = self.producer.get(user.data[1]) if products else None
            of_weight = isinstance(turned, ModelStep) and turned in self.inline
            laid_out = isinstance(node, ModelStep) and node.operator in LAID_OUT
            if products and laid_out and not of_weight:
                return None
        return user, place


def _is_first(node: Node, place: int) -> bool:
    """Whether an operand is the one that arrives by the chain."""
    if isinstance(node, ModelStep) and node.operator == "op":
        return node.attrs["formula"][2].index(False) == place
    return place == 0


def operands(node: Node) -> tuple[ModelValue, ...]:
    """The operands of a node, in order."""
    return node.operands if isinstance(node, ModelStep) else tuple(node.inputs)


LONGEST = 84  # a longer chain continues in the next line


@dataclass(frozen=True)
class File:
    """The data that the blocks of a file share."""

    model: Model
    blocks: ModelBlocks
    dims: Dims
    op_names: Mapping[str, str]
    block_names: Mapping[int, str]
    open_sizes: OpenSizes
    writers: dict[int, BlockText] = field(default_factory=dict[int, "BlockText"])
    problems: list[Problem] = field(default_factory=list[Problem])


class BlockText:
    """One block: the names in it, and its chains."""

    def __init__(self, file: File, instance: ModuleInstance) -> None:
        self.file = file
        self.instance = instance
        self.model, self.dims = file.model, file.dims
        self.chains = Chains(instance, file.model)
        self.taken = TakenNames()
        self.names: dict[ModelValue, str] = {}
        self.own: list[ModelValue] = []  # parameters, in the order of their use
        self.run_names = _run_names(instance)
        self._name_inputs()
        self._name_parameters()

    # ---- names ----------------------------------------------------------------------------------

    def _name_inputs(self) -> None:
        named = {value: name for name, value in self.model.inputs.items()}
        is_entry = self.instance is self.file.blocks.entry
        first = True
        for value in self.inputs:
            if is_entry or value.kind == "int":
                base_name = identifier(named.get(value, "ids"))
            else:
                base_name = "X" if first else "M"
                first = False
            self.names[value] = self.taken.new(base_name)

    @property
    def inputs(self) -> Sequence[ModelValue]:
        """The inputs: for the entry, all inputs of the model in their order."""
        if self.instance is self.file.blocks.entry:
            return list(self.model.inputs.values())
        return self.instance.inputs

    def _name_parameters(self) -> None:
        roles = Roles(self.instance, self.model)
        uses: dict[ModelValue, tuple[ModelStep, int]] = {}
        for item in self.instance.items:
            if isinstance(item, ModelStep):
                for place, value in enumerate(item.operands):
                    if value in self.model.weights:
                        uses.setdefault(value, (self._reader(item), place))
        inside = self._parameter_paths()
        for value, use in uses.items():
            if value in inside:
                self.names[value] = inside[value]
                continue
            name = roles.of.get(value) or parameter_name(self.instance, value, use, self.model)
            self.names[value] = self.taken.new(name)
            self.own.append(value)
        self.roles = roles

    def _reader(self, step: ModelStep) -> ModelStep:
        """Return the step that reads a parameter: the product after a T, if it is a T."""
        user = self.chains.single(step.outputs[0]) if step.operator == "T" else None
        return user if isinstance(user, ModelStep) else step

    def _parameter_paths(self) -> dict[ModelValue, str]:
        """Parameters of calls that this block reads by their paths."""
        paths: dict[ModelValue, str] = {}
        for item, name in self.calls(self.instance):
            if len(item.instances) == 1:
                waiting = [(f"{name}.", item.instances[0])]
                while waiting:
                    prefix, instance = waiting.pop()
                    writer = self.file.writers[instance.definition]
                    pairs = zip(writer.own, writer.instance_parameters(instance), strict=True)
                    paths |= {actual: prefix + writer.names[formal] for formal, actual in pairs}
                    waiting += [
                        (f"{prefix}{inner}.", each.instances[0])
                        for each, inner in writer.calls(instance)
                        if len(each.instances) == 1
                    ]
        return paths

    def calls(self, instance: ModuleInstance) -> Iterator[tuple[CallRun, str]]:
        """The calls of an instance of this block with their names."""
        for place, item in enumerate(instance.items):
            if isinstance(item, CallRun):
                yield item, self.run_names[place]

    def instance_parameters(self, instance: ModuleInstance) -> list[ModelValue]:
        """The parameters of an instance, in the order of this block's own."""
        places = {
            value: (i, j)
            for i, item in reversed(list(enumerate(self.instance.items)))
            for j, value in reversed(list(enumerate(operands(item))))
        }
        return [operands(instance.items[i])[j] for i, j in (places[value] for value in self.own)]

    def parameters(self, instance: ModuleInstance) -> Iterator[tuple[str, Weight]]:
        """The names of an instance's parameters, and where their numbers are."""
        for formal, actual in zip(self.own, self.instance_parameters(instance), strict=True):
            yield ascii_name(self.names[formal]), self.model.weights[actual]

    def name(self, value: ModelValue, wanted: str) -> str:
        """The name of an edge, made when it is first asked for."""
        if value not in self.names:
            self.names[value] = self.taken.new(self.roles.of.get(value, wanted))
        return self.names[value]

    # ---- text -----------------------------------------------------------------------------------

    def text(self) -> str:
        """The block."""
        outputs = self._name_outputs()
        lines = [self._chain(chain) for chain in self.chains.lines()]
        data = ", ".join(self._port(value) for value in self.inputs)
        name = self.file.block_names[self.instance.definition]
        head = f"block {name}({data}) -> {', '.join(outputs)} {{"
        frozen = {value for value, weight in self.model.weights.items() if weight.frozen}
        params = [(self.names[v], self.dims.shape(v), " frozen" * (v in frozen)) for v in self.own]
        return "\n".join([head, *_param_lines(params), "", *lines, "}", ""])

    def _name_outputs(self) -> list[str]:
        ports: list[str] = []
        for value in self._outputs():
            if value in self.names:  # an input goes out as it came in
                self.file.problems.append(
                    NotSpoken("an output", "the model", "it is an input as it came in")
                )
            scalar = not value.axes
            self.names[value] = self.taken.new("loss" if scalar else "Y")
            ports.append(self._port(value))
        return ports

    def _outputs(self) -> Sequence[ModelValue]:
        if self.instance is self.file.blocks.entry:
            return list(dict.fromkeys(self.model.outputs))
        return self.instance.outputs

    def _port(self, value: ModelValue) -> str:
        return f"{self.names[value]} {_type(value, self.file)}"

    def _chain(self, chain: Sequence[Link]) -> str:
        first = chain[0]
        sources = self._sources(first)
        lines: list[str] = []
        line = f"    {sources}" if sources else ""
        for link in chain:
            try:
                node = self._node(link)
            except Unspeakable as problem:
                self._report(link, problem)
                continue
            if isinstance(link.node, ModelStep) and not operands(link.node):
                line = f"    {node}"
            elif line and len(line) + len(node) > LONGEST:
                lines.append(line)
                line = f"      -> {node}"
            else:
                line += f" -> {node}" if line else f"      -> {node}"
            if link.labeled:
                lines.append(f"{line} : {self._label(link)}")
                line = ""
        return "\n".join(lines)

    def _report(self, link: Link, problem: Unspeakable) -> None:
        node = link.node
        where = node.stack[-1].path if isinstance(node, ModelStep) and node.stack else ""
        operator = node.operator if isinstance(node, ModelStep) else node.name
        not_spoken = NotSpoken(operator, where or "the model", problem.reason, problem.advice)
        if not_spoken not in self.file.problems:
            self.file.problems.append(not_spoken)

    def _sources(self, link: Link) -> str:
        node = link.node
        read = operands(node)
        if not read:
            return ""
        if isinstance(node, ModelStep) and node.operator == "C":
            return ", ".join(self._operand(value) for value in read)
        return self._operand(read[link.flows])

    def _operand(self, value: ModelValue) -> str:
        """A value where it is read: its name, or the node that is written in its place."""
        if value in self.names:
            return self.names[value]
        step = self.chains.producer[value]
        assert isinstance(step, ModelStep)
        if not step.operands:
            return source_text(step, self.dims)
        inner = step.data[0]
        producer = self.chains.producer.get(inner)
        if inner in self.names:
            text = self.names[inner]
        else:
            assert isinstance(producer, ModelStep)
            text = source_text(producer, self.dims)
        return f"{step.operator}({text})"

    def _node(self, link: Link) -> str:
        node = link.node
        if isinstance(node, CallRun):
            return self._call(node)
        if not node.operands:
            return source_text(node, self.dims)
        own = [self._operand(value) for value in node.own]
        data = [value for place, value in enumerate(node.data) if place != link.flows]
        if node.operator == "C":
            self._check_lengths(node)
            return "C"
        if node.operator == "op":
            narrow = node.attrs["formula"][2]
            weights = [
                value
                for place, value in enumerate(node.data)
                if narrow[place] and value in self.model.weights
            ]
            own = [self._operand(value) for value in weights]
            data = [value for value in data if value not in weights]
        text = node_text(node, own, self.file.op_names, self.dims)
        arrow = "<=" if node.operator == "•" else "<-"
        return text + "".join(f"{arrow}{self._operand(value)}" for value in data)

    def _check_lengths(self, step: ModelStep) -> None:
        """Raise Unspeakable if single numbers are put together to an axis with a name."""
        place: int = step.attrs["axis"]
        total = step.outputs[0].axes[place]
        single = all(value.axes[place] is None for value in step.data)
        if single and total is not None and self.dims[total].constant is None:
            count = len(step.data)
            raise Unspeakable(
                f"it stacks {count} tensors along an axis that another part has as {count} numbers "
                f"of {self.dims[total]}",
                "the language puts axes of 1 together to a number, not to a size with a name",
            )

    def _call(self, run: CallRun) -> str:
        place = self.instance.items.index(run)
        name = self.run_names[place]
        others = "".join(f"<-{self._operand(value)}" for value in run.inputs[1:])
        if run.again:
            return name + others
        block = self.file.block_names[run.instances[0].definition]
        count = len(run.instances)
        times = f"{self._count(count)} × " if count > 1 else ""
        sizes = self.file.open_sizes.given(self.instance, run.instances[0])
        return f"{times}{block}{sizes}{others} as {name}"

    def _count(self, count: int) -> str:
        declared = {text: name for name, text in self.dims.declared if name.startswith("N_L")}
        return declared[str(count)]

    def _label(self, link: Link) -> str:
        edge_label = edge_name(link.node)
        if isinstance(link.node, ModelStep) and link.node.operator == "Emb":
            source = self.chains.producer.get(link.node.data[0])
            added = self.chains.single(link.node.outputs[0])
            edge_label = (
                "E" if isinstance(added, ModelStep) and added.operator == "⊕" else edge_label
            )
            edge_label = (
                "PE" if isinstance(source, ModelStep) and source.operator == "range" else edge_label
            )
        several = len(link.node.outputs) > 1  # integers among them have a range of their own
        return ", ".join(
            f"{self.name(value, 'e' if value.kind == 'int' and several else edge_label)} "
            f"{_type(value, self.file) if several else self.dims.shape(value)}"
            for value in link.node.outputs
        )


def _run_names(instance: ModuleInstance) -> dict[int, str]:
    """The names of calls by their places; a call of the same module has the name of the first."""
    names: dict[int, str] = {}
    taken = TakenNames()
    for place, item in enumerate(instance.items):
        if isinstance(item, CallRun):
            module = item.instances[0].module
            earlier = next(
                (
                    names[i]
                    for i, each in enumerate(instance.items[:place])
                    if isinstance(each, CallRun) and each.instances[0].module == module
                ),
                None,
            )
            name = identifier(item.name.partition("@")[0], "call")
            names[place] = earlier if item.again and earlier else taken.new(name)
    return names


def _type(value: ModelValue, file: File) -> str:
    """``[B, S] in V``."""
    bound = file.model.ranges.get(_origin(value, file.model)) if value.kind == "int" else None
    return file.dims.shape(value) + (f" in {file.dims[bound]}" if bound is not None else "")


def _origin(value: ModelValue, model: Model) -> ModelValue:
    """The input that integers come from, or the choice of experts."""
    steps = {each: step for step in model.steps for each in step.outputs}
    while value not in model.ranges and value in steps and steps[value].data:
        value = steps[value].data[0]
    return value


STARTS: Final = {"gamma": "ones", "g": "ones", "v": "ones"} | dict.fromkeys(
    ("beta", "b", "mu"), "zeros"
)


def _param_lines(params: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Parameters of one shape and one start together, in the order of their use."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, shape, frozen in params:
        kind = name.partition("_")[0]
        start = f" = {STARTS[kind]}" if kind in STARTS else ""
        groups.setdefault((kind, shape + start + frozen), []).append(name)
    line = ""
    for (_, shape), names in groups.items():
        group = f"{', '.join(names)} {shape}"
        if line and len(line) + len(group) > LONGEST:
            yield line
            line = ""
        line = f"{line}, {group}" if line else f"    param {group}"
    if line:
        yield line


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
