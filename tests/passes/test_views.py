"""Steps that keep the shape of their operand for the gradient."""

from fuzz.operator_programs import operator_programs

from xg.driver import compile_project
from xg.frontend.project import parse_project
from xg.ir.graph import Apply


def test_the_shape_that_a_step_keeps_is_that_of_its_operand() -> None:
    """In every graph, of a backward pass too, where the step is made by a gradient rule."""
    kept = 0
    for text, use in operator_programs():
        program = compile_project(parse_project(text.encode())).graphs
        for graph in (*program.graphs.values(), *program.backwards.values()):
            for step in graph.steps:
                if isinstance(step, Apply) and "operand" in step.attrs:
                    operand = graph.types[step.inputs[0]].shape
                    assert step.attrs["operand"] == operand, f"{step.op.glyph} of {use}"
                    kept += 1
    assert kept > 20
