"""`xg explain` as a user calls it."""

from pathlib import Path

from cli.conftest import DIAGRAMS, Xg

CAT = DIAGRAMS / "examples" / "cat_sleeps.xg"


def test_markdown_is_printed(xg: Xg) -> None:
    said = xg("explain", CAT)
    assert said.code == 0
    assert said.out.startswith(
        "# Mini: The cat sleeps\n\nThe block Mini of cat\\_sleeps.xg at D = 5"
    )
    assert "### 1. `Q = X • W_Q`\n" in said.out


def test_pages_are_written_by_their_ending(xg: Xg, folder: Path) -> None:
    said = xg("explain", CAT, "-o", "page.html")
    assert (said.code, said.out) == (0, "page.html: 13 steps forward, 23 backward\n")
    assert (folder / "page.html").read_bytes().startswith(b"<!doctype html>")
    assert xg("explain", CAT, "-o", "page.md").code == 0
    assert (folder / "page.md").read_text(encoding="utf-8") == xg("explain", CAT).out


def test_an_example_is_chosen_by_its_title(xg: Xg) -> None:
    said = xg("explain", CAT, "--example", "The cat sleeps, corrected")
    assert said.out.startswith("# Mini: The cat sleeps, corrected\n")
    assert "something else" not in said.out
    said = xg("explain", CAT, "--example", "The dog")
    assert said.code == 1
    assert 'there are: "The cat sleeps", "The cat sleeps, corrected"' in said.err


def test_numbers_are_drawn_where_there_is_no_example(xg: Xg) -> None:
    said = xg("explain", "tiny.xg")
    assert said.code == 0
    assert "The block Net of tiny.xg at B = 3, D = 2, D\\_ff = 4" in said.out
    assert "with numbers drawn from seed 0" in said.out
    assert said.out != xg("explain", "tiny.xg", "--seed", 1).out
    assert "drawn from seed 5" in xg("explain", CAT, "--seed", 5).out
    assert "at B = 7, " in xg("explain", "tiny.xg", "--set", "B=7").out


def test_wrong_usage(xg: Xg) -> None:
    said = xg("explain", CAT, "-o", "page.pdf")
    assert (said.code, said.err) == (2, "xg explain: page.pdf must end in .html or .md\n")
    assert xg("explain", CAT, "--example", "x", "--seed", 1).code == 2


def test_mistakes_of_the_file(xg: Xg, folder: Path) -> None:
    assert xg("explain", "wrong.xg").code == 1
    assert xg("explain", "gone.xg").code == 5
    assert xg("explain", CAT, "--block", "Maxi").code == 1
    huge = "block F(X [4096, 40960]) -> Y [4096, 40960] {\n    X -> GELU : Y\n}\n"
    (folder / "huge.xg").write_text(huge, encoding="utf-8")
    said = xg("explain", "huge.xg")
    assert said.code == 1
    assert "too large to show every number" in said.err
    said = xg("explain", "node_i")
    assert said.code == 1
    assert "to see the numbers of all ranks, run `xg serve`" in said.err


def test_a_block_without_gradients(xg: Xg, folder: Path) -> None:
    text = "dim B\nblock F(k [B] in 2) -> n [B] in 2 {\n    k -> not : n\n}\n"
    (folder / "no.xg").write_text(text, encoding="utf-8")
    said = xg("explain", "no.xg")
    assert said.code == 0
    assert "backward" not in said.out


def test_a_block_at_which_no_gradient_arrives(xg: Xg, folder: Path) -> None:
    """The positions of a row's largest numbers have no gradient; a later call has one."""
    head = "dim Q = 2\nblock G(X [2, Q]) -> Z [2, Q] {\n    param b []\n"
    head += "    X -> ⊕<-BC(b) -> tanh : Z\n}\n"
    head += "block F(X [2, Q], Y [2, Q]) -> H [2, Q], T [2, 1] in Q {\n"
    chosen, called = (
        "    X -> G as a -> topk(1) : V [2, 1], T [2, 1] in Q\n",
        "    Y -> G as b : H\n",
    )
    passes: list[str] = []
    for lines in (chosen + called, called + chosen, chosen + "    Y -> tanh : H\n"):
        (folder / "chosen.xg").write_text(f"{head}{lines}}}\n", encoding="utf-8")
        said = xg("explain", "chosen.xg", "-o", "chosen.md")
        assert (said.code, said.err) == (0, "")
        passes.append(said.out.strip().removeprefix("chosen.md: "))
    assert passes == ["6 steps forward, 3 backward"] * 2 + ["6 steps forward, 1 backward"]


def test_an_error_is_explained_by_its_code(xg: Xg, folder: Path) -> None:
    said = xg("explain", "xg0301")
    assert said.code == 0
    assert said.out.startswith("Operands that an operator cannot take.\n")
    assert "\n\nBN adds eps = -1 to a variance\n    x -> BN" in said.out
    assert "\n= eps >= 0" in said.out
    assert "XG0302" not in said.out
    assert "#" not in said.out


def test_an_unknown_code_is_refused(xg: Xg, folder: Path) -> None:
    said = xg("explain", "XG9999")
    assert (said.code, said.out) == (1, "")
    assert "no error has the code XG9999" in said.err
