"""Figures as TikZ, compiled by LaTeX without a word of complaint.

Left out where LaTeX is not; CI installs it.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from figures.hand_made import mha_forward, overview
from figures.test_tex import LIBRARY, NAMES, SEED
from tier import some

import xg
from xg.driver import View
from xg.figures import render
from xg.figures.draw.font import typeset
from xg.figures.draw.glyph import Display, DrawnText, Element
from xg.figures.formats.tex import tex
from xg.figures.model.figure import LIGHT
from xg.figures.model.richtext import plain, symbol


def compiled(folder: Path, data: bytes, engine: str = "pdflatex") -> bytes:
    """Return the PDF that LaTeX makes without a word of complaint."""
    (folder / "fig.tex").write_bytes(data)
    command = (engine, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "fig.tex")
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False)
    said = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, said[-2000:]
    log = (folder / "fig.log").read_text(encoding="utf-8", errors="replace")
    assert not re.search(r"(?i)warning|overfull|underfull|missing character", log), log
    assert "Output written on fig.pdf (1 page" in log
    return (folder / "fig.pdf").read_bytes()


TRIED = some(SEED, lambda each: each[1])


@pytest.mark.parametrize(("stem", "view"), TRIED)
def test_latex_compiles_the_figures_of_the_seed(stem: str, view: View, tmp_path: Path) -> None:
    program = xg.compile(LIBRARY / "notation" / f"{stem}.xg")
    assert compiled(tmp_path, program.render(view, "tex")).startswith(b"%PDF")


@pytest.mark.parametrize("engine", ["pdflatex", "lualatex"])
def test_latex_compiles_hostile_names(engine: str, tmp_path: Path) -> None:
    """All are in one document, because each takes LaTeX a second."""
    parts = tuple(
        DrawnText(typeset((*symbol(text), *plain(text), *symbol("x_" + text)), 9.0), 10, 20 * at)
        for at, text in enumerate(NAMES, start=1)
    )
    display = Display(600, 20 * len(NAMES) + 20, "Names", "", (Element("a", "node", "", parts),))
    compiled(tmp_path, tex(display, LIGHT).encode(), engine)


def test_a_complaint_of_latex_is_noticed(tmp_path: Path) -> None:
    data = render(overview(), "tex")
    for wrong in (rb"\nosuchcommand", rb"\hbox to 1pt{too wide}"):
        flawed = data.replace(rb"\begin{tikzpicture}", wrong + rb"\begin{tikzpicture}", 1)
        with pytest.raises(AssertionError):
            compiled(tmp_path, flawed)


def test_latex_reads_it_into_a_document(tmp_path: Path) -> None:
    (tmp_path / "picture.tex").write_bytes(render(overview(), "tex"))
    document = rb"""\documentclass[12pt]{article}
\usepackage{tikz}
\renewcommand{\familydefault}{\sfdefault}
\begin{document}
\begin{center}\input{picture}\end{center}
\end{document}
"""
    compiled(tmp_path, document)


def test_a_paper_has_its_own_colors_and_styles_and_draws_to_nodes(tmp_path: Path) -> None:
    (tmp_path / "picture.tex").write_bytes(render(mha_forward(), "tex"))
    document = rb"""\documentclass{article}
\usepackage[paperheight=15in]{geometry}
\pdfcompresslevel=0
\usepackage{tikz}
\definecolor{xgink}{HTML}{123456}
\tikzset{xg nonlinear/.style={fill=yellow},xg edge/.style={line width=3.25pt}}
\def\xgextra{\draw[magenta,->] (SM) to[bend left] (mix);}
\begin{document}
\input{picture}
\end{document}
"""
    pdf = compiled(tmp_path, document)
    assert pdf.count(b"0.0706 0.20392 0.33725 RG") > 20  # #123456, in each line
    assert b"0 0 1 0 k" in pdf  # yellow
    assert b"0 1 0 0 K" in pdf  # magenta
    assert b"3.2379 w" in pdf  # 3.25 points of TeX
