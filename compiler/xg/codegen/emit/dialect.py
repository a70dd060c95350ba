"""The fixed parts of a backend's modules, besides the spelling of primitives."""

from __future__ import annotations

from dataclasses import dataclass

from xg.codegen.emit.allowlist import Allowlist
from xg.codegen.emit.kernel import Kernels
from xg.codegen.emit.spelling import Spelling
from xg.codegen.emit.support import SupportFile


@dataclass(frozen=True, slots=True)
class Dialect:
    """The parts of a module that are the same in all modules of one backend.

    `header`, `init` and `empty` (of a cache) are templates. `library` is the name of the imported
    library. `types` are the arguments of ``init`` that give the type and device of arrays; `like`
    are lines that read them off given arrays, for cotangents that are missing. `decorator` precedes
    the public functions. `kernels` are hand-written functions, if there are any; `prelude` are
    statements before modules with them.
    """

    spelling: Spelling
    support: SupportFile
    vocabulary: Allowlist
    library: str
    header: str
    init: str
    types: tuple[str, ...]
    empty: str
    like: tuple[str, ...]
    decorator: str = ""
    kernels: Kernels | None = None
    prelude: str = ""
