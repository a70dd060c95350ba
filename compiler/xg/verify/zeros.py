"""Find why gradients are zero, and prove that those are which a block expects to be."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.body import topological
from xg.ir.dim import ONE, ZERO, Dim, product
from xg.ir.functions import STEPS
from xg.ir.graph import LAST_ROUND, Apply, Call, Graph, IRProgram, MeantZero, Value
from xg.ir.prim import COMPARE, RANDOM, Expr, batch_of
from xg.ir.tensor import Shape
from xg.ir.walk import join, param_specs, sites_with
from xg.verify.reference.random import key
from xg.verify.reference.residues import DRAWS, PRIMES, Undefined, draw, modulo_in_random_order, run
from xg_runtime.errors import InputError
from xg_runtime.module import Array

# How a small change of one value propagates: not at all, uniformly along axes, or anyhow.
#
# A bias added to every key changes each row of scores by one number; softmax subtracts the row's
# maximum, which changes by the same number, and nothing is left. This analysis follows such changes
# primitive by primitive: a change is known by its source, by the axes along which it is uniform,
# and by the part of a concatenation that it stays in. Positions that are -inf stay so, whatever is
# added.


Axes = frozenset[int]  # counted from the end: -1 is the last


@dataclass(frozen=True, slots=True)
class Part:
    """Positions start … stop-1 of an axis counted from the end."""

    axis: int
    start: Dim
    stop: Dim

    def misses(self, axis: int, start: Dim, stop: Dim) -> bool:
        """Whether these positions are certainly none of the part's."""
        gaps = ((start - self.stop).constant, (self.start - stop).constant)
        return axis == self.axis and any(gap is not None and gap >= 0 for gap in gaps)


@dataclass(frozen=True, slots=True)
class Perturbation:
    """A change. Equal `source` means an equal change, up to repetition along `uniform` axes.

    With a `part` nothing changes outside it.
    """

    source: object
    uniform: Axes
    part: Part | None = None


Perturbations = Mapping[
    int, Perturbation
]  # by the `id` of an expression; what is not there does not change


def propagate(
    outputs: tuple[Expr, ...], operands: Mapping[str, Perturbation]
) -> list[Perturbation | None]:
    """The changes of a body's outputs when these operands change."""
    perturbations: dict[int, Perturbation] = {}
    for expr in topological(outputs):
        if expr.prim == "operand":
            perturbation = operands.get(str(expr.attr("name")))
        elif any(id(arg) in perturbations for arg in expr.args):
            perturbation = _RULES.get(expr.prim, _arbitrary)(expr, perturbations)
        else:
            perturbation = None
        if perturbation is not None:
            perturbations[id(expr)] = perturbation
    return [perturbations.get(id(output)) for output in outputs]


def _arbitrary(expr: Expr, known: Perturbations) -> Perturbation | None:
    """Return an arbitrary change: it may be anything."""
    return Perturbation(expr, frozenset())


def _no_change(expr: Expr, known: Perturbations) -> Perturbation | None:
    """Return None: the result has no change that a gradient could see."""
    return None


def _all_axes(expr: Expr) -> Axes:
    return frozenset(range(-expr.rank, 0))


def _broadcast_axes(arg: Expr, expr: Expr) -> Axes:
    """Axes of `expr` along which an operand is repeated."""
    own = {axis: arg.shape[axis] for axis in range(-arg.rank, 0)}
    return frozenset(axis for axis in range(-expr.rank, 0) if axis not in own or own[axis] == ONE)


def _uniform_axes(arg: Expr, expr: Expr, known: Perturbations) -> Axes:
    """Axes of `expr` along which the change that one operand brings is the same."""
    change = known.get(id(arg))
    return _all_axes(expr) if change is None else (change.uniform | _broadcast_axes(arg, expr))


