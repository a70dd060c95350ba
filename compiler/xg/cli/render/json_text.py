"""JSON as commands print it: one document, a line for each entry, no spelling of Greek letters."""

from __future__ import annotations

import json


def json_text(document: object) -> str:
    """The document, ending in a newline; NaN and infinity are null, which JSON has."""
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
