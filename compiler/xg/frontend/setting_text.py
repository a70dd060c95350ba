"""Settings as users write them: `D=64`, `norm=post`."""

from __future__ import annotations

import shlex

from xg.frontend.typed import Settings
from xg.syntax.spelling import ascii_name


def settings(text: str) -> Settings:
    """`D=64 norm=post`; the last one of a name counts. ValueError says what is wrong."""
    return dict(map(setting, shlex.split(text)))


def setting(text: str) -> tuple[str, str | int]:
    """`D=64`, `norm=post`; ValueError says what is wrong."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ValueError(f"{text!r} should be NAME=VALUE")
    return ascii_name(name.strip()), _number(value.strip())


def _number(text: str) -> str | int:
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        if len(digits) > 19:
            raise ValueError(f"{text[:20]}… is too large")
        return int(text)
    return text
