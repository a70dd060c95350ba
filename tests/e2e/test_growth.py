"""The cost of checking, drawing, emitting and counting grows no faster than the program."""

from __future__ import annotations

import cProfile
import gc
import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.programs import blocks, calls, chain
from tier import THOROUGH, some

from xg.cli import main
from xg.driver import Program, compile, compile_project
from xg.frontend.choices import check_choices
from xg.frontend.project import parse_project
from xg.ir.labels import saved_names
from xg.passes.pipelines import VERIFY

AT_MOST = 6.0  # times as long for a program four times as large; 16 would be quadratic
TRIES = 5
PART = 1 if THOROUGH else 3  # of each program
PLANS = {
    "DP": {"N_D": 2**14},
    "ZeRO1": {"N_D": 2**14},
    "HSDP": {"N_R": 2**7, "N_D": 2**7},
    "FSDP × SP_VP": {"N_D": 2**11, "N_T": 8},
    "FSDP × CP × TP": {"N_D": 2**8, "N_S": 8, "N_T": 8},
    "DP × Ulysses": {"N_D": 2**9, "N_S": 2**5},
    "FSDP × KV": {"N_D": 2**10, "N_S": 2**4},
    "PP × DP × CP × TP": {"N_PP": 2**4, "N_D": 2**4, "N_S": 8, "N_T": 8},
}
TRIED: list[str] = some(PLANS, lambda plan: plan.count("×"))


def check(text: str) -> Callable[[], object]:
    project = parse_project(text.encode())
    return lambda: check_choices(project)


def compiled(do: Callable[[Program], object]) -> Callable[[str], Callable[[], object]]:
    def prepare(text: str) -> Callable[[], object]:
        program = compile_project(parse_project(text.encode()))
        return lambda: do(program)

    return prepare


def name_saved(program: Program) -> object:
    return saved_names(program.graphs, program.graphs.entry)


def flat(count: int) -> str:
    """A chain without labels."""
    return "dim B\nblock F(X [B]) -> Y [B] {\n    X" + " -> tanh" * count + " : Y\n}\n"


def seconds(do: Callable[[], object]) -> float:
    gc.collect(1)  # all that other tests have kept would take longer than what is measured
    began = time.process_time()
    do()
    return time.process_time() - began


@pytest.mark.parametrize(
    ("text", "count", "prepare"),
    [
        pytest.param(chain, 900, check, id="check a chain"),
        pytest.param(blocks, 200, check, id="check blocks"),
        pytest.param(calls, 250, check, id="check calls"),
        pytest.param(chain, 200, compiled(lambda p: p.source("numpy")), id="emit a chain"),
        pytest.param(flat, 1_000, compiled(name_saved), id="name what a flat chain saves"),
        pytest.param(calls, 64, compiled(lambda p: p.source("torch")), id="emit calls"),
        pytest.param(chain, 250, compiled(lambda p: p.dot("backward")), id="draw a chain"),
        pytest.param(chain, 100, compiled(lambda p: p.cost()), id="count a chain"),
    ],
)
def test_four_times_the_program(
    text: Callable[[int], str], count: int, prepare: Callable[[str], Callable[[], object]]
) -> None:
    prepare(text(2))()  # imports what it needs
    small, large = prepare(text(count // PART)), prepare(text(4 * count // PART))
    least, most = seconds(small), seconds(large)
    for _ in range(TRIES - 1):
        if most <= AT_MOST * least:
            break  # otherwise something else may have been at work
        least, most = min(least, seconds(small)), min(most, seconds(large))
    assert most <= AT_MOST * least, f"{most / least:.1f} times as long"


# Commands on programs of three sizes, each twice the one before. Calls of functions are counted,
# not seconds, so that a small program shows what would take minutes in a large one.


LENGTHS = (10, 12, 24, 48)  # the first imports and reads what all need
DOUBLED = 2.3  # times as many calls for the second doubling as for the first; 4 is quadratic
DRAWN = 3.2  # a drawn block is compiled with all that it calls, however little that costs


def steps(count: int) -> str:
    """One block with two steps a line."""
    lines = "".join(f"    X_{i} -> GELU -> LN : X_{i + 1} [B, D]\n" for i in range(count))
    head = "dim B = 8, D = 8\nblock F(X_0 [B, D]) -> Y [B, D] {\n"
    return f"{head}{lines}    X_{count} -> tanh : Y\n}}\n"


def nested(count: int) -> str:
    """Blocks that each call the one before."""
    block = "block F_{0}(X [B]) -> Y [B] {{\n    X -> F_{1} as f : Y\n}}\n"
    first = "block F_0(X [B]) -> Y [B] {\n    param w [B]\n    X -> ⊙<-w : Y\n}\n"
    return "dim B = 8\n" + first + "".join(block.format(i, i - 1) for i in range(1, count))


def parameters(count: int) -> str:
    """One block that multiplies by so many parameters."""
    head = "dim B = 8, D = 8\nblock F(X [B, D]) -> Y [B, D] {\n    param "
    names = ", ".join(f"w_{i} [D]" for i in range(count))
    return (
        head + names + "\n    X" + "".join(f" -> ⊙<-BC(w_{i})" for i in range(count)) + " : Y\n}\n"
    )


def plans(count: int) -> str:
    """A perceptron with so many plans."""
    block = "block F(X [B, D]) -> Y [B, D] {\n    param W [D, D]\n    X -> •<=W -> ReLU : Y\n}\n"
    each = (f"plan P_{i} of F {{\n    X [B/N_D, D]\n}}\n" for i in range(count))
    return "dim B = 8, D = 8\nmesh N_D = 2\n" + block + "".join(each)


LENGTHENED = {
    "steps": steps,
    "nested": nested,
    "calls": calls,
    "params": parameters,
    "plans": plans,
}
COMMANDS = {
    "check": ("check",),
    "show": ("show",),
    "cost": ("cost", "--set", "B=8"),
    "build numpy": ("build", "--only", "numpy"),
    "build torch with kernels": ("build", "--only", "torch", "--kernels"),
    "build svg": ("build", "--only", "svg"),
    "plan": ("plan", "--ranks", "4", "--memory", "1MB"),
}


# All other commands check, too; the code of NumPy has the walks of that of torch.
COVERED = () if THOROUGH else ("check", "build numpy")


def count_calls(words: list[str]) -> int:
    """The number of function calls that a command makes."""
    profile = cProfile.Profile()
    code = profile.runcall(main, words)
    assert code == 0
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        (kind, command)
        for kind in LENGTHENED
        for command in COMMANDS
        if command not in COVERED
        and (kind == "plans" or command != "plan")
        and (kind, command) != ("calls", "build svg")  # X reaches all: edges cross ever more
    ],
)
def test_twice_the_program_makes_twice_the_calls(
    kind: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VERIFY, raising=False)  # a user's commands don't verify each pass
    file, (name, *options) = tmp_path / "long.xg", COMMANDS[command]
    out = ["-o", str(tmp_path / "out")] if name == "build" else []
    made: list[int] = []
    for count in LENGTHS:
        file.write_text(LENGTHENED[kind](count), encoding="utf-8")
        made.append(count_calls([name, str(file), *options, *out]))
    _, few, more, most = made
    limit = DRAWN if (kind, name) == ("nested", "build") else DOUBLED
    assert most - more <= limit * (more - few), made