def _sum(expr: Expr, known: Perturbations) -> Perturbation | None:
    """``a + b`` and ``a - b``; equal changes of both sides of a difference cancel."""
    left, right = (known.get(id(arg)) for arg in expr.args)
    uniform = _uniform_axes(expr.args[0], expr, known) & _uniform_axes(expr.args[1], expr, known)
    if left and right:
        if expr.prim == "sub" and left.source == right.source:
            return None
        return Perturbation((expr.prim, left.source, right.source), uniform)
    if left:
        return Perturbation(left.source, uniform)
    assert right
    return Perturbation(right.source if expr.prim == "add" else ("neg", right.source), uniform)


def _product(expr: Expr, known: Perturbations) -> Perturbation | None:
    """``a * b``, and ``a / b`` where b does not change: uniform where the fixed factor is."""
    changing = [arg for arg in expr.args if id(arg) in known]
    if len(changing) != 1 or (expr.prim == "div" and changing[0] is expr.args[1]):
        return _arbitrary(expr, known)
    (fixed,) = (arg for arg in expr.args if arg is not changing[0])
    return Perturbation(
        expr, _uniform_axes(changing[0], expr, known) & _broadcast_axes(fixed, expr)
    )


def _negate(expr: Expr, known: Perturbations) -> Perturbation | None:
    change = known[id(expr.args[0])]
    return Perturbation(("neg", change.source), change.uniform)


def _where(expr: Expr, known: Perturbations) -> Perturbation | None:
    """A branch of -inf takes no part; a test against -inf replaces nothing that counts.

    Of a choice between a run of training and another, it is the run of training.
    """
    condition, yes, no = expr.args
    if _tests_training(condition):
        return known.get(id(yes))
    if id(yes) in known and (_is_minus_infinity(no) or _tests_infinity(condition, yes)):
        return Perturbation(known[id(yes)].source, _uniform_axes(yes, expr, known))
    if id(yes) not in known and id(no) not in known:
        return None
    uniform = (
        _uniform_axes(yes, expr, known)
        & _uniform_axes(no, expr, known)
        & _broadcast_axes(condition, expr)
    )
    return Perturbation(expr, uniform)


def _is_minus_infinity(expr: Expr) -> bool:
    if expr.prim != "const":
        return False
    return getattr(expr.attr("value"), "constant", None) == float("-inf")


def _tests_infinity(condition: Expr, value: Expr) -> bool:
    return (
        condition.prim == "gt"
        and condition.args[0] is value
        and _is_minus_infinity(condition.args[1])
    )


def _tests_training(condition: Expr) -> bool:
    """Whether this holds in every run with a seed: a number is drawn as 1, and else as its mean."""
    if condition.prim != "gt" or condition.args[0].prim != "draw":
        return False
    drawn = condition.args[0]
    scale = getattr(drawn.attr("scale"), "constant", None)
    return (drawn.attr("law"), scale) == ("bernoulli", 1)


def _reduce(expr: Expr, known: Perturbations) -> Perturbation | None:
    """The mean and the maximum of numbers that change uniformly change as they do.

    Without `keep` that is so where the axes in front are reduced: others would move.
    """
    (arg,) = expr.args
    change = known[id(arg)]
    gone = frozenset(axis for axis in expr.axes())
    same = expr.prim in ("mean", "max") and gone <= change.uniform
    if expr.attr("keep"):
        return Perturbation(change.source if same else expr, change.uniform | gone)
    left = [axis for axis in range(-arg.rank, 0) if axis not in gone]
    uniform = frozenset(i - len(left) for i, axis in enumerate(left) if axis in change.uniform)
    same = same and all(axis < left[0] for axis in gone) if left else False
    return Perturbation(change.source if same else expr, uniform)


def _contraction(expr: Expr, known: Perturbations) -> Perturbation | None:
    """Uniform along axes that only the changing operand has, where it changes uniformly."""
    changing = [place for place, arg in enumerate(expr.args) if id(arg) in known]
    if len(changing) != 1:
        return _arbitrary(expr, known)
    (place,) = changing
    inputs, output = str(expr.attr("spec")).split("->")
    letters = inputs.split(",")
    own, fixed = letters[place], letters[1 - place]
    change = known[id(expr.args[place])]
    free = {own[axis] for axis in change.uniform} - set(fixed)
    return Perturbation(
        expr, frozenset(i - len(output) for i, at in enumerate(output) if at in free)
    )


