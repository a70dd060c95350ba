"""Statements of programs of edges that take several lines: routes, parts, attention, losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuzz.edge_programs import Author

EXPERTS = 3
WHOLE = ("B", "S", "D")


def routed(author: Author) -> None:
    """Write the largest of an axis, and back to their places or to those of another value."""
    found = [v for v in author.floats(2) if v.shape[-1] == "D" and author.world.length("D")]
    if not found:
        return
    x = author.random.choice(found)
    k = str(author.random.randint(1, min(2, author.world.length("D"))))
    shape = (*x.shape[:-1], k)
    best, places = author.several(f"{x.name} -> topk({k})", (shape, ""), (shape, "D"))
    author.world.tags.add("topk")
    if author.random.random() < 0.5:
        best = author.after_view(best)
    if author.random.random() < 0.5:
        author.add(f"{best.name} -> scatter[-1]<-{places.name}", x.shape)
    if author.random.random() < 0.5:
        other = author.random.choice([v for v in author.floats() if v.shape == x.shape])
        author.add(f"{other.name} -> gather[-1]<-{places.name}", shape)


def parted(author: Author) -> None:
    """Write parts of an axis, and put them together in some order."""
    found = [v for v in author.floats(2) if v.shape[-2:] == ("S", "D")]
    if not found:
        return
    x = author.random.choice(found)
    axis = author.random.choice(("S", "D"))
    place = x.shape.index(axis)
    if author.world.length(axis) < 2:
        return
    rest = author.world.formula(f"{axis} - 1", author.world.length(axis) - 1)
    shapes = [(*x.shape[:place], size, *x.shape[place + 1 :]) for size in ("1", rest)]
    parts = author.several(f"{x.name} -> split", *((shape, "") for shape in shapes))
    author.world.tags.add("parts")
    chosen = author.random.randrange(2)
    parts[chosen] = author.after_view(parts[chosen])
    if author.random.random() < 0.7:
        author.random.shuffle(parts)
        author.add(f"{parts[0].name}, {parts[1].name} -> C[{place - len(x.shape)}]", x.shape)


def joined(author: Author) -> None:
    """Write two values or one twice as one, then something in place, and cut them apart."""
    found = [v for v in author.floats(2) if v.shape[-2:] == ("S", "D")]
    if not found:
        return
    x = author.random.choice(found)
    y = author.random.choice([v for v in found if v.shape == x.shape])
    axis = author.random.choice(("S", "D"))
    place = x.shape.index(axis)
    twice = author.world.formula(f"2*{axis}", 2 * author.world.length(axis))
    shape = (*x.shape[:place], twice, *x.shape[place + 1 :])
    both = author.add(f"{x.name}, {y.name} -> C", shape, "joined")
    both = author.after_view(both)
    if author.random.random() < 0.6:
        author.several(f"{both.name} -> split", (x.shape, ""), (x.shape, ""))


def experts(author: Author) -> None:
    """Write a mixture whose experts have few places, so that some choices find none."""
    found = [v for v in author.floats(3) if v.shape == WHOLE]
    if not found:
        return
    x, random = author.random.choice(found), author.random
    k, room = str(random.choice((1, 2))), str(random.choice((1, 1, 2)))
    width = str(EXPERTS)
    scores = author.add(f"{x.name} -> •<={author.param(('D', width)).name} -> S", ("B", "S", width))
    shape = ("B", "S", k)
    gates, chosen = author.several(f"{scores.name} -> topk({k})", (shape, ""), (shape, width))
    places = str(EXPERTS * int(room) + 1)
    sent = (("B", width, room, "D"), ""), (shape, places), ((), "")
    rows, slot, _ = author.several(f"{x.name} -> dispatch({width}, {room})<-{chosen.name}", *sent)
    author.world.tags.add("experts")
    inner = (width, "D", "D")
    if random.random() < 0.5:
        first, second = author.param(inner), author.param(inner)
        step = f"•<={first.name} -> {random.choice(('GELU', 'ReLU', 'SiLU'))} -> •<={second.name}"
        rows = author.add(f"{rows.name} -> {step}", rows.shape)
    else:
        rows = author.after_view(rows)
    author.add(f"{rows.name} -> combine<-{slot.name}<-{gates.name}", x.shape)


def attention(author: Author) -> None:
    """Write attention of positions to themselves, sometimes with a mask that hides all of a row."""
    found = [v for v in author.floats(3) if v.shape == WHOLE]
    if not found or not author.world.length("S"):
        return
    x, random = author.random.choice(found), author.random
    keys = author.add(f"{random.choice(found).name} -> T", ("B", "D", "S"), "views")
    own = random.choice(("1/2", "1/2, causal"))
    mask = ""
    if random.random() < 0.4:
        mask = f"<-{author.input(('B', 'S', 'S'), '2', 'masks').name}"
    steps = f"•<={keys.name} -> SM({own}){mask} -> S -> •<={random.choice(found).name}"
    author.add(f"{x.name} -> {steps}", x.shape, "attention")


def affine(author: Author) -> None:
    """Write a normalization or a product with parameters that kernels take as well."""
    found = [v for v in author.floats(2) if v.shape[-1] == "D"]
    if found:
        x = author.random.choice(found)
        one, two = author.param(("D",)), author.param(("D",))
        norm = f"LN({one.name}, {two.name})"
        linear = f"•<={author.param(('D', 'D')).name} -> ⊕<-BC({two.name})"
        steps = (norm, linear, f"{linear} -> GELU", f"{norm} -> ⊕<-{x.name}", f"{linear} -> S")
        author.add(f"{x.name} -> {author.random.choice(steps)}", x.shape, "affine")


def loss(author: Author) -> None:
    """Write a number that measures a value; no mean of nothing, which has no value."""
    found = [v for v in author.floats(2) if v.shape[-1] == "D"]
    found = [v for v in found if all(map(author.world.length, v.shape))]
    if not found:
        return
    x, random = author.random.choice(found), author.random
    if random.random() < 0.6:
        targets = author.target(x.shape[:-1], "D")
        author.add(
            f"{x.name} -> CE({random.choice(('sum', 'mean'))})<-{targets.name}", (), "losses"
        )
    else:
        other = random.choice([v for v in author.floats() if v.shape == x.shape])
        author.add(f"{x.name} -> MSE<-{other.name}", (), "losses")


def inner_gradient(author: Author) -> None:
    """Write a gradient that is a value, sometimes with a parameter's, and one of this gradient."""
    x, random = author.some(), author.random
    if x is None or len(x.shape) > 3:
        return
    # Another value may be made of x by a loop, which no gradient in a block goes through.
    y = random.choice([x, *(v for v in author.inputs if v.shape == x.shape and not v.range)])
    steps = (f"tanh -> ⊙<-{x.name}", "Log", "Whole", f"⊙<-{y.name}", f"⊕<-{y.name} -> ReLU")
    made = author.add(f"{x.name} -> {random.choice((*steps, 'softplus -> Cap'))}", x.shape)
    variables = [x]
    if random.random() < 0.4 and author.may_be_param(x.shape[-1:]):
        w = author.param(x.shape[-1:])
        made = author.add(f"{made.name} -> ⊙<-BC({w.name}) -> sigmoid", x.shape)
        variables.append(w)
    total = author.add(f"{made.name} -> ⊙<-{made.name} -> {_sum_of_all(x.shape)}", ())
    names, types = ", ".join(v.name for v in variables), [(v.shape, "") for v in variables]
    found = author.several(f"grad[{names}]({total.name})", *types)
    author.world.tags.add("inner gradients")
    if random.random() < 0.5:
        slope = random.choice(found)
        again = f"{slope.name} -> ⊙<-{slope.name} -> {_sum_of_all(slope.shape)}"
        squares = author.add(again, (), "nested gradients")
        author.several(f"grad[{x.name}]({squares.name})", (x.shape, ""))


