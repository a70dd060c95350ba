"""Flaws of a painted picture, found in the geometry of its display list.

A flaw is a kind, the element at fault and the other one. Crossings are no flaw: they are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import hypot
from typing import Generic, TypeVar

from xg.figures.draw.glyph import Display, DrawnShape, DrawnText, Element, Wire
from xg.figures.draw.paint import line_bounds
from xg.figures.model import figure as style
from xg.figures.model.figure import Box, DrawnPath, FigureGroup, Point, bounding_box, path_points

PIXEL = 0.75  # points
TOUCH = 2.0  # how far an end may be from the rim it touches
TOUCH_ROUND = 1.0  # the same of a circle, which a line may miss at its side
INSIDE = 0.8  # how deep a line may reach into an element that it does not belong to
TURN = 0.05  # a smaller shift is rounding
LEAST = 5.0  # a smaller step to the side is a kink
BESIDE_TEXT = 4.0  # how far over or under a text a line may begin beside it
WIDE = 40.0  # a box so wide has room for lines
AT_CORNER = 7.5  # that are farther from its corners
LEAST_OFF = 1.6  # how far an arrow may enter a circle off its middle
SAME = 1.2  # lines nearer than this look like one
BESIDE_RIM = 3.5  # as near, in a picture that is not made smaller, a line looks like a frame's
ALONG_RIM = 6.0  # where it runs so far along

Found = TypeVar("Found")
Segment = tuple[Point, Point]


@dataclass(frozen=True, slots=True)
class Flaw:
    """One flaw: `kind` is its name, `what` and `other` are elements."""

    kind: str
    what: str
    other: str = ""


@dataclass(frozen=True)
class Arrow:
    """An edge as it is painted: its lines (two of a double one), its head, its label."""

    element: Element

    @property
    def name(self) -> str:
        return self.element.op

    @cached_property
    def lines(self) -> list[Sequence[Point]]:
        """The points of each line."""
        shapes = (part for part in self.element.parts if isinstance(part, DrawnShape))
        return [path_points(shape.path) for shape in shapes if shape.line is not None]

    @cached_property
    def head(self) -> DrawnPath | None:
        shapes = (part for part in self.element.parts if isinstance(part, DrawnShape))
        return next((shape.path for shape in shapes if shape.line is None), None)

    @cached_property
    def is_dashed(self) -> bool:
        return any(isinstance(part, DrawnShape) and part.dashes for part in self.element.parts)

    @cached_property
    def texts(self) -> list[Box]:
        return _texts(self.element)

    @cached_property
    def segments(self) -> list[Segment]:
        return [pair for line in self.lines for pair in pairwise(line)]

    def joins(self, node: str) -> bool:
        wire = self.element.wire
        return wire is not None and node in (wire.tail, wire.head)


@dataclass(frozen=True)
class Glyph:
    """A node as it is painted: its frame, or the room of its text where it has none."""

    element: Element

    @cached_property
    def outline(self) -> DrawnPath | None:
        first = self.element.parts[0] if self.element.parts else None
        is_frame = isinstance(first, DrawnShape) and first.path.closed
        return first.path if isinstance(first, DrawnShape) and is_frame else None

    @cached_property
    def box(self) -> Box:
        if self.outline is not None:
            xs, ys = zip(*path_points(self.outline), strict=True)
            return Box(min(xs), min(ys), max(xs), max(ys))
        texts = _texts(self.element)
        return bounding_box(texts) if texts else Box(0, 0, 0, 0)

    @cached_property
    def texts(self) -> list[Box]:
        return _texts(self.element)

    @cached_property
    def is_round(self) -> bool:
        return any(name in self.element.kind for name in ("matmul", "add", "mul"))

    @cached_property
    def shown_lines(self) -> list[DrawnPath]:
        """The hairlines of a bar."""
        shapes = [part for part in self.element.parts[1:] if isinstance(part, DrawnShape)]
        lines = [shape.path for shape in shapes if not shape.path.closed]
        return [] if self.is_round else lines

    @cached_property
    def hairlines(self) -> list[float]:
        """Where a bar shows lines that only pass."""
        return [line.start[0] for line in self.shown_lines]

    def distance(self, point: Point) -> float:
        """How far a point is from the rim, negative inside."""
        x, y = point
        cx, cy = self.box.center
        if self.is_round:
            return hypot(x - cx, y - cy) - self.box.width / 2
        dx = abs(x - cx) - self.box.width / 2
        dy = abs(y - cy) - self.box.height / 2
        if dx > 0 and self.outline is None:
            dy -= BESIDE_TEXT
        return hypot(max(dx, 0.0), max(dy, 0.0)) if max(dx, dy) > 0 else max(dx, dy)


class Nearby(Generic[Found]):
    """Things by their boxes, found by where they are."""

    CELL = 48.0

    def __init__(self) -> None:
        self.cells: dict[tuple[int, int], list[tuple[Box, Found]]] = defaultdict(list)

    def add(self, box: Box, thing: Found) -> None:
        for cell in self._cells(box):
            self.cells[cell].append((box, thing))

    def near(self, area: Box) -> Iterator[tuple[Box, Found]]:
        """Everything that overlaps an area, each once."""
        seen: set[int] = set()
        for cell in self._cells(area):
            for box, thing in self.cells.get(cell, ()):
                if id(box) not in seen and box.overlaps(area):
                    seen.add(id(box))
                    yield box, thing

    def _cells(self, box: Box) -> Iterator[tuple[int, int]]:
        for row in range(int(box.top // self.CELL), int(box.bottom // self.CELL) + 1):
            for column in range(int(box.left // self.CELL), int(box.right // self.CELL) + 1):
                yield row, column


class Picture:
    """A display list, sorted: what `flaws` and `crossings` look at; `wanted` groups are framed.

    Some flaws are defined by the direction in which columns run: down, or `rightward`. Some lines
    have a way back beside them, maybe one that is still to come.
    """

    def __init__(
        self,
        display: Display,
        wanted: Sequence[FigureGroup] = (),
        *,
        rightward: bool = False,
        ways_back: Sequence[Wire] = (),
    ) -> None:
        self.display = display
        self.wanted = wanted
        self.rightward = rightward
        of = display.elements
        self.arrows = [Arrow(one) for one in of if one.kind == "edge"]
        self.glyphs = {one.op: Glyph(one) for one in of if one.kind.startswith("node ")}
        self.groups = [one for one in of if one.kind == "group"]
        wires = (arrow.element.wire for arrow in self.arrows)
        self.paired = {wire.back for wire in (*wires, *ways_back) if wire}

    def upright(self, points: Sequence[Point]) -> list[Point]:
        """Points as if columns ran down."""
        return [(y, x) for x, y in points] if self.rightward else list(points)

    def upright_box(self, box: Box) -> Box:
        return box.transpose() if self.rightward else box

    @cached_property
    def scale(self) -> float:
        """How small a page of some width makes the picture: as its lines are thin."""
        shapes = (part for arrow in self.arrows for part in arrow.element.parts)
        widths = [part.width for part in shapes if isinstance(part, DrawnShape) and part.line]
        return min(widths, default=style.LINE_WIDTH) / style.LINE_WIDTH

    @cached_property
    def texts(self) -> Nearby[tuple[str, str]]:
        """Every line of text: the kind and the name of what it belongs to."""
        found: Nearby[tuple[str, str]] = Nearby()
        for place, one in enumerate(self.display.elements):
            for box in _texts(one):
                found.add(box, (one.kind, one.op or f"{one.kind} {place}"))
        return found

    @cached_property
    def lines(self) -> Nearby[tuple[int, Segment]]:
        """Every segment of every arrow, by the arrow's number."""
        found: Nearby[tuple[int, Segment]] = Nearby()
        for number, arrow in enumerate(self.arrows):
            for a, b in arrow.segments:
                found.add(_around(a, b), (number, (a, b)))
        return found