def _transpose(expr: Expr, known: Perturbations) -> Perturbation | None:
    rank = expr.rank
    uniform = known[id(expr.args[0])].uniform
    order = enumerate(expr.axes("order"))
    return Perturbation(expr, frozenset(i - rank for i, axis in order if axis - rank in uniform))


def _reshape(expr: Expr, known: Perturbations) -> Perturbation | None:
    """Split axes stay uniform in all parts; merged ones are if all of their parts are."""
    (arg,) = expr.args
    uniform = {axis + arg.rank for axis in known[id(arg)].uniform}
    axes: set[int] = set()
    for old, new in _groups(arg.shape, expr.shape):
        if all(axis in uniform for axis in old if arg.shape[axis] != ONE):
            axes.update(new)
    return Perturbation(expr, frozenset(axis - expr.rank for axis in axes))


def _groups(old: Shape, new: Shape) -> list[tuple[range, range]]:
    """The smallest runs of axes with the same number of elements on both sides."""
    groups: list[tuple[range, range]] = []
    i = j = 0
    for end in range(1, len(old) + 1):
        size = product(old[i:end])
        stop = next((k for k in range(j, len(new) + 1) if product(new[j:k]) == size), None)
        if stop is not None:
            groups.append((range(i, end), range(j, stop)))
            i, j = end, stop
    if i < len(old) or j < len(new):
        groups.append((range(i, len(old)), range(j, len(new))))
    return groups


def _broadcast(expr: Expr, known: Perturbations) -> Perturbation | None:
    (arg,) = expr.args
    return Perturbation(known[id(arg)].source, _uniform_axes(arg, expr, known))


def _gather(expr: Expr, known: Perturbations) -> Perturbation | None:
    """Rows of a table that changes: uniform along the ids' axes if the rows change uniformly."""
    table, ids = expr.args
    change = known.get(id(table))
    if change is None:
        return None
    if batch_of(expr):
        return _arbitrary(expr, known)
    uniform = {axis for axis in change.uniform if axis > -table.rank}
    if -table.rank in change.uniform:
        uniform |= {axis - (expr.rank - ids.rank) for axis in range(-ids.rank, 0)}
    return Perturbation(expr, frozenset(uniform))


def _concat(expr: Expr, known: Perturbations) -> Perturbation | None:
    """Changes from the first part that changes to the last."""
    axis = expr.typed_attr("axis", int)
    start = ZERO
    ends: list[Dim] = []
    for arg in expr.args:
        stop = start + arg.shape[axis]
        if change := known.get(id(arg)):
            inner = change.part if change.part and change.part.axis == axis else None
            ends += (start + inner.start, start + inner.stop) if inner else (start, stop)
        start = stop
    uniform = _all_axes(expr).intersection(*(_uniform_axes(a, expr, known) for a in expr.args))
    return Perturbation(expr, uniform - {axis}, Part(axis, ends[0], ends[-1]))


def _cut(expr: Expr, known: Perturbations) -> Perturbation | None:
    """Does not change if only other positions do."""
    change = known[id(expr.args[0])]
    start, stop = expr.typed_attr("start", Dim), expr.typed_attr("stop", Dim)
    if change.part and change.part.misses(expr.typed_attr("axis", int), start, stop):
        return None
    return Perturbation(expr, change.uniform)


Rule = Callable[[Expr, Perturbations], Perturbation | None]
_RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(COMPARE, _no_change),
    "as_float": _no_change,
    **dict.fromkeys(("stop", *STEPS), _no_change),
    **dict.fromkeys(RANDOM, _no_change),
    "top": _no_change,
    "earlier": _no_change,
    "add": _sum,
    "sub": _sum,
    "mul": _product,
    "div": _product,
    "neg": _negate,
    "where": _where,
    "mean": _reduce,
    "max": _reduce,
    "sum": _reduce,
    "contract": _contraction,
    "transpose": _transpose,
    "reshape": _reshape,
    "broadcast": _broadcast,
    "gather": _gather,
    "concat": _concat,
    "cut": _cut,
}


Changes = dict[Value, Perturbation]
Path = tuple[str, ...]
ANYHOW = frozenset[int]()


