"""Write a display list as a TikZ document that compiles by itself or inside another.

Boxes and arrows are where the other formats have them. Text is the document's own: in its fonts, at
its sizes, centered or aligned where ours is; text that is wider than its room is scaled to fit.

A paper can change it without editing the file: it defines the colors or styles before it reads the
file, and `\\xgextra` with more to draw, from and to the nodes by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple
from unicodedata import normalize

from xg.diagnostics import escape
from xg.figures.draw.font import TextSpan, line_bounds
from xg.figures.draw.glyph import Display, DrawnShape, DrawnText, Element
from xg.figures.formats.svg import number
from xg.figures.model.figure import Color, DrawnPath, Theme, bounding_box
from xg.figures.model.richtext import scripts

# Labels in LaTeX: symbols and shapes as math, words as text, no character with a meaning.
#
# Only commands of the LaTeX kernel are used, so that the document's own fonts set every label.


_SIZES: Final = (
    (14.0, r"\Large"),
    (12.0, r"\large"),
    (10.0, r"\normalsize"),
    (9.0, r"\small"),
    (8.0, r"\footnotesize"),
    (0.0, r"\scriptsize"),
)  # those of a document of 10 points
_GREEK: Final = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "ζ": "zeta",
    "η": "eta", "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu",
    "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "υ": "upsilon", "φ": "varphi",
    "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta",
    "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Υ": "Upsilon", "Φ": "Phi", "Ψ": "Psi",
    "Ω": "Omega",
}  # fmt: skip
_NAMED: Final = {
    "⊤": "top", "·": "cdot", "•": "bullet", "⊕": "oplus", "⊙": "odot", "⊗": "otimes",
    "×": "times", "√": "surd", "→": "rightarrow", "←": "leftarrow", "⇒": "Rightarrow",
    "⇐": "Leftarrow", "↔": "leftrightarrow", "∂": "partial", "≤": "leq", "≥": "geq", "≠": "neq",
    "≈": "approx", "∞": "infty", "∈": "in", "∑": "sum", "∏": "prod", "…": "ldots",
    "●": "bullet", "÷": "div", "±": "pm", "∇": "nabla", "∀": "forall", "∃": "exists",
}  # fmt: skip
_SIGNS: Final = {
    "=": "{=}", "+": "{+}", "*": "{*}", "<": "{<}", ">": "{>}", "|": "{|}", ":": "{:}",
    "(": "(", ")": ")", "[": "[", "]": "]", "/": "/", ".": ".", "−": "{-}", "-": "{-}",
    ",": ",", ", ": ", ", " ": r"\ ", "_": r"{\_}", "²": "^{2}", "³": "^{3}", "¹": "^{1}",
} | {sign: f"{{\\{name}}}" for sign, name in _NAMED.items()}  # fmt: skip
# A combining mark as an accent of text and of math.
_MARKS: Final = {
    "\u0300": ("`", "grave"), "\u0301": ("'", "acute"), "\u0302": ("^", "hat"),
    "\u0303": ("~", "tilde"), "\u0304": ("=", "bar"), "\u0306": ("u", "breve"),
    "\u0307": (".", "dot"), "\u0308": ('"', "ddot"), "\u030c": ("v", "check"),
}  # fmt: skip
_LETTERS: Final = {
    "#": r"\#{}", "$": r"\${}", "%": r"\%{}", "&": r"\&{}", "_": r"\_{}", "{": r"\{",
    "}": r"\}", "\\": r"\textbackslash{}", "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': "{''}", "`": r"\`{}", "'": "{'}", "-": "{-}", ",": ",", ", ": ", ", "—": "{---}",
    "–": "{--}", "…": r"\ldots{}", "’": "{'}", "“": "{``}", "”": "{''}", "ß": r"\ss{}",
    "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}",
    "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}", "\xa0": "~",
}  # fmt: skip
_CLUSTER: Final = re.compile(", |[A-Za-z]+(?![\u0300-\u036f])|[0-9]+|.[\u0300-\u036f]*", re.DOTALL)
_PLAIN: Final = re.compile(r"[A-Za-z0-9 ()\[\]/.:;!?=+*@]")
_SYMBOL: Final = re.compile(r"[^\W_]+")
_UNKNOWN: Final = r"\xgchar{"


class _Atom(NamedTuple):
    """A span on the baseline with its scripts; a lower subscript follows an underscore."""

    base: TextSpan
    sub: str
    sup: str

    @property
    def is_math(self) -> bool:
        if self.sub or self.sup:
            return True
        if self.base.italic:
            return " " not in self.base.text  # words of a note are text
        if self.base.bold:
            return _SYMBOL.fullmatch(self.base.text) is not None
        return all(sign in _SIGNS or sign in _GREEK or sign.isdigit() for sign in self.base.text)


def label(spans: Sequence[TextSpan], muted: str) -> str:
    """Return a line's spans as LaTeX, in sizes of the document; muted ones in the color `muted`.

    A character that LaTeX has no name for is written as `\\xgchar{its code}`.
    """
    parts: list[str] = []
    for (size, quiet), atoms in groupby(_atoms(spans), lambda a: (_size(a.base), a.base.muted)):
        inner = ""
        for is_math, group in groupby(atoms, lambda atom: atom.is_math):
            if is_math:
                math = "".join(map(_math_atom, group))
                # TeX drops a space at the end of a formula.
                inner += f"${math[:-1]}\\ $" if math.endswith(", ") else f"${math}$"
            else:
                inner += "".join(map(_text_atom, group))
        color = f"\\color{{{muted}}}" if quiet and muted else ""
        parts.append(f"{{{size}{color} {inner}}}")
    return "".join(parts)


def _atoms(spans: Sequence[TextSpan]) -> Iterator[_Atom]:
    """Give every span its scripts: the spans below and above the baseline that follow it."""
    atom: _Atom | None = None
    lowest = 0.0  # where the subscript is; what is lower is its own
    for span in spans:
        if atom is None or span.y == 0:
            if atom is not None:
                yield atom
            atom = _Atom(span, "", "")
        elif span.y > 0:
            is_nested = bool(atom.sub) and span.y > lowest
            lowest = span.y if not atom.sub else lowest
            atom = atom._replace(sub=atom.sub + "_" * is_nested + span.text)
        else:
            atom = atom._replace(sup=atom.sup + span.text)
    if atom is not None:
        yield atom


def _size(span: TextSpan) -> str:
    return next(name for least, name in _SIZES if span.size >= least)


def _text_atom(atom: _Atom) -> str:
    text = _text_in_face(atom.base.text, bold=atom.base.bold)
    return f"\\ \\textit{{{text.lstrip()}}}" if atom.base.italic else text


def _math_atom(atom: _Atom) -> str:
    text, face = atom.base.text, "bold" if atom.base.bold else "it" if atom.base.italic else "rm"
    below = "".join(
        f"_{{{_math(part, 'rm', script=True)}}}" if is_nested else _math(part, "rm", script=True)
        for part, is_nested in scripts(atom.sub)
    )
    sub = f"_{{{below}}}" if below else ""
    sup = f"^{{{_math(atom.sup, 'rm', script=True)}}}" if atom.sup else ""
    base = _math(text, face)
    return f"{{{base}}}{sub}{sup}" if (sub or sup) and "^" in base else base + sub + sup


def _math(text: str, face: str, *, script: bool = False) -> str:
    """Return math for a text; one with other characters than math has is set as text in it."""
    pieces = [_math_piece(match[0], face) for match in _CLUSTER.finditer(escape.clean(text))]
    known = [piece for piece in pieces if piece is not None]
    if len(known) == len(pieces):
        return "".join(known)
    size = r"\scriptsize " if script else ""
    return f"\\mbox{{{size}{_text_in_face(text, bold=face == 'bold')}}}"


def _math_piece(cluster: str, face: str) -> str | None:
    if cluster.isascii() and cluster.isalpha():
        if face == "it" and len(cluster) == 1:
            return cluster
        return f"\\math{'bf' if face == 'bold' else face}{{{cluster}}}"
    if cluster.isascii() and cluster.isdigit():
        return f"\\mathbf{{{cluster}}}" if face == "bold" else cluster
    if cluster in _GREEK:
        name = f"\\{_GREEK[cluster]}"
        return f"\\mbox{{\\boldmath${name}$}}" if face == "bold" else f"{{{name}}}"
    base, *marks = normalize("NFD", cluster)
    if not marks or marks[0].isascii():
        return _SIGNS.get(cluster)
    inside = _math_piece(base, face)
    return _add_accents(inside, marks) if inside else None


def _add_accents(inside: str, marks: Sequence[str]) -> str | None:
    for mark in marks:
        if mark not in _MARKS:
            return None
        inside = f"\\{_MARKS[mark][1]}{{{inside}}}"
    return inside


def _text_in_face(text: str, *, bold: bool) -> str:
    words = "".join(_text(match[0]) for match in _CLUSTER.finditer(escape.clean(text)))
    return f"\\textbf{{{words}}}" if bold else words


def _text(cluster: str) -> str:
    """Return text for one character with its marks, or for letters or digits as they are."""
    if cluster in _LETTERS:
        return _LETTERS[cluster]
    if all(map(_PLAIN.fullmatch, cluster)):
        return cluster
    if cluster in _SIGNS or cluster in _GREEK:
        return f"${_math_piece(cluster, 'rm')}$"
    base, *marks = normalize("NFD", cluster)
    if marks and all(mark in _MARKS for mark in marks):
        if base.isascii() and base.isalpha():
            letter = f"\\{base}" if base in "ij" else base
            for mark in marks:
                letter = f"\\{_MARKS[mark][0]}{{{letter}}}"
            return letter
        if base in _GREEK:
            return f"${_add_accents(_math_piece(base, 'rm') or '', marks)}$"
    return "".join(f"{_UNKNOWN}{ord(character):X}}}" for character in cluster)


SIGN: Final = "% Drawn by xg: "  # how each document begins
_LARGEST_SIDE: Final = 14_000.0  # points; TeX has no lengths above 16,383
_ROUND: Final = ("matmul", "add", "mul")  # kinds of nodes
_SLACK: Final = 2.0  # points by which text may be wider than measured

# Behind \begin{document} the kernel's \@nodocument is \relax: then this is a part of that document.
_HEAD: Final = r"""% Compiles by itself, and can be \input where \usepackage{{tikz}} is loaded.
% Before you \input it, you may define its colors and styles, and more to draw:
% \definecolor{{xgink}}{{HTML}}{{003366}}
% \tikzset{{xg nonlinear/.style={{fill=yellow!20}}, xg edge/.style={{line width=2pt}}}}
% \def\xgextra{{\draw[->] ({example}) -- +(40,0);}}
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
_FOOT: Final = r"""\csname xgextra\endcsname
\end{tikzpicture}%
\xgend
"""


