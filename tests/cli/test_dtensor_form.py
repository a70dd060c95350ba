"""`xg show --as dtensor`: the names of modules, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.conftest import DIAGRAMS, Xg

NAMES = Path(__file__).parents[2] / "examples" / "minigpt" / "minigpt.names.toml"
NET = """\
dim B, S, V = 6, D = 4, N_H = 2
mesh N_D = 2, N_T = 2
block Net(X [B, S, D], t [B, S] in V, u [B, S, D]) -> loss [] {
    param W [D, D], s [D] = ones, V_1 [D, V]
    X -> ⊙<-BC(s) -> •<=W -> tanh : H [B, S, D]
      -> tanh : G [B, S, D]
      -> •<=V_1 : Z [B, S, V]
      -> CE(ignore=-1)<-t : loss
}
plan Rows of Net {
    X, t, u [B/N_D, S, ..]
}
plan Cut of Net {
    s [D/N_T]
}
plan Some of Net {
    X, t, u [B/N_D, S, ..]
    W [D/N_D, D] -> [D, D]
}
plan Moved of Net {
    W [D, D/N_T]
    G [B, S/N_T, D]
}
"""


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ("Rows", "loss is no mean of what ranks along N_D have"),
        ("Cut", "s is cut along N_T, and belongs to no linear layer and no table"),
        ("Some", "over N_D W is in pieces and s is whole"),
        ("Moved", "G of Net is moved inside of a module, from S(-1) to S(-2) of N_T"),
    ],
)
def test_the_reason_is_said_of_a_net(folder: Path, xg: Xg, plan: str, reason: str) -> None:
    (folder / "net.xg").write_text(NET, encoding="utf-8")
    said = xg("show", "net.xg", "--as", "dtensor", "--plan", plan)
    assert said.code == 1
    assert said.err.startswith(f"error[XG0505]: torch has no call for plan {plan}: {reason}\n"), (
        said.err
    )


def test_modules_have_the_names_of_a_file(xg: Xg) -> None:
    words = ["show", "transformer", "--as", "dtensor", "--plan", "SP_VP"]
    text = xg(*words, "--map", NAMES).out
    assert '"layers.*.attention.out": RowwiseParallel(output_layouts=Shard(1)),' in text
    assert '"head": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),' in text
    assert "model.head.weight = model.words.weight" in text
    own = xg(*words, "--set", "head=own").out
    assert '"W_lm": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),' in own
    assert '"layers.*.attn.W_O": RowwiseParallel(output_layouts=Shard(1)),' in own


def test_an_input_has_the_keyword_of_a_file(xg: Xg, folder: Path) -> None:
    words = ["show", "transformer", "--as", "dtensor", "--plan", "SP_VP", "--map", "own.toml"]
    own, names = folder / "own.toml", NAMES.read_text(encoding="utf-8")
    own.write_text(f'{names}\n[keywords]\n"layers.*.attention" = "x"\n', encoding="utf-8")
    text = xg(*words).out
    assert 'desired_input_kwarg_layouts={"x": Replicate()},' in text
    assert "desired_input_layouts" not in text
    own.write_text(f'{names}\n[keywords]\n"layers.*.attn" = "x"\n', encoding="utf-8")
    assert "[keywords] names layers.*.attn, but no tensor" in xg(*words).err
    own.write_text(f'{names}\n[keywords]\n"layers.*.attention" = "a b"\n', encoding="utf-8")
    assert "layers.*.attention must be the name of an argument; found 'a b'" in xg(*words).err


def test_names_that_do_not_fit(xg: Xg, folder: Path) -> None:
    words = ["show", "gpt2", "--as", "dtensor", "--plan", "TP"]
    said = xg(*words, "--map", DIAGRAMS / "models" / "gpt2.names.toml")
    assert (said.code, "attn.c_attn holds more than layers.*.attn.W_Q" in said.err) == (1, True)
    said = xg("show", "llama", *words[2:], "--map", NAMES)
    assert said.code == 1
    assert "minigpt.names.toml must name g of Llama" in said.err


def test_what_has_no_effect_is_refused(xg: Xg) -> None:
    said = xg("show", "transformer", "--as", "dtensor")
    assert (said.code, "--plan NAME says which" in said.err) == (2, True)
    said = xg("show", "transformer", "--as", "dtensor", "--plan", "TP", "--kernels")
    assert (said.code, "leave --kernels out" in said.err) == (2, True)
