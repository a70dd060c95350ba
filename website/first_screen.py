"""The picture of the README's first screen: a program's figures in a row, or in a column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from xg.figures.model.figure import THEMES, Color
from xg_pages.embedded import Embedded, project_of

GAP: Final = 26  # points
ABOVE: Final = 26  # points, with a caption in them
TEXT: Final = 'font-family="Helvetica, Arial, sans-serif" font-size="14" font-weight="bold"'
SHOWN: Final = re.compile(r"^<!-- file: \S+\.xg -->\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IDS: Final = re.compile(r'(?<=") id="[^"]*"(?=>)')  # which figures beside each other share
SIZES: Final = re.compile(r'<svg ([^>]*?)width="[^"]*" height="[^"]*" viewBox="0 0 (\S+) (\S+)"')


def first_screen(readme: str, theme: Literal["light", "dark"], *, column: bool) -> str:
    """Both passes and the ranks of the README's first program as one SVG."""
    found = SHOWN.search(readme)
    assert found
    project = project_of(found[1], "mlp.xg")
    plan = project.main.plan_decls[0].name.name
    # A phone has no room for ranks side by side: there, it is one of them.
    ranks = "forward" if column else "overview"
    asked = {
        "Forward": Embedded(project, "forward", theme=theme),
        "Backward": Embedded(project, "backward", theme=theme),
        f"Ranks, plan {plan}": Embedded(project, ranks, plan=plan, theme=theme),
    }
    drawn = {caption: one.draw("svg")["svg"].decode() for caption, one in asked.items()}
    return _beside(list(drawn.values()), list(drawn), THEMES[theme].colors, column=column)


def _beside(
    pictures: Sequence[str], captions: Sequence[str], colors: Mapping[Color, str], *, column: bool
) -> str:
    """Pictures in one, in a row or in a column, each with its caption above it.

    One ground is below them all: a page may be of another darkness.
    """
    sizes = [(float(found[2]), float(found[3]) + ABOVE) for found in map(_sizes, pictures)]
    along, across = (1, 0) if column else (0, 1)
    length = sum(size[along] for size in sizes) + GAP * (len(sizes) - 1)
    breadth = max(size[across] for size in sizes)
    here, placed = 0.0, list[str]()
    for picture, caption, size in zip(pictures, captions, sizes, strict=True):
        x, y = ((breadth - size[0]) / 2, here) if column else (here, 0)
        inside = IDS.sub("", picture[_sizes(picture).start() :].strip())
        place = rf'<svg \1x="{x:g}" y="{y + ABOVE:g}" width="\2" height="\3" viewBox="0 0 \2 \3"'
        placed += [
            f'<text x="{x + size[0] / 2:g}" y="{y + ABOVE - 8:g}" text-anchor="middle" {TEXT}'
            f' fill="{colors[Color.INK]}">{caption}</text>',
            SIZES.sub(place, inside, count=1),
        ]
        here += size[along] + GAP
    width, height = (breadth, length) if column else (length, breadth)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}"'
    ground = f'<rect width="{width:g}" height="{height:g}" fill="{colors[Color.BACKGROUND]}"/>'
    lines = "\n".join((ground, *placed, "</svg>"))
    return f'{head} width="{width:g}pt" height="{height:g}pt">\n{lines}\n'


def _sizes(picture: str) -> re.Match[str]:
    found = SIZES.search(picture)
    assert found
    return found


def first_screens(root: Path) -> dict[str, str]:
    """The pictures by their paths."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    themes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    return {
        f"docs/figures/first{'_phone' * column}_{theme}.svg": first_screen(
            readme, theme, column=column
        )
        for theme in themes
        for column in (False, True)
    }
