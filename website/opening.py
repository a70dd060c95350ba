"""Links that open a program in the playground."""

from __future__ import annotations

import json
import zlib
from base64 import urlsafe_b64encode


def opening_link(name: str, program: str, playground: str) -> str:
    """A paragraph with a link that holds a program and its name; `playground` leads to the page."""
    what = json.dumps({"name": name, "text": program, "view": "forward"}, ensure_ascii=False)
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)  # as the page packs its own links
    letters = urlsafe_b64encode(packer.compress(what.encode()) + packer.flush()).decode()
    return f'\n\n<a href="{playground}#{letters.rstrip("=")}">Open in the playground</a>\n'
