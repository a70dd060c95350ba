"""The ways on which a VS Code without a setting comes to a server."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from browser.chromium import script
from editor.vscode_keys import (
    ANSWERED,
    ASKED,
    SQUIGGLES,
    TOLD,
    chosen,
    opened,
    press,
    say,
    shown,
    until,
)
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys

WRONG = """\
dim B, D = 4
block Net "A net" (X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> tahn : Y
}
"""
READ = 2  # seconds: a folder of two files
BOXES = "return document.querySelectorAll('.notifications-toasts .notification-list-item').length"
FIRST_SETTING = """
return document.querySelector('.settings-editor .setting-item-contents')?.textContent ?? ''
"""
PUSH = """
const buttons = [...document.querySelectorAll('.notification-list-item .monaco-button')];
const button = buttons.find((each) => each.textContent.startsWith(arguments[0]));
button?.click();
return button !== undefined;
"""


def finds_the_server(driver: Chrome, address: str, folder: Path) -> None:
    """Open a checkout, whose xg serves it, then another folder, where it is chosen in a box."""
    there = folder.with_name("checkout") / ".venv" / "bin"
    there.mkdir(parents=True)
    program = made(there / "xg", f'exec "{sys.executable}" -P -m xg "$@"')
    looks_at(driver, address, folder, "checkout")
    say("without a setting a checkout is served", shown(driver, SQUIGGLES, bool) == 1)
    looks_at(driver, address, folder, "elsewhere")
    shown(driver, TOLD, lambda text: "there is no xg on the path" in str(text))
    time.sleep(ANSWERED)
    say("elsewhere one box says that there is none", script(driver, BOXES) == 1)
    push(driver, "Open the setting")
    say("it leads to the setting",
        shown(driver, FIRST_SETTING, lambda text: str(text).startswith("Xg: Command")))  # fmt: skip
    looks_at(driver, address, folder, "elsewhere")
    chooses(driver, made(program.with_name("silent"), "echo no server >&2; exit 1"))
    shown(driver, TOLD, lambda text: 'silent lsp" does not serve: no server' in str(text))
    time.sleep(ANSWERED)
    say("a program that does not serve is one box, too", script(driver, BOXES) == 1)
    chooses(driver, program)
    say("another one is chosen in it, and serves at once", shown(driver, SQUIGGLES, bool) == 1)


def looks_at(driver: Chrome, address: str, folder: Path, name: str) -> None:
    """Open a wrong program in another folder."""
    there = folder.with_name(name)
    there.mkdir(exist_ok=True)
    (there / "net.xg").write_text(WRONG, encoding="utf-8")
    opened(driver, address.replace(str(folder), str(there)))
    press(driver, control="p")
    chosen(driver, "net.xg", "net.xg")


def made(program: Path, line: str) -> Path:
    """A program of one line for the shell."""
    program.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def chooses(driver: Chrome, program: Path) -> None:
    """Choose a program by the button of the box."""
    push(driver, "Choose xg")
    shown(driver, ASKED, bool)

    def taken() -> bool:
        """Type the path: Enter that comes while the box still reads the folder asks again."""
        press(driver, str(program), control="a")
        shown(driver, ASKED, lambda path: path == str(program))
        time.sleep(READ)
        press(driver, Keys.ENTER)
        time.sleep(READ)
        return script(driver, ASKED) is None

    until(taken)


def push(driver: Chrome, button: str) -> None:
    """Push a button of a box."""
    shown(driver, PUSH.replace("arguments[0]", repr(button)), bool)
