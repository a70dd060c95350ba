"""Colors of the language for Pygments, from the words of its grammar.

An entry point of the package: whatever colors code with Pygments knows `xg` once it is installed.
Nothing else imports it, because Pygments is no dependency.
"""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups, words  # pyright: ignore[reportUnknownVariableType]
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

from xg_grammar import literals

WORDS = sorted(literal for literal in literals() if literal.isalpha())


class XgLexer(RegexLexer):
    """Comments, texts, words, numbers, names behind arrows and colons, and signs."""

    name = "xg"
    aliases = ("xg",)
    filenames = ("*.xg",)
    tokens = {  # noqa: RUF012 - as RegexLexer wants it
        "root": [
            (r"#.*?$", Comment.Single),
            (r'"[^"\n]*"', String.Double),
            (words(WORDS, prefix=r"\b", suffix=r"\b"), Keyword),
            (r"(->)([ \t]*)([^\W\d]\w*)", bygroups(Operator.Word, Text, Name.Function)),
            (r"->|<=|<-|[•⊕⊙×±@]", Operator.Word),
            (r"\d+(?:\.\d+)?(?:e-?\d+)?", Number),
            (r"(:)([ \t]*)([^\W\d]\w*)", bygroups(Punctuation, Text, Name.Variable)),
            (r"[^\W\d]\w*", Name),
            (r"[][(){},;:.|]", Punctuation),
            (r"[-+*/^=<>_]", Operator),
            (r"\s+", Text),
            (r".", Text),
        ]
    }
