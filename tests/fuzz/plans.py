"""Random plans of random programs: what is not refused agrees with one device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random

from fuzz.program import generate
from fuzz.proof import Failure
from fuzz.sketch import Block, Sketch

from xg.diagnostics.diagnostic import DiagnosticError
from xg.driver import Program, compile_project
from xg.frontend.project import parse_project
from xg.ir.placement import AxisState
from xg.verify.plan_proof import exactly
from xg.verify.proof_sizes import case
from xg.verify.rank_comparison import RankComparison, count
from xg.verify.reference import interpret
from xg.verify.reference import random as invented
from xg.verify.reference.interpret import Interpreter
from xg.verify.reference.residues import PRIMES, Undefined
from xg_runtime.errors import InputError, RankError

AXES = ("N_D", "N_T")
CUT = 0.35  # how often a value that could be cut is
LABELS = 0.1  # and an edge that has a label


def with_plan(sketch: Sketch, seed: int) -> str:
    """The program with a mesh, and a plan called P of its blocks.

    Each value draws for itself, so that a smaller program keeps what it still has of the plan.
    """
    plans = [_plan(block, seed) for block in sketch.blocks]
    return "\n".join([str(sketch), f"mesh {', '.join(AXES)}\n", *filter(None, plans)])


def _plan(block: Block, seed: int) -> str:
    drawn = ((*each, Random(f"{seed} {block.name} {each[0]}")) for each in _values(block))
    lines = [
        line
        for name, type_, chance, random in drawn
        if random.random() < chance and (line := _line(name, type_, random))
    ]
    return f"plan P of {block.name} {{\n{''.join(lines)}}}\n" if lines else ""


def _values(block: Block) -> Iterator[tuple[str, str, float]]:
    yield from ((port.name, port.type, CUT) for port in block.inputs)
    yield from ((param.name, param.type, CUT) for param in block.params)
    for statement in block.statements:
        yield from ((port.name, port.type, LABELS) for port in statement.makes)


def _line(name: str, type_: str, random: Random) -> str:
    """One value, some axes cut; a parameter may be gathered where it is used."""
    dims = _dims(type_.partition(" in ")[0].strip())
    if not dims:
        return ""
    cuts = random.choice(([AXES[0]], [AXES[1]], [AXES[1]], list(AXES)))
    for over in cuts:
        place = random.randrange(len(dims))
        if "/N_" not in dims[place] and not dims[place].isdigit():
            dims[place] = f"{_whole(dims[place])}/{over}"
    return f"    {name} [{', '.join(dims)}]\n" if any("/N_" in dim for dim in dims) else ""


def _whole(dim: str) -> str:
    return dim if dim.isidentifier() else f"({dim})"


def _dims(shape: str) -> list[str]:
    """The sizes between brackets; a comma inside parentheses parts nothing."""
    dims, depth = [""], 0
    for char in shape.strip("[]"):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            dims.append("")
        else:
            dims[-1] += char
    return [dim.strip() for dim in dims if dim.strip()]


def prove_plan(sketch: Sketch, seed: int) -> str:
    """Whether a random plan is proven, refused or plans nothing; raises Failure."""
    text = with_plan(sketch, seed)
    return prove_text(text, sketch.settings, seed) if "plan P" in text else "empty"


def prove_text(text: str, words: Mapping[str, str], seed: int) -> str:
    """The same for plan P of a text with some settings."""
    try:
        project = parse_project(text.encode())
        settings = {name: _number(word) for name, word in words.items()}
        chosen = case(project, "Main", "P", settings)
        many = compile_project(project, "Main", chosen.settings, "P")
    except DiagnosticError as error:
        return f"refused {error.diagnostics[0].code}"
    except InputError:
        return "refused: no sizes"
    except Exception as error:
        raise Failure(type(error).__name__, f"{error}\n{text}") from error
    if ignored := ignored_cuts(many):
        raise Failure("ignored", f"{ignored}\n{text}")
    try:
        found = differs(many, seed)
    except (RankError, ValueError, KeyError, AssertionError) as error:
        raise Failure("run", f"{type(error).__name__}: {error}\n{text}") from error
    if found:
        raise Failure("differs", f"{found}\n{text}")
    return "proven"


def ignored_cuts(many: Program) -> list[str]:
    """The cuts that lines of the plan ask for, and that no value has at last.

    A value may be moved or made again on the way, so they are counted by mesh axis and place.
    """
    assert many.history
    asked = many.history.after("annotate").main
    placed = many.history.after("place").main
    read = {value for step in asked.steps for value in step.inputs} | {*asked.outputs}
    wanted, found = Counter[tuple[str, AxisState]](), Counter[tuple[str, AxisState]]()
    for value, requests in asked.placement_requests.items():
        if value in read:
            wanted.update((axis, one.rest) for axis, one in requests.items())
    for value, requests in placed.placement_requests.items():
        states = placed.placements.get(value, {})
        found.update(
            (axis, one.rest) for axis, one in requests.items() if states.get(axis) == one.rest
        )
    return [f"{axis} as {state}" for axis, state in wanted - found if state.kind == "S"]


def _number(word: str) -> str | int:
    return int(word) if word.isdigit() else word


def differs(many: Program, seed: int) -> str:
    """The differences from one device; empty if there are none."""
    one = many.on_one_device
    params, inputs = interpret.initial(one.graphs, seed), invented.inputs(one.graphs, seed)
    outputs, _ = Interpreter(one.graphs, params, seed).forward(inputs)
    cotangents = invented.cotangents(outputs, seed)
    trial = RankComparison(many.graphs, params, inputs, cotangents, seed)
    kernels = seed % 2 == 0
    ranks = many.on_arrays(kernels=kernels)
    alone, together = trial.on_one_device(one.on_arrays()), trial.on_ranks(ranks)
    found = trial.compare(alone, together)
    distributed = many.fused_distributed if kernels else many.distributed
    assert distributed
    wrong = [each for each in count(distributed, together, bundled=kernels) if not each.agrees]
    try:
        exact = exactly(one.graphs, many.graphs, PRIMES[seed % len(PRIMES)], seed).first
    except Undefined:
        exact = None
    return str(found.first or exact or (wrong and wrong[0]) or "")


def tried(first: int, last: int) -> tuple[Counter[str], list[str]]:
    """How often each came out, and what failed."""
    verdicts, failures = Counter[str](), list[str]()
    for seed in range(first, last):
        try:
            verdicts[prove_plan(generate(seed), seed)] += 1
        except Failure as failure:
            failures.append(f"# seed {seed}\n{failure}")
    return verdicts, failures
