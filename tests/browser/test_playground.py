"""The playground in a real browser: typing, errors, views, links, files, the bytes it makes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from gzip import compress
from pathlib import Path

import pytest
from browser.chromium import command, complaints, script, view
from browser.elements import one, press, texts
from browser.playground import DIAGRAMS, compare, served, written
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from tier import THOROUGH

from xg.cli import main

# Notation, a plan, random numbers; where thorough also several blocks and a loop.
SAMPLE: dict[str, tuple[str, ...]] = {
    "notation/mlp.xg": ("", "TP"),
    "examples/vae.xg": ("",),
    **({"notation/attention.xg": ("",), "examples/gru.xg": ("",)} if THOROUGH else {}),
}
SOON = 40  # seconds, on a machine that does much else


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with served(site) as address:
        yield address


def wait(driver: Chrome, is_so: Callable[[], object]) -> None:
    WebDriverWait(driver, SOON, poll_frequency=0.2).until(lambda _: is_so())  # asking is work, too


def state(driver: Chrome) -> str:
    return one(driver, "#state").text


def type_over(driver: Chrome, old: str, new: str) -> None:
    change = (
        "const text = document.getElementById('text');"
        "text.value = text.value.replace(arguments[0], arguments[1]);"
        "text.dispatchEvent(new Event('input'))"
    )
    script(driver, change, old, new)


def settle(driver: Chrome) -> None:
    """Wait until everything is drawn and checked, and the address says so."""
    wait(driver, lambda: one(driver, "#right").get_attribute("aria-busy") == "false")


def test_the_playground(driver: Chrome, site: Path, address: str, tmp_path: Path) -> None:
    """One test, because loading is what takes long."""
    driver.set_script_timeout(SOON)
    driver.get(address)
    wait(driver, lambda: state(driver).startswith("mha.forward.svg"))
    assert "word" in script(
        driver, "return document.querySelector('#colors span:nth-child(2)').className"
    )
    loaded = script(
        driver, "return performance.getEntriesByType('resource').map((each) => each.name)"
    )
    assert all(name.startswith(address.removesuffix("index.html")) for name in loaded)
    assert sent(site, loaded) < 12_400_000
    with offline(driver):
        errs_and_mends(driver)
        switches_views(driver)
        explores(driver)
        completes(driver)
        undoes(driver)
        saves_files(driver, tmp_path / "saved")
        follows_a_link(driver, address)
        names_what_is_written(driver)
        fits_a_phone(driver)
        refuses_what_is_from_elsewhere(driver)
        equals_the_command(driver, tmp_path / "built")


def sent(site: Path, loaded: list[str]) -> int:
    """Bytes over the wire of a host that compresses; the memory was taken, and no library."""
    names = {name.partition("/playground/")[2] for name in loaded}
    worker = {"rest.zip.gz", "memory.bin", "memory.json", "graphviz.wasm", "nothing.zip"}
    worker |= {f"pyodide/pyodide.{end}" for end in ("mjs", "asm.mjs", "asm.wasm")}
    files = [(site / "playground" / name).read_bytes() for name in names | worker if name]
    return sum(min(len(data), len(compress(data, 6))) for data in files)


@contextmanager
def offline(driver: Chrome) -> Generator[None]:
    """The browser without a network; with it again for all tests that follow a failure."""
    limits = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    command(driver, "Network.enable")
    command(driver, "Network.emulateNetworkConditions", offline=True, **limits)
    try:
        yield
    finally:
        command(driver, "Network.emulateNetworkConditions", offline=False, **limits)


def test_without_its_runtime_the_page_says_so(driver: Chrome, site: Path, address: str) -> None:
    (site / "playground" / "pyodide").rename(site / "elsewhere")
    try:
        driver.get(f"{address}?without")
        wait(driver, lambda: "./dev site fetches it" in state(driver))
    finally:
        (site / "elsewhere").rename(site / "playground" / "pyodide")
    complaints(driver)  # of what was not found
    driver.get((site / "playground" / "index.html").as_uri())
    assert "http.server -d build/site" in state(driver)
    complaints(driver)  # browsers run no modules of files


def errs_and_mends(driver: Chrome) -> None:
    picture = one(driver, "#picture").get_attribute("src")
    type_over(driver, "-> R : Q ", "-> RR : Q ")
    wait(driver, lambda: one(driver, "#said").is_displayed())
    assert one(driver, "#said").text.startswith("error[XG")
    assert "mha.xg:10:" in one(driver, "#said").text
    assert texts(driver, "#colors .error") == ["RR"]
    assert one(driver, "#picture").get_attribute("src") == picture
    assert "^^" in one(driver, "#said .source").text  # lines of the text do not wrap
    assert not one(driver, "#save").is_enabled()
    assert "has errors" in str(one(driver, "#save").get_attribute("title"))
    type_over(driver, "-> RR : Q ", "-> R : Q ")
    wait(driver, lambda: not one(driver, "#said").is_displayed())
    assert texts(driver, "#colors .error") == []
    wait(driver, lambda: one(driver, "#picture").get_attribute("src") != picture)
    assert one(driver, "#save").is_enabled()


def switches_views(driver: Chrome) -> None:
    listed = texts(driver, "#views button:enabled")
    assert listed == ["forward", "backward", "explorer", "numpy", "jax", "torch", "cost", "plans"]
    assert "calls no block" in str(one(driver, "#views :disabled").get_attribute("title"))
    for form, words in {
        "torch": "nn.Module",
        "cost": "memory of one device in training",
        "plans": "ring bytes",
        "jax": "def forward(",
    }.items():
        one(driver, f"#views [data-view={form}]").click()
        wait(
            driver, lambda form=form: f".{form}." in state(driver) or f"_{form}.py" in state(driver)
        )
        assert words in one(driver, "#listing").text
    Select(one(driver, "#plan")).select_by_value("TP")
    wait(driver, lambda: "mha_tp_numpy.py" in state(driver))
    assert state(driver).startswith("there is no jax code of MHA under plan TP: this is numpy; ")
    assert "all_reduce" in one(driver, "#listing").text


def explores(driver: Chrome) -> None:
    """The explorer: quick at once, with numbers later, as it was left; no key waits for them."""
    one(driver, "#views [data-view=explorer]").click()
    settle(driver)
    assert state(driver) == "mha_tp.html"
    inside = "return document.querySelector('#shown iframe').contentDocument"
    assert script(driver, f"{inside}.body.dataset.ready !== undefined")
    script(driver, f"{inside}.querySelector('#tab-code').click()")
    type_over(driver, "X -> •<=W_Q", "X  -> •<=W_Q")
    settle(driver)
    wait(driver, lambda: len(texts(driver, "#shown iframe")) == 1)  # the new one, once it is ready
    assert script(driver, f"{inside}.querySelector('#tab-code').ariaSelected") == "true"
    script(driver, f"{inside}.querySelector('#next').click()")
    wait(driver, lambda: " of " in script(driver, f"{inside}.querySelector('#where').value"))
    assert complaints(driver) == []


def completes(driver: Chrome) -> None:
    """Names, dims and operators with their signatures, by keys alone."""
    behind = r"""
        const text = document.getElementById("text"), at = text.value.indexOf("\n}") + 1;
        text.focus();
        text.setSelectionRange(at, at);
    """
    script(driver, behind)
    press(driver, "    X -> GE")
    wait(driver, lambda: one(driver, "#offers").is_displayed())
    assert texts(driver, "#offers li") == ["GELU x -> GELU(form = tanh | exact) : y"]
    press(driver, Keys.ENTER)
    assert not one(driver, "#offers").is_displayed()
    written = "return document.getElementById('text').value"
    assert "    X -> GELU}" in script(driver, written)
    one(driver, "#views [data-view=numpy]").click()  # which is drawn sooner than an explorer
    script(driver, "document.getElementById('text').focus()")
    press(driver, " : H [B, ")
    control(driver, " ")
    wait(driver, lambda: one(driver, "#offers").is_displayed())
    assert {"B", "S", "D"} <= {each.split()[0] for each in texts(driver, "#offers li")}
    press(driver, Keys.ESCAPE)
    assert not one(driver, "#offers").is_displayed()
    type_over(driver, "    X -> GELU : H [B, ", "")
    settle(driver)
    script(driver, behind)
    press(driver, "    X -> S")
    wait(driver, lambda: one(driver, "#offers").is_displayed())
    assert texts(driver, "#offers li")[0].startswith("S ")
    press(driver, Keys.ENTER)  # the word is complete: a new line, as deep as this one
    press(driver, "# {")
    assert "    X -> S\n    # {}" in script(driver, written)
    type_over(driver, "    X -> S\n    # {", "")
    script(driver, behind)
    press(driver, "    }")  # a brace is where its line began, whatever Enter put before it
    assert "\n}}" in script(driver, written)
    type_over(driver, "}}", "}")
    settle(driver)


def control(driver: Chrome, key: str) -> None:
    ActionChains(driver).key_down(Keys.CONTROL).send_keys(key).key_up(Keys.CONTROL).perform()


def undoes(driver: Chrome) -> None:
    """The layout and an example take nothing away: Ctrl-Z and Back give the text as it was."""
    written = "return document.getElementById('text').value"
    before = script(driver, written)
    script(driver, "document.getElementById('text').focus()")
    press(driver, " ")
    spaced = script(driver, written)
    one(driver, "#format").click()
    wait(driver, lambda: script(driver, written) == before)
    control(driver, "z")
    assert script(driver, written) == spaced
    settle(driver)
    Select(one(driver, "#example")).select_by_value("vae")
    wait(driver, lambda: state(driver).startswith("vae.forward.svg"))
    settle(driver)
    script(driver, "document.getElementById('text').focus()")
    control(driver, "z")
    assert script(driver, written) == spaced
    settle(driver)
    driver.back()
    wait(driver, lambda: script(driver, written) == spaced)
    settle(driver)
    one(driver, "#format").click()
    wait(driver, lambda: script(driver, written) == before)
    settle(driver)
    one(driver, "#format").click()
    wait(driver, lambda: state(driver) == "already tidy")


def saves_files(driver: Chrome, folder: Path) -> None:
    folder.mkdir()
    command(driver, "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    assert one(driver, "#save").text == "Save .py"
    one(driver, "#save").click()
    wait(driver, lambda: (folder / "mha_tp_numpy.py").exists())
    assert (folder / "mha_tp_numpy.py").read_text() == one(driver, "#listing").get_attribute(
        "textContent"
    )
    one(driver, "#views [data-view=forward]").click()
    settle(driver)
    names = [f"mha_tp.forward.{ending}" for ending in ("svg", "pdf", "tex")]
    for button, name in zip(("save", "pdf", "tex"), names, strict=True):
        one(driver, f"#{button}").click()
        wait(driver, lambda name=name: (folder / name).exists())
    mha = str(DIAGRAMS / "notation" / "mha.xg")
    words = ["--plan", "TP", "--only", "svg,pdf,tex", "-o", str(folder / "command")]
    assert main(["build", mha, *words]) == 0
    for name in names[1:]:  # the picture of the page follows its theme
        assert (folder / name).read_bytes() == (folder / "command" / name).read_bytes()
    assert "<svg" in (folder / names[0]).read_text()
    one(driver, "#views [data-view=numpy]").click()
    settle(driver)


def follows_a_link(driver: Chrome, address: str) -> None:
    settle(driver)
    linked = script(driver, "return location.hash")
    Select(one(driver, "#example")).select_by_value("mlp")
    wait(driver, lambda: state(driver).startswith("mlp.forward.svg"))
    settle(driver)
    script(driver, "location.hash = arguments[0]", linked)
    wait(driver, lambda: "mha_tp_numpy.py" in state(driver))
    assert "block MHA" in script(driver, "return document.getElementById('text').value")
    assert driver.current_url.startswith(address)


OWN = "dim B\nmesh N = 2\nblock Own(x [B]) -> y [B] {\n    x -> GELU : y\n}\n"
PLAN = "plan P of Own {\n    x [B/N]\n}\n"


def names_what_is_written(driver: Chrome) -> None:
    """A program of one's own in the place of an example is named after its first block."""
    Select(one(driver, "#example")).select_by_value("mlp")
    wait(driver, lambda: state(driver).startswith("mlp.forward.svg"))
    write_all(driver, OWN + PLAN)
    wait(driver, lambda: state(driver).startswith("own.forward.svg"))
    assert one(driver, "#example").get_attribute("value") == ""
    Select(one(driver, "#plan")).select_by_value("P")
    wait(driver, lambda: state(driver).startswith("own_p.forward.svg"))
    write_all(driver, OWN)  # its plan is gone
    wait(driver, lambda: "no plan is called P: this is one device; own.forward" in state(driver))
    assert one(driver, "#plan").get_attribute("value") == ""
    write_all(driver, "")
    wait(driver, lambda: state(driver) == "nothing to draw yet")
    assert not one(driver, "#picture").is_displayed()
    assert "type a block, or choose an example" in one(driver, "#listing").text
    write_all(driver, OWN)
    settle(driver)


