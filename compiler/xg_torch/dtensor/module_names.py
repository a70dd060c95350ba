"""The names of the modules of torch that hold the parameters of a diagram."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xg.diagnostics.lazy_dataclass import dataclass, field


@dataclass(frozen=True)
class ModuleNames:
    """The module of each parameter, `*` for the number of a layer, and how its code calls it.

    `second` is the module that holds a parameter once more, as a head that is tied to a table;
    `fused` are parameters that share one tensor of their module with others; `keywords` name the
    argument by which the code gives a module its input.
    Without a name a module is called after its parameter, a bias belongs to its matrix.
    """

    modules: Mapping[str, str] = field(default_factory=dict[str, str])
    second: Mapping[str, str] = field(default_factory=dict[str, str])
    fused: frozenset[str] = frozenset()
    keywords: Mapping[str, str] = field(default_factory=dict[str, str])
    is_given: bool = False

    def module(self, param: str) -> str:
        """The module of a parameter."""
        return self.modules[param] if self.is_given else param

    def again(self, param: str) -> str | None:
        """The module that uses a parameter as its second; None where nothing names it."""
        return self.second.get(param)

    def of_call(self, path: str, params: Iterable[str]) -> str | None:
        """The module of a call, whose parameters these are; None where it is no module of its own.

        That is the longest path that leads to all of their modules.
        """
        if not self.is_given:
            return path
        paths = [self.modules[param].split(".")[:-1] for param in params]
        shared: list[str] = []
        for parts in zip(*paths, strict=False):
            if len(set(parts)) > 1:
                break
            shared.append(parts[0])
        return ".".join(shared) or None
