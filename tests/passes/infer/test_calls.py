"""A call means its body: sizes given at a call are the caller's, and no name is captured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from backends import with_calls
from fuzz.proof import DROPOUT, Case, on_arrays

from xg.codegen.backend import backends
from xg.diagnostics.diagnostic import DiagnosticError, Source
from xg.frontend.choices import check_choices
from xg.frontend.project import read_project
from xg.ir.graph import Apply, IRProgram
from xg.ir.size_checks import check_numbers
from xg.ir.walk import param_specs
from xg.passes.differentiate import differentiate
from xg.passes.infer import infer
from xg.passes.resolve import resolve
from xg.syntax import ast
from xg.syntax.parse import parse

MLP = """
block MLP(X [B, S, D]) -> Y [B, S, D] {
    param W_1 [D, D_ff], W_2 [D_ff, D]
    X -> •<=W_1 -> tanh -> •<=W_2 : Y
}
"""
LIN = """
block Lin(X [B, D]) -> Y [B, K] {
    param W [D, K]
    X -> •<=W : Y
}
"""
RES = """
block Res(X [B, D]) -> Y [B, D] {
    param U [K, D]
    X -> Lin(K=K) -> •<=U -> tanh : Y
}
"""

# A program with calls, and the program with their bodies in their places; parameters in one order.
PAIRS = {
    "a size in the caller's D, which is not the callee's": (
        "dim B = 2, S = 3, D = 4, E = 5, D_ff = 4*D"
        + MLP
        + """
block Net(X [B, S, D], T [B, S, E]) -> Y [B, S, E] {
    T -> MLP(D_ff=2*D) : H
    X -> mean[D] -> BC[b, s -> b, s, e=E] -> ⊕<-H : Y
}
""",
        """
dim B = 2, S = 3, D = 4, E = 5
block Net(X [B, S, D], T [B, S, E]) -> Y [B, S, E] {
    param W_1 [E, 2*D], W_2 [2*D, E]
    T -> •<=W_1 -> tanh -> •<=W_2 : H
    X -> mean[D] -> BC[b, s -> b, s, e=E] -> ⊕<-H : Y
}
""",
    ),
    "a number reaches the type of the output": (
        f"dim B = 2, D = 4, K = 3{LIN}"
        "block Net(X [B, D]) -> Y [B, 8] {\n    X -> Lin(K=8) : Y\n}",
        """
dim B = 2, D = 4
block Net(X [B, D]) -> Y [B, 8] {
    param W [D, 8]
    X -> •<=W : Y
}
""",
    ),
    "the caller's symbol of the same name": (
        "dim B = 2, D = 4, K, M = 5"
        + LIN
        + RES
        + "block Net(X [B, D]) -> Y [B, D] {\n    X -> Res(K=M) : Y\n}",
        """
dim B = 2, D = 4, M = 5
block Net(X [B, D]) -> Y [B, D] {
    param U [M, D], W [D, M]
    X -> •<=W -> •<=U -> tanh : Y
}
""",
    ),
    "a number of the program for a dim that the block has for itself": (
        """
dim B = 2, D = 4, d = 2
block G(x [B, D]) -> y [B, D] {
    dim d = 1, e = 3*d
    x -> scale(d) -> ⊕<-(x -> tanh -> scale(e)) : y
}
block Net(X [B, D]) -> Y [B, D] {
    X -> G(d=d) : Y
}
""",
        """
dim B = 2, D = 4
block Net(X [B, D]) -> Y [B, D] {
    X -> scale(2) -> ⊕<-(X -> tanh -> scale(6)) : Y
}
""",
    ),
    "a number of the program for how far apart windows look": (
        """
dim B = 2, S = 7, D = 3, k = 3
block Pool(x [B, S, D]) -> y [B, S, D] {
    dim k = 2
    x -> window[S](2, causal, dilation=k) -> mean[-2] : y
}
block Net(X [B, S, D]) -> Y [B, S, D] {
    X -> Pool(k=k) : Y
}
""",
        """
dim B = 2, S = 7, D = 3
block Net(X [B, S, D]) -> Y [B, S, D] {
    X -> window[S](2, causal, dilation=3) -> mean[-2] : Y
}
""",
    ),
    "a size in terms of itself": (
        f"dim B = 2, D = 4, K = 3{LIN}"
        "block Net(X [B, D]) -> Y [B, 2*K] {\n    X -> Lin(K=2*K) : Y\n}",
        """
