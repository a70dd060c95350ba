"""Values that a backward pass reads have one name in the figures of both passes."""

import pytest
from library import shipped

import xg
from xg.codegen.emit.module import variables
from xg.driver import compile_project
from xg.figures.model.figure import EdgeRole, Figure, NodeKind
from xg.figures.model.richtext import characters, subscript, symbol
from xg.figures.views.backward import backward_figure
from xg.figures.views.forward import forward_figure
from xg.frontend.project import read_project
from xg.ir.graph import IRProgram, Value
from xg.ir.labels import saved_names


def program(name: str) -> IRProgram:
    return compile_project(read_project(shipped(name))).graphs


def as_written(value: Value, name: str) -> str:
    """A saved value in figures; a cache has the result below its own name: keep_Y is Y_keep."""
    if value.role == "cache" and name != value.name:
        result, _, number = name.rpartition(f"_{value.name}")
        return characters(symbol(value.name or "", index=subscript(f"{result}{number}")))
    return characters(symbol(name, is_word=value.role != "cache"))


def written(figure: Figure) -> set[str]:
    """All words of a figure: its nodes and its edges, without brackets and commas."""
    texts = [characters(node.label) for node in figure.nodes]
    texts += [characters(edge.label) for edge in figure.edges]
    return {word.strip(",") for text in texts for word in text.replace("^⊤", "").split()}


@pytest.mark.parametrize("name", ["mlp", "gru", "llama", "encoder_decoder", "convnet", "resnet"])
def test_no_saved_operand_is_without_a_name(name: str) -> None:
    graphs = program(name)
    named = 0
    for backward in graphs.backwards.values():
        figure = backward_figure(graphs, backward)
        for node in figure.nodes:
            text = characters(node.label)
            if node.kind is NodeKind.SAVED:
                assert not text.startswith("["), text
                assert ", [" not in text, text
                assert "×" not in text, text
        saved = saved_names(graphs, backward.forward.key)
        names = {as_written(value, name) for value, name in saved.items()}
        named += len(names)
        assert len(names) == len(saved)
        assert names <= written(figure)
        forward = written(forward_figure(graphs, backward.forward))
        # A value that is written in place, as a BC or the weight of a product, has its operand.
        caches = {v for v in saved if v.role == "cache"}  # of operators: no edges
        unseen = {as_written(value, saved[value]) for value in caches}
        assert names - unseen <= forward, names - forward
    assert named


@pytest.mark.parametrize("name", ["llama", "encoder_decoder", "mamba"])
def test_code_has_the_names_of_the_figures(name: str) -> None:
    graphs = program(name)
    called = variables(graphs)
    for key, backward in graphs.backwards.items():
        for value, shown in saved_names(graphs, backward.forward.key).items():
            assert called[key][value] == shown


def test_an_edge_without_a_label_is_named_for_what_makes_it() -> None:
    graphs = program("mlp")
    (names,) = (saved_names(graphs, one.forward.key) for one in graphs.backwards.values())
    assert list(names.values()) == ["add"]


@pytest.mark.parametrize(
    ("name", "block", "names"),
    [
        ("moe", "MoE", ["embedding", "layer_norm_1", "transpose"]),
        ("resnet", "ResNet", ["transpose", "stem_out", "stage_1_out", "mean"]),  # of calls, too
        ("node_i", "MLP_sp", ["matmul", "gelu_1"]),
    ],
)
def test_only_the_first_of_an_operator_that_is_no_function_has_no_number(
    name: str, block: str, names: list[str]
) -> None:
    graphs = xg.compile(shipped(name), block).graphs
    assert list(saved_names(graphs, graphs.entry).values()) == names
    if name == "moe":
        assert {"embedding", "layer_norm_1"} <= written(forward_figure(graphs, graphs.main))


AROUND = """
dim B, D = 4
block relu(X [B, D]) -> Y [B, D] { X -> tanh : Y }
block Net(X [B, D], tanh [B, D]) -> matmul_2 [B, D] {
    param W [D, D], V [D, D]
    X -> ReLU : A_1
    A_1 -> tanh -> tanh -> •<=W -> ReLU -> relu -> ReLU -> ⊕<-tanh : A_2
    A_2 -> •<=V -> ReLU -> tanh : matmul_2
}
"""


def test_no_name_is_one_of_the_author_s() -> None:
    """Not A_0, A_1, A_3, A_2 down the page; `tanh` is an input here, and `relu` a block."""
    graphs = xg.compile(source=AROUND, block="Net").graphs
    called = variables(graphs)["Net"]
    names = [called[v] for step in graphs.main.steps for v in step.outputs if v in called]
    unlabeled = [n for n in names if n not in ("A_1", "A_2", "matmul_2")]
    assert len(names) == len({*names})
    assert unlabeled == ["tanh_2", "tanh_3", "matmul", "relu_2", "relu_out", "matmul_3"]


def test_a_name_stays_if_a_line_of_other_operators_is_added() -> None:
    graphs = xg.compile(source=AROUND, block="Net").graphs
    more = AROUND.replace("A_1 -> tanh", "A_1 -> SiLU -> GELU : G\n    G -> tanh")
    longer = xg.compile(source=more, block="Net").graphs
    assert {*saved_names(graphs, "Net").values()} <= {*saved_names(longer, "Net").values()}


