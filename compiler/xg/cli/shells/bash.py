"""Completion for bash, from version 3.2 on, which macOS has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xg.cli.shells.words import CommandWords, GivenValue

HEAD = """\
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
        f"        {command.name}) {_offered(command.operands[0].value)} ;;\n"
        for command in commands
        if command.operands and command.operands[0].value.kind != "nothing"
    )
    options = "".join(
        f'        {each.name}) _xg_words "{_spelled(each)}" ;;\n' for each in commands
    )
    values = "".join(line for command in commands for line in _values(command))
    lists = f'_xg_commands="{names} --help --version"\n_xg_library="{" ".join(library)}"\n'
    return (
        HEAD.replace("_xg_reply() {", f"{lists}_xg_reply() {{", 1)
        + operands
        + (OPTIONS + options + MAIN + values + FOOT)
    )


def _spelled(command: CommandWords) -> str:
    return " ".join(spelling for option in command.options for spelling in option.spellings)


def _values(command: CommandWords) -> Iterator[str]:
    """A line for each option that takes a value."""
    for option in command.options:
        if option.value is not None:
            place = "|".join(f"{command.name}:{spelling}" for spelling in option.spellings)
            yield f"        {place}) {_offered(option.value)} ;;\n"


def _offered(value: GivenValue) -> str:
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