dim B = 2, D = 4, K = 3
block Net(X [B, D]) -> Y [B, 2*K] {
    param W [D, 2*K]
    X -> •<=W : Y
}
""",
    ),
    "one block with two widths": (
        f"dim B = 2, D = 4, K = 3, M = 5{LIN}"
        """
block Net(X [B, D]) -> Y [B, K + 8] {
    X -> Lin as a : A
    X -> Lin(K=8) as b : H
    A, H -> C : Y
}
""",
        """
dim B = 2, D = 4, K = 3
block Net(X [B, D]) -> Y [B, K + 8] {
    param W_a [D, K], W_b [D, 8]
    X -> •<=W_a : A
    X -> •<=W_b : H
    A, H -> C : Y
}
""",
    ),
    "a number in the caller's sizes": (
        """
dim B = 2, D = 4, E = 7
block F(X [B, D]; s = 1.0) -> Y [B, D] {
    X -> scale(s) -> scale(1/D) -> tanh : Y
}
block Net(X [B, D], T [B, E]) -> Y [B, E] {
    X -> mean[D] -> BC[b -> b, e=E] -> ⊕<-T -> F(s=1/sqrt(D)) : Y
}
""",
        """
dim B = 2, D = 4, E = 7
block Net(X [B, D], T [B, E]) -> Y [B, E] {
    X -> mean[D] -> BC[b -> b, e=E] -> ⊕<-T -> scale(1/sqrt(D)) -> scale(1/E) -> tanh : Y
}
""",
    ),
    "a product that says what the callee's symbol is": (
        """
dim B = 2, D = 4, E = 5
block Third(X [B, 3*D]) -> Y [B, D] {
    param W [3*D, D]
    X -> •<=W -> tanh : Y
}
block Net(X [B, 3*E]) -> Y [B, E] {
    X -> Third : Y
}
""",
        """
dim B = 2, E = 5
block Net(X [B, 3*E]) -> Y [B, E] {
    param W [3*E, E]
    X -> •<=W -> tanh : Y
}
""",
    ),
    "a definition that says what the callee's symbol is": (
        """
dim B = 2, S = 3, D = 8, E = 12, N_H = 4, M = 3, D_h = D/N_H
block Join(Q [B, N_H, S, D_h]) -> Y [B, S, D] {
    param W [D, D]
    Q -> R[b, n, s, d -> b, s, (n, d)] -> •<=W : Y
}
block Net(Q [B, M, S, E/M], X [B, S, D]) -> Y [B, S, E] {
    X -> mean[D] -> BC[b, s -> b, s, e=E] -> ⊕<-(Q -> Join) : Y
}
""",
        """
dim B = 2, S = 3, D = 8, E = 12, M = 3
block Net(Q [B, M, S, E/M], X [B, S, D]) -> Y [B, S, E] {
    param W [E, E]
    Q -> R[b, n, s, d -> b, s, (n, d)] -> •<=W : H
    X -> mean[D] -> BC[b, s -> b, s, e=E] -> ⊕<-H : Y
}
""",
    ),
    "a length of the program that the caller's input has a name for": (
        """
dim B = 2, W = 6, P = 2, N_P = W/P, S = N_P + 1, D = 4, U = 10
block F(X [B, S, D]) -> Y [B, S, D] {
    range(S) -> one(D=D) : T
    X -> ⊕<-BC(T) : Y
}
block one(t [S] in S) -> Y [S, D] {
    param E [S, D]
    t -> Emb(E) : Y
}
block Net(I [B, W], X [B, S, D]) -> Y [B, S, D] {
    I -> mean[W] -> BC[b -> b, s=S, d=D] -> ⊕<-(X -> F) : Y
}
block Top(J [B, U], X [B, U/P + 1, D]) -> Y [B, U/P + 1, D] {
    J, X -> Net : Y
}
""",
        """
dim B = 2, P = 2, D = 4, U = 10
block Top(J [B, U], X [B, U/P + 1, D]) -> Y [B, U/P + 1, D] {
    param E [U/P + 1, D]
    J -> mean[U] -> BC[b -> b, s=U/P + 1, d=D] : M
    range(U/P + 1) -> Emb(E) : T
    X -> ⊕<-BC(T) -> ⊕<-M : Y
}
""",
    ),
    "a dim that is the block's own": (
        """
dim B = 2, D = 4
block F(X [B, D]) -> Y [B, K] {
    dim K = 2*D
    param W [D, K]
    X -> •<=W : Y
}
block Net(X [B, D]) -> A [B, 2*D], H [B, D + 1] {
    X -> F as a : A
    X -> F(K=D + 1) as b : H
}
""",
        """
