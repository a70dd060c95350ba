"""The files of names beside the models: whole, without dead lines, and true to transformers."""

from __future__ import annotations

from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models.families import DIAGRAMS

from xg.cli.published import effective
from xg.cli.published import size_numbers as sizes_of
from xg.driver import Program, compile_project
from xg.frontend.project import read_project
from xg.verify.proof_sizes import verification_sizes
from xg.verify.reference.interpret import initial
from xg_runtime import model_config, names, rename
from xg_runtime.weights import Weights

NAMES_FILES = sorted(DIAGRAMS.glob("*.names.toml"))
MODELS = [path.with_name(path.name.replace(".names.toml", ".xg")) for path in NAMES_FILES]
CONFIGS = {
    "bert": "BertConfig",
    "gpt2": "GPT2Config",
    "llama": "LlamaConfig",
    "mamba": "MambaConfig",
    "mixtral": "MixtralConfig",
    "t5": "T5Config",
    "vit": "ViTConfig",
}

models = pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)


def programs(path: Path) -> list[Program]:
    """The model in every choice of its own options, small."""
    project = read_project(path)
    options = {o.name.name: [w.name for w in o.words] for o in project.main.options}
    choices = [dict(zip(options, words, strict=True)) for words in product(*options.values())]
    drafts = [(choice, compile_project(project, None, choice)) for choice in choices]
    return [
        compile_project(project, None, {**choice, **verification_sizes(draft.graphs, {})})
        for choice, draft in drafts
    ]


def test_every_model_has_its_names() -> None:
    assert [p.stem for p in MODELS] == sorted(CONFIGS)
    assert sorted(p.name for p in DIAGRAMS.glob("*.toml")) == [f"{n}.names.toml" for n in CONFIGS]


@models
def test_every_parameter_has_its_tensor_in_every_choice(path: Path) -> None:
    """There and back, with or without the prefix, and with copies of what is tied."""
    known = names.read(path.with_suffix(".names.toml"))
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
    known = names.read(path.with_suffix(".names.toml"))
    params = {name for program in programs(path) for name in program.params}
    for line in known.lines:
        for pattern in line.params:
            assert any(names.numbers(pattern, name) is not None for name in params), pattern
    assert set(known.tied.values()) <= {line.tensor for line in known.lines}


@models
def test_what_a_config_leaves_out_is_what_the_diagram_has(path: Path) -> None:
    """A config of transformers without any number means the diagram without any --set."""
    kind: Any = getattr(import_module("transformers"), CONFIGS[path.stem])
    known = names.read(path.with_suffix(".names.toml"))
    told = model_config.settings(known.config, kind().to_dict(), "config.json")
    assert len(told) >= 7
    told.pop("N_KV", None)  # the diagram groups its heads, to show how
    told.pop("N_C", None)  # the diagram has ImageNet's classes
    project = read_project(path)
    here = effective(project, compile_project(project, None, {}), {}, told)
    differing = {name for name, value in told.items() if number(here[name]) != number(value)}
    assert differing == set()


def number(setting: str | int) -> str | float:
    try:
        return float(setting)
    except ValueError:
        return setting
