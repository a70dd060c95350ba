"""The words of a text beside the numbers that are about them."""

import re

import numpy as np
import pytest
from library import shipped

from xg.frontend.examples import bind
from xg.frontend.project import parse_project, read_project
from xg_pages.explain.html import compose, html, markdown
from xg_pages.explain.numbers import of_block, of_example
from xg_pages.explain.page import TextTokens
from xg_runtime.errors import InputError
from xg_runtime.tokens import ByteVocabulary


def test_words_stand_beside_the_rows_of_an_example() -> None:
    project = read_project(shipped("cat_sleeps"))
    bound = of_example(
        bind(project, project.main.examples[0], {}), TextTokens.of("The cat sleeps", None)
    )
    page = compose(bound)
    text = markdown(page)
    assert "The     0.1  0.3  0.5  0.2  0.0\n" in text
    assert "\nThe     [0.1  0.3  0.5  0.2  0.0] " in text
    assert re.search(r"`AS \[S, S\]`.*\n\n```\n +The +cat +sleeps\nThe  ", text)
    rows = re.findall(r'<th scope="row">(\w+)</th>', html(page).text)
    assert set(rows) == {"The", "cat", "sleeps"}
    with pytest.raises(InputError, match="the text has 2 tokens, so S must be 2; found 3"):
        of_example(bind(project, project.main.examples[0], {}), TextTokens.of("The cat", None))


def test_a_model_reads_the_text_and_is_asked_for_what_follows() -> None:
    project = read_project(shipped("gpt2"))
    bound = of_block(project, None, {}, 0, TextTokens.of("the cat sees the dog", None))
    assert bound
    ids, targets = (bound.record.values[value] for value in bound.program.main.inputs)
    assert ids.tolist() == [[0, 1, 2, 0]]
    assert targets.tolist() == [[1, 2, 0, 3]]
    assert bound.axes == {"S": ("the", "cat", "sees", "the"), "V": ("the", "cat", "sees", "dog")}
    assert "the   cat  sees   dog\n" in markdown(compose(bound))


def test_a_vocabulary_cuts_the_text() -> None:
    tokens = TextTokens.of("a b", ByteVocabulary())
    assert (tokens.words, tokens.ids, tokens.kinds) == (("a", "␣", "b"), (97, 32, 98), 256)


def test_a_block_without_tokens_says_so() -> None:
    project = parse_project(b"dim D\nblock F(x [D]) -> y [D] { x -> GELU : y }\n")
    with pytest.raises(InputError, match="F takes no tokens"):
        of_block(project, None, {}, 0, TextTokens.of("a b", None))


def test_printed_numbers_stand_beside_true_ones() -> None:
    project = read_project(shipped("cat_sleeps"))
    page = compose(of_example(bind(project, project.main.examples[0], {})))
    first = page.sections[0].forward.steps[0]
    (printed,) = first.printed
    assert printed.wrong is not None
    true = first.tensors[0].array
    np.testing.assert_array_equal(printed.wrong, np.abs(printed.array - true) > 0.0051)
    assert "0.23≠  0.18≠  0.28\n0.39≠" in markdown(page)
    assert html(page).text.count("<td class=off>") == sum(
        int(one.wrong.sum())
        for part in (page.sections[0].forward, page.sections[0].backward)
        for step in (part.steps if part else ())
        for one in step.printed
        if one.wrong is not None
    )
