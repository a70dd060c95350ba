"""The playground in a real browser: typing, errors, views, links, files, the bytes it makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from gzip import compress
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from browser.chromium import command, complaints, script
from browser.elements import one, texts
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import Select, WebDriverWait
from website.playground.build import playground_files
from website.playground.runtime import runtime
from website.playground.snapshot import snapshot

from xg.cli import main

NOTATION = sorted((Path(__file__).parents[2] / "diagrams" / "notation").glob("*.xg"))
SOON = 40  # seconds, on a machine that does much else
ASK = """
const done = arguments[arguments.length - 1];
import(new URL("playground.js", location.href)).then(({ ask }) => ask(arguments[0])).then(done);
"""


class Handler(SimpleHTTPRequestHandler):
    """Files of a folder, without a word."""

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    made = playground_files()
    made |= {f"playground/pyodide/{name}": data for name, data in runtime().items()}
    made |= snapshot(made)
    for name, content in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = partial(Handler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/playground/index.html"
        server.shutdown()


def wait(driver: Chrome, is_so: Callable[[], object]) -> None:
    WebDriverWait(driver, SOON, poll_frequency=0.05).until(lambda _: is_so())


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


def ask(driver: Chrome, **request: object) -> Any:  # noqa: ANN401 - JSON
    return driver.execute_async_script(ASK, request)  # pyright: ignore[reportUnknownMemberType]


def test_the_playground(driver: Chrome, site: Path, address: str, tmp_path: Path) -> None:
    """One test, because loading is what takes long."""
    driver.set_script_timeout(SOON)
    driver.get(address)
    wait(driver, lambda: state(driver).startswith("mha.forward.svg"))
    assert "word" in script(
        driver, "return document.querySelector('#colours span:nth-child(2)').className"
    )
    loaded = script(
        driver, "return performance.getEntriesByType('resource').map((each) => each.name)"
    )
    assert all(name.startswith(address.removesuffix("index.html")) for name in loaded)
    assert sent(site, loaded) < 12_000_000
    network(driver, offline=True)
    errs_and_mends(driver)
    switches_views(driver)
    saves_files(driver, tmp_path / "saved")
    follows_a_link(driver, address)
    refuses_what_is_from_elsewhere(driver)
    equals_the_command(driver, tmp_path / "built")
    network(driver, offline=False)


def sent(site: Path, loaded: list[str]) -> int:
    """Bytes over the wire of a host that compresses; the memory was taken, and no library."""
    names = {name.partition("/playground/")[2] for name in loaded}
    worker = {"rest.zip", "memory.bin", "memory.json", "graphviz.wasm", "nothing.zip"}
    worker |= {f"pyodide/pyodide.{end}" for end in ("mjs", "asm.mjs", "asm.wasm")}
    files = [(site / "playground" / name).read_bytes() for name in names | worker if name]
    return sum(min(len(data), len(compress(data))) for data in files)


def network(driver: Chrome, *, offline: bool) -> None:
    limits = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    command(driver, "Network.enable")
    command(driver, "Network.emulateNetworkConditions", offline=offline, **limits)


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
    assert one(driver, "#said").text.startswith("error: ")
    assert "mha.xg:10:" in one(driver, "#said").text
    assert texts(driver, "#colours .error") == ["RR"]
    assert one(driver, "#picture").get_attribute("src") == picture
    type_over(driver, "-> RR : Q ", "-> R : Q ")
    wait(driver, lambda: not one(driver, "#said").is_displayed())
    assert texts(driver, "#colours .error") == []
    wait(driver, lambda: one(driver, "#picture").get_attribute("src") != picture)


def switches_views(driver: Chrome) -> None:
    listed = texts(driver, "#views button")
    assert listed == ["forward", "backward", "numpy", "jax", "torch", "cost", "plans"]
    for view, words in {
        "torch": "nn.Module",
        "cost": "memory of one device in training",
        "plans": "ring bytes",
        "numpy": "def forward(",
    }.items():
        one(driver, f"#views [data-view={view}]").click()
        wait(
            driver, lambda view=view: f".{view}." in state(driver) or f"_{view}.py" in state(driver)
        )
        assert words in one(driver, "#listing").text
    Select(one(driver, "#plan")).select_by_value("TP")
    wait(driver, lambda: "mha_tp_numpy.py" in state(driver))
    assert "all_reduce" in one(driver, "#listing").text


def saves_files(driver: Chrome, folder: Path) -> None:
    folder.mkdir()
    command(driver, "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    assert one(driver, "#save").text == "Save .py"
    one(driver, "#save").click()
    wait(driver, lambda: (folder / "mha_tp_numpy.py").exists())
    assert (folder / "mha_tp_numpy.py").read_text() == one(driver, "#listing").get_attribute(
        "textContent"
    )


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


def refuses_what_is_from_elsewhere(driver: Chrome) -> None:
    assert complaints(driver) == []
    fetched = "fetch('http://127.0.0.2:1/').catch(() => arguments[arguments.length - 1]('refused'))"
    assert driver.execute_async_script(fetched) == "refused"  # pyright: ignore[reportUnknownMemberType]
    assert any("Content Security Policy" in complaint for complaint in complaints(driver))


def equals_the_command(driver: Chrome, folder: Path) -> None:
    """Figures and code of the whole notation, every block, byte for byte."""
    kinds = ("forward", "backward", "overview", "numpy")
    compared: set[str] = set()
    assert main(["build", *map(str, NOTATION), "-o", str(folder), "--only", "svg,numpy"]) == 0
    for file in NOTATION:
        about = {"do": "draw", "name": file.stem, "text": file.read_text(encoding="utf-8")}
        for block in ask(driver, **about, view="forward")["blocks"]:
            for view in kinds:
                made = ask(driver, **about, view=view, block=block)
                built = folder / made.get("file", "none")
                if built.exists():  # a block that another calls has no module of its own
                    assert made["data"] == built.read_text(encoding="utf-8"), made["file"]
                    compared.add(built.name)
    assert compared == {path.name for path in folder.iterdir()} - {"xg-pictures.json"}
