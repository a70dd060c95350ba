"""Matrix products take one thread, unless the user says otherwise."""

import os
import subprocess
import sys

import pytest

from xg.cli.arguments import limit_threads

NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(os, "environ", {name: os.environ[name] for name in ("PATH",)})
    return monkeypatch


@pytest.mark.usefixtures("environment")
def test_one_is_the_default() -> None:
    limit_threads(None)
    assert os.environ["OMP_NUM_THREADS"] == "1"


@pytest.mark.usefixtures("environment")
def test_the_environment_decides_before_the_default() -> None:
    os.environ["MKL_NUM_THREADS"] = "4"
    limit_threads(None)
    assert "OMP_NUM_THREADS" not in os.environ


@pytest.mark.usefixtures("environment")
def test_the_option_decides_before_the_environment() -> None:
    os.environ["OPENBLAS_NUM_THREADS"] = "4"
    limit_threads(2)
    assert {os.environ[name] for name in NAMES} == {"2"}


@pytest.mark.parametrize("command", ["train", "generate", "demo"])
def test_it_is_said_before_numpy_is_imported(command: str) -> None:
    code = "import sys; from xg.cli.dispatch import command_of; "
    code += f"command_of({command!r}); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("command", ["train", "generate", "demo"])
def test_a_command_limits_them_before_it_imports_numpy(command: str) -> None:
    """An import of NumPy is watched: by then the environment must have the limit."""
    code = f"""
import os, sys

class Watch:
    def find_spec(self, name, path, target=None):
        if name == "numpy":
            print(os.environ.get("OMP_NUM_THREADS"))
            sys.exit()

sys.meta_path.insert(0, Watch())
from xg.cli import main
main(["{command}", "absent"])
"""
    environment = {name: text for name, text in os.environ.items() if name not in NAMES}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == "1\n"