def why_zero(graph: Graph, value: Value) -> str | None:
    """The reason why no output of a graph depends on a parameter or an input, to first order.

    None if that cannot be shown: then a gradient that is zero is an error. Calls are not looked
    into: what goes into one may change all that comes out.
    """
    return _Walk({}).why(graph, (str(value.name),), {value: Perturbation(value, ANYHOW)})


def why_zero_through_calls(program: IRProgram, path: str) -> str | None:
    """`why_zero` of a parameter or an input by its path, followed through every call."""
    names = tuple(path.split("."))
    last = frozenset(_last_rounds(program, names))
    return _Walk(program.graphs, last).why(program.main, names, {})


def _last_rounds(program: IRProgram, path: Path) -> Iterator[Path]:
    """The ends of a parameter's path that begin with the number of its row's last round."""
    paths = {path for path, *_ in param_specs(program)}
    for place, name in enumerate(path):
        after = (*path[:place], str(int(name) + 1), *path[place + 1 :]) if name.isdigit() else ()
        if after and ".".join(after) not in paths:
            yield path[place:]


class _Walk:
    """Follows a change through steps, and into the calls of graphs that it knows."""

    def __init__(self, graphs: Mapping[str, Graph], last: Container[Path] = ()) -> None:
        self.graphs = graphs
        self.last = last
        self.ends: dict[str, None] = {}  # why the change does not go on where it ends
        self.begins: set[object] = set()

    def why(self, graph: Graph, path: Path, changes: Changes) -> str | None:
        """The reason, if no output of the graph changes."""
        reached = self._through_graph(graph, changes, path)
        if any(output in reached for output in graph.outputs):
            return None
        return "; ".join(self.ends) or "it is not used"

    def _through_graph(self, graph: Graph, changes: Changes, path: Path) -> Changes:
        """Every value of a graph that changes, by its inputs and by what `path` leads to."""
        changed = dict(changes)
        named = [*graph.inputs, *(param.value for param in graph.params)]
        begins = [value for value in named if path == (value.name,)]
        self.begins.update(begins)
        changed |= {value: Perturbation(value, ANYHOW) for value in begins}
        for step in graph.steps:
            inside = isinstance(step, Call) and path[:1] == (step.path,) and len(path) > 1
            if not inside and not any(each in changed for each in step.inputs):
                continue
            if isinstance(step, Call):
                changed |= self._through_call(step, changed, path[1:] if inside else ())
                continue
            reached = _through(step, graph, changed)
            changed |= reached
            if not reached:
                self.ends[_explain_end(step, graph, changed)] = None
        return changed

    def _through_call(self, call: Call, changed: Changes, path: Path) -> Changes:
        """The outputs of a call that change; in a row, after its round and all that follow it."""
        callee = self.graphs.get(call.callee)
        if callee is None:
            return {each: Perturbation(each, ANYHOW) for each in call.outputs}
        last = path in self.last
        if call.count is not None and path:
            path = path[1:]  # of the other rounds it does not matter which it is
        inputs = zip(callee.inputs, call.inputs, strict=True)
        ports = {port: changed[value] for port, value in inputs if value in changed}
        if call.loop is not None:
            results = self._over(callee, call.loop.states, ports, path)
        else:
            results = self._outputs(callee, ports, path)
        if call.count is not None and (ports or not last):
            results = self._rounds(callee, ports, results, inside=bool(path))
        given = {change.source for change in ports.values()} | self.begins
        pairs = zip(call.outputs, results, strict=True)
        return {value: _of_call(call, change, given) for value, change in pairs if change}

    def _outputs(self, callee: Graph, ports: Changes, path: Path) -> list[Perturbation | None]:
        reached = self._through_graph(callee, ports, path)
        return [reached.get(output) for output in callee.outputs]

    def _over(
        self, callee: Graph, states: int, ports: Changes, path: Path
    ) -> list[Perturbation | None]:
        """Return the changed outputs of a loop; a changed state changes in all later rounds."""
        carried = callee.inputs[len(callee.inputs) - states :]
        ports = {port: Perturbation(port, ANYHOW) for port in ports}
        while True:
            results = self._outputs(callee, ports, path)
            ends = results[len(results) - states :]
            new = {port for port, end in zip(carried, ends, strict=True) if end} - {*ports}
            if not new:
                break
            ports |= {port: Perturbation(port, ANYHOW) for port in new}
        outputs = zip(callee.outputs, results, strict=True)
        return [Perturbation(output, ANYHOW) if change else None for output, change in outputs]

    def _rounds(
        self,
        callee: Graph,
        ports: Changes,
        results: list[Perturbation | None],
        *,
        inside: bool,
    ) -> list[Perturbation | None]:
        """Return the outputs of a repeat that change, for any number of rounds.

        The change begins in the operands, or `inside` a round that is not the last one.
        """
        every_round = ports.keys() - {callee.inputs[0]}
        if not every_round and not any(results):
            return results  # it ends in the round where it begins
        first = [change for change in (*results, ports.get(callee.inputs[0])) if change]
        if not first:
            return results
        uniform = frozenset[int].intersection(*(change.uniform for change in first))
        while True:
            round_ = _Round(callee)
            state = {callee.inputs[0]: Perturbation(round_, uniform)}
            (after,) = self._outputs(callee, ports | state, ())
            if after is None and inside and not every_round:
                return [None]  # the next round stops what it carries
            narrower = uniform & after.uniform if after else uniform
            if narrower == uniform:
                return [Perturbation(round_, uniform)]
            uniform = narrower  # fewer axes each time


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """A change of the value that goes round, equal to no other."""

    callee: Graph


