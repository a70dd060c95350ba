"""Define the fixed parts of a backend's modules, and its kernels written by hand."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Final, cast

from xg.codegen.emit.allowlist import Allowlist
from xg.codegen.emit.array_ops import places_of
from xg.codegen.emit.function import OperatorFunction
from xg.codegen.emit.spelling import Spelling, SupportFile
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.body import Body
from xg.ir.collectives import collective_of
from xg.ir.dim import Scalar
from xg.ir.graph import Apply
from xg.ir.prim import Cuts
from xg.ir.use import Attrs
from xg.packages import offers, service

# Kernels: functions by hand that a backend has for some operators, instead of their bodies.
#
# A kernel takes the operands of its operator in order, then by name numbers and words of the use,
# ``seed`` and ``place``, and ``cuts`` if it draws a rank's part of a mask; it gives what the body
# gives. Where it does not fit, the body is written.


Fits = Callable[[Attrs, Body], bool]


def always(attrs: Attrs, body: Body) -> bool:
    """A kernel for every use whose operands it takes."""
    return True


@dataclass(frozen=True, slots=True)
class Kernel:
    """The function that computes an operator, for the uses that fit.

    One that `overwrites` an operand is for uses after which nothing reads it any more. One that
    `turns` gives the transposed matrix of its two operands in the other order.
    """

    operator: str
    function: str
    fits: Fits = always
    overwrites: str = ""
    turns: bool = False


AROUND: Final = (
    Kernel("ring attention", "ring_attention"),
    Kernel("gradient of ring attention", "d_ring_attention"),
    Kernel("ring attention", "ring_attention_with_dropout"),
    Kernel("gradient of ring attention", "d_ring_attention_with_dropout"),
)


RING: Final = Path(__file__).with_name("ring.py")


def ring_kernels(functions: SupportFile, support: SupportFile) -> Kernels:
    """The kernels that go round a ring of ranks, which modules have without `--kernels`."""
    return Kernels(functions, support, AROUND)


@dataclass(frozen=True)
class Kernels:
    """The kernels of one backend; their functions, and all that these may call.

    Backward passes of a `releasing` backend free saved values as soon as they are read.
    """

    functions: SupportFile
    support: SupportFile
    table: Sequence[Kernel]
    releasing: bool = False

    def find(
        self, step: Apply, body: Body, spent: Container[str] = ()
    ) -> tuple[str, OperatorFunction] | None:
        """Find a kernel that computes the outputs of a step's body; return its name and text.

        `spent` are the operands that may be written into.
        """
        if step.op.local and not _goes_round(body):
            return None  # by hand is written what is computed on whole tensors
        for kernel in self._by_operator.get(step.op.name, ()):
            if kernel.overwrites and kernel.overwrites not in spent:
                continue
            node = self._nodes[kernel.function]
            derived = step.origin if step.op.name.startswith("gradient of ") else None
            attrs = (derived or step).attrs
            taken = _match_arguments(node, body, attrs)
            if taken and len(body.outputs) == _results(node) and kernel.fits(attrs, body):
                return kernel.function, self._function(node, taken, turns=kernel.turns)
        return None

    def computes(self, operator: str) -> bool:
        """Whether some uses of an operator have a kernel."""
        return operator in self._by_operator

    def names(self) -> frozenset[str]:
        """The names of the files' functions, which no variable may have."""
        return frozenset(self._nodes)

    def helpers(self) -> frozenset[str]:
        """Return the functions that only kernels call; a module may not reuse their names."""
        return self.names() - {kernel.function for kernel in self.table}

    def _function(self, node: ast.FunctionDef, taken: _Taken, *, turns: bool) -> OperatorFunction:
        assert node.returns
        lines = self.support.source(node.name).splitlines()[node.body[0].lineno - node.lineno :]
        return OperatorFunction(
            head=f"({_text(node.args)}) -> {_text(node.returns)}:",
            lines=tuple(line.removeprefix("    ") for line in lines),
            own=taken.own,
            cuts=taken.cuts,
            sizes=(),
            dtype=False,
            device=False,
            random=any(arg.arg == "seed" for arg in node.args.args),
            support=self.support.callees(node.name),
            results=_results(node),
            absent=taken.absent,
            turns=turns,
        )

    # ---- the files ------------------------------------------------------------------------------

    @cached_property
    def _by_operator(self) -> dict[str, list[Kernel]]:
        kernels: dict[str, list[Kernel]] = {}
        for kernel in self.table:
            kernels.setdefault(kernel.operator, []).append(kernel)
        return kernels

    @cached_property
    def _nodes(self) -> dict[str, ast.FunctionDef]:
        return self.functions.definitions()