def flaws(
    display: Display, groups: Sequence[FigureGroup] = (), *, rightward: bool = False
) -> list[Flaw]:
    """Every flaw of a picture, in the order of its kinds; each of the `groups` has a frame."""
    picture = Picture(display, groups, rightward=rightward)
    return [flaw for check in CHECKS for flaw in dict.fromkeys(check(picture))]


def flaws_halfway(display: Display, whole: Display) -> list[Flaw]:
    """Flaws of a picture of which more is to come: ways back, and other lines into circles."""
    picture = Picture(display, ways_back=[one.wire for one in whole.elements if one.wire])
    found = [flaw for check in CHECKS for flaw in dict.fromkeys(check(picture))]
    return [flaw for flaw in found if flaw.kind != "head off the middle"]


# ---- ends and shapes -----------------------------------------------------------------------------


def loose_ends(picture: Picture) -> Iterator[Flaw]:
    """An edge starts at its tail, or on a line of the same value; its head touches its node.

    One that passes its bar has no head, and a hairline goes on from its end.
    """
    trunks: dict[str, list[Arrow]] = defaultdict(list)
    joined: dict[str, list[Arrow]] = defaultdict(list)
    for arrow in picture.arrows:
        if arrow.element.wire is not None:
            trunks[arrow.element.wire.value].append(arrow)
            joined[arrow.element.wire.head].append(arrow)
    for arrow in picture.arrows:
        wire = arrow.element.wire
        if wire is None or not arrow.lines:
            continue
        tail, head = picture.glyphs.get(wire.tail), picture.glyphs.get(wire.head)
        others = [one for one in trunks[wire.value] if one is not arrow]
        for line in arrow.lines:
            within = TOUCH_ROUND if tail is not None and tail.is_round else TOUCH
            if not (_touches(tail, line[0], within) or _on_a_line(line[0], others)):
                yield Flaw("starts nowhere", arrow.name)
        if arrow.head is not None:
            if not _touches(head, arrow.head.start, 1.0):
                yield Flaw("ends nowhere", arrow.name)
        elif head is not None and tail is not None and tail.element.kind == "node note":
            if not _touches(head, arrow.lines[0][-1]):
                yield Flaw("ends nowhere", arrow.name)
        elif head is not None and head.element.kind == "node communication":
            if not any(_near(line.start, arrow.lines[0][-1]) for line in head.shown_lines):
                yield Flaw("ends nowhere", arrow.name)
        elif not _on_a_line(arrow.lines[0][-1], [o for o in joined[wire.head] if o is not arrow]):
            yield Flaw("ends nowhere", arrow.name)


