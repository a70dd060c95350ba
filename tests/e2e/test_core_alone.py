"""The core works without the packages beside it, which it finds and never imports by name."""

import subprocess
import sys
from pathlib import Path

import pytest

from xg.cli.command_list import CORE as COMMANDS
from xg.packages import SERVICES, packages

ROOT = Path(__file__).parents[2]
CORE = {
    "check": "check mlp",
    "fmt": "fmt --check mlp.xg",
    "show": "show mlp --as numpy",
    "build": "build mlp --all -o out",
    "verify": "verify mlp --seed 1",
    "cost": "cost mlp --plan TP",
    "plan": "plan transformer --ranks 2 --memory 80GB --set N_L=2 --set B=2 --set S=8",
    "run": "run mlp --inputs in.npz -o out.npz --seed 0",
    "ops": "ops LN",
}
# A checkout's own folder of packages is off the path; the core is there by a link of its own.
ALONE = """
import sys
sys.path[:] = [{alone!r}, *(path for path in sys.path if path != {compiler!r})]
from xg.cli import main
sys.exit(main({words!r}))
"""


def alone(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of the core in a folder, without any package."""
    link = folder / "core" / "xg"
    if not link.exists():
        link.parent.mkdir()
        link.symlink_to(ROOT / "compiler" / "xg")
    compiler = str(ROOT / "compiler")
    script = ALONE.format(alone=str(link.parent), compiler=compiler, words=words)
    command = [sys.executable, "-P", "-W", "error", "-c", script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", CORE)
def test_every_command_of_the_core_runs(name: str, tmp_path: Path) -> None:
    text = (ROOT / "diagrams" / "notation" / "mlp.xg").read_text("utf-8")
    (tmp_path / "mlp.xg").write_text(text, "utf-8")
    if name == "run":
        import numpy as np

        np.savez(tmp_path / "in.npz", X=np.ones((2, 3, 4)))
    ended = alone(tmp_path, CORE[name].split())
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_what_a_package_adds_is_missed_by_name(tmp_path: Path) -> None:
    ended = alone(tmp_path, ["train", "mlp"])
    assert ended.returncode == 2
    assert "there is no command train" in ended.stderr
    ended = alone(tmp_path, ["show", "mlp", "--pass", "step", "--as", "numpy"])
    assert ended.returncode == 1
    assert "none provides `step`" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_every_service_and_command_has_one_home() -> None:
    """Two packages with one would depend on the order of their names."""
    services = [name for package in packages() for name in package.services]
    assert sorted(services) == sorted(SERVICES)
    commands = [*COMMANDS, *(name for package in packages() for name in package.commands)]
    assert len(commands) == len({*commands})
