"""The names that a text mentions, in any choice of options.

The place of a name says what it is the name of: a size, a value, or an operator. In parentheses
only the signature of an operator could tell, so there a name counts as each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.content import Recent
from xg.syntax import ast
from xg.syntax.ast import Syntax, parts, walk

COMPUTED: Final = (ast.Arithmetic, ast.Power, ast.Negation, ast.Comparison)  # never a tensor


@dataclass(frozen=True, slots=True)
class Mentions:
    """Names by what their places say that they are; options are among the nodes."""

    sizes: set[str] = field(default_factory=set[str])
    values: set[str] = field(default_factory=set[str])
    nodes: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, *trees: Syntax) -> Mentions:
        """All names that these trees mention."""
        mentions = cls()
        waiting: list[Syntax] = [*trees]
        while waiting:
            tree = waiting.pop()
            mentions._add(tree)
            if isinstance(tree, COMPUTED):
                mentions.sizes.update(name for part in walk(tree) for name in _segments(part))
                continue
            for part in parts(tree):
                if _is_value(tree, part):
                    mentions.values.update(_segments(part))
                else:
                    waiting.append(part)
        return mentions

    def _add(self, tree: Syntax) -> None:
        """Add the names of one tree, without those of its parts."""
        match tree:
            case ast.Path():
                self.sizes.update(_segments(tree))
            case ast.Argument():
                named = {tree.name.name} if tree.name else set[str]()
                self.sizes.update(named)
                self.values.update(_segments(tree.value))
                self.nodes.update((*named, *_segments(tree.value)))
            case ast.AxisMap(target=None):
                self.sizes.update(_listed(tree))
            case ast.Over():
                self.sizes.add(tree.axis.name)
            case ast.NodeUse() | ast.Call():
                self.nodes.add(tree.operator.name)
            case ast.Plan(block=block) | ast.Example(block=block):
                self.nodes.add(block.name)
            case ast.Guard():
                self.nodes.add(tree.option.name)
            case ast.OptionDecl() | ast.Own():
                self.nodes.update(word.name for word in tree.words)
            case _:
                pass


@dataclass(slots=True)
class KnownMentions:
    """The mentions of trees, each walked once."""

    known: Recent[int, tuple[Syntax, Mentions]] = field(
        default_factory=Recent["int", "tuple[Syntax, Mentions]"]
    )

    def of(self, *trees: Syntax) -> Mentions:
        """All names that these trees mention."""
        together = Mentions()
        for tree in trees:
            known = self.known.get(id(tree)) or self.known.put(id(tree), (tree, Mentions.of(tree)))
            together.sizes.update(known[1].sizes)
            together.values.update(known[1].values)
            together.nodes.update(known[1].nodes)
        return together


def _segments(tree: Syntax) -> tuple[str, ...]:
    return tuple(part.name for part in tree.segments) if isinstance(tree, ast.Path) else ()


def dims_mentioned(block: ast.Block) -> tuple[str, ...]:
    """Every name used as a size, in the order of the text.

    In parentheses a name may be a value's: only the signature of an operator decides.
    """
    mentioned: dict[str, None] = {}
    waiting: list[Syntax] = [block]
    while waiting:
        match waiting.pop():
            case ast.Path() as path:
                mentioned[path.name] = None
            case ast.DimDecl() as decl:
                waiting += [decl.size] if decl.size else []
            case ast.AxisMap(target=None) as listed:
                mentioned.update(dict.fromkeys(_listed(listed)))
                waiting += parts(listed)
            case tree:
                others = [part for part in parts(tree) if not _is_value(tree, part)]
                waiting += reversed([part for part in others if not isinstance(part, ast.Guard)])
    return tuple(mentioned)


def _is_value(tree: Syntax, part: Syntax) -> bool:
    """Whether a part of a tree is a value by its place."""
    return isinstance(part, ast.Path) and isinstance(
        tree, ast.Chain | ast.Attachment | ast.Binding | ast.Placement | ast.Given | ast.Expect
    )


def _listed(axes: ast.AxisMap) -> Iterator[str]:
    """The axes that a plain list names."""
    for item in axes.source:
        for axis in item.axes if isinstance(item, ast.AxisGroup) else (item,):
            if isinstance(axis, ast.Axis) and axis.size is None:
                yield axis.name.name
