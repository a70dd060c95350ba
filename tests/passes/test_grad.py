"""The operator `grad`: equal to torch's autograd taken twice, to differences, in every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from backends import forms_of_code
from ir_reader import read_program
from numpy.typing import NDArray
from passes.decode_step.stepping import stepping, written

import xg
from xg.codegen.backend import backends
from xg.cost.cost import cost
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import replace
from xg.driver import TensorSpec, compile_project
from xg.frontend.project import parse_project
from xg.frontend.typed import ProjectTyper, TypeMemory
from xg.ir.dim import ONE
from xg.ir.graph import Apply
from xg.ir.op import Op
from xg.ir.prim import Expr
from xg.ir.tensor import TensorType
from xg.ir.verify import violations
from xg.passes.ir_text import spell_program
from xg.verify.gradient_proof import inner_rows, prove
from xg.verify.plan_proof import prove_ranks
from xg.verify.reference.interpret import Interpreter

Arrays = dict[str, NDArray[Any]]
Tensors = dict[str, torch.Tensor]
Results = tuple[torch.Tensor, ...]
AUTOGRAD = 1e-9

PINN = """\
dim B = 3, D = 4

block Net(x [B, 1], f [B, 1]) -> loss [] {
    param W_1 [1, D], b [D], W_2 [D, 1]
    x -> •<=W_1 -> ⊕<-BC(b) -> tanh -> •<=W_2 : u [B, 1]
    grad[x](sum[B, 1](u))                       : u_x
    grad[x](sum[B, 1](u_x))                     : u_xx
    u_xx, f -> MSE                              : loss
}
"""


def pinn(p: Tensors, a: Tensors) -> Results:
    u = torch.tanh(a["x"] @ p["W_1"] + p["b"]) @ p["W_2"]
    (u_x,) = torch.autograd.grad(u.sum(), a["x"], create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), a["x"], create_graph=True)
    return (((u_xx - a["f"]) ** 2).mean(),)


# The critic calls a block that has parameters, and its own sizes are called otherwise.
WGAN = """\
dim B = 3, D = 4, H = 5

op mix(x, y [B, D], e [B]) = e * x + (1 - e) * y
op penalty(g [.., D]) = (sqrt(sum[D](g^2)) - 1)^2
op total(a, b, g; weight = 10) = b - a + weight * g

block Dense(x [B, N]) -> y [B, M] {
    dim N, M
    param W [N, M], b [M]
    x -> •<=W -> ⊕<-BC(b) -> SiLU : y
}

block Critic(x [B, D]) -> s [B] {
    param v [H]
    x -> Dense(M=H) as first -> Dense(M=H) as second -> ⊙<-BC(v) -> sum[H] : s
}

block Net(real, fake [B, D], e [B]) -> loss [] {
    real -> Critic as critic -> mean[B] : a
    fake -> critic -> mean[B]           : b
    real, fake -> mix<-e                : m
    m -> critic -> sum[B]               : s
    grad[m](s) -> penalty -> mean[B]    : gp
    a, b -> total<-gp                   : loss
}
"""


def wgan(p: Tensors, a: Tensors) -> Results:
    def critic(x: torch.Tensor) -> torch.Tensor:
        for name in ("first", "second"):
            x = torch.nn.functional.silu(x @ p[f"critic.{name}.W"] + p[f"critic.{name}.b"])
        return x @ p["critic.v"]

    e = a["e"][:, None]
    mixed = e * a["real"] + (1 - e) * a["fake"]
    (g,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    penalty = (((g**2).sum(-1).sqrt() - 1) ** 2).mean()
    return (critic(a["fake"]).mean() - critic(a["real"]).mean() + 10 * penalty,)


# Every kind of gradient: closed forms, terms, gates, indices, windows, several results.
MANY = """\
dim B = 3, S = 4, D = 6, V = 5

