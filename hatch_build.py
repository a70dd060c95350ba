"""Hooks of the build: the long description of a package, and a wheel that is as small as can be."""

import re
from collections.abc import Sequence
from pathlib import Path
from struct import pack
from typing import Any
from zipfile import ZipFile, ZipInfo

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
        """Compress a wheel further, if the tools of development are there."""
        wheel = Path(artifact_path)
        if wheel.suffix != ".whl" or version != "standard":  # an editable one is not kept
            return
        try:
            from deflate import deflate_compress
        except ImportError:
            return
        with ZipFile(wheel) as archive:
            files = [(info, archive.read(info)) for info in archive.infolist()]
        wheel.write_bytes(_zipped([(info, deflate_compress(data, 12)) for info, data in files]))


def _zipped(files: Sequence[tuple[ZipInfo, bytes]]) -> bytes:
    """An archive of files that are compressed already, which `zipfile` cannot write.

    4.3.7, 4.3.12 and 4.3.16 of PKWARE's APPNOTE are the three kinds of records.
    """
    records, listed = bytearray(), bytearray()
    for info, data in files:
        name, start = info.filename.encode(), len(records)
        year, month, day, hour, minute, second = info.date_time
        time, date = hour << 11 | minute << 5 | second // 2, year - 1980 << 9 | month << 5 | day
        what = pack(
            "<5H3L2H", 20, 0x800, 8, time, date, info.CRC, len(data), info.file_size, len(name), 0
        )
        records += pack("<L", 0x04034B50) + what + name + data
        made = pack("<LH", 0x02014B50, 3 << 8 | 20)  # on Unix, whose permissions follow
        listed += made + what + pack("<3H2L", 0, 0, 0, info.external_attr, start) + name
    count = len(files)
    end = pack("<L4H2LH", 0x06054B50, 0, 0, count, count, len(listed), len(records), 0)
    return bytes(records + listed + end)
