"""The files of names beside the models: whole, without dead lines, and true to transformers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models.families import DIAGRAMS
from tier import THOROUGH

from xg.cli.input_arrays import effective
from xg.cli.input_arrays import size_numbers as sizes_of
from xg.diagnostics.diagnostic import DiagnosticError
from xg.driver import Program, compile_project
from xg.frontend.project import Project, read_project
from xg.frontend.typed import type_project
from xg.verify.proof_sizes import ROUNDS, verification_sizes
from xg.verify.reference.interpret import initial
from xg_runtime import model_config, names, rename
from xg_runtime.errors import InputError
from xg_runtime.weights import Weights

MANY = 4  # choices of options
NAMES_FILES = sorted(DIAGRAMS.glob("*.names.toml"))
CONFIGS = {
    "bert": "BertConfig",
    "bert.roberta": "RobertaConfig",
    "clip": "CLIPConfig",
    "deepseek2": "DeepseekV2Config",
    "deepseek2.v3": "DeepseekV3Config",
    "distilbert": "DistilBertConfig",
    "gemma2": "Gemma2Config",
    "gpt2": "GPT2Config",
    "llama": "LlamaConfig",
    "llama.mistral": "MistralConfig",
    "llama.phi3": "Phi3Config",
    "llama.qwen2": "Qwen2Config",
    "llama.qwen3": "Qwen3Config",
    "mamba": "MambaConfig",
    "mamba2": "Mamba2Config",
    "mixtral": "MixtralConfig",
    "resnet": "ResNetConfig",
    "rwkv": "RwkvConfig",
    "t5": "T5Config",
    "vit": "ViTConfig",
    "whisper": "WhisperConfig",
}


def diagram(path: Path) -> Path:
    """The diagram of a file of names: `llama.xg` of `llama.qwen2.names.toml`."""
    return path.with_name(path.name.split(".")[0] + ".xg")


def family(path: Path) -> str:
    return path.name.removesuffix(".names.toml")


models = pytest.mark.parametrize("path", NAMES_FILES, ids=family)


@cache
def programs(path: Path) -> list[Program]:
    """The model in every choice of its own options that its configs can say, small.

    Of many choices those that differ from the first in one option or in all, where tests try some.
    """
    project, known = read_project(diagram(path)), names.read(path)
    options = {o.name.name: [w.name for w in o.words] for o in project.main.options}
    every = [dict(zip(options, words, strict=True)) for words in product(*options.values())]
    choices = [choice for choice in every if model_config.says(known.config, choice)]
    if len(choices) > MANY and not THOROUGH:
        apart = [sum(choice[name] != choices[0][name] for name in options) for choice in choices]
        kept = {0, 1, len(options)}
        choices = [c for c, count in zip(choices, apart, strict=True) if count in kept]
    sizes: dict[str, int] = {}  # of an earlier choice, which will mostly do
    found: list[Program] = []
    for choice in choices:
        program = at_sizes(project, choice, sizes) if sizes else None
        if program is None:
            graphs = compile_project(project, None, choice).graphs
            none = {name: ROUNDS for name, n in graphs.all_numbers.items() if n == 0}
            sizes = verification_sizes(graphs, none)  # a layer that a file has none of has names
            program = at_sizes(project, choice, sizes)
        assert program is not None
        found.append(program)
    return found


def at_sizes(
    project: Project, choice: Mapping[str, str], sizes: Mapping[str, int]
) -> Program | None:
    """The model in a choice at these sizes; None where they do not fit or are not all."""
    try:
        program = Program(type_project(project, None, {**choice, **sizes}), project)
    except DiagnosticError:
        return None
    lengths = [n for spec in program.params.values() for n in spec.shape]
    return program if all(isinstance(n, int) and n < 1000 for n in lengths) else None


def test_every_model_has_its_names() -> None:
    assert sorted(map(family, NAMES_FILES)) == sorted(CONFIGS)
    assert sorted(p.name for p in DIAGRAMS.glob("*.toml")) == [p.name for p in NAMES_FILES]


@models
def test_every_parameter_has_its_tensor_in_every_choice(path: Path) -> None:
    """There and back, with or without the prefix, and with copies of what is tied."""
    known = names.read(path)
    for program in programs(path):
        params, sizes = initial(program.graphs, 0), sizes_of(program)
        shapes = {name: array.shape for name, array in params.items()}
        tensors = rename.to_checkpoint(known, params, sizes)
        copies = {n: tensors[of] for n, of in known.tied.items() if n not in tensors}
        bare = {name.removeprefix(known.prefix): array for name, array in tensors.items()}
        for held in (tensors, {**tensors, **copies}, bare):
            back = rename.to_diagram(known, Weights("it", held), shapes, sizes, "it")
            assert list(back) == list(params)
            assert all(np.array_equal(back[name], params[name]) for name in params)


@models
def test_no_line_is_for_nothing(path: Path) -> None:
    known = names.read(path)
    params = {name for program in programs(path) for name in program.params}
    for line in known.lines:
        for pattern in line.params:
            assert any(names.numbers(pattern, name) is not None for name in params), pattern
    assert set(known.tied.values()) <= {line.tensor for line in known.lines}


@models
def test_what_a_config_leaves_out_is_what_the_diagram_has(path: Path) -> None:
    """A config of transformers without any number means the diagram without any --set.

    A relative of the diagram's own family has other sizes, and options that are set.
    """
    kind: Any = getattr(import_module("transformers"), CONFIGS[family(path)])
    known = names.read(path)
    told = model_config.settings(known.config, kind().to_dict(), "config.json")
    assert len(told) >= 7
    told.pop("N_KV", None)  # the diagram groups its heads, to show how
    told.pop("D_e", None)  # transformers' is odd, which two ranks cannot share
    told.pop("N_C", None)  # the diagram has ImageNet's classes
    told.pop("end", None)  # of CLIP's tokens the largest is the end
    project = read_project(diagram(path))
    here = effective(project, compile_project(project, None, {}), {}, told)
    differing = {name for name, value in told.items() if number(here[name]) != number(value)}
    own = family(path) == diagram(path).stem
    assert differing == set() if own else differing & {"base", "head", "turns"} == set()


def number(setting: str | int) -> str | float:
    try:
        return float(setting)
    except ValueError:
        return setting


def test_whether_keys_agree_chooses_an_option_both_ways() -> None:
    known = names.read(DIAGRAMS / "resnet.names.toml").config
    words = {"layer": "Bottleneck", "D_2": 9, "D_3": 8, "D_4": 7}
    for first, widths in (("same", {"D": 8}), ("wider", {"D": 6, "D_1": 8})):
        config = model_config.config(known, {**words, **widths, "first": first})
        assert (config["embedding_size"], config["hidden_sizes"][0]) == (widths["D"], 8)
        told = model_config.settings(known, config, "config.json")
        assert told["first"] == first
        assert {name: told[name] for name in widths} == widths
    with pytest.raises(InputError, match=r"embedding_size = 8, hidden_sizes\.0 = 8"):
        model_config.config(known, {**words, "D": 8, "D_1": 8, "first": "wider"})


def test_a_token_is_sent_to_no_more_experts_than_its_groups_have() -> None:
    """Beyond them DeepSeek-V3 would choose among experts whose scores are equal."""
    known = names.read(DIAGRAMS / "deepseek2.v3.names.toml").config
    transformers: Any = import_module("transformers")
    config = transformers.DeepseekV3Config(n_routed_experts=8, n_group=4, topk_group=2).to_dict()
    told = model_config.settings(known, {**config, "num_experts_per_tok": 4}, "config.json")
    message = (
        r"says num_experts_per_tok = 5: it should be at most n_routed_experts\*topk_group/n_group, "
        "which is 4"
    )
    with pytest.raises(InputError, match=message):
        model_config.settings(known, {**config, "num_experts_per_tok": 5}, "config.json")
    model_config.config(known, told)
    with pytest.raises(InputError, match=message):
        model_config.config(known, {**told, "k": 5})
