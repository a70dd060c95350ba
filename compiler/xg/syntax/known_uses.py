"""Recognition of lines outside of blocks as other languages have them: `import f`, `f(x) = x + 1`.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from xg.syntax import errors
from xg.syntax.stop import Repair, Stop

_LINE: Final = 300  # characters of a line that are looked at, at most
_NAMES: Final = r"[({]?\s*(\w+(?:\s*,\s*\w+){0,20})\s*[)}]?"
_FILE: Final = r"(\"[^\"\n]{1,200}\"|[\w./-]{1,200})"
_FORMS: Final = (  # of each, the groups of the names and of the file
    (re.compile(rf"from {_FILE}\s+(?:import|use) {_NAMES}$"), 2, 1),
    (re.compile(rf"(?:import|include|use) {_NAMES}\s+(?:from|of|in) {_FILE}$"), 1, 2),
    (re.compile(rf"use (\"[^\"\n]{{1,200}}\")\s*[:,]?\s*(?:import )?{_NAMES}$"), 2, 1),
    (re.compile(rf"(?:import|include) {_FILE}()$"), 2, 1),
)


def _use(stop: Stop) -> Repair | None:
    """`from "f" import A`, `import f`, `import A from "f.xg"` and `use "f.xg": A`."""
    outside = stop.begins_line and "item" in stop.reader.choices
    if not outside and (stop.statement is None or stop.statement.type != "USE"):
        return None
    line = stop.source.line_text(stop.here.line)[:_LINE].partition("#")[0].strip()
    forms = ((form.match(line), names, file) for form, names, file in _FORMS)
    form = next((each for each in forms if each[0]), None)
    if form is None or form[0] is None:
        return None
    names, file = form[0][form[1]] or "NAME", form[0][form[2]]
    own = file.strip('"')
    quoted = f'"{own if own.endswith(".xg") else f"{own}.xg"}"'
    meant = f"use {names} from {quoted}"
    if '"' not in file and own.isidentifier():
        meant = f"{meant}`, or from the shipped library `use {names} from {own}"
    if stop.token.type == "STRING":
        return Repair(errors.FileBeforeNames(stop.here, meant))
    if stop.statement is not None and '"' not in file:
        return Repair(errors.UnquotedFile(stop.here, f"write `{meant}`"))
    reason = "names are used from a file by `use`"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant))


def _operator(stop: Stop) -> Repair | None:
    """`f(x) = x + 1` outside of a block."""
    if stop.token.type != "NAME" or not stop.begins_line or "item" not in stop.reader.choices:
        return None
    formula = re.match(r"(\([^()\n]{1,100}\))\s*:?=\s*(\S.*)$", stop.line[1][:_LINE])
    if formula is None:
        return None
    meant = f"op {stop.here.text}{formula[1]} = {formula[2]}"
    return Repair(errors.ShapeElsewhere(stop.here, "an operator begins with `op`", meant))


USES: tuple[Callable[[Stop], Repair | None], ...] = (
    _use,
    _operator,
)
