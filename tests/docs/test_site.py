"""The site: every document and two diagrams, one of them with plans; no dead link, fit for phones.

`./dev site` builds all of it, and fails for the same reasons.
"""

import json
import os
import re
import subprocess
import sys
import zlib
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser.chromium import chromium, complaints, open_file, script, view
from browser.looks import faults
from browser.test_contrast import LEAST, TEXTS
from pygments.token import Error
from selenium.webdriver.support.wait import WebDriverWait
from tier import THOROUGH
from website.documents import staged
from website.links import problems
from website.navigation import contents

from xg_grammar.pygments_lexer import XgLexer

ROOT = Path(__file__).parents[2]
PAGES = ("index", "gallery/mlp", "docs/tutorial")
MORE = ("gallery/index", "docs/errors") if THOROUGH else ()
FRAMED = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
FOUND = "return [...document.querySelectorAll('ul.search li a')].map((a) => a.href)"
REACHED = "fetch('http://127.0.0.2:1/').finally(arguments[arguments.length - 1]).catch(() => {})"
BACKGROUND = "return getComputedStyle(document.body).backgroundColor"


OFFLINE = """\
import sys

def refuse(event, args):
    is_inet = event == "socket.connect" and isinstance(args[1], tuple)
    if is_inet or event == "socket.getaddrinfo":
        raise OSError("there is no network here")

sys.addaudithook(refuse)
"""
CONNECTS = "import socket; socket.create_connection(('127.0.0.1', 9))"


def without_network(folder: Path) -> dict[str, str]:
    """The environment of a process that has no network, nor have those that it starts in Python."""
    (folder / "sitecustomize.py").write_text(OFFLINE, encoding="utf-8")
    paths = os.pathsep.join([str(folder), str(ROOT), *sys.path])
    return {**os.environ, "PYTHONPATH": paths}


def test_a_process_without_a_network_has_none(tmp_path: Path) -> None:
    environment = without_network(tmp_path)
    words = [sys.executable, "-c", CONNECTS]
    for own, said in ((environment, "no network here"), (None, "Connection refused")):
        ran = subprocess.run(words, env=own, capture_output=True, text=True)
        assert said in ran.stderr


def test_the_site_has_no_dead_link_and_reads_on_a_phone(tmp_path: Path) -> None:
    """One test, because building is what takes long."""
    site = tmp_path / "site"
    command = [
        sys.executable,
        "-m",
        "website",
        "--out",
        str(site),
        "--only",
        "output",
        "mlp",
        "--processes",
        "1",  # other tests have the other cores
    ]
    (offline := tmp_path / "offline").mkdir()
    environment = without_network(offline)
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    page = (site / "gallery" / "output.html").read_text(encoding="utf-8")
    for part in ("files/output.forward.dark.svg", "../explorer/output.html", "saved bytes"):
        assert part in page
    plans = (site / "gallery" / "mlp.html").read_text(encoding="utf-8")
    for part in (
        "files/mlp_tp.forward.dark.svg",
        "plans side by side",
        "elements sent per rank",
    ):
        assert part in plans
    assert not [line for line in problems(site) if "gallery/" not in line]
    assert list(_looked_at(site)) == []


def _looked_at(site: Path) -> Iterator[str]:
    """The problems of pages in a browser, on a phone and on a screen, light and dark."""
    with chromium() as driver:
        for name in (*PAGES, *MORE):
            seen: set[str] = set()
            for width, scheme in ((390, "light"), (1280, "dark")):
                view(driver, width, 800, scheme)
                open_file(driver, site / f"{name}.html")
                seen.add(script(driver, BACKGROUND))
                if script(driver, FRAMED) > 0:
                    yield f"{name} is wider than {width}"
                yield from (f"{name}, {width}: {fault}" for fault in faults(driver))
                pale = (text for text, contrast in script(driver, TEXTS) if contrast < LEAST)
                yield from (f"{name}, {scheme}: pale {text}" for text in pale)
                yield from complaints(driver)
            driver.execute_async_script(REACHED)  # pyright: ignore[reportUnknownMemberType]
            if "Content Security Policy" not in str(complaints(driver)):
                yield f"{name} may load what is from elsewhere"
            if len(seen) < 2:
                yield f"{name} is as light as it is dark"
        driver.get(f"{(site / 'search.html').as_uri()}?q=softmax")
        waited = WebDriverWait(driver, 10)
        waited.until(lambda _: any("/adr/" in each for each in script(driver, FOUND)))
        records = ["/adr/" in each for each in script(driver, FOUND)]
        if records != sorted(records) or records.index(True) < 4:
            yield "the search finds a decision before a guide"
        yield from complaints(driver)


