"""The plans that a search has found: a table with the reason why each but the first loses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xg.cli.plan_candidates import Candidate, FoundPlans, Wish
from xg.cli.render.amounts import seconds
from xg.cli.render.table import aligned

_HEAD = ("plan", "mesh", "parts", "computing", "sending", "waiting", "step", "held", "why not")


def lines(found: FoundPlans, wish: Wish) -> Iterator[str]:
    """The best, or what is nearest to fitting."""
    block = wish.project.main.blocks[-1].name.name if wish.block is None else wish.block
    ranks = "1 rank" if wish.ranks == 1 else f"{wish.ranks} ranks"
    where = f"{ranks} of {wish.cluster.inside.name} with {_bytes(wish.memory)}"
    yield (
        f"{block} on {where}, {wish.dtype}: {found.products} products of plans on {found.meshes} "
        "meshes tried"
    )
    if found.best:
        rows = [_HEAD, *(_row(each, found.best[0]) for each in found.best)]
        yield from aligned(rows, frozenset(range(2, 8)), "  ")
        best = found.best[0]
        inner = " and ".join(best.price.inner)
        within = f"; within a node: {inner}" if inner else ""
        yield f"best: {best.product.name or 'one device'}{within}"
        yield "times are bounds from below: peak rates, and nothing overlaps"
    else:
        yield from _refusal(found, wish)
    alone = {name: why for name, why in found.refused.items() if "×" not in name}
    for name, why in list((alone or found.refused).items())[:3]:
        yield f"{name} is left out: {why}"


def _refusal(found: FoundPlans, wish: Wish) -> Iterator[str]:
    if not found.nearest:
        yield f"no product of plans can be shared by {wish.ranks} ranks"
    elif found.nearest[0].ranks < wish.ranks:
        yield f"no product of plans can be shared by {wish.ranks} ranks; the nearest:"
    else:
        yield f"nothing fits into {_bytes(wish.memory)}; the nearest:"
    for each in found.nearest:
        name = each.product.name or "one device"
        mesh = f" on {each.mesh}" if each.mesh else ""
        parts = f" in {each.price.parts} microbatches" if each.price.parts > 1 else ""
        yield f"  {name}{mesh}{parts} holds {_bytes(each.price.memory)}"


def as_data(found: FoundPlans, wish: Wish) -> Mapping[str, object]:
    """The same as data."""
    best = found.best[0] if found.best else None
    return {
        "ranks": wish.ranks,
        "memory": wish.memory,
        "dtype": wish.dtype,
        "products": found.products,
        "meshes": found.meshes,
        "plans": [_data(each, best) for each in found.best],
        "nearest": [_data(each, None) for each in found.nearest],
        "refused": dict(found.refused),
    }


def _data(each: Candidate, best: Candidate | None) -> Mapping[str, object]:
    price = each.price
    return {
        "plan": each.product.name,
        "mesh": dict(price.mesh),
        "microbatches": price.parts,
        "computing": price.computing,
        "sending": price.sending,
        "waiting": price.waiting,
        "seconds": price.seconds,
        "held": price.memory,
        "inner": list(price.inner),
        "loses": reason(each, best) if best is not None and each is not best else None,
    }


def _row(each: Candidate, best: Candidate) -> tuple[str, ...]:
    price = each.price
    times = (price.computing, price.sending, price.waiting, price.seconds)
    why = "" if each is best else reason(each, best)
    name = each.product.name or "one device"
    return (name, each.mesh, str(price.parts), *map(seconds, times), _bytes(price.memory), why)


def reason(each: Candidate, best: Candidate) -> str:
    """Why a plan loses against the best: what takes longer, and where."""
    one, other = each.price, best.price
    more = {
        "computing": one.computing - other.computing,
        "sending": one.sending - other.sending,
        "waiting": one.waiting - other.waiting,
    }
    worst = max(more, key=lambda what: more[what])
    if more[worst] <= 1e-3 * other.seconds:
        bytes_, less = _bytes(one.memory), _bytes(other.memory)
        return "as quick" if bytes_ == less else f"as quick, holds {bytes_}, not {less}"
    time = seconds(more[worst])
    if worst == "computing":
        return f"computes {time} longer"
    if worst == "waiting":
        return f"waits {time} longer in the pipeline"
    over = max(one.sent, key=lambda axis: one.sent[axis] - other.sent.get(axis, 0.0))
    near = set(over.split("*")) <= set(one.inner)
    return f"sends {time} longer, most over {over}, {'in a node' if near else 'between nodes'}"


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"