def _touches(glyph: Glyph | None, point: Point, within: float = TOUCH) -> bool:
    if glyph is None:
        return False
    room = within if glyph.outline is not None else style.TEXT_GAP + within
    return -TOUCH < glyph.distance(point) < room


def _on_a_line(point: Point, arrows: Sequence[Arrow]) -> bool:
    spot = Box.around(point, 2 * TOUCH, 2 * TOUCH)
    return any(_meets(a, b, spot) for arrow in arrows for a, b in arrow.segments)


def ends_off(picture: Picture) -> Iterator[Flaw]:
    """An arrow that enters a side of a circle alone does so in its middle; none is at a corner.

    A line and its way back are at two sides of the middle, and one without a corner may be off it.
    The sides of a circle are those beside its column.
    """
    entering: dict[tuple[str, int], list[tuple[str, float]]] = defaultdict(list)
    for arrow in picture.arrows:
        wire = arrow.element.wire
        if wire is None or not arrow.lines or wire.ends in picture.paired:
            continue
        line = [((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
                for a, b in zip(arrow.lines[0], arrow.lines[-1], strict=False)]  # fmt: skip
        for node, (a, b) in ((wire.tail, line[:2]), (wire.head, line[:-3:-1])):
            glyph = picture.glyphs.get(node)
            if glyph is None or glyph.outline is None:
                continue
            box = glyph.box
            if glyph.is_round:
                (x, y), (_, v), (cx, cy) = picture.upright([a, b, box.center])
                if node == wire.head and abs(y - v) < TURN and len(line) > 2:
                    entering[node, 1 if x > cx else -1].append((arrow.name, y - cy))
            elif abs(a[0] - b[0]) < TURN and box.width > WIDE and not glyph.hairlines:
                yield from [Flaw("line at corner", arrow.name, node)] * (
                    min(a[0] - box.left, box.right - a[0]) < AT_CORNER
                )
    for (node, _), several in entering.items():
        if len(several) == 1 and abs(several[0][1]) > LEAST_OFF:
            yield Flaw("head off the middle", several[0][0], node)


def crooked(picture: Picture) -> Iterator[Flaw]:
    """Every edge runs straight or turns by right angles, with corners that are round."""
    for arrow in picture.arrows:
        for line in arrow.lines:
            parts = list(_parts(line))
            if any(
                not _is_corner(parts, place) for place, (kind, _) in enumerate(parts) if not kind
            ):
                yield Flaw("crooked", arrow.name)
            straight = [(kind, span) for kind, span in parts if kind]
            if any(_shift(a, c) < LEAST for a, c in _alike(straight)):
                yield Flaw("kinked", arrow.name)


def _parts(line: Sequence[Point]) -> Iterator[tuple[str, list[Point]]]:
    """The runs of a line: `h` level, `v` upright, and what turns between them."""
    kind, run = "", list[Point]()
    for a, b in pairwise(line):
        if hypot(b[0] - a[0], b[1] - a[1]) < TURN:
            continue
        this = "v" if abs(b[0] - a[0]) < TURN else "h" if abs(b[1] - a[1]) < TURN else ""
        if run and this == kind:
            run.append(b)
        else:
            if run:
                yield kind, run
            kind, run = this, [a, b]
    if run:
        yield kind, run


def _is_corner(parts: Sequence[tuple[str, list[Point]]], place: int) -> bool:
    """Tell whether what turns between straight parts is a quarter of a circle, or two that meet."""
    if not 0 < place < len(parts) - 1:
        return False
    before, after = parts[place - 1][0], parts[place + 1][0]
    (x, y), (u, v) = parts[place][1][0], parts[place][1][-1]
    width, height = abs(u - x), abs(v - y)
    if before == after and min(width, height) < TURN:  # back again, by half a circle
        return max(width, height) < 4 * style.CORNER
    if before == after:
        return min(width, height) >= LEAST and max(width, height) < 3 * style.CORNER
    return abs(width - height) < 1.0 and width < 2 * style.CORNER


Part = tuple[str, list[Point]]


def _alike(parts: Sequence[Part]) -> Iterator[tuple[Part, Part]]:
    """Pairs of parts in one direction with at most one part between them."""
    for step in (1, 2):
        pairs = zip(parts, parts[step:], strict=False)
        yield from ((a, b) for a, b in pairs if a[0] == b[0])


def _shift(one: Part, other: Part) -> float:
    """How far two level, or two upright, parts are apart."""
    axis = 0 if one[0] == "v" else 1
    return abs(one[1][-1][axis] - other[1][0][axis])


# ---- overlaps ------------------------------------------------------------------------------------


def lines_through_text(picture: Picture) -> Iterator[Flaw]:
    """No line runs through text, its own label included."""
    for arrow in picture.arrows:
        for a, b in arrow.segments:
            for box, (_, owner) in picture.texts.near(_around(a, b)):
                if _meets(a, b, box.grown(-0.5)):
                    yield Flaw("line through text", arrow.name, owner)


def lines_through_boxes(picture: Picture) -> Iterator[Flaw]:
    """No line runs through a node; what passes a bar shows there."""
    boxes: Nearby[Glyph] = Nearby()
    for glyph in picture.glyphs.values():
        boxes.add(glyph.box, glyph)
    for arrow in picture.arrows:
        for a, b in arrow.segments:
            for _, glyph in boxes.near(_around(a, b)):
                depth = TOUCH if arrow.joins(glyph.element.op) else INSIDE
                passes = a[0] == b[0] and any(abs(a[0] - x) < TOUCH for x in glyph.hairlines)
                if not passes and _enters(a, b, glyph, depth):
                    yield Flaw("line through box", arrow.name, glyph.element.op)


def _enters(a: Point, b: Point, glyph: Glyph, depth: float) -> bool:
    if not glyph.is_round:
        return _meets(a, b, glyph.box.grown(-depth))
    return _from(glyph.box.center, a, b) < glyph.box.width / 2 - depth


def lines_through_heads(picture: Picture) -> Iterator[Flaw]:
    """No line runs through another's arrowhead, and no two heads overlap."""
    heads: Nearby[Arrow] = Nearby()
    for arrow in picture.arrows:
        if arrow.head is not None:
            heads.add(arrow.head.bounds(), arrow)
    for box, (number, (a, b)) in _pairs(picture, heads):
        arrow, other = picture.arrows[number], box[1]
        if other is not arrow and _meets(a, b, box[0].grown(-INSIDE)):
            yield Flaw("line through head", arrow.name, other.name)
    for arrow in picture.arrows:
        for box, other in heads.near(arrow.head.bounds()) if arrow.head is not None else ():
            if other.name > arrow.name and box.grown(-0.3).overlaps(arrow.head.bounds()):  # type: ignore[union-attr]
                yield Flaw("head on head", arrow.name, other.name)


def _pairs(
    picture: Picture, heads: Nearby[Arrow]
) -> Iterator[tuple[tuple[Box, Arrow], tuple[int, Segment]]]:
    for number, arrow in enumerate(picture.arrows):
        for a, b in arrow.segments:
            for found in heads.near(_around(a, b)):
                yield found, (number, (a, b))


def lines_on_lines(picture: Picture) -> Iterator[Flaw]:
    """Lines of two values keep apart; dashes never run along other dashes."""
    for number, arrow in enumerate(picture.arrows):
        for a, b in arrow.segments:
            for _, (other, (c, d)) in picture.lines.near(_around(a, b).grown(SAME)):
                if other <= number or not _run_together(a, b, c, d):
                    continue
                one, two = arrow.element.wire, picture.arrows[other].element.wire
                if arrow.is_dashed and picture.arrows[other].is_dashed:
                    yield Flaw("dashes on dashes", arrow.name, picture.arrows[other].name)
                elif one is None or two is None or one.value != two.value:
                    yield Flaw("line on line", arrow.name, picture.arrows[other].name)


def _run_together(
    a: Point, b: Point, c: Point, d: Point, apart: float = SAME, least: float = 2.0
) -> bool:
    """Tell whether two level or two upright parts share more than a corner."""
    for i, j in ((0, 1), (1, 0)):
        along = abs(a[j] - b[j]) < TURN and abs(c[j] - d[j]) < TURN
        if along and abs(a[j] - c[j]) < apart:
            low = max(min(a[i], b[i]), min(c[i], d[i]))
            high = min(max(a[i], b[i]), max(c[i], d[i]))
            return high - low > least
    return False


def text_on_text(picture: Picture) -> Iterator[Flaw]:
    """No two texts overlap, and no text is on a box that it is not part of."""
    for place, one in enumerate(picture.display.elements):
        own = one.op or f"{one.kind} {place}"
        for box in _texts(one):
            for other, (_, owner) in picture.texts.near(box.grown(-0.5)):
                if owner > own and other.grown(-0.5).overlaps(box):
                    yield Flaw("text on text", own, owner)
    for glyph in picture.glyphs.values():
        if glyph.outline is not None:
            for box, (_, owner) in picture.texts.near(glyph.box.grown(-0.5)):
                if owner != glyph.element.op and box.grown(-0.5).overlaps(glyph.box):
                    yield Flaw("text on box", owner, glyph.element.op)


def boxes_on_boxes(picture: Picture) -> Iterator[Flaw]:
    """No node overlaps another, and none reaches out of the frame that begins around it."""
    boxes: Nearby[Glyph] = Nearby()
    for glyph in picture.glyphs.values():
        boxes.add(glyph.box, glyph)
    for glyph in picture.glyphs.values():
        for box, other in boxes.near(glyph.box.grown(-0.5)):
            if other.element.op > glyph.element.op and box.grown(-0.5).overlaps(glyph.box):
                yield Flaw("box on box", glyph.element.op, other.element.op)
    for group in picture.groups:
        frame = _frame(group)
        for box, other in boxes.near(frame.grown(-1)) if frame is not None else ():
            is_bar = other.element.kind.endswith("communication")
            if frame is not None and not is_bar and not _within(box, frame.grown(1)):
                yield Flaw("frame cuts box", group.op, other.element.op)


def frames(picture: Picture) -> Iterator[Flaw]:
    """Every group has a frame around its nodes and no others, its rim off lines and texts.

    A lane of an axis may be left out.
    """
    boxes = {group.op: _frame(group) for group in picture.groups}
    beside = BESIDE_RIM * picture.scale
    for group in picture.wanted:
        frame = boxes.get(group.id)
        if frame is None:
            if not group.is_axis:
                yield Flaw("frame left out", group.id)
            continue
        for node, glyph in picture.glyphs.items():
            if node in group.nodes and not _within(glyph.box, frame):
                yield Flaw("out of its frame", group.id, node)
            elif node not in group.nodes and glyph.box.overlaps(frame):
                yield Flaw("in a frame of others", group.id, node)
    for group, frame in boxes.items():
        if frame is None:
            continue
        for a, b in _rim(frame):
            for _, (number, (c, d)) in picture.lines.near(_around(a, b).grown(beside)):
                if _run_together(a, b, c, d, beside, ALONG_RIM):
                    yield Flaw("line along frame", picture.arrows[number].name, group)
            for box, (_, owner) in picture.texts.near(_around(a, b)):
                if _meets(a, b, box.grown(-1)):
                    yield Flaw("frame through text", group, owner)


def _rim(frame: Box) -> Iterator[Segment]:
    corners = [(frame.left, frame.top), (frame.right, frame.top), (frame.right, frame.bottom),
               (frame.left, frame.bottom)]  # fmt: skip
    yield from zip(corners, (*corners[1:], corners[0]), strict=True)


def lines_in_lanes(picture: Picture) -> Iterator[Flaw]:
    """No line runs along a lane of an axis from outside to outside: it would seem to be in it."""
    frames = {group.op: _frame(group) for group in picture.groups}
    for group in picture.wanted:
        frame = frames.get(group.id)
        if frame is None or not group.is_axis:
            continue
        frame = picture.upright_box(frame)
        for arrow in picture.arrows:
            if any(arrow.joins(node) for node in group.nodes):
                continue
            for a, b in map(picture.upright, arrow.segments):
                low, high = max(min(a[1], b[1]), frame.top), min(max(a[1], b[1]), frame.bottom)
                is_inside = frame.left < a[0] < frame.right and frame.left < b[0] < frame.right
                if is_inside and high - low > ALONG_RIM:
                    yield Flaw("line in lane", arrow.name, group.id)


def labels_far_off(picture: Picture) -> Iterator[Flaw]:
    """A label is right beside its own line, or beside its way back at the other side of that."""
    pairs = {one.element.wire.ends: one
             for one in picture.arrows if one.element.wire is not None}  # fmt: skip
    for arrow in picture.arrows:
        wire = arrow.element.wire
        twin = pairs.get(wire.back) if wire is not None else None
        lines = [*arrow.segments, *(twin.segments if twin is not None else ())]
        if arrow.texts:  # lines of one label
            room = bounding_box(arrow.texts).grown(style.LABEL_GAP + 4.0)
            if not any(_meets(a, b, room) for a, b in lines):
                yield Flaw("label far off", arrow.name)


def pages(picture: Picture) -> Iterator[Flaw]:
    """A page is whole pixels large and holds all that is drawn."""
    display = picture.display
    for size in (display.width, display.height):
        if abs(size / PIXEL - round(size / PIXEL)) > 1e-6:
            yield Flaw("broken pixel", display.title)
    page = Box(0, 0, display.width, display.height)
    for one in display.elements:
        boxes = [*_texts(one), *(p.path.bounds() for p in one.parts if isinstance(p, DrawnShape))]
        if not all(_within(box, page) for box in boxes):
            yield Flaw("off the page", one.op or one.kind)


CHECKS: tuple[Callable[[Picture], Iterator[Flaw]], ...] = (
    loose_ends, crooked, lines_through_text, lines_through_boxes, lines_through_heads,
    lines_on_lines, text_on_text, boxes_on_boxes, frames, labels_far_off, pages, ends_off,
    lines_in_lanes,
)  # fmt: skip


# ---- crossings -----------------------------------------------------------------------------------


def crossings(display: Display) -> int:
    """How often edges of two values cross."""
    picture = Picture(display)
    meetings: set[tuple[int, int, int, int]] = set()
    for number, arrow in enumerate(picture.arrows):
        for a, b in pairwise(arrow.lines[0]) if arrow.lines else ():
            for _, (other, (c, d)) in picture.lines.near(_around(a, b)):
                if other > number and _differ(arrow, picture.arrows[other]):
                    spot = _crossing(a, b, c, d)
                    # A branch that begins on a line, and a rail that ends on one, cross nothing.
                    ends = (*_ends(arrow), *_ends(picture.arrows[other]))
                    if spot is not None and not any(_near(spot, end) for end in ends):
                        x, y = spot
                        meetings.add((number, other, round(x / 6), round(y / 6)))
    return sum(not _is_twin(one, meetings) for one in meetings)


def _ends(arrow: Arrow) -> tuple[Point, Point]:
    return arrow.lines[0][0], arrow.lines[0][-1]


def _near(one: Point, other: Point) -> bool:
    return hypot(one[0] - other[0], one[1] - other[1]) < TOUCH


def _is_twin(one: tuple[int, int, int, int], meetings: set[tuple[int, int, int, int]]) -> bool:
    """Tell whether the place just before is counted: one crossing that falls on two places."""
    a, b, x, y = one
    return (a, b, x - 1, y) in meetings or (a, b, x, y - 1) in meetings


def _differ(one: Arrow, other: Arrow) -> bool:
    a, b = one.element.wire, other.element.wire
    return a is None or b is None or a.value != b.value


def _crossing(a: Point, b: Point, c: Point, d: Point) -> Point | None:
    """Where two segments cross inside of both."""
    ux, uy, vx, vy = b[0] - a[0], b[1] - a[1], d[0] - c[0], d[1] - c[1]
    det = ux * vy - uy * vx
    if abs(det) < 1e-9:
        return None
    wx, wy = c[0] - a[0], c[1] - a[1]
    s, t = (wx * vy - wy * vx) / det, (wx * uy - wy * ux) / det
    inside = 0 <= s <= 1 and 0 <= t <= 1
    return (a[0] + s * ux, a[1] + s * uy) if inside else None


# ---- geometry ------------------------------------------------------------------------------------


def _texts(element: Element) -> list[Box]:
    texts = (part for part in element.parts if isinstance(part, DrawnText))
    return [line_bounds(text.line, text.x, text.y) for text in texts if text.line.spans]


def _frame(group: Element) -> Box | None:
    first = group.parts[0]
    return first.path.bounds() if isinstance(first, DrawnShape) and first.path.closed else None


def _within(box: Box, page: Box) -> bool:
    return (
        box.left >= page.left
        and box.top >= page.top
        and box.right <= page.right
        and box.bottom <= page.bottom
    )


def _around(a: Point, b: Point) -> Box:
    return Box(min(a[0], b[0]), min(a[1], b[1]), max(a[0], b[0]), max(a[1], b[1])).grown(0.01)


def _from(center: Point, a: Point, b: Point) -> float:
    """How far a point is from a segment."""
    (x, y), (dx, dy) = center, (b[0] - a[0], b[1] - a[1])
    length = dx * dx + dy * dy
    t = 0.0 if length == 0 else ((x - a[0]) * dx + (y - a[1]) * dy) / length
    t = min(max(t, 0.0), 1.0)
    return hypot(x - a[0] - t * dx, y - a[1] - t * dy)


def _meets(a: Point, b: Point, box: Box) -> bool:
    """Tell whether a segment runs through a box (Liang and Barsky)."""
    low, high = 0.0, 1.0
    for start, step, least, most in (
        (a[0], b[0] - a[0], box.left, box.right),
        (a[1], b[1] - a[1], box.top, box.bottom),
    ):
        if abs(step) < 1e-12:
            if not least < start < most:
                return False
            continue
        near, far = sorted(((least - start) / step, (most - start) / step))
        low, high = max(low, near), min(high, far)
    return low < high
