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