def tex(display: Display, theme: Theme) -> str:
    """Write a display list as LaTeX; a figure that is too large for TeX gets a smaller scale."""
    named = list(zip(display.elements, display.names(), strict=True))
    nodes = (name for one, name in named if _is_node(one))
    scale = min(1.0, _LARGEST_SIDE / max(display.width, display.height))
    width, height = _length(display.width, scale), _length(display.height, scale)
    lines = [
        SIGN + escape.clean(display.title),
        _HEAD.format(width=width, height=height, example=next(nodes, "X").removeprefix("node-")),
        *(
            f"\\providecolor{{{_name(one)}}}{{HTML}}{{{theme.colors[one][1:]}}}"
            for one in display.colors()
        ),
        f"\\path[use as bounding box] (0,0) rectangle ({width},{height});",
    ]
    if theme.colors[Color.BACKGROUND] != "#FFFFFF":  # a white page is paper: leave it blank
        lines.append(f"\\fill[{_name(Color.BACKGROUND)}] (0,0) rectangle ({width},{height});")
    for element, name in named:
        lines.append(f"% {escape.clean(f'{element.kind} {element.op}').rstrip()}")
        for part in element.parts:
            lines += (
                _text_nodes(part, scale)
                if isinstance(part, DrawnText)
                else [_shape(part, _style(element, part), scale)]
            )
        if _is_node(element) and element.parts:
            lines.append(_named_node(element, name.removeprefix("node-"), scale))
    return "\n".join(lines) + f"\n{_FOOT}"


