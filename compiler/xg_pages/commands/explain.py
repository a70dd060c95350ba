"""`xg explain`: a diagram with numbers as a page to read, or what an error means."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xg.cli.arguments import FILE_HELP, FileOrName, Rule, add_file, gives, natural, settings_of
from xg.cli.console import Console
from xg.cli.exits import FINE, PROBLEM, USAGE
from xg.diagnostics.terminal import counted, printable
from xg.frontend.project import Project

if TYPE_CHECKING:
    from xg.syntax import ast
    from xg_pages.explain.numbers import Bound
    from xg_pages.explain.page import ExplainedPage, TextTokens

EXAMPLE = "xg explain cat_sleeps -o cat_sleeps.html"


def add_arguments(parser: ArgumentParser) -> None:
    """A file, whose numbers, and where the page goes."""
    add_file(parser, plans=False, about=f"{FILE_HELP}; or the code of an error, such as XG0301")
    parser.add_argument(
        "-o",
        dest="out",
        metavar="PAGE",
        type=Path,
        help="write a page: .html or .md; default: print Markdown",
    )
    parser.add_argument(
        "--example", metavar="TITLE", help="show the numbers of this example; default: the first"
    )
    parser.add_argument(
        "--text",
        metavar="TEXT",
        help="use this text as the input, and show its words beside their numbers",
    )
    parser.add_argument(
        "--tokenizer",
        metavar="T",
        type=FileOrName,
        help="how to split --text: a tokenizer.json, bytes or characters; default: words "
        "between spaces",
    )
    parser.add_argument(
        "--seed",
        type=natural,
        metavar="N",
        help="draw the numbers with this seed instead of taking an example; default: 0 if "
        "the file has no example",
    )


RULES: Final = (Rule("--tokenizer", gives("text"), "splits a text: add --text TEXT"),)


ENDINGS = (".html", ".md")
CODE: Final = re.compile(r"xg\d{4}", re.IGNORECASE)


def run(options: Namespace, console: Console) -> int:
    """Compute, compose, write; or print the entry of an error."""
    if CODE.fullmatch(options.file):
        return _explain_error(options.file.upper(), console)
    from xg.cli.opening import open_project  # a page computes; an entry is only read
    from xg_pages.explain.html import compose, markdown
    from xg_runtime import files

    out: Path | None = options.out
    if out is not None and out.suffix not in ENDINGS:
        console.note(f"xg explain: {printable(str(out))} must end in {' or '.join(ENDINGS)}")
        return USAGE
    if options.example is not None and options.seed is not None:
        console.note("xg explain: choose --example or --seed, not both")
        return USAGE
    page = compose(_bound(open_project(options.file), options))
    if out is None:
        console.write(markdown(page))
        return FINE
    files.write(out, _written(page, out, console).encode("utf-8"))
    console.say(f"{out}: {_steps(page)}")
    return FINE


def _explain_error(code: str, console: Console) -> int:
    """Print the entry of a code in docs/errors.md, without the marks of Markdown."""
    package = Path(__file__).parents[2]
    shipped = package / "xg" / "errors.md"  # of a wheel; a checkout has the page itself
    page = shipped if shipped.is_file() else package.parent / "docs" / "errors.md"
    _, found, after = page.read_text(encoding="utf-8").partition(f"\n### {code}\n")
    if not found:
        console.note(f"xg explain: no error has the code {code}; docs/errors.md lists all codes")
        return PROBLEM
    entry = re.split(r"\n##+ ", after)[0].replace("```", "")
    console.say_lines(entry.strip().splitlines())
    return FINE


def _bound(project: Project, options: Namespace) -> Bound:
    """The numbers that are asked for; raises DiagnosticError, InputError."""
    from xg.frontend.examples import bind
    from xg_pages.explain.numbers import of_block, of_example
    from xg_runtime.errors import InputError

    example = _example(project, options) if options.seed is None else None
    if example is not None:
        return of_example(bind(project, example, settings_of(options)), _tokens(options))
    settings, seed = settings_of(options), options.seed or 0
    bound = of_block(project, options.block, settings, seed, _tokens(options))
    if bound is None:
        raise InputError(
            "the sizes of this file are too large to show every number: choose smaller ones "
            "with --set"
        )
    return bound


def _tokens(options: Namespace) -> TextTokens | None:
    """The words of the text that is asked for; raises InputError."""
    from xg_pages.explain.page import TextTokens
    from xg_runtime.errors import InputError
    from xg_runtime.tokens import Tokenizer, vocabulary_of

    if options.text is None:
        return None
    data = options.text.encode()
    match options.tokenizer:
        case None:
            tokens = TextTokens.of(options.text, None)
        case "bytes" | "characters":
            level = "byte" if options.tokenizer == "bytes" else "char"
            tokens = TextTokens.of(options.text, vocabulary_of(data, level))
        case path:
            tokens = TextTokens.of(options.text, Tokenizer.read(Path(path)))
    if len(tokens.words) < 2:
        raise InputError("--text needs at least two tokens: write more words")
    return tokens


def _example(project: Project, options: Namespace) -> ast.Example | None:
    """The example that is asked for, or the first; None for a block without examples."""
    from xg_runtime.errors import InputError

    own = [e for e in project.main.examples if options.block in (None, e.block.name)]
    titles = {example.title.value: example for example in reversed(own) if example.title}
    if options.example is None:
        return own[0] if own else None
    if options.example not in titles:
        listing = ", ".join(f'"{title}"' for title in reversed(titles)) or "none"
        raise InputError(f'no example is called "{options.example}"; there are: {listing}')
    return titles[options.example]


def _written(page: ExplainedPage, out: Path, console: Console) -> str:
    from xg_pages.explain.html import html, markdown

    if out.suffix == ".md":
        return markdown(page)
    written = html(page)
    for warning in written.warnings:
        console.note(f"warning: {warning}")
    return written.text


def _steps(page: ExplainedPage) -> str:
    forward = sum(len(section.forward.steps) for section in page.sections)
    back = sum(len(section.backward.steps) for section in page.sections if section.backward)
    return f"{counted(forward, 'step')} forward, {back} backward"
