"""A text token by token with a cache, by decoders that ship, against transformers in eager mode."""

# transformers and torch say too little of their own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from bench.decoders import DECODERS, Sizes
from bench.pairs import Ratio, compare
from xg.cli.input_arrays import Published
from xg.cli.opening import open_project

MODELS: Final = Path(__file__).parents[1] / "diagrams" / "models"
PROMPT, TOKENS, TARGET = 64, 32, 1 / 1.5
Write = Callable[[], list[int]]  # the likeliest tokens behind a prompt


def measure(pairs: int) -> Iterator[Ratio]:
    """Seconds of the CPU for a text: 0.67 is 1.5 times as many tokens a second."""
    for name in DECODERS:
        texts = contestants(name, Sizes(512, 4, 8192, PROMPT + TOKENS), PROMPT, TOKENS)
        for form in ("xg torch, kernels", "xg NumPy, kernels"):
            other = texts["transformers"]
            what = f"{name}: {form}"
            yield compare(what, texts[form], "transformers", other, pairs, TARGET, cpu=True)


def contestants(name: str, sizes: Sizes, prompt: int, tokens: int) -> dict[str, Write]:
    """All that write the text, by their names, with the same weights."""
    import torch

    decoder = DECODERS[name]
    torch.manual_seed(0)
    witness = decoder.model(sizes)
    with TemporaryDirectory() as folder:
        witness.save_pretrained(folder)
        file = str(MODELS / f"{decoder.diagram}.xg")
        names = decoder.names and MODELS / decoder.names
        options = Namespace(file=file, block=None, settings=(), names=names, plan=None)
        held = Published.read(open_project(file), options, Path(folder))
        params = {path: np.array(array, order="C") for path, array in held.params.items()}
    ids = np.random.default_rng(0).integers(0, sizes.words, (1, prompt))
    step = held.program.step()
    in_torch, in_numpy = (step.load(each, kernels=True) for each in ("torch", "numpy"))
    tensors = {path: torch.from_numpy(array) for path, array in params.items()}
    tensors, arrays = in_torch.prepared(tensors), in_numpy.prepared(params)
    return {
        "transformers": lambda: _by_transformers(
            witness, decoder.cache, torch.from_numpy(ids), tokens
        ),
        "xg torch, kernels": _by_step(in_torch, tensors, ids, tokens, torch.from_numpy),
        "xg NumPy, kernels": _by_step(in_numpy, arrays, ids, tokens, np.asarray),
    }


def _by_transformers(
    model: Any,  # noqa: ANN401 - of torch
    cache: str,
    ids: Any,  # noqa: ANN401 - of torch
    tokens: int,
) -> list[int]:
    import torch

    said: list[int] = []
    past: Any = None
    with torch.no_grad():
        while len(said) < tokens:
            found = model(input_ids=ids, use_cache=True, **{cache: past})
            ids, past = found.logits[:, -1:].argmax(-1), getattr(found, cache)
            said.append(int(ids))
    return said


def _by_step(
    module: Any,  # noqa: ANN401 - a generated step
    params: Mapping[str, Any],
    prompt: Any,  # noqa: ANN401 - an array
    tokens: int,
    own: Callable[[Any], Any],
) -> Write:
    def write() -> list[int]:
        cache, ids, said = module.empty_cache(params, B=1), prompt, list[int]()
        while len(said) < tokens:
            outputs, cache = module.step(params, cache, {"ids": own(ids)})
            said.append(int(outputs["Z"][0, -1].argmax()))
            ids = np.array([[said[-1]]])
        return said

    return write
