"""The parser of a command's words."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable
from typing import NoReturn

from xg.cli.exits import USAGE
from xg.diagnostics.terminal import columns_of, fold, printable
from xg.diagnostics.wording import similar


class CommandParser(ArgumentParser):
    """Answers a wrong word by what is wrong and what to write instead, not by every option."""

    def __init__(self, name: str, about: str, example: str) -> None:
        """Begin the parser of `xg NAME`, which does what `about` says."""
        super().__init__(
            prog=f"xg {name}",
            description="\n".join(fold(about, columns_of(sys.stdout))),
            epilog=f"example:\n  {example}",
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._example = example
        self.further: Callable[[], Iterable[str]] = tuple  # lines of the help, made when it is read

    def format_help(self) -> str:
        """The help, and what there is further to say."""
        return super().format_help() + "".join(f"{line}\n" for line in self.further())

    def error(self, message: str) -> NoReturn:
        """Print the message and a help; exits."""
        text = f"{self.prog}: error: {printable(message)}\n  = help: {self._help(message)}\n"
        self.exit(USAGE, text)

    def _help(self, message: str) -> str:
        for word in re.findall(r"unrecognized arguments: (--[\w-]+)", message):
            other = similar(word, re.findall(r"--[\w-]+", self.format_help()))
            if other:
                return f"did you mean {other}?"
        if re.search(r"unrecognized arguments: \S+\.bin\b", message):
            return "a pattern for several files needs quotes: --data 'shard_*.bin'"
        return f"{self.prog} --help lists what it takes\n  = help: an example is {self._example}"