def write_all(driver: Chrome, words: str) -> None:
    code = (
        "const text = document.getElementById('text'); text.value = arguments[0];"
        "text.dispatchEvent(new Event('input'))"
    )
    script(driver, code, words)


def fits_a_phone(driver: Chrome) -> None:
    """The explorer has most of a narrow window, names that fit are beside the line in hand."""
    view(driver, 600, 900)
    one(driver, "#views [data-view=explorer]").click()
    settle(driver)
    high = (
        "const frame = document.querySelector('#shown iframe'), high = frame.offsetHeight;"
        "const { scrollHeight } = frame.contentDocument.documentElement;"
        "return high > 0.7 * innerHeight && scrollHeight === high"
    )
    wait(driver, lambda: script(driver, high))  # the window scrolls, not the frame in it
    one(driver, "#views [data-view=forward]").click()
    settle(driver)
    view(driver, 375, 700)
    code = "text.focus(); text.setSelectionRange(arguments[0], arguments[0])"  # an id is a name
    script(driver, code, OWN.index("GELU : y"))
    press(driver, "GELU -> " * 4 + "GE")  # beyond the right edge
    wait(driver, lambda: one(driver, "#offers").is_displayed())
    top, bottom, right, line, height, width = script(
        driver, WHERE, OWN.count("\n", 0, OWN.index("GELU"))
    )
    assert top >= line + 17 or bottom <= line + 4  # letters are 17 of 21 pixels
    assert (0 <= top < bottom <= height, right <= width) == (True, True)
    press(driver, Keys.ESCAPE)
    settle(driver)
    command(driver, "Emulation.clearDeviceMetricsOverride")


WHERE = """
const [text, list] = ["text", "offers"].map((id) => document.getElementById(id));
const { lineHeight, paddingTop } = getComputedStyle(text);
const [around, { top, bottom, right }] = [text, list].map((part) => part.getBoundingClientRect());
const above = parseFloat(paddingTop) + arguments[0] * parseFloat(lineHeight) - text.scrollTop;
return [top, bottom, right, around.top + above, innerHeight, innerWidth];
"""


def refuses_what_is_from_elsewhere(driver: Chrome) -> None:
    assert complaints(driver) == []
    fetched = "fetch('http://127.0.0.2:1/').catch(() => arguments[arguments.length - 1]('refused'))"
    assert driver.execute_async_script(fetched) == "refused"  # pyright: ignore[reportUnknownMemberType]
    assert any("Content Security Policy" in complaint for complaint in complaints(driver))


def equals_the_command(driver: Chrome, folder: Path) -> None:
    """Figures, code and pages of some files of each kind, every block, byte for byte."""
    for file, plans in SAMPLE.items():
        compared, others = compare(driver, DIAGRAMS / file, plans, folder / Path(file).stem)
        assert not others
        assert {path.rpartition(".")[2] for path in compared} == {"svg", "py", "html"}
