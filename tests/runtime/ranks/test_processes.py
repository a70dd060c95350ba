"""The same tasks on simulated ranks and on gloo processes; and processes that die or hang.

Starting a process with torch takes more than a second: there are few of these tests, and what can
be tested without a process is tested without (test_watch, test_handshake).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from runtime.ranks.meaning import CASES, Array, on_mesh, same
from runtime.ranks.tasks import task
from runtime.ranks.test_collectives import parts
from tier import some

from xg_runtime import checkpoint
from xg_runtime.errors import RankError
from xg_runtime.ranks import launch as processes
from xg_runtime.ranks.launch import launch
from xg_runtime.ranks.run_task import run_task
from xg_runtime.ranks.task import Task
from xg_runtime.ranks.terms import Terms

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _found_by_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks find the tests where this process does."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parent), *filter(None, sys.path)]))


def arrays(sizes: dict[str, int]) -> dict[str, Array]:
    random = np.random.default_rng(2)
    shapes = {"X": (8, 6), "T": (8, 4), "W": (6, 8), "V": (8, 4)}
    given = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    return given | {str(rank): part for rank, part in enumerate(parts(sizes))}


@pytest.mark.usefixtures("warm_ranks")
@pytest.mark.parametrize(
    ("sizes", "types", "checked"),
    [
        ({"N_D": 1, "N_T": 2}, ["float64", "float32", "int64", "int16"], True),
        ({"N_D": 2, "N_T": 2}, ["float64"], False),
    ],
    ids=["2", "4"],
)
def test_processes_do_what_simulated_ranks_do(
    sizes: dict[str, int], types: list[str], checked: bool
) -> None:
    given = arrays(sizes)
    asked = task("both", {"types": types, "steps": 3}, given)
    simulated = run_task(asked, sizes, on="simulated")
    real = run_task(asked, sizes, on="processes", terms=Terms(checked=checked))
    for one, two in zip(simulated, real, strict=True):
        assert (one.facts["at"], one.counts) == (two.facts["at"], two.counts)
        assert one.facts["losses"] == pytest.approx(two.facts["losses"], rel=1e-12)
        assert one.arrays.keys() == two.arrays.keys()
        for name, array in one.arrays.items():
            exact = name not in ("V", "W")  # groups of two: a sum has one order
            assert same(array, two.arrays[name]) if exact else np.allclose(array, two.arrays[name])
    held = [given[str(rank)] for rank in range(len(real))]
    for name, (_, meant) in CASES.items():
        expected = on_mesh(sizes, "N_T", held, meant)
        for answer, whole in zip(real, expected, strict=True):
            assert same(answer.arrays[f"{name} N_T float64"], whole)
            assert same(answer.arrays[f"{name} N_T float64 torch"], whole)


@pytest.mark.usefixtures("warm_ranks")
def test_stages_use_joint_groups_in_orders_of_their_own() -> None:
    sizes = {"N_P": 2, "N_A": 2, "N_B": 2}
    answers = launch(task("sums_of_a_stage"), sizes, Terms(timeout=20))
    found = [{name: array.tolist() for name, array in each.arrays.items()} for each in answers]
    assert found == [{"stage": [10.0], "all": [36.0]}] * 4 + [{"all": [36.0]}] * 4


def test_a_rank_that_is_killed_ends_the_job_and_loses_no_checkpoint(tmp_path: Path) -> None:
    mark, run = tmp_path / "mark", tmp_path / "run"
    asked = task("saves", {"mark": str(mark), "run": str(run)})
    what = r"^rank 1 was killed by SIGKILL after 5 collectives$"
    with pytest.raises(RankError, match=what) as caught:
        launch(asked, {"N_T": 2})
    assert time.time() - float(mark.read_text()) < 5
    assert (caught.value.rank, caught.value.exit_code) == (1, 4)
    held = checkpoint.load(run)
    assert (held.step, held.params["W"].tolist()) == (1, [[1] * 6] * 2)
    checkpoint.save(run, replace(held, step=2))  # and clears away what was begun
    assert len(list((run / "checkpoints").iterdir())) == 2


@pytest.mark.usefixtures("warm_ranks")
def test_a_rank_that_hangs_ends_the_job_within_the_timeout(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    asked = task("misstep", {"at": 0, "how": "sleeps", "mark": str(mark)})
    with pytest.raises(RankError) as caught:
        launch(asked, {"N_T": 2}, Terms(timeout=3))
    assert time.time() - float(mark.read_text()) < 3 + 2
    assert caught.value.message == (
        "rank 0 neither ended nor went on within 3 s after 3 collectives"
    )
    assert caught.value.details == (
        "rank 1 waits in its collective 4, all_reduce over N_T of float64 [2, 3]",
    )


@pytest.mark.usefixtures("warm_ranks")
@pytest.mark.parametrize(
    ("call", "how"),
    [
        ("all_to_all", "dies"),
        ("reduce_scatter", "stops"),
        ("all_gather", "sleeps"),
        ("shift", "dies"),
        ("shift", "stops"),
    ],
)
def test_in_every_collective_the_rank_that_does_not_come_is_named(
    tmp_path: Path, call: str, how: str
) -> None:
    """It is killed, stopped or slow; the gather is over two axes at once."""
    mark = tmp_path / "mark"
    asked = task("misstep", {"at": 1, "call": call, "how": how, "mark": str(mark)})
    with pytest.raises(RankError) as caught:
        launch(asked, {"N_D": 1, "N_T": 2}, Terms(timeout=2))
    assert time.time() - float(mark.read_text()) < 2 + 3
    assert (caught.value.rank, caught.value.exit_code) == (1, 4)
    said = "was killed by SIGKILL" if how == "dies" else "neither ended nor went on within 2 s"
    assert said in caught.value.message
    if how != "dies":
        (waits,) = caught.value.details
        assert f"waits in its collective 4, {call} over" in waits


@pytest.mark.usefixtures("warm_ranks")
@pytest.mark.parametrize("how", ["dies", "stops", "leaves"])
def test_a_stage_that_sends_no_more_is_named(tmp_path: Path, how: str) -> None:
    mark = tmp_path / "mark"
    asked = task("passes", {"how": how, "mark": str(mark)})
    with pytest.raises(RankError) as caught:
        launch(asked, {"N_P": 2}, Terms(timeout=2))
    assert time.time() - float(mark.read_text()) < 2 + 3
    how_it_ended = {
        "dies": "was killed by SIGKILL after 0 collectives",
        "leaves": "ended after 0 collectives, while rank 1 waits for what rank 0 sends",
    }.get(how, "neither ended nor went on within 2 s after 0 collectives")
    assert caught.value.message == f"rank 0 {how_it_ended}"
    waiting = ("rank 1 waits for what rank 0 sends",) if how == "stops" else ()
    assert caught.value.details == waiting


@pytest.mark.usefixtures("warm_ranks")
def test_ranks_that_differ_are_told_before_anything_is_computed() -> None:
    """In the second stage of a pipeline, whose collectives are others than those of the first."""
    with pytest.raises(RankError) as caught:
        launch(task("stages"), {"N_P": 2, "N_T": 2}, Terms(checked=True))
    assert caught.value.message == (
        "rank 3 (N_P = 1, N_T = 1) called all_reduce over N_T of float32 [2, 3] where rank 2 "
        "(N_P = 1, N_T = 0) called all_reduce over N_T of float64 [2, 3], each as its collective 3"
    )
    assert caught.value.details == (
        'rank 3 (N_P = 1, N_T = 1): all_reduce(X.astype(np.float32), "N_T")',
        'rank 2 (N_P = 1, N_T = 0): all_reduce(X, "N_T")',
    )


@pytest.mark.usefixtures("warm_ranks")
@pytest.mark.parametrize("can_fork", [True, False])
def test_what_a_rank_raises_comes_back(can_fork: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CAN_FORK", can_fork)
    what = r"^rank \d: there is no function nothing in xg_runtime\.random$"
    with pytest.raises(RankError, match=what) as caught:
        launch(Task("xg_runtime.random:nothing"), {"N_T": 2})
    assert (caught.value.exit_code, caught.value.facts) == (1, {"kind": "InputError"})


def _endless(folder: Path, ranks: int, can_fork: bool) -> tuple[subprocess.Popen[str], list[int]]:
    """A launcher of ranks that never end, and the numbers of their processes."""
    function, marks = folder / "endless.py", folder / "marks"
    marks.mkdir()
    function.write_text(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(marks)!r}, str(os.getpid())).touch()\n"
        "time.sleep(100)\n",
        encoding="utf-8",
    )
    code = (
        "import sys\n"
        "import xg_runtime.ranks.launch as processes\n"
        "from xg_runtime.ranks.launch import launch\n"
        "from xg_runtime.ranks.task import Task\n"
        f"processes.CAN_FORK = {can_fork}\n"
        "try:\n"
        f"    launch(Task(sys.argv[1]), {{'N_T': {ranks}}})\n"
        "except KeyboardInterrupt as error:\n"
        "    print('interrupted by', error)\n"
    )
    command = [sys.executable, "-c", code, f"{function}:nothing"]
    launcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    _wait_until(lambda: len(list(marks.iterdir())) == ranks)
    return launcher, [int(mark.name) for mark in marks.iterdir()]


# A launcher that is killed ends in no way of its own; of those that it has each is tried once.
ENDS = [
    (signal.SIGKILL, "", True),
    (signal.SIGKILL, "", False),
    (signal.SIGINT, "interrupted by SIGINT\n", False),
    (signal.SIGTERM, "interrupted by SIGTERM\n", True),
    (signal.SIGINT, "interrupted by SIGINT\n", True),
    (signal.SIGTERM, "interrupted by SIGTERM\n", False),
]


TRIED = some(ENDS, lambda end: end if not end[1] else end[0])


@pytest.mark.parametrize(("number", "said", "can_fork"), TRIED)
def test_no_rank_outlives_its_launcher(
    tmp_path: Path, number: signal.Signals, said: str, can_fork: bool
) -> None:
    launcher, ranks = _endless(tmp_path, 2, can_fork)
    assert all(map(_runs, ranks))
    launcher.send_signal(number)
    assert launcher.communicate(timeout=30) == (said, None)
    _wait_until(lambda: not any(map(_runs, ranks)))


def test_torchrun_starts_ranks_too(tmp_path: Path, warm_program: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "import numpy as np\n"
        "from xg_runtime.ranks import all_gather, rank\n"
        "from xg_runtime.ranks.joining import joined\n"
        "with joined({'N_T': 2}, {'plan': 'none'}):\n"
        "    found = all_gather(np.array([rank('N_T')]), 'N_T', -1)\n"
        "Path(sys.argv[1] + str(found[0])).write_text(str(found.tolist()))\n",
        encoding="utf-8",
    )
    module = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run(
        [str(warm_program), *module, str(script), str(tmp_path / "out-")],
        check=True,
        capture_output=True,
        timeout=100,
    )
    assert [path.read_text() for path in tmp_path.glob("out-*")] == ["[0, 1]"]


def _runs(process: int) -> bool:
    """Whether a process runs; one that has ended but was not waited for does not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def _wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
