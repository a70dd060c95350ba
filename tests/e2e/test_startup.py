"""The start-up time of the command, beside a bare interpreter measured in the same minute.

In CPU seconds, the least of several rounds, because other work on the machine only adds to them.
"""

import os
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

ROOT = Path(__file__).parents[2]
ROUNDS = 4  # at least
AT_MOST = 80  # while other work makes all of them slow
IMPORT_AT_MOST = 3  # times a bare interpreter
HELP_AT_MOST = 5
CHECK_AT_MOST = 15
# A bare interpreter reads a tenth of the files, so the ratio grows where reading is slow.
CHECK_SECONDS = 0.26
BUILD_AT_MOST = 32  # half a second where a bare interpreter takes a sixtieth
# As in an installation without the tools of development: Lark imports `regex` where there is one.
XG = ("-c", "import sys; sys.modules['regex'] = None; from xg.cli import main; sys.exit(main())")
PATHS = os.pathsep.join(str(ROOT / name) for name in ("compiler", "runtime", "grammar"))


def seconds(*command: str) -> float:
    began = used()
    subprocess.run(
        [sys.executable, "-P", *command],
        stdout=subprocess.DEVNULL,
        check=True,
        env={"PYTHONPATH": PATHS, "PATH": os.environ["PATH"]},
        cwd=ROOT,
    )
    return used() - began


def used() -> float:
    """By all commands that have ended."""
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def hundred_lines(path: Path) -> None:
    """A file of 100 lines: blocks of the size that people write, each called once."""
    block = (
        "block Block_{0}(X [B, S, D]) -> Y [B, S, D] {{\n"
        "    param γ [D] = ones, β [D] = zeros\n"
        "    param W_up [D, D_ff], b_up [D_ff] = zeros, W_down [D_ff, D]\n\n"
        "    X -> LN(γ, β)                         : H [B, S, D]\n"
        "      -> •<=W_up -> ⊕<-BC(b_up) -> GELU   : U [B, S, D_ff]\n"
        "      -> •<=W_down -> ⊕<-X                : {1}\n"
        "}}\n\n"
    )
    calls = "\n".join(
        f"    {'X' if i == 0 else f'Y_{i}'} -> Block_{i} : Y_{i + 1} [B, S, D]" for i in range(9)
    )
    text = "dim B, S, D = 64, D_ff = 4*D\n\n"
    text += "".join(block.format(i, "Y") for i in range(9))
    text += f"block Net(X [B, S, D]) -> Y [B, S, D] {{\n{calls}\n    Y_9 -> ReLU : Y\n}}\n"
    path.write_text(text, encoding="utf-8")


def one_block(path: Path) -> None:
    path.write_text(
        "dim B, D = 64, D_ff = 4*D\n\n"
        "block MLP(X [B, D]) -> Y [B, D] {\n"
        "    param W_1 [D, D_ff], W_2 [D_ff, D]\n"
        "    X -> •<=W_1 -> GELU -> •<=W_2 : Y\n"
        "}\n",
        encoding="utf-8",
    )


def test_a_figure_of_one_block_is_built_quickly(tmp_path: Path) -> None:
    one_block(tmp_path / "mlp.xg")
    folder = str(tmp_path / "out")
    commands = (
        ("-c", "pass"),
        (*XG, "build", str(tmp_path / "mlp.xg"), "--only", "svg", "-o", folder),
    )
    bare = build = float("inf")
    for done in range(AT_MOST):
        latest = [seconds(*command) for command in commands]
        bare, build = map(min, (bare, build), latest)
        if build / bare <= BUILD_AT_MOST and done >= 2:  # the first compiles the layout engine
            return
    assert build <= BUILD_AT_MOST * bare, f"xg build takes {build / bare:.1f} times bare Python"


def test_help_and_check_start_quickly(tmp_path: Path) -> None:
    hundred_lines(tmp_path / "net.xg")
    assert 90 <= len((tmp_path / "net.xg").read_text(encoding="utf-8").splitlines()) <= 110
    xg = (*XG, "--help"), (*XG, "check", str(tmp_path / "net.xg"))
    commands = ("-c", "pass"), ("-c", "import xg"), *xg
    bare = import_ = help_ = check = float("inf")
    for done in range(AT_MOST):  # in turns, so that a busy moment hits all of them
        latest = [seconds(*command) for command in commands]
        bare, import_, help_, check = map(min, (bare, import_, help_, check), latest)
        limits = (import_, IMPORT_AT_MOST), (help_, HELP_AT_MOST)
        quick = all(least <= limit * bare for least, limit in limits)
        quick &= check <= max(CHECK_AT_MOST * bare, CHECK_SECONDS)
        if quick and done + 1 >= ROUNDS:
            return
    assert import_ <= IMPORT_AT_MOST * bare, (
        f"import xg takes {import_ / bare:.1f} times bare Python"
    )
    assert help_ <= HELP_AT_MOST * bare, f"xg --help takes {help_ / bare:.1f} times bare Python"
    said = f"xg check takes {check:.3f} s, {check / bare:.1f} times bare Python"
    assert check <= max(CHECK_AT_MOST * bare, CHECK_SECONDS), said
