"""`xg check`: every block, every choice."""

import json
from pathlib import Path

import pytest
from cli.conftest import Xg


def test_every_file_is_checked(xg: Xg) -> None:
    said = xg("check", "wrong.xg", "tiny.xg", "nothing.xg")
    assert said.out == "wrong.xg: 1 error\ntiny.xg: ok\nnothing.xg: 1 error\n"
    assert said.code == 1


def test_a_mistake_in_a_choice_that_is_not_the_default(xg: Xg, folder: Path) -> None:
    (folder / "choice.xg").write_text(
        "dim B, D\noption act = ReLU | gone\n"
        "block Net(X [B, D]) -> Y [B, D] {\n    X -> act : Y\n}\n"
    )
    assert "gone" in xg("check", "choice.xg").err
    assert xg("check", "choice.xg", "--set", "act=ReLU").code == 0


def test_options_of_a_call_are_choices_too(xg: Xg, folder: Path) -> None:
    (folder / "own.xg").write_text(
        "dim B, D, E\n"
        "block Net(X [B, D]; how = plain | odd) -> Y [B, D] {\n"
        "    X -> T if how = odd -> ReLU : Y\n}\n"
    )
    said = xg("check", "own.xg")
    assert said.code == 1
    assert "T cannot make [B, D]" in said.err
    assert xg("check", "own.xg", "--set", "how=plain").code == 0


def test_all_blocks_are_told_in_the_order_of_the_file(xg: Xg, folder: Path) -> None:
    bad = "block {}(X [B, D]) -> Y [B, D] {{\n    X -> gone : Y\n}}\n"
    text = "dim B, D\n" + "".join(bad.format(name) for name in ("A", "B_2", "C"))
    (folder / "three.xg").write_text(text)
    lines = [line for line in xg("check", "three.xg").err.splitlines() if "three.xg:" in line]
    assert [int(line.rsplit(":", 2)[1]) for line in lines] == [3, 6, 9]


def test_greek_and_english_names_are_one(xg: Xg, folder: Path) -> None:
    (folder / "greek.xg").write_text(
        "dim B, λ = 4\nblock Ω(X [B, λ]) -> Y [B, λ] {\n    X -> ReLU : Y\n}\n", encoding="utf-8"
    )
    assert xg("check", "greek.xg", "--block", "Omega", "--set", "lambda=3").code == 0
    assert xg("check", "greek.xg", "--block", "Ω", "--set", "λ=3").code == 0


def test_a_file_of_operators_alone_is_checked(xg: Xg, folder: Path) -> None:
    (folder / "ops.xg").write_text("op Twice(x) = 2*x\nop Odd(x) = y\n")
    said = xg("check", "ops.xg")
    assert said.code == 1
    assert "Odd has no operand or part y" in said.err


def test_an_unknown_block_is_told(xg: Xg) -> None:
    assert "tiny.xg has no block Nett" in xg("check", "tiny.xg", "--block", "Nett").err


def test_every_plan_of_a_file_is_checked(xg: Xg, folder: Path) -> None:
    text = (folder / "tiny.xg").read_text(encoding="utf-8")
    plan = "\nmesh N_D = 2, N_T = 2\nplan TP of Net {\n    W [D, D_ff/N_T]\n}\n"
    (folder / "plan.xg").write_text(text + plan, encoding="utf-8")
    said = xg("check", "plan.xg")
    assert (said.code, said.out) == (0, "plan.xg: ok, 1 warning\n")
    assert said.err.startswith("warning[XG0243]: no shape and no plan divides by N_D\n")
    said = xg("check", "plan.xg", "--set", "N_T=3")
    assert said.code == 1
    assert "D_ff = 8 is not divisible by N_T = 3" in said.err
    assert "N_T may be 1, 2, 4 or 8" in said.err
    rows = "\nplan Rows of Net {\n    W [D/N_T, D_ff]\n}\nplan DP of Net {\n    X [B/N_D, D]\n}\n"
    (folder / "plan.xg").write_text(text + plan + rows, encoding="utf-8")
    assert xg("check", "plan.xg", "--plan", "TP × DP").code == 0
    said = xg("check", "plan.xg", "--plan", "TP*Rows")
    assert (said.code, "W is placed twice over N_T" in said.err) == (1, True)
    assert "no plan is called Row" in xg("check", "plan.xg", "--plan", "Row").err


def test_plans_of_blocks_from_other_files_are_checked(xg: Xg, folder: Path) -> None:
    text = 'use Net from "tiny.xg"\nmesh N_T = 2\nplan TP of Net {\n    W [D_ff, D/N_T]\n}\n'
    (folder / "plans.xg").write_text(text, encoding="utf-8")
    said = xg("check", "plans.xg")
    assert (said.code, said.out) == (1, "plans.xg: 1 error\n")
    assert "W is [D, D_ff], but the plan says [D_ff, D/N_T]" in said.err


def test_a_plan_that_is_wrong_leaves_the_others_alone(xg: Xg, folder: Path) -> None:
    text = (folder / "tiny.xg").read_text(encoding="utf-8")
    plans = (
        "mesh N_T = 2, N_D = 2\nplan TP of Net {\n    W [D, D_ff/N_T]\n}\n"
        "plan BAD of Net {\n    Q [D]\n}\nplan ODD of Net {\n    W [D_ff, D/N_T]\n}\n"
        "plan TWO = TP × BAD\nplan DP of Net {\n    X [B/N_D, D]\n}\nplan DT = DP × TP\n"
    )
    (folder / "plans.xg").write_text(text + plans, encoding="utf-8")
    for plan in ("TP", "DP", "DT", "DP × TP"):
        assert xg("check", "plans.xg", "--plan", plan).code == 0
        assert xg("show", "plans.xg", "--plan", plan).code == 0
    for plan, said in (("BAD", "Net has no value Q"), ("TWO", "Net has no value Q")):
        assert said in xg("check", "plans.xg", "--plan", plan).err
    assert "the plan says [D_ff, D/N_T]" in xg("check", "plans.xg", "--plan", "ODD").err
    assert xg("check", "plans.xg").code == 1


