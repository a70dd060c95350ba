"""Every family of transformers that can be built here, imported: `python tests/importing/sweep.py`.

Without names it takes all families and writes the table `families.tsv`. "written broken" would be
a diagram that exists and is not the model: `xg import` must never leave one.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = Path(__file__).with_name("families.tsv")

if __name__ == "__main__":  # as `pythonpath` of the tests has it
    sys.path[:0] = [str(ROOT / part) for part in ("tests", "compiler", "runtime", "grammar")]

from importing.families import FAMILIES, Family  # noqa: E402 - found by the path above
from models.families import in_double  # noqa: E402
from models.witness import quietly  # noqa: E402

from xg.diagnostics.diagnostic import DiagnosticError  # noqa: E402
from xg_torch.importing.model import import_torch_module  # noqa: E402

DEFECTS: Final = ("XG0904", "XG0905")


def outcome(name: str) -> tuple[str, str]:
    """The outcome of importing a family by its name here."""
    return outcome_of(FAMILIES[name])


def outcome_of(family: Family) -> tuple[str, str]:
    """The outcome of importing a family: "agrees", "refused" or "defect", and the reasons."""
    with quietly(), in_double():
        model = family.build()
        try:
            made = import_torch_module(
                model, (), family.inputs(model), family.model, first_output=True
            )
        except DiagnosticError as error:
            reasons = dict.fromkeys(each.message.split(": ", 1)[-1] for each in error.diagnostics)
            codes = {each.code for each in error.diagnostics}
            return "defect" if codes & set(DEFECTS) else "refused", "; ".join(reasons)
    return "agrees" if made.proof.worst < 1e-8 else "rounded", ""


def table(names: Iterable[str]) -> Iterable[str]:
    """A line for each family."""
    for name in names:
        yield "\t".join((name, FAMILIES[name].model, *outcome(name))).rstrip()


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    lines: list[str] = []
    for line in table(sys.argv[1:] or FAMILIES):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        lines.append(line)
    if not sys.argv[1:]:
        TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
