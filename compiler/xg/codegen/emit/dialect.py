"""The fixed parts of a backend's modules, besides the spelling of primitives."""

from __future__ import annotations

from collections.abc import Mapping

from xg.codegen.emit.allowlist import Allowlist
from xg.codegen.emit.kernel import Kernels
from xg.codegen.emit.spelling import Spelling
from xg.codegen.emit.support import SupportFile
from xg.diagnostics.lazy_dataclass import dataclass
from xg.packages import offers, service


@dataclass(frozen=True, slots=True)
class Dialect:
    """The parts of a module that are the same in all modules of one backend.

    `header` and `empty` (the body of what makes a cache) are templates; `aliases` are names of
    types, each of which a module has if it mentions it. `library` is the name of the imported
    library. `types` are the arguments of ``init`` that say what arrays are made of; `ones` and
    `zeros` make a parameter of that, and `converted`, attached to numbers drawn, converts them.
    `like` are names, each with the expression that reads it off a given array, for cotangents that
    are missing. `decorator` precedes the public functions.
    `always` are the kernels that modules have without `--kernels`, for operators that no expression
    spells; `prelude` are statements before modules with kernels. `ready` is the kernel that lays
    out a parameter as steps read it
    fastest; where it `readies_tied` ones that is done to tables, too, if something else than a
    look-up reads them. One that `checks_width` may be set to integers narrower than int64.
    """

    spelling: Spelling
    support: SupportFile
    vocabulary: Allowlist
    library: str
    title: str
    header: str
    aliases: Mapping[str, str]
    ones: str
    zeros: str
    converted: str
    types: tuple[str, ...]
    empty: str
    like: Mapping[str, str]
    decorator: str = ""
    always: Kernels | None = None
    prelude: str = ""
    ready: str = ""
    readies_tied: bool = False
    checks_width: bool = False

    @property
    def kernels(self) -> Kernels | None:
        """Functions written by hand for `--kernels`, if the package of kernels has any."""
        return service("kernels")(self.title) if offers("kernels") else None