@pytest.mark.parametrize(("name", "block"), [("moe", "MoE"), ("transformer", "LM")])
def test_a_parameter_that_is_turned_round_is_no_saved_value(name: str, block: str) -> None:
    graphs = xg.compile(shipped(name), block).graphs
    figure = backward_figure(graphs, graphs.backwards[graphs.entry])
    (table,) = (n for n in figure.nodes if characters(n.label) == "E [V, D]")
    assert table.kind is NodeKind.TENSOR


def test_what_two_operators_call_the_same_is_named_after_their_results() -> None:
    graphs = program("mha")
    figure = backward_figure(graphs, graphs.backwards[graphs.entry])
    masks = [characters(node.label) for node in figure.nodes if "keep" in characters(node.label)]
    assert masks == ["keep_dropout [B, S, D]", "keep_AS [B, N_H, S, S]"]


def test_gradients_of_several_words_are_in_parentheses() -> None:
    """dInput → Embedding would be the gradient of the input alone."""
    flow = program("flow")
    figure = backward_figure(flow, flow.backwards["Flow"])
    labels = [characters(node.label) for node in figure.nodes if node.kind is NodeKind.BLOCK]
    assert "d(Input → Embedding → LN (Input to MHA))" in labels
    assert "d(Multi-Head Attention, causal)" in labels
    graphs = program("moe")
    called = backward_figure(graphs, graphs.backwards["MoE"])
    assert {characters(n.label) for n in called.nodes if n.kind is NodeKind.BLOCK} == {"dLayer"}


@pytest.mark.parametrize(
    ("name", "block", "read"),
    [
        ("resnet", "Basic", {"d conv_1": "X [B, H, W, C]", "d conv_2": "relu [B, H/s, W/s, D]"}),
        (
            "resnet",
            "Stage",
            {"d first": "X [B, H, W, C]", "d layers": "first_out [B, H/s, W/s, D]"},
        ),
        ("transformer", "Layer", {"d attn": "H [B, S, D]", "d ffn": "layer_norm_1 [B, S, D]"}),
    ],
)
def test_the_backward_pass_of_a_call_has_what_it_reads(
    name: str, block: str, read: dict[str, str]
) -> None:
    """Named or not, and where only a call inside of it reads it."""
    figure = xg.compile(shipped(name), block).figure("backward")
    labels = {n.id: characters(n.label) for n in figure.nodes if n.kind is NodeKind.SAVED}
    found = {edge.head: labels[edge.tail] for edge in figure.edges if edge.tail in labels}
    assert read.items() <= found.items()


def test_a_number_at_which_a_loop_begins_is_no_saved_value() -> None:
    """The box says it: h = 0."""
    graphs = program("gru")
    figure = backward_figure(graphs, graphs.backwards[graphs.entry])
    saved = [characters(n.label) for n in figure.nodes if n.kind is NodeKind.SAVED]
    assert saved == ["X [B, S, D]"]


def given(figure: Figure) -> list[str]:
    """The lines of boxes of calls with the gradients that they make."""
    boxes = (node for node in figure.nodes if node.kind is NodeKind.BLOCK)
    return [characters(line) for node in boxes for line in node.lines]


def test_gradients_of_different_values_have_different_names() -> None:
    """P is the output, and positions in a call; each of three calls has a γ."""
    graphs = program("flow")
    figure = backward_figure(graphs, graphs.backwards["Flow"])
    assert given(figure) == [
        "dW_lm",
        "dγ_mlp, dβ_mlp, dW_up, db_up, dW_down, db_down",
        "dγ_mha, dβ_mha, dW_Q, dW_K, dW_V",
        "dW_O, db_Q, db_K, db_V, db_O",
        "dE, dP_embedding, dγ_embedding, dβ_embedding",
    ]
    (box,) = given(xg.compile(shipped("transformer"), "Layer").figure("backward"))[:1]
    assert box == "dW_up, db_up, dW_down, db_down"


def test_the_backward_pass_begins_at_the_loss() -> None:
    """It is the column that goes on; the gradient of another output comes in from the side."""
    graphs = program("flow")
    figure = backward_figure(graphs, graphs.backwards["Flow"])
    roles = {edge.tail: edge.role for edge in figure.edges if edge.head == "d output"}
    assert (roles["dloss"], roles["dP"]) == (EdgeRole.MAIN, EdgeRole.SIDE)


LABELED = """
dim B, D = 8

block Two(X [B, D]) -> Y [B, D] {
    param W_1, W_2 [D, D]

    X -> •<=W_1 -> ReLU   : A_1
    A_1 -> •<=W_2 -> ReLU : A_2
    A_2 -> ⊕<-X           : Y
}
"""


def test_a_derived_name_is_that_of_its_operator_in_the_order_of_the_file() -> None:
    """Not A_0 and A_3, which look as if the author had labeled them."""
    figure = xg.compile(source=LABELED).figure("backward")
    saved = [characters(n.label).split()[0] for n in figure.nodes if n.kind is NodeKind.SAVED]
    assert [name for name in saved if "W" not in name] == ["matmul_2", "A_1^⊤", "matmul", "X^⊤"]
