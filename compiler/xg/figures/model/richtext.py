"""Rich text: short labels as runs of styled characters with subscripts and superscripts.

A label such as **W**_up⊤ [*D*, *D*_ff] is a tuple of runs. Nothing here knows how a run is drawn:
sizes, colors and fonts are chosen where text is typeset.
"""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, Literal
from unicodedata import normalize

from xg.diagnostics.lazy_dataclass import dataclass, replace

NOTE_SPACE: Final = "  "  # between a label and the note after it
Tag = Literal["", "forward", "backward"]


@dataclass(frozen=True, slots=True)
class StyledRun:
    """Characters of one style, and the scripts below and above their right end.

    Letters of `sub` may have subscripts of their own, after an underscore: B,S_k. Between
    words, as in layer_norm, an underscore is only itself.
    Runs with a `tag` are framed: the collective of a pass that a parameter takes part in.
    """

    text: str
    bold: bool = False
    italic: bool = False
    muted: bool = False
    sub: str = ""
    sup: str = ""
    tag: Tag = ""


RichText = tuple[StyledRun, ...]

_GREEK: Final = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ",
    "sigma": "σ", "tau": "τ", "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω",
    "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ",
    "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω",
}  # fmt: skip
_NESTED: Final = re.compile(r"_(?:(?<![^\W_A-Z]{2}_)|(?![^\W_A-Z]{2}))([^\W_]+)")
_ROOT: Final = re.compile(r"sqrt\((\w+)\)")
_NAME: Final = re.compile(r"\b[^\W\d]\w*\b(?!\()")  # no function, and no e of 1e-5
_TOKEN: Final = re.compile(r"([^\W\d]\w*|\s*\*\s*|.)(?:\^(\d+))?", re.DOTALL)


def scripts(sub: str) -> list[tuple[str, bool]]:
    """Return the parts of a subscript, and whether each is a subscript of the subscript.

    >>> scripts("B,S_k,N_H")
    [('B,S', False), ('k', True), (',N', False), ('H', True)]
    >>> scripts("K,self_attn_2")
    [('K,self_attn', False), ('2', True)]
    """
    parts = _NESTED.split(sub)
    return [(text, bool(place % 2)) for place, text in enumerate(parts) if text]


def plain(text: str) -> RichText:
    """Return upright text, as an operator's glyph is set."""
    return (StyledRun(text),) if text else ()


def bold(text: str) -> RichText:
    """Return bold text, the style of titles."""
    return (StyledRun(text, bold=True),) if text else ()


def muted(text: RichText) -> RichText:
    """Return the same text in the quiet color of shapes."""
    return tuple(replace(run, muted=True) for run in text)


def add_tag(text: RichText, tag: Tag) -> RichText:
    """Return the text in a frame of its own."""
    return tuple(replace(run, tag=tag) for run in text)


def symbol(
    name: str, *, gradient: bool = False, sup: str = "", index: str = "", is_word: bool = False
) -> RichText:
    """Return a tensor's symbol in bold, with the subscript that `split_name` finds.

    An `index` is the last of its subscripts. In a word, such as the name of an operator, only a
    number is one: layer_norm with a small 2.

    >>> symbol("W_up")
    (StyledRun(text='W', bold=True, italic=False, muted=False, sub='up', sup='', tag=''),)
    >>> [run.text for run in symbol("gamma_1", gradient=True)]
    ['d', 'γ']
    >>> characters(symbol("Delta"))
    'Δ'
    >>> symbol("hidden_states")[0].text
    'hidden_states'
    """
    base, sub = _split(name)
    if is_word:
        stem, _, digits = name.rpartition("_")
        base, sub = (stem, digits) if stem and digits.isdecimal() else (name, "")
    letter = StyledRun(base, bold=True, sub=",".join(filter(None, (sub, index))), sup=sup)
    return (StyledRun("d", italic=True), letter) if gradient else (letter,)


def dimension(expression: str) -> RichText:
    """Return a dim or an expression of dims: symbols in italics, a product as a centered dot.

    >>> [run.text + run.sub + run.sup for run in dimension("H*W/P^2")]
    ['H', '·', 'W', '/', 'P2']
    >>> characters(dimension("N_L - 1"))
    'N_L − 1'
    """
    return tuple(_dimension_run(*token) for token in _TOKEN.findall(expression))


def factor(expression: str) -> RichText:
    """Return a dim as a factor: a sum is in parentheses.

    >>> characters(factor("N_L - N_dense")), characters(factor("N_L/2"))
    ('(N_L − N_dense)', 'N_L/2')
    """
    text = dimension(expression)
    is_sum = any(sign in expression for sign in (" + ", " - "))
    return (*plain("("), *text, *plain(")")) if is_sum else text


