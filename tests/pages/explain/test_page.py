"""Pages of explanation: every step once, the true numbers, nothing that a file could smuggle in."""

import math
import re
from argparse import ArgumentParser
from base64 import b64encode
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from library import shipped
from pages.explain.pages import HOSTILE_TITLE, hostile, of_project, page
from verify.examples.test_cat_sleeps import by_hand

import xg
from xg.figures import paint_figure
from xg.figures.draw.paint import bounds
from xg.frontend.project import parse_project
from xg_pages.explain.html import equation, html, markdown
from xg_pages.explain.numbers import COLUMNS, LIMIT, RATE, ROWS, number, rows, shape
from xg_pages.explain.page import ExplainedPage, ExplainedStep, origin
from xg_train.commands.train import add_arguments

BLOCKS = ("mha", "transformer", "encoder_decoder")


class Elements(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def all(self, name: str) -> list[str]:
        """Every value of an attribute."""
        return [str(attributes[name]) for _, attributes in self.found if name in attributes]


def steps(of: ExplainedPage) -> list[ExplainedStep]:
    """Every step of a page, in its order."""
    passes = [p for s in of.sections for p in (s.forward, s.backward) if p is not None]
    return [step for each in passes for step in each.steps]


def test_no_window_cuts_the_title_of_its_figure() -> None:
    """The first nodes are so near to it that their surroundings would have a part of it."""
    display, _ = paint_figure(xg.compile(shipped("mha")).figure("forward"))
    (title,) = (one for one in display.elements if one.kind == "title")
    bottom = max(bounds(part).bottom for part in title.parts)
    text = html(page("mha", seed=0)).text
    windows = re.findall(r'window" viewBox="([^"]+)"[^>]*><use href="#figure-0-forward"', text)
    assert len(windows) > 20
    assert all(float(one.split()[1]) >= bottom for one in windows)


def test_a_section_has_the_title_of_its_block_or_its_name() -> None:
    titled = GATED.replace("block Gated(", 'block Gated "A gate" (')
    for text, title in ((GATED, "Gated"), (titled, "A gate")):
        (section,) = of_project(parse_project(text.encode()), seed=0).sections
        assert section.title == title


def test_sizes_have_their_subscripts_and_names_of_files_none() -> None:
    text = html(page("cat_sleeps")).text
    assert "of cat_sleeps.xg at D = 5, D<sub>h</sub> = 3, S = 3, with" in text


# ---- contents -----------------------------------------------------------------------------------


def test_the_numbers_are_those_computed_by_hand() -> None:
    """Read back from the Markdown: a name and the block below it, or the end of a product."""
    text = markdown(page("cat_sleeps"))
    products = [
        block.split("\n") for block in re.findall(r"```\n(\S+ \[.*?)\n```", text, re.DOTALL)
    ]
    made = [(lines[0].rindex("  ") + 2, lines) for lines in products]
    found = {
        name: np.array([[float(each) for each in line.split()] for line in block.splitlines()])
        for name, block in re.findall(
            r"^`(\w+)(?: \[[^\]]*\])?`, [^\n]*:\n\n```\n([^`]*)\n```", text, re.MULTILINE
        )
    }
    found |= {
        lines[0][at:].split(" ")[0]: np.array(
            [
                [float(each) for each in re.sub(r"[][]", " ", line[at - 1 :]).split()]
                for line in lines[1:]
                if line[at:]
            ]
        )
        for at, lines in made
    }
    expected = by_hand()
    assert set(expected) <= set(found)
    for name, array in expected.items():
        scale = np.abs(array).max()
        np.testing.assert_allclose(
            found[name], array.reshape(found[name].shape), atol=5.1e-4 * scale, rtol=0
        )


def test_a_first_number_is_worked_out() -> None:
    (first,) = (step for step in steps(page("cat_sleeps")) if step.equation == "Q = X • W_Q")
    assert first.worked == "0.1·0.2 + 0.3·0 + 0.5·0.1 + 0.2·0.3 + 0·0 = 0.13"


@pytest.mark.parametrize("name", BLOCKS)
def test_what_is_worked_out_is_so(name: str) -> None:
    worked = [step for step in steps(page(name, 0)) if step.worked]
    assert worked
    for step in worked:
        terms, _, result = step.worked.partition(" = ")
        assert number(float(step.tensors[0].array.flat[0])) == result
        if "…" not in terms and "∞" not in step.worked:
            assert abs(computed(terms) - float(result)) <= unsure(terms) + 1e-3 * abs(float(result))


NUMBER = re.compile(r"(?<![\^\d.])\d[\d.]*(?:e-?\d+)?")  # no exponent
FUNCTIONS = {"max": max, "min": min, **{n: getattr(math, n) for n in dir(math) if n[0] != "_"}}


def computed(text: str) -> float:
    """The value of what a step works out."""
    return eval(text.replace("·", "*").replace("^", "**"), {}, FUNCTIONS)


def unsure(text: str) -> float:
    """How far off it may be, as every number in it has four digits."""
    total, middle = 1e-9, computed(text)
    for found in NUMBER.finditer(text):
        moved = repr(float(found[0]) * (1 + 6e-4))
        total += abs(computed(text[: found.start()] + moved + text[found.end() :]) - middle)
    return total


@pytest.mark.parametrize("name", BLOCKS)
def test_the_matrices_of_a_product_are_its_operands(name: str) -> None:
    """The drawn matrices, multiplied, give the drawn result, transposed and flattened ones too."""
    products = [step.product for step in steps(page(name, 0)) if step.operator == "• matmul"]
    assert products
    for left, right, made in products:
        result = left.array @ right.array
        np.testing.assert_allclose(made.array, result, rtol=1e-9, atol=1e-9)
        assert left.type.count(",") + 1 == left.array.ndim
        assert right.type.count(",") + 1 == right.array.ndim
    assert any("⊤" in left.name and "·" in left.type for left, _, _ in products)


@pytest.mark.parametrize("name", BLOCKS)
def test_every_step_says_why(name: str) -> None:
    """In the operator's own words; backward in those of the step that is differentiated."""
    known = {step.number: step for step in steps(page(name, 0))}
    for step in known.values():
        if step.why.startswith("The chain rule through step "):
            through = known[int(step.why.split()[5].rstrip(".,:"))]
            assert through.number < step.number
            assert through.line == step.line
        else:
            assert step.why or step.operator.startswith("The block")
    found = {step.equation: step.why for step in steps(page("cat_sleeps"))}
    assert found["y = sigmoid(z)"] == "A number between 0 and 1, read as a probability."
    assert found["dW_2 = H⊤ • dz"].endswith("step 11, where dA = dY B⊤, dB = A⊤ dY.")
    assert found["dy = dy′ ⊕ dy″"].startswith("Several steps take this value")


def test_a_step_of_learning_is_worked_out_and_its_loss_computed() -> None:
    """The page's own numbers, put through the formula of the first step of `xg train`."""
    options = ArgumentParser()
    add_arguments(options)
    train = options.parse_args(["x.xg"])
    assert (train.optimizer, train.lr, train.weight_decay) == ("adamw", RATE, 0.01)
    assert train.clip == LIMIT
    update = page("cat_sleeps").update
    assert update
    before, gradient, after = (shown.array for shown in update.shown)
    expected = before * (1 - 3e-3 * 0.01) - 3e-3 * gradient / (np.abs(gradient) + 1e-8)
    np.testing.assert_allclose(after, expected, rtol=1e-12)
    assert update.shown[0].name == "W_Q"
    terms, _, result = update.worked.partition(" = ")
    assert abs(computed(terms) - float(result)) < 1e-6
    old, new = update.losses
    assert 0 < old - new < 0.05
    assert page("mha", 0).update is None


def test_a_product_is_written_in_one_line() -> None:
    (lines,) = re.findall(r"```\n(X \[S, D\] .*?)\n```", markdown(page("cat_sleeps")), re.DOTALL)[
        :1
    ]
    assert lines.splitlines()[:3] == [
        "X [S, D]                      W_Q [D, D_h]       Q [S, D_h]",
        "[0.1  0.3  0.5  0.2  0.0]     [0.2] 0.1  0.0     [0.13] 0.14  0.28",
        " 0.6  0.7  0.2  0.1  0.3      [0.0] 0.3  0.2      0.17  0.35  0.32",
    ]


GATED = """\
dim B, D = 32, D_b = D/4
block Gated(x [B, D]) -> y [B, D_b] {
    param W [D, D_b], b [D_b] = zeros
    x -> •<=W -> ⊕<-BC(b) -> sigmoid : h -> SiLU : y
}
"""


def test_a_formula_is_worked_out_as_it_is_stated() -> None:
    (section,) = of_project(parse_project(GATED.encode()), seed=0).sections
    steps = {step.operator: step for step in section.forward.steps}
    assert {"sigmoid", "SiLU"} <= steps.keys()  # a name once, where the sign is the name
    (taken,) = (steps["⊕ add"].tensors[0].array.flat[0],)
    first = steps["sigmoid"].worked
    assert steps["sigmoid"].formula == "Y = 1 / (1 + exp(-X))"
    assert re.fullmatch(r"1/\(1 \+ exp\(-\(?(-?[\d.]+)\)?\)\) = ([\d.]+)", first), first
    assert number(float(taken)) in first
    backward = section.backward
    assert backward
    everything = " ".join(step.worked for step in (*section.forward.steps, *backward.steps))
    assert "min(" not in everything


LOGITS = """\
dim D = 2
block Yes(x [D], t [D]) -> loss [] {
    x -> BCE(form=logits)<-t : loss
}
"""


def test_what_keeps_an_exponential_finite_is_worked_out_as_its_number() -> None:
    """BCE takes exp of -|x|, which is x or -x: the page has the one that is negative."""
    (section,) = of_project(parse_project(LOGITS.encode()), seed=0).sections
    worked = [step.worked for step in section.forward.steps if "exp" in step.worked]
    assert worked
    assert all(re.search(r"exp\(-[\d.]+\)", text) for text in worked), worked
    assert "min(" not in "".join(worked)


def test_numbers_that_are_not_the_files_are_said_to_be_others() -> None:
    said = origin(of_project(parse_project(GATED.encode()), seed=0))
    assert said.endswith(
        "The file has D = 32 and parameters that begin as zeros; here sizes are small and every "
        "parameter is drawn, so that the numbers can be followed."
    )
    plain = GATED.replace("D = 32, D_b = D/4", "D, D_b").replace(" = zeros", "")
    assert "The file has" not in origin(of_project(parse_project(plain.encode()), seed=0))


def test_every_operator_of_a_lesson_is_worked_out() -> None:
    """Where numbers are only moved, nothing is; all others are, forward and backward."""
    steps_of = [step for name in BLOCKS for step in steps(page(name, 0))]
    names = {step.operator for step in steps_of if step.worked}
    assert {"S softmax", "LN layer norm", "CE cross entropy", "• matmul"} <= names
    assert {"dS, gradient of softmax", "dGELU, gradient of gelu", "⊕ add", "sum"} <= names


def test_a_step_says_what_the_document_prints() -> None:
    remarks = {
        step.tensors[0].name: step.remarks for step in steps(page("cat_sleeps")) if step.remarks
    }
    assert remarks["O"] == ("Step 5 of the document prints this, and it is right.",)
    assert remarks["V"] == (
        "Step 2 of the document prints something else; 1 of 9 numbers is right: "
        "only 0.31 is X • W_V.",
    )
    assert set(remarks) == set(by_hand())


def test_parts_of_a_gradient_are_told_from_the_whole() -> None:
    equations = [step.equation for step in steps(page("cat_sleeps"))]
    assert "dy = dy′ ⊕ dy″" in equations
    assert equations[-1] == "dX = dX′ ⊕ dX″ ⊕ dX‴"
    for name in BLOCKS:
        for step in steps(page(name, 0)):
            left, _, right = step.equation.partition(" = ")
            assert "⊤⊤" not in step.equation
            assert not (step.operator.startswith("⊕") and left in right.split(" ⊕ "))


@pytest.mark.parametrize("name", BLOCKS)
def test_steps_lead_on_to_each_other(name: str) -> None:
    for section in page(name, 0).sections:
        for each in filter(None, (section.forward, section.backward)):
            known = {step.number: step for step in each.steps}
            for step in each.steps:
                assert all(step.number in known[other].takes for other in step.goes_to)
                assert all(number < step.number for number in step.takes)


def test_numbers_are_written_alike() -> None:
    assert rows(np.array([[0.1, 0.25], [3.0, 4.0]])).rows == (("0.10", "0.25"), ("3.00", "4.00"))
    assert rows(np.array([1 / 3, 2e-9])).rows == (("0.3333", "0.0000"),)
    assert rows(np.array([[1e7, -1.0]])).rows == (("1.000e+07", "-1.000e+00"),)
    assert rows(np.array([[3e-8, 0.0]])).rows == (("3.000e-08", "0.000e+00"),)
    assert rows(np.array(-np.inf)).rows == (("-∞",),)
    assert rows(np.array([2, 10])).rows == (("2", "10"),)
    large = rows(np.zeros((2, ROWS + 1, COLUMNS + 2)))
    assert large.cut == "the first of 2 matrices, 8 of 9 rows, 8 of 10 columns"
    assert (len(large.rows), len(large.rows[0])) == (ROWS, COLUMNS)
    assert [shape(np.zeros(s)) for s in ((), (3,), (3, 1))] == ["one number", "3 numbers", "3 × 1"]


# ---- the page -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BLOCKS)
def test_every_step_is_there_once_with_its_place_in_the_figure(name: str) -> None:
    told = page(name, 0)
    elements = Elements(html(told).text)
    names = elements.all("id")
    assert len(names) == len(set(names))
    wanted = [f"step-{step.number}" for step in steps(told)]
    assert [each for each in names if each.startswith("step-")] == wanted
    windows = [a for tag, a in elements.found if tag == "svg" and "window" in str(a.get("class"))]
    assert len(windows) == sum(bool(step.node) for step in steps(told)) == len(wanted)
    links = [href.removeprefix("#") for href in elements.all("href")]
    assert set(links) <= set(names)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_page_is_closed(name: str) -> None:
    text = html(page(name, 0)).text
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert policy
    assert style
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    assert policy[1].split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert not re.search(r"<script|<img|<link|<iframe|\sstyle=|\son\w+=|url\(|@import", text)
    assert all(href.startswith("#") for href in Elements(text).all("href"))


def test_nothing_of_a_file_gets_out_of_its_place_in_html() -> None:
    text = html(hostile()).text
    assert "<script" not in text
    assert "<img" not in text
    assert "<b>&lt;" not in text
    title = re.search(r"<title>(.*?)</title>", text)
    assert title
    assert unescape(title[1]) == f"{HOSTILE_TITLE}: {HOSTILE_TITLE}"


def test_nothing_of_a_file_gets_out_of_its_place_in_markdown() -> None:
    text = markdown(hostile())
    outside = re.sub(r"^(`{3,})\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert "\\</title\\>\\<script\\>" in outside
    outside = re.sub(r"(`+).*?\1", "", re.sub(r"\\.", "", outside))
    assert "onerror" not in outside
    assert not re.search(r"[<>\[*`]", outside)


def test_the_same_bytes_again() -> None:
    project = parse_project(
        (hostile_source := "dim B\nblock F(x [B]) -> y [B] {\n    x -> GELU : y\n}\n").encode()
    )
    first, second = (
        of_project(project, seed=3),
        of_project(parse_project(hostile_source.encode()), seed=3),
    )
    assert html(first).text == html(second).text
    assert markdown(first) == markdown(second)
    assert markdown(first) != markdown(of_project(project, seed=4))


def test_subscripts() -> None:
    assert equation("dW_up = H⊤ • dU < γ_1") == "dW<sub>up</sub> = H⊤ • dU &lt; γ<sub>1</sub>"
