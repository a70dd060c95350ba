"""`xg import`: both files or none, and a run that gives what the model gives."""

# pyright: reportUnknownMemberType=false

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from cli.conftest import Xg
from importing.families import FAMILIES, Family
from models.families import in_double, randomised
from models.witness import quietly
from tier import THOROUGH
from torch import nn

from xg_runtime import arrays
from xg_torch.importing.write import WrittenModel, write


@pytest.fixture
def net(folder: Path) -> nn.Module:
    """A model in a file."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.LayerNorm(9), nn.Linear(9, 4)).double()
    batch = torch.export.Dim("B", min=2)
    x = torch.randn(3, 6, dtype=torch.float64)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
    torch.export.save(program, folder / "net.pt2")
    return model


def test_what_was_imported_runs_and_agrees(xg: Xg, folder: Path, net: nn.Module) -> None:
    said = xg("import", "net.pt2", "-o", "net.xg", "--params", "net.safetensors", "--name", "Net")
    assert said.code == 0
    assert "outputs and gradients within 1e-08 of the exported program's" in said.out
    assert xg("check", "net.xg").code == 0
    assert xg("fmt", "--check", "net.xg").code == 0
    assert "block Net(" in (folder / "net.xg").read_text(encoding="utf-8")
    x = np.linspace(-1, 1, 42).reshape(7, 6)
    np.savez(folder / "in.npz", input=x)
    words = "run net.xg --inputs in.npz -o out.npz --params net.safetensors --dtype float64"
    assert xg(*words.split()).code == 0
    found = np.load(folder / "out.npz")["Y"]
    wanted = net(torch.as_tensor(x)).detach().numpy()
    assert np.abs(found - wanted).max() < 1e-12


def test_the_same_model_gives_the_same_bytes(xg: Xg, folder: Path, net: nn.Module) -> None:
    for name in ("a", "b"):
        xg("import", "net.pt2", "-o", f"{name}.xg", "--params", f"{name}.safetensors")
    for ending in ("xg", "safetensors"):
        assert (folder / f"a.{ending}").read_bytes() == (folder / f"b.{ending}").read_bytes()


def test_the_file_of_names_takes_a_checkpoint_of_the_model(
    xg: Xg, folder: Path, net: nn.Module
) -> None:
    assert xg("import", "net.pt2", "-o", "net.xg", "--params", "net.safetensors").code == 0
    tensors = {name: tensor.numpy() for name, tensor in net.state_dict().items()}
    arrays.write(folder / "held.npz", tensors)
    said = xg("weights", "net.xg", "--from", "held.npz", "-o", "p.npz", "--dtype", "float64")
    assert said.code == 0, said.err
    wanted = arrays.read(folder / "net.safetensors")
    found = arrays.read(folder / "p.npz")
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_a_diagram_of_something_else_is_not_written(
    xg: Xg, folder: Path, net: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the import had a defect: it writes another activation than the model has."""
    from xg_torch.importing import model

    def other(*args: Any) -> WrittenModel:  # noqa: ANN401 - what `write` takes
        made = write(*args)
        return replace(made, text=made.text.replace("GELU(exact)", "GELU"))

    monkeypatch.setattr(model, "write", other)
    before = sorted(folder.iterdir())
    said = xg("import", "net.pt2", "-o", "out.xg", "--params", "out.npz")
    assert said.code == 1
    assert "the diagram differs from the model: output Y" in said.err
    assert sorted(folder.iterdir()) == before


