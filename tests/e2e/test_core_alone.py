"""The core works without the packages beside it, which it finds and never imports by name."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from xg.cli.command_list import CORE as COMMANDS
from xg.packages import SERVICES, packages

ROOT = Path(__file__).parents[2]
CORE = (
    "check mlp",
    "fmt --check mlp.xg",
    "show mlp --as numpy",
    "build mlp --all -o out",
    "verify mlp --seed 1",
    "cost mlp --plan TP",
    "plan mlp --ranks 2 --memory 80GB --set B=2 --set S=8",
    "run mlp --inputs in.npz -o out.npz --seed 0",
    "ops LN",
)
# What a package adds, how a command ends without it, and what its error names.
MISSED = (
    ("train mlp", 2, "there is no command train"),
    ("show mlp --pass step --as numpy", 1, "none provides `step`"),
)
# A checkout's own folder of packages is off the path; the core is there by a link of its own.
# One process runs all commands: to start and to import takes longer than most of them.
ALONE = """
import sys
sys.path[:] = [{alone!r}, *(path for path in sys.path if path != {compiler!r})]
from xg.cli import main
ends = []
for words in {commands!r}:
    try:
        ends.append(main(words.split()))
    except SystemExit as end:
        ends.append(end.code)
    print(file=sys.stderr)
print("ends:", *ends)
"""


def test_every_command_of_the_core_runs_and_what_a_package_adds_is_missed(tmp_path: Path) -> None:
    link = tmp_path / "core" / "xg"
    link.parent.mkdir()
    link.symlink_to(ROOT / "compiler" / "xg")
    text = (ROOT / "diagrams" / "notation" / "mlp.xg").read_text("utf-8")
    (tmp_path / "mlp.xg").write_text(text, "utf-8")
    np.savez(tmp_path / "in.npz", X=np.ones((2, 3, 4)))
    words = [*CORE, *(words for words, _, _ in MISSED)]
    compiler = str(ROOT / "compiler")
    script = ALONE.format(alone=str(link.parent), compiler=compiler, commands=words)
    command = [sys.executable, "-P", "-W", "error", "-c", script]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    ends = map(int, ran.stdout.splitlines()[-1].removeprefix("ends: ").split())
    assert dict(zip(words, ends, strict=True)) == {
        **dict.fromkeys(CORE, 0),
        **{words: code for words, code, _ in MISSED},
    }, ran.stderr
    assert all(said in ran.stderr for _, _, said in MISSED)
    assert "Traceback" not in ran.stderr


def test_every_service_and_command_has_one_home() -> None:
    """Two packages with one would depend on the order of their names."""
    services = [name for package in packages() for name in package.services]
    assert sorted(services) == sorted(SERVICES)
    commands = [*COMMANDS, *(name for package in packages() for name in package.commands)]
    assert len(commands) == len({*commands})
