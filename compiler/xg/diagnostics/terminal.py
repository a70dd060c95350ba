"""Text made safe and measurable for a terminal: user text is never printed any other way."""

from __future__ import annotations

TAB = "    "


def printable(text: str) -> str:
    """`text` with every character spelled out (`<U+202E>`) that could move the cursor or hide."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_printable_character, text))


def width(text: str) -> int:
    """Columns that printable `text` takes: 2 for a wide character, 0 for a combining one."""
    if text.isascii():
        return len(text)
    import unicodedata  # only texts with such characters pay for the table

    return sum(
        0
        if unicodedata.combining(character)
        else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def _printable_character(character: str) -> str:
    if character == "\t":
        return TAB
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, as Source.from_bytes keeps it
        return f"<byte {code - 0xDC00:02X}>"
    return f"<U+{code:04X}>"