@cache
def _text(node: ast.AST) -> str:
    """The text of a part of a file, which is asked for again at every use."""
    return ast.unparse(node)


def _goes_round(body: Body) -> bool:
    """Whether parts go round ranks, which the body says as if they were gathered."""
    records = map(collective_of, body.order())
    return any(record.gathers for record in records if record)


def _drawn(body: Body) -> Cuts:
    """The cuts of the mask that a body draws, if it draws one."""
    masks = (expr for expr in body.order() if expr.prim == "dropout_keep")
    return next((cast("Cuts", mask.attr("cuts")) for mask in masks), ())


@dataclass(frozen=True, slots=True)
class _Taken:
    """The arguments of a function for a use: missing operands, numbers and words, and cuts."""

    absent: tuple[int, ...]
    own: tuple[Scalar | str, ...]
    cuts: str


def _match_arguments(node: ast.FunctionDef, body: Body, attrs: Attrs) -> _Taken | None:
    """The arguments of a function for a use; None if it takes other operands, or missing ones.

    A mask that is drawn in part is not for a function that draws a whole one, nor the other way.
    """
    names = [arg.arg for arg in node.args.args]
    cuts = places_of(attrs.get("cuts") or _drawn(body)) if "seed" in names else ""
    if bool(cuts) != ("cuts" in names):
        return None
    operands = [str(expr.name) for expr in body.operands]
    absent: list[int] = []
    own: list[Scalar | str] = []
    for place, arg in enumerate(node.args.args):
        if operands and arg.arg == operands[0]:
            operands.pop(0)
        elif arg.annotation and _text(arg.annotation) == "Array | None" and not own:
            absent.append(place)
        elif arg.arg not in ("seed", "place", "cuts"):
            value = attrs.get(arg.arg)
            if not isinstance(value, Scalar | str):
                return None
            own.append(value)
    return None if operands else _Taken(tuple(absent), tuple(own), cuts)


def _results(node: ast.FunctionDef) -> int:
    """How many results a function gives, by its annotation."""
    match node.returns:
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=elements)):
            return len(elements)
        case _:
            return 1


@dataclass(frozen=True, slots=True)
class Dialect:
    """The parts of a module that are the same in all modules of one backend.

    `header` and `empty` (the body of what makes a cache) are templates; `state` is an array of a
    cache in the type of an input; `aliases` are names of
    types, each of which a module has if it mentions it. `library` is the name of the imported
    library. `types` are the arguments of ``init`` that say what arrays are made of; `ones` and
    `zeros` make a parameter of that, and `converted`, attached to numbers drawn, converts them.
    `like` are names, each with the expression that reads it off a given array, for cotangents that
    are missing. `decorator` precedes the public functions; `wide` is the support function that it
    calls, if any.
    `always` are the kernels that modules have without `--kernels`, for operators that no expression
    spells; `prelude` are statements before modules with kernels. `ready` is the kernel that lays
    out a parameter as steps read it
    fastest; where it `readies_tied` ones that is done to tables, too, if something else than a
    look-up reads them. One that `checks_width` may be set to integers narrower than int64.
    """

    spelling: Spelling
    support: SupportFile
    vocabulary: Allowlist
    library: str
    title: str
    header: str
    aliases: Mapping[str, str]
    ones: str
    zeros: str
    converted: str
    types: tuple[str, ...]
    empty: str
    like: Mapping[str, str]
    state: str = ""
    decorator: str = ""
    wide: str = ""
    always: Kernels | None = None
    prelude: str = ""
    ready: str = ""
    readies_tied: bool = False
    checks_width: bool = False

    @property
    def kernels(self) -> Kernels | None:
        """Functions written by hand for `--kernels`, if the package of kernels has any."""
        return service("kernels")(self.title) if offers("kernels") else None
