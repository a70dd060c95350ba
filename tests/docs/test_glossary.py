"""The glossary is short, sorted, and defines each word once."""

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
WORD = re.compile(r"^\| ([a-z][a-z -]*) \| ", re.MULTILINE)


def test_it_has_forty_words_and_each_once() -> None:
    words = [word for word in WORD.findall(TEXT) if word != "word"]
    assert len(words) == len({*words}) == 40


def test_each_part_is_in_order() -> None:
    for part in TEXT.split("\n## ")[1:]:
        words = [word for word in WORD.findall(part) if word != "word"]
        assert words == sorted(words)
