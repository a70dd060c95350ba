"""The mesh of the running rank, and the interface of every mesh.

A mesh moves arrays whose leading axis counts the ranks of a group; cutting and joining along other
axes is done in `collectives`, once for all meshes. `kinds` says what each collective does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Protocol, Self

from xg_runtime.errors import InputError, RunError
from xg_runtime.ranks.array_ops import Tensor
from xg_runtime.ranks.call import Call, Incoming, Outgoing
from xg_runtime.ranks.comm_counters import CommCounters
from xg_runtime.ranks.kinds import Kind


class Pending(Protocol):
    """A collective under way."""

    def wait(self) -> Tensor:
        """Return its result; once."""
        ...


class Exchange(Protocol):
    """Messages under way."""

    def wait(self, number: int) -> Tensor:
        """Wait for what is received, by its number in the exchange."""
        ...


class Mesh(Protocol):
    """All ranks as one of them sees them; entered (`with mesh:`) where that rank's code runs."""

    def __enter__(self) -> object: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """The axes in order, with the number of ranks along each."""
        ...

    @property
    def counters(self) -> CommCounters:
        """The communication of this rank so far."""
        ...

    def rank(self, axis: str) -> int:
        """This rank's place along an axis; raises InputError where there is no such axis."""
        ...

    def size(self, axis: str) -> int:
        """The number of ranks along an axis; raises InputError where there is no such axis."""
        ...

    def start(self, call: Call, x: Tensor, *, donate: bool = False) -> Pending:
        """Begin a collective over an axis of more than one rank.

        `x` may change afterwards. With `donate` the collective may overwrite it, and the caller
        must not read or write it again; what is shifted stays as it is, and may be read.
        """
        ...

    def diverge(self, axis: str) -> None:
        """Note that from now on ranks along an axis run programs of their own: a pipeline."""
        ...

    def exchange(
        self, axis: str, sends: Sequence[Outgoing], receives: Sequence[Incoming]
    ) -> Exchange:
        """Post messages to and from other ranks along an axis, all at once.

        A message may wait until its other rank has posted it too, and later exchanges may wait for
        that. Sent tensors may change afterwards.
        """
        ...

    def flush(self) -> None:
        """Wait until all that was sent has left."""
        ...


class Entered:
    """The context of `with mesh:`: inside, `current()` is this mesh."""

    _before: Token[Mesh | None] | None = None

    def __enter__(self: Self) -> Self:
        self._before = _CURRENT.set(self)  # type: ignore[arg-type]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._before is not None
        _CURRENT.reset(self._before)
        self._before = None


_CURRENT: ContextVar[Mesh | None] = ContextVar("mesh", default=None)
_of_process: list[Mesh | None] = [None]


class Traced(Protocol):
    """The mesh of this process as code sees it while torch traces it."""

    def rank(self, over: str) -> int:
        """This rank's place along an axis, or along several."""
        ...

    def size(self, over: str) -> int:
        """The number of ranks along an axis, or along several."""
        ...

    def run(self, kind: Kind, over: str, x: Tensor) -> Tensor:
        """The result of a collective."""
        ...


# Whether torch traces the running code, which it cannot do unless a process has a mesh, and the
# mesh that such code asks. A trace follows no context variable.
_is_tracing: list[Callable[[], bool]] = [lambda: False]
_traced: list[Traced | None] = [None]


def set_process_mesh(
    mesh: Mesh | None,
    traced: Traced | None = None,
    is_tracing: Callable[[], bool] = lambda: False,
) -> None:
    """Set the mesh of every thread of this process that has no mesh of its own."""
    _of_process[0], _traced[0], _is_tracing[0] = mesh, traced, is_tracing


def traced_mesh() -> Traced | None:
    """The mesh of code that torch traces; None for code that runs."""
    return _traced[0] if _is_tracing[0]() else None


def current() -> Mesh:
    """The mesh of the running rank; raises RunError outside of every mesh."""
    mesh = _CURRENT.get() or _of_process[0]
    if mesh is None:
        raise RunError(
            "code for many ranks runs on a mesh, and there is none here: "
            "`xg_runtime.ranks.simulate({'N_T': 2}, function)` calls a function on every rank of "
            "one in this process; `with mesh:` enters one that is there"
        )
    return mesh


def check_mesh(sizes: Mapping[str, int]) -> None:
    """Raise InputError unless the mesh of the running rank has these sizes along these axes."""
    mesh = traced_mesh() or current()
    for axis, ranks in sizes.items():
        there = mesh.size(axis)
        if there != ranks:
            raise InputError(
                f"the module was compiled for {axis} = {ranks}, and this mesh has {axis} = "
                f"{there}: compile it with {axis} = {there}, or run it on {ranks} ranks along it"
            )
