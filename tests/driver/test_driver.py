"""`xg.compile`, the interface of the compiler in Python."""

import inspect
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
from IPython.lib.pretty import pretty  # pyright: ignore[reportUnknownVariableType]

import xg
from xg.codegen.backend import backends
from xg.driver import BACKENDS, TensorSpec

DIAGRAMS = Path(__file__).parent.parent.parent / "diagrams"
MHA = DIAGRAMS / "notation" / "mha.xg"
MODEL = DIAGRAMS / "models" / "transformer.xg"


def test_the_interface_is_the_contract() -> None:
    signature = inspect.signature(xg.compile)
    *contract, source = signature.parameters.values()
    names = [parameter.name for parameter in contract]
    assert names == ["path", "block", "plan", "sizes", "mesh", "options"]
    assert (source.name, source.kind) == ("source", inspect.Parameter.KEYWORD_ONLY)


def test_inputs_outputs_and_parameters_in_file_order() -> None:
    program = xg.compile(MHA, block="MHA", sizes={"B": 2})
    assert program.inputs == {"X": TensorSpec((2, "S", 64), "float")}
    assert program.outputs == {"Y": TensorSpec((2, "S", 64), "float")}
    assert list(program.params)[:3] == ["gamma", "beta", "W_Q"]
    assert program.params["b_O"] == TensorSpec((64,), "float")


def test_integers_have_a_range() -> None:
    program = xg.compile(MODEL, sizes={"V": 11}, options={"head": "own"})
    assert program.inputs["ids"] == TensorSpec(("B", "S"), "int", range=11)
    assert program.params["W_lm"] == TensorSpec((64, 11), "float")
    assert "layers.3.attn.W_Q" in program.params


def test_parameters_are_those_of_the_generated_module() -> None:
    program = xg.compile(MODEL)
    made = program.load("numpy").init(0, np.float32)
    assert {name: spec.shape for name, spec in program.params.items()} == {
        name: array.shape for name, array in made.items()
    }


def test_the_last_block_is_the_default() -> None:
    assert xg.compile(MODEL).graphs.main.block == "LM"
    assert xg.compile(MODEL, block="Layer").graphs.main.block == "Layer"


def test_names_may_be_greek_or_english(tmp_path: Path) -> None:
    text = "dim B, λ = 4\nblock Ω(X [B, λ]) -> Y [B, λ] {\n    X -> ReLU : Y\n}\n"
    (tmp_path / "greek.xg").write_text(text, encoding="utf-8")
    for block, size in (("Ω", "λ"), ("Omega", "lambda")):
        program = xg.compile(tmp_path / "greek.xg", block=block, sizes={size: 7})
        assert program.inputs["X"].shape == ("B", 7)


def test_figures_code_and_cost() -> None:
    program = xg.compile(MHA)
    assert program.dot().startswith('digraph "Multi-Head Attention" {')
    assert program.dot("backward") != program.dot("forward")
    assert program.render("forward", format="svg").startswith(b"<svg")
    assert program.render("backward", "pdf").startswith(b"%PDF")
    assert program.render("overview", "png").startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="a figure is forward, backward or overview, not back"):
        program.render("back")  # pyright: ignore[reportArgumentType]
    assert program._repr_svg_().startswith("<svg")  # pyright: ignore[reportPrivateUsage]
    assert "def backward(" in program.source("numpy")
    assert str(program.cost().total.parameters) == "6*D + 4*D^2"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"format": "bmp"}, "a format is svg, pdf, png or tex, not 'bmp'"),
        ({"format": "SVG"}, "a format is svg, pdf, png or tex, not 'SVG'"),
        ({"theme": "blue"}, "a theme is light, dark, print or auto, not 'blue'"),
    ],
)
def test_formats_and_themes_that_there_are_not(arguments: dict[str, str], said: str) -> None:
    program = xg.compile(MHA)
    with pytest.raises(ValueError, match=f"^{said}$"):
        program.render("forward", **arguments)  # pyright: ignore[reportArgumentType]
    if "theme" in arguments:
        with pytest.raises(ValueError, match=f"^{said}$"):
            program.dot("forward", **arguments)  # pyright: ignore[reportArgumentType]


def test_a_loaded_module_shows_its_lines_in_errors() -> None:
    module = xg.compile(MHA).load()
    with pytest.raises(ValueError, match=r"X \[2, 3, 5\] does not fit .* gamma") as caught:
        module.forward(module.init(), {"X": np.zeros((2, 3, 5))})
    (frame,) = traceback.extract_tb(caught.tb)[-1:]
    assert frame.filename == "<MHA_numpy.py>"
    assert frame.line
    assert frame.line.startswith("raise ValueError")


