"""Links between documents point to something that exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    file.relative_to(ROOT)
    for folder in (".", "docs", "docs/adr", "docs/how-to", "grammar")
    for file in (ROOT / folder).glob("*.md")
)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)(?:#[^)]*)?\)|(?:src|srcset)=\"([^\"]+)\"")


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_lead_somewhere(document: Path) -> None:
    text = CODE.sub("", (ROOT / document).read_text(encoding="utf-8"))
    targets = {found[1] or found[2] for found in LINK.finditer(text)}
    missing = {name for name in targets if not (ROOT / document.parent / name).exists()}
    assert missing == set()


GUIDES = sorted((ROOT / "docs" / "how-to").glob("*.md"))


@pytest.mark.parametrize(
    "page", [page for page in GUIDES if page.stem != "README"], ids=lambda page: page.stem
)
def test_a_task_page_is_listed_and_has_search_words(page: Path) -> None:
    """The words are those that people type who don't know how xg calls the thing."""
    title, blank, words, *_ = page.read_text(encoding="utf-8").splitlines()
    assert (title[:2], blank) == ("# ", "")
    assert re.fullmatch(r"\*Also: [^*]+\.\*", words)
    index = (page.parent / "README.md").read_text(encoding="utf-8")
    assert index.count(f"- [{title[2:]}]({page.name})") == 1