dim B = 2, D = 4
block Net(X [B, D]) -> A [B, 2*D], H [B, D + 1] {
    param W_a [D, 2*D], W_b [D, D + 1]
    X -> •<=W_a : A
    X -> •<=W_b : H
}
""",
    ),
}


def typed(text: str) -> IRProgram:
    program = infer(resolve(parse(Source("case.xg", text)), _no_file))
    check_numbers(program, {})
    return program


def _no_file(use: ast.Use) -> ast.Module:
    raise AssertionError(use)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("backend", with_calls())
def test_a_call_is_its_body(name: str, backend: str) -> None:
    called, inlined = (_case(text, backend) for text in PAIRS[name])
    called.check_values()
    called.check_slopes()
    called.check_initial()
    names = [path for path, *_ in param_specs(called.program)]
    others = [path for path, *_ in param_specs(inlined.program)]
    params = {other: called.params[name] for name, other in zip(names, others, strict=True)}
    values, saved = called.module.forward(called.params, called.inputs, seed=DROPOUT)
    expected, saved_2 = inlined.module.forward(params, called.inputs, seed=DROPOUT)
    gradients = called.module.backward(called.params, saved, called.cotangents)
    expected_2 = inlined.module.backward(params, saved_2, called.cotangents)
    for output in expected:
        np.testing.assert_allclose(values[output], expected[output], 1e-12, 1e-12)
    for mine, other in [*zip(names, others, strict=True), *((n, n) for n in called.inputs)]:
        np.testing.assert_allclose(gradients[mine], expected_2[other], 1e-12, 1e-12)


def _case(text: str, backend: str) -> Case:
    program = differentiate(typed(text))
    return Case.draw(program, on_arrays(backends()[backend], program), {}, 1)


ALONG = {
    "softmax": ("S[S]", "T[b, s, d -> b, d, s] -> S -> T[b, d, s -> b, s, d]", ""),
    "layer norm": (
        "LN[S](γ, β)",
        "T[b, s, d -> b, d, s] -> LN(γ, β) -> T[b, d, s -> b, s, d]",
        "param γ, β [S]",
    ),
}


@pytest.mark.parametrize("name", ALONG)
@pytest.mark.parametrize("backend", with_calls())
def test_an_operator_along_an_axis_is_one_along_the_last_axis_turned(
    name: str, backend: str
) -> None:
    node, turned, params = ALONG[name]
    text = """
