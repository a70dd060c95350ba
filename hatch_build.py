"""Hooks of the build: the long description of a package, and a wheel as small as zlib makes it."""

import re
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r'<picture>.*?<img alt="([^"]*)".*?</picture>', re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)]+\)")
WHERE = "The pages named here are files of the source distribution; the first is `docs/start.md`.\n"


def description(readme: str) -> str:
    """Return a README whose pictures are their descriptions, and whose relative links are text.

    Relative ones work in a checkout, and lead nowhere on the page of an index.
    """
    return LINK.sub(r"\1", PICTURE.sub(r"*\1.*", readme)) + "\n" + WHERE


class DescriptionHook(MetadataHookInterface):
    """The hook that hatchling calls for metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the long description."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text)}


class SmallWheelHook(BuildHookInterface[Any]):
    """The hook that hatchling calls behind a build."""

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Compress a wheel as far as zlib can; hatchling compresses as fast as it can."""
        wheel = Path(artifact_path)
        if wheel.suffix != ".whl" or version != "standard":  # an editable one is not kept
            return
        with ZipFile(wheel) as archive:
            files = [(info, archive.read(info)) for info in archive.infolist()]
        with ZipFile(wheel, "w", ZIP_DEFLATED, compresslevel=9) as archive:
            for info, data in files:
                archive.writestr(info, data, compresslevel=9)
