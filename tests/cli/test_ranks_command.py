"""`xg run` and `xg train` with a plan: what many ranks do is what one device does."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from cli.conftest import DIAGRAMS, Xg
from cli.run_logs import distance, records
from cli.uneven import COUNTED, counted
from tier import THOROUGH

from xg_runtime import arrays, checkpoint

MODEL = DIAGRAMS / "models" / "transformer.xg"
SMALL = ["--set", "N_L=1", "--set", "D=16", "--set", "N_H=4", "--seq", 8, "--batch", 4]
LEARN = [*SMALL, "--data", "text.txt", "--dtype", "float64", "--warmup", 2, "--clip", 0.5]
STEADY = [*LEARN, "--schedule", "constant", "--checkpoint", 3]
TEXT = "the cat sat on the mat; the dog sat on the log. " * 40


@pytest.fixture
def text(folder: Path) -> Path:
    (folder / "text.txt").write_text(TEXT)
    return folder


def test_a_plan_gives_what_one_device_gives(xg: Xg, folder: Path) -> None:
    draw = np.random.default_rng(0)
    arrays.write(folder / "in.npz", {n: draw.integers(0, 256, (4, 8)) for n in ("ids", "t")})
    Z = draw.standard_normal((4, 8, 256))
    arrays.write(folder / "g.npz", {"loss": np.ones(()), "Z": Z})
    words = [MODEL, *SMALL[:6], "--inputs", "in.npz", "--d-outputs", "g.npz", "--dtype", "float64"]
    words += ["--dropout", 3, "--keep", "layers.0.attn.Q,layers.0.ffn.U,layers.0.attn.Y"]
    assert xg("run", *words, "-o", "one.npz", "--save-params", "p.npz").code == 0
    one, params = arrays.read(folder / "one.npz"), arrays.read(folder / "p.npz")
    scale = np.sqrt(sum(float((one[name] ** 2).sum()) for name in one if name.startswith("d/")))
    for plan, given in (("DP_TP", []), ("FSDP × TP", ["--params", "p.npz"]), ("SP", ["--kernels"])):
        said = xg("run", *words, "--plan", plan, *given, "-o", "many.npz", "--save-params", "q.npz")
        assert said.code == 0, said.err
        many, drawn = arrays.read(folder / "many.npz"), arrays.read(folder / "q.npz")
        assert many.keys() == one.keys()
        for name, array in one.items():
            assert np.linalg.norm(array - many[name]) <= 1e-10 * (
                np.linalg.norm(array) + 1e-2 * scale
            ), name
        assert all(np.array_equal(params[name], drawn[name]) for name in params | drawn)


WHOLE = """\
dim B = 4, D = 3
mesh N_D = 2
block F(X [B, D], t [B, D]) -> loss [] {
    param W [D, D]
    X -> •<=W -> tanh : H [B, D] -> MSE<-t : loss
}
plan Whole of F {
    X [B, D]
}
"""


def test_a_plan_may_divide_nothing(xg: Xg, folder: Path) -> None:
    (folder / "whole.xg").write_text(WHOLE, encoding="utf-8")
    draw = np.random.default_rng(0).standard_normal
    arrays.write(folder / "rows.npz", {"X": draw((40, 3)), "t": draw((40, 3))})
    plan = ("--plan", "Whole")
    run = ("run", "whole.xg", "--inputs", "rows.npz", "--seed", 0, *plan)
    assert xg(*run, "-o", "out.npz", "--keep", "H").code == 0
    train = ("train", "whole.xg", "--data", "rows.npz", "--steps", 2, *plan, "--out")
    assert xg(*train, "trained").code == 0
    for words in ((*run, "-o", "out.npz"), (*train, "again")):
        said = xg(*words, "--on", "simulated")
        assert said.code == 1
        divides = "Whole divides nothing of F"
        assert said.err.endswith(f"xg: --on simulated is for parallel programs: {divides}\n")
    assert "1 parallel program: all proven" in xg("verify", "whole.xg", *plan).out
    proven = xg("verify", "whole.xg", *plan, "--on", "processes")
    assert "1 parallel program: all proven" in proven.out


@pytest.mark.usefixtures("warm_ranks")
def test_ranks_that_are_processes_compute_the_same(xg: Xg, folder: Path) -> None:
    (folder / "net.xg").write_text(COUNTED, encoding="utf-8")
    draw = np.random.default_rng(0)
    given = {"X": draw.standard_normal((4, 3, 4)), "t": draw.integers(-1, 6, (4, 3))}
    arrays.write(folder / "in.npz", given)
    words = ["run", "net.xg", "--inputs", "in.npz", "--dtype", "float64", "--backend", "torch"]
    assert xg(*words, "-o", "one.npz").code == 0
    said = xg(*words, "-o", "two.npz", "--plan", "DP", "--on", "processes")
    drawn = "note: the parameters are drawn from seed 0: --params names some\n"
    assert (said.code, said.out) == (0, f"two.npz: loss\n{drawn}"), said.err
    one, two = (arrays.read(folder / name)["loss"] for name in ("one.npz", "two.npz"))
    assert one == pytest.approx(two, rel=1e-14)


@pytest.mark.parametrize("plan", ["FSDP", "All"])
def test_the_loss_curve_is_that_of_one_device(xg: Xg, text: Path, plan: str) -> None:
    words = ["train", MODEL, *LEARN, "--steps", 8, "--eval", 4]
    assert xg(*words, "--out", "one").code == 0
    said = xg(*words, "--out", "many", "--plan", plan)
    assert (said.code, said.err.count("step 8/8")) == (0, 1)
    assert distance(text / "one", text / "many") < 1e-10
    assert said.out.count("validation loss") == 1
    one, many = (checkpoint.load(text / name) for name in ("one", "many"))
    close = [np.allclose(many.params[n], a, rtol=1e-8, atol=1e-8) for n, a in one.params.items()]
    assert all(close)
    recipe = json.loads((text / "many" / "run.json").read_text())
    assert (recipe["plan"], set(recipe["mesh"].values())) == (plan, {2})


def test_a_run_goes_on_to_the_same_bits_and_on_other_ranks(xg: Xg, text: Path) -> None:
    words = ["train", MODEL, *STEADY, "--eval", 0]
    plan = ["--plan", "DP_TP"]
    assert xg(*words, *plan, "--steps", 4, "--out", "whole").code == 0
    assert xg(*words, *plan, "--steps", 2, "--out", "parts").code == 0
    for name in ("wider", "alone"):
        shutil.copytree(text / "parts", text / name)
    assert xg(*words, *plan, "--steps", 4, "--out", "parts", "--resume").code == 0
    assert records(text / "parts") == records(text / "whole")
    other = ["--plan", "FSDP", "--set", "N_D=4"]
    assert xg(*words, *other, "--steps", 4, "--out", "wider", "--resume").code == 0
    assert xg(*words, "--steps", 4, "--out", "alone", "--resume").code == 0
    assert distance(text / "wider", text / "whole") < 1e-10
    assert distance(text / "alone", text / "whole") < 1e-10
    assert xg("generate", "whole", "--tokens", 5).code == 0
    said = xg(*words, *plan, "--steps", 4, "--out", "whole")
    assert (said.code, said.err) == (
        5,
        "xg: whole holds a run: resume it, or name another folder\n",
    )


def test_tokens_that_do_not_count_weigh_the_same_on_every_rank(xg: Xg, folder: Path) -> None:
    words = counted(folder, 2)
    assert xg(*words, "--out", "one").code == 0
    for plan in ("DP", "Both"):
        assert xg(*words, "--out", plan, "--plan", plan).code == 0
        assert distance(folder / "one", folder / plan) < 1e-10


def test_a_batch_in_parts_is_the_same_step(xg: Xg, folder: Path) -> None:
    words = counted(folder, 4)
    assert xg(*words, "--out", "one").code == 0
    for name, given in (
        ("alone", []),
        ("ranks", ["--plan", "Both"]),
        ("fused", ["--plan", "DP", "--kernels"]),
    ):
        said = xg(*words, "--accumulate", 2, *given, "--out", name)
        assert said.code == 0, said.err
        assert distance(folder / "one", folder / name) < 1e-10
    said = xg(*words, "--out", "uneven", "--accumulate", 3)
    assert (said.code, said.err) == (
        1,
        "xg: a batch of 4 rows cannot be split into 3 equal parts\n",
    )
    (folder / "net.xg").write_text(COUNTED.replace("<-t", "<-t -> tanh"), encoding="utf-8")
    said = xg(*words, "--out", "other", "--accumulate", 2)
    assert (said.code, "--accumulate needs a loss of an operator" in said.err) == (1, True), (
        said.err
    )


def test_what_is_not_finite_on_one_rank_is_named_by_all(xg: Xg, text: Path) -> None:
    words = [
        "--lr",
        1e30,
        "--clip",
        0,
        "--warmup",
        0,
        "--eval",
        0,
        "--steps",
        5,
        "--dtype",
        "float32",
    ]
    one = xg("train", MODEL, *LEARN, *words, "--out", "one")
    many = xg("train", MODEL, *LEARN, *words, "--out", "many", "--plan", "DP_TP")
    assert (many.code, many.err.splitlines()[-2:]) == (4, one.err.splitlines()[-2:])
    assert "is made in line" in many.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--on", "processes"], 1, "--on processes is for parallel programs: --plan NAME chooses"),
        (["--plan", "DP", "--batch", 3], 1, "B = 3 is not divisible by N_D = 2"),
        (["--plan", "TP", "--on", "gpu"], 2, "invalid choice: 'gpu'"),
        (["--plan", "TP", "--timeout", "0"], 2, "at least 1"),
        (
            ["--plan", "DP", "--set", "N_D=128", "--batch", 128, "--on", "processes"],
            1,
            "this mesh has 128 ranks, each a process on this machine; at most 64 are allowed",
        ),
        (
            ["--plan", "DP", "--set", "N_D=2048", "--batch", 2048],
            1,
            "this mesh has 2,048 ranks, all in one process; at most 1,024 are allowed",
        ),
    ],
)  # fmt: skip
def test_ranks_that_cannot_be(
    xg: Xg, text: Path, words: list[object], code: int, message: str
) -> None:
    said = xg("train", MODEL, *LEARN, "--steps", 1, *words)
    assert (said.code, message in said.err) == (code, True), said.err
    assert not (text / "runs").exists()


def test_processes_need_torch(xg: Xg, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> None:
        assert name == "torch"

    monkeypatch.setattr("xg.codegen.backend.find_spec", nowhere)
    said = xg("train", MODEL, *LEARN, "--plan", "TP", "--on", "processes")
    assert (said.code, "torch is not installed" in said.err) == (1, True)
    assert text


# ---- processes ----------------------------------------------------------------------------------


JOBS: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    yield
    while JOBS:
        JOBS.pop().kill()


def start(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", *map(str, words)]
    path = os.pathsep.join(filter(None, sys.path))
    said = subprocess.PIPE
    environment = os.environ | {"PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo"}
    JOBS.append(subprocess.Popen(command, stdout=said, stderr=said, text=True, env=environment))
    return JOBS[-1]


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code of a command and what it said."""
    out, err = process.communicate(timeout=120)
    return process.returncode, out + err


