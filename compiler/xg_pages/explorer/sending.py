"""The communication of a program's ranks for a page: every collective with its elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xg.cost.communication import SHORT, WAYS, Sent, inside_of, spell_factor
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Program, Value
from xg_pages.explorer.formulas import Formulas, in_entry
from xg_pages.explorer.uses import BlockUse


@dataclass(frozen=True, slots=True)
class SendingData:
    """The data of a `placed` program's blocks.

    `ids` are its steps by their results, and by whether a backward pass runs them again.
    """

    placed: Program
    program: Program
    formulas: Formulas
    ids: Mapping[tuple[Value, bool], str]

    @classmethod
    def of(
        cls, placed: Program, program: Program, formulas: Formulas, uses: Sequence[BlockUse]
    ) -> SendingData:
        """The data needed for a rank's program."""
        steps = (pair for use in uses for pair in use.steps())
        ids = {(value, step.again): name for name, step in steps for value in step.outputs[:1]}
        return cls(placed, program, formulas, ids)

    def data(self, use: BlockUse) -> list[list[object]]:
        """Every collective of one call of a block and of all that it calls.

        Of each: the pass, its sign, the mesh axis, the calls, and of all calls the payload and the
        elements that a rank sends, naive and around a ring; the bytes of an element, the id of
        the step, and how often an element of the payload is sent, naive and around a ring.
        """
        return [self._row(part, use) for part in inside_of(self.placed, use.graph.key, "float32")]

    def _row(self, part: Sent, use: BlockUse) -> list[object]:
        assert part.step
        dims = (part.calls, part.payload, part.elements("naive"), part.elements("ring"))
        return [
            part.direction,
            SHORT[part.kind],
            part.over,
            *(self.formulas.place(in_entry(use, self.program, dim)) for dim in dims),
            part.bytes_each,
            self.ids[part.step.outputs[0], part.step.again],
            *(spell_factor(part.kind, part.over, way) for way in WAYS),
        ]
