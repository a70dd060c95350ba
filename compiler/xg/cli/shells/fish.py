"""Completion for fish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xg.cli.shells.words import CommandWords, GivenValue, Option

HEAD = """\
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
    lines = [HEAD.replace("@library@", " ".join(library))]
    for command in commands:
        name = command.name
        lines.append(f"complete -c xg -n __xg_first -a {name} -d {_quoted(command.about)}\n")
        here = f"complete -c xg -n '__xg_command {name}'"
        lines += [f"{here} {words}\n" for words in _command(command, library)]
    return "".join(lines)


def _command(command: CommandWords, library: Sequence[str]) -> Iterator[str]:
    if command.operands and (offered := _offered(command.operands[0].value, library)):
        yield offered
    for option in command.options:
        yield _option(option, library)


def _option(option: Option, library: Sequence[str]) -> str:
    spelled = " ".join(
        f"-l {each[2:]}" if each.startswith("--") else f"-s {each[1:]}" for each in option.spellings
    )
    about = f" -d {_quoted(option.about)}" if option.about else ""
    if option.value is None:
        return f"{spelled}{about}"
    offered = _offered(option.value, library)
    return f"{spelled} {'-r' if '-F' in offered else '-x'} {offered}{about}".replace("  ", " ")


def _offered(value: GivenValue, library: Sequence[str]) -> str:
    words = " ".join(value.words)
    return {
        "nothing": "",
        "one": f"-a {_quoted(words)}",
        "list": f"-a '(__xg_list {words})'",
        "diagram": "-a '(__xg_diagrams)'",
        "xg": "-a '(__fish_complete_suffix .xg)'",
        "shipped": f"-a {_quoted(' '.join(library))}",
        "file": "-F",
        "folder": "-a '(__fish_complete_directories)'",
    }[value.kind]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
