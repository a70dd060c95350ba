"""The operators in every form of their samples, as comments of generated code describe them."""

from collections.abc import Callable
from pathlib import Path

from ops.sample import settle
from ops.samples import SAMPLES

from xg import ops

GOLDEN = Path(__file__).with_name("descriptions.txt")


def test_every_form_is_described(golden: Callable[[Path, str], None]) -> None:
    lines: dict[str, None] = {}
    for glyph, op in ops.table().items():
        for sample in SAMPLES.get(glyph, ()):
            said = op.description(settle(op, sample))
            lines[f"{glyph}: {said.meaning}\n  {said.formula}\n  {said.gradient}\n"] = None
    golden(GOLDEN, "\n".join(lines))
