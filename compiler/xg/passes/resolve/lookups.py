"""Meanings of option and operator names in one instance of a block, and which were looked up."""

from __future__ import annotations

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.op import Op
from xg.passes.resolve.instance import BlockInstance
from xg.passes.resolve.units import Linked, LocatedBlock

Words = tuple[tuple[str, ...], str]  # the words of an option and the chosen one


@dataclass(slots=True)
class Lookups:
    """The only way to the options and operators that an instance sees.

    `options` and `operators` hold every answer: an instance with the same answers has the same
    graph.
    """

    linked: Linked
    instance: BlockInstance
    options: dict[str, Words | None] = field(default_factory=dict[str, "Words | None"])
    operators: dict[str, Op | LocatedBlock | None] = field(
        default_factory=dict[str, "Op | LocatedBlock | None"]
    )

    def option(self, name: str) -> Words | None:
        """Words and the chosen one, of an option of the call or of the program."""
        if name not in self.options:
            self.options[name] = self._option(name)
        return self.options[name]

    def operator(self, name: str) -> Op | LocatedBlock | None:
        """The operator or block that a node names, options followed to the chosen word."""
        if name not in self.operators:
            self.operators[name] = self._operator(name)
        return self.operators[name]

    def _option(self, name: str) -> Words | None:
        for own in self.instance.located.block.own:
            if own.name.name == name and own.words:
                words = tuple(word.name for word in own.words)
                return words, dict(self.instance.words).get(name, words[0])
        choice = self.linked.options.get(name)
        return (choice.words, choice.chosen) if choice else None

    def _operator(self, name: str) -> Op | LocatedBlock | None:
        located = self.instance.located
        own = any(own.name.name == name and own.words for own in located.block.own)
        choice = None if own else self.linked.options.get(name)
        if choice is not None:
            word = choice.chosen
            return choice.unit.blocks.get(word) or choice.unit.operator(word)
        chosen = self._option(name)
        word = chosen[1] if chosen else name
        return located.unit.blocks.get(word) or located.unit.operator(word)
