"""The last check of generated Python: it holds only allowed constructs, or it is not returned.

Names and titles of a diagram end up in the code. If their escaping failed, the result would show as
a construct, a name or a dotted call that no emitter writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from xg.codegen.emit.mentions import PieceMentions, WrittenFunction, by_piece, mentions, words
from xg.diagnostics.lazy_dataclass import dataclass

BUILTINS: Final = words(
    """
    range len float int str list tuple dict next iter reversed set bool enumerate isinstance hasattr
    max min ord round slice staticmethod super zip RuntimeError TypeError ValueError
    """
)
MATH: Final = frozenset({"cos", "erf", "exp", "log", "prod", "sin", "sqrt", "tanh"})
STANDARD: Final = frozenset({  # imports that modules of all backends may have
    "from __future__ import annotations", "import math", "from collections.abc import Mapping",
    "from typing import Any, NamedTuple", "from typing import Any",
})  # fmt: skip


class DisallowedCode(Exception):
    """Generated code with something that no emitter writes: an error of the compiler."""


@dataclass(frozen=True, slots=True)
class Allowlist:
    """The names that the code of one backend may mention.

    `imports` are its import statements, `modules` the names of each imported module, `methods` the
    attributes of everything else; fields of the module's own classes are added to these.
    `decorators` are all that may precede a function; `callables` are variables that may be called,
    which hide nothing.
    """

    imports: frozenset[str]
    modules: Mapping[str, frozenset[str]]
    methods: frozenset[str]
    decorators: frozenset[str] = frozenset()
    callables: frozenset[str] = frozenset()


def check_allowed(source: str, vocabulary: Allowlist, attributes: Iterable[str] = ()) -> None:
    """Raise DisallowedCode if a module has a part that is not allowed; `attributes` are its own."""
    pieces = by_piece(source, mentions)
    imports = {name for _, piece in pieces for name in piece.modules}
    module = _Module(
        vocabulary,
        names=BUILTINS.union(*(piece.bound for _, piece in pieces)),
        attributes=vocabulary.methods.union(attributes, *(piece.fields for _, piece in pieces)),
        modules={name: names for name, names in vocabulary.modules.items() if name in imports},
    )
    for first, piece in pieces:
        for line, problem in module.problems(piece):
            raise DisallowedCode(f"line {first + line}: {problem}")


@dataclass(frozen=True, slots=True)
class _Module:
    """One module: names, attributes and imported modules that mean something in it."""

    vocabulary: Allowlist
    names: frozenset[str]
    attributes: frozenset[str]
    modules: Mapping[str, frozenset[str]]

    def problems(self, piece: PieceMentions) -> Iterator[tuple[int, str]]:
        """Everything wrong with a piece, with its lines."""
        yield from piece.strange
        for name, line in piece.names.items():
            if not _known(name, self.names):
                yield line, f"the name {name}"
        for (owner, name), line in piece.attributes.items():
            if owner not in self.modules and name in self.vocabulary.methods:
                continue  # also a hidden one
            if not _known(name, self.modules.get(owner, self.attributes)):
                yield line, f"the attribute {name}"
        for text, line in piece.imports.items():
            if not _known(text, self.vocabulary.imports):
                yield line, text
        for function in piece.functions:
            yield from ((function.line, problem) for problem in self._function(function))

    def _function(self, function: WrittenFunction) -> Iterator[str]:
        """A variable that goes by the name of a function hides it."""
        hidden = function.hidden - self.vocabulary.callables
        if hidden:
            yield f"{function.name} calls its own variable {', '.join(sorted(hidden))}"
        for decorator in sorted(function.decorators - self.vocabulary.decorators):
            yield f"{function.name} is decorated by {decorator}"


def _known(name: str, known: frozenset[str]) -> bool:
    return name in known and not name.startswith("__")
