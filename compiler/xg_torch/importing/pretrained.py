"""A folder of transformers (config.json and weights) as a diagram.

The class comes from `architectures` in the config and from the installed transformers; code in the
folder is never run, and weights that are pickles are refused.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from xg.diagnostics.diagnostic import DiagnosticError
from xg_torch.importing.errors import NotLoaded
from xg_torch.importing.model import Imported
from xg_torch.importing.saved import saved_tensors
from xg_torch.importing.trace import import_module as import_torch_module

if TYPE_CHECKING:
    from torch import Tensor

CONFIG: Final = "config.json"
ROWS: Final = 2  # of the example: axes that differ have different lengths
LENGTH: Final = 7
OTHER_LENGTH: Final = 5


def import_folder(folder: Path, name: str | None = None) -> Imported:
    """The model of a folder; raises DiagnosticError with all that is in the way."""
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise _refusal(folder, f"{package} is not installed, which builds the model")
    config = _config(folder)
    kind = next(iter(cast("list[str]", config.get("architectures") or [])), "")
    transformers: Any = import_module("transformers")
    if not hasattr(transformers, kind):
        named = f"names {kind}, which transformers does not have" if kind else "names no class"
        raise _refusal(folder, f"its {CONFIG} {named} (`architectures`)")
    with _quiet():
        model = _loaded(getattr(transformers, kind), folder)
    inputs = example(model)
    if not inputs:
        raise _refusal(
            folder,
            f"{kind} reads {model.main_input_name}, of which no example is drawn here",
            "xg.trace(model, *inputs) takes an example of yours",
        )
    return import_torch_module(
        model,
        (),
        inputs,
        name or kind,
        first_output=True,
        config=config,
        saved=saved_tensors(model),
    )


def example(model: Any) -> dict[str, Tensor]:  # noqa: ANN401 - a model of transformers
    """Inputs by their names; empty for a model that reads what is not known here."""
    import torch

    config, names = model.config, signature(model.forward).parameters

    def ids(length: int) -> Tensor:
        return torch.arange(ROWS * length).reshape(ROWS, length) % (config.vocab_size - 3) + 3

    match model.main_input_name:
        case "input_ids":
            tensors = {"input_ids": ids(LENGTH)}
            if "attention_mask" in names:
                tensors["attention_mask"] = torch.ones(ROWS, LENGTH, dtype=torch.long)
            if getattr(config, "is_encoder_decoder", False):
                tensors["decoder_input_ids"] = ids(OTHER_LENGTH)
            return tensors
        case "pixel_values":
            size: Any = getattr(config, "image_size", 224)
            shape: list[int] = [size, size] if isinstance(size, int) else list(size)
            channels: int = getattr(config, "num_channels", 3)
            return {"pixel_values": torch.randn(ROWS, channels, *shape)}
        case "input_values" if hasattr(config, "num_mel_bins"):
            return {"input_values": torch.randn(ROWS, config.max_length, config.num_mel_bins)}
        case _:
            return {}


def _config(folder: Path) -> Mapping[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise _refusal(folder, f"it has no {CONFIG}, which says what the model is")
    try:
        config: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise _refusal(folder, f"its {CONFIG} is no JSON") from None
    if not isinstance(config, dict):
        raise _refusal(folder, f"its {CONFIG} is no table of names")
    return cast("dict[str, Any]", config)


def _loaded(kind: Any, folder: Path) -> Any:  # noqa: ANN401 - classes of transformers
    """The model with its weights, computing attention by products that can be read."""
    try:
        model = kind.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, attn_implementation="eager"
        )
    except Exception as error:  # transformers raises of all kinds
        text = (str(error).strip().splitlines() or ["no reason"])[0]
        raise _refusal(folder, f"transformers cannot load it: {text}") from error
    model.config.use_cache = False
    return model.eval()


@contextmanager
def _quiet() -> Generator[None]:
    """Without the bars and the advice of transformers."""
    logging: Any = import_module("transformers.utils.logging")
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        logging.enable_progress_bar()


def _refusal(folder: Path, reason: str, advice: str = "") -> DiagnosticError:
    return DiagnosticError.of(NotLoaded(folder.as_posix(), reason, advice))
