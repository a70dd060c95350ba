"""The edges that a proof tried, as people and as programs read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from xg.diagnostics.wording import counted

if TYPE_CHECKING:
    from xg.frontend.typed import Settings
    from xg.verify.edges.proof import Disagreement, EdgeProof

LENGTH = re.compile(r"length (?P<length>[01]) of (?P<axis>.+)")
FLOAT = re.compile(r"b?float\d+")
INTEGER = re.compile(r"bool|u?int\d+")


def lines(file: str, settings: Settings, edges: EdgeProof, block: str, seed: int) -> Iterator[str]:
    """One line of what was tried, one of what was not, and each disagreement."""
    if edges.passed:
        verdict = f"all agree in {counted(len(edges.forms), 'form')}"
    else:
        verdict = f"{counted(len(edges.disagreements), 'form')} DISAGREE"
    yield f"edges: {_list(spelled(edges.tried))}: {verdict}"
    if edges.left_out:
        yield f"edges not tried: {'; '.join(_left_out(edges.left_out))}"
    for each in edges.disagreements:
        yield f"  {_at(each)}: {each.form}: {each.mismatch}"
    if not edges.passed:
        chosen = [f"--set {name}={value}" for name, value in settings.items()]
        against = "" if len(edges.backends) < 2 else f"--against {','.join(edges.backends[1:])}"
        words = ["xg verify", file, f"--block {block}", *chosen, against, f"--seed {seed}"]
        yield f"  to see it again: {' '.join(filter(None, words))}"


def spelled(edges: Iterable[str]) -> list[str]:
    """Edges in words: lengths of all axes together, and types as a range."""
    words: list[str] = []
    lengths: dict[str, list[str]] = {}
    types: dict[str, list[str]] = {"integer": [], "float": []}
    for edge in edges:
        found = LENGTH.fullmatch(edge)
        if found:
            lengths.setdefault(found["axis"], []).insert(0, found["length"])
        elif INTEGER.fullmatch(edge):
            types["integer"].append(edge)
        elif FLOAT.fullmatch(edge):
            types["float"].append(edge)
        else:
            words.append(edge)
    axes: dict[str, list[str]] = {}
    for axis, numbers in lengths.items():
        plural = f"lengths {' and '.join(numbers)}" if len(numbers) > 1 else f"length {numbers[0]}"
        axes.setdefault(plural, []).append(axis)
    words += [f"{length} of {_and(names)}" for length, names in axes.items()]
    return words + [f"{_range(names)}" for names in types.values() if names]


def _range(types: Sequence[str]) -> str:
    return _and(types) if len(types) < 3 else f"{types[0]} to {types[-1]}"


def _and(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _list(words: Sequence[str]) -> str:
    return ", ".join(words) if words else "none"


def _left_out(reasons: Mapping[str, str]) -> Iterator[str]:
    """Edges with the reasons; those with the same reason together."""
    edges: dict[str, list[str]] = {}
    for edge, reason in reasons.items():
        edges.setdefault(reason, []).append(edge)
    for reason, names in edges.items():
        yield f"{_and(spelled(names))} ({reason})"


def _at(each: Disagreement) -> str:
    sizes = ", ".join(f"{name} = {size}" for name, size in each.sizes.items())
    return f"{each.edge}, {sizes}" if sizes else each.edge


def as_data(edges: EdgeProof) -> Mapping[str, object]:
    """The same as data."""
    return {
        "passed": edges.passed,
        "tried": list(edges.tried),
        "forms": list(edges.forms),
        "not_tried": dict(edges.left_out),
        "disagreements": [
            {
                "edge": each.edge,
                "form": each.form,
                "sizes": dict(each.sizes),
                "tensor": each.mismatch.tensor,
                "place": list(each.mismatch.place),
                "found": _number(each.mismatch.found),
                "expected": _number(each.mismatch.expected),
                "what": each.mismatch.what or str(each.mismatch),
            }
            for each in edges.disagreements
        ],
    }


def _number(number: float) -> float | str:
    """A number as JSON has it, which knows no infinity."""
    return number if abs(number) < float("inf") else str(number)
