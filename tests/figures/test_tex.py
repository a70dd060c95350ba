r"""TikZ: goldens, labels as math, text that means nothing to TeX, and what LaTeX says of it."""

import re
from pathlib import Path

import pytest
from figures.hand_made import mha_forward, overview
from figures.hostile import HOSTILE, hostile_figure

from xg.driver import View
from xg.figures import ThemeName, render
from xg.figures.draw.font import typeset
from xg.figures.draw.glyph import Display, DrawnShape, DrawnText, Element
from xg.figures.formats.tex import label, tex
from xg.figures.model.figure import LIGHT, Box, Color, Figure, rectangle
from xg.figures.model.richtext import (
    RichText,
    StyledRun,
    bold,
    number,
    plain,
    symbol,
    tensor,
)

GOLDEN = Path(__file__).parent / "golden"
LIBRARY = Path(__file__).parents[2] / "diagrams"
FIGURES: dict[str, tuple[Figure, ThemeName]] = {
    "mha_forward": (mha_forward(), "light"),
    "overview": (overview(), "dark"),
}
SEED: list[tuple[str, View]] = [
    ("flow", "overview"),
    ("embedding", "forward"),
    *((stem, view) for stem in ("mha", "mlp", "output") for view in ("forward", "backward")),
]  # seed 001, section 5
NAMES = [
    *(text[:300] for text in HOSTILE),
    r"\input{/etc/passwd}",
    "50% $x$ #1 & a_b^c ~ {[]}",
    r"}\end{document}",
    "^^41 ``a'' -- <<>> ?` !` ,,",
    "é ñ ő ŷ σ̂ ą ł ß i̇ 日 Ж «» ²³ \xa0",
]
LETTERS = """textbackslash textasciicircum textasciitilde textless textgreater textbar ldots
ss ae AE oe OE o O l L i j u v xgchar"""
SIGNS = "mbox scriptsize hat sigma Sigma cdot mathrm mathbf textbf"


@pytest.mark.parametrize("name", FIGURES)
def test_text_is_the_golden(name: str, request: pytest.FixtureRequest) -> None:
    figure, theme = FIGURES[name]
    path = GOLDEN / f"{name}.tex"
    if request.config.getoption("--update-golden", default=False):
        path.write_bytes(render(figure, "tex", theme))
    assert render(figure, "tex", theme) == path.read_bytes()


def test_every_golden_has_a_figure() -> None:
    assert {path.stem for path in GOLDEN.glob("*.tex")} == set(FIGURES)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (
            (StyledRun("BC", sub="B,S_k,D"),),
            r"{\normalsize $\mathrm{BC}_{\mathrm{B},\mathrm{S}_{\mathrm{k}},\mathrm{D}}$}",
        ),
        (symbol("W_up"), r"{\normalsize $\mathbf{W}_{\mathrm{up}}$}"),
        (
            symbol("gamma_1", gradient=True, sup="⊤"),
            r"{\normalsize $d\mbox{\boldmath$\gamma$}_{1}^{{\top}}$}",
        ),
        (
            tensor(symbol("Q"), ["B", "S", "D_h/N_T"]),
            r"{\normalsize $\mathbf{Q}\ $}"
            r"{\normalsize\color{quiet} $[B, S, D_{\mathrm{h}}/N_{\mathrm{T}}]$}",
        ),
        (number("-1/sqrt(D_h)"), r"{\normalsize ${-}1/{\surd}D_{\mathrm{h}}$}"),
        (
            (*number("1/sqrt(D)"), *plain(", "), *plain("causal")),
            r"{\normalsize $1/{\surd}D,\ $causal}",
        ),
        (bold("A & B"), r"{\normalsize \textbf{A \&{} B}}"),
        (symbol("ŷ"), r"{\normalsize $\hat{\mathbf{y}}$}"),
        (plain("Müller, 日"), r"{\normalsize M\"{u}ller, \xgchar{65E5}}"),
        (symbol("日_b"), r"{\normalsize $\mbox{\textbf{\xgchar{65E5}}}_{\mathrm{b}}$}"),
    ],
)
def test_labels(text: RichText, written: str) -> None:
    assert label(typeset(text, 10.0).spans, "quiet") == written


def structure(data: bytes) -> tuple[str, list[str]]:
    """Return what is around the figure's elements, and how each of these begins."""
    around: list[str] = []
    elements: list[str] = []
    for line in data.decode().split("\n"):
        if line.startswith((r"\node", r"\path[")):
            elements.append(line.split("[")[0])
            outside = re.sub(r"\\[\\{}%#&$_]", "", line)
            assert outside.count("{") == outside.count("}"), line
            assert not re.search(r"[%#&]", outside), line
        elif not line.startswith("%"):
            around.append(re.sub(r"\d+(\.\d+)?", "0", line))
    return "\n".join(around), elements


def commands(data: bytes) -> set[str]:
    return {
        word
        for line in data.decode().split("\n")
        if not line.startswith("%")
        for word in re.findall(r"\\([a-zA-Z]+)", line)
    }


@pytest.mark.parametrize("text", [*HOSTILE, *NAMES[len(HOSTILE) :]])
def test_a_hostile_name_stays_text(text: str) -> None:
    data, harmless = (render(hostile_figure(name), "tex") for name in (text, "harmless"))
    assert structure(data) == structure(harmless)
    assert commands(data) - commands(harmless) <= {*LETTERS.split(), *SIGNS.split()}


def test_a_figure_too_large_for_tex_is_scaled() -> None:
    box = DrawnShape(rectangle(Box(0, 0, 56_000, 28_000)), line=Color.INK, width=4.0)
    text = DrawnText(typeset(plain("far"), 10.0), 50_000, 20_000)
    display = Display(56_000, 28_000, "Large", "", (Element("a", "node", "", (box, text)),))
    written = tex(display, LIGHT)
    assert "paperwidth=14000pt,paperheight=7000pt" in written
    assert "line width=1pt" in written
    assert "at (12500,5000)" in written
