"""Ways of a person through VS Code, by keys alone: an error that is corrected, an own figure."""

from __future__ import annotations

import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from browser.chromium import script
from editor.vscode_keys import (
    ANSWERED,
    ASKED,
    LINES,
    MENU,
    SQUIGGLES,
    TABS,
    TITLE,
    TOLD,
    WRITING,
    chosen,
    opened,
    press,
    previewed,
    say,
    shown,
    typed,
    until,
)
from editor.vscode_server import WRONG
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys

from xg.cli import main as xg

PLACE = "4:19"  # of the error
STORED = 6  # seconds: a VS Code in a browser stores every five which editors are open
OWN = """\
dim B, S, D = 64, D_ff = 4*D, K = 10

block Gated(X [B, S, D]) -> Y [B, S, K] {
    param W_g, W_u [D, D_ff]
    param W_d [D_ff, K]

    X -> •<=W_g                   : A
    A -> SiLU                     : G
    X -> •<=W_u -> ⊙<-G -> •<=W_d : Y
}
"""
BUTTON = """
const button = document.querySelector('.editor-actions [aria-label^="Save the figure"]');
button?.click();
return button !== null;
"""
NAMING = """
const button = document.querySelector('[aria-label="New File..."]');
const box = document.querySelector('.explorer-item-edited input');
if (!box) button?.click(); // in vain, as long as the folder is being read
return box !== null && document.activeElement === box;
"""


def corrects_an_error(driver: Chrome, address: str, folder: Path) -> None:
    """Open a wrong program, correct it by its quick fix, look at its figure."""
    file = folder / "net.xg"
    opened(driver, address)
    press(driver, control="p")
    chosen(driver, "net.xg", "net.xg")
    say("an error is underlined", shown(driver, SQUIGGLES, bool) == 1)
    press(driver, control="g")
    press(driver, PLACE, Keys.ENTER)
    fixes(driver, "tanh")
    say("shapes are in the text", "[B, D]" in str(shown(driver, LINES, bool)))
    press(driver, control="s")
    until(lambda: file.read_text(encoding="utf-8") == WRONG.replace("tahn", "tanh"))
    say("the file is corrected", True)
    press(driver, "v", control="k")
    say("the preview has its figure, all of it", previewed(driver, "A net") == 14)
    say("in a tab of another name", "Figure of net.xg" in str(script(driver, TABS)))


def fixes(driver: Chrome, word: str) -> None:
    """Take the quick fix that names a word, for the only error."""
    shown(driver, WRITING, bool)  # and no longer in the box that took the place
    offered: list[str] = []

    def asked() -> bool:
        """Ask for fixes: a key that comes while the box still closes is lost."""
        press(driver, control=".")
        end = time.monotonic() + ANSWERED
        while not offered and time.monotonic() < end:
            time.sleep(0.2)
            offered[:] = [text for text in [str(script(driver, MENU))] if word in text]
        return bool(offered)

    until(asked)
    say(f"a quick fix is offered, “{offered[0]}”", True)
    press(driver, Keys.ENTER)
    say("with it the error is gone", shown(driver, SQUIGGLES, lambda count: not count) == 0)


def draws_an_own_figure(driver: Chrome, address: str, folder: Path) -> None:
    """Begin a file, write a block by its snippets, err and correct, see its figure, save that."""
    opened(driver, address)
    shown(driver, NAMING, bool)
    typed(driver, "gated.xg", Keys.ENTER)
    shown(driver, TITLE, lambda title: "gated.xg" in str(title))
    shown(driver, WRITING, bool)
    typed(driver, "dim B, S, D = 64, D_ff = 4*D, K = 10", Keys.ENTER, Keys.ENTER)
    typed(driver, "block", Keys.TAB, "Gated", Keys.TAB, Keys.TAB, "B, S, D", Keys.TAB, Keys.TAB)
    says(driver, "the output has the shape of the input", "X [B, S, D]) -> Y [B, S, D] {")
    typed(driver, "B, S, K", Keys.TAB, "W_g, W_u [D, D_ff]", Keys.TAB)
    says(
        driver,
        "Tab fills in a block, with another one",
        "X [B, S, D]) -> Y [B, S, K] {\n    param W_g, W_u [D, D_ff]\n\n    X ->  : Y\n}",
    )
    typed(driver, "mm", Keys.TAB, "W_u -> *<-G -> @<=W_d", Keys.ARROW_UP, Keys.ARROW_UP, Keys.END)
    typed(driver, Keys.ENTER, "param", Keys.TAB, "W_d", Keys.TAB, "D_ff, K", Keys.TAB)
    typed(
        driver,
        Keys.ARROW_DOWN,
        Keys.END,
        Keys.ENTER,
        "X -> @<=W_g : A",
        Keys.ENTER,
        "A -> silu : G",
    )
    say("an error is underlined", shown(driver, SQUIGGLES, lambda count: count == 1))
    press(driver, control="g")
    typed(driver, "8:11", Keys.ENTER)
    fixes(driver, "SiLU")
    press(driver, control="s")
    file = folder / "gated.xg"
    until(lambda: file.read_text(encoding="utf-8") == OWN)
    say("what was typed is the program, in its layout", True)
    for moment in ("", ", also in a window that is loaded again"):
        if moment:
            time.sleep(STORED)
            driver.refresh()
        else:
            press(driver, "v", control="k")
        say(f"the preview has its figure{moment}", previewed(driver, "Gated") == 34)
    saves(driver, file)


def says(driver: Chrome, what: str, text: str) -> None:
    """Print what the editor shows, once its text has these words."""
    say(what, shown(driver, LINES, lambda lines: text in str(lines)))


def saves(driver: Chrome, file: Path) -> None:
    """Save the figure under the name that is offered: by the command, by the preview's button."""
    figure, other = file.with_suffix(".svg"), file.with_name("by_hand.svg")
    with redirect_stdout(StringIO()):
        xg(["build", str(file), "-o", str(other)])
    press(driver, control="1")  # the text
    shown(driver, WRITING, bool)
    press(driver, Keys.F1)
    chosen(driver, "xg: Save the figure", "Save the figure")
    saved(driver, figure)
    say("the saved figure is that of the command", figure.read_bytes() == other.read_bytes())
    figure.unlink()
    press(driver, control="2")  # the preview
    shown(driver, BUTTON, bool)
    saved(driver, figure)
    say("so is that of the preview's button", figure.read_bytes() == other.read_bytes())


def saved(driver: Chrome, figure: Path) -> None:
    """Take the name that is offered, and wait until it is said that the file is there."""
    shown(driver, ASKED, lambda path: path == str(figure))
    press(driver, Keys.ENTER)
    shown(driver, TOLD, lambda told: f"{figure} is written" in str(told))
    until(figure.is_file)
