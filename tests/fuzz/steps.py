"""The catalogue of nodes: what can come next in a chain, given what is known of the value.

Each function gives one random use of its operators, or None where they do not fit. Uses that make
differences worthless are left out: masks come only before a softmax, norms only where rows
are longer than two and their numbers vary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from math import prod

from fuzz.author import Author, Move
from fuzz.layout import concatenated, reshaped, sliced
from fuzz.sketch import Operand
from fuzz.world import Axis, Known

from xg.ir.dim import ONE, number

Maker = Callable[[Author, Known], Move | None]

LARGE = 4.0
BATCH_NORMS = 0.3  # of the places where a norm may be


def step(author: Author, x: Known, keeping: bool) -> Move | None:
    """A random node behind `x`; with `keeping` one that the compiler knows to keep shapes."""
    if x.range is not None:
        return None if keeping else author.random.choice(INTEGER)(author, x)
    makers = KEEPING if keeping else ANY
    chosen = author.random.choices([m for _, m in makers], [weight for weight, _ in makers])[0]
    return chosen(author, x)


# ---- of one value --------------------------------------------------------------------------------


def activation(author: Author, x: Known) -> Move | None:
    """A function of each number."""
    names = ["ReLU", "GELU", "GELU(exact)", "GELU(form=tanh)", "SiLU", "sigmoid", "tanh"]
    name = author.random.choice(names)
    if "act" in author.world.options and author.world.chance(0.3):
        name = "act"
    dense = x.dense and name not in ("ReLU", "act")
    return Move(name, replace(x, dense=dense), keeps=name != "act")


def scale(author: Author, x: Known) -> Move | None:
    """Times a number."""
    numbers = ["0.5", "-1", "1/sqrt(7)", "2^-0.5"]
    if x.size < LARGE:
        numbers += ["2", f"sqrt({author.random.choice(list(author.world.numbers))})"]
    numbers += author.numbers
    return Move(f"scale({author.random.choice(numbers)})", replace(x, size=x.size * 2), keeps=True)


def dropout(author: Author, x: Known) -> Move | None:
    """Random zeros."""
    p = author.random.choice(["0.1", "p=0.5", "0.25, unscaled", "0", *author.numbers])
    return Move(f"DO({p})", replace(x, dense=False), keeps=True)


def norm(author: Author, x: Known) -> Move | None:
    """Layer norm, affine or not; in some places batch norm."""
    if author.world.aside.random() < BATCH_NORMS:
        return batch_norm(author, x)
    if not x.axes or not x.dense or not x.axes[-1].varies or author.world.least(x.shape[-1]) < 3:
        return None
    if x.size > 2 * LARGE:
        return None
    own: list[str] = []
    if author.world.chance(0.7):
        own.append(author.param(x.shape[-1:], ("γ_1", "gamma_2")).text)
        if author.world.chance(0.8):
            own.append(author.param(x.shape[-1:], ("β_1", "b_1")).text)
    if author.world.chance(0.3):
        own.append("eps=1e-3")
    text = f"LN({', '.join(own)})" if own else "LN"
    return Move(text, replace(x, size=1.0), keeps=True)


def batch_norm(author: Author, x: Known) -> Move | None:
    """Batch norm over all axes but the last, with γ and β or not, with running statistics or not.

    One number of the batch for each channel would be its mean.
    """
    others = [axis.dim for axis in x.axes[:-1] if axis.varies]
    if not x.axes or not x.dense or x.size > 2 * LARGE:
        return None
    if prod(map(author.world.least, others)) < 3:
        return None
    channels = x.shape[-1:]
    own: list[str] = []
    if author.world.chance(0.6):
        own = [author.param(channels, ("γ_1",)).text, author.param(channels, ("β_1", "b_1")).text]
    if author.world.chance(0.5):
        mean, variance = author.statistics(channels)
        own += [mean, variance] if own else [f"mean={mean}", f"variance={variance}"]
        if author.world.chance(0.5):
            own.append("momentum=0.3")
    return Move(f"BN({', '.join(own)})" if own else "BN", replace(x, size=1.0), keeps=True)


def softmax(author: Author, x: Known) -> Move | None:
    """S, sometimes behind a scale and a mask."""
    if not x.axes:
        return None
    if author.world.chance(0.4):
        return Move("S", replace(x, size=1.0), keeps=True)
    scale = author.random.choice(["", "1/sqrt(5)", "scale=0.7"])
    causal = len(x.axes) > 1 and author.world.chance(0.4)
    word = author.random.choice(["causal", "mask=causal"])
    if "mask" in author.words and len(x.axes) > 1 and author.world.chance(0.7):
        word, causal = author.random.choice(["mask", "mask=mask"]), True
    if "=" in scale or not scale:  # arguments in order come first
        word = "mask=" + word.removeprefix("mask=")
    own = ", ".join([*([scale] if scale else []), *([word] if causal else [])])
    attached = (padding(author, x),) if author.world.chance(0.4) else ()
    masks = "".join(f"{operand.arrow}{operand.text}" for operand in attached)
    result = replace(x, dense=False, size=1.0)
    return Move(f"SM{f'({own})' if own else ''}{masks} -> S", result, keeps=True)


def padding(author: Author, x: Known) -> Operand:
    """A mask of the shape of `x`, of that shape or repeated."""
    bits = number(2)
    found = author.of_shape(x.shape, bits)
    if found and author.world.chance(0.6):
        return author.operand(author.random.choice(found))
    if len(x.shape) > 1 and author.world.chance(0.5):
        keep = author.input(x.shape[-1:], bits, ("keep", "pad"))
        return replace(author.operand(keep), text=f"BC({keep.text})", type=author.type(x) + " in 2")
    return author.operand(author.input(x.shape, bits, ("keep", "mask_1")))


def rope(author: Author, x: Known) -> Move | None:
    """Rotary positions, where the last axis is even by its form."""
    if len(x.axes) < 2 or any(value.numerator % 2 for _, value in x.shape[-1].terms):
        return None
    own = author.random.choice(["", "(base=100)", "(layout=interleaved)", "(50, interleaved)"])
    length = x.shape[-2]
    positions = author.random.choice(["", "", f"range({length})", f"range(3, {length + 3})"])
    attached = (Operand(positions, f"[{length}] in {length + 3}"),) if positions else ()
    axes = (*x.axes[:-2], Axis(length, length != ONE), x.axes[-1])
    return Move(f"RoPE{own}", replace(x, axes=axes), attached, keeps=True)


# ---- of two values -------------------------------------------------------------------------------


def added(author: Author, x: Known) -> Move | None:
    """⊕ with anything of the same shape."""
    operand, known = author.beside(x)
    pairs = zip(x.axes, known.axes, strict=True)
    axes = tuple(Axis(a.dim, a.varies or b.varies) for a, b in pairs)
    dense = x.dense or known.dense
    result = replace(x, axes=axes, dense=dense, size=(x.size**2 + known.size**2) ** 0.5)
    return Move(author.random.choice(["⊕", "⊕", "+"]), result, (operand,), keeps=True)


def multiplied(author: Author, x: Known) -> Move | None:
    """⊙ or a gate with anything of the same shape."""
    operand, known = author.beside(x)
    if x.size * known.size > LARGE:
        return None
    pairs = zip(x.axes, known.axes, strict=True)
    axes = tuple(Axis(a.dim, a.varies or b.varies) for a, b in pairs)
    result = replace(x, axes=axes, dense=x.dense and known.dense, size=x.size * known.size)
    gates = [name for name in ("GLU", "SwiGLU") if name not in author.world.ops]
    return Move(author.random.choice(["⊙", "*", *gates]), result, (operand,), keeps=True)


def projected(author: Author, x: Known) -> Move | None:
    """• with a parameter, plain, transposed or one for each of the last leading axes."""
    if len(x.axes) < 2:
        return None
    new = author.world.dim()
    batch = author.random.choice((0, 0, 0, 1, 2))
    leading = x.shape[max(len(x.shape) - 2 - batch, 0) : -2] if batch else ()
    shape = (*leading, x.shape[-1], new)
    result = (*x.shape[:-1], new)
    if not author.world.fits(shape) or not author.world.fits(result):
        return None
    last = Axis(new, new != ONE)
    known = replace(x, axes=(*x.axes[:-1], last), size=max(x.size, 0.5))
    node = author.random.choice(["•", "•", "@"])
    if author.world.chance(0.3):
        weight = author.param((*leading, new, x.shape[-1]), ("W_1", "E_1"))
        return Move(node, known, (_double(author, f"T({weight.text})", shape),))
    weight = author.param(shape)
    return Move(node, known, (_double(author, weight.text, shape),))


def _double(author: Author, text: str, shape: tuple[object, ...]) -> Operand:
    return Operand(text, f"[{', '.join(map(str, shape))}]", "<=")


def multiplied_by_value(author: Author, x: Known) -> Move | None:
    """• with another value whose axes happen to fit."""
    fitting = [v for v in author.floats() if _fits(x, v) and v.size * x.size < LARGE]
    if len(x.axes) < 2 or not fitting:
        return None
    value = author.random.choice(fitting)
    result = (*x.shape[:-1], value.shape[-1])
    if not author.world.fits(result):
        return None
    axes = (*x.axes[:-1], value.axes[-1])
    size = x.size * value.size * author.world.least(x.shape[-1]) ** 0.5
    known = replace(x, axes=axes, dense=False, size=size)
    return Move("•", known, (author.operand(value, "<="),))


def _fits(x: Known, value: Known) -> bool:
    batch = len(value.shape) - 2
    if batch < 0 or batch > len(x.shape) - 2 or value.shape[-2] != x.shape[-1]:
        return False
    return x.shape[len(x.shape) - 2 - batch : -2] == value.shape[:-2]


def scored(author: Author, x: Known) -> Move | None:
    """• with the transpose of itself or of a value like it: ``X -> •<=T(X)``."""
    fitting = [v for v in author.of_shape(x.shape) if v.size * x.size < LARGE]
    result = (*x.shape[:-1], *x.shape[-2:-1])
    if len(x.axes) < 2 or not fitting or not author.world.fits(result):
        return None
    value = author.random.choice(fitting)
    author.used.add(value.text)
    turned = (*x.shape[:-2], x.shape[-1], x.shape[-2])
    known = replace(x, axes=(*x.axes[:-1], x.axes[-2]), dense=False, size=x.size * value.size)
    return Move("•", known, (_double(author, f"T({value.text})", turned),))


# ---- layout --------------------------------------------------------------------------------------


def transposed(author: Author, x: Known) -> Move | None:
    """T: bare where the shape leaves one way, else with its map."""
    if len(x.axes) < 2:
        return None
    places = list(range(len(x.axes)))
    order = [*places[:-2], places[-1], places[-2]]
    if author.world.chance(0.4):
        author.random.shuffle(order)
    target = tuple(x.shape[i] for i in order)
    ways = [
        way
        for way in permutations(places)
        if list(way) != places and tuple(x.shape[i] for i in way) == target
    ]
    known = replace(x, axes=tuple(x.axes[i] for i in order))
    if ways == [tuple(order)] and author.world.chance(0.7):
        return Move("T", known, target=True)
    letters = "abcde"[: len(order)]
    text = f"T[{', '.join(letters)} -> {', '.join(letters[i] for i in order)}]"
    return Move(text, known)


def repeated(author: Author, x: Known) -> Move | None:
    """BC along new axes, by the label, by their names or by a map with groups."""
    new = author.world.dim()
    shape = (new, *x.shape)
    if not author.world.fits(shape):
        return None
    axes = (Axis(new, varies=False), *x.axes)
    name = author.nameable(new)
    draw = author.random.random()
    if draw < 0.3:
        return Move("BC", replace(x, axes=axes), target=True)
    if name and draw < 0.6:
        return Move(f"BC[{name}]", replace(x, axes=axes))
    return _mapped(author, x, Axis(new, varies=False))


def _mapped(author: Author, x: Known, new: Axis) -> Move:
    letters = list("abcde"[: len(x.axes)])
    place = author.random.randint(0, len(letters))
    target = [*letters[:place], f"n={author.world.spell(new.dim)}", *letters[place:]]
    axes = [*x.axes[:place], new, *x.axes[place:]]
    if new.dim == ONE and author.world.chance(0.5):
        target[place] = "1"
    if place < len(letters) and author.world.chance(0.4):
        merged = Axis(new.dim * axes[place + 1].dim, axes[place + 1].varies)
        target[place : place + 2] = [f"({target[place]}, {target[place + 1]})"]
        axes[place : place + 2] = [merged]
    source = ", ".join(letters)
    if not source:
        return Move("BC", replace(x, axes=tuple(axes)), target=True)
    return Move(f"BC[{source} -> {', '.join(target)}]", replace(x, axes=tuple(axes)))


def reduced(author: Author, x: Known) -> Move | None:
    """mean or sum over axes that have names."""
    names = {author.nameable(a.dim): i for i, a in enumerate(x.axes) if x.shape.count(a.dim) == 1}
    names.pop(None, None)
    if not names:
        return None
    chosen = author.random.sample(list(names), author.random.randint(1, min(2, len(names))))
    gone = {names[name] for name in chosen}
    op = author.random.choice(["mean", "sum"] if x.size < LARGE else ["mean"])
    axes = tuple(axis for i, axis in enumerate(x.axes) if i not in gone)
    size = x.size * (2.5 ** len(gone) if op == "sum" else 1)
    text = f"{op}[{', '.join(str(name) for name in chosen)}]"
    return Move(text, replace(x, axes=axes, size=size))


def defined(author: Author, x: Known) -> Move | None:
    """An operator that the file defines."""
    if not author.world.ops or x.size > LARGE:
        return None
    op = author.random.choice(list(author.world.ops.values()))
    number = author.random.choice(["", "c=0.3", *author.numbers[:1]]) if op.number else ""
    number = f"c={number}" if number and "=" not in number else number
    text = f"{op.name}({number})" if number else op.name
    rough = replace(x, dense=False, size=x.size * 2)
    match op.form:
        case "each":
            return Move(text, rough, keeps=True)
        case "pair":
            operand, known = author.beside(x)
            return Move(text, replace(rough, size=x.size + known.size), (operand,), keeps=True)
        case "row" if x.axes:
            return Move(text, rough, keeps=True)
        case "gain" if x.axes:
            gain = author.param(x.shape[-1:], ("g_1", "γ_1")).text
            own = f"{gain}, {number}" if number else gain
            return Move(f"{op.name}({own})", rough, keeps=True)
        case "pool" if len(x.axes) > 1:
            return Move(text, replace(rough, axes=(*x.axes[:-2], x.axes[-1])))
        case "outer" if x.axes:
            return _outer(author, x, text)
        case _:
            return None


def _outer(author: Author, x: Known, text: str) -> Move | None:
    fitting = [
        value
        for value in author.floats()
        if value.shape[:-1] == x.shape[:-1] and value.axes and value.size < LARGE
    ]
    if not fitting:
        return None
    value = author.random.choice(fitting)
    axes = (*x.axes, value.axes[-1])
    if not author.world.fits([axis.dim for axis in axes]):
        return None
    known = replace(x, axes=axes, dense=False, size=x.size + value.size)
    return Move(text, known, (author.operand(value),))


KEEPING: tuple[tuple[int, Maker], ...] = (
    (4, activation),
    (2, scale),
    (2, dropout),
    (3, norm),
    (2, softmax),
    (1, rope),
    (5, added),
    (3, multiplied),
)
ANY: tuple[tuple[int, Maker], ...] = (
    *KEEPING,
    (8, projected),
    (2, multiplied_by_value),
    (2, scored),
    (2, transposed),
    (4, reshaped),
    (2, repeated),
    (2, reduced),
    (2, sliced),
    (1, concatenated),
    (5, defined),
)
INTEGER: tuple[Maker, ...] = (transposed, reshaped, repeated, sliced)
