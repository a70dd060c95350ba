"""Explorer pages: small, closed, the same bytes; formulas, lines and numbers are the true ones."""

import os
import re
import subprocess
import sys
from base64 import b64decode, b64encode
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from zlib import decompress

import pytest
from library import VARIED, another_user, shipped
from pages.explorer.pages import (
    DIAGRAMS,
    HOSTILE,
    HOSTILE_TITLE,
    LARGE,
    TIGHT,
    facts,
    later,
    page,
    page_of,
    program,
    tape,
    value,
)
from tier import THOROUGH

from xg.cli.outputs import Wanted, outputs_of
from xg.cost.cost import cost
from xg.frontend.project import Project, read_project
from xg.frontend.typed import root_blocks
from xg.ir.walk import Symbols
from xg_pages.document import computing, exploring
from xg_pages.explorer import SIZE_AT_MOST
from xg_pages.explorer.facts import block_uses

ALL = sorted(path.stem for path in DIAGRAMS.rglob("*.xg"))
LARGE_ONES = {"resnet", "rwkv", "t5", "vit"}
DAILY = [name for name in ALL if THOROUGH or name in VARIED - LARGE_ONES]
THREE = ("mha", "mlp", "transformer")
IN_PAGE = ("defs", "div", "h3", "i", "pre", "span")
three = pytest.mark.parametrize("name", THREE)


class Elements(HTMLParser):
    """Every element of a page with its attributes; text inside scripts is no markup."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def pages(name: str, project: Project) -> list[str]:
    """The pages of a file: of one block, that which other tests have, too."""
    blocks = root_blocks(project.main)
    if len(blocks) == 1:
        return [page(name)]
    made = outputs_of(project, Wanted(kinds=("html",))).files
    assert len(made) == len(blocks)
    return [data.decode("utf-8") for data in made.values()]


@pytest.mark.parametrize("name", DAILY)
def test_every_page_is_small_and_has_numbers(name: str) -> None:
    """Every page, not only that of the last block."""
    project = read_project(shipped(name))
    for text in pages(name, project):
        assert len(text.encode()) <= SIZE_AT_MOST
        known = facts(text)
        assert known["runs"]
        slots = tape(known)["slots"]
        for place, block in enumerate(known["blocks"]):
            read = {v for view in ("forward", "backward") for s in block[view] for v in s["reads"]}
            assert all(slots[str(place)][value] is not None for value in read)


LARGEST = [
    ("gpt2", "FSDP_TP"),  # the others are larger still
    *([("encoder_decoder", "Ulysses"), ("clip", "FSDP_TP")] if THOROUGH else []),
    *([("deepseek2", "FSDP_TP"), ("t5", "FSDP_TP")] if THOROUGH else []),
]


@pytest.mark.parametrize(("name", "plan"), LARGEST)
def test_the_largest_pages_of_plans_are_small(name: str, plan: str) -> None:
    """Of each model with many blocks; with all figures and code as they are, none would be."""
    text = page(name, plan)
    size, markup = len(text.encode()), later(text)
    assert size <= SIZE_AT_MOST
    assert size + len(markup.encode()) - len(facts(text)["markup"]) > SIZE_AT_MOST


def test_pages_are_the_same_bytes_on_another_machine(tmp_path: Path) -> None:
    names = ("mha", "mlp", "vae")  # with plans, and with calls
    files = [str(shipped(name)) for name in names]
    paths = os.pathsep.join(
        str(DIAGRAMS.parent / name) for name in ("compiler", "runtime", "grammar")
    )
    variables = {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONPATH": paths}
    subprocess.run(
        [sys.executable, "-P", "-m", "xg", "build", *files, "-o", "out", "--only=html"],
        cwd=tmp_path,
        env={**another_user(tmp_path), **variables},
        check=True,
    )
    for name in names:
        built = (tmp_path / "out" / f"{name}.html").read_text(encoding="utf-8")
        assert built == page(name)
        assert str(DIAGRAMS) not in built


# ---- closed -------------------------------------------------------------------------------------


@three
def test_the_policy_allows_this_style_and_this_script_and_nothing_else(name: str) -> None:
    text = page(name)
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert found
    assert decompress(b64decode(facts(text)["script"])).decode() == computing()
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    script = re.search(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    assert style
    assert script
    rules = dict(rule.split(" ", 1) for rule in found[1].split("; "))
    (packed,) = re.findall(r'\["([^"]+)", facts\.formulas\]', script[1])
    assert decompress(b64decode(packed)).decode() == exploring()
    scripts = (script[1], exploring(), computing())
    assert rules == {
        "default-src": "'none'",
        "style-src": f"'{_hash(style[1])}'",
        "script-src": " ".join(f"'{_hash(each)}'" for each in scripts),
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@pytest.mark.parametrize("name", [*THREE, None])
def test_nothing_comes_from_outside_and_nothing_runs_inline(name: str | None) -> None:
    text = page(name) if name else page_of(HOSTILE)
    for tag, attributes in Elements(text).found:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert not [
            name for name in attributes if name.startswith("on") or name in ("src", "style")
        ]
        assert (attributes.get("href") or "#").startswith("#")
    for tag, attributes in Elements(later(text)).found:
        assert tag in ("svg", "desc", "g", "path", "text", "tspan", "use", *IN_PAGE)
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert (attributes.get("href") or "#").startswith("#")
    scripts = [attributes for tag, attributes in Elements(text).found if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "facts"}, {"type": "module"}]
    assert "url(" not in text
    assert "@import" not in text


def test_a_hostile_title_is_text() -> None:
    text = page_of(HOSTILE)
    whole = text + later(text)
    assert "<script>document" not in whole
    assert "<img" not in whole
    assert facts(text)["blocks"][0]["title"] == HOSTILE_TITLE


# ---- true ---------------------------------------------------------------------------------------


@three
def test_formulas_are_the_costs(name: str) -> None:
    """The terms in the page give what `xg cost` counts, of every block where it is called first."""
    graphs, known = program(name).graphs, facts(page(name))
    numbers = {each["name"]: 12 * p for each, p in zip(known["sizes"], _PRIMES, strict=False)}
    counted = {block.graph.key: block for block in cost(graphs).blocks}
    for use in block_uses(graphs):
        block = known["blocks"][use.place]
        rows = [step["cost"] for step in block["forward"]] + [row for _, row in block["other"]]
        inner = rebound(use.symbols, numbers)
        for column, total in enumerate(counted[use.graph.key].total.dims()):
            summed = sum(value(known["formulas"][row[column]], numbers) for row in rows)
            assert summed == total.evaluate(inner)


def rebound(symbols: Symbols, numbers: dict[str, int]) -> dict[str, int]:
    """The numbers of a called block's symbols, given those of the entry."""
    return {**numbers, **{name: dim.evaluate(numbers) for name, dim in symbols.items()}}


