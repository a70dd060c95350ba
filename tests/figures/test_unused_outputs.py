"""The gradient of an output beside a loss: a figure says where it enters that it may be zero."""

import pytest
from figures.layout_checks import dead_ends
from library import shipped

import xg
from xg.figures.model.figure import EdgeStyle, Figure
from xg.figures.model.richtext import characters
from xg.figures.views.backward import taken_by
from xg.ir.graph import Call, Value

WORDS = "0 if unused"


def entering(figure: Figure) -> set[str]:
    """The labels of dashed arrows in a figure that have the words."""
    edges = figure.columns[0].edges if figure.columns else figure.edges
    dashed = (characters(edge.label) for edge in edges if edge.style is EdgeStyle.DASHED)
    return {label for label in dashed if WORDS in label}


def beginning(figure: Figure) -> set[str]:
    """The labels of tensors that have the words."""
    labels = (characters(node.label) for node in figure.nodes)
    return {label for label in labels if WORDS in label}


@pytest.mark.parametrize(
    ("name", "plan", "label"),
    [
        ("flow", None, "dP [B, S, V], 0 if unused"),
        ("transformer", None, "dZ from outside, 0 if unused"),
        ("gpt2", None, "dZ from outside, 0 if unused"),
        ("transformer", "DP", "0 if unused"),
    ],
)
def test_an_overview_says_that_the_gradient_of_an_output_beside_a_loss_may_be_zero(
    name: str, plan: str | None, label: str
) -> None:
    assert entering(xg.compile(shipped(name), plan=plan).figure("overview")) == {label}


def test_a_backward_figure_says_so_where_the_gradient_begins() -> None:
    assert beginning(xg.compile(shipped("flow")).figure("backward")) == {
        "dP [B, S, V], 0 if unused"
    }
    assert beginning(xg.compile(shipped("transformer")).figure("backward")) == {
        "dZ [B, S, V] from outside, 0 if unused"
    }


def test_the_gradient_of_the_only_result_is_needed() -> None:
    """The control: without a loss all that is learnt comes from it."""
    for name in ("mha", "mlp"):
        program = xg.compile(shipped(name))
        assert entering(program.figure("overview")) == set()
        assert beginning(program.figure("backward")) == set()


def test_no_gradient_flows_from_a_count() -> None:
    """Of the outputs of a layer of experts the number of dropped tokens passes none on."""
    program = xg.compile(shipped("moe"), "Layer")
    for view in ("overview", "backward"):
        figure = program.figure(view)
        labels = [characters(one.label) for one in (*figure.nodes, *figure.edges)]
        assert not any(label.startswith("ddropped") for label in labels)
        assert any(label.startswith("dbalance") for label in labels)


def test_zeros_for_a_count_are_not_drawn() -> None:
    """On ranks a call takes zeros for the gradient of a count, which it does not read."""
    program = xg.compile(shipped("moe"), plan="TP")
    backward = program.graphs.backwards[program.graphs.main.key]
    zeros = [step for step in backward.steps if step.outputs and not step.inputs]
    assert len(zeros) == 2
    assert dead_ends(program.figure("backward")) == []


def test_a_block_that_is_computed_again_takes_what_it_took() -> None:
    """Its inputs are values of the forward pass: they are not compared with its cotangents."""
    program = xg.compile(shipped("transformer"), plan="Checkpoints").graphs
    steps = [step for each in program.backwards.values() for step in each.steps]
    again = [step for step in steps if isinstance(step, Call) and step.origin is None]
    unread = dict.fromkeys(program.backwards, frozenset[Value]())
    assert {step.callee.partition("(")[0] for step in again} >= {"Attention"}
    assert all(taken_by(step, program, unread) == step.inputs for step in again)