@pytest.mark.usefixtures("warm_ranks")
def test_four_processes_with_torch_follow_the_curve(xg: Xg, text: Path) -> None:
    words = ["train", MODEL, *LEARN, "--steps", 5, "--eval", 0]
    assert xg(*words, "--out", "one").code == 0
    mesh = ["--plan", "DP_TP", "--set", "N_D=2", "--set", "N_T=2", "--backend", "torch"]
    code, said = ended(start("xg", *words, *mesh, "--on", "processes", "--out", "many"))
    assert code == 0, said
    assert distance(text / "one", text / "many") < 1e-10
    assert said.count("step 5/5") == 1


@pytest.mark.usefixtures("warm_ranks")
def test_torchrun_starts_the_ranks(xg: Xg, text: Path) -> None:
    words = ["train", MODEL, *LEARN, "--steps", 3, "--eval", 0]
    assert xg(*words, "--out", "one").code == 0
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", 2, "-m"]
    code, said = ended(start(*torchrun, "xg", *words, "--plan", "TP", "--on", "processes"))
    assert code == 0, said
    assert distance(text / "one", text / "runs" / "transformer") < 1e-10
    assert said.count("step 3/3") == 1


KILLED: list[tuple[str, list[object]]] = [
    ("PP", ["--set", "N_L=2", "--accumulate", 2]),
    ("TP", []),
]


