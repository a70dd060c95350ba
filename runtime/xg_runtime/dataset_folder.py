"""A folder that `save_to_disk` of Hugging Face's datasets has written, read by that package.

    columns(path) -> names                what there is
    read(path, names) -> {name: rows}     a list of arrays for each column, one for each row

Nothing is loaded from elsewhere.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np

from xg_runtime.errors import InputError
from xg_runtime.module import Array, Arrays


def columns(path: Path) -> list[str]:
    """Return the names of the columns; raises InputError where the folder has no single dataset."""
    return list(_dataset(path).column_names)


def read(path: Path, names: Iterable[str]) -> dict[str, list[Array]]:
    """Return the rows of some columns; raises InputError."""
    data: Any = _dataset(path).with_format("numpy")
    return {name: [np.asarray(row) for row in cast("list[Any]", data[name])] for name in names}


def stack_columns(path: Path, names: Iterable[str]) -> Arrays:
    """Return columns as arrays with a row for each row; raises InputError for uneven ones."""
    found: Arrays = {}
    for name, rows in read(path, names).items():
        shapes = {row.shape for row in rows}
        if len(shapes) != 1:
            raise InputError(
                f"the rows of {name} in {path} must have one shape; found {len(shapes)}"
            )
        found[name] = np.stack(rows)
    return found


def joined(path: Path, name: str) -> Array:
    """Return a column of lists of tokens as one list, row after row; raises InputError."""
    rows = read(path, [name])[name]
    tokens = np.concatenate([np.ravel(row) for row in rows]) if rows else np.zeros(0)
    if not np.issubdtype(tokens.dtype, np.integer):
        raise InputError(f"{name} in {path} must hold integers, the tokens; found {tokens.dtype}")
    return tokens


def _dataset(path: Path) -> Any:  # noqa: ANN401 - datasets has no types
    try:
        import datasets  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise InputError(
            f"reading the folder {path} needs the package datasets: pip install 'xg[datasets]'"
        ) from error
    package: Any = datasets
    try:
        data: Any = package.load_from_disk(str(path))
    except Exception as error:  # datasets, pyarrow and fsspec have errors of their own
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{path} is no folder that `save_to_disk` of datasets wrote: {reason}"
        ) from error
    if isinstance(data, dict):
        parts = ", ".join(f"{path}/{name}" for name in cast("dict[str, Any]", data))
        raise InputError(f"{path} has several datasets: name one of them with --data, {parts}")
    return data