block Net(ids [B, S] in V, t [B] in D, r [B, S, D]) -> loss [], dx [B, S, D] {
    param E [V, D], g, b [D], K [3, D, D], W [D, D], w [D]
    ids -> Emb(E) -> ⊕<-r                             : x
    x -> LN(g, b) -> conv[S](K, pad=1) -> GELU        : h
    h -> •<=T(x) -> SM(0.5, causal) -> S -> •<=x      : a
    a -> •<=W -> ReLU -> ⊕<-(h -> sigmoid) -> mean[S] : y
    y, t -> CE                                        : inner
    grad[x, W](inner)                                 : dx, dW
    x -> •<=dW -> ⊙<-dx -> ⊙<-BC(w) -> sum[B, S, D]   : loss
}
"""


def many(p: Tensors, a: Tensors) -> Results:
    f = torch.nn.functional
    x = p["E"][a["ids"]] + a["r"]
    n = f.layer_norm(x, (6,), p["g"], p["b"])
    h = f.conv1d(n.transpose(1, 2), p["K"].permute(2, 1, 0), padding=1).transpose(1, 2)
    h = f.gelu(h, approximate="tanh")
    scores = (h @ x.transpose(1, 2) * 0.5).masked_fill(~torch.ones(4, 4).tril().bool(), -1e300)
    y = (torch.relu(scores.softmax(-1) @ x @ p["W"]) + torch.sigmoid(h)).mean(1)
    inner = f.cross_entropy(y, a["t"])
    dx, dw = torch.autograd.grad(inner, [x, p["W"]], create_graph=True)
    return (x @ dw * dx * p["w"]).sum(), dx


# The gradient of a gradient in a direction: a Hessian-vector product, of a parameter.
HVP = """\
dim B = 3, D = 4

block Net(x, t [B, D], v [D, D]) -> Hv [D, D] {
    param W [D, D]
    x -> •<=W -> tanh -> MSE<-t : loss
    grad[W](loss)               : g
    g -> ⊙<-v -> sum[-2, -1]    : gv
    grad[W](gv)                 : Hv
}
"""


def hvp(p: Tensors, a: Tensors) -> Results:
    loss = torch.nn.functional.mse_loss(torch.tanh(a["x"] @ p["W"]), a["t"])
    (g,) = torch.autograd.grad(loss, p["W"], create_graph=True)
    return torch.autograd.grad((g * a["v"]).sum(), p["W"], create_graph=True)


PROGRAMS: dict[str, tuple[str, Callable[[Tensors, Tensors], Results]]] = {
    "pinn": (PINN, pinn),
    "wgan": (WGAN, wgan),
    "many": (MANY, many),
    "hvp": (HVP, hvp),
}


def drawn(program: xg.Program) -> tuple[Arrays, Arrays, Arrays]:
    """Parameters, inputs and cotangents of the outputs."""
    draw = np.random.default_rng(3)

    def array(spec: TensorSpec) -> NDArray[Any]:
        shape = tuple(int(size) for size in spec.shape)
        if spec.range is None:
            return draw.standard_normal(shape) / 2
        return draw.integers(0, int(spec.range), shape)

    params = {name: array(spec) for name, spec in program.params.items()}
    inputs = {name: array(spec) for name, spec in program.inputs.items()}
    return params, inputs, {name: array(spec) for name, spec in program.outputs.items()}


def by_autograd(name: str, params: Arrays, inputs: Arrays, cotangents: Arrays) -> Arrays:
    """The outputs and gradients of a program by torch's autograd."""
    p = {key: torch.tensor(array, requires_grad=True) for key, array in params.items()}
    a = {key: torch.tensor(x, requires_grad=x.dtype.kind == "f") for key, x in inputs.items()}
    outputs = dict(zip(cotangents, PROGRAMS[name][1](p, a), strict=True))
    total = sum((torch.tensor(cotangents[key]) * y).sum() for key, y in outputs.items())
    leaves = {**p, **{key: x for key, x in a.items() if x.requires_grad}}
    assert isinstance(total, torch.Tensor)
    gradients = torch.autograd.grad(total, [*leaves.values()])
    named = {f"d{key}": each for key, each in zip(leaves, gradients, strict=True)}
    return {key: each.detach().numpy() for key, each in {**outputs, **named}.items()}


