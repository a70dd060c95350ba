"""`xg weights` and `xg run --params` on a checkpoint with names of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli.conftest import Xg

from xg_runtime import arrays, tensorfile, weights

NAMES = """\
prefix = "net."
ignored = ["net.steps"]

[tensors]
"net.up.weight" = "T : W"
"net.up.bias" = "b"
"net.down.weight" = "V"

[config]
D = "width"
D_ff = "hidden"
act = { key = "act", words = { relu = "ReLU", tanh = "tanh" } }

[config.drawn]
kind = "tiny"
"""
DRAW = np.random.default_rng(0)
TENSORS = {
    "net.up.weight": DRAW.normal(size=(5, 3)).astype(np.float32),
    "net.up.bias": DRAW.normal(size=5).astype(np.float32),
    "net.down.weight": DRAW.normal(size=(5, 3)).astype(np.float32),
}
CONFIG = {"kind": "tiny", "width": 3, "hidden": 5, "act": "tanh"}
FROM = ("weights", "tiny.xg", "--from", "held")


@pytest.fixture
def held(folder: Path) -> Path:
    """A checkpoint in a folder, and the file of names beside the diagram."""
    (folder / "tiny.names.toml").write_text(NAMES, encoding="utf-8")
    weights.write(folder / "held", TENSORS, CONFIG)
    return folder


def test_what_is_there_is_told(xg: Xg, held: Path) -> None:
    said = xg(*FROM)
    assert said.code == 0
    assert said.out == (
        "held/model.safetensors: 3 tensors fill 3 parameters of Net, 35 numbers\n"
        "--set D=3 --set D_ff=5 --set act=tanh\n"
    )


def test_to_the_diagrams_names_and_back(xg: Xg, held: Path) -> None:
    assert xg(*FROM, "-o", "p.safetensors").code == 0
    params = arrays.read(held / "p.safetensors")
    assert np.array_equal(params["W"], TENSORS["net.up.weight"].T)
    said = xg("weights", "tiny.xg", "--from", "p.safetensors", "--to", "back")
    assert said.code == 0
    assert "--set D=3 --set D_ff=5 --set act=tanh" in said.out  # it remembers
    assert "back: 3 tensors in config.json, model.safetensors" in said.out
    found = weights.read(held / "back")
    assert found.config == CONFIG
    assert found.tensors.keys() == TENSORS.keys()
    assert all(np.array_equal(found.tensors[name], array) for name, array in TENSORS.items())


def test_a_run_reads_a_checkpoint(xg: Xg, held: Path) -> None:
    """Sizes and options come from config.json, as if they had been typed."""
    xg(*FROM, "-o", "p.npz")
    arrays.write(held / "in.npz", {"X": DRAW.normal(size=(2, 3)), "t": np.ones(2)})
    words = ("run", "tiny.xg", "--inputs", "in.npz")
    typed = ("--params", "p.npz", "--set", "act=tanh", "--set", "D_ff=5")
    xg(*FROM, "-o", "p.safetensors")
    assert xg(*words, "--params", "held", "-o", "a.npz").code == 0
    assert xg(*words, "--params", "p.safetensors", "-o", "d.npz").code == 0
    assert xg(*words, *typed, "-o", "b.npz").code == 0
    assert xg(*words, "--params", "p.npz", "--set", "D_ff=5", "-o", "c.npz").code == 0
    a, b, c, d = (arrays.read(held / f"{name}.npz")["Y"] for name in "abcd")
    assert np.array_equal(a, b)
    assert np.array_equal(a, d)
    assert not np.allclose(b, c)  # with ReLU, the default


def test_all_that_does_not_fit_is_told_at_once(xg: Xg, held: Path) -> None:
    wrong = {
        "net.up.weight": np.ones((4, 3), np.float32),
        "net.up.bias": TENSORS["net.up.bias"],
        "net.steps": np.array(7),
        "net.other": np.ones(2),
    }
    weights.write(held / "wrong", wrong, CONFIG)
    said = xg("weights", "tiny.xg", "--from", "wrong", "-o", "p.npz")
    assert said.code == 1
    assert said.err == (
        "xg: wrong/model.safetensors does not fit Net: "
        "1 missing, 1 left over, 1 of another shape\n"
        "  missing: net.down.weight, for V [5, 3]\n"
        "  left over: net.other [2]\n"
        "  shape: net.up.weight [4, 3] gives W [3, 4], the diagram has [3, 5]\n"
    )
    assert not (held / "p.npz").exists()


def test_copies_must_be_copies(xg: Xg, held: Path) -> None:
    tied = '\n[tied]\n"net.copy" = "net.down.weight"\n'
    (held / "tiny.names.toml").write_text(NAMES.replace("\n[config]", tied + "\n[config]", 1))
    down = TENSORS["net.down.weight"]
    without = {name: array for name, array in TENSORS.items() if name != "net.down.weight"}
    weights.write(held / "same", {**TENSORS, "net.copy": down}, CONFIG)
    weights.write(held / "alone", {**without, "copy": down}, CONFIG)
    weights.write(held / "differs", {**TENSORS, "net.copy": down + 1}, CONFIG)
    assert xg("weights", "tiny.xg", "--from", "same").code == 0
    assert xg("weights", "tiny.xg", "--from", "alone").code == 0
    said = xg("weights", "tiny.xg", "--from", "differs")
    assert said.code == 1
    assert "not tied: net.copy differs from net.down.weight" in said.err


def test_names_that_nobody_explains(xg: Xg, held: Path) -> None:
    (held / "tiny.names.toml").rename(held / "elsewhere.toml")
    said = xg(*FROM)
    assert said.code == 1
    assert "held/model.safetensors has names of its own, such as net.down.weight" in said.err
    assert "say with --names what they are in Net, or write tiny.names.toml" in said.err
    assert xg(*FROM, "--names", "elsewhere.toml").code == 0
    assert xg(*FROM, "--names", "nowhere.toml").code == 5
    xg(*FROM, "--names", "elsewhere.toml", "-o", "p.npz")
    said = xg("weights", "tiny.xg", "--from", "p.npz", "--to", "back", "--set", "D_ff=5")
    assert said.code == 1
    assert "--to needs a file of names" in said.err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"b"', '"c"', "it names it nowhere"),
        ('"V"', '"b"', "it names it 2 times"),
        ('"T : W"', '"T -> split : W, U"', "names U, which Net does not have"),
        ('"T : W"', '"turn : W"', "'turn' is none of T"),
        ('"T : W"', '"T : W, b"', "or several behind split or rows"),
        ('"net.up.bias"', '"net.*.bias"', "has another number of * than net.*.bias"),
        ("[tensors]", "[tensor]", "it has tensor"),
        ("prefix =", "prefix", "is not a file of names"),
        ('"V"', "7", "net.down.weight should be a text"),
        ('act = { key = "act",', 'act = { kay = "act",', "has kay, which nothing reads"),
        ('act = { key = "act",', "act = {", "has no key: it should have a key"),
        ("tanh = ", "training = 1, tanh = ", "training should be a text"),
        ('key = "act",', 'key = "act", training = 1,', "training = 1 should be true or false"),
        ('key = "act",', 'key = "act", first = 1,', "first = 1 should be a text"),
        ('key = "act",', 'key = "act", else = [1],', "else = 1 should be a text"),
        ('key = "act",', 'key = "act", above = "0",', "above = 0 should be a number"),
        (
            'key = "act",',
            'key = "act", most = "D-1",',
            "most = D-1 should be settings with * and /",
        ),
        ('key = "act",', 'key = "act", most = "D_f",', "most = D_f has D_f, which no key gives"),
        ('["net.steps"]', '"net.steps"', "ignored should be a list of names"),
        ('"net."', "3", "prefix a text"),
        ("[config.drawn]\nkind", "[config]\nD_q", "is not a file of names"),
        (
            'kind = "tiny"',
            '[config.wrong]\nkey = "width"',
            "sets wrong, which is no dim or option of tiny.xg",
        ),
        (
            'D_ff = "hidden"',
            'D_f = "hidden"',
            "sets D_f, which is no dim or option of tiny.xg: it may set",
        ),
        ("[config.drawn]\nkind =", "drawn =", "drawn should be a table"),
    ],
)
def test_a_file_of_names_that_makes_no_sense(
    xg: Xg, held: Path, old: str, new: str, message: str
) -> None:
    (held / "tiny.names.toml").write_text(NAMES.replace(old, new, 1), encoding="utf-8")
    said = xg(*FROM)
    assert said.code == 1
    assert message in said.err


def test_what_the_diagram_does_not_draw(xg: Xg, held: Path) -> None:
    weights.write(held / "large", TENSORS, {**CONFIG, "kind": "large"})
    said = xg("weights", "tiny.xg", "--from", "large")
    assert said.code == 1
    assert 'config.json has kind = "large", but the diagram is only right for "tiny"' in said.err


def test_a_checkpoint_without_a_config_is_not_read_with_defaults(xg: Xg, held: Path) -> None:
    """Its arrays say D and D_ff; the activation would be the diagram's own, and perhaps wrong."""
    (held / "held" / "config.json").unlink()
    said = xg(*FROM, "-o", "p.npz")
    assert said.code == 1
    assert "has no config.json beside it, and its arrays do not determine act:" in said.err
    assert "or say them: --set act=…" in said.err
    assert not (held / "p.npz").exists()
    assert xg(*FROM, "-o", "p.npz", "--set", "act=tanh", "--set", "D_ff=5").code == 0


