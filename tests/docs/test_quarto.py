"""The filter for Pandoc and Quarto: a sample document, and errors in one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

import xg
from xg.figures import render

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "editors" / "quarto" / "_extensions" / "xg"
PATHS = os.pathsep.join(str(ROOT / room) for room in ("compiler", "grammar", "runtime"))
SNIPPET = "dim B, D\nblock F(X [B, D]) -> Y [B, D] {\n    X -> S : Y\n}\n"
PAGE = f"""\
```{{.xg .figure #of-f pass=backward theme=light width=50%}}
{SNIPPET}```

```{{.xg .figure file=transformer block=MLP plan=TP set="D=32 act=ReLU" caption="Two ranks"}}
```

```xg
{SNIPPET}```
"""


def pandoc(
    text: str, folder: Path, form: str, *more: str, python: str | Path = sys.executable
) -> subprocess.CompletedProcess[str]:
    command = f"xg-command={python} -P -m xg"
    words = ["pandoc", "--lua-filter", str(EXTENSION / "xg.lua"), "-M", command, "-t", form]
    return subprocess.run(
        [*words, *(more or ("--extract-media=media",))],
        input=text,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": PATHS},
    )


def test_a_sample_document(tmp_path: Path) -> None:
    """With a Python that starts for every figure; the others have one that has started."""
    done = pandoc(PAGE, tmp_path, "html")
    assert (done.returncode, done.stderr) == (0, "")
    places = re.findall(r'<img src="([^"]*)"', done.stdout.replace("\n", " "))
    backward, mlp = [(tmp_path / place).read_bytes() for place in places]
    chosen: dict[str, Any] = {"sizes": {"D": 32}, "options": {"act": "ReLU"}}
    figure = xg.compile("transformer", block="MLP", plan="TP", **chosen).figure("forward")
    assert mlp == render(replace(figure, has_heading=False), "svg", "auto")
    (tmp_path / "f.xg").write_text(SNIPPET, "utf-8")
    figure = xg.compile(tmp_path / "f.xg").figure("backward")
    assert backward == render(replace(figure, has_heading=False), "svg", "light")
    assert 'id="of-f"' in done.stdout
    assert "width:50" in done.stdout
    assert "<figcaption" in done.stdout
    assert '<pre class="xg"><code>dim B, D' in done.stdout


def test_latex_gets_pdf(tmp_path: Path, warm_program: Path) -> None:
    done = pandoc(PAGE, tmp_path, "latex", python=warm_program)
    assert (done.returncode, done.stderr) == (0, "")
    drawn = list((tmp_path / "media").glob("*.pdf"))
    assert len(drawn) == done.stdout.count("\\includegraphics") == 2
    assert all(path.read_bytes().startswith(b"%PDF") for path in drawn)


@pytest.mark.parametrize(
    ("words", "content", "expected"),
    [
        ("pas=backward", SNIPPET, "pas is none of the options"),
        ("pass=bakward", SNIPPET, "bakward"),
        ("file=mlp", SNIPPET, "not both"),
        ("", "", "not both"),
        ("", SNIPPET.replace("S :", "Sofmax :"), "Sofmax"),
    ],
)
def test_what_is_wrong_is_said(
    words: str, content: str, expected: str, tmp_path: Path, warm_program: Path
) -> None:
    page = f"```{{.xg .figure {words}}}\n{content}```\n"
    done = pandoc(page, tmp_path, "html", python=warm_program)
    assert done.returncode != 0
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_quarto_finds_the_filter() -> None:
    read = yaml.safe_load((EXTENSION / "_extension.yml").read_text("utf-8"))
    (name,) = read["contributes"]["filters"]
    assert (EXTENSION / name).exists()


def test_the_document_of_the_page_is_drawn(tmp_path: Path, warm_program: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "figure-in-quarto.md").read_text("utf-8")
    (text,) = re.findall(r"<!-- file: report\.md -->\n````markdown\n(.*?)````", page, re.DOTALL)
    done = pandoc(text, tmp_path, "docx", "-o", "report.docx", python=warm_program)
    assert (done.returncode, done.stderr) == (0, "")
    with ZipFile(tmp_path / "report.docx") as document:
        drawn = [document.read(name) for name in document.namelist() if "/media/" in name]
    assert [data[1:4] for data in drawn] == [b"PNG"] * 2
