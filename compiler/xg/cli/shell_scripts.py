"""Read the words of the command line from the parsers, and write completion scripts of shells."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from xg.cli.arguments import Diagram, FileOrName, OneOrMore, Shipped, XgFile
from xg.cli.command_list import commands
from xg.cli.dispatch import command_of, parser_of
from xg.diagnostics.lazy_dataclass import dataclass

Kind = Literal["nothing", "one", "list", "diagram", "shipped", "xg", "file", "folder"]
FOLDERS = ("DIR", "FOLDER")
KINDS: Final[dict[object, Kind]] = {
    Diagram: "diagram",
    Shipped: "shipped",
    XgFile: "xg",
    FileOrName: "file",
    Path: "file",
}


@dataclass(frozen=True, slots=True)
class GivenValue:
    """A word given to an option, or by itself: its name, its kind, the words to choose from."""

    name: str
    kind: Kind
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its spellings, what it is for, its value if it has one."""

    spellings: tuple[str, ...]
    about: str
    value: GivenValue | None
    repeated: bool  # it may be given several times


@dataclass(frozen=True, slots=True)
class GivenWord:
    """A word without a dash: its value, what it is for, how many there may be."""

    value: GivenValue
    about: str
    count: Literal["1", "?", "*", "+"]


@dataclass(frozen=True, slots=True)
class CommandWords:
    """A command: what it does, its options and operands, a line that works."""

    name: str
    about: str
    operands: tuple[GivenWord, ...]
    options: tuple[Option, ...]
    example: str


def all_commands() -> tuple[CommandWords, ...]:
    """Every command, as its parser declares it."""
    return tuple(_command(name, about) for name, about in commands().items())


def _command(name: str, about: str) -> CommandWords:
    command = command_of(name)
    actions = declared(parser_of(name, command))
    return CommandWords(
        name,
        about,
        tuple(_operand(one) for one in actions if not one.option_strings),
        tuple(_option(one) for one in actions if one.option_strings),
        command.EXAMPLE,
    )


def declared(parser: ArgumentParser) -> list[Action]:
    """The arguments of a parser; argparse has no public name for them."""
    return [each for each in parser._actions if each.help is not SUPPRESS]  # pyright: ignore[reportPrivateUsage]


def _operand(action: Action) -> GivenWord:
    count = action.nargs if action.nargs in ("?", "*", "+") else "1"
    return GivenWord(_value(action), action.help or "", count)


def _option(action: Action) -> Option:
    value = None if action.nargs == 0 else _value(action)
    repeated = type(action).__name__ == "_AppendAction"
    return Option(tuple(action.option_strings), action.help or "", value, repeated)


def _value(action: Action) -> GivenValue:
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    name = metavar or action.dest.upper()
    if action.choices is not None:
        return GivenValue(metavar or "WORD", "one", tuple(map(str, action.choices)))
    if isinstance(action.type, OneOrMore):
        return GivenValue(name, "list", tuple(action.type.known))
    if action.type is Path and name in FOLDERS:
        return GivenValue(name, "folder")
    return GivenValue(name, KINDS.get(action.type, "nothing"))


# Write the completion scripts of bash (from 3.2 on, which macOS has), zsh and fish.


BASH_HEAD = """\
# Completion of xg for bash. In ~/.bashrc: eval "$(xg completion bash)"
_xg_reply() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do COMPREPLY+=("$word"); done
}
_xg_words() { _xg_reply < <(compgen -W "$1" -- "$current"); }
_xg_list() {
    local before=
    [[ $current == *,* ]] && before=${current%,*},
    _xg_reply < <(compgen -P "$before" -W "$1" -- "${current##*,}")
    compopt -o nospace 2>/dev/null
}
_xg_folders() {
    compopt -o filenames 2>/dev/null
    _xg_reply < <(compgen -d -- "$current")
}
_xg_files() {
    compopt -o filenames 2>/dev/null
    _xg_reply < <(compgen -f -- "$current")
}
_xg_diagrams() {
    compopt -o filenames 2>/dev/null
    _xg_reply < <(
        compgen -d -- "$current"
        compgen -f -X '!*.xg' -- "$current"
        compgen -W "$1" -- "$current"
    )
}
_xg_operands() {
    case $command in
"""
OPTIONS = """\
    esac
}
_xg_options() {
    case $command in
"""
MAIN = """\
    esac
}
_xg() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
    local command=${COMP_WORDS[1]}
    # bash takes --color=never for three words
    if [[ $current == = ]]; then
        current=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD-2]}
    fi
    COMPREPLY=()
    if [[ $COMP_CWORD == 1 ]]; then
        _xg_words "$_xg_commands"
        return
    fi
    case $command:$before in
"""
FOOT = """\
        *) if [[ $current == -* ]]; then _xg_options; else _xg_operands; fi ;;
    esac
}
complete -F _xg xg
"""


def bash(commands: Sequence[CommandWords], library: Sequence[str]) -> str:
    """The script that bash reads."""
    names = " ".join(command.name for command in commands)
    operands = "".join(
        f"        {command.name}) {_bash_words(command.operands[0].value)} ;;\n"
        for command in commands
        if command.operands and command.operands[0].value.kind != "nothing"
    )
    options = "".join(
        f'        {each.name}) _xg_words "{_option_words(each)}" ;;\n' for each in commands
    )
    values = "".join(line for command in commands for line in _values(command))
    lists = f'_xg_commands="{names} --help --version"\n_xg_library="{" ".join(library)}"\n'
    return (
        BASH_HEAD.replace("_xg_reply() {", f"{lists}_xg_reply() {{", 1)
        + operands
        + (OPTIONS + options + MAIN + values + FOOT)
    )


