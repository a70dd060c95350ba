"""The kinds of cases that the fuzzer makes, each from a seed: a new one is a line in `KINDS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fuzz import plans, texts
from fuzz.again import again_failure
from fuzz.commands import command_failure
from fuzz.edge_proof import edge_failure
from fuzz.faults import fault_failure
from fuzz.generation import generation_program, prove_generation
from fuzz.hunt import Found, failure, hunt, smallest
from fuzz.laws import LAWS, check_law, drawn
from fuzz.payloads import payload_failure
from fuzz.recorded import as_file
from fuzz.sketch import Sketch


@dataclass(frozen=True)
class Failed:
    """A case that failed: the content of a small file that shows it, and what happened."""

    file: bytes
    message: str


@dataclass(frozen=True)
class Kind:
    """Cases by their seeds; `night` is how many of them `./dev verify-all` tries."""

    name: str
    says: str
    night: int
    check: Callable[[int], Failed | None]
    suffix: str = ".xg"


def _failed(found: Found | None) -> Failed | None:
    return found and Failed(as_file(found.program, found.seed).encode(), found.message)


def _program(seed: int) -> Failed | None:
    return _failed(next(hunt([seed]), None))


def _edge(seed: int) -> Failed | None:
    found = edge_failure(seed)
    return Failed(as_file(found[0], seed).encode(), found[1]) if found else None


def _law(seed: int) -> Failed | None:
    def check(sketch: Sketch) -> None:
        case = drawn(sketch, seed)
        for law in LAWS:
            check_law(law, sketch, case, seed)

    return _failed(smallest(seed, lambda sketch: failure(lambda: check(sketch))))


def _plan(seed: int) -> Failed | None:
    found = smallest(seed, lambda sketch: failure(lambda: plans.prove_plan(sketch, seed)))
    return found and Failed(plans.with_plan(found.program, seed).encode(), found.message)


def _step(seed: int) -> Failed | None:
    message = failure(lambda: prove_generation(seed))[1]
    return Failed(generation_program(seed).encode(), message) if message else None


def _text(seed: int) -> Failed | None:
    data = texts.text_of(seed)
    kind, message = texts.text_failure(data, seed)
    if not kind:
        return None
    small = texts.shortest(data, kind, seed)
    return Failed(small, texts.text_failure(small, seed)[1] or message)


def _payload(seed: int) -> Failed | None:
    text, message = payload_failure(seed)
    return Failed(text.encode(), message) if message else None


def _again(seed: int) -> Failed | None:
    text, message = again_failure(seed)
    return Failed(text.encode(), message) if message else None


def _command(seed: int) -> Failed | None:
    text, message = command_failure(seed)
    return Failed(text.encode(), message) if message else None


def _fault(seed: int) -> Failed | None:
    message = fault_failure(seed)
    return Failed(message.encode(), message) if message else None


KINDS = {
    kind.name: kind
    for kind in (
        Kind("programs", "random programs, against every reference", 200_000, _program),
        Kind("edges", "programs of stops, ties, views and axes of 0", 40_000, _edge),
        Kind("laws", "programs rewritten as changes nothing", 20_000, _law),
        Kind("plans", "random plans, against one device", 20_000, _plan),
        Kind("steps", "models that generate, in pieces against whole", 20_000, _step),
        Kind("texts", "texts changed by token and by byte, bombs", 500_000, _text),
        Kind("payloads", "eight texts each that try to get out of an output", 12_500, _payload),
        Kind("commands", "random programs, through commands", 20_000, _command),
        Kind("again", "outputs of five programs, in other surroundings", 2_000, _again),
        Kind("faults", "writes met by a full disk, Ctrl-C or a kill", 20_000, _fault, ".case"),
    )
}