def assert_near(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        scale = max(1.0, float(np.abs(array).max()))
        assert np.abs(np.asarray(found[name]) - array).max() <= AUTOGRAD * scale, name


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_form_agrees_with_autograd(name: str) -> None:
    program = xg.compile(source=PROGRAMS[name][0])
    params, inputs, cotangents = drawn(program)
    expected = by_autograd(name, params, inputs, cotangents)
    interpreter = Interpreter(program.graphs, params)
    outputs, record = interpreter.forward(inputs)
    gradients = interpreter.backward(record, cotangents)
    assert_near({**outputs, **{f"d{key}": x for key, x in gradients.items()}}, expected)
    for backend in backends():
        for kernels in forms_of_code(backend):
            module = program.on_arrays(backend, kernels=kernels)
            made, saved = module.forward(params, inputs)
            found = module.backward(params, saved, cotangents)
            assert_near({**made, **{f"d{key}": x for key, x in found.items()}}, expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_proven(name: str) -> None:
    """The gradients of the program, and what each `grad` gives, by differences of its loss."""
    proof = prove(parse_project(PROGRAMS[name][0].encode()), None, {}, 0)
    assert proof.passed
    rows = [row.name for row in proof.gradients.rows if row.name.startswith("grad[")]
    assert len(rows) == {"pinn": 2, "wgan": 1, "many": 2, "hvp": 2}[name]


INNER = """\
dim B
op number(i [..] in 5) = float(i) + 0.5

block Net({}) -> g [B] {{
    {}
    z -> ⊙<-z -> sum[B] : s
    grad[z](s)          : g
}}
"""


@pytest.mark.parametrize(
    ("head", "line"), [("i [B] in 5", "i -> number : z"), ("x [B]", "x -> stop : z")]
)
def test_one_that_is_the_only_gradient_is_proven(head: str, line: str) -> None:
    project = parse_project(INNER.format(head, line).encode())
    proof = prove(project, None, {}, 0, [*backends()], edges=True)
    assert proof.passed
    assert [row.verdict for row in proof.gradients.rows if row.name == "grad[z](s)"] == ["ok"]


def test_a_wrong_body_is_found() -> None:
    """All backends would agree on it, and so would the gradients of the program."""
    program = xg.compile(source=HVP)
    params, inputs, _ = drawn(program)
    assert all(row.verdict == "ok" for row in inner_rows(program.graphs, params, inputs, 0))
    (first, *_) = (s for s in program.graphs.main.steps if isinstance(s, Apply) and is_taken(s))
    wrong = replace(first.op, forward=longer(first.op))
    main = program.graphs.main
    steps = tuple(replace(s, op=wrong) if s is first else s for s in main.steps)
    graphs = replace(program.graphs, graphs={main.key: replace(main, steps=steps)}, backwards={})
    verdicts = [row.verdict for row in inner_rows(graphs, params, inputs, 0)]
    assert verdicts == ["failed", "failed"]  # the second one is of numbers that the first made


def longer(op: Op) -> Callable[..., Expr]:
    def forward(*operands: Expr, **_: object) -> Expr:
        return op.forward(*operands)[0] * 1.001

    return forward


def is_taken(step: Apply) -> bool:
    return step.op.differentiates > 0


def test_printed_ir_is_read_again() -> None:
    graphs = xg.compile(source=WGAN).graphs
    text = spell_program(graphs)
    assert spell_program(read_program(text)) == text
    (step,) = (s for s in read_program(text).main.steps if isinstance(s, Apply) and is_taken(s))
    assert step.op.differentiates == 1


def test_the_verifier_knows_what_a_gradient_reads() -> None:
    graphs = xg.compile(source=HVP).graphs
    main = graphs.main
    first = next(s for s in main.steps if isinstance(s, Apply) and is_taken(s))
    loss, w, *rest = first.inputs
    turned = replace(first, inputs=(w, loss, *rest))
    steps = tuple(turned if s is first else s for s in main.steps)
    broken = replace(graphs, graphs={main.key: replace(main, steps=steps)}, backwards={})
    assert any("is a gradient of W, which is not one float" in each for each in violations(broken))


def test_dropout_between_a_loss_and_its_variable_is_read() -> None:
    """The mask is that of the forward pass, so the gradient is the one of these numbers."""
    text = """\
dim B = 4, D = 8

block Net(x [B, D]) -> g, y [B, D] {
    param W [D, D]
    x -> •<=W -> tanh -> DO(0.5) : y
    y -> ⊙<-y -> sum[B, D]       : s
    grad[x](s)                   : g
}
"""
    proof = prove(parse_project(text.encode()), None, {}, 0, [*backends()])
    assert proof.passed
    program = xg.compile(source=text)
    params, inputs, _ = drawn(program)
    outputs, _ = program.on_arrays().forward(params, inputs, seed=5)
    slope = 1 - np.tanh(inputs["x"] @ params["W"]) ** 2
    kept = outputs["y"] != 0
    expected = (2 * outputs["y"] * np.where(kept, 2, 0) * slope) @ params["W"].T
    assert not kept.all()
    np.testing.assert_allclose(outputs["g"], expected, atol=1e-12)


BODY = """\
dim B = 4, D = 8, N_L = 3

block Layer(x [B, D]) -> y [B, D] {{
    param V [D, D]
    x -> •<=V -> tanh : y
}}

block Noisy(x [B, D]) -> y [B, D] {{
    x -> DO(0.1) : y
}}

block Cell(x [D]) -> y [D] {{
    state h [D] = 0
    x, h -> add : y
    next h = y
}}

op add(a, b) = a + b

block Net(x, z [B, D]) -> g [B, D] {{
    param W [D, D]
    {}
    W -> ⊕<-W : W_2
    z -> ⊕<-g_0 -> •<=W_2 : g
}}
"""
REFUSED = {
    "x -> tanh -> sum[B, D] : s\n    grad[z](s) : g_0": "s does not depend on z",
    "x -> tanh : s\n    grad[x](s) : g_0": "a loss that is one number, and this one is [B, D]",
    "x -> topk(2) : v, i\n    v -> sum[-2, -1] : s\n    grad[i](s) : g_0": "integers have no",
    "x -> stop -> sum[B, D] : s\n    grad[x](s) : g_0": "no gradient goes from s to x",
    "x -> N_L × Layer as rows -> sum[B, D] : s\n    grad[x](s) : g_0": "through rows: Layer is",
    "x -> Cell over B as cell -> sum[B, D] : s\n    grad[x](s) : g_0": "through cell: Cell is",
    "x -> Noisy -> sum[B, D] : s\n    grad[x](s) : g_0": "draws random numbers or has BN inside",
    "x -> sum[B, D] -> grad : g_0": "grad needs the values to differentiate by",
    "x -> sum[B, D] -> grad[x -> x] : g_0": "grad needs the values to differentiate by",
    "x -> sum[B, D] -> grad[q] : g_0": "no value is called q",
    "x -> sum[B, D] -> grad[D] : g_0": "no value is called D",
    "x -> sum[B, D] -> grad[x](W) : g_0": "grad takes 1 operand",
    "x -> sum[B, D] -> 2 × grad[x] : g_0": "an operator that is repeated",
    "x -> sum[B, D] -> grad[x] over B : g_0": "over",
    "x -> sum[B, D] -> grad[x, z] : g_0": "this label takes",
}


@pytest.mark.parametrize("lines", REFUSED)
def test_what_has_no_gradient_is_refused(lines: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        xg.compile(source=BODY.format(lines))
    assert any(REFUSED[lines] in str(each) for each in caught.value.diagnostics), caught.value


def test_inside_a_repeat_and_a_loop() -> None:
    """A block that takes a gradient is called like any other."""
    text = """\
dim B = 2, D = 3, N_L = 2, S = 3

block Step(x [B, D], t [B, D]) -> y [B, D] {
    param W [D, D]
    x -> •<=W -> tanh -> MSE<-t : loss
    grad[x](loss)               : dx
    x -> ⊕<-dx                  : y
}

block Cell(x [D], t [D]) -> e [D] {
    param U [D, D]
    state W [D, D] = 0.5
    x -> R : [1, D] -> •<=U -> •<=W -> R : [D] -> MSE<-t : loss
    grad[W](loss) : g
    W -> descend<-g : W_next
    x -> R : [1, D] -> •<=W_next -> R : e [D]
    next W = W_next
}

op descend(w, g) = w - 0.5 * g

block Net(x, t [B, D], X, T [S, D]) -> y [B, D], E [S, D] {
    x -> N_L × Step<-t as steps : y
    X, T -> Cell over S as cell : E
}
"""
    proof = prove(parse_project(text.encode()), None, {}, 0, [*backends()])
    assert proof.passed, proof


def test_a_block_of_that_name_stays_one() -> None:
    text = """\
dim D = 3

block grad(x [D]) -> y [D] {
    x -> tanh : y
}

block Net(x [D]) -> y [D] {
    grad(x) : y
}
"""
    program = xg.compile(source=text)
    x = np.linspace(-1, 1, 3)
    np.testing.assert_allclose(program.on_arrays().forward({}, {"x": x})[0]["y"], np.tanh(x))


PLANNED = """\
mesh N = 2
dim B = 4, D = 4, H = 8

op step(w, g; rate = 0.1) = w - rate * g

block MLP(x [B, D]) -> y [B, D] {
    param A [D, H], C [H, D]
    x -> •<=A -> tanh -> •<=C : y
}

block Net(x, t [B, D]) -> y [B, D], loss [] {
    param W [D, D]
    x -> MLP as mlp -> sum[B, D] : s
    grad[x](s)                   : dx
    dx -> •<=W -> MSE<-t         : loss
    grad[W](loss)                : dW
    W -> step<-dW                : W_1
    t -> •<=W_1                  : y
}

plan DP of Net {
    x, t [B/N, D]
}

plan TP of Net {
    mlp.A [D, H/N]
    mlp.C [H/N, D]
}

plan FSDP of Net {
    x, t [B/N, D]
    * [_/N, ..] -> [..] again
}
"""


@pytest.mark.parametrize("plan", ["DP", "TP", "FSDP"])
def test_plans_are_proven(plan: str) -> None:
    """A gradient of a sum over samples is cut along them; one by a parameter is summed."""
    assert prove_ranks(parse_project(PLANNED.encode()), "Net", plan, {}, 0).passed


APART = """\
dim B, S = 6, D = 2

block Net(x [B, S, D]) -> dx [B, S, D] {
    param w [D]
    x -> tanh -> ⊙<-BC(w)    : y [B, S, D]
    y -> ⊙<-y -> sum[B, S, D] : s
    grad[x](s)               : dx
}

mesh N_D, N_T

plan P of Net {
    x [B/N_D, S, D]
    w [D/N_T]
}
"""


def test_a_rank_may_have_another_part_of_a_gradient_than_of_its_variable() -> None:
    assert prove_ranks(parse_project(APART.encode()), "Net", "P", {}, 0).passed


@pytest.mark.parametrize("name", ["w", "x"])
def test_parts_of_a_gradient_have_its_variables_shape_along_uncut_axes(name: str) -> None:
    """Ranks hold a share of the sum that is dw, and another part of dx than of x."""
    text = APART.replace("-> dx [B, S, D] {", "-> dx [B, S, D], dw [D] {")
    text = text.replace("grad[x](s)               : dx", "grad[x, w](s) : dx, dw")
    text = text.replace("    w [D/N_T]\n", "") if name == "w" else text
    ranks = {"N_D": 2, "N_T": 2}
    program = compile_project(parse_project(text.encode()), "Net", ranks, "P").distributed
    assert program is not None
    graph = program.graphs["Net"]
    (step,) = (s for s in graph.steps if isinstance(s, Apply) and s.op.differentiates)
    number = [str(value.name) for value in step.inputs[1:3]].index(name)
    of, variable = step.outputs[number], step.inputs[1 + number]
    assert graph.placements[of] != graph.placements[variable]
    assert not list(violations(program))
    shape = graph.types[of].shape
    types = {**graph.types, of: TensorType((ONE, *shape))}
    wrong = replace(program, graphs={**program.graphs, "Net": replace(graph, types=types)})
    assert any("as the gradient by" in each for each in violations(wrong))


def test_no_step_follows_a_gradient_over_positions() -> None:
    """In a step the loss has new terms, so the gradient by a parameter is another one."""
    text = """\
dim B, S, D = 4, V = 5

op step(w, g) = w - g

block Net(ids [B, S] in V) -> Z [B, S, V] {
    param E [V, D], W [D, D], U [D, V]
    ids -> Emb(E)                : X
    X -> •<=W -> MSE<-X          : loss
    grad[W](loss)                : dW
    W -> step<-dW                : W_1
    X -> •<=W_1 -> •<=U          : Z
}
"""
    with pytest.raises(DiagnosticError, match="grad takes the gradient of a loss of all positions"):
        stepping(written(text))


def test_a_graph_keeps_its_body_in_every_choice() -> None:
    """So what was found of it in one choice of options is not looked for in the next."""
    text = "option a = tanh | sigmoid\n" + WGAN
    typer = ProjectTyper(parse_project(text.encode()), TypeMemory())
    (first, _), (second, _) = (typer.partly(None, {"a": word}) for word in ("tanh", "sigmoid"))
    assert first.main is second.main


def test_cost_counts_what_its_body_computes() -> None:
    text = """\
dim B = 4, D = 8

block Net(x [B, D]) -> y [B, D] {
    param W [D, D]
    x -> •<=W -> tanh : y
}
"""
    more = text.replace(" -> y [B, D] {", " -> y, g [B, D] {")
    more = more.replace(": y\n", ": y\n    grad[x](sum[B, D](y)) : g\n")
    plain, taken = (cost(xg.compile(source=each).graphs).total.forward for each in (text, more))
    assert (taken - plain).evaluate({"B": 4, "D": 8}) >= 2 * 4 * 8 * 8


def test_a_short_body_needs_no_code_for_its_loss() -> None:
    """The gradient is one product, which is written in place of a call."""
    text = """\
dim D = 3

block Net(x [D]) -> y [D] {
    param w [D]
    x -> ⊙<-w -> sum[D] : s
    grad[x](s) -> tanh  : y
}
"""
    assert prove(parse_project(text.encode()), None, {}, 0, [*backends()]).passed


def test_a_variable_may_depend_on_another_one() -> None:
    """The gradient by x goes through h as well, as in torch.autograd.grad."""
    text = """\
dim B = 3, D = 4

op Half(x [..]) = x + stop(select(x > 0, 1, -1) - x)

block Inner(x [B, D]) -> y [B, D] {
    param W [D, D] frozen, E [D, D]
    x -> •<=W -> LN -> tanh -> •<=E : y
}

block Outer(x [B, D]) -> y [B, D] {
    x -> Inner as one -> Inner as two : y
}

block Net(x [B, D], z [B, D]) -> loss [] {
    x -> BN -> Outer as outer           : h
    h -> outer -> Half -> ⊙<-h -> sum[B, D] : s
    grad[x, h](s)                       : dx, dh
    dx -> ⊙<-dh -> ⊙<-z -> sum[B, D]    : loss
}
"""
    proof = prove(parse_project(text.encode()), None, {}, 0, [*backends()])
    assert proof.passed, [row for row in proof.gradients.rows if row.verdict == "failed"]
    assert not {"outer.one.W", "outer.two.W"} & {row.name for row in proof.gradients.rows}


def test_calls_that_double_each_time_are_refused() -> None:
    """Soon, and before all of it is built."""
    blocks = ["block F_0(x [B]) -> y [B] {\n    x -> tanh -> tanh : y\n}"]
    for k in range(1, 16):
        calls = f"x -> F_{k - 1} as one -> F_{k - 1} as two : y"
        blocks.append(f"block F_{k}(x [B]) -> y [B] {{\n    {calls}\n}}")
    blocks.append("block N(x [B]) -> g [B] {\n    x -> F_15 -> sum[B] : s\n    grad[x](s) : g\n}")
    with pytest.raises(DiagnosticError, match="grad takes at most 20000 primitives"):
        xg.compile(source="\n\n".join(["dim B = 2", *blocks]))
