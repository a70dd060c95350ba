"""A whole random program: sizes, a few blocks that call each other, one that is compiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from fuzz import statements
from fuzz.author import MOVED, Author
from fuzz.said import said
from fuzz.sketch import Block, Port, Sketch, Step, words
from fuzz.steps import step
from fuzz.tidy import tidied
from fuzz.world import Known, Signature, World

from xg.ir.dim import symbol

Write = Callable[[Author], None]

KINDS: tuple[tuple[int, Write], ...] = (
    (10, statements.plain),
    (2, statements.looked_up),
    (1, statements.moved),
    (1, statements.positions),
    (1, statements.noise),
    (1, statements.repeated_param),
    (2, statements.attention),
    (2, statements.parts),
    (1, statements.routed),
    (1, statements.joined),
    (1, statements.loss),
    (4, statements.called),
)
AGAIN = "Z"  # the name of no other size
BLOCKS = ("Layer", "Head", "F", "MLP", "Inner", "Norm", "numpy", "Model")


def generate(seed: int) -> Sketch:
    """The program of a seed."""
    random = Random(seed)
    world = World.random_one(random)
    counts = (0, 0, 0, 1) if world.short else (0, 1, 1, 2, 2)
    names = random.sample(BLOCKS, random.choice(counts))
    blocks = [_helper(world, name) for name in names]
    blocks.append(_main(world))
    sketch = tidied(
        Sketch(
            dims=_dims(world),
            blocks=tuple(blocks),
            ops=tuple(op.text for op in world.ops.values()),
            options=world.options,
            settings=world.settings,
            numbers=world.numbers,
            resized=world.resized,
        )
    )
    sketch = said(sketch)
    open_dims = {name: "" for name in sketch.resized if world.chance(0.5)}
    return _named_again(replace(sketch, dims={**sketch.dims, **open_dims}), world.aside)


def _named_again(sketch: Sketch, random: Random) -> Sketch:
    """The program with another name for one of its sizes, which inputs of its block may have."""
    if not sketch.dims or random.random() < 0.7:
        return sketch
    name = random.choice(list(sketch.dims))
    before, again = random.random() < 0.5, {AGAIN: name}
    dims = {**again, **sketch.dims} if before else {**sketch.dims, **again}
    main = sketch.main
    if random.random() < 0.5:
        size = re.compile(rf"\b{name}\b")
        inputs = [replace(port, type=size.sub(AGAIN, port.type)) for port in main.inputs]
        main = replace(main, inputs=tuple(inputs))
    return replace(sketch, dims=dims).with_main(main)


def _dims(world: World) -> dict[str, str]:
    numbers = {**world.numbers, **world.literals}
    return {name: str(size) for name, size in {**numbers, **world.definitions}.items()}


def _main(world: World) -> Block:
    author = Author(world, "Main", step)
    _write(author, world.random.randint(1, 2 if world.short else 5))
    for _ in range(len(world.blocks)):
        statements.called(author)
    _write(author, 0 if world.short else world.random.randint(0, 2))
    return author.block(_outputs(author))


def _helper(world: World, name: str) -> Block:
    """A block to be called; a layer gives back the type of its first input."""
    with world.local_size() as local:
        return _written(world, name, local)


def _written(world: World, name: str, local: str) -> Block:
    author = Author(world, name, step)
    if world.chance(0.3):
        author.numbers.append("p")
    if world.chance(0.3):
        author.words["mask"] = ("none", "causal")
    alone, layer = world.chance(0.35), world.chance(0.5)
    if alone:
        statements.alone(author)
        outputs = _outputs(author)
    else:
        first = author.input(world.shape(world.random.choice((1, 2, 3, 3, 4))))
        _write(author, world.random.randint(1, 2 if world.short else 4))
        outputs = [_residual(author, first)] if layer else _outputs(author)
    layer = layer and not alone
    block = author.block(outputs)
    if local in words(block):
        block = replace(block, dims=(f"{local} = {world.definitions[local]}",))
    world.blocks.append(_signature(author, block, outputs, layer=layer))
    return block


def _write(author: Author, count: int) -> None:
    for _ in range(count):
        kind = author.random.choices([k for _, k in KINDS], [weight for weight, _ in KINDS])[0]
        kind(author)
    if author.world.chance(0.05) and author.values:
        author.alias(author.random.choice(author.values))


def _residual(author: Author, first: Known) -> Known:
    """The first input plus something that depends on what the block made."""
    operand, known = author.beside(first)
    result = replace(first, dense=first.dense or known.dense, size=1.5)
    steps = [Step("⊕", (Port("", author.type(first)),), (operand,), shown=False)]
    bound = author.random.choice(("tanh", "sigmoid", "S") if first.axes else ("tanh",))
    steps.append(Step(bound, (Port("", ""),)))  # in a row of calls it would grow
    return author.finish([author.operand(first)], steps, result)


def _outputs(author: Author) -> list[Known]:
    """Up to three values, the ones that nothing uses first."""
    if not author.statements or not author.floats():
        statements.plain(author)
    made = {port.name for statement in author.statements for port in statement.makes}
    values = [value for value in author.values if value.text in made]
    floats = [value for value in values if value.range is None]
    if not floats:
        return _outputs_of_a_chain(author)
    ends = [value for value in floats if value.text not in author.used] or floats[-1:]
    chosen = ends[: author.random.choice((1, 1, 2, 3))]
    integers = [value for value in values if value.range is not None]
    if integers and author.world.chance(0.3):
        chosen.append(author.random.choice(integers))
    if author.world.chance(0.1):
        chosen.append(author.random.choice(floats))
    return list({value.text: value for value in chosen}.values())


def _outputs_of_a_chain(author: Author) -> list[Known]:
    value = author.input((symbol(next(iter(author.world.numbers))),))
    author.alias(value)
    return [author.values[-1]]


def _signature(author: Author, block: Block, outputs: Sequence[Known], *, layer: bool) -> Signature:
    certain = " ".join(
        str(part)
        for statement in block.statements
        for part in (*statement.sources, *statement.steps)
        if not (isinstance(part, Step) and part.guard)
    )
    return Signature(
        name=block.name,
        inputs=tuple(author.inputs),
        outputs=tuple(outputs),
        params=tuple(
            param
            for param, start in author.params
            if param.text in words(certain) and start not in MOVED
        ),
        numbers=tuple(author.numbers),
        words=tuple(author.words.items()),
        layer=layer,
        dims=tuple(sorted(words(block) & author.world.numbers.keys())),
    )
