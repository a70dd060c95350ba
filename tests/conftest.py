"""Options and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import doctests
import left_out
import pytest
import warm
from docs.running import environment, launch

gc.disable()  # until all tests are collected, which makes millions of objects and no garbage
os.environ.setdefault("XG_VERIFY", "1")  # every pass of every compilation is verified
# Compiled code is run once or twice here: XLA is to be quick about it, and not to make it fast.
QUICK = (
    "backend_optimization_level=0",
    "llvm_disable_expensive_passes=true",
    "cpu_use_fusion_emitters=false",
)
os.environ.setdefault("XLA_FLAGS", " ".join(f"--xla_{flag}" for flag in QUICK))

# The tests that wait for other processes or measure time. A machine that does much else may fail
# such a test once; it is run a second time, which the last lines say. No other test has a second
# run: a race in the compiler itself would pass.
WAITING = (
    "browser",
    "cli/test_compare_processes.py",
    "cli/test_compare_stages.py",
    "cli/test_ranks_command.py",
    "cli/test_serve.py",
    "cli/test_shells.py",
    "cli/test_terminal.py",
    "cli/test_torch_checkpoints.py",
    "cli/test_verify_processes.py",
    "codegen/dtensor/test_divided.py",
    "codegen/emitted/test_ddp.py",
    "codegen/emitted/test_dtensors.py",
    "docs/test_examples.py",
    "docs/test_notebooks.py",
    "docs/test_site.py",
    "e2e/test_compile_time.py",
    "e2e/test_growth.py",
    "e2e/test_startup.py",
    "editor",
    "frontend/test_hostile_programs.py",
    "runtime/ranks",
    "runtime/test_resume.py",
    "syntax/test_startup.py",
)
collect_ignore = [*left_out.MISSING, *([] if left_out.PLAYGROUND else [left_out.OF_PLAYGROUND])]


def pytest_configure(config: pytest.Config) -> None:
    """Let what is said of doctests hold for all files, those of the compiler too."""
    config.pluginmanager.register(doctests)
    config.pluginmanager.register(left_out)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let the first worker of pytest compile the modules that all of them import."""
    mark = _compiled(session.config)
    if mark is not None and os.environ["PYTEST_XDIST_WORKER"] != "gw0":
        end = time.monotonic() + 60
        while not mark.exists() and time.monotonic() < end:
            time.sleep(0.1)


def _compiled(config: pytest.Config) -> Path | None:
    """The file that says that the first of several workers has collected the tests."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    return config.rootpath / "build" / f"collected-{run}" if run else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> Generator[None]:
    """After pytest's last search for garbage leave nothing that Python would search again."""
    yield
    if (mark := _compiled(config)) is not None:
        mark.unlink(missing_ok=True)
    gc.freeze()


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are cores, for tests wait for processes and browsers."""
    return (os.cpu_count() or 1) + 1


# Their tests share a model that is trained, a site, all conventions compiled by XLA, or what many
# trials gave on two processes: each takes many seconds.
SHARING = (
    "examples/sentiment/test_commands.py",
    "browser/test_playground.py",
    "ops/test_conventions.py",
    "codegen/dtensor/test_divided.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow the tests that wait for others a second run, and begin with those that share much.

    A process that has nothing left takes tests from the ends of others' lists: what is at the
    beginning of one is not parted, and makes once what its tests share.
    """
    here = Path(__file__).parent
    assert all((here / name).exists() for name in SHARING)
    items.sort(key=lambda item: item.path not in {here / name for name in SHARING})
    waiting = [here / name for name in WAITING]
    assert all(path.exists() for path in waiting)
    is_waiting = {
        path: any(path.is_relative_to(each) for each in waiting)
        for path in {item.path for item in items}
    }
    for item in items:
        if is_waiting[item.path]:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Search less often for garbage, and never among what all tests share.

    Syntax trees, torch and JAX are millions of objects: looking through them again and again takes
    a fifth of the time of the tests that compile programs.
    """
    if (mark := _compiled(session.config)) is not None:
        mark.parent.mkdir(exist_ok=True)
        mark.touch()
    gc.enable()
    gc.freeze()
    gc.set_threshold(200_000, 50, 10)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files anew instead of comparing with them",
    )


@pytest.fixture(scope="session")
def warm_python(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str]:
    """Words that are `python`, in a process that has imported what commands import."""
    own = tmp_path_factory.getbasetemp()
    is_one_of_many = "PYTEST_XDIST_WORKER" in os.environ
    folder, owner = (own.parent, os.getppid()) if is_one_of_many else (own, os.getpid())
    return warm.shared_python(folder / "warm", environment(), owner)


@pytest.fixture(scope="session")
def warm_program(warm_python: Sequence[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that is `python`, and starts as quickly as `warm_python`."""
    program = tmp_path_factory.mktemp("bin") / "python"
    launch(program, warm_python)
    return program


@pytest.fixture
def warm_ranks(warm_program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ranks start quickly; other tests start them as users do."""
    monkeypatch.setattr(sys, "executable", str(warm_program))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with a golden file; with --update-golden write the file."""
    update = bool(request.config.getoption("--update-golden"))

    def compare(path: Path, text: str) -> None:
        if update:
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.exists(), f"{path.name} is missing: run with --update-golden and read it"
        assert text == path.read_text(encoding="utf-8")

    return compare