def test_16_times_as_many_stages_cost_little_more() -> None:
    """Stages share the blocks that they call, and the reports of those between first and last."""
    file = Path(__file__).parents[2] / "diagrams" / "models" / "transformer.xg"

    def compiled_in(stages: int) -> Callable[[], object]:
        sizes = {"B": 8, "S": 64, "D": 64, "N_L": 64}
        mesh = {"N_PP": stages, "N_D": 2, "N_T": 2}
        return lambda: compile(file, plan="PP × DP × TP", sizes=sizes, mesh=mesh).costs()

    assert_at_most_twice(compiled_in(32), compiled_in(2))


def test_4096_times_as_many_ranks_cost_no_more() -> None:
    """Programs of ranks and their costs are formulas in the sizes of the mesh."""
    file = Path(__file__).parents[2] / "diagrams" / "models" / "transformer.xg"
    sizes = {"B": 2**15, "S": 4096, "S_max": 2**14, "D": 2**14, "N_L": 96, "N_H": 128, "V": 2**16}

    def compiled_on(ranks: int) -> Callable[[], object]:
        mesh = {"N_T": 2 if ranks == 4 else 8, "N_D": ranks // (2 if ranks == 4 else 8)}
        return lambda: compile(file, plan="FSDP × TP", sizes=sizes, mesh=mesh).cost().memory

    assert_at_most_twice(compiled_on(4 * 4096), compiled_on(4))


@pytest.mark.parametrize("plan", TRIED)
def test_a_plan_on_16384_ranks_compiles_and_costs_in_a_second(plan: str) -> None:
    """With a model of the size that such meshes are for: 405 billion parameters."""
    file = Path(__file__).parents[2] / "diagrams" / "models" / "transformer.xg"
    sizes = {"B": 2**15, "S": 2**12, "S_max": 2**14, "D": 2**14, "N_L": 128, "N_H": 128, "V": 2**17}

    def priced() -> None:
        program = compile(file, plan=plan, sizes=sizes, mesh=PLANS[plan])
        assert math.prod(program.mesh.values()) == 2**14
        assert all(report.sent for report in program.costs())

    least = seconds(priced)
    for _ in range(TRIES - 1):
        if least <= 1.0:
            break  # otherwise something else may have been at work
        least = min(least, seconds(priced))
    assert least <= 1.0


def assert_at_most_twice(large: Callable[[], object], small: Callable[[], object]) -> None:
    """Measure both again only where the large one seems too slow."""
    small()  # imports what it needs
    least, most = seconds(large), seconds(small)
    if least > 2 * most:
        least, most = min(least, seconds(large)), max(most, seconds(small))
    assert least <= 2 * most