def test_whole_programs_have_a_picture_and_open_in_the_playground() -> None:
    program = "dim B\n\nblock F(X [B]) -> Y [B] {\n    X -> tanh : Y\n}\n"
    wrong = program.replace("tanh", "tan")
    elsewhere = f'use G from "g.xg"\n{program}'
    text = "".join(f"```xg\n{one}```\n\n" for one in (program, "X -> tanh : Y\n", wrong, elsewhere))
    found = staged("docs/a.md", text, frozenset(), {})
    shown = found.text
    [(name, picture)] = found.drawn.items()
    assert shown.count(f'<img src="../{name}" alt="forward figure of F"') == 1
    assert b">tanh<" in picture
    [letters] = re.findall(r'<a href="\.\./playground/index\.html#([\w-]+)">Open', shown)
    packed = urlsafe_b64decode(letters + "=" * (-len(letters) % 4))
    opened = json.loads(zlib.decompress(packed, -zlib.MAX_WBITS))
    assert (opened["name"], opened["text"], opened["view"]) == ("diagram", program, "forward")


def test_what_is_wrong_with_links_is_found(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.html").write_text('<p id="here">', encoding="utf-8")
    (tmp_path / "a.html").write_text(
        '<a href="sub/b.html#here">fine</a><a href="https://example.org/">elsewhere</a>'
        '<a href="sub/b.html#there">no place</a><a href="c.html">nothing</a>'
        '<script src="https://example.org/x.js"></script><img src="//example.org/y.png">'
        '<img src="../out.png"><a href="#top">no place</a>',
        encoding="utf-8",
    )
    assert problems(tmp_path) == [
        "a.html: fetches //example.org/y.png",
        "a.html: fetches https://example.org/x.js",
        "a.html: leads to #top, a place that is not there",
        "a.html: leads to ../out.png, which is not there",
        "a.html: leads to c.html, which is not there",
        "a.html: leads to sub/b.html#there, a place that is not there",
    ]


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("[a](b.md#c)", '<a href="b.html#c">a</a>'),
        ("[`a`](../README.md)", '<a href="../index.html">`a`</a>'),
        ("[a](../diagrams/models/t5.xg)", '<a href="../gallery/t5.html">a</a>'),
        (
            "[a](../tests/figures/gallery/mlp.forward.dot)",
            '<a href="../gallery/mlp.html#mlp-forward">a</a>',
        ),
        ("[a](../tests/x.py#f)", '<a href="../source/tests/x.py.html#f">a</a>'),
        ("[a](https://example.org)", "[a](https://example.org)"),
        ("`[a](b.md)`", "`[a](b.md)`"),
        ("```\n[a](b.md)\n```", "```\n[a](b.md)\n```"),
    ],
)
def test_links_of_documents_lead_to_pages(text: str, page: str) -> None:
    figures = {"tests/figures/gallery/mlp.forward.dot": "gallery/mlp#mlp-forward"}
    pages = frozenset({"docs/a.md", "docs/b.md", "README.md"})
    assert staged("docs/a.md", text, pages, figures).text == page


def test_a_picture_follows_the_theme_of_the_page() -> None:
    dark, small = "(prefers-color-scheme: dark)", "(max-width: 600px)"
    sources = ((f"{small} and {dark}", "sd.svg"), (small, "s.svg"), (dark, "d.svg"))
    text = "\n".join(f'<source media="{media}" srcset="{name}">' for media, name in sources)
    text = f'<picture>\n{text}\n<img alt="a" src="l.svg">\n</picture>'
    found = staged("docs/a.md", text, frozenset(), {})
    assert found.text == "".join(
        f'<picture class="only-{theme}"><source media="{small}" srcset="{of_phones}">'
        f'<img alt="a" src="{name}"></picture>'
        for theme, of_phones, name in (("light", "s.svg", "l.svg"), ("dark", "sd.svg", "d.svg"))
    )
    assert found.pictures == {f"docs/{name}.svg" for name in ("d", "l", "s", "sd")}


def test_every_document_is_in_the_contents() -> None:
    """A section that names a page which is gone would be found by the build."""
    task = "docs/how-to/README.md"
    names = ("index.md", "docs/new.md", "docs/split.md", "docs/adr/0001-a.md", "docs/how-to/b.md")
    made = contents({**dict.fromkeys(names, ""), task: '<a href="b.html">'})
    assert made["index.md"].count("docs/new\n") == 1
    assert made["index.md"].count("docs/split\n") == 1
    assert "\n\nb\n" in made[task]
    assert "docs/how-to/b" not in made["index.md"]
    assert made["docs/adr/0001-a.md"].startswith("---\norphan: true\n---")


def test_every_diagram_has_colors() -> None:
    for file in (ROOT / "diagrams").rglob("*.xg"):
        tokens = list(XgLexer().get_tokens(file.read_text(encoding="utf-8")))
        assert Error not in {kind for kind, _ in tokens}
        assert len({kind for kind, _ in tokens}) > 5
