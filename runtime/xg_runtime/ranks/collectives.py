"""The collectives that rank code calls, on the mesh of the running rank.

Each comes in two forms: `all_reduce(x, "N_T")`, and `start_all_reduce(x, "N_T")`, which gives a
handle to be awaited later. All ranks have to begin the same collectives in the same order; they end
in that order too. `over` names a mesh axis, and the order of its ranks where that is zigzag
(`order`); `axis` is a tensor's, counted from the end. An operand is never changed, unless it is
donated, and may change as soon as the call has returned. Over an axis of one rank each is the
identity: the result may then be the operand.

Every sum is taken in rank order, so that all ranks have the same bits, where ranks are simulated;
among processes the backend decides on the order, and all ranks have the same bits as well.

Each row's transpose is the call of its backward pass (P is a term of a sum, R the same everywhere,
S(i) a slice): all_reduce P -> R is its own; all_gather S -> R and reduce_scatter P -> S are each
other's; all_to_all S(i) -> S(j) that from j to i; and `shard_slice` R -> S that of `pad_from_shard`
S -> P.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from xg_runtime.ranks import kinds
from xg_runtime.ranks.array_ops import Tensor, cut, join, type_name
from xg_runtime.ranks.call import Call
from xg_runtime.ranks.grid import axis_of
from xg_runtime.ranks.mesh import Pending, current, traced_mesh

T = TypeVar("T")


class Handle(Generic[T]):
    """A collective that was begun."""

    def __init__(self, pending: Pending, finish: Callable[[Any], T]) -> None:
        """Keep what is under way and what is to be done with its result."""
        self._pending = pending
        self._finish = finish

    def wait(self) -> T:
        """Return the result, when all ranks have begun; once."""
        return self._finish(self._pending.wait())


def all_reduce(x: T, over: str) -> T:
    """The sum over the ranks of an axis, on each of them."""
    return start_all_reduce(x, over).wait()


def all_reduce_max(x: T, over: str) -> T:
    """The largest over the ranks of an axis, element by element, on each of them."""
    return start_all_reduce_max(x, over).wait()


def all_gather(x: T, over: str, axis: int) -> T:
    """The parts of all ranks, joined along `axis`: [..., n, ...] to [..., N*n, ...]."""
    return start_all_gather(x, over, axis).wait()


def reduce_scatter(x: T, over: str, axis: int) -> T:
    """This rank's slice along `axis` of the sum over ranks: [..., N*n, ...] to [..., n, ...]."""
    return start_reduce_scatter(x, over, axis).wait()


def all_to_all(x: T, over: str, split: int, concat: int) -> T:
    """From slices along `concat` to slices along `split` of the same whole.

    Cuts `x` along `split`, sends part i to rank i, and joins what arrives along `concat`.
    """
    return start_all_to_all(x, over, split, concat).wait()


def shift(x: T, over: str) -> T:
    """The operand of the rank before, of the last one on the first: parts go round a ring."""
    return start_shift(x, over).wait()


def start_all_reduce(x: T, over: str, *, donate: bool = False) -> Handle[T]:
    """Begin an `all_reduce`; a donated operand is not read again, and not copied."""
    return _start(kinds.ALL_REDUCE, x, over, donate=donate)


def start_all_reduce_max(x: T, over: str) -> Handle[T]:
    """Begin an `all_reduce_max`."""
    return _start(kinds.ALL_REDUCE_MAX, x, over)


def start_all_gather(x: T, over: str, axis: int, *, donate: bool = False) -> Handle[T]:
    """Begin an `all_gather`; a donated operand is not read again, and not copied."""
    finish = partial(join, axis=axis, over=over)
    return _start(kinds.ALL_GATHER, x, over, (axis,), donate=donate, finish=finish)


def start_reduce_scatter(x: T, over: str, axis: int, *, donate: bool = False) -> Handle[T]:
    """Begin a `reduce_scatter`, of a donated operand without a copy.

    Raises InputError where `axis` does not divide.
    """
    prepare = partial(cut, x, axis=axis, over=over)
    return _start(kinds.REDUCE_SCATTER, x, over, (axis,), donate=donate, prepare=prepare)


def start_all_to_all(x: T, over: str, split: int, concat: int) -> Handle[T]:
    """Begin an `all_to_all`; raises InputError where `split` does not divide."""
    return _start(
        kinds.ALL_TO_ALL,
        x,
        over,
        (split, concat),
        prepare=lambda ranks: cut(x, ranks, split, over),
        finish=lambda parts: join(parts, concat, over),
    )


def start_shift(x: T, over: str, *, donate: bool = False) -> Handle[T]:
    """Begin a `shift`; a donated operand is not written to again, and not copied."""
    return _start(kinds.SHIFT, x, over, donate=donate)


class _Done:
    """A collective among one."""

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def wait(self) -> Tensor:
        return self._x


def _start(
    kind: kinds.Kind,
    x: Tensor,
    over: str,
    along: tuple[int, ...] = (),
    *,
    donate: bool = False,
    prepare: Callable[[int], Any] | None = None,
    finish: Callable[[Any], Any] = lambda result: result,
) -> Handle[Any]:
    traced = traced_mesh()
    if traced is not None:
        ranks = traced.size(over)
        if ranks == 1:
            return Handle(_Done(x), lambda result: result)
        payload = prepare(ranks) if prepare else x
        return Handle(_Done(traced.run(kind, over, payload)), finish)
    mesh = current()
    ranks = mesh.size(over)
    if ranks == 1:
        return Handle(_Done(x), lambda result: result)
    dtype = type_name(x.dtype)
    call = Call(kind, axis_of(over), tuple(x.shape), dtype, int(x.dtype.itemsize), along)
    payload = prepare(ranks) if prepare else x
    mesh.counters.add(call, ranks)
    return Handle(mesh.start(call, payload, donate=donate), finish)