dim B = 2, S = 5, D = 4
block Net(X [B, S, D]) -> Y [B, S, D] {{
    {1}
    X -> {0} : Y
}}
"""
    along, last = (_case(text.format(each, params), backend) for each in (node, turned))
    along.check_values()
    along.check_slopes()
    values, saved = along.module.forward(along.params, along.inputs)
    expected, saved_2 = last.module.forward(along.params, along.inputs)
    np.testing.assert_allclose(values["Y"], expected["Y"], 1e-12, 1e-12)
    gradients = along.module.backward(along.params, saved, along.cotangents)
    for each, gradient in last.module.backward(along.params, saved_2, along.cotangents).items():
        np.testing.assert_allclose(gradients[each], gradient, 1e-12, 1e-12)


# ---- what is refused ----------------------------------------------------------------------------

REFUSED = {
    "no operand, no default": (
        f"dim B, D, K{LIN}block Net(X [B, D]) -> Y [B, K] {{\n    X -> Lin : Y\n}}",
        "XG0308",
        "Lin(K=K)",
    ),
    "one call below": (
        "dim B, D, K, M"
        + LIN
        + RES.replace("(K=K)", "")
        + "block Net(X [B, D]) -> Y [B, D] {\n    X -> Res(K=M) : Y\n}",
        "XG0308",
        "Lin(K=K)",
    ),
    "a default beside the caller's own": (
        "dim B, D, K = 3, M"
        + LIN
        + RES.replace("(K=K)", "")
        + "block Net(X [B, D]) -> Y [B, D] {\n    X -> Res(K=M) : Y\n}",
        "XG0309",
        "Lin(K=K)",
    ),
    "two calls below, through a block that does not speak of it": (
        "dim B, D, K = 3, M"
        + LIN.replace("Y [B, K]", "Y [B]").replace(": Y", "-> mean[K] : Y")
        + "block Mid(X [B, D]) -> Y [B] {\n    X -> Lin : Y\n}\n"
        + "block Res(X [B, D], U [B, K]) -> Y [B] {\n    X -> Mid -> ⊕<-mean[K](U) : Y\n}\n"
        + "block Net(X [B, D], U [B, M]) -> Y [B] {\n    X, U -> Res : Y\n}",
        "XG0309",
        "Lin(K=…)",
    ),
    "a definition in a size that the caller has, too": (
        "dim B, D, E = 5, K = 2*E"
        + LIN
        + "block Net(X [B, D], T [B, E]) -> Y [B, K], Z [B, E] {\n"
        + "    X -> Lin : Y\n    T -> tanh : Z\n}",
        "XG0309",
        "Lin(E=E)",
    ),
    "a parameter of two shapes below a call that is made twice": (
        "dim B, D, E\nblock F(X [B, D]) -> Y [B, D] {\n    param W [D, D]\n    X -> •<=W : Y\n}\n"
        + "block G(X [B, D]) -> Y [B, D] {\n    X -> F : Y\n}\n"
        + "block Net(X [B, D], U [B, E]) -> Y [B, D], Z [B, E] {\n"
        + "    X -> G as g : Y\n    U -> g : Z\n}",
        "XG0307",
        "g.F.W would be [E, E] here",
    ),
    "a dim of which the block does not speak": (
        f"dim B, D, K, V = 3{LIN}block Net(X [B, D]) -> Y [B, 8] {{\n    X -> Lin(V=8) : Y\n}}",
        "XG0209",
        "its dims are",
    ),
    "a dim given twice": (
        f"dim B, D, K{LIN}block Net(X [B, D]) -> Y [B, 8] {{\n    X -> Lin(K=8, K=8) : Y\n}}",
        "XG0209",
        "K twice",
    ),
    "a dim that an operand says is another": (
        f"dim B, D, K = 3{LIN}block Net(X [B, D]) -> Y [B, K] {{\n    X -> Lin(D=8) : Y\n}}",
        "XG0304",
        "D of Lin would be 8 and D at once",
    ),
    "a fraction of an axis": (
        "dim B, D\nblock T(X [B, 3*D]) -> Y [B] {\n    X -> R : Z [B, 3, D]\n"
        "      -> mean[D] -> sum : Y\n}\n"
        "block Net(X [B, 8]) -> Y [B] {\n    X -> T : Y\n}",
        "XG0303",
        "T expects X [B, 3*D]",
    ),
    "a ring in a block": (
        "dim B\nblock F(X [B]) -> Y [B] {\n    dim K = 2*K\n    X -> tanh : Y\n}",
        "XG0218",
        "the size of K depends on itself",
    ),
    "a ring through the file": (
        "dim B, D = 2*K, K\nblock F(X [B]) -> Y [B] {\n    dim K = 2*D\n    X -> tanh : Y\n}",
        "XG0218",
        "depends on itself",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_call_leaves_unsaid_is_refused(name: str) -> None:
    text, code, words = REFUSED[name]
    with pytest.raises(DiagnosticError) as refused:
        typed(text)
    told = refused.value.diagnostics
    assert {each.code for each in told} == {code}
    assert any(words in f"{each.message} {each.help}" for each in told), told


def test_an_option_of_a_block_stands_before_the_programs() -> None:
    text = """
option act = tanh | GELU
dim B
block F(X [B]; act = ReLU | sigmoid) -> Y [B] {
    X -> act : Y
}
"""
    step = typed(text).main.steps[0]
    assert isinstance(step, Apply)
    assert step.op.glyph == "ReLU"


def test_the_dims_of_a_block_are_nothing_to_those_who_call_its_callers() -> None:
    text = """
dim B, D
block F(X [B, D]) -> Y [B] {
    dim K = 2*D
    param W [D, K]
    X -> •<=W -> sum[K] : Y
}
block Mid(X [B, D]) -> Y [B] {
    X -> F : Y
}
block Net(X [B, D], U [B, K]) -> Y [B] {
    dim K = 3
    X -> Mid -> ⊕<-sum[K](U) : Y
}
"""
    assert typed(text).main.block == "Net"


def test_a_block_with_dims_of_its_own_is_checked_under_a_plan(tmp_path: Path) -> None:
    text = """
dim B = 4, D = 4
mesh N_D = 2
block F(X [B, D]) -> Y [B, K] {
    dim K = 2*D
    param W [D, K]
    X -> •<=W : Y
}
plan DP of F {
    X [B/N_D, D]
}
"""
    (tmp_path / "a.xg").write_text(text, encoding="utf-8")
    assert check_choices(read_project(tmp_path / "a.xg")) == ()
