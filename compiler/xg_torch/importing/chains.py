"""The steps of one block as chains: what flows, what is attached, where a line ends."""

from __future__ import annotations

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim
from xg_torch.importing.blocks import CallRun, ModuleInstance
from xg_torch.importing.diagram import Model, ModelStep
from xg_torch.importing.names import Node, of_distances
from xg_torch.importing.node_spelling import spreads_in_front
from xg_torch.importing.views import ModelValue

SWAPPED = frozenset({"⊕", "⊙"})  # either operand may flow
LAID_OUT = frozenset({"R", "T", "BC", "RoPE"})
ENDS = frozenset(
    {"S", "GELU", "ReLU", "SiLU", "SwiGLU", "GLU", "Emb", "conv", "maxpool", "meanpool", "scatter"}
)
SOURCES = frozenset({"range", "sinusoid", "buckets"})


@dataclass(frozen=True)
class Link:
    """A node of a chain: what it is, which operand flows in, whether its edge is labelled."""

    node: Node
    flows: int
    labelled: bool


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
        """The parameters of a call: other readers of them come behind it."""
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
                links.append(Link(node, flows, labelled=True))
                return links, blocked
            links.append(Link(node, flows, labelled=self._is_labelled(node)))
            node, flows = following

    def _is_labelled(self, node: Node) -> bool:
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