def _by_name(shape: Sequence[str], place: int) -> str:
    """An axis by its name, or from the end if it shares its name."""
    return shape[place] if shape.count(shape[place]) == 1 else str(place)


def _sum_of_all(shape: Sequence[str]) -> str:
    return f"sum[{', '.join(str(n - len(shape)) for n in range(len(shape)))}]"


def running(author: Author) -> None:
    """Write running sums, or what falls with the position."""
    found = [v for v in author.floats(2) if v.shape[-2:] == ("S", "D")]
    if found:
        x = author.random.choice(found)
        named = _by_name(x.shape, -2)
        step = author.random.choice(
            (f"cumsum[{named}]", "cumsum[-2]", "cumsum[-1]", "Decay", "Runs")
        )
        tag = "decays" if step == "Decay" else "running sums"
        author.add(f"{x.name} -> {step}", x.shape, tag)


def largest(author: Author) -> None:
    """Write the place of the largest, as a row of ones, or with the largest as a number."""
    found = [v for v in author.floats(2) if v.shape[-1] == "D"]
    if not found:
        return
    x = author.random.choice(found)
    if author.random.random() < 0.3:
        author.add(f"{x.name} -> Best", x.shape[:-1], "ties")
        return
    step = author.random.choice((f"argmax[{_by_name(x.shape, -1)}]", "argmax[-1]"))
    places = author.add(f"{x.name} -> {step}", x.shape[:-1], "argmax", "D")
    ids = author.random.choice([v for v in author.values if v.range and len(v.shape) < 4])
    ids = author.random.choice((places, ids))
    if len(ids.shape) < 4:
        author.add(f"{ids.name} -> onehot", (*ids.shape, ids.range), "onehot")


def counted_from_the_end(author: Author) -> None:
    """Write a choice, a part or a reduction of an axis by its place or positions from the end."""
    found = [v for v in author.floats(2) if v.shape[-2:] == ("S", "D")]
    if not found:
        return
    x, random, length = author.random.choice(found), author.random, author.world.length("S")
    front, named = x.shape[:-2], _by_name(x.shape, -2)
    ways = {f"{step}[-1]": x.shape[:-1] for step in ("sum", "mean", "logsumexp")}
    if length:
        ways |= {
            "S[-2]": x.shape,
            f"pick[{named}](-1)": (*front, "D"),
            "pick[-2](-1)": (*front, "D"),
        }
        ways |= {f"slice[{named}](-1, S)": (*front, "1", "D"), "logsumexp[-2]": (*front, "D")}
    if length > 1:
        ways |= {"slice[-2](-2, S)": (*front, "2", "D")}
    step = random.choice(list(ways))
    author.add(f"{x.name} -> {step}", ways[step], "logsumexp" if "log" in step else "from the end")


def distances(author: Author) -> None:
    """Write the distances of all pairs of positions, by an operator that calls another."""
    found = [v for v in author.floats(3) if v.shape == WHOLE]
    if found:
        x, y = author.random.choice(found), author.random.choice(found)
        apart = author.add(f"Apart({x.name}, {y.name})", ("B", "S", "S"), "calls of operators")
        author.add(f"{apart.name} -> •<={x.name}", x.shape)


SEVERAL = (
    *(routed, routed, parted, parted, joined, joined, experts, attention, affine, affine, loss),
    *(inner_gradient, inner_gradient, inner_gradient, running, running, largest, largest),
    *(counted_from_the_end, counted_from_the_end, distances, distances),
)