def test_a_plan_that_comes_with_a_block_and_does_not_fit_is_a_warning(xg: Xg, folder: Path) -> None:
    (folder / "layer.xg").write_text(
        "mesh N_T = 2\ndim B, S\nblock Layer(X [B, S]) -> Y [B, S] {\n    X -> ReLU : Y\n}\n"
        "plan SP of Layer {\n    X, Y [B, S/N_T]\n}\n"
    )
    (folder / "net.xg").write_text(
        'use Layer from "layer.xg"\ndim B, S = 7\n'
        "block Net(X [B, S]) -> Y [B, S] {\n    X -> Layer : Y\n}\n"
    )
    said = xg("check", "net.xg")
    assert (said.code, said.out) == (0, "net.xg: ok, 1 warning\n")
    assert "warning[XG0404]: S = 7 is not divisible by N_T = 2" in said.err
    assert "the plan SP comes with a used file and does not fit here" in said.err
    assert xg("check", "net.xg", "--plan", "SP").code == 1


def test_what_nothing_uses_is_a_warning(xg: Xg, folder: Path) -> None:
    (folder / "spare.xg").write_text(
        "dim B, D, K\nblock F(X [B, D], M [B]) -> Y [B, D] {\n    X -> ReLU : Y\n}\n"
    )
    said = xg("check", "spare.xg")
    assert (said.code, said.out) == (0, "spare.xg: ok, 2 warnings\n")
    assert "warning[XG0225]: nothing uses the dim K" in said.err
    assert "warning[XG0225]: nothing uses the input M" in said.err
    assert xg("check", "spare.xg", "--strict").code == 1
    assert xg("check", "tiny.xg", "--strict").code == 0
    data = json.loads(xg("check", "spare.xg", "--json").out)["diagnostics"]
    assert [(each["code"], each["severity"]) for each in data] == [("XG0225", "warning")] * 2


@pytest.mark.parametrize(
    "line",
    ["\u200b\n", "dim = 3\n", "block F(x [B]) -> y [B] {\n    x -> q : y\n}\n"],
    ids=["characters", "statements", "blocks"],
)
def test_a_count_that_reached_its_bound_says_so(xg: Xg, folder: Path, line: str) -> None:
    lines = [line.replace("F(", f"F{place}(") for place in range(130)]
    (folder / "many.xg").write_text("dim B\n" + "".join(lines), encoding="utf-8")
    said = xg("check", "many.xg")
    assert "at least 100 errors" in said.out
    assert "and at least 80 more" in said.err
    (folder / "few.xg").write_text("dim B\n" + "".join(lines[:30]), encoding="utf-8")
    said = xg("check", "few.xg")
    assert "30 errors" in said.out
    assert "at least" not in said.out + said.err


HOSTILE = "a,b:c%d.xg"


def test_findings_as_commands_of_a_workflow(xg: Xg, folder: Path) -> None:
    """A property ends at a comma, the properties at a colon, the command at a line's end."""
    (folder / HOSTILE).write_text("block A (X [B]) -> Y [B] {\n    X -> foo : Y\n}\n", "utf-8")
    said = xg("check", HOSTILE, "--format", "github")
    assert said.code == 1
    assert said.out.splitlines() == [
        "::error file=a%2Cb%3Ac%25d.xg,line=1,col=13,endColumn=13,title=XG0203"
        "::no dim is called B%0Ahelp: declare it: dim B",
    ]
    assert xg("check", "mlp", "--format", "github").out == ""


def test_findings_as_sarif(xg: Xg, folder: Path) -> None:
    (folder / HOSTILE).write_text(
        "dim B\nblock A (X [B]) -> Y [B] {\n    X -> foo : Y\n}\n", "utf-8"
    )
    said = xg("check", HOSTILE, "--format", "sarif")
    assert said.code == 1
    log = json.loads(said.out)
    (run,) = log["runs"]
    (result,) = run["results"]
    (place,) = result["locations"]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [result["ruleId"]]
    assert (result["ruleId"], result["level"]) == ("XG0202", "error")
    assert "foo" in result["message"]["text"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "a%2Cb%3Ac%25d.xg"},
        "region": {"startLine": 3, "startColumn": 10, "endColumn": 13},
    }
    none = xg("check", "absent.xg", "--format", "sarif")
    assert none.code == 5
    assert "locations" not in json.loads(none.out)["runs"][0]["results"][0]


def test_standard_input_has_the_name_that_is_given_and_uses_the_files_beside_it(
    xg: Xg, folder: Path
) -> None:
    (folder / "deep").mkdir()
    (folder / "tiny.xg").rename(folder / "deep" / "tiny.xg")
    text = b'use Net from "tiny.xg"\ndim B, D\nblock F(X [B, D]) -> Y [B, D] {\n    X -> S : Y\n}\n'
    named = ("-", "--stdin-filename", "deep/new.xg")
    said = xg("check", *named, stdin=text.replace(b"-> S", b"-> Nothing"))
    assert said.code == 1
    assert "deep/new.xg:4:" in said.err
    assert xg("build", *named, "--only", "svg", "-o", "out", stdin=text).code == 0
    assert (folder / "out" / "new_f.forward.svg").is_file()
    assert "tiny.xg" in xg("check", "-", stdin=text).err
    said = xg("fmt", "--check", *named, stdin=b"dim  B\n")
    assert (said.code, said.out) == (1, "would lay out deep/new.xg\n")
