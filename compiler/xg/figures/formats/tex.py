"""TikZ: a display list as a LaTeX document that compiles by itself and can be read into another.

Boxes and arrows are where the other formats have them. Text is the document's own: in its fonts, at
its sizes, centred or aligned where ours is; text that is wider than its room is scaled to fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from xg.diagnostics import escape
from xg.figures.draw.display import Display, DrawnShape, DrawnText
from xg.figures.formats.svg import number
from xg.figures.formats.tex_text import label
from xg.figures.model.geometry import DrawnPath
from xg.figures.model.style import Color, Theme

SIGN: Final = "% Drawn by xg: "  # how each document begins
_LARGEST_SIDE: Final = 14_000.0  # points; TeX has no lengths above 16,383
_SLACK: Final = 2.0  # points by which text may be wider than measured

# Behind \begin{document} the kernel's \@nodocument is \relax: then this is a part of that document.
_HEAD: Final = r"""% Compiles by itself, and can be \input where \usepackage{{tikz}} is loaded.
\expandafter\ifx\csname @nodocument\endcsname\relax
  \let\xgbegin\relax \let\xgend\relax
\else
  \documentclass{{article}}
  \usepackage[paperwidth={width}pt,paperheight={height}pt,margin=0pt]{{geometry}}
  \usepackage{{tikz}}
  \def\xgbegin{{\begin{{document}}\pagestyle{{empty}}\parindent0pt}}
  \def\xgend{{\end{{document}}}}
\fi
\xgbegin
\begin{{tikzpicture}}[x=1pt,y=-1pt,every node/.style={{inner sep=0pt,outer sep=0pt}}]
% \xgfit{{room}}{{text}}: text, not wider than its room; \xgchar{{code}}: a character without a name
\def\xgfit#1#2{{\setbox2\hbox{{#2}}\ifdim\wd2>#1\resizebox{{#1}}{{!}}{{\box2}}\else\box2\fi}}
\def\xgcode#1{{{{\scriptsize U+#1}}}}
\def\xgchar#1{{\ifdefined\Uchar
  \iffontchar\font"#1 \Uchar"#1 \else\xgcode{{#1}}\fi\else\xgcode{{#1}}\fi}}"""
_FOOT: Final = r"""\end{tikzpicture}%
\xgend
"""


def tex(display: Display, theme: Theme) -> str:
    """Write a display list as LaTeX; a figure that is too large for TeX gets a smaller scale."""
    scale = min(1.0, _LARGEST_SIDE / max(display.width, display.height))
    width, height = _length(display.width, scale), _length(display.height, scale)
    lines = [
        SIGN + escape.clean(display.title),
        _HEAD.format(width=width, height=height),
        *(
            f"\\definecolor{{{_name(one)}}}{{HTML}}{{{theme.colors[one][1:]}}}"
            for one in display.colors()
        ),
        f"\\path[use as bounding box] (0,0) rectangle ({width},{height});",
    ]
    if theme.colors[Color.BACKGROUND] != "#FFFFFF":  # a white page is paper: leave it blank
        lines.append(f"\\fill[{_name(Color.BACKGROUND)}] (0,0) rectangle ({width},{height});")
    for element in display.elements:
        lines.append(f"% {escape.clean(f'{element.kind} {element.op}').rstrip()}")
        for part in element.parts:
            lines += _text(part, scale) if isinstance(part, DrawnText) else [_shape(part, scale)]
    return "\n".join(lines) + f"\n{_FOOT}"


def _length(value: float, scale: float) -> str:
    return number(value * scale)


def _name(color: Color) -> str:
    return "xg" + color.replace("-", "")


def _shape(shape: DrawnShape, scale: float) -> str:
    options: list[str] = []
    if shape.fill is not None:
        options.append(f"fill={_name(shape.fill)}")
    if shape.line is not None:
        options.append(f"draw={_name(shape.line)},line width={_length(shape.width, scale)}pt")
    if shape.dashes:
        on, off = (f"{_length(each, scale)}pt" for each in shape.dashes)
        options.append(f"dash pattern=on {on} off {off}")
    return f"\\path[{','.join(options)}] {_path(shape.path, scale)};"


def _path(path: DrawnPath, scale: float) -> str:
    def point(x: float, y: float) -> str:
        return f"({_length(x, scale)},{_length(y, scale)})"

    steps = [point(*path.start)]
    for segment in path.segments:
        if segment.controls is None:
            steps.append(f"-- {point(*segment.end)}")
        else:
            first, second = segment.controls
            steps.append(
                f".. controls {point(*first)} and {point(*second)} .. {point(*segment.end)}"
            )
    return " ".join(steps) + (" -- cycle" if path.closed else "")


def _text(text: DrawnText, scale: float) -> Iterator[str]:
    """Write a line as one node; beside a tag each part by itself, so that its frame fits."""
    parts = [list(group) for _, group in groupby(text.line.spans, lambda span: span.tag)]
    for spans in parts:
        left, right = spans[0].x, max(span.x + span.width for span in spans)
        place, side = text.align if len(parts) == 1 else 0.5, ""
        if place != 0.5:
            side = " east" if place else " west"
        x = _length(text.x + left + place * (right - left), scale)
        room = _length(right - left + _SLACK, scale)
        muted = "" if text.color is Color.MUTED else _name(Color.MUTED)
        yield (
            f"\\node[anchor=base{side},text={_name(text.color)}] at ({x},{_length(text.y, scale)})"
            f" {{\\xgfit{{{room}pt}}{{{label(spans, muted)}}}}};"
        )
