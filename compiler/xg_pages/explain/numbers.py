"""Put numbers on the edges of a program, write them as rows, and work out the first of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import islice, product
from typing import Any, Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.driver import compile_project
from xg.frontend.examples import BoundExample, Claim
from xg.frontend.project import Project
from xg.frontend.typed import Settings, dims_of
from xg.ir.body import topological
from xg.ir.functions import FUNCTIONS, is_negative_size, of_sigmoid
from xg.ir.graph import Apply, IRProgram, Value
from xg.ir.prim import Expr
from xg.ir.tensor import TensorType
from xg.ir.walk import frozen_paths, loss_of
from xg.verify.claim_check import Array, Recomputation, judge
from xg.verify.proof_sizes import sizes_of_proof
from xg.verify.reference import random as invented
from xg.verify.reference.evaluate import MEANING, Context, evaluate
from xg.verify.reference.interpret import Edge, Interpreter, Record, initial
from xg_pages.explain.page import Read, ShownTensor, TextTokens, Update
from xg_pages.explorer.play import is_small
from xg_runtime.errors import InputError
from xg_runtime.optim import AdamW, clip, global_norm

ROWS: Final = 8
COLUMNS: Final = 8
DIGITS: Final = 4
DECIMALS_AT_MOST: Final = 8
LARGE: Final = 1e6  # from here on numbers have exponents
SMALL: Final = 1e-6  # and below this
NOTHING: Final = 1e-12  # of the largest number beside it: the rounding error of a zero


@dataclass(frozen=True, slots=True)
class Rows:
    """The first matrix of an array as texts; `cut` says what is left out, empty for nothing."""

    rows: tuple[tuple[str, ...], ...]
    cut: str


def rows(array: Array) -> Rows:
    """The shown part of an array.

    >>> rows(np.array([[0.13, -2.0], [1e-17, np.inf]]))
    Rows(rows=(('0.13', '-2.00'), ('0.00', '∞')), cut='')
    """
    matrix = array
    while matrix.ndim > 2:
        matrix = matrix[0]
    shown = np.atleast_2d(matrix)[:ROWS, :COLUMNS]
    spell = _speller(shown)
    texts = tuple(tuple(spell(float(number)) for number in row) for row in shown)
    return Rows(texts, _cut(array, shown))


def number(value: float) -> str:
    """One number beside others in a line.

    >>> number(0.130000001), number(12.0), number(-0.0)
    ('0.13', '12', '0')
    """
    text = f"{value + 0.0:.4g}"
    return _special(value) or ("0" if text == "-0" else text)


def shape(array: Array) -> str:
    """``3 × 5``, ``3 numbers``, ``one number``."""
    if len(array.shape) == 1 and array.size != 1:
        return f"{array.size} numbers"
    return "one number" if array.ndim < 2 else " × ".join(map(str, array.shape))


def _cut(array: Array, shown: Array) -> str:
    matrices = math.prod(array.shape[:-2])
    parts = [f"the first of {matrices} matrices"] if matrices > 1 else []
    rows_, columns = np.atleast_2d(array).shape[-2:]
    if rows_ > shown.shape[0]:
        parts.append(f"{shown.shape[0]} of {rows_} rows")
    if columns > shown.shape[1]:
        parts.append(f"{shown.shape[1]} of {columns} columns")
    return ", ".join(parts)


def _speller(shown: Array) -> Callable[[float], str]:
    """How the numbers of one array are written."""
    if np.issubdtype(shown.dtype, np.integer):
        return lambda value: str(int(value))
    sizes = np.abs(shown[np.isfinite(shown)])
    peak = float(sizes.max(initial=0.0))
    if peak and not SMALL <= peak < LARGE:
        return lambda value: _special(value) or f"{_clean(value, peak):.{DIGITS - 1}e}"
    before = math.floor(math.log10(peak)) if peak else 0
    most = min(max(DIGITS - 1 - before, 0), DECIMALS_AT_MOST)
    finite = shown[np.isfinite(shown)]
    enough = (d for d in range(most) if np.all(np.abs(finite.round(d) - finite) <= NOTHING * peak))
    decimals = next(enough, most)
    return lambda value: _special(value) or f"{_clean(value, peak):.{decimals}f}"


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "" if math.isfinite(value) else "∞" if value > 0 else "-∞"


def _clean(value: float, peak: float) -> float:
    return value if abs(value) > NOTHING * peak else 0.0


# The first number of a step, worked out: `0.1·0.2 + 0.3·0 + 0.5·0.1 = 0.07`.
#
# It is spelled from the operator's own primitives, so every operator has one, forward and backward.


TERMS: Final = 6  # of a longer sum the first ones are shown
LONGEST: Final = 140  # characters; what would be longer shows less of what is inside
DEEPEST: Final = 7
SIGNS: Final = {"add": " + ", "sub": " - ", "mul": "·", "div": "/"}
VIEWS: Final = frozenset({"reshape", "transpose", "broadcast", "cut", "as_float", "stop"})
SUM, PRODUCT, WHOLE = range(3)  # how tightly a text holds together

Index = tuple[int, ...]
Spelled = tuple[str, int]


def spell_computation(
    step: Apply,
    types: Mapping[Value, TensorType],
    values: Mapping[Value, Array],
    sizes: Mapping[str, int],
) -> str:
    """Write how the first number of a step is computed; empty if it is only moved."""
    body = step.body(types)
    result = body.outputs[0]
    order = list(topological([result]))
    names = (str(expr.name) for expr in body.operands)
    operands = dict(zip(names, (values[value] for value in step.inputs), strict=True))
    context = Context(sizes)
    arrays = evaluate(order, operands, context, order)
    known = {id(expr): np.asarray(array) for expr, array in zip(order, arrays, strict=True)}
    if not known[id(result)].size:
        return ""
    first = (0,) * known[id(result)].ndim
    texts = (_Speller(known, context).spell(result, first, depth)[0] for depth in _DEPTHS)
    text = next((text for text in texts if len(text) <= LONGEST), "")
    said = number(float(known[id(result)][first]))
    return f"{text} = {said}" if text not in ("", said) else ""


_DEPTHS: Final = range(DEEPEST, 0, -1)


@dataclass(frozen=True, slots=True)
class _Speller:
    """Writes elements of expressions whose arrays are known."""

    known: Mapping[int, Array]
    context: Context

    def spell(self, expr: Expr, index: Index, depth: int) -> Spelled:
        """One element; below some depth it is the number itself."""
        if expr.prim in VIEWS:
            return self.spell(*self._source(expr, index), depth)
        if expr.prim == "where":
            chosen = 1 if self._at(expr.args[0], index) else 2
            return self.spell(expr.args[chosen], self._inside(expr.args[chosen], index), depth)
        if not depth or not expr.args:
            return self._number(expr, index)
        return self._computed(expr, index, depth - 1)

    def _computed(self, expr: Expr, index: Index, depth: int) -> Spelled:
        if (x := of_sigmoid(expr)) is not None:  # as it is stated, not as it avoids overflow
            return f"1/(1 + exp(-{_factor(self.spell(x, self._inside(x, index), depth))}))", PRODUCT
        if is_negative_size(expr):
            smaller = min(expr.args, key=lambda x: self._at(x, index))
            return self.spell(smaller, self._inside(smaller, index), depth)
        match expr.prim:
            case "add" | "sub" | "mul" | "div":
                return self._binary(expr, index, depth)
            case "maximum" | "minimum":
                parts = (self.spell(x, self._inside(x, index), depth)[0] for x in expr.args)
                return f"{expr.prim[:3]}({', '.join(parts)})", WHOLE
            case "neg":
                return f"-{_factor(self.spell(expr.args[0], index, depth))}", SUM
            case "pow":
                power = number(self.context.number(expr.attr("exponent")))
                base = _held(self.spell(expr.args[0], index, depth), WHOLE)
                return f"{_positive(base)}^{_positive(power)}", PRODUCT
            case "sum" | "mean" | "max":
                return self._spell_reduction(expr, index, depth)
            case "contract":
                return self._spell_contraction(expr, index, depth)
            case name if name in FUNCTIONS:
                return f"{name}({self.spell(expr.args[0], index, depth)[0]})", WHOLE
            case _:
                return self._number(expr, index)

    def _binary(self, expr: Expr, index: Index, depth: int) -> Spelled:
        a, b = (self.spell(x, self._inside(x, index), depth) for x in expr.args)
        binding = SUM if expr.prim in ("add", "sub") else PRODUCT
        right = binding + (expr.prim in ("sub", "div"))
        return f"{_held(a, binding)}{SIGNS[expr.prim]}{_positive(_held(b, right))}", binding

    def _spell_reduction(self, expr: Expr, index: Index, depth: int) -> Spelled:
        (x,) = expr.args
        gone: Any = expr.attr("axes")
        axes = {axis % x.rank for axis in gone}
        kept = [place for n, place in enumerate(index) if n not in axes or not expr.attr("keep")]
        array = self.known[id(x)]
        lengths = [range(array.shape[axis]) for axis in sorted(axes)]
        elements = (self._join_index(x.rank, axes, kept, at) for at in product(*lengths))
        terms = self._terms(self.spell(x, at, depth) for at in elements)
        if expr.prim == "max":
            return f"max({', '.join(text for text, _ in terms)})", WHOLE
        total = _add_terms(terms)
        if expr.prim == "sum":
            return total
        count = int(np.prod([len(length) for length in lengths]))
        return f"{_held(total, WHOLE)}/{count}", PRODUCT

    @staticmethod
    def _join_index(rank: int, gone: set[int], kept: Iterable[int], at: Index) -> Index:
        rest, inside = iter(kept), iter(at)
        return tuple(next(inside) if axis in gone else next(rest) for axis in range(rank))

    def _spell_contraction(self, expr: Expr, index: Index, depth: int) -> Spelled:
        inputs, result = str(expr.attr("spec")).split("->")
        letters = inputs.split(",")
        lengths: dict[str, int] = {}
        for names, x in zip(letters, expr.args, strict=True):
            lengths.update(zip(names, self.known[id(x)].shape, strict=True))
        summed = [letter for letter in lengths if letter not in result]
        places = dict(zip(result, index, strict=True))

        def term(at: Index) -> Spelled:
            here = {**places, **dict(zip(summed, at, strict=True))}
            pair = (
                _factor(self.spell(x, tuple(here[letter] for letter in names), depth))
                for names, x in zip(letters, expr.args, strict=True)
            )
            return "·".join(pair), PRODUCT

        ranges = (range(lengths[letter]) for letter in summed)
        return _add_terms(self._terms(map(term, product(*ranges))))

    @staticmethod
    def _terms(all_terms: Iterable[Spelled]) -> list[Spelled]:
        terms = list(islice(all_terms, TERMS + 1))
        return [*terms[:TERMS], ("…", WHOLE)] if len(terms) > TERMS else terms

    # ---- elements -------------------------------------------------------------------------------

    def _number(self, expr: Expr, index: Index) -> Spelled:
        return number(float(self._at(expr, index))), WHOLE

    def _at(self, expr: Expr, index: Index) -> float:
        return float(self.known[id(expr)][self._inside(expr, index)])

    def _inside(self, expr: Expr, index: Index) -> Index:
        """Where an element of a broadcast result is in an argument."""
        shape = self.known[id(expr)].shape
        own = index[len(index) - len(shape) :]
        return tuple(0 if size == 1 else at for size, at in zip(shape, own, strict=True))

    def _source(self, expr: Expr, index: Index) -> tuple[Expr, Index]:
        """Where an element of a view comes from."""
        (x,) = expr.args
        shape = self.known[id(x)].shape
        numbered = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
        moved = MEANING[expr.prim](expr, self.context, numbered)
        flat = int(moved[index]) if numbered.ndim else 0
        return x, tuple(int(at) for at in np.unravel_index(flat, shape))


def _add_terms(terms: list[Spelled]) -> Spelled:
    if len(terms) == 1:
        return terms[0]
    first, *others = (text for text, _ in terms)
    signs = (f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in others)
    return first + "".join(signs), SUM


def _held(spelled: Spelled, binding: int) -> str:
    text, own = spelled
    return f"({text})" if own < binding else text


def _factor(spelled: Spelled) -> str:
    return _positive(_held(spelled, PRODUCT))


def _positive(text: str) -> str:
    """A text that no sign is before, in brackets if it begins with one."""
    return f"({text})" if text.startswith("-") else text


# Put numbers on every edge of a program, and update its parameters by one step of learning.


# One step of learning with the gradients of a page: a parameter worked out, and the new loss.


RATE: Final = 3e-3  # that of `xg train`, as are the optimizer and the limit
LIMIT: Final = 1.0


def update_of(
    interpreter: Interpreter,
    inputs: Mapping[str, Array],
    loss: str,
    before: float,
    gradients: Mapping[str, Array],
) -> Update | None:
    """The first step of AdamW at the full rate of `xg train`, without its warm-up.

    None where nothing learns.
    """
    program = interpreter.program
    frozen = frozen_paths(program)
    learning = {path: np.array(x) for path, x in interpreter.params.items() if path not in frozen}
    norm = global_norm({path: gradients[path] for path in learning})
    if not learning or not np.isfinite(norm):
        return None
    scaled = clip({path: gradients[path] for path in learning}, norm, LIMIT)
    optimizer = AdamW()
    optimizer.update(learning, scaled, optimizer.slots(learning), RATE, 0)
    after = Interpreter(program, {**interpreter.params, **learning})
    with np.errstate(all="ignore"):
        outputs, _ = after.forward(inputs)
    moving = (path for path in learning if learning[path].size and scaled[path].flat[0])
    path = next(moving, next(iter(learning)))
    old, new = interpreter.params[path], learning[path]
    shown = (
        ShownTensor(path, "", old),
        ShownTensor(f"d{path}", "", gradients[path]),
        ShownTensor(path, "", new),
    )
    worked = _spell_update(old, float(scaled[path].flat[0]), optimizer, new) if new.size else ""
    return Update(shown, worked, RATE, norm, norm > LIMIT, loss, (before, float(outputs[loss])))


def _spell_update(old: Array, gradient: float, rule: AdamW, new: Array) -> str:
    """The first entry: before the first step both moments are zero, so they are dθ and dθ²."""
    theta, g, rate = number(float(old.flat[0])), number(gradient), number(RATE)
    theta = f"({theta})" if theta.startswith("-") and old.ndim >= 2 else theta
    kept = f"{theta}·(1 - {rate}·{number(rule.weight_decay)})" if old.ndim >= 2 else theta
    g = f"({g})" if g.startswith("-") else g
    moved = f"{rate}·{g}/(sqrt({g}^2) + {number(rule.epsilon)})"
    return f"{kept} - {moved} = {float(new.flat[0]):.6g}"


@dataclass(frozen=True, slots=True)
class Said:
    """The numbers that a document prints for an edge, and which of them are right."""

    claim: Claim
    printed: Array
    holds: Array


@dataclass(frozen=True, slots=True)
class Bound:
    """A program with the numbers of both passes; `seed` is None if an example gives them.

    `given` are the cotangents that the backward pass began with. `said` is what the example claims.
    `update` is there where a loss is. `axes` are the words along axes of these names. `written` are
    the numbers that the file gives to sizes, where others are taken.
    """

    program: IRProgram
    title: str
    record: Record
    given: Mapping[str, Array]
    seed: int | None
    said: Mapping[Edge, tuple[Said, ...]] = field(default_factory=dict[Edge, tuple[Said, ...]])
    update: Update | None = None
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    written: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def sizes(self) -> Mapping[str, int]:
        """The numbers of all sizes."""
        return self.record.sizes


def of_example(document: BoundExample, tokens: TextTokens | None = None) -> Bound:
    """The numbers of an example; where it has no loss, drawn cotangents go backward."""
    recomputation = Recomputation(document)
    run = recomputation.run()
    loss = loss_of(document.program.main)
    arrays = invented.cotangents(run.outputs, 0, None if loss is None else [loss])
    with np.errstate(all="ignore"):
        gradients = run.interpreter.backward(run.record, arrays)
    update = _update(run.interpreter, recomputation.inputs, run.outputs, gradients)
    said: dict[Edge, tuple[Said, ...]] = {}
    for each in judge(document):
        edge = recomputation.edge(each.claim.target)
        one = Said(each.claim, each.printed, each.from_givens.holds)
        said[edge] = (*said.get(edge, ()), one)
    read = Read.of(document.program.main) if tokens else None
    bound = Bound(document.program, document.title, run.record, arrays, None, said, update)
    return _with_words(bound, read, tokens)


def _with_words(bound: Bound, read: Read | None, tokens: TextTokens | None) -> Bound:
    """The numbers with the tokens that they are about; raises InputError where they do not fit."""
    if read is None or tokens is None:
        return bound
    read.check(bound.program.main, tokens, bound.sizes)
    words = tokens.words[: read.length(tokens)]
    graph = bound.program.main
    axes = {str(graph.sizes.fold(read.axis)): words}
    if tokens.known and (range_ := graph.types[read.first].range):
        axes[str(graph.sizes.fold(range_))] = tokens.known
    return replace(bound, axes=axes)


def of_block(
    project: Project,
    block: str | None,
    settings: Settings,
    seed: int,
    tokens: TextTokens | None = None,
) -> Bound | None:
    """Drawn numbers at the small sizes of a proof, for tokens where there are; DiagnosticError.

    None where the file itself asks for sizes too large to follow. Raises InputError for a block
    that is written for one of several ranks.
    """
    compiled = compile_project(project, block, settings)
    draft = compiled.graphs
    _refuse_ranks(draft)
    read = Read.of(draft.main) if tokens else None
    asked = read.sizes(draft.main, tokens) if read and tokens else dict[str, int]()
    fitting: Settings = {n: size for n, size in asked.items() if n in dims_of(project, block)}
    own = {**fitting, **settings}
    set_ = {name: value for name, value in own.items() if isinstance(value, int)}
    sizes = sizes_of_proof(compiled, set_)
    numbers = {name: n for name, n in sizes.items() if name in dims_of(project, block)}
    program = compile_project(project, block, {**own, **numbers}).graphs
    if not is_small(program):
        return None
    interpreter = Interpreter(program, initial(program, seed))
    given = invented.inputs(program, seed)
    if tokens:
        read = Read.of(program.main)
        read.check(program.main, tokens, sizes)
        given |= read.inputs(program.main, tokens, sizes)
    with np.errstate(all="ignore"):
        outputs, record = interpreter.forward(given)
        loss = loss_of(program.main)
        arrays = invented.cotangents(outputs, seed, None if loss is None else [loss])
        gradients = interpreter.backward(record, arrays)
    update = _update(interpreter, given, outputs, gradients)
    written = {n: size for n, size in draft.main.sizes.defaults.items() if n in sizes}
    bound = Bound(program, "", record, arrays, seed, update=update, written=written)
    return _with_words(bound, read, tokens)


def _refuse_ranks(program: IRProgram) -> None:
    if program.is_parallel:
        raise InputError(
            f"{program.main.block} is divided over ranks, and this page shows one device: to "
            "see the numbers of all ranks, run `xg serve`"
        )


def _update(
    interpreter: Interpreter,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    gradients: Mapping[str, Array],
) -> Update | None:
    """The step that the gradients of a loss allow."""
    loss = loss_of(interpreter.program.main)
    if loss is None or not np.isfinite(outputs[loss]):
        return None
    return update_of(interpreter, inputs, loss, float(outputs[loss]), gradients)
