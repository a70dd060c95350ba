"""Statements that are more than a chain: attention, tables, parts, losses, calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fuzz.author import VALUES, Author
from fuzz.sketch import Operand, Port, Statement, Step
from fuzz.steps import LARGE, padding
from fuzz.world import Axis, Known, Signature

from xg.ir.dim import ONE, Dim, number, symbol

POSITIONS_AT_MOST = 40  # more than any size has positions


def plain(author: Author) -> None:
    """A chain of a few nodes."""
    author.chain(author.start(), author.random.randint(1, 4))


def looked_up(author: Author) -> None:
    """Integers, sometimes moved about, as rows of a table."""
    world = author.world
    rows = world.dim()
    found = [value for value in author.values if value.range == rows]
    ids = author.random.choice(found) if found else author.input(_few(author), rows, ("ids", "t"))
    width = world.dim()
    table = author.param((rows, width), ("E_1", "emb"))
    axes = (*ids.axes, Axis(width, width != ONE))
    if world.fits([axis.dim for axis in axes]):
        known = Known("", axes, size=0.6)
        _statement(author, [author.operand(ids)], f"Emb({table.text})", known)


def _few(author: Author) -> tuple[Dim, ...]:
    return author.world.shape(author.random.choice((1, 2, 2, 3)))


def moved(author: Author) -> None:
    """Integers through operators that move them."""
    found = [value for value in author.values if value.range is not None]
    if found:
        author.chain(author.random.choice(found), author.random.randint(1, 2))
    else:
        author.input(_few(author), author.world.dim(), ("ids", "tokens"))


def positions(author: Author) -> None:
    """Learned or fixed positions as a table of their own."""
    world = author.world
    length, width = symbol(author.random.choice(list(world.numbers))), world.dim()
    known = Known("", (Axis(length), Axis(width, width != ONE)), size=0.7)
    if world.chance(0.5):
        world.literals["S_max"] = POSITIONS_AT_MOST
        table = author.param((symbol("S_max"), width), ("P_1",))
        source = Operand(f"range({length})", "")
        _statement(author, [source], f"Emb({table.text})", known)
        return
    half = symbol(author.random.choice(list(world.numbers)))
    known = replace(known, axes=(Axis(length), Axis(half * 2)))
    source = Operand(f"sinusoid({length}, {world.spell(half * 2)})", "")
    author.chain_from(source, known, 2)


def noise(author: Author) -> None:
    """Random numbers, drawn at every run."""
    source, known = _drawn(author, author.world.shape(author.random.choice((1, 2, 2, 3))))
    author.chain_from(source, known, 2)


def _drawn(author: Author, shape: Sequence[Dim]) -> tuple[Operand, Known]:
    axes = tuple(Axis(dim, dim != ONE) for dim in shape)
    law = author.random.choice(("normal(1)", "normal(0.5, 2)", "uniform(-1, 3)", "bernoulli(0.3)"))
    name, numbers = law.split("(")
    spelled = zip("abc", map(author.world.spell, shape), strict=False)
    sizes = ", ".join(size if size.isidentifier() else f"{n}={size}" for n, size in spelled)
    known = Known("", axes, dense=name != "bernoulli", size=2.0)
    return Operand(f"{name}[{sizes}]({numbers}", author.type(known)), known


def alone(author: Author) -> None:
    """Noise or a parameter on its own: a block of that may take nothing."""
    shape = author.world.shape(author.random.choice((1, 2, 2, 3)))
    if author.world.chance(0.5):
        param = author.param(shape, ("table", "w_1"))
        author.chain_from(Operand(param.text, ""), param, author.random.choice((0, 0, 1)))
        return
    source, known = _drawn(author, shape)
    author.chain_from(replace(source, type=""), known, author.random.choice((0, 0, 1)))


def repeated_param(author: Author) -> None:
    """A parameter as the start of a chain."""
    shape = author.world.shape(author.random.choice((1, 2)))
    param = author.param(shape, ("c_1", "w_1"))
    author.chain_from(Operand(param.text, ""), param, 2)


def attention(author: Author) -> None:
    """Queries from one value, keys and values from the same or another one."""
    world = author.world
    fitting = [v for v in author.floats() if len(v.axes) > 1 and v.size < LARGE]
    x = author.random.choice(fitting) if fitting else author.input(world.shape(3))
    if len(x.axes) < 2:
        return
    others = [v for v in fitting if v.shape[:-2] == x.shape[:-2]]
    memory = author.random.choice(others) if others else x
    width = world.dim()
    if not world.fits((*x.shape[:-1], memory.shape[-2])):
        return
    query = _projected(author, x, width)
    key = _projected(author, memory, width)
    value = _projected(author, memory, width)
    key_text = f"T({key.text})"
    if world.chance(0.5):
        swapped = replace(key, axes=(*key.axes[:-2], key.axes[-1], key.axes[-2]))
        named = _statement(author, [author.operand(key)], "T", swapped, plain=_has_one_swap(key))
        key_text = named.text
    author.used.update([key.text, value.text])
    scores = Known("", (*query.axes[:-1], memory.axes[-2]))
    own = author.random.choice(["1/sqrt(3)", "1/sqrt(3), causal", "mask=causal"])
    masks = ""
    if world.chance(0.3):
        operand = padding(author, scores)
        masks = f"{operand.arrow}{operand.text}"
    weights = Known("", scores.axes, dense=False)
    product = Operand(key_text, "", "<=")
    steps = [
        Step("•", (Port("", author.type(scores)),), (product,), shown=bool(masks)),
        Step(f"SM({own}){masks} -> S", (Port("", author.type(weights)),), shown=False),
    ]
    if world.chance(0.3):
        steps.append(Step("DO(0.2)", (Port("", author.type(weights)),), shown=False))
    result = Known("", (*query.axes[:-1], Axis(width, width != ONE)), dense=False)
    steps.append(Step("•", (Port("", ""),), (author.operand(value, "<="),), shown=False))
    author.finish([author.operand(query)], steps, result)


def _has_one_swap(value: Known) -> bool:
    """Whether the label of a transpose leaves no other way to make it."""
    return len(set(value.shape)) == len(value.shape)


def _projected(author: Author, x: Known, width: Dim) -> Known:
    weight = author.param((x.shape[-1], width), ("W_Q", "W_K"))
    known = replace(x, axes=(*x.axes[:-1], Axis(width, width != ONE)), size=1.0)
    operand = Operand(weight.text, author.type(weight), "<=")
    step = Step("•", (Port("", ""),), (operand,))
    return author.finish([author.operand(x)], [step], known)


def _statement(
    author: Author, sources: Sequence[Operand], node: str, known: Known, *, plain: bool = True
) -> Known:
    """A statement of one node; one that is not `plain` gets the map of a transpose."""
    if not plain:
        letters = "abcde"[: len(known.axes)]
        swapped = letters[:-2] + letters[-1] + letters[-2]
        node = f"{node}[{', '.join(letters)} -> {', '.join(swapped)}]"
    return author.finish(sources, [Step(node, (Port("", ""),))], known)


def parts(author: Author) -> None:
    """split into two or three."""
    world = author.world
    x = author.start()
    choices: list[tuple[int, tuple[Dim, ...]]] = []
    for place, dim in enumerate(x.shape):
        if dim != ONE and world.least(dim) > 1:
            choices.append((place, (ONE, dim - 1)))
        half = dim / 2
        if all(value.denominator == 1 for _, value in half.terms):
            choices.append((place, (half, half)))
        if world.least(dim) > 2:
            choices.append((place, (ONE, ONE, dim - 2)))
    if not choices:
        return
    place, lengths = author.random.choice(choices)
    made = [_part(author, x, place, length) for length in lengths]
    ports = tuple(Port(value.text, author.type(value)) for value in made)
    author.statements.append(Statement((author.operand(x),), (Step("split", ports),)))
    author.values.extend(made)


def _part(author: Author, x: Known, place: int, length: Dim) -> Known:
    axis = Axis(length, x.axes[place].varies and length != ONE)
    axes = (*x.axes[:place], axis, *x.axes[place + 1 :])
    return replace(x, text=author.fresh(VALUES), axes=axes)


def routed(author: Author) -> None:
    """The largest of an axis, back at their places or with the rows that they stand for."""
    fitting = [v for v in author.floats() if v.axes and v.dense and v.axes[-1].varies]
    fitting = [v for v in fitting if author.world.least(v.shape[-1]) > 2]
    if not fitting:
        return
    x = author.random.choice(fitting)
    front, rows = x.axes[:-1], x.shape[-1]
    value = replace(x, text=author.fresh(VALUES), axes=(*front, Axis(number(2))))
    places = replace(value, text=author.fresh(VALUES), range=rows)
    ports = tuple(Port(each.text, author.type(each)) for each in (value, places))
    author.statements.append(Statement((author.operand(x),), (Step("topk(2)", ports),)))
    author.values.extend((value, places))
    if author.world.chance(0.5):
        beside = author.operand(places)
        step = f"scatter[-1]<-{beside.text}"
        _statement(author, [author.operand(value)], step, replace(x, text="", dense=False))


def joined(author: Author) -> None:
    """C of several peers in front of a chain."""
    x = author.start()
    peers = [v for v in author.of_shape(x.shape) if v.size < LARGE]
    if not x.axes or not peers:
        return
    place = author.random.randrange(len(x.axes))
    chosen = [x, *author.random.choices(peers, k=author.random.randint(1, 2))]
    total = x.shape[place] * len(chosen)
    axes = (*x.axes[:place], Axis(total, x.axes[place].varies), *x.axes[place + 1 :])
    shape = tuple(axis.dim for axis in axes)
    if author.world.fits(shape):
        known = replace(x, axes=axes, dense=all(v.dense for v in chosen))
        author.finish([author.operand(v) for v in chosen], [Step("C", (Port("", ""),))], known)


def loss(author: Author) -> None:
    """One number that measures a value against targets."""
    world = author.world
    x = author.start()
    if not x.axes or x.size > LARGE:
        return
    kind = author.random.choice(("CE", "BCE", "MSE"))
    own: list[str] = ["sum"] if world.chance(0.3) else []
    if kind == "CE":
        if world.chance(0.3):
            own.append("ignore=1")
        targets = author.operand(author.input(x.shape[:-1], x.shape[-1], ("t", "y_t")))
        weights = (
            (author.operand(author.input(x.shape[:-1], number(2), ("w_t", "keep"))),)
            if world.chance(0.3)
            else ()
        )
        node, attached = "CE", (targets, *weights)
    else:
        operand, known = author.beside(x)
        if known.size > LARGE:
            return
        node, attached = kind, (operand,)
        if kind == "BCE" and world.chance(0.5):
            own.append("form=logits")
        elif kind == "BCE":
            node = "tanh -> sigmoid -> BCE"  # 1 - p of a p that is nearly 1 has few digits
    node += f"({', '.join(own)})" if own else ""
    step = Step(node, (Port("", ""),), attached)
    author.finish([author.operand(x)], [step], Known("", (), size=3.0))


# ---- calls ---------------------------------------------------------------------------------------


def called(author: Author) -> None:
    """A call of a finished block: a new one, a row of them, or a name that was called before."""
    world = author.world
    if author.calls and world.chance(0.4):
        name, (signature, binding) = author.random.choice(list(author.calls.items()))
        _call(author, signature, binding, name, "")
        return
    if not world.blocks:
        return
    signature = author.random.choice(world.blocks)
    binding = _binding(author, signature)
    name = author.fresh(("f_1", "attn", "ffn_1", "call"))
    if signature.name not in author.unnamed and world.chance(0.25):
        author.unnamed.add(signature.name)
        name = signature.name
    arguments = _arguments(author, signature, binding)
    _call(author, signature, binding, name, arguments, first=True)


def _binding(author: Author, signature: Signature) -> Mapping[str, Dim]:
    """Other sizes for symbols of the block, some of them exchanged: S may be S_k, D may be B + 1.

    Its inputs carry them, or the call gives them.
    """
    free = [name for name in signature.dims if name not in ("H", "N_H")]
    count = min(len(free), author.random.choice((0, 0, 1, 1, 2, 3)))
    hidden = [name for name in free if name not in author.world.numbers]  # by a size of the block
    names = list(dict.fromkeys([*hidden, *author.random.sample(free, count)]))
    if not names:
        return {}
    wide = [n for n in author.world.numbers if author.world.least(symbol(n)) > 2]
    names = names[: len(wide)]
    others = [symbol(name) for name in author.random.sample(wide, min(len(names), len(wide)))]
    if author.world.chance(0.2):
        others[0] = author.random.choice((others[0] + 1, others[0] * 2))
    return {name: other for name, other in zip(names, others, strict=True) if other.name != name}


def _carried(signature: Signature) -> set[str]:
    types = ((*known.shape, known.range) for known in signature.inputs)
    return {dim.name for type_ in types for dim in type_ if dim is not None and dim.name}


def _arguments(author: Author, signature: Signature, binding: Mapping[str, Dim]) -> str:
    given = [f"{name}=0.3" for name in signature.numbers if author.world.chance(0.5)]
    carried = _carried(signature)
    given += [f"{name}={size}" for name, size in binding.items() if name not in carried]
    for name, words in signature.words:
        if author.world.chance(0.5):
            own = author.words.get(name) == words and author.world.chance(0.5)
            given.append(f"{name}={name if own else author.random.choice(words)}")
    return f"({', '.join(given)})" if given else ""


def _call(
    author: Author,
    signature: Signature,
    binding: Mapping[str, Dim],
    name: str,
    arguments: str,
    *,
    first: bool = False,
) -> None:
    wanted = [known.bound(binding) for known in signature.inputs]
    made = [known.bound(binding) for known in signature.outputs]
    if not all(author.world.fits(known.shape) for known in (*wanted, *made)):
        return
    operands = [_operand_for(author, known) for known in wanted]
    head = signature.name if first else name
    label = name if first and name != signature.name else ""
    if first and signature.layer and author.world.chance(0.5):
        head = f"{_count(author)} × {head}"
    elif label:
        author.calls[name] = (signature, binding)
    split = 1 if author.world.chance(0.5) else len(operands)
    named = [replace(known, text=author.fresh(VALUES)) for known in made]
    ports = tuple(Port(known.text, author.type(known)) for known in named)
    sizes = tuple((name, str(size)) for name, size in binding.items())
    step = Step(f"{head}{arguments}", ports, tuple(operands[split:]), call=label, sizes=sizes)
    front = not operands or author.world.chance(0.3)
    author.statements.append(Statement(tuple(operands[:split]), (step,), front=front))
    author.values.extend(named)


def _count(author: Author) -> str:
    if author.world.chance(0.5):
        return author.random.choice(("2", "3", "1"))
    name = author.random.choice(("N", "N_L"))
    author.world.literals.setdefault(name, author.random.choice((0, 1, 2, 3)))
    return name


def _operand_for(author: Author, known: Known) -> Operand:
    """A value of the type that a port wants: found, brought to it, or a new input."""
    found = [v for v in author.of_shape(known.shape, known.range) if v.size < LARGE / 2]
    if found and author.world.chance(0.8):
        return author.operand(author.random.choice(found))
    if known.range is None and author.floats() and author.world.chance(0.6):
        value = author.random.choice(author.floats())
        nodes = author.bring(value, known.shape)
        if nodes and nodes[-1] != "BC" and value.size < LARGE / 2:
            author.used.add(value.text)
            return Operand(f"({value.text} -> {' -> '.join(nodes)})", author.type(known))
    return author.operand(author.input(known.shape, known.range))
