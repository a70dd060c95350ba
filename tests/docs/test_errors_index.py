"""docs/errors.md has an entry for every error; `./dev docs` writes it from the golden cases."""

import pkgutil
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from xg.diagnostics.diagnostic import Problem, render
from xg.diagnostics.limits import Limit
from xg.frontend.choices import check_choices
from xg.frontend.project import parse_project
from xg.packages import packages

INDEX = Path(__file__).parents[2] / "docs" / "errors.md"

HEAD = """\
# Errors

Search words: error code, message, diagnostic, warning, what does this mean, fix, troubleshooting.

xg prints the code of each error: `error[XG0301]`. This page says what each code means and shows
an example: a message, the line that it is about and, after `=`, the fix. Words in capitals stand
for those of your program. `xg explain XG0301` prints one entry in the terminal.

A code never changes its meaning, so programs can rely on it: `xg check --json` and
`xg check --format sarif` have it too.

<!-- ./dev docs writes this page from the errors and their golden cases. -->
"""
TESTS = Path(__file__).parents[1]
WORDS = 4  # a message with fewer says too little
# Errors that no golden case shows, because other stages report them; each has its program here.
PROGRAMS = {
    "XG0401": (
        "dim B, D = 6, N_H = 4, D_h = D/N_H\n"
        "block F(x [B, D_h]) -> y [B, D_h] {\n    x -> tanh : y\n}\n"
    ),
    "XG0254": (
        "dim B\nop norm(x [B]) = sum[D](x)\nblock F(x [B]) -> y [B] {\n    x -> norm : y\n}\n"
    ),
    "XG0255": (
        "dim B\nop first(x, z) = x + 1\nblock F(x [B]) -> y [B] {\n    x, x -> first : y\n}\n"
    ),
    "XG0258": (
        "dim B\nop power(x, z) = x^z\nblock F(x [B]) -> y [B] {\n    x, x -> power : y\n}\n"
    ),
    "XG0259": (
        "dim B\nop scale(x) = x * (1/0)\nblock F(x [B]) -> y [B] {\n    x -> scale : y\n}\n"
    ),
    "XG0276": (
        "dim B, D\nop decay(x [B, D]) = x * (D - 5)^range[B]\n"
        "block F(x [B, D]) -> y [B, D] {\n    x -> decay : y\n}\n"
    ),
}


def problem_classes() -> list[type[Problem]]:
    """Every kind of error once, by code."""
    for name in ("xg", *(package.name for package in packages())):
        for module in pkgutil.walk_packages(import_module(name).__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    kinds = {kind.__qualname__: kind for kind in _below(Problem) if "code" in vars(kind)}
    return sorted(kinds.values(), key=lambda kind: kind.code)


def _below(kind: type[Problem]) -> Iterator[type[Problem]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from _below(sub)


def _index() -> str:
    cases = _cases()
    sections: dict[str, list[str]] = {}
    for kind in problem_classes():
        sections.setdefault(kind.__module__, []).append(_entry(kind, cases.get(kind.code)))
    parts = [HEAD]
    for module, entries in sections.items():
        title = _first_paragraph(sys.modules[module].__doc__).split(":")[0].split(" (XG")[0]
        parts += [f"## {title.rstrip('.')}\n", *entries]
    return "\n".join(parts)


def _entry(kind: type[Problem], case: str | None) -> str:
    """A heading to link to, what the error means, and an example.

    A template is general, so its message says what the error means.
    """
    shown = _brief(case or _template(kind), line=not issubclass(kind, Limit))
    code = f"```\n{shown}\n```\n" if shown else ""
    is_general = not case and len(re.findall(r"\b[a-z]+\b", shown.partition("\n")[0])) >= WORDS
    meaning = "" if is_general else f"{_first_paragraph(kind.__doc__)}\n"
    return f"### {kind.code}\n{meaning}{code}"


def _brief(message: str, *, line: bool) -> str:
    """The message, the line that it is about and the fixes, without places and carets."""
    first, *rest = message.splitlines() or [""]
    shown = [re.sub(r"^(?:error|(warning))\[\w+\](?(1)|: )", r"\1", first)]
    lines = [each.partition("│")[2].strip() for each in rest if re.match(r" *\d+│", each)]
    shown += [f"    {each}" for each in lines[:1] if line]
    fixes = [each.partition("= help: ")[2] for each in rest if "= help: " in each]
    return "\n".join([*shown, *(f"= {fix}" for fix in fixes)])


def _cases() -> dict[str, str]:
    """The shortest message of each code among the golden cases, one with a fix if there is one."""
    shown: dict[str, list[str]] = {}
    for file in sorted(TESTS.rglob("*.err")):
        text = file.read_text(encoding="utf-8").replace(f"{file.stem}.xg", "model.xg")
        for message in re.split(r"\n+(?=(?:error|warning)\[XG)", text):
            shown.setdefault(message.partition("[")[2][:6], []).append(message.rstrip())
    for code, text in PROGRAMS.items():
        (found,) = check_choices(parse_project(text.encode(), "model.xg"))
        assert found.code == code
        shown[code] = [render([found], color=False)]
    return {code: min(messages, key=_length) for code, messages in shown.items()}


def _length(message: str) -> tuple[bool, int, int, str]:
    return "= help:" not in message, message.count("\n"), len(message), message


def _template(kind: type[Problem]) -> str:
    """A message with words in capitals for what a program decides; "" for one that is computed."""
    title: str | None = getattr(kind, "title", None)
    if not isinstance(title, str):
        return ""
    if issubclass(kind, Limit):
        title = f"{kind.said.format('N')}; at most {kind.maximum:,} are allowed"
    fixes = (kind.fix,) if isinstance(kind.fix, str) else kind.fix
    lines = [f"{kind.severity}[{kind.code}]: {title}", *(f" = help: {fix}" for fix in fixes)]
    return re.sub(r"\{([\w.]+)(?:![qj])?\}", _placeholder, "\n".join(lines))


def _placeholder(field: re.Match[str]) -> str:
    """The word for a field: `{span.text!q}` is what the program says there, `{axis}` is AXIS."""
    return "TEXT" if field[1].endswith(".text") else field[1].rpartition(".")[2].upper()


def _first_paragraph(text: str | None) -> str:
    assert text
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return paragraph.replace("``", "`")


def test_the_index_is_complete(golden: Callable[[Path, str], None]) -> None:
    golden(INDEX, _index())


def test_no_code_is_given_twice() -> None:
    counts = Counter(kind.code for kind in problem_classes())
    assert [code for code, count in counts.items() if count > 1] == []


def test_codes_have_one_form() -> None:
    assert all(re.fullmatch(r"XG0\d{3}", kind.code) for kind in problem_classes())