def _of_call(call: Call, change: Perturbation, given: Container[object]) -> Perturbation:
    """A change that a call makes: another call of the same block makes another.

    One that comes out as it was given, or as the parameter itself, is the same in all calls.
    """
    if change.source in given:
        return change
    return replace(change, source=(id(call), change.source))


def _through(step: Apply, graph: Graph, changes: Mapping[Value, Perturbation]) -> Changes:
    """The outputs of an operator that change, without its caches."""
    body = step.body(graph.types)
    pairs = zip(body.operands, step.inputs, strict=True)
    operands = {str(expr.name): changes[each] for expr, each in pairs if each in changes}
    results = zip(step.outputs, propagate(body.outputs, operands), strict=True)
    return {each: change for each, change in results if change and each.role != "cache"}


def _explain_end(step: Apply, graph: Graph, changed: Changes) -> str:
    """Why a change ends here: any change would, or only one that is equal in rows or operands."""
    where = f"{step.op.glyph} in line {step.span.line}"
    shifts = {value: changed[value] for value in step.inputs if value in changed}
    if not _through(step, graph, {value: Perturbation(value, ANYHOW) for value in shifts}):
        return f"{where} has no slope"
    if any(change.part for change in shifts.values()):
        return f"it changes a part that {where} leaves out"
    if len(shifts) > 1:
        return f"it shifts operands of {where} equally, which cancels in their difference"
    rows = "channels" if step.op.name == "batch_norm" else "rows"
    return f"it shifts whole {rows} alike, which {where} does not see"


# Proof that gradients are zero which a block expects to be: `expect dW = 0`.
#
# Floats prove nothing here: a gradient of 1e-17 may be zero or only small. Where the graph itself
# stops the change, `zeros` has the reason. Otherwise the backward pass runs on random residues
# modulo primes. There a sum over a column of a doubly stochastic matrix is 1 to the last bit, so a
# gradient that is zero for every input is exactly zero; any other is zero with a chance of about
# one in a billion for each element and each draw. exp and its like are arbitrary functions there: a
# gradient that is zero only by a law of theirs, such as exp(a)*exp(b) = exp(a + b), isn't proven.


ROUNDS: Final = 4  # of draws for each prime


@dataclass(frozen=True, slots=True)
class ZeroProof:
    """One line of the file, and how it is proven; what contradicts it, if it isn't."""

    meant: MeantZero
    proven_by: str
    otherwise: str = ""


