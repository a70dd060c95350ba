"""`Model`, the generated `torch.nn.Module`: the functions' numbers, and what users expect of it."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import copy
import gc
import inspect
import io
import pickle
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

import xg
from xg.codegen.torch.model_class import MEMBERS, is_attribute
from xg.verify.reference import interpret

DIAGRAMS = Path(__file__).parents[3] / "diagrams"
SMALL = {"V": 11, "D": 12, "N_H": 3, "N_L": 2, "D_ff": 7, "S_max": 9}
FILES: dict[str, tuple[str | None, dict[str, int]]] = {
    "transformer": (None, {**SMALL, "B": 2, "S": 5}),
    "bert": ("MLM", {**SMALL, "B": 2, "S": 5}),  # reads a table of its call, and makes a mask
    "encoder_decoder": (None, {"V_e": 11, "V_d": 7, "D": 12, "N": 2, "B": 2, "S_e": 5, "S_d": 3}),
    "llama": (
        None,
        {"V": 11, "D": 6, "N_L": 2, "N_H": 4, "N_KV": 2, "D_h": 8, "D_ff": 7, "B": 2, "S": 5},
    ),
    "mha": (None, {"D": 12, "B": 2, "S": 5}),  # calls nothing
    "vit": ("ViT", {"H": 4, "W": 4, "P": 2, "D": 12, "N_L": 2, "N_H": 3, "N_C": 5, "B": 2}),
}
Tensors = dict[str, torch.Tensor]


@cache
def compiled(name: str, **own: int) -> xg.Program:
    block, sizes = FILES[name]
    (path,) = DIAGRAMS.rglob(f"{name}.xg")
    return xg.compile(path, block=block, sizes={**sizes, **own})


def drawn(program: xg.Program) -> tuple[Tensors, Tensors]:
    """Parameters away from ones and zeros, and inputs."""
    params = interpret.initial(program.graphs, 1)
    draw = np.random.default_rng(2)
    inputs: dict[str, Any] = {}
    for name, spec in program.inputs.items():
        shape = [size for size in spec.shape if isinstance(size, int)]
        bound = spec.range if isinstance(spec.range, int) else 2
        floats = spec.dtype == "float"
        inputs[name] = draw.standard_normal(shape) if floats else draw.integers(0, bound, shape)
    return (
        {name: torch.tensor(array) for name, array in params.items()},
        {name: torch.tensor(array) for name, array in inputs.items()},
    )


def model_of(module: ModuleType, params: Tensors) -> Any:  # noqa: ANN401 - a generated class
    model = module.Model(0, torch.float64)
    model.load_state_dict(params)
    return model


@pytest.fixture(scope="module")
def language_model() -> tuple[ModuleType, Tensors, Tensors]:
    program = compiled("transformer")
    return program.load("torch"), *drawn(program)


# ---- the same numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", [None, 7], ids=["dropout off", "dropout on"])
def test_it_is_the_functions_under_autograd(name: str, seed: int | None) -> None:
    program = compiled(name)
    module = program.load("torch")
    params, inputs = drawn(program)
    floats = {n: x.clone().requires_grad_() for n, x in inputs.items() if x.is_floating_point()}
    model = model_of(module, params).eval()
    seeded = {} if seed is None or "seed" not in _signature(model) else {"seed": torch.tensor(seed)}
    outputs = model(**{**inputs, **floats}, **seeded)
    expected, saved = module.forward(params, inputs, seed=seed)
    assert list(outputs) == list(expected)
    weights = {n: torch.randn_like(y) for n, y in expected.items() if y.is_floating_point()}
    sum((outputs[n] * w).sum() for n, w in weights.items()).backward()  # pyright: ignore
    gradients = module.backward(params, saved, weights)
    found = {**dict(model.named_parameters()), **floats}
    assert found.keys() == gradients.keys()
    for key, output in expected.items():
        assert torch.allclose(outputs[key], output, rtol=1e-12, atol=1e-14)
    for key, gradient in gradients.items():
        derived = found[key].grad
        assert derived is not None, key
        assert gradient.abs().max() > 0, key
        assert torch.allclose(derived, gradient, rtol=1e-10, atol=1e-13), key


def _signature(model: torch.nn.Module) -> set[str]:
    return set(inspect.signature(model.forward).parameters)


NUMBERS = """\
dim B, S, D = 6, N_H = 2, D_h = D/N_H
block Twist(X [B, S, D]) -> Y [B, S, D] {
    param W [D, D]
    X -> •<=W -> R : Q [B, N_H, S, D_h] -> R : Y
}
block Odd(ids [B, S] in D) -> Y [B, S, D], n [] {
    param E [D, D], v [D]
    v -> BC[d -> b=B, s=S, d] : V [B, S, D]
    ids -> Emb(E) -> ⊕<-V -> Twist as first -> ⊕<-V -> ⊕<-BC(sinusoid(S, D)) : X [B, S, D]
      -> Twist as second : Y
    ids -> Emb(E) -> ⊙<-V -> sum[B, S, D] : n
}
"""


def test_sizes_that_only_one_input_carries(tmp_path: Path) -> None:
    (tmp_path / "odd.xg").write_text(NUMBERS, encoding="utf-8")
    program = xg.compile(tmp_path / "odd.xg", sizes={"D": 6})
    module = program.load("torch")
    model = module.Model(3, torch.float64)
    params = dict(model.state_dict())
    for batch, length in ((2, 3), (4, 5)):
        ids = torch.arange(batch * length).reshape(batch, length) % 6
        outputs = model(ids)
        expected, saved = module.forward(params, {"ids": ids})
        assert torch.equal(outputs["Y"], expected["Y"])
        model.zero_grad()
        (outputs["Y"].square().sum() / 2 + outputs["n"]).backward()
        one = torch.ones((), dtype=torch.float64)
        gradients = module.backward(params, saved, {"Y": expected["Y"], "n": one})
        for name, param in model.named_parameters():
            assert torch.allclose(param.grad, gradients[name], rtol=1e-10), name


# ---- what users of torch expect ------------------------------------------------------------------

Lm = tuple[ModuleType, Tensors, Tensors]


def test_its_state_is_the_parameters(language_model: Lm) -> None:
    module, params, _ = language_model
    model = module.Model(5, torch.float64)
    drawn_by_init = module.init(5, torch.float64)
    assert list(model.state_dict()) == list(drawn_by_init) == list(params)
    assert all(torch.equal(model.state_dict()[n], x) for n, x in drawn_by_init.items())
    assert len(model.layers) == SMALL["N_L"]
    twin = copy.deepcopy(model).float()
    assert twin.layers[1].attn.W_Q.dtype == torch.float32


REPR = """\
Model(
  E [11, 12], P [9, 12], gamma [12], beta [12]
  (layers): ModuleList(
    (0-1): 2 x Layer(
      gamma_1 [12], gamma_2 [12], beta_1 [12], beta_2 [12]
      (attn): Attention(W_Q [12, 12], W_K [12, 12], W_V [12, 12], W_O [12, 12], b_Q [12], \
b_K [12], b_V [12], b_O [12])
      (ffn): MLP(W_up [12, 7], b_up [7], W_down [7, 12], b_down [12])
    )
  )
)"""


def test_it_shows_its_parameters_and_their_shapes(language_model: Lm) -> None:
    model = language_model[0].Model()
    assert repr(model) == REPR
    names = {type(block).__name__ for block in model.modules()}
    assert names == {"Model", "ModuleList", "Layer", "Attention", "MLP"}


def test_it_is_copied_pickled_and_saved_whole(language_model: Lm) -> None:
    module, params, inputs = language_model
    model = model_of(module, params).eval()
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    twins.append(torch.load(file, weights_only=False))
    for twin in twins:
        assert type(twin) is module.Model
        assert repr(twin) == REPR
        assert torch.equal(twin(**inputs)["loss"], model(**inputs)["loss"])
        twin(**inputs)["loss"].backward()
    assert model.E.grad is None


def test_a_pickle_is_read_where_the_same_text_was_loaded() -> None:
    program = compiled("mha")
    data = pickle.dumps(program.load("torch").Model(3))
    gc.collect(0)  # it is as young as that: among all objects it would take a second
    again = program.load("torch").Model(3)
    assert torch.equal(pickle.loads(data).W_Q, again.W_Q)


def test_a_block_runs_on_its_own(language_model: Lm) -> None:
    module, params, _ = language_model
    layer = model_of(module, params).layers[1]
    X = torch.linspace(-1, 1, 120, dtype=torch.float64).reshape(2, 5, 12).requires_grad_()
    weights = {f"layers.1.attn.{name}": p for name, p in layer.attn.named_parameters()}
    expected, saved = module.attention(weights, "layers.1.attn", X, X, seed=3)
    Y = layer.attn(X, X, seed=3)
    assert torch.equal(Y, expected)
    Y.backward(torch.ones_like(Y))
    grads: Tensors = {}
    dX, dM = module.d_attention(weights, "layers.1.attn", saved, torch.ones_like(Y), grads)
    assert X.grad is not None
    assert torch.equal(X.grad, dX + dM)
    for name, param in layer.attn.named_parameters():
        assert torch.equal(param.grad, grads[f"layers.1.attn.{name}"]), name


def test_dropout_is_on_in_training_only(language_model: Lm) -> None:
    module, params, inputs = language_model
    model = model_of(module, params)
    torch.manual_seed(0)
    first, second = (model(**inputs)["loss"].item() for _ in range(2))
    assert first != second
    torch.manual_seed(0)
    assert model(**inputs)["loss"].item() == first
    model.eval()
    assert model(**inputs)["loss"].item() == model(**inputs)["loss"].item()


def test_layers_can_be_recomputed(language_model: Lm) -> None:
    module, params, _ = language_model
    layer, seed = model_of(module, params).layers[1], torch.tensor(3)
    gradients: list[Tensors] = []
    for run in (layer, lambda *x, **s: checkpoint(layer, *x, use_reentrant=False, **s)):  # pyright: ignore
        X = torch.linspace(-1, 1, 120, dtype=torch.float64).reshape(2, 5, 12).requires_grad_()
        layer.zero_grad()
        run(X, seed=seed).square().sum().backward()
        gradients.append({"X": X.grad, **{n: p.grad for n, p in layer.named_parameters()}})  # pyright: ignore
    assert all(torch.equal(gradients[0][name], gradients[1][name]) for name in gradients[0])


def test_it_trains_in_mixed_precision(language_model: Lm) -> None:
    module, _, inputs = language_model
    torch.manual_seed(1)
    model = module.Model(0)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses: list[float] = []
    for _ in range(30):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(**inputs)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert {p.grad.dtype for p in model.parameters()} == {torch.float32}
    assert losses[-1] < losses[0] / 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, while it traces
def test_it_compiles_whole_and_once() -> None:
    """One layer, which takes torch a second; `Named` below has a row of two."""
    from torch._dynamo.testing import CompileCounterWithBackend

    program = compiled("transformer", N_L=1)
    module, (params, inputs) = program.load("torch"), drawn(program)
    model, plain = model_of(module, params), model_of(module, params)
    counter = CompileCounterWithBackend("aot_eager")
    fast = torch.compile(model, fullgraph=True, backend=counter)
    for seed in (torch.tensor(number) for number in (1, 2, 2**62 + 5)):
        losses = [run(**inputs, seed=seed)["loss"] for run in (fast, plain)]
        assert torch.equal(losses[0], losses[1])
        for loss in losses:
            loss.backward()
    for (name, a), b in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad, rtol=1e-10, atol=1e-14), name
    assert counter.frame_count == 1


# ---- names that torch has for itself -------------------------------------------------------------

HOSTILE = """\
dim B, D = 4, N = 2
block Half(X [B, D]; p = 0.5) -> Y [B, D] {
    param at, names, parameters, weight, training [D, D]
    X -> •<=at -> •<=names -> DO(p) -> •<=parameters -> •<=weight -> •<=training : Y
}
block Named(T_destination [B, D]) -> type [B, D], loss [] {
    param half, forward, training, layers, λ, float, named, a_b [D, D], class [N, D]
    T_destination -> •<=half -> Half as half -> •<=forward -> N × Half as layers -> •<=training
      -> Half as train -> Half as class -> Half as training -> •<=λ -> •<=layers -> •<=float
      -> •<=named -> •<=a_b -> •<=T(class) -> •<=class -> Half as lambda -> Half as in_ : type
    type -> ⊙<-type -> mean[B, D] : loss
}
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Lm:
    file = tmp_path_factory.mktemp("hostile") / "hostile.xg"
    file.write_text(HOSTILE, encoding="utf-8")
    program = xg.compile(file, sizes={"D": 4, "N": 2, "B": 3})
    return program.load("torch"), *drawn(program)


