"""The long description of a package: the README without what leads nowhere on an index page.

Its links and pictures are relative. They work in a checkout and not where only the text is.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r'<picture>.*?<img alt="([^"]*)".*?</picture>', re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)]+\)")
WHERE = "The pages named here are files of the source distribution; the first is `docs/start.md`.\n"


def description(readme: str) -> str:
    """Return a README whose pictures are their descriptions, and whose relative links are text."""
    return LINK.sub(r"\1", PICTURE.sub(r"*\1.*", readme)) + "\n" + WHERE


class DescriptionHook(MetadataHookInterface):
    """The hook that hatchling calls."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the long description."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text)}
