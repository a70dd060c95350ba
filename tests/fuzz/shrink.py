"""A smaller program that fails in the same way: pieces are taken out as long as it still fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from fuzz.sketch import Block, Operand, Port, Sketch, Statement, Step, mentions, words
from fuzz.tidy import tidied

Fails = Callable[[Sketch], bool]

TRIALS_AT_MOST = 600


def shrink(sketch: Sketch, fails: Fails) -> Sketch:
    """The smallest program found; every piece that is left is needed for the failure."""
    trials = 0
    tried = {str(sketch)}
    progress = True
    while progress:
        progress = False
        for candidate in smaller(sketch):
            text = str(candidate)
            if text in tried:
                continue
            tried.add(text)
            trials += 1
            if trials > TRIALS_AT_MOST:
                return sketch
            if fails(candidate):
                sketch, progress = candidate, True
                break
    return sketch


def smaller(sketch: Sketch) -> Iterator[Sketch]:
    """Programs with one piece less, the large pieces first."""
    if len(sketch.blocks) > 1:
        yield tidied(replace(sketch, blocks=sketch.blocks[:-1]))
    for place in range(len(sketch.blocks) - 1, -1, -1):
        block = sketch.blocks[place]
        last = place == len(sketch.blocks) - 1
        for candidate in _smaller_blocks(block, main=last):
            blocks = (*sketch.blocks[:place], candidate, *sketch.blocks[place + 1 :])
            yield tidied(replace(sketch, blocks=blocks))


def _smaller_blocks(block: Block, *, main: bool) -> Iterator[Block]:
    if main and len(block.outputs) > 1:
        for place in range(len(block.outputs)):
            yield replace(block, outputs=_without(block.outputs, place))
    for place in range(len(block.statements) - 1, -1, -1):
        yield from _without_statement(block, place, main=main)
        for statement, ports in _shorter(block.statements[place], main=main):
            statements = list(block.statements)
            statements[place : place + 1] = [statement] if statement else []
            yield _repaired(replace(block, statements=tuple(statements)), ports, main=main)
    for param in block.params:
        if param.start:
            params = tuple(replace(p, start="") if p is param else p for p in block.params)
            yield replace(block, params=params)


def _without(items: tuple[Port, ...], place: int) -> tuple[Port, ...]:
    return (*items[:place], *items[place + 1 :])


def _without_statement(block: Block, place: int, *, main: bool) -> Iterator[Block]:
    """Without one statement; what it made comes in, if anything still mentions it."""
    gone = block.statements[place].makes
    statements = (*block.statements[:place], *block.statements[place + 1 :])
    yield _repaired(replace(block, statements=statements), gone, main=main)


def _repaired(block: Block, gone: tuple[Port, ...], *, main: bool) -> Block:
    """A block in which no statement makes some values: they become inputs, or outputs no more."""
    made = {port.name for statement in block.statements for port in statement.makes}
    gone = tuple(port for port in gone if port.name not in made)
    used = set(mentions(block))
    outputs = tuple(p for p in block.outputs if p.name not in {port.name for port in gone})
    inputs = [port for port in gone if port.name in used] if main else []
    if not outputs and block.statements:
        final = [port for port in block.statements[-1].makes if " in " not in port.type]
        outputs = tuple(final[-1:])
    return replace(block, inputs=(*block.inputs, *inputs), outputs=outputs)


def _shorter(
    statement: Statement, *, main: bool
) -> Iterator[tuple[Statement | None, tuple[Port, ...]]]:
    """Statements with a node less, and the values that they no longer make.

    New inputs are only possible in the main block, which no other block calls.
    """
    steps = statement.steps
    for cut in range(1, len(steps)):
        if main:
            yield _from_the_middle(statement, cut)
        yield _to_the_middle(statement, cut)
    for place, step in enumerate(steps):
        if len(steps) > 1 and place < len(steps) - 1:
            yield replace(statement, steps=(*steps[:place], *steps[place + 1 :])), step.makes
        if step.guard:
            yield _with(statement, place, replace(step, guard="")), ()
        if main:
            yield from _with_new_operands(statement, place, step)
    if main:
        for place, source in enumerate(statement.sources):
            if source.type and not source.text.isidentifier():
                sources = list(statement.sources)
                sources[place] = replace(source, text=_name(source))
                port = Port(_name(source), source.type)
                yield replace(statement, sources=tuple(sources)), (port,)


def _from_the_middle(statement: Statement, cut: int) -> tuple[Statement, tuple[Port, ...]]:
    """The steps from a place on; the value before them becomes an input."""
    before = statement.steps[cut - 1]
    port = replace(before.ports[0], name=before.ports[0].name or "x_in")
    gone = (*(p for step in statement.steps[:cut] for p in step.makes), port)
    source = Operand(port.name, port.type)
    return Statement((source,), statement.steps[cut:]), tuple(dict.fromkeys(gone))


def _to_the_middle(statement: Statement, cut: int) -> tuple[Statement, tuple[Port, ...]]:
    """The steps up to a place, its result under the name of the whole."""
    last = statement.steps[cut - 1]
    gone = tuple(port for step in statement.steps[cut:] for port in step.makes)
    port = replace(last.ports[0], name=last.ports[0].name or "x_out")
    ended = replace(last, ports=(port, *last.ports[1:]), shown=True)
    return replace(statement, steps=(*statement.steps[: cut - 1], ended)), gone


def _with(statement: Statement, place: int, step: Step) -> Statement:
    steps = statement.steps
    return replace(statement, steps=(*steps[:place], step, *steps[place + 1 :]))


def _with_new_operands(
    statement: Statement, place: int, step: Step
) -> Iterator[tuple[Statement, tuple[Port, ...]]]:
    """With a new input instead of an attached chain."""
    for i, operand in enumerate(step.attached):
        if operand.type and not operand.text.isidentifier():
            named = replace(operand, text=_name(operand))
            attached = (*step.attached[:i], named, *step.attached[i + 1 :])
            changed = _with(statement, place, replace(step, attached=attached))
            yield changed, (Port(named.text, named.type),)


def _name(operand: Operand) -> str:
    """A name for what an operand computed."""
    parts = [word for word in sorted(words(operand.text)) if re.match(r"[A-Za-z]", word)]
    return f"{parts[0] if parts else 'x'}_in"
