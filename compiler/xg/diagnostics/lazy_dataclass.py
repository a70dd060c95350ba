"""`dataclass` as in the standard library, its methods compiled when they are first called.

The standard one compiles up to six methods of every class while its module is imported, for a
third of a millisecond; a command imports two hundred such classes and calls few of their methods.
The end of the file has the other saving of a command's start: a rest for the garbage collector.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import MISSING, Field, FrozenInstanceError, asdict, field, fields, is_dataclass
from reprlib import recursive_repr
from typing import Any, TypeAlias, TypeVar, cast, dataclass_transform

# All that the compiler uses of `dataclasses`: a file takes every name from one module.
__all__ = ["asdict", "dataclass", "field", "fields", "is_dataclass", "replace"]

Class = TypeVar("Class")
AnyField: TypeAlias = Field[Any]
Source: TypeAlias = Callable[[type, dict[str, object]], str]

_FACTORY = object()  # the default of a parameter whose field has a default factory


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> Callable[[type[Class]], type[Class]]:
    """Decorate a class as `dataclasses.dataclass` does; `fields` and `replace` work as there.

    A frozen class with slots sets its fields by their descriptors, which is faster.
    """
    fields_only = dataclasses.dataclass(
        init=False, repr=False, eq=False, slots=slots, kw_only=kw_only
    )

    def decorate(written: type[Class]) -> type[Class]:
        own = dict(vars(written))
        kind = fields_only(written)

        def add(name: str, method: object) -> None:
            if own.get(name) is None:  # where `__eq__` is written, `__hash__` is None
                setattr(kind, name, method)

        add("__init__", _later(kind, "__init__", _frozen_init if frozen else _init))
        if repr:
            add("__repr__", _repr)
        if eq:
            add("__eq__", _later(kind, "__eq__", _eq))
            add("__hash__", _later(kind, "__hash__", _hash) if frozen else None)
        if frozen:
            add("__setattr__", _refuse_change)
            add("__delattr__", _refuse_change)
            if slots:
                add("__getstate__", _state)
                add("__setstate__", _restore)
        return kind

    return decorate


Instance = TypeVar("Instance")
_replacers: dict[type, Callable[..., Any]] = {}


def replace(instance: Instance, /, **changes: Any) -> Instance:  # noqa: ANN401 - of any field
    """`dataclasses.replace`, compiled for each class: passes call it for every step."""
    kind = type(instance)
    if kind not in _replacers:
        names = [each.name for each in fields(cast("Any", kind)) if each.init]
        given = ", ".join(f"{name}=MISSING" for name in names)
        values = (f"{n}=_self.{n} if {n} is MISSING else {n}" for n in names)
        scope: dict[str, Any] = {"_kind": kind, "MISSING": MISSING}
        exec(f"def replace(_self, /, *, {given}): return _kind({', '.join(values)})", scope)
        _replacers[kind] = scope["replace"]
    return _replacers[kind](instance, **changes)


def _later(kind: type, name: str, source: Source) -> Callable[..., Any]:
    """A method that at its first call compiles the text of `source` and gives way to it."""

    def method(*arguments: Any, **by_name: Any) -> Any:  # noqa: ANN401 - as the method's own
        scope: dict[str, object] = {}
        exec(source(kind, scope), scope)
        compiled: Any = scope[name]
        compiled.__qualname__ = f"{kind.__qualname__}.{name}"
        setattr(kind, name, compiled)
        return compiled(*arguments, **by_name)

    method.__name__ = name
    return method


def _init(kind: type, scope: dict[str, object], assign: str = "self.{0} = {1}") -> str:
    """The text of a constructor; what it refers to is put into `scope`."""
    positional, keyword, lines = ["self"], list[str](), list[str]()
    for each in fields(kind):
        name, value = each.name, each.name
        if each.default_factory is not MISSING:
            scope[f"make_{name}"], scope["FACTORY"] = each.default_factory, _FACTORY
            value = f"make_{name}()"
            if each.init:
                value = f"{value} if {name} is FACTORY else {name}"
        elif each.default is not MISSING:
            scope[f"default_{name}"] = each.default
            value = name if each.init else f"default_{name}"
        elif not each.init:
            continue  # the class sets it itself
        if each.init:
            (keyword if each.kw_only else positional).append(_parameter(each))
        lines.append(assign.format(name, value))
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = [*positional, *(["*", *keyword] if keyword else [])]
    return f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"])


def _parameter(each: AnyField) -> str:
    if each.default_factory is not MISSING:
        return f"{each.name}=FACTORY"
    return each.name if each.default is MISSING else f"{each.name}=default_{each.name}"


def _frozen_init(kind: type, scope: dict[str, object]) -> str:
    """As `_init`, past the method that refuses changes."""
    if "__slots__" not in vars(kind):
        scope["set_field"] = object.__setattr__
        return _init(kind, scope, "set_field(self, '{0}', {1})")
    for each in fields(kind):
        scope[f"set_{each.name}"] = getattr(kind, each.name).__set__
    return _init(kind, scope, "set_{0}(self, {1})")


def _eq(kind: type, _: dict[str, object]) -> str:
    compared = [each for each in fields(kind) if each.compare]
    return (
        "def __eq__(self, other):\n"
        " if other.__class__ is not self.__class__: return NotImplemented\n"
        f" return {_values('self', compared)} == {_values('other', compared)}"
    )


def _hash(kind: type, _: dict[str, object]) -> str:
    hashed = [each for each in fields(kind) if (each.compare if each.hash is None else each.hash)]
    return f"def __hash__(self): return hash({_values('self', hashed)})"


def _values(owner: str, chosen: Iterable[AnyField]) -> str:
    return "(" + "".join(f"{owner}.{each.name}, " for each in chosen) + ")"


@recursive_repr()
def _repr(self: Any) -> str:  # noqa: ANN401 - any dataclass
    shown = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_change(self: object, name: str, *_: object) -> None:
    raise FrozenInstanceError(f"cannot change field {name!r} of a frozen {type(self).__name__}")


def _state(self: Any) -> list[object]:  # noqa: ANN401 - any dataclass
    return [getattr(self, each.name) for each in fields(self)]


def _restore(self: Any, state: list[object]) -> None:  # noqa: ANN401 - any dataclass
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


# The garbage collector at rest: trees and graphs that grow hold no garbage worth a search.
#
# Searched as often as Python does it, a graph of 10,000 operators takes twice the time to make, and
# the share grows with the graph.


@contextmanager
def resting_collector() -> Generator[None]:
    """Collect nothing meanwhile; as a context or as a decorator, inside another one too."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
