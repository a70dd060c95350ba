"""Names looked up, blocks called, loops kept as loops: from trees to untyped graphs."""

from __future__ import annotations

from collections.abc import Mapping

from xg.diagnostic import DiagnosticError, Problem
from xg.graph import Call, Graph, Program
from xg.passes.resolve.arguments import block_arguments
from xg.passes.resolve.block import BlockResolver, Instance
from xg.passes.resolve.errors import CallsItself, NoBlock, Refused
from xg.passes.resolve.units import Linked, Load, link
from xg.syntax import ast


def resolve(
    module: ast.Module,
    load: Load,
    block: str | None = None,
    settings: Mapping[str, str | int] | None = None,
) -> Program:
    """The graphs of `block` (the last of the file when None) and of all that it calls.

    `settings` choose options and set dims, as ``--set`` does. Raises DiagnosticError with all
    that is wrong.
    """
    try:
        linked = link(module, load, settings or {})
        return _program(linked, _entry(linked, block))
    except Refused as refused:
        raise DiagnosticError.of(*refused.problems) from None


def _entry(linked: Linked, name: str | None) -> Instance:
    blocks = {block.name.name: block for block in linked.unit.module.blocks}
    chosen = name if name is not None else next(reversed(blocks), None)
    if chosen is None or chosen not in blocks:
        file = linked.unit.module.span.source.name
        raise Refused(NoBlock(file, name, tuple(blocks)))
    located = linked.unit.blocks[chosen]
    use = ast.NodeUse(
        blocks[chosen].name.span, blocks[chosen].name, None, (), (), None, None, None, None
    )
    scope = BlockResolver(linked, Instance(located), "", lambda instance: instance.name)
    scope.declare_sizes()
    return block_arguments(scope, use, located)


def _program(linked: Linked, entry: Instance) -> Program:
    keys: dict[Instance, str] = {}
    waiting: list[Instance] = []

    def request(instance: Instance) -> str:
        if instance not in keys:
            taken = [key for key in keys.values() if key.split("'")[0] == instance.name]
            keys[instance] = instance.name + "'" * len(taken)
            waiting.append(instance)
        return keys[instance]

    request(entry)
    graphs: dict[str, Graph] = {}
    problems: dict[Problem, None] = {}  # a block with two choices has most mistakes twice
    while waiting:
        instance = waiting.pop(0)
        try:
            resolver = BlockResolver(linked, instance, keys[instance], request)
            graphs[keys[instance]] = resolver.graph()
        except Refused as refused:
            problems.update(dict.fromkeys(refused.problems))
    if problems:
        raise Refused(*problems)
    return Program(_callees_first(graphs, keys[entry]), keys[entry], numbers={})


def _callees_first(graphs: Mapping[str, Graph], entry: str) -> dict[str, Graph]:
    """The graphs in an order where callees stand before callers; a cycle is refused."""
    done: dict[str, Graph] = {}
    trail: list[str] = []
    stack: list[tuple[str, bool]] = [(entry, False)]
    while stack:
        key, ready = stack.pop()
        if ready:
            trail.pop()
            done[key] = graphs[key]
            continue
        if key in done:
            continue
        if key in trail:
            raise Refused(CallsItself(graphs[key].span, graphs[key].block))
        trail.append(key)
        stack.append((key, True))
        calls = [step for step in graphs[key].steps if isinstance(step, Call)]
        stack.extend((step.callee, False) for step in reversed(calls))
    return done