def _option_words(command: CommandWords) -> str:
    return " ".join(spelling for option in command.options for spelling in option.spellings)


def _values(command: CommandWords) -> Iterator[str]:
    """A line for each option that takes a value."""
    for option in command.options:
        if option.value is not None:
            place = "|".join(f"{command.name}:{spelling}" for spelling in option.spellings)
            yield f"        {place}) {_bash_words(option.value)} ;;\n"


def _bash_words(value: GivenValue) -> str:
    words = " ".join(value.words)
    return {
        "nothing": ":",
        "one": f'_xg_words "{words}"',
        "list": f'_xg_list "{words}"',
        "diagram": '_xg_diagrams "$_xg_library"',
        "xg": "_xg_diagrams",
        "shipped": '_xg_words "$_xg_library"',
        "file": "_xg_files",
        "folder": "_xg_folders",
    }[value.kind]


# Completion for fish.


FISH_HEAD = """\
# Completion of xg for fish. xg completion fish >~/.config/fish/completions/xg.fish
function __xg_command
    set -l words (commandline -opc)
    test (count $words) -gt 1; and test $words[2] = $argv[1]
end
function __xg_first
    test (count (commandline -opc)) -eq 1
end
function __xg_diagrams
    __fish_complete_suffix .xg
    printf '%s\\tshipped diagram\\n' @library@
end
function __xg_list
    set -l before (string match -r '^.*,' -- (commandline -ct))
    printf '%s\\n' "$before"$argv
end
complete -c xg -f
complete -c xg -n __xg_first -l help -d 'list the commands'
complete -c xg -n __xg_first -l version -d 'print the version'
"""


def fish(commands: Sequence[CommandWords], library: Sequence[str]) -> str:
    """The script that fish reads."""
    lines = [FISH_HEAD.replace("@library@", " ".join(library))]
    for command in commands:
        name = command.name
        lines.append(f"complete -c xg -n __xg_first -a {name} -d {_fish_quote(command.about)}\n")
        here = f"complete -c xg -n '__xg_command {name}'"
        lines += [f"{here} {words}\n" for words in _fish_command(command, library)]
    return "".join(lines)


def _fish_command(command: CommandWords, library: Sequence[str]) -> Iterator[str]:
    if command.operands and (offered := _fish_words(command.operands[0].value, library)):
        yield offered
    for option in command.options:
        yield _fish_option(option, library)


def _fish_option(option: Option, library: Sequence[str]) -> str:
    spelled = " ".join(
        f"-l {each[2:]}" if each.startswith("--") else f"-s {each[1:]}" for each in option.spellings
    )
    about = f" -d {_fish_quote(option.about)}" if option.about else ""
    if option.value is None:
        return f"{spelled}{about}"
    offered = _fish_words(option.value, library)
    return f"{spelled} {'-r' if '-F' in offered else '-x'} {offered}{about}".replace("  ", " ")


def _fish_words(value: GivenValue, library: Sequence[str]) -> str:
    words = " ".join(value.words)
    return {
        "nothing": "",
        "one": f"-a {_fish_quote(words)}",
        "list": f"-a '(__xg_list {words})'",
        "diagram": "-a '(__xg_diagrams)'",
        "xg": "-a '(__fish_complete_suffix .xg)'",
        "shipped": f"-a {_fish_quote(' '.join(library))}",
        "file": "-F",
        "folder": "-a '(__fish_complete_directories)'",
    }[value.kind]


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# Completion for zsh, as a file of its function path or evaluated at its start.


ZSH_HEAD = """\
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
ZSH_FOOT = """\
    esac
}
if [[ $funcstack[1] == _xg ]]; then _xg "$@"; else compdef _xg xg; fi
"""


def zsh(commands: Sequence[CommandWords], library: Sequence[str]) -> str:
    """The script that zsh reads."""
    listed = "".join(f"        {_zsh_quote(f'{each.name}:{each.about}')}\n" for each in commands)
    head = ZSH_HEAD.replace("@library@", " ".join(library)).replace("@commands@", listed)
    cases = "".join(
        f"        {command.name})\n            _arguments -S{''.join(_zsh_specs(command))} ;;\n"
        for command in commands
    )
    return head + cases + ZSH_FOOT


def _zsh_specs(command: CommandWords) -> Iterator[str]:
    specs = [
        *(spec for option in command.options for spec in _zsh_option(option)),
        *(_zsh_operand(place, each) for place, each in enumerate(command.operands, 1)),
    ]
    for spec in specs:
        yield f" \\\n                {_zsh_quote(spec)}"


def _zsh_option(option: Option) -> Iterator[str]:
    others = " ".join(option.spellings)
    for spelling in option.spellings:
        before = "*" if option.repeated else f"({others})"
        joined = "=" if option.value is not None and spelling.startswith("--") else ""
        value = f":{_zsh_words(option.value)}" if option.value is not None else ""
        yield f"{before}{spelling}{joined}[{_plain(option.about)}]{value}"


def _zsh_operand(place: int, operand: GivenWord) -> str:
    if operand.count in "*+":
        return f"*:{_zsh_words(operand.value)}"
    return f"{place}:{':' * (operand.count == '?')}{_zsh_words(operand.value)}"


def _zsh_words(value: GivenValue) -> str:
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


def _zsh_quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