_PRIMES = (2, 3, 5, 7, 11, 13, 17)


@three
def test_lines_are_those_of_the_module(name: str) -> None:
    """The listing is the module's text, and every step that computes something has lines."""
    module = program(name).source("numpy")
    text = later(page(name))
    for listing in re.findall(r'<pre role="group" [^>]*>(.*?)</pre>', text, re.DOTALL):
        plain = unescape(re.sub(r"<[^>]*>", "", listing))
        assert plain.strip() in module
    marked = {each for ids in re.findall(r'data-steps="([^"]*)"', text) for each in ids.split()}
    for place, block in enumerate(facts(page(name))["blocks"]):
        for view in ("forward", "backward"):
            ids = {f"{place}.{view[0]}{number}" for number in range(len(block[view]))}
            assert ids <= marked


@three
def test_a_marked_line_says_the_line_that_its_step_stands_on(name: str) -> None:
    """A sabotaged mark would point to a step of another line of the file."""
    text, known = later(page(name)), facts(page(name))
    for steps, line in re.findall(r'<span data-steps="([^"]*)">([^\n]*)\n</span>', text):
        said = re.search(r"lines? (\d+)(?:-(\d+))?</i>", line)
        if not said:
            continue
        first, last = int(said[1]), int(said[2] or said[1])
        for each in steps.split():
            place, number = each.split(".")
            view = "forward" if number[0] == "f" else "backward"
            step = known["blocks"][int(place)][view][int(number[1:])]
            if "line" in step:
                assert first <= step["line"] <= last


@three
def test_every_step_is_in_the_figure(name: str) -> None:
    text = page(name)
    whole = text + later(text)
    drawn = {unescape(value) for value in re.findall(r'data-op="([^"]*)"', whole)}
    for block in facts(text)["blocks"]:
        for view in ("forward", "backward"):
            assert all(step["node"] in drawn for step in block[view])
            nodes = [step["node"] for step in block[view]]
            assert len(set(nodes)) == len(nodes)


def test_blocks_stand_before_what_they_call() -> None:
    uses = block_uses(program("transformer").graphs)
    assert [use.path for use in uses] == ["", "layers.0", "layers.0.attn", "layers.0.ffn"]
    assert all(a.place < b.place for a, b in pairwise(uses))


def test_large_sizes_that_a_file_writes_itself_are_not_run() -> None:
    known = facts(page_of(LARGE))
    assert known["runs"] == []
    assert not {"tape", "script"} & set(known)


def test_sizes_begin_where_the_file_allows() -> None:
    begin = {each["name"]: each["value"] for each in facts(page("transformer"))["sizes"]}
    assert begin == {"B": 32, "D": 64, "N_H": 4, "N_L": 4, "S": 32, "S_max": 512, "V": 256}
    known = {each["name"]: each["value"] for each in facts(page_of(TIGHT))["sizes"]}
    assert known["S"] <= known["S_max"] == 8
