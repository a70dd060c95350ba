"""The playground as a host serves it, and its answers compared with the command's files."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Set
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from selenium.webdriver import Chrome
from website.playground.build import playground_files
from website.playground.runtime import runtime
from website.playground.snapshot import snapshot

from xg.cli import main
from xg.frontend.project import read_project
from xg.frontend.typed import root_blocks

DIAGRAMS = Path(__file__).parents[2] / "diagrams"
VIEWS = ("forward", "backward", "overview", "explorer", "numpy")
ASK = """
const done = arguments[arguments.length - 1];
import(new URL("playground.js", location.href)).then(({ ask }) => ask(arguments[0])).then(done);
"""


class Handler(SimpleHTTPRequestHandler):
    """Files of a folder, without a word."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
        del format, args


def written(folder: Path) -> Path:
    """A folder with all files of the playground."""
    made = playground_files()
    made |= {f"playground/pyodide/{name}": data for name, data in runtime().items()}
    made |= snapshot(made)
    for name, content in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@contextmanager
def served(site: Path) -> Generator[str]:
    """The address of the playground of a folder."""
    handler = partial(Handler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/playground/index.html"
        server.shutdown()


def ask(driver: Chrome, **request: object) -> Any:  # noqa: ANN401 - JSON
    """The compiler's answer to a request of the page."""
    return driver.execute_async_script(ASK, request)  # pyright: ignore[reportUnknownMemberType]


def compare(
    driver: Chrome, file: Path, plans: Iterable[str], folder: Path
) -> tuple[list[str], list[str]]:
    """Files that the page makes as `xg build` does, byte for byte, and those that differ.

    Everything is compared that the command writes: figures, modules and pages of all blocks.
    """
    same: list[str] = []
    others: list[str] = []
    text = file.read_text(encoding="utf-8")
    for place, plan in enumerate(plans):
        out = folder / str(place)
        words = ["build", str(file), "-o", str(out), "--only", "svg,numpy,html"]
        built = main([*words, *(["--plan", plan] if plan else [])])
        about = {"name": file.stem, "text": text, "plan": plan}
        if built:  # a plan of a used file may be of other blocks, or its ranks cannot share sizes
            if not refused(driver, uncalled_of(file), **about):
                others.append(f"plan {plan}, which the command refuses")
            continue
        left = {path.name for path in out.iterdir()} - {"xg-pictures.json"}
        costs = ask(driver, do="draw", **about, view="cost")
        if "failed" in costs:
            others.append(f"plan {plan}: {costs['failed']}")
            continue
        for block in costs["blocks"]:
            for name, data in views(driver, left, **about, block=block):
                left.remove(name)
                expected = (out / name).read_text(encoding="utf-8")
                (same if data == expected else others).append(name)
        others += sorted(name for name in left if "_stage_" not in name)  # all in one, there
    return same, others


def views(driver: Chrome, left: Set[str], **about: object) -> Iterator[tuple[str, str]]:
    """The files that the page makes of a block, of those that are left; figures come first.

    A block that another calls has no page and no module of its own.
    """
    first = ask(driver, do="draw", **about, view="forward")
    stem = str(first.get("file")).partition(".")[0]
    for view in first.get("views", ()):  # a plan may be of other blocks
        name = {"explorer": f"{stem}.html", "numpy": f"{stem}_numpy.py"}.get(view)
        if view not in VIEWS or name not in (None, *left):
            continue
        made = deepened if view == "explorer" else partial(ask, do="draw")
        answer = first if view == "forward" else made(driver, **about, view=view)
        if answer["file"] in left:
            yield answer["file"], answer["data"]


def uncalled_of(file: Path) -> tuple[str, ...]:
    """The blocks of a file that no other calls: a plan is first of these."""
    return tuple(root_blocks(read_project(file).main))


def refused(driver: Chrome, blocks: Iterable[str], **about: object) -> bool:
    """Whether the page, too, has errors in the place of a picture of some block."""
    asked = (ask(driver, do="draw", **about, view="forward", block=block) for block in blocks)
    return any("failed" in answer for answer in asked)


def deepened(driver: Chrome, **about: object) -> Any:  # noqa: ANN401 - JSON
    """The explorer's page with its numbers, plan after plan."""
    while "plans" in (made := ask(driver, do="deepen", **about)):
        pass
    return made