def test_a_name_may_be_that_of_a_method(hostile: Lm) -> None:
    module, params, inputs = hostile
    model = copy.deepcopy(model_of(module, params)).float().train().double()
    model.load_state_dict(params, assign=True)
    assert set(model.state_dict()) == set(params) == set(dict(model.named_parameters()))
    assert model.training is True
    assert model.eval().training is False
    expected, saved = module.forward(params, inputs, seed=5)
    outputs = model(*inputs.values(), seed=torch.tensor(5))
    assert torch.equal(outputs["loss"], expected["loss"])
    gradients = module.backward(params, saved, {"loss": torch.ones_like(expected["loss"])})
    outputs["loss"].backward()
    for name, param in model.named_parameters():
        assert gradients[name].abs().max() > 0, name
        assert torch.allclose(param.grad, gradients[name], rtol=1e-10, atol=1e-14), name


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, while it traces
def test_such_a_module_compiles_whole(hostile: Lm) -> None:
    module, params, inputs = hostile
    model, seed = model_of(module, params), torch.tensor(2)
    fast = torch.compile(model, fullgraph=True, backend="eager")
    given = tuple(inputs.values())
    assert torch.equal(fast(*given, seed=seed)["loss"], model(*given, seed=seed)["loss"])


def test_every_member_of_a_module_is_known() -> None:
    ours = vars(torch.nn.Module())
    defined = {name: vars(torch.nn.Module).get(name) for name in dir(torch.nn.Module)}
    patched = {
        n for n, f in defined.items() if not getattr(f, "__module__", "torch").startswith("torch")
    }
    members = {n for n in {*ours, *defined} - patched if not n.startswith("_")}
    assert members - MEMBERS == set()
    assert is_attribute("layers")
    assert not any(map(is_attribute, ("type", "a.half", "lambda", "training")))


