"""Every defect that a demanding user met in the first version: its smallest form, or its test.

Rows have the numbers of the report: A, a text that means something else than it says; B, wrong or
missing values; C, models; E, the first afternoon. `HELD` says which test holds a row that is more
than a file of a few lines; the others are here.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from xg.diagnostics.diagnostic import DiagnosticError
from xg.driver import compile_project
from xg.frontend.choices import check_choices
from xg.frontend.project import parse_project

TESTS = Path(__file__).parents[1]

HELD = {
    "A1": ["ops/test_brackets.py::test_brackets_are_read_or_refused"],
    "A3": ["passes/infer/test_calls.py::test_what_a_call_leaves_unsaid_is_refused"],
    "A6": ["ops/test_special_cases.py::test_numbers_alone_keep_the_flattened_order_or_ask"],
    "A7": [
        "cli/test_verify_command.py::test_every_choice_of_one_block",
        "cli/test_check.py::test_a_plan_that_is_wrong_leaves_the_others_alone",
    ],
    "A8": ["frontend/test_hostile_programs.py::test_no_instance_is_left_out"],
    "A9": ["frontend/test_hostile_programs.py::test_a_hostile_file_is_refused"],
    "A10": [
        "codegen/test_adding_a_backend.py::",
        "test_caps.py::",
        "syntax/test_reference.py::",
    ],
    "B1": ["codegen/test_branches_not_taken.py::test_its_gradient_is_that_of_the_branch_taken"],
    "B2": ["verify/proof/test_zeros.py::test_a_mixer_is_proven"],
    "B4": [
        "verify/proof/test_domains.py::test_inputs_that_a_function_takes",
        "verify/proof/test_domains.py::test_the_first_edge_is_named_where_no_inputs_fit",
    ],
    "B5": ["cost/test_largest.py::test_an_array_inside_an_operator_is_named"],
    "C1": [
        "importing/test_families.py::test_a_family_is_as_recorded",
        "cli/test_import_command.py::test_a_diagram_of_something_else_is_not_written",
    ],
    "C3": ["cli/test_weights_command.py::test_a_length_may_be_that_of_a_table"],
    "C4": [
        "cli/test_weights_command.py::test_a_checkpoint_without_a_config_is_not_read_with_defaults"
    ],
    "C5": ["cli/test_weights_command.py::test_one_file_of_names_serves_every_block"],
    "C6": ["cli/test_weights_command.py::test_words_of_one_function_are_one_and_dropout_is_a_note"],
    "E1": ["driver/test_driver.py::test_a_program_is_shown_in_one_line"],
    "E2": ["cli/test_build.py::test_one_picture"],
    "E3": ["cli/test_build.py::test_watching_follows_used_files_in_other_folders"],
    "E4": ["figures/test_compiled_engine.py::test_the_second_process_does_not_compile"],
    "E5": ["cli/test_library_names.py::test_a_shipped_diagram_is_found_by_its_name"],
    "E6": ["cli/test_run_command.py::test_gradients_of_edges_are_kept"],
    "E7": [
        "frontend/test_foreign_names.py::test_a_first_try_is_answered",
        "frontend/test_foreign_names.py::test_every_unknown_function_is_reported_at_once",
    ],
    "E8": ["cli/test_terminal.py::test_no_line_is_longer_than_the_terminal_and_no_word_is_lost"],
    "E9": ["e2e/test_compile_time.py::test_a_plan_is_placed_once_for_all_choices_of_options"],
    "E10": ["e2e/test_compile_time.py::test_a_longer_file_takes_proportionally_longer"],
}
HEAD = "dim B, S, D = 6, K = 5, M = 3\n"
LIN = "block Lin(X [B, D]) -> Y [B, K] {\n    param W [D, K]\n    X -> •<=W : Y\n}\n"


def net(ports: str, line: str, before: str = "") -> str:
    return f"{HEAD}{before}block Net({ports} {{\n    {line} : Y\n}}\n"


SQUARE = "X [B, S, D]) -> Y [B, S, D]"
SMALL: dict[
    str, list[tuple[str, list[str]]]
] = {  # row: files of a few lines, and the codes of their errors
    "A1": [
        (net("X [B, S, D]) -> Y [B, S, D]", f"X -> {use}"), codes)
        for use, codes in {
            "S[S]": [],
            "LN[S]": [],
            "GELU[D]": ["XG0223"],
            "tanh[n=7]": ["XG0223"],
            "S[D, S]": ["XG0301"],
        }.items()
    ],
    "A3": [
        (
            net(
                "X [B, D]) -> Y [B, M]",
                "X -> Res(K=M)",
                LIN + "block Res(X [B, D]) -> Y [B, K] {\n    X -> Lin : Y\n}\n",
            ),
            ["XG0309"],
        ),
        (
            net(
                "X [B, D]) -> Y [B, M]",
                "X -> Res(K=M)",
                LIN + "block Res(X [B, D]) -> Y [B, K] {\n    X -> Lin(K=K) : Y\n}\n",
            ),
            [],
        ),
    ],
    "A4": [
        (net("X [B, D]) -> Y [B, K]", "X -> Lin(K=K)", LIN), []),
        (net("X [B, D]) -> Y [B, 2*K]", "X -> Lin(K=2*K)", LIN), []),
    ],
    "A5": [
        (net("X [B, D]) -> Y [B, 8]", "X -> Lin(K=8)", LIN), []),
        (net("X [B, D]) -> Y [B, K]", "X -> Lin(K=8)", LIN), ["XG0302"]),
    ],
    "A8": [(net("X [B, D]) -> Y [B, 4, D/4]", "X -> R"), ["XG0401"])],
    "B3": [
        (net(SQUARE.replace("Y [B, S, D]", "Y [B, D]"), "X -> pick[S](-1)"), []),
        (net(SQUARE.replace("Y [B, S, D]", "Y [B, 2, D]"), "X -> slice[S](-2, 0)"), ["XG0301"]),
    ],
}


@pytest.mark.parametrize("row", HELD)
def test_a_row_has_its_test(row: str) -> None:
    for each in HELD[row]:
        file, _, name = each.partition("::")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        names = {part.name for part in ast.walk(tree) if isinstance(part, ast.FunctionDef)}
        assert not name or name in names, each


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        pytest.param(*each, id=f"{row}_{n}")
        for row, some in SMALL.items()
        for n, each in enumerate(some)
    ],
)
def test_the_smallest_form_is_refused_or_right(text: str, codes: list[str]) -> None:
    project = parse_project(text.encode())
    found = [each.code for each in check_choices(project) if each.severity == "error"]
    assert found == codes
    if not codes:
        assert compile_project(project).source()


def test_a_size_of_a_call_is_the_callers() -> None:
    """A2: the D of the caller, not the callee's."""
    text = (
        "dim B, S, D = 64, E = 32, D_ff = 4*D\n"
        "block MLP(X [B, S, D]) -> Y [B, S, D] {\n    param W_1 [D, D_ff], W_2 [D_ff, D]\n"
        "    X -> •<=W_1 -> •<=W_2 : Y\n}\n"
        "block Net(X [B, S, D], T [B, S, E]) -> Y [B, S, E], Z [B, S, D] {\n"
        "    T -> MLP(D_ff=2*D) : Y\n    X -> tanh : Z\n}\n"
    )
    program = compile_project(parse_project(text.encode()))
    assert program.on_one_device.params["MLP.W_1"].shape == (32, 2 * 64)


def test_the_number_that_does_not_divide_is_found_in_the_last_of_many_blocks() -> None:
    """A8: behind 1,100 blocks."""
    rest = "".join(
        f"block F{n}(X [B, D]) -> Y [B, D] {{\n    X -> tanh : Y\n}}\n" for n in range(1_100)
    )
    calls = " -> ".join(f"F{n}" for n in range(1_100))
    last = "block Last(X [B, D]) -> Y [B, 4, D/4] {\n    X -> R : Y\n}\n"
    main = f"block Net(X [B, D]) -> Y [B, 4, D/4] {{\n    X -> {calls} -> Last : Y\n}}\n"
    text = HEAD + rest + last + main
    with pytest.raises(DiagnosticError):
        compile_project(parse_project(text.encode()))
    assert {each.code for each in check_choices(parse_project(text.encode()))} == {"XG0401"}
