"""`xg build`: what it writes, and what it leaves alone."""

import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cli.conftest import TINY, Xg

from xg import __version__
from xg.cli import opening as watch
from xg.cli.console import Console
from xg.driver import BACKENDS

TWO = TINY + "block Twice(X [B, D], t [B]) -> Y [B, D] {\n    X, t -> Net : Y, l\n}\n"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_every_kind_of_every_block(xg: Xg, folder: Path) -> None:
    (folder / "two.xg").write_text(TWO, encoding="utf-8")
    said = xg("build", "two.xg", "--all")
    assert said.code == 0
    assert "\n  two_twice.overview.dot, .svg, .pdf, .png, .tex\n" in said.out
    assert "\n  two_twice_numpy.py\n" in said.out
    kinds = ("dot", "pdf", "png", "svg", "tex")
    net = [f"two_net.{view}.{kind}" for view in ("backward", "forward") for kind in kinds]
    views = ("backward", "forward", "overview")
    twice = [f"two_twice.{view}.{kind}" for view in views for kind in kinds]
    whole = ("two_twice.html", *(f"two_twice_{backend}.py" for backend in BACKENDS))
    assert names(folder / "out") == sorted([*net, *twice, *whole, "xg-pictures.json"])


def test_by_default_one_picture_beside_you(xg: Xg, folder: Path) -> None:
    before = names(folder)
    said = xg("build", "tiny.xg")
    assert (said.code, said.out, said.err) == (0, "tiny.xg: tiny.svg\n", "")
    assert names(folder) == sorted([*before, "tiny.svg"])
    xg("build", "tiny.xg", "-o", "forward.svg")
    assert (folder / "tiny.svg").read_bytes() == (folder / "forward.svg").read_bytes()
    said = xg("build", "tiny.xg", "--pass", "backward", "-o", "pictures")
    assert said.out == "tiny.xg: pictures/tiny.backward.svg\n"
    assert names(folder / "pictures") == ["tiny.backward.svg"]


def test_the_name_of_a_picture_says_what_it_shows(xg: Xg, folder: Path) -> None:
    (folder / "two.xg").write_text(TWO, encoding="utf-8")
    assert xg("build", "two.xg", "tiny.xg").out == "two.xg: two.svg\ntiny.xg: tiny.svg\n"
    assert xg("build", "two.xg", "--block", "Net").out == "two.xg: two_net.svg\n"
    said = xg("build", "mlp", "--plan", "TP", "--pass", "overview")
    assert said.out == "mlp: mlp_tp.overview.svg\n"
    assert xg("build", "-", stdin=TINY.encode()).out == "-: stdin.svg\n"


def test_a_picture_takes_the_place_of_no_other_file(xg: Xg, folder: Path) -> None:
    (folder / "tiny.svg").write_text("<svg>mine</svg>")
    said = xg("build", "tiny.xg")
    assert (said.code, "xg did not make it" in said.err) == (5, True)
    assert (folder / "tiny.svg").read_text() == "<svg>mine</svg>"


def test_a_second_run_writes_nothing(xg: Xg, folder: Path) -> None:
    xg("build", "tiny.xg", "-o", "out", "--all")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in Path("out").iterdir()}
    said = xg("build", "tiny.xg", "-o", "out", "--all")
    assert said.out == f"tiny.xg: {11 + len(BACKENDS)} files in out, 0 changed\n"
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in Path("out").iterdir()}
    assert before == after
    assert xg("build", "tiny.xg", "-o", "out", "--all", "--check").code == 0


def test_a_comment_and_a_new_release_make_no_file_differ(xg: Xg, folder: Path) -> None:
    words = ("build", "tiny.xg", "-o", "out", "--only", "numpy,torch,svg,dot")
    xg(*words)
    tiny = folder / "tiny.xg"
    tiny.write_text(f"# Ours.\n\n{tiny.read_text(encoding='utf-8')}", encoding="utf-8")
    module = folder / "out" / "tiny_net_numpy.py"
    code = module.read_text(encoding="utf-8").replace(f"xg {__version__}", "xg 0.0.1")
    module.write_text(code, encoding="utf-8")
    assert "xg 0.0.1 from tiny.xg" in code
    assert xg(*words, "--check").code == 0
    module.write_text(code.replace("return Y", "return -Y"), encoding="utf-8")
    assert xg(*words, "--check").code == 1