TWO = """\
dim B, D = 3, D_ff = 5

block Inner(X [B, D]; eps = 1e-5) -> Y [B, D_ff] {
    param W [D, D_ff], b [D_ff] = zeros, γ [D] = ones, β [D] = zeros

    X -> LN(γ, β, eps) -> •<=W -> ⊕<-BC(b) : Y
}

block Net(X [B, D]; eps = 1e-5) -> Y [B, D] {
    param V [D_ff, D]

    X -> Inner(eps) as inner -> ReLU -> •<=V : Y
}
"""
TWO_NAMES = """\
[tensors]
"up.weight" = "T : inner.W"
"up.bias" = "inner.b"
"norm.weight" = "inner.γ"
"norm.bias" = "inner.β"
"down.weight" = "T : V"

[config]
D = "width"
D_ff = { key = "hidden", length = "words" }
eps = { key = ["eps", "norm_eps"], training = true }

[config.drawn]
act = "silu"

[config.training]
dropout = 0.0
"""


@pytest.fixture
def two(folder: Path) -> Path:
    """A diagram of two blocks, and a checkpoint of the outer one."""
    names = TWO_NAMES.replace("γ", "gamma").replace("β", "beta")
    (folder / "two.xg").write_text(TWO, encoding="utf-8")
    (folder / "two.names.toml").write_text(names, encoding="utf-8")
    shapes = {"up.weight": (5, 3), "up.bias": 5, "norm.weight": 3, "norm.bias": 3}
    tensors = {name: DRAW.normal(size=shape) for name, shape in shapes.items()}
    config = {"width": 3, "words": {"0": "a", "1": "b", "2": "c", "3": "d", "4": "e"}}
    own = {"act": "swish", "dropout": 0.1, "eps": 1e-5, "norm_eps": 1e-6}
    tensors["down.weight"] = DRAW.normal(size=(3, 5))
    weights.write(folder / "held", tensors, {**config, **own})
    return folder