@pytest.mark.parametrize(("plan", "more"), KILLED if THOROUGH else KILLED[:1])
def test_a_rank_that_is_killed_ends_the_run_which_goes_on_later(
    plan: str, more: list[object], xg: Xg, text: Path
) -> None:
    """Under another plan, also where ranks were stages and held other layers."""
    words = ["train", MODEL, *STEADY, "--eval", 0, *more]
    job = start("xg", *words, "--plan", plan, "--on", "processes", "--steps", 10**6, "--out", "run")
    wait_until(lambda: len(checkpoints(text / "run")) > 1)
    (parent,) = children(job.pid)
    os.kill(children(parent)[1], signal.SIGKILL)
    killed = time.monotonic()
    code, said = ended(job)
    assert time.monotonic() - killed < 5
    assert code == 4, said
    assert "xg: rank 1 was killed by SIGKILL" in said
    steps = checkpoint.load(text / "run").step + 2
    assert xg(*words, "--plan", "DP_TP", "--steps", steps, "--out", "run", "--resume").code == 0
    assert xg(*words, "--steps", steps, "--out", "one").code == 0
    assert distance(text / "one", text / "run") < 1e-10


@pytest.mark.usefixtures("warm_ranks")
def test_what_torchrun_starts_anew_on_two_machines_goes_on(xg: Xg, text: Path) -> None:
    words = ["train", MODEL, *STEADY, "--eval", 0, "--steps", 120, "--checkpoint", 12]
    machine = ["torch.distributed.run", "--nnodes", 2, "--nproc-per-node", 1, "--max-restarts", 1]
    name, place = str(text), f"127.0.0.1:{free_port()}"
    meeting = ["--rdzv-id", name, "--rdzv-backend", "c10d", "--rdzv-endpoint", place]
    job = ["-m", "xg", *words, "--plan", "TP", "--on", "processes", "--out", "run"]
    agents = [start(*machine, *meeting, *job) for _ in range(2)]
    wait_until(lambda: len(checkpoints(text / "run")) > 1)
    (victim,) = processes("RANK=1", f"TORCHELASTIC_RUN_ID={name}")
    os.kill(victim, signal.SIGKILL)
    for code, said in map(ended, agents):
        assert code == 0, said
    assert xg(*words, "--out", "one").code == 0
    assert distance(text / "one", text / "run") < 1e-10


def checkpoints(run: Path) -> list[Path]:
    return [path for path in run.glob("checkpoints/step-*") if path.name[5:].isdigit()]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def children(process: int) -> list[int]:
    return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))


def processes(*variables: str) -> list[int]:
    """The processes that were started with these variables."""
    wanted, found = {each.encode() for each in variables}, list[int]()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or is another user's
            if wanted <= set(entry.read_bytes().split(b"\0")):
                found.append(int(entry.parent.name))
    return found


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
