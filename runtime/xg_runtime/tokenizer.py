"""A tokenizer as it is published: `tokenizer.json`, read by the package `tokenizers`.

It is a vocabulary like those of `xg_runtime.tokens`, but its ids depend on more than one character.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from xg_runtime import files
from xg_runtime.errors import FileError, InputError
from xg_runtime.module import Array
from xg_runtime.tokens import as_text

TOKENIZER: Final = "tokenizer.json"
_CONFIGS: Final = ("generation_config.json", "config.json")


def ends(folder: Path) -> tuple[int, ...]:
    """Return the tokens that end a text, as the configs in a folder of weights say; or none."""
    for name in _CONFIGS:
        if (folder / name).is_file():
            try:
                config: Any = json.loads(files.read(folder / name))
                end = config.get("eos_token_id")
            except (ValueError, AttributeError, RecursionError) as error:
                raise InputError(f"{folder / name} must hold a JSON object") from error
            if end is not None:
                tokens = cast("list[int]", end if isinstance(end, list) else [end])
                return tuple(map(int, tokens))
    return ()


@dataclass(frozen=True)
class Tokenizer:
    """The tokens of a published model."""

    source: str
    inner: Any  # tokenizers.Tokenizer, which has no types of its own

    @classmethod
    def read(cls, path: Path) -> "Tokenizer":
        """Read a file; raises FileError, and InputError where it makes no sense."""
        try:
            import tokenizers
        except ImportError as error:
            raise InputError(
                f"reading {path} needs the package tokenizers: pip install 'xg[generate]'"
            ) from error
        if not path.is_file():
            raise FileError(f"cannot read {path}: there is no such file")
        try:
            inner: Any = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises Exception itself
            reason = str(error).splitlines()[0]
            raise InputError(f"{path} is not a tokenizer.json: {reason}") from error
        return cls(str(path), inner)

    @property
    def size(self) -> int:
        """How many ids there are."""
        return int(self.inner.get_vocab_size())

    def encode(self, text: bytes) -> Array:
        """Return the ids [N] of a text in UTF-8, with those that the tokenizer puts around it."""
        return np.array(self.inner.encode(as_text(text)).ids, np.int64)

    def decode(self, ids: Array) -> str:
        """Return the text of ids [N], without special ones."""
        return str(self.inner.decode(ids.tolist()))

    def describe(self) -> dict[str, str]:
        """Return what another tokenizer.json would differ in."""
        return {"level": "tokenizer", "sha256": hashlib.sha256(self._json()).hexdigest()}

    def write(self, folder: Path) -> None:
        """Keep it in the folder of a run; raises FileError."""
        files.write(folder / TOKENIZER, self._json())

    def _json(self) -> bytes:
        return str(self.inner.to_str()).encode()

    def token(self, text: str) -> int:
        """Return the id of one token; raises InputError if the vocabulary lacks it."""
        number = self.inner.token_to_id(text)
        if number is None:
            raise InputError(f"{self.source} has no token {text!r}")
        return int(number)