def test_one_file_of_names_serves_every_block(xg: Xg, two: Path) -> None:
    whole = ("weights", "two.xg", "--from", "held")
    assert xg(*whole, "-o", "net.npz").code == 0
    said = xg(*whole, "--block", "Inner", "-o", "inner.npz")
    assert said.code == 0, said.err
    assert "5 tensors fill 4 parameters of Inner, 26 numbers" in said.out
    net, inner = (arrays.read(two / f"{name}.npz") for name in ("net", "inner"))
    assert sorted(inner) == ["W", "b", "beta", "gamma"]
    assert all(np.array_equal(inner[name], net[f"inner.{name}"]) for name in inner)
    said = xg("weights", "two.xg", "--block", "Inner", "--from", "inner.npz", "--to", "back")
    assert said.code == 0, said.err
    assert sorted(weights.read(two / "back").tensors) == [
        "norm.bias",
        "norm.weight",
        "up.bias",
        "up.weight",
    ]


def test_a_length_may_be_that_of_a_table(xg: Xg, two: Path) -> None:
    """As transformers writes `id2label` and no `num_labels`."""
    said = xg("weights", "two.xg", "--from", "held")
    assert "--set D=3 --set D_ff=5" in said.out


def test_words_of_one_function_are_one_and_dropout_is_a_note(xg: Xg, two: Path) -> None:
    said = xg("weights", "two.xg", "--from", "held")
    assert said.code == 0, said.err
    assert "note: held/config.json says dropout = 0.1, the diagram has 0.0: the same in" in said.out
    assert "note: held/config.json says eps = 1e-05, norm_eps = 1e-06; the diagram" in said.out
    config = weights.read(two / "held").config
    assert config is not None
    tensors = weights.read(two / "held").tensors
    weights.write(two / "other", tensors, {**config, "act": "gelu"})
    said = xg("weights", "two.xg", "--from", "other")
    assert (said.code, 'has act = "gelu"' in said.err) == (1, True)