def test_a_backend_that_there_is_not() -> None:
    there = f"no backend 'fortran': there are {', '.join(BACKENDS)}"
    with pytest.raises(ValueError, match=there):
        xg.compile(MHA).source("fortran")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"block": "Nothing"}, "no block Nothing"),
        ({"sizes": {"Q": 3}}, "no option or dim is called Q"),
        ({"sizes": {"D": "wide"}}, "D cannot be wide"),
        ({"options": {"norm": "pre"}}, "no option or dim is called norm"),
        ({"plan": "None"}, "no plan is called None"),
        ({"mesh": {"N_X": 2}}, "no option or dim is called N_X"),
        ({"sizes": {"N_H": 3}}, "D_h = D/N_H = 64/3 is not a whole number"),
    ],
)
def test_settings_that_do_not_fit(wanted: dict[str, object], message: str) -> None:
    with pytest.raises(xg.DiagnosticError, match=message):
        xg.compile(MHA, **wanted)  # pyright: ignore[reportArgumentType]


def test_a_setting_that_fits_nothing_is_answered_by_those_there_are() -> None:
    with pytest.raises(xg.DiagnosticError, match=r"= help: there are B, D, D_h, N_H, S, N_D, N_T$"):
        xg.compile(MHA, sizes={"Q": 3})


def test_a_text_is_no_path() -> None:
    with pytest.raises(xg.DiagnosticError) as caught:
        xg.compile(MHA.read_text("utf-8"))
    first, help = str(caught.value).splitlines()
    assert first.startswith("error[XG0601]: cannot read ")
    assert first.endswith(" …: this is source text, not a path")
    assert help.strip() == "= help: to compile a text, call xg.compile(source=…)"


def test_errors_carry_data_and_print_as_the_command_line_does(tmp_path: Path) -> None:
    (tmp_path / "bad.xg").write_text("dim B\nblock A(X [B]) -> Y [B] {\n    X -> gone : Y\n}\n")
    with pytest.raises(xg.DiagnosticError) as caught:
        xg.compile(tmp_path / "bad.xg")
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.line, diagnostic.column, diagnostic.code) == (3, 10, "XG0202")
    assert str(caught.value).startswith(
        "error[XG0202]: no operator, block or option is called gone\n"
    )


def test_compiling_and_writing_code_import_no_library_that_runs_it() -> None:
    libraries = {backend.runs.library for backend in backends().values()}
    code = (
        "import sys, xg\n"
        f"p = xg.compile({str(MHA)!r})\n"
        f"p.dot(), p.cost(), p.inputs, [p.source(name) for name in {BACKENDS!r}]\n"
        f"print(sorted({libraries | {'xg_runtime'}!r} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", code]
    paths = ":".join(sys.path)
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PYTHONPATH": paths}
    )
    assert done.stdout == "[]\n"


def test_a_program_is_shown_in_one_line() -> None:
    assert repr(xg.compile(MHA, block="MHA", sizes={"B": 2})) == (
        "<Program MHA(X [2, S, 64]) -> Y [2, S, 64], 10 parameters>"
    )
    assert len(repr(xg.compile(MODEL))) < 200


def test_what_a_program_is_made_of_is_shown_in_few_lines() -> None:
    program = xg.compile(MODEL, plan="TP")
    assert str(program.graphs).splitlines()[0] == "<Program of 4 graphs, callees first>"
    assert "  <Graph LM(ids, t) -> Z, loss, " in repr(program.graphs)
    assert len(repr(program.graphs).splitlines()) == 1 + 2 * len(program.graphs.graphs)
    history, project = repr(program.history), repr(program.project)
    assert history.startswith("<History: infer, number-mesh, eliminate-dead, ")
    assert project.startswith("<Project ")
    assert project.endswith("transformer.xg>")
    figure = program.figure("forward")
    assert repr(figure).startswith("<Figure Language Model")
    for each in (history, project, repr(figure), repr(program.fused_history)):
        assert len(each) < 300
    report = program.cost()
    assert repr(report).startswith("<CostReport of LM: ")
    assert max(map(len, map(repr, (*program.costs(), report.total, *report.blocks)))) < 2000
    assert str(report).startswith('LM "Language Model", one step of one rank, float32: ')
    assert "sent elements" in str(report)
    assert "--full" not in str(report)
    assert pretty(report) == str(report)


def test_a_figure_as_a_source_of_graphviz() -> None:
    import graphviz

    program = xg.compile(MHA)
    source = program.graphviz("backward", theme="dark")
    assert isinstance(source, graphviz.Source)
    assert source.source == program.dot("backward", theme="dark")
