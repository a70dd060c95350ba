"""Find backends, each a folder of `xg.codegen` with one `BACKEND`, and load what they write.

Backends are discovered: every list of them, in commands, proofs and tests, is derived from their
folders. Nothing of a backend but its record is imported before its code is asked for.
"""

from __future__ import annotations

import hashlib
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast, get_args
from weakref import WeakValueDictionary

from xg import codegen
from xg.codegen.errors import DeviceMissing, NoAutocast, NoDecodeStep, NoDevice, NoLibrary, NoRanks
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from xg.codegen.emit.dialect import Dialect
    from xg.ir.graph import IRProgram


Derived = Literal["outlined"]  # the entry as calls only, for what differentiates call by call
Form = Literal["step", "ranks"]  # what a module may be besides both passes on one device
FORMS: Final[tuple[Form, ...]] = get_args(Form)

CPU: Final = "cpu"
HALF: Final = "bfloat16"
FLOATS: Final = ("float16", HALF, "float32", "float64")  # that a module may compute in
_UNWRITTEN: Final = {"step": NoDecodeStep, "ranks": NoRanks}


class Emit(Protocol):
    """Writes a module of a program; `derived` is what the backend's pipeline makes of it."""

    def __call__(self, program: IRProgram, derived: IRProgram | None, *, kernels: bool) -> str:
        """The source of the module."""
        ...


@dataclass(frozen=True, slots=True)
class Runs:
    """The requirements of running a module, and its abilities.

    `library` is the one that it imports, `extra` the extra of xg that has it; None for the base
    install. `arrays` and `steps` wrap modules on the library's own arrays as modules on NumPy
    arrays, given as ``package.module:function``; a library without them computes on NumPy arrays.
    `processes` says whether ranks may be processes, `half` whether it computes in bfloat16, and
    `devices` where it computes; `has_device` is the function that says whether another than the CPU
    is there, and `device_stepper` the kind of training step that keeps its state on one; `autocast`
    says whether the type of products can be chosen.
    """

    library: str
    extra: str | None = None
    arrays: str = ""
    steps: str = ""
    processes: bool = False
    half: bool = False
    devices: tuple[str, ...] = (CPU,)
    has_device: str = ""
    autocast: bool = False
    device_stepper: str = ""


@dataclass(frozen=True, slots=True)
class Backend:
    """One backend: `name` in commands and file names, `title` in sentences.

    `emit` is the function that writes a module and `dialect` the parts that its modules are made
    of, both as ``package.module:name``; `pipeline` are the passes whose result `emit` takes beside
    the program. `forms` are the modules that it writes besides both passes on one device. One
    backend `is_default`: commands take it where no other is named.
    """

    name: str
    title: str
    emit: str
    dialect: str
    runs: Runs
    pipeline: tuple[Derived, ...] = ()
    forms: tuple[Form, ...] = FORMS
    is_default: bool = False

    @property
    def parts(self) -> Dialect:
        """The fixed parts of its modules."""
        return cast("Dialect", named(self.dialect))

    def source(self, program: IRProgram, derived: IRProgram | None, *, kernels: bool) -> str:
        """The module of a program; raises DiagnosticError for a form that it does not write."""
        self.require_form(_form(program))
        return cast(Emit, named(self.emit))(program, derived, kernels=kernels)

    def writes(self, program: IRProgram) -> bool:
        """Whether it writes modules of the form that a program has."""
        form = _form(program)
        return form is None or form in self.forms

    def require_form(self, form: Form | None) -> None:
        """Raise DiagnosticError for a form that it does not write."""
        if form is not None and form not in self.forms:
            others = (each.name for each in backends().values() if form in each.forms)
            raise DiagnosticError.of(_UNWRITTEN[form](self.title, " or ".join(others)))

    @property
    def has_library(self) -> bool:
        """Whether its library is there."""
        return self.runs.extra is None or find_spec(self.runs.library) is not None

    def require(self) -> None:
        """Raise DiagnosticError where its library is not installed."""
        runs = self.runs
        if runs.extra is not None and not self.has_library:
            raise DiagnosticError.of(NoLibrary(runs.library, runs.extra, default().name))

    def require_device(self, device: str) -> None:
        """Raise DiagnosticError for a device that it cannot use, or that is not there."""
        if device not in self.runs.devices:
            others = (each.name for each in backends().values() if device in each.runs.devices)
            raise DiagnosticError.of(NoDevice(self.title, device, " or ".join(others)))
        if device != CPU and not named(self.runs.has_device)():
            raise DiagnosticError.of(DeviceMissing(self.title, device))

    def require_autocast(self) -> None:
        """Raise DiagnosticError where the type of products cannot be chosen."""
        if not self.runs.autocast:
            others = (each.name for each in backends().values() if each.runs.autocast)
            raise DiagnosticError.of(NoAutocast(self.title, " or ".join(others)))

    def device_stepper(self) -> object:
        """The kind of training step that keeps its state on a device."""
        return named(self.runs.device_stepper)

    def on_arrays(self, module: ModuleType, dtype: str | None = None, **where: str) -> object:
        """A generated module on NumPy arrays; `where` may name a device and a type of autocast."""
        if dtype not in (None, *FLOATS):
            raise ValueError(f"dtype should be {join_names(FLOATS)}, not {dtype!r}")
        if dtype == HALF and not self.runs.half:
            others = join_names([name for name in FLOATS if name != HALF])
            raise ValueError(f"{self.title} has no {HALF}: choose {others}, or another backend")
        if not self.runs.arrays:
            return module
        return named(self.runs.arrays)(module, dtype, **where)

    def step_on_arrays(self, module: ModuleType, **where: str) -> object:
        """A generated module of a step on NumPy arrays."""
        return named(self.runs.steps)(module, **where) if self.runs.steps else module


