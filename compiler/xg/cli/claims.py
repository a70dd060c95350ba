"""Judged claims as people read them: what is printed beside what it should be; and as data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from xg.cost.table import align_columns, data_of
from xg.diagnostics.terminal import printable
from xg.frontend.examples import Printed
from xg.verify.claim_check import Array, CheckedDocument, Judged, Verdict
from xg_runtime.gradcheck import Row

ROWS_AT_MOST: Final = 8
COLUMNS_AT_MOST: Final = 8
MORE_DIGITS: Final = 2  # than are printed
SOME_DIGITS: Final = 4  # of a number that is printed as a formula


def lines(file: str, checked: CheckedDocument) -> Iterator[str]:
    """One document, claim by claim."""
    document = checked.document
    title = f'"{printable(document.title)}"' if document.title else "an example"
    yield f"{file}: {title} of {document.program.main.block}"
    sizes = ", ".join(f"{name} = {size}" for name, size in sorted(document.sizes.items()))
    yield f"at {sizes or 'fixed sizes'}, float64, dropout off; * is not what is printed"
    for judged in checked.claims:
        yield ""
        yield from _claim(judged)
        if judged.claim.target.gradient:
            yield f"  {_proof(checked.differences[judged.claim.target.name])}"
    yield ""
    yield from summary(checked)


def _claim(judged: Judged) -> Iterator[str]:
    claim = judged.claim
    place = f"{printable(claim.place)}: " if claim.place else ""
    yield f"{place}{claim.target.name} {claim.target.spelled}, line {claim.span.line}"
    yield from align_columns(_rows(judged), indent="  ")
    yield f"  from the givens: {_verdict_text(judged.from_givens)}"
    if judged.from_printed is None:
        yield "  from what is printed before: too many numbers to follow their rounding"
    else:
        yield f"  from what is printed before: {_verdict_text(judged.from_printed)}"
    if claim.wrong is not None:
        sign = "" if judged.passed else "BUT IT IS TRUE, "
        yield f"  {sign}marked wrong: {printable(claim.wrong)}"


def _verdict_text(verdict: Verdict) -> str:
    word = "true" if verdict.passed else "FALSE"
    counted = f"{int(verdict.holds.sum())} of {verdict.holds.size} numbers hold"
    return f"{word}, {counted}, largest error {verdict.largest:.2g}"


def _proof(row: Row) -> str:
    if row.verdict == "failed":
        return f"finite differences of the loss DIFFER: {row.reason}"
    return f"finite differences of the loss agree with the derived gradient, error {row.error:.1e}"


def _rows(judged: Judged) -> list[Sequence[str]]:
    """Printed numbers, and beside them what each verdict makes of them."""
    printed = _grid(
        np.array([item.text for item in judged.claim.printed.items], dtype=object),
        judged.printed.shape,
    )
    groups = [("printed", printed), ("from the givens", _values(judged, judged.from_givens))]
    if judged.from_printed is not None:
        groups.append(("from what is printed before", _values(judged, judged.from_printed)))
    heads = [head for head, _ in groups]
    bodies = [_align_columns(grid) for _, grid in groups]
    return [heads, *(tuple(row) for row in zip(*bodies, strict=True))]


def _values(judged: Judged, verdict: Verdict) -> list[list[str]]:
    decimals = max(_decimals(item) for item in judged.claim.printed.items) + MORE_DIGITS
    texts = [
        f"{value:.{decimals}f}{' ' if holds else '*'}"
        for value, holds in zip(verdict.value.flat, verdict.holds.flat, strict=True)
    ]
    return _grid(np.array(texts, dtype=object), judged.printed.shape)


def _decimals(item: Printed) -> int:
    """How many decimals a number is printed with."""
    return SOME_DIGITS if item.half is None else max(0, round(-math.log10(2 * item.half)))


def _grid(texts: Array, shape: tuple[int, ...]) -> list[list[str]]:
    """Rows of texts, of a large array the first; leading axes one below the other."""
    rows = texts.reshape(-1, shape[-1] if shape else 1)
    cut = [[str(text) for text in row[:COLUMNS_AT_MOST]] for row in rows[:ROWS_AT_MOST]]
    if rows.shape[1] > COLUMNS_AT_MOST:
        cut = [[*row, "…"] for row in cut]
    return [*cut, ["…"]] if len(rows) > ROWS_AT_MOST else cut


def _align_columns(grid: list[list[str]]) -> list[str]:
    width = max(len(text) for row in grid for text in row)
    return ["  ".join(text.rjust(width) for text in row) for row in grid]


def summary(checked: CheckedDocument) -> Iterator[str]:
    """How many numbers and claims hold, and which claims fail the document."""
    claims = checked.claims
    numbers = sum(each.printed.size for each in claims)
    hold = sum(int(each.from_givens.holds.sum()) for each in claims)
    follow = [each.from_printed for each in claims if each.from_printed is not None]
    following = f"{sum(each.passed for each in follow)} of {len(claims)} claims follow"
    yield f"{hold} of {numbers} numbers hold, {following} from what is printed before them"
    for standing in ("false", "marked wrong, but true", "false, as marked"):
        named = [_claim_name(each) for each in claims if each.standing == standing]
        if named:
            yield f"{standing}: {', '.join(named)}"
    failed = sorted(name for name, row in checked.differences.items() if row.verdict == "failed")
    if failed:
        yield f"not the gradient of the loss: {', '.join(failed)}"


def _claim_name(judged: Judged) -> str:
    place = f" ({printable(judged.claim.place)})" if judged.claim.place else ""
    return f"{judged.claim.target.name}{place}"


# ---- as data ------------------------------------------------------------------------------------


def as_data(file: str, checked: CheckedDocument) -> Mapping[str, object]:
    """One document for `--json`."""
    document = checked.document
    return {
        "file": file,
        "title": document.title,
        "block": document.program.main.block,
        "sizes": dict(sorted(document.sizes.items())),
        "passed": checked.passed,
        "claims": [_claim_data(each, checked) for each in checked.claims],
    }


def _claim_data(judged: Judged, checked: CheckedDocument) -> Mapping[str, object]:
    claim = judged.claim
    row = checked.differences.get(claim.target.name)
    difference = row and {"error": data_of(row.error), "verdict": row.verdict, "reason": row.reason}
    return {
        "name": claim.target.name,
        "place": claim.place,
        "line": claim.span.line,
        "shape": list(judged.printed.shape),
        "printed": _as_lists(judged.printed),
        "wrong": claim.wrong,
        "standing": judged.standing,
        "passed": judged.passed,
        "from_givens": _verdict_data(judged.from_givens),
        "from_printed": judged.from_printed and _verdict_data(judged.from_printed),
        "finite_differences": difference,
    }


def _verdict_data(verdict: Verdict) -> Mapping[str, object]:
    return {
        "passed": verdict.passed,
        "holding": int(verdict.holds.sum()),
        "numbers": verdict.holds.size,
        "largest_error": data_of(verdict.largest),
        "values": _as_lists(verdict.value),
        "holds": verdict.holds.tolist(),
    }


def _as_lists(array: Array) -> object:
    """An array as lists; what is not finite is null, which JSON has."""
    finite = np.array([data_of(float(number)) for number in array.flat], dtype=object)
    lists: object = finite.reshape(array.shape).tolist()
    return lists