def test_without_care_such_names_would_not_do(hostile: Lm) -> None:
    """Why it is so: torch refuses what `Named` takes."""
    module, params, _ = hostile
    plain = torch.nn.Module()
    with pytest.raises(KeyError, match="already exists"):
        plain.register_parameter("half", torch.nn.Parameter(params["half"]))
    model = model_of(module, params)
    assert callable(model.half)
    with pytest.raises(TypeError, match="as parameter 'training'"):
        torch.nn.Module.__setattr__(model, "training", False)  # pyright: ignore


def test_a_parameter_may_stand_in_two_places(language_model: Lm) -> None:
    module, params, inputs = language_model
    model = model_of(module, params).eval()
    model.layers[1].attn.W_K = model.layers[1].attn.W_Q
    params = {**params, "layers.1.attn.W_K": params["layers.1.attn.W_Q"]}
    expected, saved = module.forward(params, inputs)
    one = torch.ones_like(expected["loss"])
    gradients = module.backward(params, saved, {"loss": one})
    outputs = model(**inputs)
    assert torch.equal(outputs["loss"], expected["loss"])
    outputs["loss"].backward()
    both = gradients["layers.1.attn.W_K"] + gradients["layers.1.attn.W_Q"]
    assert torch.allclose(model.layers[1].attn.W_Q.grad, both, rtol=1e-10)
    last = model.layers[1].ffn.W_down  # behind the shared one
    assert torch.allclose(last.grad, gradients["layers.1.ffn.W_down"], rtol=1e-10)