def test_damage_ends_with_4_and_what_is_missing_with_5(xg: Xg, held: Path) -> None:
    file = held / "held" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    said = xg(*FROM)
    assert said.code == 4
    assert "held/model.safetensors is damaged" in said.err
    said = xg("weights", "tiny.xg", "--from", "gone")
    assert said.code == 5
    assert "cannot read gone: no such file" in said.err


def test_settings_that_were_tampered_with(xg: Xg, held: Path) -> None:
    data = tensorfile.pack({"W": np.ones(1)}, {weights.SETTINGS: "[1]"})
    (held / "p.safetensors").write_bytes(data)
    said = xg("weights", "tiny.xg", "--from", "p.safetensors")
    assert said.code == 4
    assert "p.safetensors is damaged: its settings make no sense" in said.err


def test_a_file_that_cannot_be_written_is_told_first(xg: Xg, held: Path) -> None:
    said = xg(*FROM, "-o", "p.txt")
    assert (said.code, said.out) == (5, "")
    assert "p.txt: a file of arrays must end in .npz, .npy, .safetensors" in said.err


def test_a_folder_with_weights_is_left_alone(xg: Xg, held: Path) -> None:
    before = (held / "held" / "model.safetensors").read_bytes()
    said = xg(*FROM, "--to", "held")
    assert said.code == 5
    assert "cannot write weights to held: it has config.json already" in said.err
    assert (held / "held" / "model.safetensors").read_bytes() == before


def test_names_of_tensors_cannot_write_to_a_terminal(xg: Xg, held: Path) -> None:
    hostile = {**TENSORS, "net.\x1b[2J": np.ones(1)}
    (held / "bad.safetensors").write_bytes(tensorfile.pack(hostile))
    said = xg(
        "weights", "tiny.xg", "--from", "bad.safetensors", "--set", "act=tanh", "--set", "D_ff=5"
    )
    assert said.code == 1
    assert "\x1b" not in said.err
    assert "left over: net.\\x1b[2J [1]" in said.err
