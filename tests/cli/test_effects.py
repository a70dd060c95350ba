"""An option without an effect is refused, with what it needs for one."""

from __future__ import annotations

import pytest
from cli.conftest import Xg

from xg.cli.dispatch import parse
from xg.cli.effects import RULES, without_effect

CASES = [(command, rule.option) for rule in RULES for command in rule.commands]
VALUES = {"--kernels": (), "--legend": (), "--theme": ("dark",), "--prompt": ("a",)}
OTHERS: dict[
    tuple[str, str], tuple[list[str], list[str]]
] = {  # words with which the option has none, and words with which it has one
    ("build", "--kernels"): (["--only", "svg,html"], ["--only", "svg,numpy"]),
    ("build", "--theme"): (["--only", "numpy"], ["--only", "html"]),
    ("build", "--legend"): (["--only", "numpy,torch"], []),
    ("run", "--timeout"): (["--on", "simulated"], ["--on", "processes"]),
    ("verify", "--timeout"): ([], ["--on=processes"]),
    ("train", "--timeout"): ([], ["--on", "processes"]),
    ("run", "--names"): ([], ["--params", "p.npz"]),
    ("train", "--momentum"): ([], ["--optimizer", "sgd"]),
    ("train", "--weight-decay"): (["--optimizer", "adam"], ["--optimizer", "adamw"]),
    ("train", "--prompt"): ([], ["--sample", "3"]),
    ("train", "--temperature"): ([], ["--sample", "3"]),
    ("generate", "--top-k"): (["--temperature", "0"], ["--temperature", "1"]),
    ("generate", "--top-p"): (["--temperature", "0"], ["--temperature", "1"]),
}
NEEDED = {"run": ["--inputs", "in.npz", "-o", "out.npz"]}


@pytest.mark.parametrize(("command", "option"), CASES)
def test_an_option_without_effect_is_refused(xg: Xg, command: str, option: str) -> None:
    none, some = OTHERS[command, option]
    value = VALUES.get(option, ("1",))
    words = ["tiny.xg", *NEEDED.get(command, []), option, *value]
    said = xg(command, *words, *none)
    assert said.code == 2
    assert said.err.startswith(f"xg {command}: {option} ")
    assert without_effect(command, parse(command, [*words, *some])) is None