@pytest.fixture
def published(folder: Path) -> Any:  # noqa: ANN401 - a model of transformers
    """A folder of transformers, and its model."""
    transformers: Any = import_module("transformers")
    torch.manual_seed(0)
    sizes = {"n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 16, "vocab_size": 29}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config).eval()
    with quietly():
        model.save_pretrained(folder / "held")
    return model


def test_a_folder_of_transformers_travels_both_ways(
    xg: Xg,
    folder: Path,
    published: Any,  # noqa: ANN401 - a model of transformers
) -> None:
    """To a diagram with its weights, and back to a folder that transformers loads."""
    said = xg("import", "held", "-o", "gpt.xg", "--params", "p.safetensors")
    assert (said.code, said.err) == (0, "")
    assert "N_L × GPT2Block<-attention_mask as h" in (folder / "gpt.xg").read_text(encoding="utf-8")
    assert '"transformer.h.*.ln_1.weight" = "transformer.h.*.gamma_1"' in (
        folder / "gpt.names.toml"
    ).read_text(encoding="utf-8")
    assert xg("weights", "gpt.xg", "--from", "held", "-o", "q.safetensors").code == 0
    p, q = (arrays.read(folder / f"{name}.safetensors") for name in "pq")
    assert p.keys() == q.keys()
    assert all(np.array_equal(p[name], q[name]) for name in p)
    assert xg("weights", "gpt.xg", "--from", "p.safetensors", "--to", "back").code == 0
    with quietly():
        again: Any = published.from_pretrained(folder / "back").eval()
    ids = torch.arange(10).reshape(2, 5)
    assert torch.equal(again(ids).logits, published(ids).logits)


DEEPSEEK = FAMILIES["deepseek-v3"]
ROUTED: Final = (
    (
        FAMILIES["mixtral"],
        '*.block_sparse_moe.experts.*.w1.weight" = "T -> stack : model.layers.*.',
    ),
    (
        replace(DEEPSEEK, config={**DEEPSEEK.config, "num_hidden_layers": 3}),
        '{*+1}.mlp.experts.*.gate_proj.weight" = "T -> stack : model.layers.*.mlp.experts.',
    ),
)


@pytest.mark.parametrize(
    ("family", "line"),
    ROUTED if THOROUGH else ROUTED[1:],
    ids=lambda each: each.model if isinstance(each, Family) else "",
)
def test_experts_travel_both_ways_as_a_folder_has_them(
    xg: Xg, folder: Path, family: Family, line: str
) -> None:
    """Modules hold one tensor for all experts, a saved folder one for each."""
    with quietly(), in_double():
        model: Any = randomised(family.build())
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.normal_()
        model.set_experts_implementation("eager")
        model.save_pretrained(folder / "held")
        said = xg("import", "held", "-o", "mix.xg")
        assert (said.code, said.err) == (0, "")
        ids = torch.arange(2 * 9).reshape(2, 9) % 7 + 1
        wanted = model(ids).logits.detach().numpy()
    assert f'"model.layers.{line}' in (folder / "mix.names.toml").read_text(encoding="utf-8")
    words = "weights mix.xg --from held -o p.npz --dtype float64"
    assert xg(*words.split()).code == 0
    np.savez(folder / "in.npz", input_ids=ids.numpy(), attention_mask=np.ones(ids.shape, int))
    words = "run mix.xg --inputs in.npz -o out.npz --params p.npz --dtype float64"
    assert xg(*words.split()).code == 0
    found = np.load(folder / "out.npz")["Y"]
    assert np.abs(found - wanted).max() < 1e-8 * np.abs(wanted).max()
    words = "weights mix.xg --from p.npz --to back --dtype float64"
    assert xg(*words.split()).code == 0
    with quietly(), in_double():
        again: Any = model.from_pretrained(folder / "back").eval()
        again.set_experts_implementation("eager")
        found = np.asarray(again(ids).logits.detach())
    assert np.abs(found - wanted).max() < 1e-8 * np.abs(wanted).max()


def test_a_function_gives_a_model_and_its_inputs(xg: Xg, folder: Path) -> None:
    (folder / "homemade.py").write_text(
        "import torch\n"
        "def net():\n    return torch.nn.Linear(4, 6), torch.randn(2, 4)\n"
        "def named():\n    return torch.nn.Linear(4, 6), {'input': torch.randn(2, 4)}\n"
        "def alone():\n    return torch.nn.Linear(4, 6)\n"
        "def packed():\n    return torch.nn.Linear(4, 6), (torch.randn(2, 4),)\n"
        "def counted():\n    return torch.nn.Linear(4, 6), {'input': 3}\n"
        "def nothing():\n    return None, torch.randn(2, 4)\n"
        "five = 5\n",
        encoding="utf-8",
    )
    for name in ("net", "named"):
        assert xg("import", f"homemade:{name}", "-o", f"{name}.xg", "--name", "Net").code == 0
        assert "block Net(input [B, D])" in (folder / f"{name}.xg").read_text(encoding="utf-8")
    before = sorted(folder.rglob("*"))
    for model, reason in (
        ("homemade:alone", "it should return a model and an example of its inputs"),
        ("homemade:five", "homemade has no function five"),
        (
            "homemade:packed",
            "its inputs are tensors, each by itself or by its name: among them is tuple",
        ),
        ("homemade:counted", "among them is int"),
        ("homemade:nothing", "a model is a module or a function of tensors, and not NoneType"),
        ("homemade.py:net", "a module has no ending: homemade:net"),
        ("yours:net", "there is no module yours"),
    ):
        said = xg("import", model, "-o", "out.xg")
        assert (said.code, reason in said.err) == (1, True)
    said = xg("import", r"C:\models\net.pt2", "-o", "out.xg")  # a drive, and no module
    assert (said.code, r"cannot read C:\models\net.pt2" in said.err) == (5, True)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (None, "it has no config.json"),
        ("[", "its config.json is no JSON"),
        ("[]", "its config.json is no table of names"),
        ("{}", "names no class"),
        ('{"architectures": ["Nothing"]}', "names Nothing, which transformers does not have"),
        ('{"architectures": ["GPT2Model"], "model_type": "gpt2"}', "transformers cannot load it"),
    ],
)
def test_a_folder_that_holds_no_model_is_refused(
    xg: Xg, folder: Path, config: str | None, reason: str
) -> None:
    (folder / "held").mkdir()
    if config is not None:
        (folder / "held" / "config.json").write_text(config, encoding="utf-8")
    said = xg("import", "held", "-o", "out.xg")
    assert (said.code, reason in said.err) == (1, True), said.err
    assert not (folder / "out.xg").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("tiny.xg -o out.xg", 1, "tiny.xg is not a torch.export program"),
        ("missing.pt2 -o out.xg", 5, "cannot read missing.pt2"),
        ("net.pt2 -o out.txt", 5, "must end in .xg"),
        ("net.pt2 -o out.xg --params out.bin", 5, "a file of arrays must end in"),
        ("net.pt2", 2, "-o"),
    ],
)
def test_wrong_use_writes_nothing(
    xg: Xg, folder: Path, net: nn.Module, words: str, code: int, message: str
) -> None:
    before = sorted(folder.iterdir())
    said = xg("import", *words.split())
    assert (said.code, message in said.err) == (code, True)
    assert sorted(folder.iterdir()) == before