def join_names(names: Sequence[str]) -> str:
    """Join names as ``a, b or c``."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _form(program: IRProgram) -> Form | None:
    """The form of a program: the step of a decoder saves nothing for a backward pass."""
    if program.mesh or program.stage:
        return "ranks"
    return None if program.backwards else "step"


def named(path: str) -> Callable[..., object]:
    """The function at ``package.module:name``."""
    module, _, function = path.partition(":")
    return getattr(import_module(module), function)


@cache
def backends() -> Mapping[str, Backend]:
    """Every backend by its name: first the default, then those that the base install runs."""
    folders = sorted(info.name for info in iter_modules(codegen.__path__) if info.ispkg)
    modules = (import_module(f"{codegen.__name__}.{folder}") for folder in folders)
    records = [cast(Backend, module.BACKEND) for module in modules if hasattr(module, "BACKEND")]
    ordered = sorted(records, key=lambda b: (not b.is_default, b.runs.extra is not None, b.name))
    return {backend.name: backend for backend in ordered}


def default() -> Backend:
    """The backend that runs where nothing but xg is installed."""
    return next(iter(backends().values()))


def on_processes() -> Backend:
    """The backend whose ranks may be processes."""
    return next(backend for backend in backends().values() if backend.runs.processes)


def find(name: str | None) -> Backend:
    """A backend by its name, by default the one that runs where nothing but xg is installed."""
    if name is None:
        return default()
    if name not in backends():
        raise ValueError(f"there is no backend {name!r}: there are {', '.join(backends())}")
    return backends()[name]


# Generated code as a module: made from its text, and importable while anything refers to it.
#
# A pickle names the module of a class. So every module has a name of its own, made of its text, and
# is found by that name: in the process that made it, and in any other that has loaded the same
# text.


class _Generated(MetaPathFinder, Loader):
    """Finds the modules that were loaded; keeps none of them."""

    def __init__(self) -> None:
        self.modules: WeakValueDictionary[str, ModuleType] = WeakValueDictionary()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of a generated module."""
        del path, target
        return ModuleSpec(fullname, self) if fullname in self.modules else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module as it was loaded."""
        return self.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: it has been run."""


_GENERATED: Final = _Generated()


def load(source: str, name: str) -> ModuleType:
    """The module; errors inside it show their lines. The same text gives the same module."""
    full = f"xg_{name}_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    module = _GENERATED.modules.get(full)
    if module is not None:
        return module
    file = f"<{name}.py>"
    module = ModuleType(full)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), module.__dict__)
    module.__dict__["__generated__"] = module  # as long as a class of it lives, so does it
    _GENERATED.modules[full] = module
    if _GENERATED not in sys.meta_path:
        sys.meta_path.append(_GENERATED)
    return module
