"""Steps as equations in the author's names."""

from library import shipped
from pages.explorer.pages import facts, page, page_of


def equations(name: str, view: str, place: int = 0) -> list[str]:
    """The equations of a pass of a block of a diagram."""
    return listed(page(name), view, place)


def listed(text: str, view: str, place: int = 0) -> list[str]:
    """The equations of a pass of a block in a page."""
    return [step["equation"] for step in facts(text)["blocks"][place][view]]


def test_forward_equations_are_in_the_authors_names() -> None:
    assert equations("mlp", "forward") == [
        "H = LN(X; γ, β, 1e-05)",
        "H • W_up",
        "BC(b_up)",
        "add = H • W_up ⊕ BC(b_up)",
        "U = GELU(add; tanh)",
        "U • W_down",
        "BC(b_down)",
        "Z = U • W_down ⊕ BC(b_down)",
        "dropout_1 = DO(Z; 0.1, scaled)",
        "Y = dropout_1 ⊕ X",
    ]


def test_backward_equations_are_those_of_the_seed() -> None:
    assert equations("mlp", "backward") == [
        "dZ = dDO(dY, dropout_keep)",
        "db_down = sum(dZ)",
        "dU = dZ • W_down⊤",
        "dW_down = U⊤ • dZ",
        "dadd = dGELU(dU, add)",
        "db_up = sum(dadd)",
        "dH = dadd • W_up⊤",
        "dW_up = H⊤ • dadd",
        "dX, dγ, dβ = dLN(dH, X, γ, H_mean, H_rstd)",
        "dX = dY ⊕ dX",
    ]


def test_calls_say_what_they_take_and_how_often() -> None:
    blocks, _, _ = shipped("transformer").read_text("utf-8").partition("# ---- plans")
    text = page_of(blocks)  # without the costs of thirty plans
    assert "layers_out = N_L × Layer(X)" in listed(text, "forward")
    assert "attn_out = Attention(H)" in listed(text, "forward", 1)
    assert any(each.endswith("N_L × Layer(dlayers_out)") for each in listed(text, "backward"))