def shape(dims: Iterable[str]) -> RichText:
    """Return a bracketed shape, muted: [*B*, *S*, *D*_ff/*N*_T]."""
    return (*muted(plain("[")), *listed_dimensions(dims), *muted(plain("]")))


def listed_dimensions(dims: Iterable[str]) -> RichText:
    """Return dims with commas between them, muted."""
    runs = (run for dim in dims for run in (*plain(", "), *dimension(dim)))
    return muted(tuple(runs)[1:])


def number(expression: str) -> RichText:
    """Return an expression for a number as people write it: 1/√D_h, −1.

    >>> characters(number("-1/sqrt(D_h)"))
    '−1/√D_h'
    """
    text = _ROOT.sub(r"√\1", expression).replace("sqrt", "√").replace("-", "−")
    return dimension(text) if _NAME.search(text) else plain(text)


def tensor(name: RichText, dims: Iterable[str] | None) -> RichText:
    """Return a symbol followed by its shape; either may be missing (`()` or `None`)."""
    if dims is None:
        return name
    return (*name, *(plain(" ") if name else ()), *shape(dims))


def before_shape(text: RichText) -> tuple[RichText, RichText]:
    """Return the symbol before a shape, and the shape with the text after it."""
    place = next((place for place, run in enumerate(text) if run.text == "["), 0)
    return text[:place], text[place:]


def characters(text: RichText) -> str:
    """Return the label as one plain string, W_up [D, D_ff], for titles and descriptions."""
    return "".join(
        run.text + (f"_{run.sub}" if run.sub else "") + (f"^{run.sup}" if run.sup else "")
        for run in text
    )


def title_text(title: str, subtitle: str) -> RichText:
    """Return a figure's heading: bold title, dash, subtitle."""
    return (*bold(title), *plain(f" — {subtitle}" if subtitle else ""))


def split_name(name: str) -> tuple[str, str]:
    """Split a name into its base and its subscript.

    A symbol's subscript begins at its first underscore. A name of words keeps its underscores, and
    only the numbers and letters at its end are a subscript.

    >>> split_name("W_up_1"), split_name("D_hidden"), split_name("gamma_in")
    (('W', 'up_1'), ('D', 'hidden'), ('gamma', 'in'))
    >>> split_name("output_hidden_states"), split_name("input_ids_2"), split_name("bias_Q")
    (('output_hidden_states', ''), ('input_ids', '2'), ('bias', 'Q'))
    """
    parts = name.split("_")
    words = 1
    if _is_word(parts[0]):
        words = max(place for place, part in enumerate(parts, 1) if _is_word(part))
    return "_".join(parts[:words]), "_".join(parts[words:])


def _is_word(part: str) -> bool:
    return len(part) > 1 and part.islower() and part not in _GREEK


def _split(name: str) -> tuple[str, str]:
    base, sub = split_name(name)
    return _GREEK.get(base, base), subscript(sub)


def subscript(name: str) -> str:
    """Return a name as a subscript: commas between its parts, words as they are.

    >>> subscript("up_1"), subscript("layer_norm_2"), subscript("in_alpha")
    ('up,1', 'layer_norm,2', 'in,α')
    """
    text = ""
    for before, part in pairwise(("", *name.split("_"))):
        text += ("_" if _is_word(before) and _is_word(part) else ",") if text else ""
        text += _GREEK.get(part, part)
    return text


def _dimension_run(token: str, power: str) -> StyledRun:
    if token.strip() == "*":
        return StyledRun("·")
    if token == "-":
        return StyledRun("−")
    if token[0].isalpha():
        base, sub = _split(token)
        return StyledRun(base, italic=True, sub=sub, sup=power)
    return StyledRun(token)


_LETTERS: Final = {greek: name for name, greek in _GREEK.items()} | {
    "•": "matmul", "⊕": "add", "⊙": "mul", "⊤": "T", "Σ": "sum", "×": "x", "→": "to",
}  # fmt: skip
_NO_LETTERS: Final = re.compile(r"[^A-Za-z0-9_]+")


def plain_name(text: str) -> str:
    """Return a text as a name of ASCII letters, digits, _ and -, as other programs want it.

    >>> plain_name("W_Q~2"), plain_name("•_1"), plain_name("γ_1^⊤"), plain_name("Größe")
    ('W_Q-2', 'matmul_1', 'gamma_1-T', 'Grosse')
    """
    spelled = "".join(_LETTERS.get(one, one) for one in text).replace("ß", "ss")
    base = normalize("NFKD", spelled).encode("ascii", "ignore").decode()
    return _NO_LETTERS.sub("-", base).strip("-")
