"""Completion for zsh, as a file of its function path or evaluated at its start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xg.cli.shells.words import CommandWords, GivenValue, GivenWord, Option

HEAD = """\
#compdef xg
# Completion of xg for zsh. In ~/.zshrc, after compinit: eval "$(xg completion zsh)"
_xg_library() {
    local -a names
    names=(@library@)
    compadd "$@" -a names
}
_xg_diagrams() {
    _alternative 'files:file:_files -g "*.xg"' 'names:shipped diagram:_xg_library'
}
_xg() {
    local -a commands
    commands=(
@commands@    )
    if (( CURRENT == 2 )); then
        _describe -t commands command commands
        _arguments '(- *)--help[list the commands]' '(- *)--version[print the version]'
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
"""
FOOT = """\
    esac
}
if [[ $funcstack[1] == _xg ]]; then _xg "$@"; else compdef _xg xg; fi
"""


def zsh(commands: Sequence[CommandWords], library: Sequence[str]) -> str:
    """The script that zsh reads."""
    listed = "".join(f"        {_quoted(f'{each.name}:{each.about}')}\n" for each in commands)
    head = HEAD.replace("@library@", " ".join(library)).replace("@commands@", listed)
    cases = "".join(
        f"        {command.name})\n            _arguments -S{''.join(_specified(command))} ;;\n"
        for command in commands
    )
    return head + cases + FOOT


def _specified(command: CommandWords) -> Iterator[str]:
    specs = [
        *(spec for option in command.options for spec in _option(option)),
        *(_operand(place, each) for place, each in enumerate(command.operands, 1)),
    ]
    for spec in specs:
        yield f" \\\n                {_quoted(spec)}"


def _option(option: Option) -> Iterator[str]:
    others = " ".join(option.spellings)
    for spelling in option.spellings:
        before = "*" if option.repeated else f"({others})"
        joined = "=" if option.value is not None and spelling.startswith("--") else ""
        value = f":{_offered(option.value)}" if option.value is not None else ""
        yield f"{before}{spelling}{joined}[{_plain(option.about)}]{value}"


def _operand(place: int, operand: GivenWord) -> str:
    if operand.count in "*+":
        return f"*:{_offered(operand.value)}"
    return f"{place}:{':' * (operand.count == '?')}{_offered(operand.value)}"


def _offered(value: GivenValue) -> str:
    words = " ".join(value.words)
    return (
        f"{_plain(value.name)}:"
        + {
            "nothing": "()",
            "one": f"({words})",
            "list": f"_values -s , {value.name.partition(',')[0]} {words}",
            "diagram": "_xg_diagrams",
            "shipped": "_xg_library",
            "xg": '_files -g "*.xg"',
            "file": "_files",
            "folder": "_files -/",
        }[value.kind]
    )


def _plain(text: str) -> str:
    """A text without the signs that have a meaning in a specification."""
    return "".join(f"\\{sign}" if sign in "\\[]:" else sign for sign in text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
