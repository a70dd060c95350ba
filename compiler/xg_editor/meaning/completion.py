"""The offers for a place, and their order: names, words of the language, and their snippets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.op import foreign_names
from xg_editor.meaning.declared import Kind

_SNIPPETS = {  # of words that begin a declaration, as editors expand them
    "block": "block ${1:Name}(${2:X} [${3:B, S, D}]) -> ${4:Y} [${5:$3}] {\n"
    "    param ${6:W [D, D]}\n\n    ${2:X} -> $0 : ${4:Y}\n}",
    "param": "param ${1:W} [${2:D, D}]",
    "example": 'example "${1:Numbers}" of ${2:Block} {\n    given ${3:X} = $4\n'
    "    expect ${5:Y} = $0\n}",
}
_COMMON = (
    *("LN", "S", "ReLU", "GELU", "SiLU", "DO", "R", "T", "C", "BC"),
    *("SM", "Emb", "CE", "mean", "sum", "tanh", "sigmoid", "scale"),
)


@dataclass(frozen=True, slots=True)
class Completion:
    """A name or word to write: what it is, its detail in one line, more about it as Markdown.

    `also` is another spelling that finds it: • by the name matmul; `found_by` is the one that has
    found it. `snippet` is what an editor that has places to fill in writes instead.
    """

    name: str
    kind: Kind | str
    detail: str = ""
    text: str = ""
    also: str = ""
    found_by: str = ""
    snippet: str = ""


def word_of_language(text: str) -> Completion:
    """A word of the language, with what it begins."""
    return Completion(text, "word of the language", snippet=_SNIPPETS.get(text, ""))


def ranked(found: Iterable[Completion], typed: str) -> list[Completion]:
    """The names in the order to offer them, each once; none where the word is complete.

    The name that is complete comes first, then those that the word begins, then operators with
    another name that it begins, then the rest. A word that is one of the names and begins no other
    is complete: what would replace it is itself.
    """
    names: dict[str, Completion] = {}
    for each in found:
        names.setdefault(each.name, each)
    own = names.get(typed)
    if own and not own.snippet and not any(_more(each, typed) for each in names.values()):
        return []
    spelled = (one for each in names.values() for one in _spellings(each, typed))
    return sorted(spelled, key=lambda each: _likeness(each, typed))


def in_order_of_use(operators: Iterable[Completion]) -> list[Completion]:
    """Operators as they are looked for: common ones first, signs last."""
    places = {name: place for place, name in enumerate(_COMMON)}
    last = len(places)

    def place(each: Completion) -> tuple[bool, int]:
        return not each.name.isalnum(), places.get(each.name, last)

    return sorted(operators, key=place)


def _more(found: Completion, typed: str) -> bool:
    """Whether a word begins a name and is not all of it."""
    return found.name != typed and found.name.lower().startswith(typed.lower())


def _spellings(found: Completion, typed: str) -> Iterator[Completion]:
    """A name, and an operator by another name of it that a word begins: S for softm."""
    low = typed.lower()
    others = foreign_names(found.name, found.also) if found.kind == "operator" and low else ()
    fitting = (name for name in others if name.startswith(low) and name != found.name.lower())
    other = next((name for name in fitting if name), None)
    if other is None or found.name.lower().startswith(low):
        yield found
    if other is not None:
        yield replace(found, found_by=other)


def _likeness(found: Completion, typed: str) -> tuple[bool, ...]:
    """The place of a name among others: what is complete, what the word begins, then the rest."""
    name, other = found.name, found.found_by
    begins = (name.startswith(typed), name.lower().startswith(typed.lower()))
    by_name = (not each or bool(other) for each in begins)
    return bool(other) or typed != name, *by_name, not other