def _length(value: float, scale: float) -> str:
    return number(value * scale)


def _name(color: Color) -> str:
    return "xg" + color.replace("-", "")


def _is_node(element: Element) -> bool:
    return element.kind.startswith("node ")


def _style(element: Element, shape: DrawnShape) -> str:
    """Return the style that a paper may define: for a kind of node, an edge or an arrowhead."""
    kind = element.kind.removeprefix("node ")
    return "xg head" if kind == "edge" and shape.fill is not None else f"xg {kind}"


def _named_node(element: Element, name: str, scale: float) -> str:
    """Return an empty node where an element is, for lines from and to it."""
    box = bounding_box(
        part.path.bounds()
        if isinstance(part, DrawnShape)
        else line_bounds(part.line, part.x, part.y)
        for part in element.parts
    )
    width, height = (_length(size, scale) for size in (box.right - box.left, box.bottom - box.top))
    shape = "circle," if element.kind.removeprefix("node ") in _ROUND else ""
    x, y = (_length(value, scale) for value in box.center)
    size = f"minimum width={width}pt,minimum height={height}pt"
    return f"\\node[{shape}{size}] ({name}) at ({x},{y}) {{}};"


def _shape(shape: DrawnShape, style: str, scale: float) -> str:
    options: list[str] = []
    if shape.fill is not None:
        options.append(f"fill={_name(shape.fill)}")
    if shape.line is not None:
        options.append(f"draw={_name(shape.line)},line width={_length(shape.width, scale)}pt")
    if shape.dashes:
        on, off = (f"{_length(each, scale)}pt" for each in shape.dashes)
        options.append(f"dash pattern=on {on} off {off}")
    options.append(f"{style}/.try")
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


def _text_nodes(text: DrawnText, scale: float) -> Iterator[str]:
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
            f"\\node[anchor=base{side},text={_name(text.color)},xg text/.try]"
            f" at ({x},{_length(text.y, scale)}) {{\\xgfit{{{room}pt}}{{{label(spans, muted)}}}}};"
        )
