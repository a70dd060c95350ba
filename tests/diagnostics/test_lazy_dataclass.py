"""Our `dataclass` behaves like the standard library's, and compiles methods only when needed."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, field, fields, replace
from types import FunctionType
from typing import Any, ClassVar

import pytest

from xg.diagnostics.lazy_dataclass import dataclass

Case = tuple[Any, tuple[object, ...]]  # a class and arguments


def declared(dataclass: Callable[..., Any], **options: bool) -> Iterator[Case]:
    """Classes of every kind that the compiler has, each with arguments."""

    @dataclass(**options)
    class Point:
        """Required fields, and one with a default."""

        x: int
        y: int
        name: str = "p"

    @dataclass(**options)
    class More(Point):
        """A class with more."""

        z: int = 5

    @dataclass(**options, kw_only=True)
    class Named(Point):
        """A class with more, by name only."""

        z: int = 5

    @dataclass(**options)
    class Bag:
        """A default that every instance has of its own, and fields that take no part in it."""

        counted: ClassVar[int] = 3
        items: list[int] = field(default_factory=list[int])
        note: str = field(default="", compare=False)
        hidden: int = field(default=4, repr=False)

    @dataclass(**options)
    class Derived:
        """A field that the class sets itself."""

        x: int
        twice: int = field(init=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "twice", 2 * self.x)

    @dataclass(**options)
    class Own:
        """Methods of its own."""

        x: int
        y: int = 0

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.x == other.x

        def __hash__(self) -> int:
            return self.x

        def __repr__(self) -> str:
            return "own"

    @dataclass(**options)
    class Equal:
        """Equality of its own, without a hash."""

        x: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.x == other.x

    @dataclass(**options, eq=False, repr=False)
    class Same:
        """Identity is equality."""

        x: int

        def __repr__(self) -> str:
            return "same"

    @dataclass(**options)
    class Nothing:
        """No fields."""

    arguments: dict[type, list[tuple[object, ...]]] = {
        Point: [(1, 2), (1, 2, "q")],
        More: [(1, 2, "n", 7)],
        Named: [(1, 2)],
        Bag: [(), ([1], "n", 5)],
        Derived: [(3,)],
        Own: [(1, 2)],
        Equal: [(1,)],
        Same: [(1,)],
        Nothing: [()],
    }
    for kind, several in arguments.items():
        yield from ((kind, each) for each in several)


OPTIONS = [{}, {"slots": True}, {"frozen": True}, {"frozen": True, "slots": True}]
PAIRS = [
    pytest.param(theirs, ours, id=f"{'-'.join(options)} {ours[0].__name__} {ours[1]}")
    for options in OPTIONS
    for theirs, ours in zip(
        declared(dataclasses.dataclass, **options), declared(dataclass, **options), strict=True
    )
]


def outcome(do: Callable[[], object]) -> object:
    """The result, or the kind of the exception."""
    try:
        return do()
    except Exception as error:
        return type(error)


def behavior(case: Case) -> list[object]:
    kind, arguments = case
    one, two = kind(*arguments), kind(*arguments)
    names = [each.name for each in fields(kind)]

    def values() -> list[object]:
        return [getattr(one, name, None) for name in names]

    return [
        values(),
        one == two,
        one == replace(one, **dict.fromkeys(names[:1], 9)),
        one != object(),
        outcome(lambda: hash(one) == hash(two)),
        repr(one),
        kind.__match_args__,
        hasattr(one, "__dict__"),
        outcome(lambda: setattr(one, names[0], 8)),
        values(),
        one == two,
        outcome(lambda: delattr(one, names[0])),
        values(),
        outcome(lambda: kind(1, 2, 3, 4, 5, 6)),
        outcome(lambda: kind(unknown=1)),
    ]


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_as_in_the_standard_library(theirs: Case, ours: Case) -> None:
    assert behavior(ours) == behavior(theirs)


@dataclass(frozen=True, slots=True)
class Kept:
    """A class that pickle finds by its name."""

    x: int
    y: tuple[int, ...] = ()


def test_a_frozen_class_with_slots_is_pickled() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))


def test_a_change_is_refused_by_name() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot change field 'x' of a frozen Kept"):
        setattr(Kept(1), "x", 2)  # noqa: B010 - for the type checker


def test_a_method_is_compiled_when_it_is_first_called() -> None:
    @dataclass(frozen=True)
    class Fresh:
        """Not used yet."""

        x: int

    def compiled(name: str) -> bool:
        method = vars(Fresh)[name]
        assert isinstance(method, FunctionType)
        return method.__code__.co_filename == "<string>"

    names = ("__init__", "__eq__", "__hash__")
    assert [compiled(name) for name in names] == [False, False, False]
    assert Fresh(1) == Fresh(1)
    assert [compiled(name) for name in names] == [True, True, False]