def test_only_some_kinds(xg: Xg, folder: Path) -> None:
    xg("build", "tiny.xg", "-o", "out", "--only", "numpy,dot")
    assert names(folder / "out") == [
        "tiny_net.backward.dot",
        "tiny_net.forward.dot",
        "tiny_net_numpy.py",
    ]


def test_the_module_stands_alone(xg: Xg, folder: Path) -> None:
    xg("build", "tiny.xg", "-o", "out", "--only", "numpy")
    code = (
        "import sys, numpy as np, tiny_net_numpy as m\n"
        "p = m.init(0, np.float64)\n"
        "o, s = m.forward(p, {'X': np.ones((3, 4)), 't': np.ones(3)})\n"
        "print(sorted(m.backward(p, s, {'loss': np.ones(())})), 'xg' in sys.modules)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder / "out", capture_output=True, text=True, check=True)
    assert done.stdout == "['V', 'W', 'X', 'b', 't'] False\n"


def test_check_finds_what_is_missing_or_changed(xg: Xg, folder: Path) -> None:
    words = ("build", "tiny.xg", "-o", "out", "--only", "svg,numpy")
    assert "is missing" in xg(*words, "--check").out
    assert not (folder / "out").exists()
    xg(*words)
    path = folder / "out" / "tiny_net.forward.svg"
    path.write_bytes(path.read_bytes() + b" ")
    said = xg(*words, "--check")
    assert said.code == 1
    assert "tiny_net.forward.svg differs" in said.out


def test_check_shows_what_changed_in_code_and_what_accepts_it(xg: Xg, folder: Path) -> None:
    words = ("build", "tiny.xg", "-o", "out", "--only", "numpy")
    xg(*words)
    path = folder / "out" / "tiny_net_numpy.py"
    code = path.read_text("utf-8")
    path.write_text(code.replace("np.float32", "np.float16", 1), "utf-8")
    said = xg(*words, "--check").out
    (old,) = [line for line in said.splitlines() if line.startswith("  -") and "float16" in line]
    assert f"  +{old[3:].replace('float16', 'float32')}" in said.splitlines()
    assert said.endswith("to accept the changes, run the same command without --check\n")


def test_a_page_is_checked_and_built_anew(xg: Xg, folder: Path) -> None:
    xg("build", "tiny.xg", "-o", "out", "--only", "html")
    path = folder / "out" / "tiny_net.html"
    good = path.read_bytes()
    path.write_bytes(good + b" ")
    said = xg("build", "tiny.xg", "-o", "out", "--only", "html", "--check")
    assert (said.code, "tiny_net.html differs" in said.out) == (1, True)
    assert xg("build", "tiny.xg", "-o", "out", "--only", "html").code == 0
    assert path.read_bytes() == good


def test_pictures_of_other_tools_are_not_compared(xg: Xg, folder: Path) -> None:
    words = ("build", "tiny.xg", "-o", "out", "--only", "svg,png")
    xg(*words)
    path = folder / "out" / "tiny_net.forward.svg"
    path.write_bytes(path.read_bytes() + b" ")
    assert xg(*words, "--check").code == 1
    record = folder / "out" / "xg-pictures.json"
    record.write_text(record.read_text().replace("resvg-py ", "resvg-py 9."))
    assert xg(*words, "--check").code == 0


@pytest.mark.parametrize(
    "name",
    ["tiny_net_numpy.py", "tiny_net.forward.dot", "tiny_net.forward.png", "tiny_net.forward.tex"],
)
def test_files_of_others_are_not_overwritten(xg: Xg, folder: Path, name: str) -> None:
    (folder / "out").mkdir()
    (folder / "out" / name).write_text("mine\n")
    said = xg("build", "tiny.xg", "-o", "out", "--only", "numpy,dot,png,tex")
    assert said.code == 5
    assert "xg did not make it" in said.err
    assert names(folder / "out") == [name]  # all or nothing
    assert (folder / "out" / name).read_text() == "mine\n"


def test_one_wrong_file_stops_all(xg: Xg, folder: Path) -> None:
    assert xg("build", "tiny.xg", "wrong.xg", "-o", "out").code == 1
    assert not (folder / "out").exists()


def test_two_inputs_of_one_name_are_refused(xg: Xg, folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "a" / "tiny.xg").write_text(TINY, encoding="utf-8")
    said = xg("build", "tiny.xg", "a/tiny.xg", "-o", "out", "--only", "dot")
    assert said.code == 2
    assert "both write tiny_net.forward.dot" in said.err


def test_file_names_are_slugs(xg: Xg, folder: Path) -> None:
    odd = folder / "con.. ; $(rm) é.xg"
    odd.write_text(TINY.replace("block Net", "block numpy"), encoding="utf-8")
    assert xg("build", odd.name, "-o", "out", "--only", "numpy").code == 0
    assert names(folder / "out") == ["con_rm_numpy_numpy.py"]


def test_options_of_one_block_do_not_hinder_others(xg: Xg, folder: Path) -> None:
    (folder / "two.xg").write_text(TWO, encoding="utf-8")
    assert xg("build", "two.xg", "-o", "out", "--only", "numpy", "--set", "p=0.25").code == 0
    assert "no option or dim" in xg("build", "two.xg", "-o", "out", "--set", "q=0.25").err


def test_the_theme_reaches_the_picture(xg: Xg, folder: Path) -> None:
    for theme in ("light", "dark"):
        xg("build", "tiny.xg", "-o", theme, "--only", "svg", "--theme", theme, "--legend")
    pictures = [(folder / t / "tiny_net.forward.svg").read_text() for t in ("light", "dark")]
    assert pictures[0] != pictures[1]


def test_watching_builds_again_and_keeps_the_last_good_output(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from xg.cli.dispatch import parse
    from xg.cli.outputs import build as run

    texts = iter([TINY.replace("tanh", "GELU"), "block (", TINY.replace('"A tiny net"', '"New"')])
    seen: list[str] = []

    def save(_: float) -> None:
        seen.append((folder / "out" / "tiny_net_numpy.py").read_text().splitlines()[0])
        text = next(texts, None)
        if text is None:
            raise KeyboardInterrupt
        (folder / "tiny.xg").write_text(text, encoding="utf-8")

    monkeypatch.setattr(watch.time, "sleep", save)
    options = parse("build", ["tiny.xg", "-o", "out", "--only", "numpy", "--watch"])
    assert run(options, Console("never")) == 0
    old = '"""A tiny net: forward and backward pass in NumPy.'
    assert seen == [old, old, old, '"""New: forward and backward pass in NumPy.']
    assert "the last good output stays" in capsys.readouterr().err


def test_a_build_that_changes_nothing_removes_what_a_killed_one_left(xg: Xg, folder: Path) -> None:
    xg("build", "tiny.xg", "-o", "out", "--only", "dot,numpy")
    written = names(folder / "out")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (folder / "out" / f".tiny.py.{ended.pid}.xg-old").write_text("")
    assert names(folder / "out") != written
    assert "0 changed" in xg("build", "tiny.xg", "-o", "out", "--only", "dot,numpy").out
    assert names(folder / "out") == written


def test_a_killed_build_leaves_no_half_files(xg: Xg, folder: Path) -> None:
    """Kill the process at many moments: the old bytes or the new ones, never anything else."""
    xg("build", "tiny.xg", "-o", "out", "--only", "dot,numpy")
    old = {name: (folder / "out" / name).read_bytes() for name in names(folder / "out")}
    (folder / "tiny.xg").write_text(TINY.replace("A tiny net", "Another"), encoding="utf-8")
    xg("build", "tiny.xg", "-o", "new", "--only", "dot,numpy")
    new = {name: (folder / "new" / name).read_bytes() for name in names(folder / "new")}
    command = [sys.executable, "-m", "xg", "build", "tiny.xg", "-o", "out", "--only", "dot,numpy"]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for delay in itertools.islice(itertools.count(0.05, 0.06), 6):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=variables)
        timer = threading.Timer(delay, process.kill)
        timer.start()
        process.wait()
        timer.cancel()
        for name, content in old.items():
            assert (folder / "out" / name).read_bytes() in (content, new[name])
    assert subprocess.run(command, check=False, env=variables).returncode == 0
    assert names(folder / "out") == names(folder / "new")  # nothing stray


def test_watching_follows_used_files_in_other_folders(
    xg: Xg, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "parts").mkdir()
    part = folder / "parts" / "part.xg"
    block = "dim B, D\nblock Part(X [B, D]) -> Y [B, D] {{\n    X -> {} : Y\n}}\n"
    part.write_text(block.format("tanh"))
    (folder / "whole.xg").write_text(
        'use Part from "parts/part.xg"\ndim B, D\n'
        "block Whole(X [B, D]) -> Y [B, D] {\n    X -> Part : Y\n}\n"
    )
    saves = iter(["ReLU", "", "sigmoid"])  # "": nothing is saved
    codes: list[str] = []

    def save(_: float) -> None:
        codes.append((folder / "out" / "whole_numpy.py").read_text())
        word = next(saves, None)
        if word is None:
            raise KeyboardInterrupt
        if word:
            part.write_text(block.format(word) + "# " + word)

    monkeypatch.setattr(watch.time, "sleep", save)
    said = xg("build", "whole.xg", "-o", "out", "--only", "numpy", "--watch")
    assert said.code == 0
    assert said.out.count("whole.xg: ") == 3  # at first, and after each save
    assert len(codes) == 4
    assert codes[0] != codes[1] == codes[2] != codes[3]


@pytest.mark.parametrize("first", ["block (", None], ids=["unreadable", "missing"])
def test_watching_waits_for_a_used_file_with_errors_in_another_folder(
    first: str | None, xg: Xg, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "parts").mkdir()
    part = folder / "parts" / "part.xg"
    if first is not None:
        part.write_text(first)
    (folder / "whole.xg").write_text(
        'use Part from "parts/part.xg"\ndim B, D\n'
        "block Whole(X [B, D]) -> Y [B, D] {\n    X -> Part : Y\n}\n"
    )
    saves = iter(["dim B, D\nblock Part(X [B, D]) -> Y [B, D] {\n    X -> tanh : Y\n}\n"])

    def save(_: float) -> None:
        text = next(saves, None)
        if text is None:
            raise KeyboardInterrupt
        part.write_text(text)

    monkeypatch.setattr(watch.time, "sleep", save)
    said = xg("build", "whole.xg", "-o", "out", "--only", "numpy", "--watch")
    assert (said.code, said.out) == (0, "whole.xg: 1 file in out, 1 changed\n  whole_numpy.py\n")


def test_one_picture(xg: Xg, folder: Path) -> None:
    starts = {"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG", "dot": b"digraph", "html": b"<!",
              "tex": b"% Drawn by xg: "}  # fmt: skip
    for kind, start in starts.items():
        said = xg("build", "tiny.xg", "-o", f"pictures/fig.{kind}")
        assert (said.code, said.out) == (0, f"tiny.xg: pictures/fig.{kind}\n")
        assert (folder / "pictures" / f"fig.{kind}").read_bytes().startswith(start)
    assert len(list((folder / "pictures").iterdir())) == len(starts)
    title = b"A tiny net"
    assert title in (folder / "pictures" / "fig.dot").read_bytes().split(b";")[0]
    xg("build", "tiny.xg", "-o", "plain.dot", "--no-title", "--pass", "backward")
    plain = (folder / "plain.dot").read_bytes()
    assert title not in plain.split(b";")[0].split(b"{", 1)[1]
    assert b"dReLU" in plain
    assert b"dReLU" not in (folder / "pictures" / "fig.dot").read_bytes()


def test_a_series_for_slides(xg: Xg, folder: Path) -> None:
    said = xg("build", "tiny.xg", "--steps", "--pass", "forward", "--only", "svg,tex", "-o", "out")
    assert said.code == 0
    names = sorted(path.name for path in (folder / "out").glob("*.svg"))
    assert names == [f"tiny_net.forward.{number}.svg" for number in range(1, len(names) + 1)]
    assert [path.name for path in (folder / "out").glob("*backward*")] == []
    texts = [(folder / "out" / name).read_text(encoding="utf-8") for name in names]
    assert len({text.partition(">")[0] for text in texts}) == 1  # of one size
    counts = [text.count("data-op=") for text in texts]
    assert counts == sorted(set(counts))
    xg("build", "tiny.xg", "-o", "whole.svg")
    assert counts[-1] == (folder / "whole.svg").read_text(encoding="utf-8").count("data-op=")
    assert len(list((folder / "out").glob("*.tex"))) == len(names)


def test_a_picture_without_title_is_lower(xg: Xg, folder: Path) -> None:
    heights: list[float] = []
    for words in ([], ["--no-title"]):
        xg("build", "tiny.xg", "-o", "fig.svg", *words)
        text = (folder / "fig.svg").read_text(encoding="utf-8")
        heights.append(float(text.split('height="')[1].split("pt")[0]))
    assert heights[1] < heights[0] - 10


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "fig.svg", "--only", "png"], "takes one FILE and one kind"),
        (["-o", "-", "--only", "svg,png"], "takes one FILE and one kind"),
        (["-o", "fig.svg", "--check"], "need a folder"),
        (["-o", "fig.bmp"], "cannot write a .bmp file"),
        (["-o", "fig.webp"], "cannot write a .webp file"),
        (["-o", "fig.SVG"], "cannot write a .SVG file"),
        (["-o", "fig.svg", "--width", "0.2in"], "'0.2in' should be from 20pt to 10000pt"),
        (["-o", "fig.svg", "--width", "3"], "'3' is not a length such as 3.3in"),
        (["--pass", "backward", "--all"], "--pass chooses one picture"),
        (["--pass", "backward", "--only", "svg"], "--pass chooses one picture"),
        (["--all", "--only", "svg"], "not allowed with argument"),
        (["--all", "-o", "fig.svg"], "--all writes many files: -o DIR"),
        (["--check"], "--check compares a folder"),
        (["-o", "fig.svg", "--steps"], "--steps writes many pictures: -o DIR"),
    ],
)
def test_words_that_do_not_go_with_one_picture(
    xg: Xg, folder: Path, words: list[str], message: str
) -> None:
    said = xg("build", "tiny.xg", *words)
    assert (said.code, message in said.err) == (2, True), said.err
    assert not (folder / "out").exists()


def test_a_width_or_a_height_without_room_says_what_would_do(xg: Xg, folder: Path) -> None:
    for option, other in (("--width", "--height"), ("--height", "--width")):
        said = xg("build", "tiny.xg", "-o", "fig.svg", option, "21pt")
        assert said.code == 1
        needed = said.err.rpartition(f"6 points: {option} ")[2].strip()
        assert needed.endswith("in"), said.err
        assert xg("build", "tiny.xg", "-o", "fig.svg", option, needed).code == 0
        assert other not in said.err


def test_a_backward_figure_is_compact_where_it_would_not_fit(xg: Xg, folder: Path) -> None:
    pictures: list[str] = []
    for words in ([], ["--width", "9in"], ["--width", "3.3in"], ["--compact"]):
        said = xg("build", "mlp", "--pass", "backward", "-o", "fig.svg", *words)
        assert said.code == 0, said.err
        pictures.append((folder / "fig.svg").read_text(encoding="utf-8"))
    assert ["dW_down, db_down" in one for one in pictures] == [False, False, True, True]
