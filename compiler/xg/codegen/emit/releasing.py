"""The public backward functions of a module that frees saved values as soon as it has read them.

They keep no other reference to what was saved: values that the caller keeps stay, the others go as
the pass goes. A decorator would keep them, with all its arguments, until the pass has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.codegen.emit.later import BACKWARD, EARLIER, IN_PARTS, KIND
from xg.codegen.emit.line_breaks import bracketed, indented
from xg.diagnostics.lazy_dataclass import dataclass

_OWN: Final = '"""The gradients of `backward`; frees the fields of `saved` that it has read."""'


@dataclass(frozen=True, slots=True)
class Releasing:
    """The class of saved values, the lines that check arguments, and the decorator of functions."""

    saved_class: str
    checks: Sequence[str]
    decorator: str

    def functions(self, body: Sequence[str], *, in_parts: bool) -> list[list[str]]:
        """The public functions, and the private one with this body."""
        doc, nothing = [f'"""{BACKWARD}"""'], ["None", "None"] if in_parts else []
        whole = self._public("backward", doc, [], nothing)
        more = [KIND, f"{EARLIER} = None"]
        parts = self._public("backward_in_parts", IN_PARTS, more, ["later", "earlier"])
        head = self._head("_gradients", [KIND, EARLIER] if in_parts else [])
        own = [*head, *indented([_OWN, *body])]
        return [*([parts] if in_parts else []), whole, own]

    def _head(self, name: str, more: Sequence[str]) -> list[str]:
        arguments = ["params: Params", f"saved: {self.saved_class}"]
        arguments += ["d_outputs: Mapping[str, Array]", *more]
        return bracketed(f"def {name}(", arguments, ") -> Params:")

    def _public(
        self, name: str, doc: Sequence[str], more: Sequence[str], last: Sequence[str]
    ) -> list[str]:
        call = f"return _gradients({', '.join(['params', 'saved', 'd_outputs', *last])})"
        body = [
            *doc,
            *self.checks,
            "saved = _copy(saved)  # alone it keeps what the caller does not",
            *([f"with {self.decorator.removeprefix('@')}:"] if self.decorator else []),
            *(indented([call]) if self.decorator else [call]),
        ]
        return [*self._head(name, more), *indented(body)]
