"""An option without an effect is refused, with what it needs for one."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest
from cli.conftest import Xg

from xg.cli.arguments import without_effect
from xg.cli.command_list import commands
from xg.cli.dispatch import command_of, parse, rules_of

CASES = list(dict.fromkeys((name, rule.option) for name in commands() for rule in rules_of(name)))
VALUES = {
    "--kernels": (),
    "--whole": (),
    "--pipeline-schedule": ("GPipe",),
    "--legend": (),
    "--no-title": (),
    "--width": ("9in",),
    "--height": ("9in",),
    "--compact": (),
    "--paper": ("a4",),
    "--direction": ("right",),
    "--depth": ("2",),
    "--steps": (),
    "--every-choice": (),
    "--previous": (),
    "--theme": ("dark",),
    "--prompt": ("a",),
    "--dtype": ("float64",),
    "--level": ("char",),
    "--on": ("simulated",),
    "--diagram": ("tiny.xg",),
    "--names": ("tiny.names.toml",),
    "--figure": ("ops.svg",),
    "--plan": ("TP",),
    "--params": ("p.npz",),
    "--as-is": (),
    "--full": (),
    "--diff": (),
    "--tokenizer": ("bytes",),
    "--token-type": ("uint16",),
}
# Words with which the option has no effect, and words with which it has one; `.` is a folder.
OTHERS: dict[tuple[str, str], tuple[list[str], list[str]]] = {
    ("build", "--stdin-filename"): ([], ["-"]),
    ("check", "--stdin-filename"): ([], ["-"]),
    ("fmt", "--stdin-filename"): ([], ["-"]),
    ("build", "--kernels"): (["--only", "svg,html"], ["--only", "svg,numpy"]),
    ("build", "--theme"): (["--only", "numpy,html"], ["-o", "fig.svg"]),
    ("build", "--legend"): (["-o", "page.html"], []),
    ("build", "--no-title"): (["--only", "html"], ["-o", "-"]),
    ("build", "--width"): (["--only", "html"], ["-o", "fig.svg"]),
    ("build", "--direction"): (["--only", "html"], ["-o", "fig.svg"]),
    ("build", "--height"): (["--only", "html"], ["-o", "fig.svg"]),
    ("build", "--compact"): (["-o", "fig.svg"], ["-o", "fig.svg", "--pass", "backward"]),
    ("build", "--paper"): (["-o", "fig.svg"], ["-o", "fig.pdf"]),
    ("build", "--steps"): (["--only", "dot,html"], ["--only", "svg"]),
    ("build", "--depth"): (["-o", "fig.svg"], ["-o", "fig.svg", "--pass", "overview"]),
    ("lock", "--diff"): ([], ["--check"]),
    ("run", "--timeout"): (["--on", "simulated"], ["--on", "processes"]),
    ("verify", "--timeout"): ([], ["--on=processes"]),
    ("train", "--timeout"): ([], ["--on", "processes"]),
    ("run", "--names"): ([], ["--params", "p.npz"]),
    ("run", "--seed"): (["--params", "p.npz"], []),
    ("export", "--names"): ([], ["--params", "p.npz"]),
    ("export", "--seed"): (["--params", "p.npz"], []),
    ("show", "--stage"): ([], ["--plan", "TP"]),
    ("show", "--whole"): ([], ["--as", "torch"]),
    ("show", "--map"): ([], ["--as", "dtensor"]),
    ("cost", "--stage"): (["--plan", "*"], ["--plan", "TP"]),
    ("cost", "--full"): (["--json"], ["--plan", "TP"]),
    ("cost", "--microbatches"): ([], ["--plan", "TP"]),
    ("cost", "--timeline"): ([], ["--plan", "TP"]),
    ("train", "--pipeline-schedule"): ([], ["--plan", "TP"]),
    ("verify", "--plan"): (["--against", "fd"], ["--against", "fd,single"]),
    ("verify", "--on"): (["--against", "document"], []),
    ("verify", "--every-choice"): (["--against", "document"], []),
    ("verify", "--kernels"): (["--against", "exact,document"], ["--against", "exact,single"]),
    ("weights", "--dtype"): ([], ["-o", "w.npz"]),
    ("train", "--level"): (["--data", "rows.npz"], ["--data", "text.txt"]),
    ("train", "--tokenizer"): (["--data", "rows.npz"], ["--data", "text.txt"]),
    ("train", "--token-type"): (["--data", "text.txt"], ["--data", "shard_*.bin"]),
    ("train", "--seq"): (["--data", "rows.npz"], []),
    ("train", "--sample"): (["--data", "rows.npz"], []),
    ("train", "--momentum"): ([], ["--optimizer", "sgd"]),
    ("train", "--weight-decay"): (["--optimizer", "adam"], ["--optimizer", "adamw"]),
    ("train", "--prompt"): ([], ["--sample", "3"]),
    ("train", "--temperature"): ([], ["--sample", "3"]),
    ("generate", "--top-k"): (["--temperature", "0"], ["--temperature", "1"]),
    ("generate", "--top-p"): (["--temperature", "0"], ["--temperature", "1"]),
    ("generate", "--seed"): (["--temperature", "0"], []),
    ("generate", "--diagram"): (["tiny.xg"], ["."]),
    ("generate", "--previous"): (["tiny.xg"], ["."]),
    ("generate", "--names"): (["."], ["tiny.xg"]),
    ("generate", "--dtype"): (["."], ["tiny.xg"]),
    ("explain", "--tokenizer"): ([], ["--text", "a b"]),
    ("ops", "--figure"): (["softmax"], []),
    ("plan", "--between"): (["--ranks", "8"], ["--ranks", "9"]),
    ("compare", "--params"): (["--module", "m:f"], ["--against", "a.npz"]),
    ("compare", "--timeout"): (["--module", "m:f"], ["--module", "m:f", "--plan", "DP"]),
    ("compare", "--as-is"): (["--against", "a.npz"], ["--module", "m:f"]),
    ("compare", "--dropout"): (["--against", "a.npz"], ["--module", "m:f"]),
    ("compare", "--seed"): (["--against", "a.npz"], ["--module", "m:f"]),
}
NEEDED = {
    "run": ["tiny.xg", "--inputs", "in.npz", "-o", "out.npz"],
    "weights": ["tiny.xg", "--from", "w.npz"],
    "export": ["tiny.xg", "-o", "tiny.onnx"],
    "plan": ["tiny.xg", "--memory", "1GB"],
}
COMPILED: set[str] = {"--block", "--plan", "--set"}
# Options that have an effect beside all others, or that their action refuses where they have none.
ALWAYS: dict[str, set[str]] = {
    "build": {"-o", "--pass", "--all", "--only", "--check", "--watch", *COMPILED},
    "serve": {"--port", "--open", "--block", "--plan", "--set"},
    "check": {"--strict", "--format", "--json", "--block", "--plan", "--set"},
    "show": {"--pass", "--as", "--after", "--kernels", "--block", "--plan", "--set"},
    "fmt": {"--check"},
    "run": {"--inputs", "-o", "--params", "--save-params", "--d-outputs", "--keep", "--dtype",
            "--dropout", "--backend", "--device", "--kernels", "--on", "--block", "--plan",
            "--set"},
    "weights": {"--from", "--names", "-o", "--to", "--block", "--set"},
    "export": {"-o", "--params", "--kernels", "--block", "--set"},
    "verify": {"--against", "--seed", "--json", "--block", "--set"},
    "compare": {"--module", "--against", "--map", "--names", "--inputs", "--tolerance", "--json",
                "--block", "--plan", "--set"},
    "plan": {"--ranks", "--memory", "--dtype", "--node", "--machine", "--hardware", "--write",
             "--json", "--block", "--set"},
    "explain": {"-o", "--example", "--seed", "--text", "--block", "--set"},
    "cost": {"--dtype", "--hardware", "--json", "--block", "--plan", "--set"},
    "diff": {"--against", "-o", "--json", "--exit-code", "--block", "--plan", "--set"},
    "train": {"--data", "--batch", "--accumulate", "--steps", "--loss", "--lr", "--schedule",
              "--warmup", "--optimizer", "--clip", "--eval", "--dtype", "--seed", "--out",
              "--checkpoint", "--checkpoint-format", "--tensorboard", "--resume", "--overwrite",
              "--threads", "--backend", "--device", "--autocast", "--kernels", "--on", "--block",
              "--plan", "--set"},
    "generate": {"--weights", "--tokenizer", "--prompt", "--tokens", "--temperature", "--stop",
                 "--no-cache", "--window", "--threads", "--backend", "--device", "--kernels",
                 "--block", "--set"},
    "import": {"-o", "--params", "--name"},
    "ops": {"--json"},
    "lsp": {"--stdio"},
    "lock": {"--check"},
    "new": set(),
    "completion": set(),
    "man": set(),
    "doctor": {"--json"},
    "demo": {"-o", "--out", "--steps", "--all"},
}  # fmt: skip


@pytest.mark.parametrize("name", commands())
def test_every_option_has_a_rule_or_always_an_effect(name: str) -> None:
    parser = ArgumentParser()
    command_of(name).add_arguments(parser)
    actions = (action for action in parser._actions if action.dest != "help")
    options = {string for action in actions for string in action.option_strings}
    ruled = {option for command, option in CASES if command == name}
    assert options == ruled | ALWAYS[name]
    assert not ruled & ALWAYS[name]


@pytest.mark.parametrize(("command", "option"), CASES)
def test_an_option_without_effect_is_refused(xg: Xg, command: str, option: str) -> None:
    none, some = OTHERS[command, option]
    named = any(word in ("tiny.xg", ".") for word in none) or command == "ops"
    words = NEEDED.get(command, [] if named else ["tiny.xg"])
    given = [option, *VALUES.get(option, ("1",))]
    said = xg(command, *words, *given, *none)
    assert said.code == 2
    assert said.err.startswith(f"xg {command}: {option} ")
    options = parse(command, [*words, *given, *some])
    assert without_effect(command, rules_of(command), options) is None
