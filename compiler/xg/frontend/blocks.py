"""The blocks of a file: their mentions, the uncalled ones, the settings that affect them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.project import Project
from xg.passes.resolve.errors import UnknownOption
from xg.syntax import ast

Value = TypeVar("Value")


def mentions(block: ast.Block) -> set[str]:
    """Every name in the chains of a block that may be a block's or an option's."""
    names: set[str] = set()
    pending: list[object] = list(block.chains)
    while pending:
        match pending.pop():
            case ast.Chain() as chain:
                pending += (*chain.sources, *chain.steps)
            case ast.NodeUse() as use:
                names.add(use.operator.name)
                names.update({use.guard.option.name} if use.guard else ())
                pending += (*use.arguments, *(attached.operand for attached in use.attachments))
            case ast.Call() as call:
                names.add(call.operator.name)
                pending += call.arguments
            case ast.Argument() as argument:
                pending.append(argument.value)
            case ast.Path() as path:
                names.add(path.name)
            case _:
                pass
    return names


def uncalled(module: ast.Module) -> tuple[str, ...]:
    """The blocks that no other block of the file calls, in any choice; in file order."""
    options = {option.name.name: option.words for option in module.options}
    called: set[str] = set()
    for block in module.blocks:
        words = {**options, **{own.name.name: own.words for own in block.own}}
        for name in mentions(block) - {block.name.name}:
            called |= {name, *(word.name for word in words.get(name, ()))}
    return tuple(b.name.name for b in module.blocks if b.name.name not in called)


def concerning(
    project: Project, block: str | None, settings: Mapping[str, Value], asked: str | None = None
) -> dict[str, Value]:
    """The settings without those that only other blocks take in parentheses or as dims.

    For commands that compile several blocks: what no block knows is left, to be refused. Where the
    user `asked` for one block, all settings are meant for it. Without a name it is the last one.
    """
    if not settings or asked is not None:
        return dict(settings)
    owners = {b.name.name: _own(b) for b in project.main.blocks}
    entry = next(reversed(owners), "") if block is None else block
    others = {name for owner, names in owners.items() if owner != entry for name in names}
    every = (each for module in project.modules for each in module.blocks)
    own = {name for each in every if each.name.name == entry for name in _own(each)}
    elsewhere = others - declared(project) - own
    left = {name: value for name, value in settings.items() if name not in elsewhere}
    return read_by(project, entry, left)


def unread(project: Project, entry: str, settings: Iterable[str]) -> dict[str, str]:
    """The options that a block and those it calls do not read, with a block that reads each.

    An option that no block reads is none of them: the file is warned of it.
    """
    options = {o.name.name: o.words for module in project.modules for o in module.options}
    wanted = options.keys() & set(settings)
    if not wanted:
        return {}
    every = [(b.name.name, mentions(b)) for module in project.modules for b in module.blocks]
    if entry not in {block for block, _ in every}:
        return {}  # there is none, which is another error
    reached, pending = set[str](), {entry}
    while pending:
        name = pending.pop()
        reached.add(name)
        found = {each for block, names in every if block == name for each in names}
        words = {word.name for option in found if option in options for word in options[option]}
        pending |= (found | words) - reached
    readers = {name: block for block, names in every for name in names}
    return {name: readers[name] for name in sorted(wanted - reached) if name in readers}


def refuse_unread(project: Project, block: str | None, settings: Iterable[str]) -> None:
    """Raise DiagnosticError for options that a block does not read, and others do."""
    blocks = [each.name.name for each in project.main.blocks]
    entry = block or (blocks[-1] if blocks else "")
    if others := unread(project, entry, settings):
        raise DiagnosticError.of(
            *(
                UnknownOption(None, name, (), block=entry, owner=owner)
                for name, owner in others.items()
            )
        )


def read_by(project: Project, entry: str, settings: Mapping[str, Value]) -> dict[str, Value]:
    """The settings without the options that a block does not read."""
    others = unread(project, entry, settings)
    return {name: value for name, value in settings.items() if name not in others}


def takes_own(block: ast.Block, settings: Mapping[str, object]) -> bool:
    """Whether a block is set something that it has for itself, and that no caller hands on."""
    return not _own(block).isdisjoint(settings)


def settable(project: Project) -> set[str]:
    """Everything that `--set` may name for some block of the project: dims, options, arguments."""
    return declared(project).union(*map(_own, project.main.blocks))


def _own(block: ast.Block) -> set[str]:
    """The names that a block takes in parentheses, and its dims."""
    return {each.name.name for each in (*block.own, *block.dims)}


def declared(project: Project) -> set[str]:
    """The dims and options of all files of a project."""
    modules = project.modules
    return {each.name.name for module in modules for each in (*module.dims, *module.options)}