def claim_of(path: str) -> str:
    """Spell the claim about a parameter or an input.

    >>> claim_of("layers.0.W")
    'layers.0.dW = 0'
    """
    calls, dot, name = path.rpartition(".")
    return f"{calls}{dot}d{name} = 0"


def expected_zeros(program: IRProgram) -> dict[str, MeantZero]:
    """Return what the blocks of a program expect, by the paths of parameters and inputs.

    An input of a called block has no gradient here: the block proves its line when it is the one
    that is verified. Raises InputError for a round that a repeat does not have.
    """
    known = {path for path, *_ in param_specs(program)}
    inputs = {str(value.name) for value in program.main.inputs}
    found: dict[str, MeantZero] = {}
    for site in sites_with(program, lambda graph: len(graph.meant_zeros)):
        for meant in site.graph.meant_zeros:
            path = _resolve_last_rounds(known, site.path, meant.path)
            if path in known or (not site.path and path in inputs):
                found.setdefault(path, meant)
            elif "." in meant.path:
                raise InputError(
                    f"line {meant.span.line} expects a gradient of {path}, which does not "
                    "exist at the sizes of this proof: set the size that counts the rounds "
                    f"with --set, or write `{LAST_ROUND}` for the last round"
                )
    return found


def _resolve_last_rounds(known: set[str], site: str, path: str) -> str:
    """A path with the number of each last round in the place of the word."""
    whole = site
    for part in path.split("."):
        beginning = f"{whole}." if whole else ""
        below = (name[len(beginning) :] for name in known if name.startswith(beginning))
        numbers = [int(head) for name in below if (head := name.partition(".")[0]).isdecimal()]
        whole = join(whole, str(max(numbers)) if part == LAST_ROUND and numbers else part)
    return whole


def prove_zeros(
    program: IRProgram, expected: Mapping[str, MeantZero], shared: set[str], seed: int
) -> dict[str, ZeroProof]:
    """Prove each expected zero, by its path."""
    proofs: dict[str, ZeroProof] = {}
    for path, meant in expected.items():
        by_structure = path.rpartition(".")[2] not in shared
        if by_structure and (reason := why_zero_through_calls(program, path)):
            proofs[path] = ZeroProof(meant, f"the graph: {reason}")
    open_ = {path: meant for path, meant in expected.items() if path not in proofs}
    return proofs | _modular(program, open_, seed)


def _modular(
    program: IRProgram, expected: Mapping[str, MeantZero], seed: int
) -> dict[str, ZeroProof]:
    if not expected:
        return {}
    wrong: dict[str, str] = {}
    draws = 0
    try:
        for prime, gradients in _runs(program, seed):
            draws += 1
            for path in expected:
                place = _first(gradients[path])
                if place is not None and path not in wrong:
                    number = int(gradients[path][place])
                    at = f" at {[int(each) for each in place]}" if place else ""
                    wrong[path] = f"it is {number} modulo {prime}{at}"
    except Undefined as error:
        reason = f"it can't be computed modulo a prime: {error}"
        return {path: ZeroProof(meant, "", reason) for path, meant in expected.items()}
    how = f"the modular check, {draws} draws modulo {len(PRIMES)} primes"
    return {
        path: ZeroProof(meant, "" if path in wrong else how, wrong.get(path, ""))
        for path, meant in expected.items()
    }


def _runs(program: IRProgram, seed: int) -> Iterator[tuple[int, Mapping[str, Array]]]:
    """Every draw of every prime, with all gradients; raises Undefined if some draw has none."""
    for prime in PRIMES:
        for number in range(ROUNDS):
            for attempt in range(DRAWS):
                stream = key(seed, f"zero {number} {attempt}")
                arithmetic = modulo_in_random_order(prime, stream)
                given = draw(program, prime, stream)
                try:
                    outcome = run(program, given, arithmetic=arithmetic)
                except Undefined:
                    if attempt == DRAWS - 1:
                        raise
                    continue
                yield prime, outcome.gradients
                break


def _first(gradient: Array) -> tuple[int, ...] | None:
    """The place of the first element that is not zero."""
    places = np.argwhere(gradient != 0)
    return tuple(int(each) for each in places[0]) if len(places) else None
