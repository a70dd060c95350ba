"""A program that was read, under other names: of sizes, values and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from xg.ir.dim import Dim, symbol
from xg_torch.importing.exported import Argument, Exported, Meta, ModuleScope, Ref


def with_equal_sizes(exported: Exported) -> Exported:
    """The program where symbols of one number are one symbol: more is the same, less is free."""
    first: dict[int, str] = {}
    same: dict[str, Dim] = {}
    for name in sorted(exported.limits, key=lambda each: (len(each), each)):
        traced = exported.traced.get(name)
        if traced is not None and first.setdefault(traced, name) != name:
            same[name] = symbol(first[traced])
    limits = {name: each for name, each in exported.limits.items() if name not in same}
    for name, dim in same.items():
        (low, high), (its, top) = limits[str(dim)], exported.limits[name]
        least = top if high is None else high if top is None else min(high, top)
        limits[str(dim)] = (max(low, its), least)

    def renamed(argument: Argument) -> Argument:
        if isinstance(argument, tuple):
            return tuple(renamed(item) for item in argument)
        return argument.substitute(same) if isinstance(argument, Dim) else argument

    metas = {
        name: Meta(
            meta.dtype,
            None if meta.shape is None else tuple(dim.substitute(same) for dim in meta.shape),
        )
        for name, meta in exported.metas.items()
    }
    calls = tuple(
        replace(call, args={name: renamed(arg) for name, arg in call.args.items()})
        for call in exported.calls
    )
    traced = {name: size for name, size in exported.traced.items() if name not in same}
    return replace(exported, metas=metas, calls=calls, limits=limits, traced=traced)


def renamed(
    exported: Exported,
    values: Mapping[str, str],
    weights: Mapping[str, str],
    stack: Callable[[tuple[ModuleScope, ...]], tuple[ModuleScope, ...]],
) -> Exported:
    """The program with other names for values and for weights, and other modules around calls."""

    def named(argument: Argument) -> Argument:
        if isinstance(argument, tuple):
            return tuple(named(item) for item in argument)
        return (
            Ref(values.get(argument.name, argument.name)) if isinstance(argument, Ref) else argument
        )

    return replace(
        exported,
        entries=tuple(
            replace(
                each,
                name=values.get(each.name, each.name),
                target=weights.get(each.target, each.target),
            )
            for each in exported.entries
        ),
        calls=tuple(
            replace(
                call,
                args={name: named(argument) for name, argument in call.args.items()},
                stack=stack(call.stack),
            )
            for call in exported.calls
        ),
        outputs=tuple(map(named, exported.outputs)),
        metas={values.get(name, name): meta for name, meta in exported.metas.items()},
        arrays={weights.get(name, name): array for name, array in exported.arrays.items()},
        tied={weights.get(k, k): weights.get(v, v) for k, v in exported.tied.items()},
    )
